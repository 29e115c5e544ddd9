//! What can go wrong between a tensor and its device.

use std::path::PathBuf;
use std::sync::Arc;

use rocfire_arch::Arch;

use crate::{DType, DriverKind, Fault, IndexFault};

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. The message names the call, the argument and the figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// None of the candidates for a library could be opened. Not a bug: it is not installed.
    #[error("cannot load {library}: tried {tried}")]
    Load {
        /// Name of the library.
        library: &'static str,
        /// What was tried, each with the loader's reason.
        tried: String,
    },
    /// A library was opened but lacks a function: its version is too old, or too new.
    #[error("{library} has no {symbol}")]
    MissingSymbol {
        /// Path or name of the library.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// The driver is there, the device is not. Not a bug.
    #[error("no {driver} device{}: {reason}", ordinal.map(|n| format!(" {n}")).unwrap_or_default())]
    NoDevice {
        /// The driver that was asked.
        driver: DriverKind,
        /// The device that was asked for, `None` for any.
        ordinal: Option<u16>,
        /// What the driver said or what was counted.
        reason: String,
    },
    /// The driver is not part of this build.
    #[error("{driver}: {reason}")]
    NoDriver {
        /// The driver that was asked for.
        driver: DriverKind,
        /// Why it is not there.
        reason: &'static str,
    },
    /// A call into the driver failed.
    #[error("{call} failed: {name} ({code})")]
    Driver {
        /// The function.
        call: &'static str,
        /// The driver's name for the code, or its message.
        name: String,
        /// The driver's code.
        code: i32,
    },
    /// A sticky fault; every later call on this device fails too.
    #[error("device lost in {call}: {name} ({code}){history}")]
    DeviceLost {
        /// The function.
        call: &'static str,
        /// The driver's name for the code.
        name: String,
        /// The driver's code.
        code: i32,
        /// The last launches, newest first, one a line.
        history: String,
    },
    /// A launch failed after it was accepted. It poisoned its outputs; reading them gives this.
    #[error("{0}")]
    Fault(Arc<Fault>),
    /// An index outside its axis, found by a kernel since the last report. Reads gave zeros for it, updates skipped it, and the device
    /// goes on.
    #[error("{0}")]
    Index(IndexFault),
    /// Something that no graph can do, while one was recorded. The graph is not made.
    #[error("{what}: this cannot be part of a graph that is being captured")]
    Capture {
        /// What was tried, and after which operator.
        what: String,
    },
    /// The device, or the cap on the pool, has no room. The device stays usable.
    #[error(
        "out of memory: {requested_bytes} bytes asked for; live {live_bytes}, reserved {reserved_bytes}, \
         limit {limit_bytes} bytes"
    )]
    OutOfMemory {
        /// What was asked for.
        requested_bytes: u64,
        /// What is in use.
        live_bytes: u64,
        /// What the pool holds of the driver's memory, unused blocks included.
        reserved_bytes: u64,
        /// The device's memory, or the cap on the pool where that is smaller.
        limit_bytes: u64,
    },
    /// No compiler can serve the target; says what was looked for, where, and why each was refused.
    #[error("no compiler for {arch}: {searched}")]
    NoCompiler {
        /// The architecture.
        arch: Arch,
        /// What was looked for, with reasons.
        searched: String,
    },
    /// The compiler knows neither the architecture nor its family's generic target.
    #[error(
        "{compiler} can compile neither for {arch} nor for {}",
        generic.unwrap_or("a generic target, which this family does not have")
    )]
    ArchRefused {
        /// The compiler.
        compiler: String,
        /// The architecture.
        arch: Arch,
        /// The family's generic target.
        generic: Option<&'static str>,
    },
    /// A kernel did not compile. A bug in the kernel, or in what generated it.
    #[error("{kernel} did not compile for {arch}:\n{log}")]
    Compile {
        /// Name of the source.
        kernel: String,
        /// The architecture.
        arch: Arch,
        /// What the compiler printed.
        log: String,
    },
    /// A code object cannot be used: not an ELF file of AMD's, or without metadata.
    #[error("{name}: bad code object: {reason}")]
    CodeObject {
        /// The source's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A kernel pack that cannot be used. What is in it is compiled, where there is a compiler.
    #[error("kernel pack {}: {reason}", path.display())]
    Pack {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where it matters what was expected.
        reason: String,
    },
    /// A code object has no kernel of this name.
    #[error("{module} has no kernel {kernel}; it has {has}")]
    NoKernel {
        /// The source's name.
        module: String,
        /// The name that was asked for.
        kernel: String,
        /// The names there are.
        has: String,
    },
    /// The argument struct is not the one the kernel was compiled with. A bug in the launcher.
    #[error("{op}: {kernel} takes {expected_bytes} bytes of arguments, got {got_bytes}")]
    Arguments {
        /// The operator.
        op: &'static str,
        /// The kernel.
        kernel: String,
        /// As the code object says.
        expected_bytes: u32,
        /// As the launcher gave.
        got_bytes: usize,
    },
    /// The grid, the block or the LDS is more than the kernel or the device can have, or zero. A bug in the launcher.
    #[error("{op}: {kernel}: {what} must be {expected}, got {got}")]
    LaunchShape {
        /// The operator.
        op: &'static str,
        /// The kernel.
        kernel: String,
        /// The quantity.
        what: &'static str,
        /// What it may be.
        expected: String,
        /// What it was.
        got: String,
    },
    /// An argument of an operator has the wrong shape.
    #[error("{op}: {arg} must be {expected}, got {got}")]
    Shape {
        /// The operator.
        op: &'static str,
        /// The argument.
        arg: &'static str,
        /// What it must be.
        expected: String,
        /// What it was.
        got: String,
    },
    /// More axes than [`crate::MAX_RANK`].
    #[error("a tensor has at most {max} axes, got {rank}", max = crate::MAX_RANK)]
    Rank {
        /// The number of axes.
        rank: usize,
    },
    /// A view would touch bytes outside its buffer.
    #[error("view of {shape} {dtype} at elements {first}..{end} is not inside its buffer of {buffer_bytes} bytes")]
    OutOfBounds {
        /// The shape.
        shape: String,
        /// The element type.
        dtype: DType,
        /// The first element touched.
        first: i64,
        /// One past the last element touched.
        end: i64,
        /// The size of the buffer.
        buffer_bytes: u64,
    },
    /// Two arguments live on different devices.
    #[error("{op}: {arg} is on {got}, not on {expected}")]
    DeviceMismatch {
        /// The operator.
        op: &'static str,
        /// The argument.
        arg: &'static str,
        /// Where it must be.
        expected: String,
        /// Where it is.
        got: String,
    },
    /// No kernel for this element type on this architecture.
    #[error("{op} has no {dtype} kernel for {arch}")]
    Unsupported {
        /// The operator.
        op: &'static str,
        /// The element type.
        dtype: DType,
        /// The architecture.
        arch: Arch,
    },
    /// A setting has a value that it cannot have.
    #[error("{name}={value:?}: expected {expected}")]
    Config {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// A name that is no architecture.
    #[error(transparent)]
    Arch(#[from] rocfire_arch::Error),
    /// A file or a process of ours.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `write`, `run`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// An [`Error::Shape`], for the launchers of operators.
    pub fn shape(op: &'static str, arg: &'static str, expected: impl ToString, got: impl ToString) -> Error {
        Error::Shape { op, arg, expected: expected.to_string(), got: got.to_string() }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io { action, path: path.into(), source }
    }
}
