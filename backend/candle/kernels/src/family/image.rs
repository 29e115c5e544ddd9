//! Windows of images side by side, and images of another size, as graphs that look elements up at places that they compute.
//!
//! Images `[batch, channels, rows, columns]` have any strides. What a lookup counts along are all places from a channel's first
//! element to its last: those of the image are `row · step of rows + column · step of columns`.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Info, Read, Scalar as Number, Write};
use cudarc::rocfire::{KernelSpec, Node, Turn};
use rocfire_fusion::{Binary, Compare, Graph, Scalar};
use rocfire_hal::{DType, MAX_RANK, Stream};

use super::terms::{Draft, Term};
use super::{DTYPES, Graphs, SIZE, Words, bits_of};
use crate::program::{info_word, run_over, view};

/// Graphs by element type.
type OfTypes = Graphs<{ DTYPES.len() }>;

/// An image in the memory of a slot; the result is in the next.
struct Image<'a> {
    node: &'a Node,
    on: (&'a Stream, &'a Turn),
    slot: usize,
    extents: [usize; 4],
    steps: [i64; 4],
}

impl<'a> Image<'a> {
    /// Of extents and strides in a slot, before the image itself; with one of `AXES` there are no rows.
    fn new<const AXES: usize>(node: &'a Node, on: (&'a Stream, &'a Turn), info: usize) -> Image<'a> {
        let word = |first: usize, axis: usize, none: u64| match (AXES, axis) {
            (1, 2) => none,
            (1, 3) => info_word(node.argument(info), first + 2),
            _ => info_word(node.argument(info), first + axis),
        };
        let extents = [0, 1, 2, 3].map(|axis| word(0, axis, 1) as usize);
        Image { node, on, slot: info + 1, extents, steps: [0, 1, 2, 3].map(|axis| word(2 + AXES, axis, 0) as i64) }
    }

    /// Launches a graph that looks it up at `TAPS` places, over a space of which two axes are those of batch and channels.
    fn look_up<const TAPS: usize, const RANK: usize>(
        &self,
        (graphs, make): (&OfTypes, fn(DType) -> Graph),
        space: [usize; RANK],
        batch_and_channels: [usize; 2],
        scalars: &[Scalar],
    ) -> Result<(), DriverError> {
        let far = |axis: usize| (self.extents[axis] as i64 - 1) * self.steps[axis];
        // The places come before the space's axes, of which the other ones broadcast.
        let (mut shape, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        (shape[0], strides[0]) = (if self.extents.contains(&0) { 0 } else { (far(2) + far(3)) as usize + 1 }, 1);
        for (of, axis) in batch_and_channels.into_iter().enumerate() {
            (shape[1 + axis], strides[1 + axis]) = (self.extents[of], self.steps[of]);
        }
        self.launch::<TAPS>((graphs, make), &space, (&shape[..=RANK], &strides[..=RANK]), scalars)
    }

    /// Launches a graph all of whose `INPUTS` lie so.
    fn launch<const INPUTS: usize>(
        &self,
        (graphs, make): (&OfTypes, fn(DType) -> Graph),
        space: &[usize],
        lie: (&[usize], &[i64]),
        scalars: &[Scalar],
    ) -> Result<(), DriverError> {
        if space.contains(&0) {
            return Ok(());
        }
        let (Image { node, on: (stream, turn), .. }, of) = (self, Words::of(self.node).dtype(0));
        let number = DTYPES.iter().position(|known| known.1 == of).expect("it is a type of the table");
        let graph = graphs.get(number, || make(of));
        let of = graph.dtype(graph.outputs()[0]);
        let image = view(node, turn, node.word(self.slot), of, lie)?;
        let out = node.tensor(self.slot + 1, space, of, turn)?;
        run_over(stream, graph, space, &[image; INPUTS], scalars, &mut [out])
    }
}

/// `im2col_T`, and of one of `AXES` `im2col1d_T`: elements; places of windows and elements of a window along each; step, padding,
/// dilation; the image, the result.
pub(super) fn im2col<const AXES: usize>() -> KernelSpec {
    static GRAPHS: [OfTypes; 2] = [OfTypes::new(), OfTypes::new()];
    let arguments = [vec![SIZE; 4 + 2 * AXES], vec![Info, Read, Write]].concat();
    KernelSpec::by_operators(arguments, |node, stream, turn| {
        let number = |slot: usize| node.word(slot) as usize;
        let along = |first: usize| [if AXES == 1 { 1 } else { number(first) }, number(first + AXES - 1)];
        let (count, taps, rest) = (along(1), along(1 + AXES), 1 + 2 * AXES);
        let (step, padding, dilation) = (number(rest), number(rest + 1), number(rest + 2));
        let image = Image::new::<AXES>(node, (stream, turn), rest + 3);
        let Image { extents: [batch, channels, ..], steps: [of_batch, of_channel, down, across], .. } = image;
        let space = [batch, count[0], count[1], channels, taps[0], taps[1]];
        let reach = |axis: usize| count[axis].saturating_sub(1) * step + taps[axis].saturating_sub(1) * dilation;
        let [by, apart] = [step, dilation].map(|number| number as i64);
        if padding == 0 && reach(0) < image.extents[2] && reach(1) < image.extents[3] {
            // Elements of a view, none beyond the image.
            let strides = [of_batch, by * down, by * across, of_channel, apart * down, apart * across];
            let copy = |of| Draft::graph("candle_im2col", |g| g.input(bits_of(of)));
            return image.launch::<1>((&GRAPHS[0], copy), &space, (&space, &strides), &[]);
        }
        let above = if AXES == 1 { 0 } else { padding as i64 };
        let [rows, columns] = [image.extents[2], image.extents[3]].map(|extent| extent as i64);
        let scalars = [by, apart, above, rows, down, padding as i64, columns, across].map(Scalar::Int);
        image.look_up::<1, 6>((&GRAPHS[1], windows), space, [0, 3], &scalars)
    })
}

/// The element under each tap of each window; zero beyond the image.
fn windows(of: DType) -> Graph {
    Draft::graph("candle_im2col", |g| {
        let [step, dilation] = [(); 2].map(|()| g.scalar(DType::I64));
        let [down, across] = [(4, 1), (3, 0)].map(|(window, tap)| {
            let [padding, extent, stride] = [(); 3].map(|()| g.scalar(DType::I64));
            let at = g.index(window) * step + g.index(tap) * dilation - padding;
            // Before the image the difference wraps to something larger than any extent.
            (at.cast(DType::U64).is(Compare::Lt, extent.cast(DType::U64)), at * stride)
        });
        let place = down.1 + across.1;
        g.lookup(bits_of(of), down.0.binary(Binary::And, across.0).choose(place, place.number(-1)))
    })
}

/// Launches a graph of [`Neighbours`] for a result of so many rows and columns. Along each axis a coordinate of the image is that
/// of the result, and the second number of a scale, times the first, less the second.
fn resize<const TAPS: usize>(
    image: &Image<'_>,
    made: (&OfTypes, fn(DType) -> Graph),
    size: [usize; 2],
    scales: [(f64, f64); 2],
) -> Result<(), DriverError> {
    let scalars = [0, 1].map(|axis| {
        let ((factor, middle), last) = (scales[axis], image.extents[2 + axis] as i64 - 1);
        [Scalar::Float(factor), Scalar::Float(middle), Scalar::Int(last), Scalar::Int(image.steps[2 + axis])]
    });
    let space = [image.extents[0], image.extents[1], size[0], size[1]];
    image.look_up::<TAPS, 4>(made, space, [0, 1], scalars.as_flattened())
}

/// `upsample_nearest2d_T`: rows and columns of the result, and their factors; the image, the result.
pub(super) fn nearest() -> KernelSpec {
    static GRAPHS: OfTypes = Graphs::new();
    KernelSpec::by_operators(vec![SIZE, SIZE, SIZE, SIZE, Info, Read, Write], |node, stream, turn| {
        let size = [0, 1].map(|slot| node.word(slot) as usize);
        let scales = [2, 3].map(|slot| (f64::from_bits(node.word(slot)), 0.0));
        resize::<1>(&Image::new::<2>(node, (stream, turn), 4), (&GRAPHS, near), size, scales)
    })
}

/// `upsample_bilinear2d_T`: columns and rows of the result; whether corners fall on corners; for rows and then columns, whether a
/// factor is given, and it; the image, the result.
pub(super) fn bilinear() -> KernelSpec {
    static GRAPHS: OfTypes = Graphs::new();
    let arguments = vec![SIZE, SIZE, Number(1), Number(1), SIZE, Number(1), SIZE, Info, Read, Write];
    KernelSpec::by_operators(arguments, |node, stream, turn| {
        let size = [1, 0].map(|slot| node.word(slot) as usize);
        let image = Image::new::<2>(node, (stream, turn), 7);
        let is_set = |slot| node.argument(slot).first().is_some_and(|&flag| flag != 0);
        let scales = [0, 1].map(|axis| {
            let (input, output, given) = (image.extents[2 + axis] as f64, size[axis] as f64, 3 + 2 * axis);
            match (is_set(2), is_set(given)) {
                (true, _) if size[axis] > 1 => ((input - 1.0) / (output - 1.0), 0.0),
                (true, _) => (0.0, 0.0),
                (false, true) => (1.0 / f64::from_bits(node.word(given + 1)), 0.5),
                (false, false) => (input / output, 0.5),
            }
        });
        resize::<4>(&image, (&GRAPHS, between), size, scales)
    })
}

/// Two neighbours along an axis, as places of the image, and how much each counts.
struct Neighbours<'g> {
    places: [Term<'g>; 2],
    weights: [Term<'g>; 2],
}

impl<'g> Neighbours<'g> {
    /// Of each coordinate of the result, in f64; scalars are an axis's scale, its last coordinate and its step.
    fn new(g: &'g Draft, axis: usize) -> Neighbours<'g> {
        let [factor, middle] = [(); 2].map(|()| g.scalar(DType::F64));
        let [last, step] = [(); 2].map(|()| g.scalar(DType::I64));
        let [zero, one] = [0.0, 1.0].map(|number| factor.number(number));
        let at = (g.index(axis).cast(DType::F64) + middle) * factor - middle;
        let at = at.is(Compare::Gt, zero).choose(at, zero);
        // A factor smaller than the real one leads beyond the image, whose last row then stands for the rest.
        let low = at.cast(DType::I64).binary(Binary::Min, last);
        let high = (low + low.number(1)).binary(Binary::Min, last);
        let rest = at - low.cast(DType::F64);
        let weight = rest.is(Compare::Lt, one).choose(rest, one);
        Neighbours { places: [low * step, high * step], weights: [one - weight, weight] }
    }
}

/// The element before or at the place that each of the result stands for.
fn near(of: DType) -> Graph {
    Draft::graph("candle_nearest", |g| {
        let [down, across] = [1, 0].map(|axis| Neighbours::new(g, axis).places[0]);
        g.lookup(bits_of(of), down + across)
    })
}

/// Between the four neighbours of that place, in f64, rounded once.
fn between(of: DType) -> Graph {
    Draft::graph("candle_bilinear", |g| {
        let [down, across] = [1, 0].map(|axis| Neighbours::new(g, axis));
        let lines = down.places.map(|row| {
            let [left, right] = across.places.map(|column| g.lookup(of, row + column).cast(DType::F64));
            left * across.weights[0] + right * across.weights[1]
        });
        (lines[0] * down.weights[0] + lines[1] * down.weights[1]).cast(of)
    })
}
