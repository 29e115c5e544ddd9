//! `scatter`: the launcher of `scatter.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::sorted_update::{SERIAL_MAX, Sorted, sorted_update};
use super::{Updating, integers, same_but, same_shape};
use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type};

pub(super) const OP: &str = "scatter";
/// Fewest lines that are worth a lane each however long they are: with as many the device is full.
const LINES_MIN: usize = 16384;

/// `out[.., indices[.., j, ..], ..] = updating(out[..], value[.., j, ..])` along axis `dim`, for ascending `j`, in place.
///
/// # Shapes
/// `indices` and `value` alike; `out` the same but for axis `dim`. Any strides.
/// # Types
/// `value` and `out` of one type, any (`Bool` only with `Assign`, `Min`, `Max`); `indices` of any integer type.
/// # Numerics
/// Updates of one element happen in ascending `j`, each rounded to the element type. An index outside
/// `0..out.shape()[dim]`, negative ones included, is passed over and told of at the next read or wait.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ lines or more; `Unsupported` for arithmetic on `Bool`.
pub fn scatter(
    stream: &Stream,
    updating: impl Into<Updating>,
    dim: usize,
    out: ViewMut<'_>,
    indices: View<'_>,
    value: View<'_>,
) -> Result<()> {
    let updating = updating.into();
    for (arg, view) in [("out", &out.view()), ("indices", &indices), ("value", &value)] {
        family::on_device(OP, arg, stream, view)?;
    }
    updating.update.check(OP, &out)?;
    family::axis(OP, dim, out.layout().rank())?;
    integers(OP, &indices)?;
    same_but(OP, "indices", indices.shape(), out.shape(), dim)?;
    same_shape(OP, "value", &value, indices.shape())?;
    family::same_dtype(OP, "value", &value, out.dtype())?;
    family::writable(OP, "out", &out)?;
    family::disjoint(OP, "indices", &out, &indices)?;
    family::disjoint(OP, "value", &out, &value)?;
    // An `out` without elements has updates all the same, none of which is inside: they are told of.
    if indices.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<ScatterKey> = Sources::new();
    let source = SOURCES.get(ScatterKey { dtype: out.dtype(), index: indices.dtype(), updating }, source);
    let (element, index_bytes) = (out.dtype().size_bytes() as i64, indices.dtype().size_bytes() as i64);
    let space = Box3::of(indices.shape(), dim);
    let extent = out.shape()[dim] as i64;
    if extent == 0 || space.middle > SERIAL_MAX && space.outer * space.inner < LINES_MIN {
        let sorted = Sorted::per_line(stream, dim, indices)?;
        let (value, out) = (Input3::new(stream, value, dim)?, Output3::new(stream, out, dim, true)?);
        sorted_update(stream, (OP, updating, false), &sorted, space, extent as usize, &value, &out)?;
        return out.finish(stream);
    }
    let (indices, value) = (Input3::new(stream, indices, dim)?, Input3::new(stream, value, dim)?);
    let out = Output3::new(stream, out, dim, true)?;
    let strides = [out.strides(), indices.strides(), value.strides()];
    for (first, outer) in family::outer_runs(OP, space.with_middle(1))? {
        let skip =
            |address: u64, strides: Strides3, bytes| address.wrapping_add_signed(strides.outer * first as i64 * bytes);
        let lines = outer * space.inner;
        let args = ScatterArgs {
            out: skip(out.address(), strides[0], element),
            indices: skip(indices.address(), strides[1], index_bytes),
            value: skip(value.address(), strides[2], element),
            strides,
            extent,
            n: space.middle as i64,
            inner: FastDiv::new(space.inner),
            lines: lines as u32,
        };
        let (grid, block) = ([lines.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `ScatterArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel visits the box of
        //   `indices` and `value`, and of `out` the indices below `extent`: all inside the checked views.
        // - It writes `out` only.
        unsafe { KernelLaunch::new(stream, &source, (OP, "scatter"), grid, block).run(&args, &[out.view().buffer()])? };
    }
    out.finish(stream)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScatterKey {
    pub dtype: DType,
    pub index: DType,
    pub updating: Updating,
}

/// The source of one variant.
pub(crate) fn source(key: ScatterKey) -> Source {
    // A byte of 0 or 1 has the order of a Bool.
    let dtype = if key.dtype == DType::Bool { DType::U8 } else { key.dtype };
    let defines = [
        ("SCATTER_TYPE", c_type(dtype)),
        ("SCATTER_INDEX", c_type(key.index)),
        ("SCATTER_UPDATE", key.updating.update.number()),
        ("SCATTER_NONE", key.updating.has_none()),
        ("SCATTER_NAME", key.updating.name.unwrap_or(OP)),
    ];
    Source::new("scatter", include_str!("scatter.hip"), &defines)
}

/// `ScatterArgs` of `scatter.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ScatterArgs {
    out: u64,
    indices: u64,
    value: u64,
    strides: [Strides3; 3],
    extent: i64,
    n: i64,
    inner: FastDiv,
    lines: u32,
}
const _: () = assert!(size_of::<ScatterArgs>() == 128);
