//! Launches that do not come from Candle's `load_function`: of the launchers in [`crate::ffi`], and several behind one name.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use cudarc::driver::{DriverError, LaunchConfig};
use cudarc::rocfire::KernelSpec;
use rocfire_hal::profile::Work;
use rocfire_hal::{Buffer, Launch, Source, Stream};

/// Which kernel: the template's use, the quantised type, the element type, and rows.
pub(crate) type Key = (Use, &'static str, &'static str, usize);

/// What a kernel is launched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Quantise,
    MatVec,
    Dequantise,
    CodesToF16,
    ScaleRows,
    Moe,
    MoeAlign,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Use::Quantise => "quantise",
            Use::MatVec => "mat_vec",
            Use::Dequantise => "dequantise",
            Use::CodesToF16 => "codes_to_f16",
            Use::ScaleRows => "scale_rows",
            Use::Moe => "moe_gemm",
            Use::MoeAlign => "moe_align",
        }
    }
}

/// The entry's name of all of them: each has a module of its own.
const ENTRY: &str = "candle_kernel";

/// The source of a kernel, made and hashed once.
pub(crate) fn source(key: Key, spec: impl FnOnce() -> KernelSpec) -> &'static Source {
    static SOURCES: LazyLock<RwLock<HashMap<Key, &'static Source>>> = LazyLock::new(RwLock::default);
    if let Some(source) = SOURCES.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return source;
    }
    let mut sources = SOURCES.write().unwrap_or_else(PoisonError::into_inner);
    sources.entry(key).or_insert_with(|| {
        let spec = spec().define("CANDLE_NAME", ENTRY);
        let defines: Vec<_> = spec.defines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // There are as many as kernels, and they are wanted as long as the process lives.
        Box::leak(Box::new(Source::new(spec.file, spec.source, &defines)))
    })
}

/// Arguments of a kernel, each at the next multiple of its size.
pub(crate) struct Args {
    bytes: [u8; Args::BYTES],
    used: usize,
}

impl Args {
    /// More than any of the kernels here takes.
    const BYTES: usize = 96;

    pub(crate) fn new() -> Args {
        Args { bytes: [0; Args::BYTES], used: 0 }
    }

    /// An address or a size.
    pub(crate) fn word(mut self, word: u64) -> Args {
        self.used = self.used.next_multiple_of(8);
        self.put(&word.to_le_bytes());
        self
    }

    pub(crate) fn int(mut self, int: i32) -> Args {
        self.put(&int.to_le_bytes());
        self
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }
}

/// Launches a kernel.
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
    let function = stream.device().module(source)?.function(ENTRY)?;
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
