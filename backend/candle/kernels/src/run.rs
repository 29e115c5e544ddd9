//! Launches of kernels that Candle does not load by name: those of the launchers in [`crate::ffi`], and those of names that take
//! several launches.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use cudarc::driver::{DriverError, LaunchConfig};
use cudarc::rocfire::{Call, KernelSpec, OwnKernel, Touched};
use rocfire_hal::profile::Work;
use rocfire_hal::{Buffer, Launch, Source, Stream};

use crate::family::quantized::{Gguf, TYPES};

/// The key of a kernel's source: its use, the quantised type, the element type, and rows of activations. What does not apply is
/// empty or 0.
pub(crate) type Key = (Use, &'static str, &'static str, usize);

/// What a kernel made from a template does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Quantise,
    MatVec,
    CodesToF16,
    ScaleRows,
    Moe,
    MoeGather,
    MoeScatter,
}

impl Use {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Use::Quantise => "quantise",
            Use::MatVec => "mat_vec",
            Use::CodesToF16 => "codes_to_f16",
            Use::ScaleRows => "scale_rows",
            Use::Moe => "moe_gemm",
            Use::MoeGather => "moe_gather",
            Use::MoeScatter => "moe_scatter",
        }
    }
}

/// The entry's name of all these kernels: each is compiled to a module of its own.
pub(crate) const ENTRY: &str = "candle_kernel";

/// The source of a kernel, made from `spec` and hashed when it is first wanted.
pub(crate) fn source(key: Key, spec: impl FnOnce() -> KernelSpec) -> &'static Source {
    static SOURCES: LazyLock<RwLock<HashMap<Key, &'static Source>>> = LazyLock::new(RwLock::default);
    if let Some(source) = SOURCES.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return source;
    }
    let mut sources = SOURCES.write().unwrap_or_else(PoisonError::into_inner);
    sources.entry(key).or_insert_with(|| {
        let spec = spec().define("CANDLE_NAME", ENTRY);
        let defines: Vec<_> = spec.defines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // There is one per kernel, and it is wanted as long as the process lives.
        Box::leak(Box::new(Source::new(spec.file, spec.source, &defines)))
    })
}

/// The bytes of a kernel's arguments, each argument at the next multiple of its size.
pub(crate) struct Args {
    bytes: [u8; Args::BYTES],
    used: usize,
    /// The byte at which each argument begins.
    at: [u16; Args::COUNT],
    count: usize,
}

impl Args {
    /// Bytes and arguments that are enough for every kernel here.
    const BYTES: usize = 96;
    const COUNT: usize = 12;

    pub(crate) fn new() -> Args {
        Args { bytes: [0; Args::BYTES], used: 0, at: [0; Args::COUNT], count: 0 }
    }

    /// Adds an argument of eight bytes: an address or a size.
    pub(crate) fn word(mut self, word: u64) -> Args {
        self.used = self.used.next_multiple_of(8);
        self.put(&word.to_le_bytes());
        self
    }

    /// Adds an argument of four bytes.
    pub(crate) fn int(mut self, int: i32) -> Args {
        self.put(&int.to_le_bytes());
        self
    }

    fn put(&mut self, bytes: &[u8]) {
        self.at[self.count] = self.used as u16;
        self.count += 1;
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }
}

/// Launches a kernel on the stream, now.
///
/// # Safety
/// - The arguments are what the kernel takes, and the memory that they lead to is live and covers what it accesses.
/// - `outputs` are what it writes.
pub(crate) unsafe fn launch(
    stream: &Stream,
    key: Key,
    source: &Source,
    config: LaunchConfig,
    args: &Args,
    outputs: &[&Buffer],
) -> Result<(), DriverError> {
    let function = stream.device().function(source, ENTRY)?;
    let ((x, y, z), (threads_x, threads_y, threads_z)) = (config.grid_dim, config.block_dim);
    let launch = Launch {
        label: key.0.name(),
        grid: [x, y, z],
        block: [threads_x, threads_y, threads_z],
        lds_bytes: config.shared_mem_bytes,
        args: &args.bytes[..args.used],
        outputs,
        work: Work::default(),
    };
    // SAFETY: the caller's duties are those of the stream.
    unsafe { stream.launch(&function, &launch)? };
    Ok(())
}

/// What tells the kernels of mat-vecs apart.
#[derive(Clone, Copy)]
pub(crate) struct MatVecKind {
    pub gguf: Gguf,
    /// The results' type in device code.
    pub out: &'static str,
    pub rows: usize,
}

impl MatVecKind {
    const OUTS: [&'static str; 3] = ["float", "f16", "bf16"];

    /// A number that stands for the kind: the type, the results' type, and rows in the low byte.
    pub(crate) fn tag(self) -> u64 {
        let place = |found: Option<usize>| found.expect("the tables have every type") as u64;
        let out = place(MatVecKind::OUTS.iter().position(|&out| out == self.out));
        let gguf = place(TYPES.iter().position(|&gguf| gguf == self.gguf));
        (gguf * 4 + out) << 8 | self.rows as u64
    }

    /// The kind that a number stands for; `None` for a number that [`MatVecKind::tag`] does not give.
    pub(crate) fn of_tag(tag: u64) -> Option<MatVecKind> {
        let (types, rows) = ((tag >> 8) as usize, (tag & 0xff) as usize);
        Some(MatVecKind { gguf: *TYPES.get(types / 4)?, out: MatVecKind::OUTS.get(types % 4)?, rows })
    }
}

/// Launches a kernel, or lets it wait with Candle's own launches; `tag` tells kernels of one use apart.
///
/// # Safety
/// - The arguments are what the kernel takes.
/// - It accesses what `touched` says, and nothing else.
pub(crate) unsafe fn wait(
    call: &Call,
    key: Key,
    tag: u64,
    source: &'static Source,
    config: LaunchConfig,
    args: &Args,
    touched: Vec<Touched>,
) -> Result<(), DriverError> {
    let (bytes, at) = (&args.bytes[..args.used], &args.at[..args.count]);
    let kernel = OwnKernel { name: key.0.name(), tag, source, entry: ENTRY, config, bytes, at };
    // SAFETY: the caller's duties.
    unsafe { call.launch(kernel, touched) }
}
