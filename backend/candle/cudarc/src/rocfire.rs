//! What cudarc does not have: kernels by name, for `candle-kernels`.
//!
//! A [`KernelLibrary`] stands where CUDA has a module of PTX. It is asked for one kernel at a time, so that what a model
//! does not use is never compiled. Each kernel says what its arguments are ([`Argument`]), which CUDA's modules do not. So
//! a launch knows what is read and written. Candle uploads a vector of extents and strides for every strided operator; it
//! becomes part of the arguments.

use std::fmt;
use std::sync::Arc;

use rocfire_hal::{Source, Stream};

pub use crate::cublas::result::{Operand, Product, Resolved};
use crate::driver::queue::{self, LauncherCall, Work};
pub use crate::driver::queue::{Kept, Merged, Merger, Node, Operator, Planned, Run, Settled, Touched, Turn, Window};
use crate::driver::sys::CUstream;
use crate::driver::{CudaStream, DriverError, LaunchConfig, Value};

/// Words of an [`Argument::Info`]: Candle sends up to four vectors of one word per axis, so tensors of eight axes fit.
pub const INFO_WORDS: usize = 32;

/// Kernels by name, compiled one by one when first asked for.
pub trait KernelLibrary: Sync {
    /// The kernel that Candle calls `name`; `None` if there is none, which becomes an error that names it.
    fn kernel(&self, name: &str) -> Option<KernelSpec>;

    /// The library's name in messages: Candle's name for the module.
    fn name(&self) -> &'static str;

    /// The merger that says which launches of its kernels can become one. Without it each launch stays alone.
    fn merger(&self) -> Option<&'static dyn Merger> {
        None
    }
}

/// A function that does a kernel's work by calling operators of a library. It gets the launch as Candle asked for it, and runs when
/// the launch's turn comes.
pub type Operate = fn(&Node, &Stream, &Turn) -> Result<(), DriverError>;

/// A function that says which bytes a launch accesses from the address in a slot on; its last argument says whether it writes them.
/// `None` stands for any bytes of that memory.
pub type ExtentOf = fn(&Launch<'_>, usize, bool) -> Option<Extent>;

/// Rows of bytes that are equally far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many rows.
    pub rows: u64,
    /// Bytes of each row.
    pub row_bytes: u64,
    /// Bytes from the first byte of a row to that of the next.
    pub stride_bytes: u64,
}

/// One kernel: its text with macros, or the operators that do its work, and what its arguments are.
#[derive(Clone)]
pub struct KernelSpec {
    /// The source's name in messages; part of the compile cache's key.
    pub file: &'static str,
    /// HIP, compiled behind the prelude; empty for a kernel with [`KernelSpec::operate`].
    pub source: &'static str,
    /// The name of the `extern "C"` entry in `source`.
    pub entry: &'static str,
    /// Macros, name and value.
    pub defines: Vec<(String, String)>,
    /// The number by which the library knows it.
    pub number: usize,
    /// The arguments in order, as Candle pushes them and as the entry takes them.
    pub arguments: Vec<Argument>,
    /// The slot of a slice whose length in elements is passed too: as one more argument of eight bytes, behind those that Candle pushes.
    pub room_of: Option<usize>,
    /// The geometry to launch with in place of Candle's.
    pub geometry: Option<fn(&Launch<'_>) -> LaunchConfig>,
    /// Which bytes from a slot's address on the kernel accesses, where that is less than all of the memory.
    pub extent: Option<ExtentOf>,
    /// What does the kernel's work if it has no text: a graph of `rocfire_fusion`, or operators of `rocfire_kernels`.
    pub operate: Option<Operate>,
}

impl KernelSpec {
    /// A kernel in a text, launched as Candle asks.
    pub fn new(file: &'static str, source: &'static str, entry: &'static str, arguments: Vec<Argument>) -> KernelSpec {
        let (defines, number) = (Vec::new(), 0);
        let (room_of, geometry, extent, operate) = (None, None, None, None);
        KernelSpec { file, source, entry, defines, number, arguments, room_of, geometry, extent, operate }
    }

    /// The same with one more macro.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> KernelSpec {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// The same, with the length of the slice in a slot as one more argument.
    #[must_use]
    pub fn with_room_of(self, slot: usize) -> KernelSpec {
        KernelSpec { room_of: Some(slot), ..self }
    }

    /// The same, launched in a geometry of its own.
    #[must_use]
    pub fn with_geometry(self, geometry: fn(&Launch<'_>) -> LaunchConfig) -> KernelSpec {
        KernelSpec { geometry: Some(geometry), ..self }
    }

    /// The same with a function that says which bytes it accesses.
    #[must_use]
    pub fn with_extent(self, extent: ExtentOf) -> KernelSpec {
        KernelSpec { extent: Some(extent), ..self }
    }

    /// A kernel without a text, whose work `operate` does.
    pub fn by_operators(arguments: Vec<Argument>, operate: Operate) -> KernelSpec {
        KernelSpec { operate: Some(operate), ..KernelSpec::new("", "", "", arguments) }
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
    /// The vector of extents and strides, by value, [`INFO_WORDS`] words of eight bytes; zeros where
    /// Candle passes null, and behind its end.
    Info,
    /// An address on the device that is read: of a slice, a view, or a bare number.
    Read,
    /// An address whose memory is written, and not read before.
    Write,
    /// An address whose memory is read and written.
    ReadWrite,
    /// A number of that many bytes, aligned to its size.
    Scalar(u8),
}

/// A launch as Candle asked for it, from which [`KernelSpec::geometry`] and [`KernelSpec::extent`] are computed.
pub struct Launch<'a> {
    pub(crate) asked: LaunchConfig,
    pub(crate) values: &'a [Value<'a>],
}

impl Launch<'_> {
    /// Candle's geometry.
    pub fn config(&self) -> LaunchConfig {
        self.asked
    }

    /// The integer of up to eight bytes in a slot; 0 where there is none.
    pub fn integer(&self, slot: usize) -> u64 {
        let mut word = [0; 8];
        match self.values.get(slot) {
            Some(Value::Number(number)) if number.bytes.len() <= word.len() => {
                word[..number.bytes.len()].copy_from_slice(number.bytes);
            }
            _ => {}
        }
        u64::from_le_bytes(word)
    }
}

/// A kernel that a launcher of `candle_kernels::ffi` launches.
#[derive(Clone, Copy)]
pub struct OwnKernel<'a> {
    /// Its name in messages and for mergers.
    pub name: &'static str,
    /// A number by which mergers tell kernels of that name apart.
    pub tag: u64,
    /// The kernel's text.
    pub source: &'a Source,
    /// The name of the kernel in the text.
    pub entry: &'a str,
    /// Its geometry.
    pub config: LaunchConfig,
    /// Its arguments, each at a multiple of its alignment.
    pub bytes: &'a [u8],
    /// The byte at which each argument begins.
    pub at: &'a [u16],
}

/// The stream that a launcher of `candle_kernels::ffi` was given as a number, and what it may do there.
pub struct Call {
    stream: Arc<CudaStream>,
}

impl Call {
    /// The call on the stream that Candle gave as a number; `None` unless it is a live one.
    pub fn on(number: CUstream) -> Option<Call> {
        CudaStream::of_number(number).map(|stream| Call { stream })
    }

    /// Memory and stream for work that does not wait.
    pub fn settled(&self) -> Settled<'_> {
        self.stream.settled()
    }

    /// The live memory that an address leads into, and the byte in it. `name` is the argument's name in the error.
    ///
    /// # Errors
    /// The address leads into no live memory.
    pub fn memory(&self, name: &str, address: u64) -> Result<(Kept, u64), DriverError> {
        let wrong = || DriverError::new(format!("{name}: {address:#x} is no address of live memory"));
        self.stream.context().shared().memory_at(address).ok_or_else(wrong)
    }

    /// Launches a kernel, or lets it wait with Candle's own launches.
    ///
    /// # Errors
    /// The compiler's messages; if it does not wait, the launch's own.
    ///
    /// # Safety
    /// - The arguments are what the kernel takes.
    /// - It accesses what `touched` says, and nothing else.
    pub unsafe fn launch(&self, kernel: OwnKernel<'_>, touched: Vec<Touched>) -> Result<(), DriverError> {
        let OwnKernel { name, tag, source, entry, config, bytes, at } = kernel;
        let context = self.stream.context();
        let function = context.opened().function(source, entry)?;
        if !context.shared().has_queue() || !config.is_never_refused() {
            let settled = self.settled();
            let written = touched.iter().filter(|touched| touched.access.is_written);
            let outputs = written.map(|written| settled.buffer(&written.memory)).collect::<Result<Vec<_>, _>>()?;
            // SAFETY: the caller's duties.
            return unsafe { queue::put(context.opened(), &function, name, config, bytes, &outputs) };
        }
        let own = LauncherCall { name, tag, function, config, bytes: bytes.to_vec(), at: at.to_vec() };
        context.shared().wait(Node::new(Work::Launcher(own), touched));
        Ok(())
    }

    /// Keeps what failed, for the next call on the device that can return an error: the launchers themselves cannot.
    pub fn record<T>(&self, result: Result<T, DriverError>) {
        self.stream.context().record_err(result);
    }
}
