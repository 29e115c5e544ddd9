//! `interpolate`: the launchers of `interpolate.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, KernelLaunch, Sources, c_type, outer_runs, shape, sum_dtype};

/// Extents of images stay below this, so that table entries fit 32 bits.
const EXTENT_MAX: usize = 1 << 27;
/// Rows of the result that a lane makes, one after the other: the more, the more of them share what was read.
const ROWS_MAX: usize = 16;
const ROWS_MIN: usize = 4;
/// Lanes below which rows are rather dealt to more of them: what a large device holds at once, in part.
const LANES: usize = 1 << 17;

/// How a pixel of the result is made of pixels of the image. The numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The pixel at `floor(output · inputs / outputs)`.
    Nearest = 0,
    /// The pixel under the middle of the output pixel.
    NearestExact = 1,
    /// Two by two pixels.
    Bilinear = 2,
    /// Four by four pixels by Keys' cubic with a = -0.75; past the edge the edge is repeated.
    Bicubic = 3,
    /// Six by six pixels by a windowed sinc; past the edge pixels are left out.
    Lanczos3 = 4,
}

impl Interpolation {
    /// Every one.
    pub const ALL: [Interpolation; 5] = [
        Interpolation::Nearest,
        Interpolation::NearestExact,
        Interpolation::Bilinear,
        Interpolation::Bicubic,
        Interpolation::Lanczos3,
    ];

    fn taps(self) -> usize {
        match self {
            Interpolation::Nearest | Interpolation::NearestExact => 1,
            Interpolation::Bilinear => 2,
            Interpolation::Bicubic => 4,
            Interpolation::Lanczos3 => 6,
        }
    }
}

/// `x` resized to the extents of `out`.
///
/// With `align_corners` the middles of the corner pixels fall on each other, else the corners themselves; it means nothing to
/// the nearest pixel.
///
/// # Shapes
/// `x`: `[batch, channels, height, width]`, `out` the same with other heights and widths. Any strides.
/// # Types
/// One float type.
/// # Numerics
/// Places and weights in f64; products and sums in f32 (f64 for f64), one rounding. A pixel of weight 0 is not read.
/// # Errors
/// `Shape` for shapes and layouts that do not fit, for an `x` without pixels, for images of 2³¹ elements; `Unsupported` for
/// types that are no floats.
pub fn interpolate(
    stream: &Stream,
    x: View<'_>,
    mode: Interpolation,
    align_corners: bool,
    out: ViewMut<'_>,
) -> Result<()> {
    run(stream, ("interpolate", "x", "out"), x, mode, align_corners, out)
}

/// The gradient of [`interpolate`] by `x`, for the gradient `grad` of its result.
///
/// # Shapes
/// `grad`: as `out` there; `x_grad` as `x`.
/// # Types, Errors
/// As for [`interpolate`].
/// # Numerics
/// Sums in f32 (f64 for f64), rows of `grad` in ascending order, one rounding.
pub fn interpolate_gradient(
    stream: &Stream,
    grad: View<'_>,
    mode: Interpolation,
    align_corners: bool,
    x_grad: ViewMut<'_>,
) -> Result<()> {
    run(stream, ("interpolate_gradient", "grad", "x_grad"), grad, mode, align_corners, x_grad)
}

fn run(
    stream: &Stream,
    (op, from_name, to_name): (&'static str, &'static str, &'static str),
    from: View<'_>,
    mode: Interpolation,
    align_corners: bool,
    to: ViewMut<'_>,
) -> Result<()> {
    let gradient = from_name == "grad";
    let out = to.view();
    check(op, stream, (from_name, &from), (to_name, &out))?;
    let (image, result) = if gradient { (out.shape(), from.shape()) } else { (from.shape(), out.shape()) };
    let (inputs, outputs) = ([image[2], image[3]], [result[2], result[3]]);
    if inputs.contains(&0) || inputs.iter().chain(&outputs).any(|&extent| extent >= EXTENT_MAX) {
        let expected = format!("images of at least one pixel, none of {EXTENT_MAX} rows or columns");
        return Err(shape(op, if gradient { to_name } else { from_name }, expected, format!("{image:?}, {result:?}")));
    }
    if out.is_empty() {
        return Ok(());
    }
    let space = Box3::of(out.shape(), 1);
    let dtype = from.dtype();
    static SOURCES: Sources<InterpolateKey> = Sources::new();
    let (from_strides, to_strides) = (strides(&from), strides(&out));
    let columns = if gradient || from_strides[3] != 1 || to_strides[3] != 1 { 1 } else { columns(dtype, mode) };
    let source = SOURCES.get(InterpolateKey { dtype, taps: mode.taps(), columns }, source);
    let taps = Taps { mode, align_corners, inputs, outputs, sum: sum_dtype(dtype), reach: gradient };
    let tables = Tables::new(op, stream, &source, &taps)?;

    let name = if gradient { "interpolate_gradient" } else { "interpolate" };
    let bytes = dtype.size_bytes() as i64;
    let [_, channels, height, width] = [0, 1, 2, 3].map(|axis| out.shape()[axis]);
    let whole = to_strides[..3].iter().all(|stride| stride % columns as i64 == 0);
    let aligned = out.device_address().is_multiple_of((columns * dtype.size_bytes()) as u64);
    let vector = whole && aligned && width.is_multiple_of(columns);
    for (first, batch) in outer_runs(op, space)? {
        let across = width.div_ceil(columns);
        let rows = if gradient { 1 } else { rows(batch * channels * across, height) };
        let count = batch * channels * height.div_ceil(rows) * across;
        let skip =
            |view: &View<'_>, batch: i64| view.device_address().wrapping_add_signed(first as i64 * batch * bytes);
        let args = InterpolateArgs {
            from: skip(&from, from_strides[0]),
            to: skip(&out, to_strides[0]),
            index: tables.index.view().device_address(),
            weight: tables.weight.view().device_address(),
            reach: tables.reach_address(),
            from_strides,
            to_strides,
            height: FastDiv::new(height.div_ceil(rows)),
            width: FastDiv::new(across),
            channels: FastDiv::new(channels),
            inputs: inputs[0] as i32,
            outputs: outputs[0] as i32,
            count: count as u32,
            columns: width as i32,
            rows: rows as i32,
            vector: i32::from(vector),
            unused: 0,
        };
        let (grid, block) = ([count.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `InterpolateArgs` is the twin of the kernel's struct, sizes asserted on both sides. Elements of `to`, or the rows and
        //   columns of a lane, are numbered below `count`, and the tables name rows and columns of `from` only.
        // - It writes `to` only.
        unsafe { KernelLaunch::new(stream, &source, (op, name), grid, block).run(&args, &[out.buffer()])? };
    }
    Ok(())
}

fn check(
    op: &'static str,
    stream: &Stream,
    (from_name, from): (&'static str, &View<'_>),
    to: (&'static str, &View<'_>),
) -> Result<()> {
    if from.shape().len() != 4 {
        return Err(shape(op, from_name, "[batch, channels, height, width]", format!("{:?}", from.shape())));
    }
    family::images(op, stream, (from_name, from), to)
}

/// Columns of the result that a lane makes where they are neighbours: a vector of them, fewer where each has taps and weights of
/// its own in registers.
fn columns(dtype: DType, mode: Interpolation) -> usize {
    (16 / dtype.size_bytes()).min(if mode.taps() > 1 { 4 } else { 8 })
}

/// Rows of the result that a lane makes, `lines` lanes side by side.
fn rows(lines: usize, height: usize) -> usize {
    let mut rows = ROWS_MAX;
    while rows > ROWS_MIN && lines * height.div_ceil(rows) < LANES {
        rows /= 2;
    }
    rows
}

fn strides(view: &View<'_>) -> [i64; 4] {
    let strides = view.layout().strides();
    [strides[0], strides[1], strides[2], strides[3]]
}

/// What [`Tables`] are made of: rows and columns of the image and of the result.
struct Taps {
    mode: Interpolation,
    align_corners: bool,
    inputs: [usize; 2],
    outputs: [usize; 2],
    /// The type of weights.
    sum: DType,
    /// Whether gradients ask which of the result a row or column went into.
    reach: bool,
}

/// The taps of each row and column of the result and, for gradients, which of the result each of the image went into.
struct Tables {
    index: Tensor,
    weight: Tensor,
    reach: Option<Tensor>,
}

impl Tables {
    /// 0 where there is none: only the kernel for gradients reads it.
    fn reach_address(&self) -> u64 {
        self.reach.as_ref().map_or(0, |reach| reach.view().device_address())
    }

    fn new(op: &'static str, stream: &Stream, source: &Source, taps: &Taps) -> Result<Tables> {
        let Taps { mode, align_corners, inputs, outputs, sum, reach } = *taps;
        let device = stream.device();
        let (from, to) = (inputs[0] + inputs[1], outputs[0] + outputs[1]);
        let tables = Tables {
            index: Tensor::empty(&device, &[to, mode.taps()], DType::I32)?,
            weight: Tensor::empty(&device, &[to, mode.taps()], sum)?,
            reach: if reach { Some(Tensor::empty(&device, &[from, 2], DType::I32)?) } else { None },
        };
        let entries = to + if reach { from } else { 0 };
        let args = TapsArgs {
            index: tables.index.view().device_address(),
            weight: tables.weight.view().device_address(),
            reach: tables.reach_address(),
            inputs: inputs.map(|extent| extent as i32),
            outputs: outputs.map(|extent| extent as i32),
            mode: mode as i32,
            align_corners: i32::from(align_corners),
            entries: entries as i32,
            unused: 0,
        };
        let last = tables.reach.as_ref().unwrap_or(&tables.weight);
        let written = [tables.index.buffer(), tables.weight.buffer(), last.buffer()];
        let written = if reach { &written[..] } else { &written[..2] };
        let (grid, block) = ([entries.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `TapsArgs` is the twin of the kernel's struct; the tables have an entry for every row and column below `entries`.
        // - It writes the three tables only.
        unsafe { KernelLaunch::new(stream, source, (op, "interpolate_taps"), grid, block).run(&args, written)? };
        Ok(tables)
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InterpolateKey {
    pub dtype: DType,
    pub taps: usize,
    pub columns: usize,
}

/// The source of one variant.
pub(crate) fn source(key: InterpolateKey) -> Source {
    let (taps, columns) = (key.taps.to_string(), key.columns.to_string());
    let defines = [
        ("INTERPOLATE_TYPE", c_type(key.dtype)),
        ("INTERPOLATE_SUM", c_type(sum_dtype(key.dtype))),
        ("INTERPOLATE_TAPS", taps.as_str()),
        ("INTERPOLATE_COLUMNS", columns.as_str()),
    ];
    Source::new("interpolate", include_str!("interpolate.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let kinds = [(1, 4), (2, 1), (2, 4), (4, 4), (6, 1), (6, 4)].into_iter().filter(move |_| dtype.is_float());
    kinds.map(move |(taps, columns)| {
        let columns = columns.min(16 / dtype.size_bytes());
        ("interpolate", source(InterpolateKey { dtype, taps, columns }))
    })
}

/// `TapsArgs` of `interpolate.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TapsArgs {
    index: u64,
    weight: u64,
    reach: u64,
    inputs: [i32; 2],
    outputs: [i32; 2],
    mode: i32,
    align_corners: i32,
    entries: i32,
    unused: i32,
}
const _: () = assert!(size_of::<TapsArgs>() == 56);

/// `InterpolateArgs` of `interpolate.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct InterpolateArgs {
    from: u64,
    to: u64,
    index: u64,
    weight: u64,
    reach: u64,
    from_strides: [i64; 4],
    to_strides: [i64; 4],
    height: FastDiv,
    width: FastDiv,
    channels: FastDiv,
    inputs: i32,
    outputs: i32,
    count: u32,
    columns: i32,
    rows: i32,
    vector: i32,
    unused: u32,
}
const _: () = assert!(size_of::<InterpolateArgs>() == 168);
