//! `arg_reduce`: the launcher of `arg_reduce.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Source, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type, shape};

const OP: &str = "arg_reduce";
/// Lines per workgroup, a wave each.
const ROWS: usize = 4;
/// Shortest line that a wave shares: below, most of its lanes have nothing to do.
const WAVE_EXTENT_MIN: usize = 32;
/// Elements of a long line that a wave goes through when several share it: 64 or 128 a lane, so that a chunk's end costs
/// little.
const CHUNK: usize = 4096;
/// Lines below which waves share one: with as many, one wave each fills the largest device twice.
const SHARED_LINES_MAX: usize = 2048;

/// `indices[.., 0, ..]` = the first index of the largest element along axis `dim`; `values` that element.
///
/// # Shapes
/// `x` any; `indices` and `values` the same with extent 1 along `dim`. Any strides.
/// # Types
/// `x` and `values` of one type, any; `indices` i32 or i64.
/// # Numerics
/// A NaN counts as larger than any number; of equals, and of several NaNs, the first is taken.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, for an empty axis and for one of 2³¹ elements or more.
pub fn arg_max(
    stream: &Stream,
    dim: usize,
    x: View<'_>,
    indices: ViewMut<'_>,
    values: Option<ViewMut<'_>>,
) -> Result<()> {
    arg_reduce(stream, true, dim, x, indices, values)
}

/// As [`arg_max`], for the smallest element; a NaN counts as smaller than any number.
///
/// # Errors
/// As [`arg_max`].
pub fn arg_min(
    stream: &Stream,
    dim: usize,
    x: View<'_>,
    indices: ViewMut<'_>,
    values: Option<ViewMut<'_>>,
) -> Result<()> {
    arg_reduce(stream, false, dim, x, indices, values)
}

fn check(stream: &Stream, dim: usize, x: &View<'_>, indices: &View<'_>, values: Option<View<'_>>) -> Result<()> {
    family::on_device(OP, "x", stream, x)?;
    family::axis(OP, dim, x.layout().rank())?;
    let extent = x.shape()[dim];
    if extent > i32::MAX as usize {
        return Err(shape(OP, "x", format!("fewer than 2^31 elements along axis {dim}"), extent));
    }
    let agree = |got: &[usize]| {
        got.len() == x.layout().rank()
            && (0..got.len()).all(|axis| got[axis] == if axis == dim { 1 } else { x.shape()[axis] })
    };
    let outputs = [("indices", Some(*indices)), ("values", values)];
    for (arg, view) in outputs.into_iter().filter_map(|(arg, view)| Some((arg, view?))) {
        family::on_device(OP, arg, stream, &view)?;
        if !agree(view.shape()) {
            let expected = format!("{:?} with 1 at axis {dim}", x.shape());
            return Err(shape(OP, arg, expected, format!("{:?}", view.shape())));
        }
        family::writable(OP, arg, &view)?;
        family::disjoint(OP, arg, &view, x)?;
    }
    if !matches!(indices.dtype(), DType::I32 | DType::I64) {
        return Err(shape(OP, "indices", "i32 or i64", indices.dtype()));
    }
    if let Some(values) = values {
        family::same_dtype(OP, "values", &values, x.dtype())?;
        family::disjoint(OP, "values", &values, indices)?;
    }
    if extent == 0 && !indices.is_empty() {
        return Err(shape(OP, "x", format!("at least one element along axis {dim}"), 0));
    }
    Ok(())
}

fn arg_reduce(
    stream: &Stream,
    max: bool,
    dim: usize,
    x: View<'_>,
    indices: ViewMut<'_>,
    values: Option<ViewMut<'_>>,
) -> Result<()> {
    check(stream, dim, &x, &indices, values.as_ref().map(ViewMut::view))?;
    if indices.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<ArgKey> = Sources::new();
    let source = SOURCES.get(ArgKey { dtype: x.dtype(), index: indices.dtype(), max }, source);
    let dtype = x.dtype();
    let (element, index_bytes) = (x.dtype().size_bytes() as i64, indices.dtype().size_bytes() as i64);
    let space = Box3::of(x.shape(), dim);
    let wave = stream.device().arch().info().wave_size as usize;
    let x = Input3::new(stream, x, dim)?;
    let indices = Output3::new(stream, indices, dim, false)?;
    let values = values.map(|values| Output3::new(stream, values, dim, false)).transpose()?;
    let value_strides = values.as_ref().map_or_else(Strides3::default, Output3::strides);
    for (first, outer) in family::outer_runs(OP, space.with_middle(1))? {
        let skip =
            |address: u64, strides: Strides3, bytes| address.wrapping_add_signed(strides.outer * first as i64 * bytes);
        let lines = outer * space.inner;
        let args = ArgReduceArgs {
            x: skip(x.address(), x.strides(), element),
            indices: skip(indices.address(), indices.strides(), index_bytes),
            values: values.as_ref().map_or(0, |values| skip(values.address(), value_strides, element)),
            x_strides: x.strides(),
            index_strides: indices.strides(),
            value_strides,
            extent: space.middle as u32,
            inner: FastDiv::new(space.inner),
            lines: lines as u32,
            chunks: FastDiv::new(1),
            partial_values: 0,
            partial_indices: 0,
        };
        let index_view = indices.view();
        let value_view = values.as_ref().map(Output3::view);
        let written = [index_view.buffer(), value_view.as_ref().map_or(index_view.buffer(), |view| view.buffer())];
        let run = |kernel, groups, block, args: &ArgReduceArgs, written: &[&Buffer]| {
            // SAFETY:
            // - `ArgReduceArgs` is the twin of the kernel's struct, sizes asserted on both sides; the kernels visit the box
            //   of `x` and its lines in `indices` and, unless null, `values`, inside the checked views, and the partial
            //   results of each chunk of each line, which their tensors hold.
            // - They write the outputs, or the partial results, whichever `written` names.
            unsafe {
                KernelLaunch::new(stream, &source, (OP, kernel), [groups, 1, 1], [block, 1, 1]).run(args, written)
            }
        };
        let (by_waves, by_lanes) = (lines.div_ceil(ROWS), lines.div_ceil(BLOCK));
        match choice(space, lines, x.strides().middle == 1, wave) {
            Choice::Lanes => run("arg_reduce_lines", by_lanes, BLOCK, &args, &written)?,
            Choice::Waves => run("arg_reduce_waves", by_waves, ROWS * wave, &args, &written)?,
            Choice::Chunks => {
                let chunks = space.middle.div_ceil(CHUNK);
                let partial = |dtype| Tensor::empty(&stream.device(), &[lines, chunks], dtype);
                let (found, places) = (partial(wide(dtype))?, partial(DType::U32)?);
                let args = ArgReduceArgs {
                    chunks: FastDiv::new(chunks),
                    partial_values: found.view().device_address(),
                    partial_indices: places.view().device_address(),
                    ..args
                };
                let groups = (lines * chunks).div_ceil(ROWS);
                run("arg_reduce_chunks", groups, ROWS * wave, &args, &[found.buffer(), places.buffer()])?;
                run("arg_reduce_partials", by_waves, ROWS * wave, &args, &written)?;
            }
        }
    }
    indices.finish(stream)?;
    values.map_or(Ok(()), |values| values.finish(stream))
}

/// Who goes through a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A lane.
    Lanes,
    /// A wave.
    Waves,
    /// Several waves, a chunk of it each.
    Chunks,
}

/// `lines` of the space are one launch's; `dense`: elements of a line lie side by side. Long lines are shared where there are too few to
/// fill a device. Neighbouring lines in neighbouring lanes read better than a wave for each, unless there are too few of them.
fn choice(space: Box3, lines: usize, dense: bool, wave: usize) -> Choice {
    if space.middle > 2 * CHUNK && lines < SHARED_LINES_MAX {
        Choice::Chunks
    } else if space.middle >= WAVE_EXTENT_MIN && (space.inner < wave || dense) {
        Choice::Waves
    } else {
        Choice::Lanes
    }
}

/// What the kernels compare elements in.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::Bool => DType::I32,
        dtype => dtype,
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArgKey {
    pub dtype: DType,
    pub index: DType,
    pub max: bool,
}

/// The source of one variant.
pub(crate) fn source(key: ArgKey) -> Source {
    let (rows, chunk) = (ROWS.to_string(), CHUNK.to_string());
    let defines = [
        ("ARG_TYPE", c_type(key.dtype)),
        ("ARG_INDEX", c_type(key.index)),
        ("ARG_MAX", if key.max { "1" } else { "0" }),
        ("ARG_ROWS", rows.as_str()),
        ("ARG_CHUNK", chunk.as_str()),
    ];
    Source::new("arg_reduce", include_str!("arg_reduce.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    [DType::I32, DType::I64]
        .into_iter()
        .flat_map(move |index| [false, true].map(|max| (OP, source(ArgKey { dtype, index, max }))))
}

/// `ArgReduceArgs` of `arg_reduce.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ArgReduceArgs {
    x: u64,
    indices: u64,
    values: u64,
    x_strides: Strides3,
    index_strides: Strides3,
    value_strides: Strides3,
    extent: u32,
    inner: FastDiv,
    lines: u32,
    chunks: FastDiv,
    partial_values: u64,
    partial_indices: u64,
}
const _: () = assert!(size_of::<ArgReduceArgs>() == 144);

#[cfg(test)]
mod tests;
