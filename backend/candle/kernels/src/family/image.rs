//! Windows of images as columns (`im2col`), and resizing, as graphs that look elements up at indices which they compute.
//!
//! Images `[batch, channels, rows, columns]` have any strides. A lookup counts elements of memory, gaps included, from the first of the
//! image or channel: an element of a channel has the index `row · step of rows + column · step of columns`.

use cudarc::driver::DriverError;
use cudarc::rocfire::Argument::{Info, Read, Scalar as Number, Write};
use cudarc::rocfire::{KernelSpec, Node, Turn};
use rocfire_fusion::{Binary, Compare, Draft, Graph, Scalar, Term};
use rocfire_hal::{DType, MAX_RANK, Stream, View};

use super::{DTYPES, Graphs, SIZE, Words, bits_of};
use crate::program::{info_word, run_over, view};

/// Graphs by element type.
pub(super) type OfTypes = Graphs<{ DTYPES.len() }>;

impl OfTypes {
    /// The graph of a type, made by `make` when it is first wanted.
    pub(super) fn of(&self, of: DType, make: impl FnOnce(DType) -> Graph) -> &Graph {
        self.get(DTYPES.iter().position(|known| known.1 == of).expect("it is a type of the table"), || make(of))
    }
}

/// An image whose address is an argument of a launch, with its extents and steps.
pub(super) struct Image<'a> {
    node: &'a Node,
    on: (&'a Stream, &'a Turn),
    slot: usize,
    pub(super) extents: [usize; 4],
    pub(super) steps: [i64; 4],
}

impl<'a> Image<'a> {
    /// An image whose extents and strides are in slot `info` and whose address is in the next. With `AXES` 1 it is `[batch, channels,
    /// columns]`, and has one row.
    pub(super) fn new<const AXES: usize>(node: &'a Node, on: (&'a Stream, &'a Turn), info: usize) -> Image<'a> {
        Image::at::<AXES>(node, on, (info, 0), info + 1)
    }

    /// The same with extents and strides from word `first` of slot `info` on, and the address in `slot`.
    pub(super) fn at<const AXES: usize>(
        node: &'a Node,
        on: (&'a Stream, &'a Turn),
        (info, first): (usize, usize),
        slot: usize,
    ) -> Image<'a> {
        let word = |first: usize, axis: usize, none: u64| match (AXES, axis) {
            (1, 2) => none,
            (1, 3) => info_word(node.argument(info), first + 2),
            _ => info_word(node.argument(info), first + axis),
        };
        let extents = [0, 1, 2, 3].map(|axis| word(first, axis, 1) as usize);
        Image { node, on, slot, extents, steps: [0, 1, 2, 3].map(|axis| word(first + 2 + AXES, axis, 0) as i64) }
    }

    /// A dense image whose address is in `slot`.
    pub(super) fn dense(node: &'a Node, on: (&'a Stream, &'a Turn), slot: usize, extents: [usize; 4]) -> Image<'a> {
        let steps = [0, 1, 2, 3].map(|axis| extents[axis + 1..].iter().product::<usize>() as i64);
        Image { node, on, slot, extents, steps }
    }

    /// The image as a view: `[batch, channels, rows, columns]`, without rows if `AXES` is 1.
    pub(super) fn view<const AXES: usize>(&self, of: DType) -> Result<View<'a>, DriverError> {
        let axes = if AXES == 1 { [0, 1, 3, 3] } else { [0, 1, 2, 3] };
        let (shape, strides) = (axes.map(|axis| self.extents[axis]), axes.map(|axis| self.steps[axis]));
        view(self.node, self.on.1, self.node.word(self.slot), of, (&shape[..2 + AXES], &strides[..2 + AXES]))
    }

    /// The image as the input of a lookup in a graph that runs over `rank` axes. `shared` pairs an axis of the image with the axis of
    /// the graph that it is; the lookup's index counts along the image's other axes.
    pub(super) fn looked_up(&self, of: DType, rank: usize, shared: &[(usize, usize)]) -> Result<View<'a>, DriverError> {
        let far = |axis: usize| (self.extents[axis] as i64 - 1) * self.steps[axis];
        let through = (0..4).filter(|&axis| shared.iter().all(|&(own, _)| own != axis));
        // The axis that the index counts along comes first, then those of the graph; the image is broadcast along those not shared.
        let (mut shape, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        let places = if self.extents.contains(&0) { 0 } else { through.map(far).sum::<i64>() as usize + 1 };
        (shape[0], strides[0]) = (places, 1);
        for &(own, axis) in shared {
            (shape[1 + axis], strides[1 + axis]) = (self.extents[own], self.steps[own]);
        }
        view(self.node, self.on.1, self.node.word(self.slot), of, (&shape[..=rank], &strides[..=rank]))
    }

    /// Launches a graph that looks the image up `TAPS` times. It runs over `space`, whose axes `batch` and `channels` are the image's.
    fn look_up<const TAPS: usize, const RANK: usize>(
        &self,
        (graphs, make): (&OfTypes, fn(DType) -> Graph),
        space: [usize; RANK],
        [batch, channels]: [usize; 2],
        scalars: &[Scalar],
    ) -> Result<(), DriverError> {
        if space.contains(&0) {
            return Ok(());
        }
        let graph = graphs.of(Words::of(self.node).dtype(0), make);
        let image = self.looked_up(graph.dtype(graph.outputs()[0]), RANK, &[(0, batch), (1, channels)])?;
        self.launch(graph, &space, &[image; TAPS], scalars)
    }

    /// Launches a graph over `space` whose result's address is in the slot behind the image's.
    pub(super) fn launch(
        &self,
        graph: &Graph,
        space: &[usize],
        inputs: &[View<'_>],
        scalars: &[Scalar],
    ) -> Result<(), DriverError> {
        let mut out = self.node.tensor(self.slot + 1, space, graph.dtype(graph.outputs()[0]), self.on.1)?;
        run_over(self.on.0, graph, space, inputs, scalars, &mut [out.view_mut()])
    }
}

/// `im2col_T`, and with `AXES` 1 `im2col1d_T`. Arguments: number of elements; windows along each axis; taps of a window along each;
/// stride, padding, dilation; extents and strides of the image, its address, that of the result.
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
        if space.contains(&0) {
            return Ok(());
        }
        let reach = |axis: usize| count[axis].saturating_sub(1) * step + taps[axis].saturating_sub(1) * dilation;
        let [by, apart] = [step, dilation].map(|number| number as i64);
        if padding == 0 && reach(0) < image.extents[2] && reach(1) < image.extents[3] {
            // No window reaches beyond the image, so the windows are a view of it, and are copied.
            let strides = [of_batch, by * down, by * across, of_channel, apart * down, apart * across];
            let of = Words::of(node).dtype(0);
            let copy = GRAPHS[0].of(of, |of| Draft::graph("candle_im2col", |g| g.input(bits_of(of))));
            let elements = view(node, turn, node.word(image.slot), bits_of(of), (&space, &strides))?;
            return image.launch(copy, &space, &[elements], &[]);
        }
        let above = if AXES == 1 { 0 } else { padding as i64 };
        let [rows, columns] = [image.extents[2], image.extents[3]].map(|extent| extent as i64);
        let scalars = [by, apart, above, rows, down, padding as i64, columns, across].map(Scalar::Int);
        image.look_up::<1, 6>((&GRAPHS[1], windows), space, [0, 3], &scalars)
    })
}

/// The graph that gives the element under each tap of each window, and zero beyond the image.
fn windows(of: DType) -> Graph {
    Draft::graph("candle_im2col", |g| {
        let [step, dilation] = [(); 2].map(|()| g.scalar(DType::I64));
        let [down, across] = [(4, 1), (3, 0)].map(|(window, tap)| {
            let [padding, extent, stride] = [(); 3].map(|()| g.scalar(DType::I64));
            let at = g.index(window) * step + g.index(tap) * dilation - padding;
            // Before the image the unsigned difference wraps to a number greater than any extent.
            (at.cast(DType::U64).is(Compare::Lt, extent.cast(DType::U64)), at * stride)
        });
        let place = down.1 + across.1;
        g.lookup(bits_of(of), (down.0 & across.0).choose(place, place.number(-1)))
    })
}

/// Launches a graph of [`Neighbours`] for a result of `size` rows and columns. `scales` has a factor and a middle for each axis: the
/// coordinate in the image is `(coordinate in the result + middle) · factor - middle`.
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

/// `upsample_nearest2d_T`. Arguments: rows and columns of the result; their factors in f64; extents and strides of the image, its
/// address, that of the result.
pub(super) fn nearest() -> KernelSpec {
    static GRAPHS: OfTypes = Graphs::new();
    KernelSpec::by_operators(vec![SIZE, SIZE, SIZE, SIZE, Info, Read, Write], |node, stream, turn| {
        let size = [0, 1].map(|slot| node.word(slot) as usize);
        let scales = [2, 3].map(|slot| (f64::from_bits(node.word(slot)), 0.0));
        resize::<1>(&Image::new::<2>(node, (stream, turn), 4), (&GRAPHS, near), size, scales)
    })
}

/// `upsample_bilinear2d_T`. Arguments: columns and rows of the result; whether corners fall on corners; for rows and then for columns,
/// whether a factor is given, and the factor in f64; extents and strides of the image, its address, that of the result.
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

/// The two elements of the image along an axis between which a coordinate lies: their indices for a lookup, and how much each counts.
struct Neighbours<'g> {
    places: [Term<'g>; 2],
    weights: [Term<'g>; 2],
}

impl<'g> Neighbours<'g> {
    /// Those of each coordinate of the result along a graph's axis, in f64. The graph's scalars are, for each axis of the image, its
    /// factor and middle, its last coordinate and its step.
    fn new(g: &'g Draft, axis: usize) -> Neighbours<'g> {
        let [factor, middle] = [(); 2].map(|()| g.scalar(DType::F64));
        let [last, step] = [(); 2].map(|()| g.scalar(DType::I64));
        let [zero, one] = [0.0, 1.0].map(|number| factor.number(number));
        let at = (g.index(axis).cast(DType::F64) + middle) * factor - middle;
        let at = at.is(Compare::Gt, zero).choose(at, zero);
        // A given factor that does not fit the extents can lead beyond the image, whose last row or column then stands for the rest.
        let low = at.cast(DType::I64).binary(Binary::Min, last);
        let high = (low + low.number(1)).binary(Binary::Min, last);
        let rest = at - low.cast(DType::F64);
        let weight = rest.is(Compare::Lt, one).choose(rest, one);
        Neighbours { places: [low * step, high * step], weights: [one - weight, weight] }
    }
}

/// The graph of `nearest`: the element at the coordinate, rounded down.
fn near(of: DType) -> Graph {
    Draft::graph("candle_nearest", |g| {
        let [down, across] = [1, 0].map(|axis| Neighbours::new(g, axis).places[0]);
        g.lookup(bits_of(of), down + across)
    })
}

/// The graph of `bilinear`: the mean of the four elements around the coordinate by their weights, in f64, rounded once.
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
