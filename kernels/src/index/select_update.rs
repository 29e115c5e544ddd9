//! `select_update`: the launcher of `select_update.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::sorted_update::{SERIAL_MAX, Sorted, sorted_update};
use super::{Update, Updating, integers, same_but};
use crate::Result;
use crate::family::{
    self, BLOCK, Box3, FastDiv, GRID_YZ_MAX, Input3, KernelLaunch, Output3, Sources, Strides3, c_type, shape,
};

const OP: &str = "select_update";
/// Rows per workgroup, a wave each.
const ROWS: usize = 4;
/// Most comparisons of a row with an index for which rows look for their indices; beyond, the indices are sorted. That is
/// 8192 waves' steps through the indices, about what sorting takes.
const SEARCHES_MAX: usize = 1 << 19;

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// `out[.., indices[j], ..] = updating(out[..], value[.., j, ..])` along axis `dim`, for ascending `j`, in place. The gradient
/// of [`super::select`] is [`Update::Add`] onto zeros.
///
/// # Shapes
/// `indices`: `[n]`; `value` as `out` but with `n` along `dim`. Any strides.
/// # Types
/// `value` and `out` of one type, any (`Bool` only with `Assign`, `Min`, `Max`); `indices` of any integer type.
/// # Numerics
/// Updates of one element happen in ascending `j`; the running value of 16-bit floats is f32, rounded once. An index outside
/// `0..out.shape()[dim]`, negative ones included, is passed over and told of at the next read or wait.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ lines or more; `Unsupported` for arithmetic on `Bool`.
pub fn select_update(
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
    same_but(OP, "value", value.shape(), out.shape(), dim)?;
    if indices.shape() != [value.shape()[dim]] {
        return Err(shape(OP, "indices", format!("[{}]", value.shape()[dim]), format!("{:?}", indices.shape())));
    }
    family::same_dtype(OP, "value", &value, out.dtype())?;
    family::writable(OP, "out", &out)?;
    family::disjoint(OP, "indices", &out, &indices)?;
    family::disjoint(OP, "value", &out, &value)?;
    // An `out` without elements has updates all the same, none of which is inside: they are told of.
    if value.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<UpdateKey> = Sources::new();
    let source = SOURCES.get(UpdateKey { dtype: out.dtype(), index: indices.dtype(), updating }, source);
    let space = Box3::of(value.shape(), dim);
    let wave = stream.device().arch().info().wave_size as usize;
    let extent = out.shape()[dim];
    let choice = choice(space, extent, wave, out.dtype(), updating.update);
    if choice == Choice::Sorted {
        let sorted = Sorted::shared(stream, indices)?;
        let (value, out) = (Input3::new(stream, value, dim)?, Output3::new(stream, out, dim, true)?);
        sorted_update(stream, (OP, updating, is_half(out.view().dtype())), &sorted, space, extent, &value, &out)?;
        return out.finish(stream);
    }
    let value = Input3::new(stream, value, dim)?;
    let out = Output3::new(stream, out, dim, true)?;
    let job = Job { stream, source: &source, space, extent, wave, indices: &indices, value: &value, out: &out };
    if choice == Choice::Rows {
        job.rows()?
    } else {
        job.lines()?
    }
    out.finish(stream)
}

/// Who finds the values of an element of `out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Indices are sorted first.
    Sorted,
    /// Each row of `out` looks for its indices.
    Rows,
    /// Each line of `out` follows them.
    Lines,
}

/// All give the same bits, except for sums and products of 16-bit floats, which only lines do not keep in f32. Costs of rows and lines
/// are in instructions of a wave, counted in the kernels' loops: 8 per stretch of indices and 8 per hit, against 14 per index.
fn choice(space: Box3, extent: usize, wave: usize, dtype: DType, update: Update) -> Choice {
    if extent == 0 || space.middle > SERIAL_MAX && extent * space.middle > SEARCHES_MAX {
        return Choice::Sorted;
    }
    if is_half(dtype) && matches!(update, Update::Add | Update::Mul) {
        return Choice::Rows;
    }
    let columns = space.inner.div_ceil(wave) * space.outer;
    let rows = columns.saturating_mul(extent.saturating_mul(space.middle.div_ceil(wave) * 8) + space.middle * 8);
    let lines = (space.outer * space.inner).div_ceil(wave).saturating_mul(space.middle * 14);
    // Lines leave a large device idle: a wave each, and its reads depend on each other.
    if rows <= lines.saturating_mul(4) { Choice::Rows } else { Choice::Lines }
}

struct Job<'a> {
    stream: &'a Stream,
    source: &'a Source,
    /// Of the values.
    space: Box3,
    extent: usize,
    wave: usize,
    indices: &'a View<'a>,
    value: &'a Input3<'a>,
    out: &'a Output3<'a>,
}

impl Job<'_> {
    fn args(&self) -> SelectUpdateArgs {
        SelectUpdateArgs {
            out: self.out.address(),
            indices: self.indices.device_address(),
            value: self.value.address(),
            out_strides: self.out.strides(),
            value_strides: self.value.strides(),
            index_stride: self.indices.layout().strides()[0],
            extent: self.extent as i64,
            n: self.space.middle as i64,
            inner: FastDiv::new(self.space.inner),
            lines: 0,
            first_outer: 0,
            first_inner: 0,
        }
    }

    fn launch(&self, kernel: &str, grid: [usize; 3], block: usize, args: &SelectUpdateArgs) -> Result<()> {
        let written = self.out.view();
        // SAFETY:
        // - `SelectUpdateArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernels visit the box of
        //   `value`, all of `indices`, and of `out` the indices below `extent`: all inside the checked views.
        // - They write `out` only.
        unsafe {
            KernelLaunch::new(self.stream, self.source, (OP, kernel), grid, [block, 1, 1])
                .run(args, &[written.buffer()])
        }
    }

    fn rows(&self) -> Result<()> {
        let stretches = self.space.inner.div_ceil(self.wave);
        for outer in (0..self.space.outer).step_by(GRID_YZ_MAX) {
            for stretch in (0..stretches).step_by(GRID_YZ_MAX) {
                let args = SelectUpdateArgs {
                    first_outer: outer as u32,
                    first_inner: (stretch * self.wave) as u32,
                    ..self.args()
                };
                let grid = [
                    self.extent.div_ceil(ROWS),
                    (stretches - stretch).min(GRID_YZ_MAX),
                    (self.space.outer - outer).min(GRID_YZ_MAX),
                ];
                self.launch("select_update_rows", grid, ROWS * self.wave, &args)?;
            }
        }
        Ok(())
    }

    fn lines(&self) -> Result<()> {
        let bytes = self.value.view().dtype().size_bytes() as i64;
        for (first, outer) in family::outer_runs(OP, self.space.with_middle(1))? {
            let args = self.args();
            let lines = outer * self.space.inner;
            let skip = |strides: Strides3| strides.outer * first as i64 * bytes;
            let args = SelectUpdateArgs {
                out: args.out.wrapping_add_signed(skip(args.out_strides)),
                value: args.value.wrapping_add_signed(skip(args.value_strides)),
                lines: lines as u32,
                ..args
            };
            self.launch("select_update_lines", [lines.div_ceil(BLOCK), 1, 1], BLOCK, &args)?;
        }
        Ok(())
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpdateKey {
    pub dtype: DType,
    pub index: DType,
    pub updating: Updating,
}

/// The source of one variant.
pub(crate) fn source(key: UpdateKey) -> Source {
    // A byte of 0 or 1 has the order of a Bool.
    let dtype = if key.dtype == DType::Bool { DType::U8 } else { key.dtype };
    let rows = ROWS.to_string();
    let defines = [
        ("UPDATE_TYPE", c_type(dtype)),
        ("UPDATE_INDEX", c_type(key.index)),
        ("UPDATE_KIND", key.updating.update.number()),
        ("UPDATE_ROWS", rows.as_str()),
        ("UPDATE_NONE", key.updating.has_none()),
        ("UPDATE_NAME", key.updating.name.unwrap_or(OP)),
    ];
    Source::new("select_update", include_str!("select_update.hip"), &defines)
}

/// `SelectUpdateArgs` of `select_update.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SelectUpdateArgs {
    out: u64,
    indices: u64,
    value: u64,
    out_strides: Strides3,
    value_strides: Strides3,
    index_stride: i64,
    extent: i64,
    n: i64,
    inner: FastDiv,
    lines: u32,
    first_outer: u32,
    first_inner: u32,
}
const _: () = assert!(size_of::<SelectUpdateArgs>() == 120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_indices_of_a_large_table_are_sorted() {
        let of = |middle, extent, dtype| choice(Box3 { outer: 1, middle, inner: 64 }, extent, 64, dtype, Update::Add);
        assert_eq!(of(512, 32_000, DType::F32), Choice::Sorted);
        assert_eq!(of(512, 0, DType::F32), Choice::Sorted, "indices that are all outside are told of");
        assert_eq!(of(8, 4, DType::F32), Choice::Rows);
        assert_eq!(of(8, 32_000, DType::F32), Choice::Lines);
        assert_eq!(of(8, 32_000, DType::F16), Choice::Rows, "its sums stay in f32");
    }
}
