//! Foreign libraries, opened at run time: a library, and the macro that makes a table of its functions.
//!
//! The tables themselves are the only places that call foreign functions; they are in `hip/sys/` and `cuda/sys/`, a file
//! per library, and `collective/sys.rs` for the one interface that both platforms have. A function is looked for when it is
//! first called, so that a library which lacks one that is not used still serves. Libraries are never closed: their threads
//! outlive whoever would close them.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

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

/// Defines a table: a struct over a library with a method per function, which looks for it at its first call.
macro_rules! table {
    ($(#[$table_doc:meta])* $table:ident { $($(#[$doc:meta])* fn $function:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty;)* }) => {
        $(#[$table_doc])*
        #[allow(non_snake_case, reason = "the library's own names")]
        pub struct $table {
            library: $crate::foreign::Library,
            $($function: std::sync::OnceLock<Option<unsafe extern "C" fn($($type),*) -> $result>>,)*
        }

        #[allow(non_snake_case, reason = "the library's own names")]
        #[allow(clippy::too_many_arguments, reason = "the library's own arguments")]
        impl $table {
            /// The table over a library.
            pub fn new(library: $crate::foreign::Library) -> Self {
                Self { library, $($function: std::sync::OnceLock::new(),)* }
            }

            /// The library.
            #[allow(dead_code, reason = "not every driver asks where its library was found")]
            pub fn library(&self) -> &$crate::foreign::Library {
                &self.library
            }

            $($(#[$doc])*
            ///
            /// # Safety
            /// - The arguments are as the library's documentation demands.
            pub unsafe fn $function(&self, $($arg: $type),*) -> $crate::Result<$result> {
                // SAFETY: the type is the library's, in every version that is supported.
                let found = || unsafe { self.library.function(stringify!($function)) };
                match self.$function.get_or_init(found) {
                    // SAFETY: the arguments are the caller's duty.
                    Some(function) => Ok(unsafe { function($($arg),*) }),
                    None => Err($crate::Error::MissingSymbol {
                        library: self.library.path().to_owned(),
                        symbol: stringify!($function),
                    }),
                }
            })*
        }
    };
}
pub(crate) use table;
