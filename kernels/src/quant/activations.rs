//! `quantise_activations`: the launcher of `activations.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Draft;
use rocfire_hal::{Buffer, DType, Error, Source, Stream, Tensor, View, ViewMut};

use super::format::{Format, ScaleKind};
use super::scales::{PeakRule, block_peaks};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};

const OP: &str = "quantise_activations";
/// Columns that a lane takes: `ACT_RUN`.
const RUN: usize = 8;
/// Runs per lane and lanes for which the tile kernel is compiled: a lane holds its runs in registers.
const TILES: [(usize, usize); 5] = [(1, 128), (2, 128), (4, 128), (4, BLOCK), (8, BLOCK)];
/// Lanes that share as many groups, of as many runs: `ACT_FOUR`.
const FOUR: usize = 4;
/// Columns of a group where one scale is given for all, and runs of a lane there.
const GIVEN_GROUP: usize = 16 * RUN;
const GIVEN_RUNS: usize = 4;
/// Workgroups that look for the largest of all elements: some for every compute unit of a large device, and four for every lane of
/// a workgroup that finds the largest of theirs.
const PARTS: usize = 4 * BLOCK;
/// Bytes that the search for the largest leaves in the caches for the launch after it: half of what an H200's second level holds.
/// 8192 x 4096 of bf16 took 0.0488 ms there without any, 0.0470 with 20 MiB, 0.0456 with 26, 0.0463 with 32. Others are not told.
const KEPT_BYTES: usize = 26 << 20;

/// Which elements share a scale, and where scales come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// One scale, given.
    Static,
    /// One scale, from the largest magnitude of all.
    Tensor,
    /// One for each row.
    Token,
    /// One for each run of so many columns of a row (a multiple of 8).
    Group(usize),
    /// One for each square of so many rows and columns (a multiple of 8, at most 128).
    Block(usize),
    /// A power of two (E8M0) for each 32 columns of a row, as OCP's microscaling formats have it.
    Mx(MxRounding),
}

/// How the power of two of a microscaled group follows from its largest magnitude; `e` is the exponent of the format's largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MxRounding {
    /// `floor(log2 peak) − e`: OCP's own; the largest may be clipped.
    Down,
    /// `ceil(log2(peak / largest))`: nothing is clipped.
    Up,
    /// As `Down` after rounding the peak to the format's mantissa.
    Even,
    /// `ceil(log2 peak) − e`.
    Ceil,
}

impl MxRounding {
    /// Every mode.
    pub const ALL: [MxRounding; 4] = [MxRounding::Down, MxRounding::Up, MxRounding::Even, MxRounding::Ceil];

    pub(super) const fn number(self) -> u32 {
        match self {
            MxRounding::Down => 0,
            MxRounding::Up => 1,
            MxRounding::Even => 2,
            MxRounding::Ceil => 3,
        }
    }
}

/// Columns of a microscaled group.
const MX_GROUP: usize = 32;

impl Granularity {
    /// The type of the scales.
    pub const fn kind(self) -> ScaleKind {
        match self {
            Granularity::Mx(_) => ScaleKind::E8M0,
            _ => ScaleKind::F32,
        }
    }

    /// The shape of the scales of `[rows, cols]`.
    pub fn scales_shape(self, [rows, cols]: [usize; 2]) -> [usize; 2] {
        match self {
            Granularity::Static | Granularity::Tensor => [1, 1],
            Granularity::Token => [rows, 1],
            Granularity::Group(group) => [rows, cols.div_ceil(group)],
            Granularity::Block(side) => [rows.div_ceil(side), cols.div_ceil(side)],
            Granularity::Mx(_) => [rows, cols.div_ceil(MX_GROUP)],
        }
    }

    /// Rows and columns of `[rows, cols]` that share a scale.
    pub fn block(self, [rows, cols]: [usize; 2]) -> [usize; 2] {
        match self {
            Granularity::Static | Granularity::Tensor => [rows, cols],
            Granularity::Token => [1, cols],
            Granularity::Group(group) => [1, group],
            Granularity::Block(side) => [side, side],
            Granularity::Mx(_) => [1, MX_GROUP],
        }
    }
}

/// What codes are made in, and where they go.
#[derive(Debug)]
pub struct RowCodes<'a> {
    /// How a code is a number: 8 or 4 bits.
    pub format: Format,
    /// Which elements share a scale.
    pub granularity: Granularity,
    /// u8, contiguous, `[rows, cols]`, or `[rows, ceil(cols / 2)]` for 4 bits, the even column in the low half.
    pub codes: ViewMut<'a>,
    /// [`Granularity::scales_shape`] of [`Granularity::kind`], any strides; read for [`Granularity::Static`].
    pub scales: ViewMut<'a>,
}

/// Codes of activations, and their scales in the same launch (one more for [`Granularity::Tensor`]).
///
/// # Shapes
/// `x`: `[rows, cols]`, columns contiguous; codes and scales as [`RowCodes`] says, scales strided so that they may be written
/// transposed; `smooth`: f32 `[cols]`, what columns are multiplied by.
/// # Numerics
/// In f32. `scale = peak / largest`, 1 for a peak of 0; `code = encode(x · (1 / scale))` to nearest, ties to even, symmetric. A NaN
/// makes the scale NaN and codes NaN, or 0 where the format has none.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit; `Unsupported` for an `x` that is no float of 16 or 32 bits.
pub fn quantise_activations(stream: &Stream, x: View<'_>, smooth: Option<View<'_>>, to: RowCodes<'_>) -> Result<()> {
    let [rows, cols] = check(stream, &x, smooth.as_ref(), &to)?;
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    if to.granularity == Granularity::Tensor {
        return tensor(stream, x, smooth, to, [rows, cols]);
    }
    launch(stream, x, smooth, to, [rows, cols])
}

/// `x · smooth` in f32.
fn smoothed(stream: &Stream, x: View<'_>, smooth: View<'_>) -> Result<Tensor> {
    let graph = Draft::graph("smoothed", |g| g.input(x.dtype()).cast(DType::F32) * g.input(DType::F32));
    let mut out = Tensor::empty(x.device(), x.shape(), DType::F32)?;
    let factor = smooth.with_layout(smooth.layout().unsqueeze(0)?)?;
    rocfire_fusion::run(stream, &graph, x.shape(), &[x, factor], &[], &mut [out.view_mut()])?;
    Ok(out)
}

fn check(stream: &Stream, x: &View<'_>, smooth: Option<&View<'_>>, to: &RowCodes<'_>) -> Result<[usize; 2]> {
    let (format, granularity, codes, scales) = (to.format, to.granularity, to.codes.view(), to.scales.view());
    for (arg, view) in [("x", Some(x)), ("codes", Some(&codes)), ("scales", Some(&scales)), ("smooth", smooth)] {
        if let Some(view) = view {
            family::on_device(OP, arg, stream, view)?;
        }
    }
    if !matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: x.dtype(), arch: x.arch() }.into());
    }
    let &[rows, cols] = x.shape() else {
        return Err(shape(OP, "x", "two axes", format!("{:?}", x.shape())));
    };
    if x.layout().strides()[1] != 1 && cols > 1 {
        return Err(shape(OP, "x", "contiguous columns", format!("strides {:?}", x.layout().strides())));
    }
    let side = match granularity {
        Granularity::Group(side) | Granularity::Block(side) => side,
        Granularity::Static | Granularity::Tensor | Granularity::Token | Granularity::Mx(_) => RUN,
    };
    if side == 0 || !side.is_multiple_of(RUN) || matches!(granularity, Granularity::Block(129..)) {
        return Err(shape(
            OP,
            "granularity",
            "groups of a multiple of 8, blocks of at most 128",
            format!("{granularity:?}"),
        ));
    }
    if format == Format::I2 {
        return Err(shape(OP, "format", "4 or 8 bits", format!("{format:?}")));
    }
    if matches!(granularity, Granularity::Mx(_)) && format.is_int() {
        return Err(shape(OP, "format", "a small float for microscaling", format!("{format:?}")));
    }
    let bytes = [rows, (cols * format.bits()).div_ceil(8)];
    if codes.shape() != bytes || codes.dtype() != DType::U8 || !codes.layout().is_contiguous() {
        let got = format!("{} {:?}", codes.dtype(), codes.shape());
        return Err(shape(OP, "codes", format!("contiguous u8 {bytes:?}"), got));
    }
    let (grid, kind) = (granularity.scales_shape([rows, cols]), granularity.kind());
    if scales.shape() != grid || scales.dtype() != kind.dtype() {
        let got = format!("{} {:?}", scales.dtype(), scales.shape());
        return Err(shape(OP, "scales", format!("{} {grid:?}", kind.dtype()), got));
    }
    if let Some(smooth) = smooth
        && (smooth.shape() != [cols] || smooth.dtype() != DType::F32 || !smooth.layout().is_contiguous())
    {
        return Err(shape(OP, "smooth", format!("contiguous f32 [{cols}]"), format!("{:?}", smooth.shape())));
    }
    if rows * cols.div_ceil(RUN) >= BOX_LIMIT || cols >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} runs of 8 columns"), format!("{:?}", x.shape())));
    }
    family::writable(OP, "scales", &scales)?;
    family::disjoint(OP, "x", &codes, x)?;
    family::disjoint(OP, "x", &scales, x)?;
    family::disjoint(OP, "scales", &codes, &scales)?;
    Ok([rows, cols])
}

/// How the kernels share out the work, and their arguments.
struct Plan {
    key: ActivationKey,
    args: ActivationArgs,
    grid: [usize; 3],
}

impl Plan {
    /// `None` where no workgroup holds a group in its registers.
    fn new(x: &View<'_>, smooth: Option<View<'_>>, to: &RowCodes<'_>, [rows, cols]: [usize; 2]) -> Option<Plan> {
        let RowCodes { format, granularity, codes, scales } = to;
        let (format, granularity) = (*format, *granularity);
        let wave = x.device().arch().info().wave_size as usize;
        let (tile_rows, group) = match granularity {
            Granularity::Static | Granularity::Tensor => (0, GIVEN_GROUP),
            Granularity::Group(group) => (0, group),
            Granularity::Mx(_) => (0, MX_GROUP),
            Granularity::Token => (1, cols.next_multiple_of(RUN)),
            Granularity::Block(side) => (side, side),
        };
        let runs = group / RUN;
        // Lanes of one wave share a group, two runs each where there are; a longer one is a tile of one row. Of groups of four runs
        // four lanes have as many.
        let given = match granularity {
            Granularity::Static => Given::Read,
            Granularity::Tensor => Given::Parts,
            _ => Given::No,
        };
        let each = if given != Given::No {
            GIVEN_RUNS
        } else if runs != FOUR && runs.is_multiple_of(2) {
            2
        } else {
            1
        };
        let lanes = runs / each;
        let tiles = tile_rows > 0 || !lanes.is_power_of_two() || lanes > wave;
        let tile_rows = tile_rows.max(1);
        let holds = |&(held, threads): &(usize, usize)| tile_rows * runs <= held * threads;
        let (held, threads) = if tiles { TILES.into_iter().find(holds)? } else { (each, BLOCK) };
        let strides = scales.layout().strides();
        let size = x.dtype().size_bytes();
        let aligned = x.device_address().is_multiple_of(16)
            && (x.layout().strides()[0] * size as i64) % 16 == 0
            && codes.device_address().is_multiple_of(8);
        let in_row = if tiles { runs } else { cols.div_ceil(group) * lanes };
        let count = if tiles { 0 } else { rows * in_row };
        let fours = !tiles && given == Given::No && runs == FOUR;
        let whole = match cols.is_multiple_of(RUN) && aligned {
            false => 0,
            true if fours && smooth.is_none() && in_row.is_multiple_of(FOUR * wave) => 2,
            true => 1,
        };
        let kept = KEPT_BYTES / (GIVEN_RUNS * RUN * size);
        let [least, most] = format.range(true);
        let args = ActivationArgs {
            x: x.device_address(),
            codes: codes.device_address(),
            scales: scales.device_address(),
            smooth: smooth.map_or(0, |smooth| smooth.device_address()),
            x_row: x.layout().strides()[0],
            code_row: codes.shape()[1] as i64,
            scale_row: strides[0],
            scale_col: strides[1],
            parts: 0,
            runs: FastDiv::new(in_row),
            rows: rows as u32,
            cols: cols as u32,
            group: group as u32,
            whole,
            mode: if let Granularity::Mx(rounding) = granularity { rounding.number() } else { 0 },
            least,
            most,
            largest: format.largest(),
            count: count as u32,
            kept: count.saturating_sub(kept) as u32,
            unused: 0,
        };
        let key = ActivationKey {
            x: x.dtype(),
            format,
            lanes: if tiles { 0 } else { lanes },
            rows: if tiles { tile_rows } else { 1 },
            runs: held,
            threads,
            given,
            smooth: smooth.is_some(),
            mx: matches!(granularity, Granularity::Mx(_)),
        };
        let grid = match tiles {
            true => [cols.div_ceil(group), rows.div_ceil(tile_rows), 1],
            false if fours => [count.div_ceil(FOUR * BLOCK), 1, 1],
            false => [count.div_ceil(BLOCK), 1, 1],
        };
        Some(Plan { key, args, grid })
    }

    fn run(&self, stream: &Stream, kernel: &'static str, grid: [usize; 3], written: &[&Buffer]) -> Result<()> {
        static SOURCES: Sources<ActivationKey> = Sources::new();
        let source = SOURCES.get(self.key, source);
        // SAFETY:
        // - `ActivationArgs` is the twin of the kernel's struct, sizes asserted on both sides; rows, columns and groups are those
        //   of the checked views, single elements are read and written where rows are not whole runs, and `parts`, where a kernel
        //   touches it, has a float for each of its workgroups.
        // - The kernels write the codes, the scales, unless given, and `parts`: what the callers list.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, kernel), grid, [self.key.threads, 1, 1]).run(&self.args, written)
        }
    }
}

fn launch(
    stream: &Stream,
    x: View<'_>,
    smooth: Option<View<'_>>,
    to: RowCodes<'_>,
    [rows, cols]: [usize; 2],
) -> Result<()> {
    let Some(plan) = Plan::new(&x, smooth, &to, [rows, cols]) else {
        let group = if let Granularity::Group(group) = to.granularity { group } else { cols };
        return long(stream, x, smooth, to, group);
    };
    if plan.grid[1] > GRID_YZ_MAX {
        // The grid's second axis is short: the rows in parts.
        return in_parts(stream, x, smooth, to, GRID_YZ_MAX * plan.key.rows);
    }
    let kernel = if plan.key.lanes == 0 { "quantise_tiles" } else { "quantise_groups" };
    plan.run(stream, kernel, plan.grid, &[to.codes.buffer(), to.scales.buffer()])
}

/// One scale for all elements: the largest of each part, then codes by the largest of the parts.
fn tensor(stream: &Stream, x: View<'_>, smooth: Option<View<'_>>, to: RowCodes<'_>, extents: [usize; 2]) -> Result<()> {
    let mut plan = Plan::new(&x, smooth, &to, extents).expect("one scale for all needs no group held");
    let count = plan.grid[0].min(PARTS);
    let mut parts = Tensor::empty(x.device(), &[count], DType::F32)?;
    let written = parts.view_mut().view();
    plan.args.parts = written.device_address();
    plan.args.mode = count as u32;
    plan.run(stream, "activation_peaks", [count, 1, 1], &[written.buffer()])?;
    plan.run(stream, "quantise_groups", plan.grid, &[to.codes.buffer(), to.scales.buffer()])
}

/// Rows in parts that a grid holds, of so many rows.
fn in_parts(stream: &Stream, x: View<'_>, smooth: Option<View<'_>>, mut to: RowCodes<'_>, part: usize) -> Result<()> {
    let (granularity, rows, cols) = (to.granularity, x.shape()[0], x.shape()[1]);
    for first in (0..rows).step_by(part) {
        let end = (first + part).min(rows);
        let [first_scale, _] = granularity.scales_shape([first, cols]);
        let [end_scale, _] = granularity.scales_shape([end, cols]);
        let (x_part, code_part) = (x.layout().slice(0, first, end, 1)?, to.codes.layout().slice(0, first, end, 1)?);
        let scale_part = to.scales.layout().slice(0, first_scale, end_scale, 1)?;
        let codes = to.codes.reborrow().with_layout(code_part)?;
        let scales = to.scales.reborrow().with_layout(scale_part)?;
        let part = RowCodes { format: to.format, granularity, codes, scales };
        launch(stream, x.with_layout(x_part)?, smooth, part, [end - first, cols])?;
    }
    Ok(())
}

/// Groups that no workgroup holds in its registers: peaks, scales, codes, a launch each.
fn long(stream: &Stream, x: View<'_>, smooth: Option<View<'_>>, mut to: RowCodes<'_>, group: usize) -> Result<()> {
    let smoothed = smooth.map(|smooth| smoothed(stream, x, smooth)).transpose()?;
    let x = smoothed.as_ref().map_or(x, Tensor::view);
    let mut peaks = Tensor::empty(x.device(), to.scales.shape(), DType::F32)?;
    let block = [1, group.min(x.shape()[1])];
    block_peaks(stream, x, &block, PeakRule::scale(to.format.largest()), peaks.view_mut())?;
    family::copy_into(stream, peaks.view(), to.scales.reborrow())?;
    let layout = match to.format.bits() {
        8 => super::CodeLayout::bytes(to.format),
        _ => super::CodeLayout::packed(to.format, 1, x.shape()[1]),
    };
    let scales = super::Scales { view: to.scales.view(), kind: ScaleKind::F32, block: &block, global: None };
    let (layout, scales, rounding) = (&layout, Some(&scales), super::Rounding::Even);
    super::quantise(stream, x, &super::Coding { layout, scales, rounding, symmetric: true }, to.codes)
}

/// Whether one scale is given: `ACT_GIVEN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// Groups find their own.
    No,
    /// It is read.
    Read,
    /// It follows from the largest of each part.
    Parts,
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ActivationKey {
    pub x: DType,
    pub format: Format,
    /// Lanes per group; 0 for tiles.
    pub lanes: usize,
    /// Rows of a tile.
    pub rows: usize,
    /// Runs of 8 columns that a lane holds.
    pub runs: usize,
    /// Lanes of a workgroup.
    pub threads: usize,
    pub given: Given,
    pub smooth: bool,
    pub mx: bool,
}

/// The source of one variant.
pub(crate) fn source(key: ActivationKey) -> Source {
    let numbers = [
        ("ACT_LANES", key.lanes),
        ("ACT_ROWS", key.rows),
        ("ACT_RUNS", key.runs),
        ("ACT_THREADS", key.threads),
        ("ACT_GIVEN", key.given as usize),
        ("ACT_SMOOTH", usize::from(key.smooth)),
        ("ACT_MX", usize::from(key.mx)),
        ("ACT_PARTS", PARTS),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("ACT_X", c_type(key.x)), ("ACT_FORMAT", key.format.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("activations", concat!(include_str!("convert.h"), include_str!("activations.hip")), &defines)
}

/// `ActivationArgs` of `activations.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ActivationArgs {
    x: u64,
    codes: u64,
    scales: u64,
    smooth: u64,
    x_row: i64,
    code_row: i64,
    scale_row: i64,
    scale_col: i64,
    parts: u64,
    runs: FastDiv,
    rows: u32,
    cols: u32,
    group: u32,
    whole: u32,
    mode: u32,
    least: f32,
    most: f32,
    largest: f32,
    count: u32,
    kept: u32,
    unused: u32,
}
const _: () = assert!(size_of::<ActivationArgs>() == 128);
