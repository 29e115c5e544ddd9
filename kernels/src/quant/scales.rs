//! `block_peaks` and `store_scales`: the launchers of `scales.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Layout, Source, Stream, Tensor, View, ViewMut};

use super::format::ScaleKind;
use super::walk::AXES;
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};

const OP: &str = "block_scales";
/// Elements that a wave takes of a block that is the whole tensor: enough to hide the latency of its loads, few enough that a
/// matrix of 4096 x 4096 fills a large device.
const PART: usize = 4096;
/// Elements of a block up to which one lane takes it alone, and up to which eight do; above it is a wave.
const LANES_MAX: [(usize, usize); 2] = [(4, 1), (64, 8)];

/// What becomes of the largest magnitude of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakRule {
    /// What it is multiplied by, first.
    pub numerator: f32,
    /// What it is divided by.
    pub denominator: f32,
    /// What stands for a result of 0.
    pub zero: f32,
    /// Whether a NaN makes the result NaN, or is passed over.
    pub nan: bool,
}

impl PeakRule {
    /// `numerator · peak / denominator`, NaN passed over: Burn's.
    pub const fn ratio(numerator: f32, denominator: f32) -> PeakRule {
        PeakRule { numerator, denominator, zero: 0.0, nan: false }
    }

    /// The scale that brings the largest magnitude to `largest`: 1 for zeros, NaN where there is one.
    pub const fn scale(largest: f32) -> PeakRule {
        PeakRule { numerator: 1.0, denominator: largest, zero: 1.0, nan: true }
    }
}

/// `peaks[block] = numerator · max |x| / denominator` over blocks of one shape.
///
/// # Shapes
/// `x` any float, any strides; `block` an extent for each of its axes, or empty for the whole tensor; `peaks` f32 and
/// contiguous, with as many elements as there are blocks. Blocks at the ends may be cut off.
/// # Numerics
/// In f32, by the rule.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit and for more than 8 axes; `Unsupported` for an `x` that is no float.
pub fn block_peaks(
    stream: &Stream,
    x: View<'_>,
    block: &[usize],
    rule: PeakRule,
    mut peaks: ViewMut<'_>,
) -> Result<()> {
    family::on_device(OP, "x", stream, &x)?;
    family::on_device(OP, "peaks", stream, &peaks)?;
    if !x.dtype().is_float() {
        return Err(Error::Unsupported { op: OP, dtype: x.dtype(), arch: x.arch() }.into());
    }
    let rank = x.shape().len();
    if !(block.is_empty() || block.len() == rank) || block.contains(&0) {
        return Err(shape(OP, "block", format!("an extent for each axis of {:?}", x.shape()), format!("{block:?}")));
    }
    let blocks: usize = x.shape().iter().zip(block).map(|(&extent, &block)| extent.div_ceil(block)).product();
    if peaks.dtype() != DType::F32 || peaks.len() != blocks || !peaks.layout().is_contiguous() {
        return Err(shape(OP, "peaks", format!("{blocks} contiguous f32"), format!("{:?}", peaks.shape())));
    }
    if blocks == 0 {
        return Ok(());
    }
    if !block.is_empty() {
        return launch_peaks(stream, &x, block, rule, &mut peaks);
    }
    if x.is_empty() {
        // A block of which nothing is there: its peak is 0.
        let none = x.with_layout(Layout::contiguous(&[0])?)?;
        return launch_peaks(stream, &none, &[1], rule, &mut peaks);
    }
    if x.len() <= PART {
        return launch_peaks(stream, &x, x.shape(), rule, &mut peaks);
    }
    // The whole tensor: peaks of parts, then of peaks.
    let flat = match x.layout().reshape(&[x.len()]) {
        Some(layout) => Flat::View(x.with_layout(layout)?),
        None => Flat::Copy(family::contiguous(stream, x)?),
    };
    let mut parts = Tensor::empty(x.device(), &[x.len().div_ceil(PART)], DType::F32)?;
    let line = match &flat {
        Flat::View(view) => *view,
        Flat::Copy(tensor) => tensor.view().with_layout(Layout::contiguous(&[x.len()])?)?,
    };
    let part = PeakRule { nan: rule.nan, ..PeakRule::ratio(1.0, 1.0) };
    launch_peaks(stream, &line, &[PART], part, &mut parts.view_mut())?;
    block_peaks(stream, parts.view(), &[], rule, peaks)
}

/// A tensor as one axis.
enum Flat<'a> {
    View(View<'a>),
    Copy(Tensor),
}

fn launch_peaks(stream: &Stream, x: &View<'_>, block: &[usize], rule: PeakRule, peaks: &mut ViewMut<'_>) -> Result<()> {
    let rank = x.shape().len();
    let elements: usize = block.iter().product();
    if rank > AXES || elements >= BOX_LIMIT || peaks.len() >= BOX_LIMIT {
        let expected = format!("at most {AXES} axes, fewer than {BOX_LIMIT} blocks and elements of a block");
        return Err(shape(OP, "x", expected, format!("{:?} in blocks of {block:?}", x.shape())));
    }
    let wave = stream.device().arch().info().wave_size as usize;
    let lanes = LANES_MAX.iter().find(|(most, _)| elements <= *most).map_or(wave, |(_, lanes)| *lanes);
    static SOURCES: Sources<PeaksKey> = Sources::new();
    let source = SOURCES.get(PeaksKey { x: x.dtype(), lanes }, source);
    let one = FastDiv::new(1);
    let mut args = PeaksArgs {
        x: x.device_address(),
        peaks: peaks.device_address(),
        strides: [0; AXES],
        extents: [1; AXES],
        grid: [one; AXES],
        block: [one; AXES],
        axes: rank as u32,
        blocks: peaks.len() as u32,
        elements: elements as u32,
        numerator: rule.numerator,
        denominator: rule.denominator,
        zero: rule.zero,
        nan: u32::from(rule.nan),
        padding: 0,
    };
    for (axis, (&extent, &block)) in x.shape().iter().zip(block).enumerate() {
        if extent >= BOX_LIMIT {
            return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} elements along an axis"), extent));
        }
        args.strides[axis] = x.layout().strides()[axis];
        args.extents[axis] = extent as u32;
        args.grid[axis] = FastDiv::new(extent.div_ceil(block));
        args.block[axis] = FastDiv::new(block);
    }
    let grid = [(peaks.len() * lanes).div_ceil(BLOCK), 1, 1];
    // SAFETY:
    // - `PeaksArgs` is the twin of the kernel's struct, sizes asserted on both sides; the kernel reads elements below the
    //   extents of `x` and writes a number per block, of which `peaks` has as many.
    // - It writes `peaks` only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "block_peaks"), grid, [BLOCK, 1, 1]).run(&args, &[peaks.buffer()])
    }
}

/// `scales = valid(peaks / denominator / divisor)`, rounded up to their type.
///
/// # Shapes
/// `peaks` f32, `scales` of `kind`, both contiguous and of as many elements; `divisor` one f32.
/// # Numerics
/// In f32. What is not positive and finite becomes the smallest normal f32, rounded up to the type, so that it can be divided
/// by; rounding up and this are Burn's `scale_to_dtype`.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit.
pub fn store_scales(
    stream: &Stream,
    peaks: View<'_>,
    denominator: f32,
    divisor: Option<View<'_>>,
    kind: ScaleKind,
    scales: ViewMut<'_>,
) -> Result<()> {
    const OP: &str = "store_scales";
    for (arg, view) in [("peaks", Some(peaks)), ("scales", Some(scales.view())), ("divisor", divisor)] {
        if let Some(view) = view {
            family::on_device(OP, arg, stream, &view)?;
        }
    }
    family::same_dtype(OP, "peaks", &peaks, DType::F32)?;
    family::same_dtype(OP, "scales", &scales, kind.dtype())?;
    if peaks.len() != scales.len() || !peaks.layout().is_contiguous() || !scales.layout().is_contiguous() {
        return Err(shape(OP, "scales", format!("{} contiguous elements", peaks.len()), scales.len()));
    }
    if let Some(divisor) = &divisor
        && (divisor.len() != 1 || divisor.dtype() != DType::F32)
    {
        return Err(shape(OP, "divisor", "one f32", format!("{:?}", divisor.shape())));
    }
    if peaks.is_empty() {
        return Ok(());
    }
    if peaks.len() >= BOX_LIMIT {
        return Err(shape(OP, "peaks", format!("fewer than {BOX_LIMIT} elements"), peaks.len()));
    }
    static SOURCES: Sources<PeaksKey> = Sources::new();
    let source = SOURCES.get(PeaksKey { x: DType::F32, lanes: 1 }, source);
    let args = StoreScalesArgs {
        peaks: peaks.device_address(),
        scales: scales.device_address(),
        divisor: divisor.map_or(0, |divisor| divisor.device_address()),
        denominator,
        count: peaks.len() as u32,
        kind: kind.number(),
        padding: 0,
    };
    let grid = [peaks.len().div_ceil(BLOCK), 1, 1];
    // SAFETY:
    // - `StoreScalesArgs` is the twin of the kernel's struct; both tensors have `count` elements.
    // - It writes `scales` only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "store_scales"), grid, [BLOCK, 1, 1]).run(&args, &[scales.buffer()])
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PeaksKey {
    pub x: DType,
    pub lanes: usize,
}

/// The source of one variant.
pub(crate) fn source(key: PeaksKey) -> Source {
    let lanes = key.lanes.to_string();
    Source::new("scales", include_str!("scales.hip"), &[("PEAKS_X", c_type(key.x)), ("PEAKS_LANES", lanes.as_str())])
}

/// `PeaksArgs` of `scales.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PeaksArgs {
    x: u64,
    peaks: u64,
    strides: [i64; AXES],
    extents: [u32; AXES],
    grid: [FastDiv; AXES],
    block: [FastDiv; AXES],
    axes: u32,
    blocks: u32,
    elements: u32,
    numerator: f32,
    denominator: f32,
    zero: f32,
    nan: u32,
    padding: u32,
}
const _: () = assert!(size_of::<PeaksArgs>() == 336);

/// `StoreScalesArgs` of `scales.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct StoreScalesArgs {
    peaks: u64,
    scales: u64,
    divisor: u64,
    denominator: f32,
    count: u32,
    kind: u32,
    padding: u32,
}
const _: () = assert!(size_of::<StoreScalesArgs>() == 40);
