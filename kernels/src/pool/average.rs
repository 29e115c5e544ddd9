//! `average`: the launchers of `average.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{AXES, Image, PoolParams, SPATIAL, Windows, check};
use crate::Result;
use crate::family::{BLOCK, Box3, FastDiv, KernelLaunch, Sources, c_type, outer_runs, shape, sum_dtype};

/// The boxes that are averaged.
#[derive(Clone, Copy)]
enum Boxes {
    Sliding { windows: Windows, include_padding: bool },
    Adaptive,
}

/// The mean of each window.
///
/// # Shapes
/// `x`: `[batch, channels, spatial…]` with one to three axes; `out`: as many windows per axis as are wanted. Any strides.
/// # Types
/// One float type.
/// # Numerics
/// Sums in f32 (f64 for f64), row after row, one division and one rounding. With `include_padding` a window counts the
/// elements of the padding (but none past it), else those inside `x`; one that counts nothing gives 0.
/// # Errors
/// `Shape` for shapes, parameters, layouts that do not fit, a dilation, and for images of 2³¹ elements; `Unsupported` for
/// types that are no floats.
pub fn average_pool(
    stream: &Stream,
    x: View<'_>,
    params: &PoolParams<'_>,
    include_padding: bool,
    out: ViewMut<'_>,
) -> Result<()> {
    let boxes = sliding("average_pool", params, x.shape().len(), include_padding)?;
    run("average_pool", stream, boxes, false, x, out)
}

/// The gradient of [`average_pool`] by `x`, for the gradient `grad` of `out`. As there; each gradient is divided before it is
/// added, windows in ascending order.
///
/// # Errors
/// As for [`average_pool`].
pub fn average_pool_gradient(
    stream: &Stream,
    grad: View<'_>,
    params: &PoolParams<'_>,
    include_padding: bool,
    x_grad: ViewMut<'_>,
) -> Result<()> {
    let boxes = sliding("average_pool_gradient", params, grad.shape().len(), include_padding)?;
    run("average_pool_gradient", stream, boxes, true, grad, x_grad)
}

/// The means of the boxes that divide each axis of `x` into as many as `out` has: box `o` is
/// `floor(o · input / output) .. ceil((o + 1) · input / output)`.
///
/// # Shapes, Types, Numerics, Errors
/// As for [`average_pool`]; also `Shape` where input and output of an axis multiply to 2³¹.
pub fn adaptive_average_pool(stream: &Stream, x: View<'_>, out: ViewMut<'_>) -> Result<()> {
    run("adaptive_average_pool", stream, Boxes::Adaptive, false, x, out)
}

/// The gradient of [`adaptive_average_pool`] by `x`, for the gradient `grad` of `out`.
///
/// # Errors
/// As for [`adaptive_average_pool`].
pub fn adaptive_average_pool_gradient(stream: &Stream, grad: View<'_>, x_grad: ViewMut<'_>) -> Result<()> {
    run("adaptive_average_pool_gradient", stream, Boxes::Adaptive, true, grad, x_grad)
}

fn sliding(op: &'static str, params: &PoolParams<'_>, rank: usize, include_padding: bool) -> Result<Boxes> {
    if params.dilation.iter().any(|&dilation| dilation != 1) {
        return Err(shape(op, "params", "no dilation", format!("{:?}", params.dilation)));
    }
    Ok(Boxes::Sliding { windows: Windows::new(op, params, rank.saturating_sub(SPATIAL))?, include_padding })
}

fn run(
    op: &'static str,
    stream: &Stream,
    boxes: Boxes,
    gradient: bool,
    from_view: View<'_>,
    to_view: ViewMut<'_>,
) -> Result<()> {
    let names = if gradient { ("grad", "x_grad") } else { ("x", "out") };
    check(op, stream, (names.0, &from_view), (names.1, &to_view))?;
    let (from, to) = (Image::new(op, names.0, &from_view)?, Image::new(op, names.1, &to_view)?);
    let (input, output) = if gradient { (&to, &from) } else { (&from, &to) };
    let dtype = from_view.dtype();
    let key = AverageKey { dtype, adaptive: matches!(boxes, Boxes::Adaptive), gradient };
    let (windows, include_padding) = match boxes {
        Boxes::Sliding { windows, include_padding } => (windows, include_padding),
        Boxes::Adaptive => {
            let wide = (0..AXES).any(|axis| (input.extent[axis] + 1) * (output.extent[axis] + 1) >= 1 << 31);
            if wide {
                let expected = "input and output of an axis whose product is below 2^31";
                return Err(shape(op, names.1, expected, format!("{:?} and {:?}", input.extent, output.extent)));
            }
            // The division of an adaptive box is by the number of boxes.
            (Windows { kernel: [1; AXES], stride: output.extent, padding: [0; AXES], dilation: [1; AXES] }, false)
        }
    };
    static SOURCES: Sources<AverageKey> = Sources::new();
    let source = SOURCES.get(key, source);
    let narrow = |numbers: [usize; AXES]| numbers.map(|number| number as i32);
    let space = to.space();
    for (first, batch) in outer_runs(op, space)? {
        let count = Box3 { outer: batch, ..space }.len();
        if count == 0 {
            continue;
        }
        let args = AverageArgs {
            from: from.from(first, dtype),
            to: to.from(first, dtype),
            outer: [from.outer, to.outer],
            axis: [from.axis, to.axis],
            stride: narrow(windows.stride),
            padding: narrow(windows.padding),
            kernel: narrow(windows.kernel),
            input: input.extents_i32(),
            output: output.extents_i32(),
            extent: to.dividers(),
            channels: FastDiv::new(to.channels),
            step: windows.stride.map(FastDiv::new),
            inputs: input.dividers(),
            count: count as u32,
            include_padding: u32::from(include_padding),
            last: u32::from(from.outer[1] == 1 && to.outer[1] == 1),
        };
        let name = if gradient { "average_gradient" } else { "average" };
        let written = [to_view.view().buffer()];
        let grid = [count.div_ceil(BLOCK), 1, 1];
        // SAFETY:
        // - `AverageArgs` is the twin of the kernel's struct, sizes asserted on both sides. Elements of `to` are numbered below
        //   `count`; boxes are cut to the extents of `from`.
        // - It writes `to` only.
        unsafe { KernelLaunch::new(stream, &source, (op, name), grid, [BLOCK, 1, 1]).run(&args, &written)? };
    }
    Ok(())
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AverageKey {
    pub dtype: DType,
    pub adaptive: bool,
    pub gradient: bool,
}

/// The source of one variant.
pub(crate) fn source(key: AverageKey) -> Source {
    let flag = |set| if set { "1" } else { "0" };
    let defines = [
        ("AVERAGE_TYPE", c_type(key.dtype)),
        ("AVERAGE_SUM", c_type(sum_dtype(key.dtype))),
        ("AVERAGE_ADAPTIVE", flag(key.adaptive)),
        ("AVERAGE_GRADIENT", flag(key.gradient)),
    ];
    Source::new("average", include_str!("average.hip"), &defines)
}

/// Its rows of the registry.
pub(super) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let kinds = [(false, false), (false, true), (true, false), (true, true)].into_iter();
    kinds.map(move |(adaptive, gradient)| ("average", source(AverageKey { dtype, adaptive, gradient })))
}

/// `AverageArgs` of `average.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AverageArgs {
    from: u64,
    to: u64,
    outer: [[i64; 2]; 2],
    axis: [[i64; AXES]; 2],
    stride: [i32; AXES],
    padding: [i32; AXES],
    kernel: [i32; AXES],
    input: [i32; AXES],
    output: [i32; AXES],
    extent: [FastDiv; AXES],
    channels: FastDiv,
    step: [FastDiv; AXES],
    inputs: [FastDiv; AXES],
    count: u32,
    include_padding: u32,
    last: u32,
}
const _: () = assert!(size_of::<AverageArgs>() == 288);
