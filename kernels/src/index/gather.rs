//! `gather`: the launcher of `gather.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{integers, same_but, same_shape, word_type};
use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type};

const OP: &str = "gather";

/// `out[.., j, ..] = x[.., indices[.., j, ..], ..]` along axis `dim`.
///
/// # Shapes
/// `indices` and `out` alike; `x` the same but for axis `dim`. Any strides.
/// # Types
/// `x` and `out` of one type, any; `indices` of any integer type.
/// # Numerics
/// Elements are moved as bits. An index outside `0..x.shape()[dim]`, negative ones included, gives zero (`false`), and
/// the next read or wait tells of it.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ elements or more in one index of the axes before `dim`.
pub fn gather(stream: &Stream, dim: usize, x: View<'_>, indices: View<'_>, out: ViewMut<'_>) -> Result<()> {
    for (arg, view) in [("x", &x), ("indices", &indices), ("out", &out.view())] {
        family::on_device(OP, arg, stream, view)?;
    }
    family::axis(OP, dim, x.layout().rank())?;
    integers(OP, &indices)?;
    same_but(OP, "indices", indices.shape(), x.shape(), dim)?;
    same_shape(OP, "out", &out, indices.shape())?;
    family::same_dtype(OP, "out", &out, x.dtype())?;
    family::writable(OP, "out", &out)?;
    family::disjoint(OP, "x", &out, &x)?;
    family::disjoint(OP, "indices", &out, &indices)?;
    if out.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<GatherKey> = Sources::new();
    let source = SOURCES.get(GatherKey { bytes: x.dtype().size_bytes(), index: indices.dtype() }, source);
    let (element, index_bytes) = (x.dtype().size_bytes() as i64, indices.dtype().size_bytes() as i64);
    let space = Box3::of(out.shape(), dim);
    let extent = x.shape()[dim] as i64;
    let (x, indices) = (Input3::new(stream, x, dim)?, Input3::new(stream, indices, dim)?);
    let out = Output3::new(stream, out, dim, false)?;
    let strides = [x.strides(), indices.strides(), out.strides()];
    for (first, outer) in family::outer_runs(OP, space)? {
        let skip =
            |address: u64, strides: Strides3, bytes| address.wrapping_add_signed(strides.outer * first as i64 * bytes);
        let count = Box3 { outer, ..space }.len();
        let args = GatherArgs {
            x: skip(x.address(), strides[0], element),
            indices: skip(indices.address(), strides[1], index_bytes),
            out: skip(out.address(), strides[2], element),
            strides,
            extent,
            middle: FastDiv::new(space.middle),
            inner: FastDiv::new(space.inner),
            count: count as u32,
            padding: 0,
        };
        let (grid, block) = ([count.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `GatherArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel visits the box of
        //   `indices` and `out`, and of `x` the indices below `extent`: all inside the checked views.
        // - It writes `out` only.
        unsafe { KernelLaunch::new(stream, &source, (OP, "gather"), grid, block).run(&args, &[out.view().buffer()])? };
    }
    out.finish(stream)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GatherKey {
    pub bytes: usize,
    pub index: DType,
}

/// The source of one variant.
pub(crate) fn source(key: GatherKey) -> Source {
    let defines = [("GATHER_WORD", word_type(key.bytes)), ("GATHER_INDEX", c_type(key.index))];
    Source::new("gather", include_str!("gather.hip"), &defines)
}

/// `GatherArgs` of `gather.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GatherArgs {
    x: u64,
    indices: u64,
    out: u64,
    strides: [Strides3; 3],
    extent: i64,
    middle: FastDiv,
    inner: FastDiv,
    count: u32,
    padding: u32,
}
const _: () = assert!(size_of::<GatherArgs>() == 136);
