//! `cumulative`: the launcher of `cumulative.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, Input3, Output3, Sources, Strides3, c_type, shape};

const OP: &str = "cumulative";

/// What is run along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cumulative {
    /// Sum, from 0.
    Sum,
    /// Product, from 1.
    Prod,
    /// Minimum; NaN from where it comes in.
    Min,
    /// Maximum; NaN from where it comes in.
    Max,
}

impl Cumulative {
    /// Every one.
    pub const ALL: [Cumulative; 4] = [Cumulative::Sum, Cumulative::Prod, Cumulative::Min, Cumulative::Max];
}

/// `out[.., m, ..] = op over x[.., 0..=m, ..]` along axis `dim`.
///
/// # Shapes
/// `x` and `out` alike; any strides. `out` may be `x` (same memory, same layout).
/// # Types
/// One type for both, any but `Bool`.
/// # Numerics
/// In ascending order; f32 for 16-bit floats, each output rounded once; integers wrap around.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ lines or more; `Unsupported` for `Bool`.
pub fn cumulative(stream: &Stream, op: Cumulative, dim: usize, x: View<'_>, out: ViewMut<'_>) -> Result<()> {
    for (arg, view) in [("x", &x), ("out", &out.view())] {
        family::on_device(OP, arg, stream, view)?;
    }
    family::axis(OP, dim, x.layout().rank())?;
    if out.shape() != x.shape() {
        return Err(shape(OP, "out", format!("{:?}", x.shape()), format!("{:?}", out.shape())));
    }
    family::same_dtype(OP, "out", &out, x.dtype())?;
    if x.dtype() == DType::Bool {
        return Err(Error::Unsupported { op: OP, dtype: DType::Bool, arch: x.arch() }.into());
    }
    family::writable(OP, "out", &out)?;
    let in_place = out.buffer().same(x.buffer()) && out.layout() == x.layout();
    if !in_place {
        family::disjoint(OP, "x", &out, &x)?;
    }
    if out.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<CumulativeKey> = Sources::new();
    let source = SOURCES.get(CumulativeKey { dtype: x.dtype(), op }, source);
    let element = x.dtype().size_bytes() as i64;
    let space = Box3::of(x.shape(), dim);
    let x = Input3::new(stream, x, dim)?;
    let out = Output3::new(stream, out, dim, false)?;
    let (x_strides, out_strides) = (x.strides(), out.strides());
    for (first, outer) in family::outer_runs(OP, space.with_middle(1))? {
        let skip =
            |address: u64, strides: Strides3| address.wrapping_add_signed(strides.outer * first as i64 * element);
        let lines = outer * space.inner;
        let args = CumulativeArgs {
            x: skip(x.address(), x_strides),
            out: skip(out.address(), out_strides),
            x_strides,
            out_strides,
            extent: space.middle as i64,
            inner: FastDiv::new(space.inner),
            lines: lines as u32,
        };
        let (grid, block) = ([lines.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `CumulativeArgs` is the twin of the kernel's struct, sizes asserted on both sides; the kernel visits the box of
        //   `x` and `out`, inside the checked views.
        // - It writes `out` only.
        unsafe { family::launch(stream, &source, (OP, "cumulative"), grid, block, &args, &[out.view().buffer()])? };
    }
    out.finish(stream)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CumulativeKey {
    pub dtype: DType,
    pub op: Cumulative,
}

/// The source of one variant.
pub(crate) fn source(key: CumulativeKey) -> Source {
    let op = match key.op {
        Cumulative::Sum => "0",
        Cumulative::Prod => "1",
        Cumulative::Min => "2",
        Cumulative::Max => "3",
    };
    let defines = [("CUMULATIVE_TYPE", c_type(key.dtype)), ("CUMULATIVE_OP", op)];
    Source::new("cumulative", include_str!("cumulative.hip"), &defines)
}

/// `CumulativeArgs` of `cumulative.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CumulativeArgs {
    x: u64,
    out: u64,
    x_strides: Strides3,
    out_strides: Strides3,
    extent: i64,
    inner: FastDiv,
    lines: u32,
}
const _: () = assert!(size_of::<CumulativeArgs>() == 88);

#[cfg(test)]
mod tests;
