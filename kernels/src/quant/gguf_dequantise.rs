//! `gguf_dequantise`: the launcher of `gguf_dequantise.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::gguf::{Gguf, GgufMatrices};
use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};

const OP: &str = "gguf_dequantise";
/// Weights of a run of `gguf.h`.
const RUN: usize = 16;
/// Waves of a workgroup with units of their own: `SIDE`.
const SIDE: usize = 4;

/// How units are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Way {
    /// Whether waves share units, each a run of them: LDS and registers then leave room for four times as many waves.
    is_shared: bool,
    /// Whether blocks go through LDS.
    is_staged: bool,
}

impl Way {
    /// On AMD's cards waves share units. On NVIDIA's a wave for itself waits for nobody, and L1 has the rest of a line that a lane reads: on an
    /// H200 in us, 4096 x 14336 in Q4_K, Q6_K and Q8_0: 39, 52, 46, shared 45, 49, 53.
    pub(super) fn of(info: &ArchInfo, is_dense: bool) -> Way {
        let is_shared = info.matrix != Matrix::MmaSync;
        Way { is_shared, is_staged: is_shared && is_dense }
    }
}

/// The weights of matrices in blocks of GGUF: `x = scale · code + offset`.
///
/// # Shapes
/// `w`: `[groups, N, bytes of K weights]`; `x`: `[groups, N, K]`, any strides.
/// # Types
/// `x` of f32, f16 or bf16; every type of GGUF.
/// # Numerics
/// In f32, one rounding to the type of `x`.
/// # Errors
/// `Shape` for blocks and `x` that do not fit, `Unsupported` for another type of `x`.
/// # Source
/// The blocks: ggml's `ggml-common.h`.
pub fn gguf_dequantise(stream: &Stream, w: &GgufMatrices<'_>, mut x: ViewMut<'_>) -> Result<()> {
    if !matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: x.dtype(), arch: x.arch() }.into());
    }
    family::on_device(OP, "x", stream, &x)?;
    family::on_device(OP, "blocks", stream, &w.blocks)?;
    let whole = x.view();
    let [count, k, n] = w.check(OP, &whole, &x)?;
    if x.shape() != [count, n, k] {
        return Err(shape(OP, "x", format!("[{count}, {n}, {k}]"), format!("{:?}", x.shape())));
    }
    family::writable(OP, "x", &x)?;
    if x.is_empty() {
        return Ok(());
    }
    if x.layout().is_contiguous() && x.device_address().is_multiple_of(16) {
        return write_out(stream, w, [count, k, n], x.view());
    }
    let dense = rocfire_hal::Tensor::empty(x.device(), x.shape(), x.dtype())?;
    write_out(stream, w, [count, k, n], dense.view())?;
    family::copy_into(stream, dense.view(), x.reborrow())
}

/// The same to a dense `x`, both checked. `extents`: matrices, K, N.
pub(super) fn write_out(stream: &Stream, w: &GgufMatrices<'_>, extents: [usize; 3], x: View<'_>) -> Result<()> {
    let [count, k, n] = extents;
    let in_line = k / w.kind.unit();
    let units = count * n * in_line;
    if units >= BOX_LIMIT {
        let expected = format!("fewer than {BOX_LIMIT} units of {} weights", w.kind.unit());
        return Err(shape(OP, "x", expected, format!("{:?}", x.shape())));
    }
    let info = stream.device().arch().info();
    let (strides, line_bytes) = (w.blocks.layout().strides(), w.blocks.shape()[2]);
    let is_next = |stride: i64, extent: usize, bytes: usize| extent == 1 || stride == bytes as i64;
    let is_dense = is_next(strides[1], n, line_bytes) && is_next(strides[0], count, n * line_bytes);
    let way = Way::of(info, is_dense);
    static SOURCES: Sources<(DType, Gguf, Way)> = Sources::new();
    let source = SOURCES.get((x.dtype(), w.kind, way), |(dtype, kind, way)| source(dtype, kind, way));
    let args = GgufDequantiseArgs {
        x: x.device_address(),
        words: w.blocks.device_address(),
        w_matrix: strides[0],
        w_line: strides[1],
        bytes: (count * n * line_bytes) as i64,
        line_units: FastDiv::new(in_line),
        lines_each: FastDiv::new(n),
        units: units as u32,
        padding: 0,
    };
    let wave = info.wave_size as usize;
    let [side, waves] = if way.is_shared { [1, w.kind.unit() / RUN] } else { [SIDE; 2] };
    let (grid, block) = ([units.div_ceil(side * wave), 1, 1], [waves * wave, 1, 1]);
    // A profile shows by the shape whether a weight is written out.
    let work = Work { category: Category::Elementwise, shape: x.shape(), ..Work::default() };
    let launch = KernelLaunch::new(stream, &source, (OP, OP), grid, block).with(0, work);
    // SAFETY:
    // - `GgufDequantiseArgs` is the twin of the kernel's struct, sizes asserted on both sides. It reads the units of lines of blocks that
    //   were checked, up to fifteen bytes before the first within 16 that are aligned, and writes as many of `x`, which is dense.
    // - It writes `x` only.
    unsafe { launch.run_bytes(bytemuck::bytes_of(&args), &[x.buffer()]) }
}

/// The source of one variant.
pub(crate) fn source(x: DType, kind: Gguf, way: Way) -> Source {
    let [shared, staged] = [way.is_shared, way.is_staged].map(|is| if is { "1" } else { "0" });
    let own = [("GGUF_X", c_type(x)), ("GGUF_TYPE", kind.device_name())];
    let defines = [own[0], own[1], ("GGUF_SHARED", shared), ("GGUF_STAGED", staged)];
    let text = concat!(include_str!("gguf.h"), include_str!("gguf_dequantise.hip"));
    Source::new(OP, text, &defines)
}

/// `GgufDequantiseArgs` of `gguf_dequantise.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GgufDequantiseArgs {
    x: u64,
    words: u64,
    w_matrix: i64,
    w_line: i64,
    bytes: i64,
    line_units: FastDiv,
    lines_each: FastDiv,
    units: u32,
    padding: u32,
}
const _: () = assert!(size_of::<GgufDequantiseArgs>() == 72);
