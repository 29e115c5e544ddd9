//! Pools, transposed convolutions, and `col2im`, which adds columns where windows overlap.
//!
//! Pools and convolutions of floats are launchers of `rocfire_kernels`. Those of integers, and `col2im`, are graphs that look up the
//! elements that each element of the result is made of; many such elements are a row that is reduced. Integer sums wrap, so their
//! order does not matter.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Info, Read, Write};
use cudarc::rocfire::{KernelSpec, Node, Turn};
use rocfire_fusion::{Compare, Draft, Graph, Reduce, Scalar, Term};
use rocfire_hal::{DType, Stream, View};
use rocfire_kernels::conv::{ConvParams, conv_input_gradient};
use rocfire_kernels::pool::{Nan, PoolParams, average_pool, max_pool};

use super::image::{Image, OfTypes};
use super::{SIZE, Words};
use crate::program::run_over;

/// Launches a graph that reduces each row of `taps` elements to one element of the result, whose address is in `slot`.
fn reduce(
    (node, stream, turn): (&Node, &Stream, &Turn),
    slot: usize,
    graph: &Graph,
    (space, taps): ([usize; 4], usize),
    inputs: &[View<'_>],
    scalars: &[Scalar],
) -> Result<(), DriverError> {
    let [a, b, c, d] = space;
    let mut out = node.tensor(slot, &[a, b, c, d, 1], graph.dtype(graph.outputs()[0]), turn)?;
    run_over(stream, graph, &[a, b, c, d, taps], inputs, scalars, &mut [out.view_mut()])
}

/// Quotient and remainder of numbers below 2³²: 32-bit division is several times as fast as 64-bit division.
fn split<'g>(number: Term<'g>, by: Term<'g>) -> [Term<'g>; 2] {
    let quotient = (number.cast(DType::U32) / by.cast(DType::U32)).cast(DType::I64);
    [quotient, number - quotient * by]
}

/// Whether a coordinate lies inside an axis. One below zero wraps to an unsigned number greater than any extent.
fn is_inside<'g>(at: Term<'g>, extent: Term<'g>) -> Term<'g> {
    at.cast(DType::U64).is(Compare::Lt, extent.cast(DType::U64))
}

/// `avg_pool2d_T` and `max_pool2d_T`. Arguments: number of elements; a window's extents along both axes; strides from window to window
/// along both; extents and strides of the image, its address, that of the result. A NaN is the greatest of a window that begins with
/// it, and else passed over.
pub(super) fn pool2d() -> KernelSpec {
    KernelSpec::by_operators(vec![SIZE, SIZE, SIZE, SIZE, SIZE, Info, Read, Write], |node, stream, turn| {
        let image = Image::new::<2>(node, (stream, turn), 5);
        let [kernel, stride] = [1, 3].map(|slot| [slot, slot + 1].map(|slot| node.word(slot) as usize));
        let [batch, channels, first, second] = image.extents;
        let count = |extent: usize, axis: usize| -> Option<usize> {
            Some(extent.checked_sub(kernel[axis])?.checked_div(stride[axis])? + 1)
        };
        let Some((firsts, seconds)) = count(first, 0).zip(count(second, 1)) else {
            let message = format!("windows {kernel:?} by {stride:?} must fit {first} x {second} elements");
            return Err(DriverError::new(message));
        };
        let space = [batch, channels, firsts, seconds];
        if space.contains(&0) {
            return Ok(());
        }
        let words = Words::of(node);
        let (of, is_mean) = (words.dtype(1), words.word(0) == "avg");
        if !of.is_float() {
            return pool_integers((node, stream, turn), (&image, of, is_mean), (kernel, stride), space);
        }
        let (x, mut out) = (image.view::<2>(of)?, node.tensor(7, &space, of, turn)?);
        let params = PoolParams { kernel: &kernel, stride: &stride, padding: &[0; 2], dilation: &[1; 2] };
        match is_mean {
            true => average_pool(stream, x, &params, false, out.view_mut())?,
            false => max_pool(stream, x, &params, Nan::First, out.view_mut(), None)?,
        }
        Ok(())
    })
}

/// Pools of integers, as a graph.
fn pool_integers(
    (node, stream, turn): (&Node, &Stream, &Turn),
    (image, of, is_mean): (&Image<'_>, DType, bool),
    (kernel, stride): ([usize; 2], [usize; 2]),
    space: [usize; 4],
) -> Result<(), DriverError> {
    static GRAPHS: [OfTypes; 2] = [OfTypes::new(), OfTypes::new()];
    let taps = kernel[0] * kernel[1];
    let numbers = [kernel[1] as i64, stride[0] as i64, image.steps[2], stride[1] as i64, image.steps[3]];
    let mut scalars = numbers.map(Scalar::Int).to_vec();
    let graph = if is_mean {
        scalars.push(Scalar::Float(1.0 / taps as f64));
        GRAPHS[0].of(of, |of| {
            Draft::graph("candle_pool", |g| {
                // The sum wraps in its type; what it then is gets multiplied by one over the number of taps.
                let sum = under_tap(g, of).reduce(Reduce::Sum).cast(DType::F32);
                (sum * g.scalar(DType::F32)).cast(of)
            })
        })
    } else {
        GRAPHS[1].of(of, |of| Draft::graph("candle_pool", |g| under_tap(g, of).reduce(Reduce::Max)))
    };
    let image = image.looked_up(of, 5, &[(0, 0), (1, 1)])?;
    reduce((node, stream, turn), 7, graph, (space, taps), &[image], &scalars)
}

/// The element under a tap of a window. The graph's scalars are the window's columns, then for each axis the windows' stride and the
/// image's step.
fn under_tap(g: &Draft, of: DType) -> Term<'_> {
    let taps = split(g.index(0), g.scalar(DType::I64));
    let [down, across] = [(2, taps[0]), (1, taps[1])].map(|(axis, tap)| {
        let [stride, step] = [(); 2].map(|()| g.scalar(DType::I64));
        (g.index(axis) * stride + tap) * step
    });
    g.lookup(of, down + across)
}

/// `conv_transpose1d_T`, and with `AXES` 2 `conv_transpose2d_T`. Arguments: number of elements; extents of the result, the last axis
/// first; stride, padding, how much longer the result is, dilation; extents and strides of the image, then of the weights `[channels,
/// channels of the result, window]`; addresses of image, weights and result.
pub(super) fn conv_transpose<const AXES: usize>() -> KernelSpec {
    let arguments = [vec![SIZE; 5 + AXES], vec![Info, Read, Read, Write]].concat();
    KernelSpec::by_operators(arguments, |node, stream, turn| {
        let number = |slot: usize| node.word(slot) as usize;
        let (info, on) = (5 + AXES, (stream, turn));
        let (image, weights) =
            (Image::new::<AXES>(node, on, info), Image::at::<AXES>(node, on, (info, 4 + 2 * AXES), info + 2));
        let [stride, padding, dilation] = [1, 2, 4].map(|at| number(AXES + at));
        let height = if AXES == 1 { 1 } else { number(2) };
        let space = [image.extents[0], weights.extents[1], height, number(1)];
        if space.contains(&0) {
            return Ok(());
        }
        let of = Words::of(node).dtype(1);
        if !of.is_float() {
            let window = [stride, padding, dilation];
            return conv_transpose_integers::<AXES>((node, stream, turn), (&image, &weights), window, space);
        }
        let params = ConvParams {
            stride: &[stride; 2][..AXES],
            padding: &[(padding, padding); 2][..AXES],
            dilation: &[dilation; 2][..AXES],
            groups: 1,
        };
        let shape = if AXES == 1 { [space[0], space[1], space[3], 1] } else { space };
        let mut out = node.tensor(info + 3, &shape[..2 + AXES], of, turn)?;
        let (image, weights) = (image.view::<AXES>(of)?, weights.view::<AXES>(of)?);
        Ok(conv_input_gradient(stream, image, weights, None, out.view_mut(), &params)?)
    })
}

/// Transposed convolutions of integers, as a graph.
fn conv_transpose_integers<const AXES: usize>(
    (node, stream, turn): (&Node, &Stream, &Turn),
    (image, weights): (&Image<'_>, &Image<'_>),
    [stride, padding, dilation]: [usize; 3],
    space: [usize; 4],
) -> Result<(), DriverError> {
    static GRAPHS: OfTypes = OfTypes::new();
    let (of, [channels, _, rows, columns]) = (Words::of(node).dtype(1), weights.extents);
    let graph = GRAPHS.of(of, |of| Draft::graph("candle_conv_transpose", |g| meetings(g, of).reduce(Reduce::Sum)));
    let along = |axis: usize| {
        // With one axis there is one row, which padding and dilation do not move.
        let (padding, dilation) = if AXES == 1 && axis == 2 { (0, 1) } else { (padding as i64, dilation as i64) };
        [padding, dilation, stride as i64, image.extents[axis] as i64, image.steps[axis], weights.steps[axis]]
    };
    let numbers = [&[columns as i64, rows as i64][..], &along(2), &along(3), &[image.steps[1], weights.steps[0]]];
    let scalars: Vec<Scalar> = numbers.concat().into_iter().map(Scalar::Int).collect();
    let inputs = [image.looked_up(of, 5, &[(0, 0)])?, weights.looked_up(of, 5, &[(1, 1)])?];
    reduce((node, stream, turn), 8 + AXES, graph, (space, channels * rows * columns), &inputs, &scalars)
}

/// A weight times the element of the image that it meets in an element of the result; zero if it meets none. The weight's channel,
/// row and column are read off the index in the row.
fn meetings(g: &Draft, of: DType) -> Term<'_> {
    let [columns, rows] = [(); 2].map(|()| g.scalar(DType::I64));
    let [rest, column] = split(g.index(0), columns);
    let [channel, row] = split(rest, rows);
    let [down, across] = [(2, row), (1, column)].map(|(axis, tap)| {
        let [padding, dilation, stride, extent, step, weight] = [(); 6].map(|()| g.scalar(DType::I64));
        let [at, rest] = split(g.index(axis) + padding - tap * dilation, stride);
        // A coordinate below zero leaves a remainder below zero, and meets nothing.
        let meets = rest.is(Compare::Eq, rest.number(0)) & is_inside(at, extent);
        (meets, at * step, tap * weight)
    });
    let [of_image, of_weights] = [(); 2].map(|()| channel * g.scalar(DType::I64));
    let place = of_image + down.1 + across.1;
    let place = (down.0 & across.0).choose(place, place.number(-1));
    g.lookup(of, place) * g.lookup(of, of_weights + down.2 + across.2)
}

/// The most windows that may overlap on one element for a lane to add their elements by itself: it then divides once for all of
/// them. More are a row that is reduced.
const WINDOWS_FEW: usize = 8;

/// `col2im1d_T`. Arguments: number of elements, extent, windows, channels, taps of a window, stride; addresses of the columns `[batch,
/// windows, channels, taps]`, dense, and of the result `[batch, channels, extent]`.
pub(super) fn col2im1d() -> KernelSpec {
    static GRAPHS: [OfTypes; 1 + WINDOWS_FEW] = [const { OfTypes::new() }; 1 + WINDOWS_FEW];
    KernelSpec::by_operators(vec![SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, Read, Write], |node, stream, turn| {
        let [elements, extent, windows, channels, kernel, stride] =
            [0, 1, 2, 3, 4, 5].map(|slot| node.word(slot) as usize);
        let Some(batch) = elements.checked_div(extent * channels).filter(|&batch| batch > 0) else { return Ok(()) };
        if stride == 0 {
            return Err(DriverError::new("windows must be at least one element apart"));
        }
        let (of, most) = (Words::of(node).dtype(0), kernel.div_ceil(stride));
        let columns = Image::dense(node, (stream, turn), 6, [batch, windows, channels, kernel]);
        let scalars = [stride, windows, kernel, channels * kernel].map(|number| Scalar::Int(number as i64));
        if (1..=WINDOWS_FEW).contains(&most) {
            let graph = GRAPHS[most].of(of, |of| few_overlapping(of, most));
            let inputs = [columns.looked_up(of, 3, &[(0, 0), (2, 1)])?; WINDOWS_FEW];
            return columns.launch(graph, &[batch, channels, extent], &inputs[..most], &scalars);
        }
        let graph = GRAPHS[0].of(of, |of| {
            Draft::graph("candle_col2im1d", |g| g.lookup(of, overlapping(g, 1)(g.index(0))).reduce(Reduce::Sum))
        });
        let inputs = [columns.looked_up(of, 5, &[(0, 0), (2, 1)])?];
        reduce((node, stream, turn), 7, graph, ([batch, channels, 1, extent], most), &inputs, &scalars)
    })
}

/// For an element of the result, whose coordinate is the index along `axis`: a function that gives the lookup's index of the element
/// that lies on it `back` windows before the last window that begins at or before it, or -1 if that window does not reach it.
fn overlapping<'g>(g: &'g Draft, axis: usize) -> impl Fn(Term<'g>) -> Term<'g> {
    let [stride, windows, kernel, apart] = [(); 4].map(|()| g.scalar(DType::I64));
    let [last, tap] = split(g.index(axis), stride);
    let (place, step) = (last * apart + tap, apart - stride);
    move |back| {
        let lies = is_inside(last - back, windows) & is_inside(tap + back * stride, kernel);
        lies.choose(place - back * step, place.number(-1))
    }
}

/// The graph that adds the elements of at most `most` windows, from the last backwards, and rounds the sum once.
fn few_overlapping(of: DType, most: usize) -> Graph {
    let wide = if of.is_float() && of != DType::F64 { DType::F32 } else { of };
    Draft::graph("candle_col2im1d", |g| {
        let place = overlapping(g, 0);
        let element = |back: usize| g.lookup(of, place(g.index(0).number(back as i64))).cast(wide);
        let sum = (1..most).fold(element(0), |sum, back| sum + element(back));
        sum.cast(of)
    })
}
