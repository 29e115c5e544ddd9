//! `gguf_dequantise`: the launcher of `gguf_dequantise.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::gguf::{Gguf, GgufMatrices};
use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};

const OP: &str = "gguf_dequantise";
/// Weights of a run of `gguf.h`.
const RUN: usize = 16;

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
    let wave = stream.device().arch().info().wave_size as usize;
    let (strides, line_bytes) = (w.blocks.layout().strides(), w.blocks.shape()[2]);
    let is_next = |stride: i64, extent: usize, bytes: usize| extent == 1 || stride == bytes as i64;
    let is_dense = is_next(strides[1], n, line_bytes) && is_next(strides[0], count, n * line_bytes);
    static SOURCES: Sources<(DType, Gguf, bool)> = Sources::new();
    let source = SOURCES.get((x.dtype(), w.kind, is_dense), |(dtype, kind, is_dense)| source(dtype, kind, is_dense));
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
    let (grid, block) = ([units.div_ceil(wave), 1, 1], [w.kind.unit() / RUN * wave, 1, 1]);
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
pub(crate) fn source(x: DType, kind: Gguf, is_dense: bool) -> Source {
    let dense = if is_dense { "1" } else { "0" };
    let defines = [("GGUF_X", c_type(x)), ("GGUF_TYPE", kind.device_name()), ("GGUF_DENSE", dense)];
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
