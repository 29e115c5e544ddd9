//! What is ours here and not cudarc's: kernels by name, for `candle-kernels`.
//!
//! A [`KernelLibrary`] stands where CUDA has a module of PTX. It is asked for one kernel at a time, so that what a model
//! does not use is never compiled. Each kernel says what its arguments are ([`Argument`]), which CUDA's modules do not: so
//! a launch knows what is read and written, and puts the vector of extents and strides that Candle uploads for every
//! strided operator into the arguments themselves.

use std::fmt;

use rocfire_hal::{Buffer, DType, Tensor};

use crate::driver::{DriverError, LaunchConfig};

/// Words of an [`Argument::Info`]: Candle sends up to four vectors of one word per axis, so tensors of eight axes fit.
pub const INFO_WORDS: usize = 32;

/// Kernels by name, compiled one by one when first asked for.
pub trait KernelLibrary: Sync {
    /// The kernel that Candle calls `name`; `None` if there is none, which is an error that names it.
    fn kernel(&self, name: &str) -> Option<KernelSpec>;

    /// What messages call the library: Candle's name for the module.
    fn name(&self) -> &'static str;
}

/// One kernel: its text, the entry's name in it, macros, and what its arguments are.
#[derive(Clone)]
pub struct KernelSpec {
    /// The source's name, for messages; part of the cache's key.
    pub file: &'static str,
    /// HIP, compiled behind the prelude; empty for a kernel with [`KernelSpec::host`].
    pub source: &'static str,
    /// The name of the `extern "C"` entry in `source`.
    pub entry: &'static str,
    /// Macros, name and value.
    pub defines: Vec<(String, String)>,
    /// The arguments in order, as Candle pushes them and as the entry takes them.
    pub arguments: Vec<Argument>,
    /// The geometry to launch with in place of Candle's.
    pub geometry: Option<fn(&Launch<'_>) -> LaunchConfig>,
    /// What does the kernel's work where one launch is not enough: operators of `rocfire_kernels`, or several launches.
    pub host: Option<fn(&Launch<'_>) -> Result<(), DriverError>>,
}

impl KernelSpec {
    /// A kernel in a text, launched as Candle asks.
    pub fn new(file: &'static str, source: &'static str, entry: &'static str, arguments: Vec<Argument>) -> KernelSpec {
        KernelSpec { file, source, entry, defines: Vec::new(), arguments, geometry: None, host: None }
    }

    /// The same with one more macro.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> KernelSpec {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// The same, launched in a geometry of its own.
    #[must_use]
    pub fn with_geometry(self, geometry: fn(&Launch<'_>) -> LaunchConfig) -> KernelSpec {
        KernelSpec { geometry: Some(geometry), ..self }
    }

    /// A kernel that is a function of the host.
    pub fn on_host(
        file: &'static str,
        arguments: Vec<Argument>,
        run: fn(&Launch<'_>) -> Result<(), DriverError>,
    ) -> KernelSpec {
        KernelSpec { host: Some(run), ..KernelSpec::new(file, "", "", arguments) }
    }
}

impl fmt::Debug for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelSpec({} {} {:?} {:?})", self.file, self.entry, self.defines, self.arguments)
    }
}

/// What an argument of a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The vector of extents and strides, by value as `struct Info { unsigned long long v[INFO_WORDS]; }`; zeros where
    /// Candle passes null, and behind its end.
    Info,
    /// An address on the device that is read: of a slice, a view, or a bare number.
    Read,
    /// One that is written, and not read before.
    Write,
    /// One that is read and written.
    ReadWrite,
    /// A number of that many bytes, aligned to its size.
    Scalar(u8),
}

/// A launch as Candle asked for it: what a geometry, or a kernel on the host, sees.
pub struct Launch<'a> {
    pub(crate) asked: LaunchConfig,
    pub(crate) stream: &'a rocfire_hal::Stream,
    pub(crate) values: &'a [Value],
}

/// An argument that was pushed.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Bytes of a number, in the first of eight.
    Number([u8; 8]),
    /// Memory, and the byte in it that the address leads to.
    Memory(Buffer, u64),
    /// Extents and strides.
    Info(std::sync::Arc<[usize]>),
}
