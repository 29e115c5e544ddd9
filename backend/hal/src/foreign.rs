//! Foreign libraries, opened at run time: a library, and the macro that makes a table of its functions.
//!
//! The tables themselves are the only places that call foreign functions. `gpu/sys/` has those of the interfaces that AMD's and
//! NVIDIA's libraries share under names of their own, `hip/sys/` and `cuda/sys/` what only one of them has, `collective/sys.rs`
//! the interface that is the same in both. A function is looked for when it is first called, so that a library which lacks one
//! that is not used still serves. Libraries are never closed: their threads outlive whoever would close them.

use std::ffi::{CStr, c_char, c_int, c_void};
#[cfg(feature = "hip")]
use std::path::Path;
use std::path::PathBuf;

use crate::{Error, Result};

/// A status of any of the libraries.
pub(crate) type Status = c_int;
/// Success in all of them.
pub(crate) const SUCCESS: Status = 0;
/// The function that was called, by the library's own name, and what it answered.
pub(crate) type Answer<T = Status> = Result<(&'static str, T)>;

/// A handle of a library's. The libraries may be called from any thread.
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub *mut c_void);

// SAFETY: handles are tokens; the libraries take them from any thread, and are thread-safe themselves.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A text of a library's; `None` for null.
pub(crate) fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the libraries' texts are static and end with a zero; null was excluded.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// The text that a field of bytes begins with.
pub(crate) fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// Where a library may be: in these folders of what is installed, then wherever the loader looks.
pub(crate) fn candidates(roots: Vec<PathBuf>, folders: &[&str], names: &[&str]) -> Vec<PathBuf> {
    let installed = roots.iter().flat_map(|root| folders.iter().map(|folder| root.join(folder)));
    let in_folder = |folder: PathBuf| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>();
    installed.flat_map(in_folder).filter(|path| path.is_file()).chain(names.iter().map(PathBuf::from)).collect()
}

/// An open library.
pub struct Library {
    path: String,
    handle: libloading::Library,
}

impl Library {
    /// The first of the candidates that can be opened: a path, or a name for the loader's own search.
    pub fn open(library: &'static str, candidates: &[PathBuf]) -> Result<Library> {
        let mut tried = Vec::new();
        for path in candidates {
            // SAFETY: opening runs the library's initialisers; these are AMD's and
            // NVIDIA's, which may be opened at any time.
            match unsafe { libloading::Library::new(path) } {
                Ok(handle) => return Ok(Library { path: path.display().to_string(), handle }),
                Err(error) => tried.push(format!("{} ({error})", path.display())),
            }
        }
        Err(Error::Load { library, tried: tried.join("; ") })
    }

    /// What it was opened by.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The folder it was opened from, where that was said.
    #[cfg(feature = "hip")]
    pub fn folder(&self) -> Option<&Path> {
        Path::new(&self.path).parent().filter(|folder| !folder.as_os_str().is_empty())
    }

    /// A function, `None` where there is none of this name.
    ///
    /// # Safety
    /// - `F` is the function's type.
    pub unsafe fn function<F: Copy>(&self, name: &'static str) -> Option<F> {
        // SAFETY: the type is the caller's duty.
        let symbol = unsafe { self.handle.get::<F>(name) };
        symbol.ok().map(|symbol| *symbol)
    }

    /// Whether there is a function of this name.
    pub fn has(&self, name: &'static str) -> bool {
        // SAFETY: the function is not called, so its type does not matter.
        unsafe { self.function::<unsafe extern "C" fn()>(name) }.is_some()
    }
}

/// Defines a table: a struct over a library with a method per function, which looks for it at its first call, and gives the
/// name that was called with the answer. A function goes by the library's own name; in the table of an interface that AMD's and
/// NVIDIA's libraries share it has AMD's name and NVIDIA's behind it, in this order.
macro_rules! table {
    (@ $(#[$table_doc:meta])* $table:ident {
        $($(#[$doc:meta])* fn $function:ident($($arg:ident: $type:ty),*) -> $result:ty = $($name:expr),+;)*
    }) => {
        $(#[$table_doc])*
        #[allow(non_snake_case, reason = "the library's own names")]
        pub struct $table {
            library: std::sync::Arc<$crate::foreign::Library>,
            /// Which of a function's names is the library's.
            naming: usize,
            $($function: std::sync::OnceLock<Option<unsafe extern "C" fn($($type),*) -> $result>>,)*
        }

        #[allow(non_snake_case, reason = "the library's own names")]
        #[allow(clippy::too_many_arguments, reason = "the library's own arguments")]
        impl $table {
            fn named(library: std::sync::Arc<$crate::foreign::Library>, naming: usize) -> Self {
                Self { library, naming, $($function: std::sync::OnceLock::new(),)* }
            }

            /// The library.
            #[allow(dead_code, reason = "not everybody asks where a library was found")]
            pub fn library(&self) -> &$crate::foreign::Library {
                &self.library
            }

            $($(#[$doc])*
            ///
            /// # Safety
            /// - The arguments are as the library's documentation demands.
            pub unsafe fn $function(&self, $($arg: $type),*) -> $crate::foreign::Answer<$result> {
                const NAMES: &[&str] = &[$($name),+];
                let name = NAMES[self.naming];
                // SAFETY: the type is the library's, in every version that is supported.
                let found = || unsafe { self.library.function(name) };
                match self.$function.get_or_init(found) {
                    // SAFETY: the arguments are the caller's duty.
                    Some(function) => Ok((name, unsafe { function($($arg),*) })),
                    None => Err($crate::Error::MissingSymbol { library: self.library.path().to_owned(), symbol: name }),
                }
            })*
        }
    };
    ($(#[$table_doc:meta])* $table:ident {
        $($(#[$doc:meta])* fn $function:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)*
    }) => {
        $crate::foreign::table! { @ $(#[$table_doc])* $table {
            $($(#[$doc])* fn $function($($arg: $type),*) -> $result = stringify!($function);)*
        } }

        impl $table {
            /// The table over a library.
            pub fn new(library: impl Into<std::sync::Arc<$crate::foreign::Library>>) -> Self {
                Self::named(library.into(), 0)
            }
        }
    };
    ($(#[$table_doc:meta])* $table:ident {
        $($(#[$doc:meta])* fn $function:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty = $amd:literal, $nvidia:literal;)*
    }) => {
        $crate::foreign::table! { @ $(#[$table_doc])* $table {
            $($(#[$doc])* fn $function($($arg: $type),*) -> $result = $amd, $nvidia;)*
        } }

        impl $table {
            /// The table over a library, by the names of its vendor.
            pub fn new(library: impl Into<std::sync::Arc<$crate::foreign::Library>>, vendor: rocfire_arch::Vendor) -> Self {
                Self::named(library.into(), match vendor {
                    rocfire_arch::Vendor::Amd => 0,
                    rocfire_arch::Vendor::Nvidia => 1,
                })
            }
        }
    };
}
pub(crate) use table;
