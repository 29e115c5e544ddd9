//! Pools and their gradients: windows that overlap, leave gaps, hang over the edge, adaptive boxes, NaN, infinities.

use rocfire_hal::{DType, Layout, Stream, Tensor};
use rocfire_kernels::pool::{self, Nan, PoolParams};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement, ravel, unravel};

/// A pool over every spatial axis of `[batch, channels, spatial…]`.
#[derive(Clone, Debug)]
struct Shape {
    x: Vec<usize>,
    out: Vec<usize>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    nan: Nan,
}

#[derive(Clone, Copy, PartialEq)]
enum Mean {
    Inside,
    IncludePadding,
    Adaptive,
}

impl Shape {
    /// `out`: the number of windows per axis.
    fn new(x: &[usize], out: &[usize], kernel: &[usize], stride: &[usize], padding: &[usize]) -> Shape {
        let mut shape = x[..2].to_vec();
        shape.extend(out);
        Shape {
            x: x.to_vec(),
            out: shape,
            kernel: kernel.to_vec(),
            stride: stride.to_vec(),
            padding: padding.to_vec(),
            dilation: vec![1; kernel.len()],
            nan: Nan::Any,
        }
    }

    fn dilation(mut self, dilation: &[usize]) -> Shape {
        self.dilation = dilation.to_vec();
        self
    }

    /// The same where a NaN counts only if it is a window's first element.
    fn nan_if_first(mut self) -> Shape {
        self.nan = Nan::First;
        self
    }

    fn params(&self) -> PoolParams<'_> {
        PoolParams { kernel: &self.kernel, stride: &self.stride, padding: &self.padding, dilation: &self.dilation }
    }

    fn name(&self) -> String {
        let name = |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let Shape { x, out, kernel, stride, padding, dilation, nan } = self;
        let [x, out, kernel] = [x, out, kernel].map(|shape| name(shape));
        let nan = if *nan == Nan::First { " NaN if first" } else { "" };
        format!("{x} -> {out} kernel {kernel} stride {stride:?} padding {padding:?} dilation {dilation:?}{nan}")
    }

    /// The elements of a window, as numbers in `x`, row after row.
    fn window(&self, at: &[usize]) -> Vec<usize> {
        let mut tap = vec![0; self.kernel.len()];
        let mut elements = Vec::new();
        for number in 0..self.kernel.iter().product() {
            unravel(number, &self.kernel, &mut tap);
            let mut element = at.to_vec();
            for axis in 0..tap.len() {
                let place = at[2 + axis] * self.stride[axis] + tap[axis] * self.dilation[axis];
                element[2 + axis] = place.wrapping_sub(self.padding[axis]);
            }
            if element.iter().zip(&self.x).all(|(at, extent)| at < extent) {
                elements.push(ravel(&element, &self.x));
            }
        }
        elements
    }

    /// The places of an axis that the window of output `o` holds.
    fn inside(&self, axis: usize, o: usize, mean: Mean) -> Vec<usize> {
        let (input, outputs, first) = (self.x[2 + axis], self.out[2 + axis], o * self.stride[axis]);
        match mean {
            Mean::Adaptive => (o * input / outputs..((o + 1) * input).div_ceil(outputs)).collect(),
            Mean::Inside | Mean::IncludePadding => (first..first + self.kernel[axis])
                .filter_map(|place| place.checked_sub(self.padding[axis]))
                .filter(|&place| place < input)
                .collect(),
        }
    }

    /// How many elements the largest window holds, or, of the gradient, how many windows hold one element.
    fn terms(&self, mean: Mean, gradient: bool) -> usize {
        let most = |axis: usize| {
            let windows = (0..self.out[2 + axis]).map(|o| self.inside(axis, o, mean));
            if !gradient {
                return windows.map(|inside| inside.len()).max().unwrap_or(0);
            }
            let mut held = vec![0; self.x[2 + axis]];
            windows.flatten().for_each(|place| held[place] += 1);
            held.into_iter().max().unwrap_or(0)
        };
        (0..self.kernel.len()).map(most).product()
    }

    /// The elements of a box and how many it counts.
    fn mean(&self, at: &[usize], mean: Mean) -> (Vec<usize>, f64) {
        let mut counted = 1;
        let mut ranges = Vec::new();
        for axis in 0..self.kernel.len() {
            let (o, input) = (at[2 + axis], self.x[2 + axis]);
            let first = o * self.stride[axis];
            let inside = self.inside(axis, o, mean);
            counted *= match mean {
                Mean::IncludePadding => (input + 2 * self.padding[axis]).saturating_sub(first).min(self.kernel[axis]),
                Mean::Inside | Mean::Adaptive => inside.len(),
            }
            .max(1);
            ranges.push(inside);
        }
        let mut elements = vec![at[..2].to_vec()];
        for range in ranges {
            elements = elements.iter().flat_map(|e| range.iter().map(|&n| [&e[..], &[n]].concat())).collect();
        }
        (elements.iter().map(|element| ravel(element, &self.x)).collect(), counted as f64)
    }

    fn each(&self, mut each: impl FnMut(usize, &[usize])) {
        let mut at = vec![0; self.out.len()];
        for number in 0..self.out.iter().product() {
            unravel(number, &self.out, &mut at);
            each(number, &at);
        }
    }

    /// The largest of each window and its place: the first of equals, the last NaN or only one that is first.
    fn maxima(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let image: usize = self.x[2..].iter().product();
        let (mut values, mut places) = (Vec::new(), Vec::new());
        self.each(|_, at| {
            let (mut value, mut place) = (f64::NEG_INFINITY, -1.0);
            for element in self.window(at) {
                if place < 0.0 || x[element] > value || (self.nan == Nan::Any && x[element].is_nan()) {
                    (value, place) = (x[element], (element % image) as f64);
                }
            }
            values.push(value);
            places.push(place);
        });
        (values, places)
    }

    /// `special`: equal values, NaNs, infinities of both signs.
    fn elements(&self, dtype: DType, special: bool) -> Array {
        let mut x = Array::random(&self.x, dtype, 1);
        if special {
            for (n, value) in x.values.iter_mut().enumerate() {
                *value = [1.0, 1.0, f64::NAN, 0.0, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::INFINITY][n * n % 11 % 7];
            }
        }
        x
    }

    /// Each image has one NaN, which is at every place in turn.
    fn one_nan(&self, dtype: DType) -> Array {
        let mut x = Array::random(&self.x, dtype, 1);
        let image: usize = self.x[2..].iter().product();
        for (number, values) in x.values.chunks_mut(image).enumerate() {
            values[number % image] = f64::NAN;
        }
        x
    }

    fn max(self, dtype: DType, index: DType, placement: Placement, special: bool) -> Case {
        let x = self.elements(dtype, special);
        self.max_of(x, index, placement, if special { " special" } else { "" })
    }

    fn max_of(self, x: Array, index: DType, placement: Placement, what: &'static str) -> Case {
        let dtype = x.dtype;
        let size = format!("{} {} {placement:?}{what}", self.name(), index.name());
        let outputs = vec![(self.out.clone(), dtype), (self.out.clone(), index)];
        let for_oracle = self.clone();
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (out, indices) = outputs.split_at_mut(1);
            let places = Some(indices[0].view_mut());
            Ok(pool::max_pool(stream, inputs[0].view(), &self.params(), self.nan, out[0].view_mut(), places)?)
        };
        let oracle = move |inputs: &[Array]| {
            let (values, places) = for_oracle.maxima(&inputs[0].values);
            vec![values, places]
        };
        Case::new("max_pool", dtype, size, 0.0, Call { inputs: vec![(x, placement)], outputs, launch, oracle })
    }

    /// The same without places, as inference asks for it.
    fn max_alone(self, dtype: DType, special: bool) -> Case {
        let x = self.elements(dtype, special);
        self.max_alone_of(x, if special { " special" } else { "" })
    }

    fn max_alone_of(self, x: Array, what: &'static str) -> Case {
        let dtype = x.dtype;
        let size = format!("{} alone{what}", self.name());
        let outputs = vec![(self.out.clone(), dtype)];
        let for_oracle = self.clone();
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (x, out) = (inputs[0].view(), outputs[0].view_mut());
            Ok(pool::max_pool(stream, x, &self.params(), self.nan, out, None)?)
        };
        let oracle = move |inputs: &[Array]| vec![for_oracle.maxima(&inputs[0].values).0];
        let call = Call { inputs: vec![(x, Placement::Contiguous)], outputs, launch, oracle };
        Case::new("max_pool", dtype, size, 0.0, call)
    }

    /// The same, or means, of images with their channels innermost, into such.
    fn last(self, is_mean: bool, dtype: DType, special: bool) -> Case {
        let (x, terms) = (self.elements(dtype, special), self.terms(Mean::Inside, false));
        let size = format!("{} channels innermost{}", self.name(), if special { " special" } else { "" });
        let outputs = vec![(in_memory(&self.out), dtype)];
        let (for_oracle, values) = (self.clone(), x.values);
        let turned = Array::new(&in_memory(&self.x), dtype, innermost(&values, &self.x));
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (seen, out) = (as_images(inputs[0].layout())?, as_images(outputs[0].layout())?);
            let (x, out) = (inputs[0].view().with_layout(seen)?, outputs[0].view_mut().with_layout(out)?);
            match is_mean {
                true => pool::average_pool(stream, x, &self.params(), false, out)?,
                false => pool::max_pool(stream, x, &self.params(), self.nan, out, None)?,
            }
            Ok(())
        };
        let oracle = move |_: &[Array]| {
            let mut out = for_oracle.maxima(&values).0;
            if is_mean {
                for_oracle.each(|number, at| {
                    let (elements, counted) = for_oracle.mean(at, Mean::Inside);
                    out[number] = elements.iter().map(|element| values[*element]).sum::<f64>() / counted;
                });
            }
            vec![innermost(&out, &for_oracle.out)]
        };
        let name = if is_mean { "average_pool" } else { "max_pool" };
        let call = Call { inputs: vec![(turned, Placement::Contiguous)], outputs, launch, oracle };
        Case::new(name, dtype, size, 0.0, call).summing(terms)
    }

    /// Maxima with places of images with their channels innermost, both into such; or their gradient, into such, of such or not.
    fn last_with_places(self, gradient: bool, of_such: bool, dtype: DType, index: DType) -> Case {
        let (x, terms) = (self.elements(dtype, !gradient), self.kernel.iter().product());
        let (x_lies, out_lies, for_oracle) = (in_memory(&self.x), in_memory(&self.out), self.clone());
        let (values, places) = self.maxima(&x.values);
        let grad = Array::random(&self.out, dtype, 2);
        let size =
            format!("{} {} channels innermost{}", self.name(), index.name(), if of_such { "" } else { " alone" });
        let (inputs, outputs) = match gradient {
            true => {
                let lies = |values: &[f64], dtype| match of_such {
                    true => Array::new(&out_lies, dtype, innermost(values, &self.out)),
                    false => Array::new(&self.out, dtype, values.to_vec()),
                };
                (vec![lies(&grad.values, dtype), lies(&places, index)], vec![(x_lies, dtype)])
            }
            false => {
                let turned = Array::new(&x_lies, dtype, innermost(&x.values, &self.x));
                (vec![turned], vec![(out_lies.clone(), dtype), (out_lies, index)])
            }
        };
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let mut written = outputs.iter_mut().map(|output| {
                let layout = as_images(output.layout())?;
                output.view_mut().with_layout(layout)
            });
            let (first, second) = (written.next().expect("an output")?, written.next().transpose()?);
            let seen = |tensor: &Tensor| match of_such {
                true => as_images(tensor.layout()),
                false => Ok(*tensor.layout()),
            };
            let x = inputs[0].view().with_layout(seen(&inputs[0])?)?;
            if gradient {
                let indices = inputs[1].view().with_layout(seen(&inputs[1])?)?;
                return Ok(pool::max_pool_gradient(stream, x, indices, &self.params(), first)?);
            }
            Ok(pool::max_pool(stream, x, &self.params(), self.nan, first, second)?)
        };
        let oracle = move |_: &[Array]| match gradient {
            true => vec![innermost(&for_oracle.sent_back(&grad.values, &places), &for_oracle.x)],
            false => vec![innermost(&values, &for_oracle.out), innermost(&places, &for_oracle.out)],
        };
        let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
        let name = if gradient { "max_pool_gradient" } else { "max_pool" };
        Case::new(name, dtype, size, 0.0, Call { inputs, outputs, launch, oracle }).summing(terms)
    }

    /// The gradient of maxima with these places.
    fn sent_back(&self, grad: &[f64], places: &[f64]) -> Vec<f64> {
        let mut x_grad = vec![0.0; self.x.iter().product()];
        let image: usize = self.x[2..].iter().product();
        self.each(|number, at| {
            if places[number] >= 0.0 {
                x_grad[(at[0] * self.x[1] + at[1]) * image + places[number] as usize] += grad[number];
            }
        });
        x_grad
    }

    fn max_gradient(self, dtype: DType, index: DType, placement: Placement) -> Case {
        let (_, places) = self.maxima(&Array::random(&self.x, dtype, 1).values);
        let terms = self.kernel.iter().product();
        let grad = Array::random(&self.out, dtype, 2);
        let size = format!("{} {} {placement:?}", self.name(), index.name());
        let inputs = vec![(grad, placement), (Array::new(&self.out, index, places), Placement::Contiguous)];
        let outputs = vec![(self.x.clone(), dtype)];
        let for_oracle = self.clone();
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (grad, indices) = (inputs[0].view(), inputs[1].view());
            Ok(pool::max_pool_gradient(stream, grad, indices, &self.params(), outputs[0].view_mut())?)
        };
        let oracle = move |inputs: &[Array]| vec![for_oracle.sent_back(&inputs[0].values, &inputs[1].values)];
        let call = Call { inputs, outputs, launch, oracle };
        Case::new("max_pool_gradient", dtype, size, 0.0, call).summing(terms)
    }

    fn average(self, mean: Mean, gradient: bool, dtype: DType, placement: Placement) -> Case {
        let names =
            [["average_pool", "average_pool_gradient"], ["adaptive_average_pool", "adaptive_average_pool_gradient"]];
        let name = names[usize::from(mean == Mean::Adaptive)][usize::from(gradient)];
        let padding = if mean == Mean::IncludePadding { " with padding" } else { "" };
        let size = format!("{}{padding} {placement:?}", self.name());
        let (from, to) = if gradient { (&self.out, &self.x) } else { (&self.x, &self.out) };
        let terms = self.terms(mean, gradient);
        let (inputs, outputs) = (vec![(Array::random(from, dtype, 1), placement)], vec![(to.clone(), dtype)]);
        let for_oracle = self.clone();
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (from, to, include) = (inputs[0].view(), outputs[0].view_mut(), mean == Mean::IncludePadding);
            match (mean == Mean::Adaptive, gradient) {
                (true, false) => pool::adaptive_average_pool(stream, from, to)?,
                (true, true) => pool::adaptive_average_pool_gradient(stream, from, to)?,
                (false, false) => pool::average_pool(stream, from, &self.params(), include, to)?,
                (false, true) => pool::average_pool_gradient(stream, from, &self.params(), include, to)?,
            }
            Ok(())
        };
        let oracle = move |inputs: &[Array]| {
            let given = &inputs[0].values;
            let mut out = vec![0.0; if gradient { &for_oracle.x } else { &for_oracle.out }.iter().product()];
            for_oracle.each(|number, at| {
                let (elements, counted) = for_oracle.mean(at, mean);
                for element in elements {
                    let (to, from) = if gradient { (element, number) } else { (number, element) };
                    out[to] += given[from] / counted;
                }
            });
            vec![out]
        };
        Case::new(name, dtype, size, 0.0, Call { inputs, outputs, launch, oracle }).summing(terms)
    }
}

/// The extents of images of this shape as memory with their channels innermost has them.
fn in_memory(shape: &[usize]) -> Vec<usize> {
    let mut lies = shape.to_vec();
    lies[1..].rotate_left(1);
    lies
}

/// Such memory as images again.
fn as_images(lies: &Layout) -> rocfire_hal::Result<Layout> {
    let mut axes = [0, 1, 2, 3, 4];
    axes[1..lies.rank()].rotate_right(1);
    lies.permute(&axes[..lies.rank()])
}

/// The values of a tensor of this shape in the order of one with its channels innermost.
fn innermost(values: &[f64], shape: &[usize]) -> Vec<f64> {
    let (channels, places) = (shape[1], shape[2..].iter().product::<usize>());
    let image = channels * places;
    (0..values.len()).map(|n| values[n / image * image + n % channels * places + n % image / channels]).collect()
}

/// A pool of one to three axes, whose windows begin inside.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let axes = 1 + draw.below(3);
    let which = draw.below(8);
    let mut each =
        |least: usize, most: usize| -> Vec<usize> { (0..axes).map(|_| least + draw.below(most + 1 - least)).collect() };
    let (kernel, stride, more) = (each(1, 4), each(1, 3), each(0, 12));
    // Means have no steps between the elements of a window.
    let dilation = if which < 4 { each(1, 2) } else { vec![1; axes] };
    let padding: Vec<usize> = kernel.iter().map(|kernel| draw.below(kernel / 2 + 1)).collect();
    let (mut x, mut out) = (vec![draw.extent(3), draw.extent(17)], Vec::new());
    for axis in 0..axes {
        let reach = dilation[axis] * (kernel[axis] - 1) + 1;
        x.push(reach + more[axis]);
        out.push((more[axis] + 2 * padding[axis]) / stride[axis] + 1);
    }
    if which == 7 {
        out = out.iter().map(|_| 1 + draw.below(9)).collect();
    }
    let shape = Shape::new(&x, &out, &kernel, &stride, &padding).dilation(&dilation);
    let (dtype, placement, index) = (draw.float(), draw.placement(), draw.pick(&[DType::I64, DType::I32]));
    let flag = draw.flag();
    let shape = if which < 3 && draw.flag() { shape.nan_if_first() } else { shape };
    match which {
        0 => shape.max(dtype, index, placement, flag),
        1 => shape.max_alone(dtype, flag),
        2 => shape.last(false, dtype, flag),
        3 => shape.max_gradient(dtype, index, placement),
        4 => shape.last(true, dtype, false),
        5 => shape.average(Mean::Inside, flag, dtype, placement),
        6 => shape.average(Mean::IncludePadding, flag, dtype, placement),
        _ => shape.average(Mean::Adaptive, flag, dtype, placement),
    }
}

pub fn cases() -> Vec<Case> {
    let shapes = [
        Shape::new(&[1, 1, 1], &[1], &[1], &[1], &[0]),
        Shape::new(&[2, 3, 37], &[13], &[4], &[3], &[2]),
        Shape::new(&[2, 3, 7, 6], &[3, 3], &[2, 2], &[2, 2], &[0, 0]),
        Shape::new(&[1, 5, 13, 11], &[7, 6], &[3, 3], &[2, 2], &[1, 1]),
        Shape::new(&[2, 2, 9, 8], &[4, 3], &[3, 2], &[2, 3], &[0, 0]).dilation(&[2, 3]),
        Shape::new(&[1, 2, 4, 5, 6], &[2, 3, 3], &[3, 2, 2], &[2, 2, 3], &[1, 1, 1]),
        Shape::new(&[0, 2, 4, 5], &[2, 2], &[2, 2], &[2, 2], &[0, 0]),
        // Windows past the end, as rounding up makes them.
        Shape::new(&[1, 2, 5, 5], &[3, 3], &[2, 2], &[2, 2], &[0, 0]),
        // Several workgroups.
        Shape::new(&[3, 5, 31, 29], &[16, 15], &[3, 3], &[2, 2], &[1, 1]),
    ];
    let mut cases = Vec::new();
    for (turn, shape) in shapes.into_iter().enumerate() {
        let (dtype, placement) = (FLOATS[turn % 4], Placement::ALL[turn % 4]);
        let index = if turn % 2 == 0 { DType::I64 } else { DType::I32 };
        cases.push(shape.clone().max(DType::F32, index, Placement::Contiguous, false));
        cases.push(shape.clone().max(dtype, index, placement, true));
        cases.push(shape.clone().max_gradient(DType::F32, index, Placement::Contiguous));
        if (dtype, placement) != (DType::F32, Placement::Contiguous) {
            cases.push(shape.clone().max_gradient(dtype, index, placement));
        }
        let plain = shape.dilation.iter().all(|&dilation| dilation == 1);
        for gradient in [false, true] {
            if plain {
                cases.push(shape.clone().average(Mean::Inside, gradient, dtype, placement));
                cases.push(shape.clone().average(Mean::IncludePadding, gradient, DType::F32, Placement::Contiguous));
            }
            cases.push(shape.clone().average(Mean::Adaptive, gradient, dtype, placement));
        }
    }
    // Rows of whole vectors: windows in runs, whole and cut off, that reach into the vectors on either side.
    let rows = [
        Shape::new(&[3, 2, 9, 32], &[5, 16], &[3, 3], &[2, 2], &[1, 1]),
        Shape::new(&[1, 2, 4, 6, 16], &[3, 5, 15], &[2, 2, 4], &[1, 1, 1], &[0, 0, 1]),
        Shape::new(&[2, 3, 16], &[4], &[5], &[4], &[2]),
    ];
    for (turn, shape) in rows.into_iter().enumerate() {
        for (step, special) in [false, true].into_iter().enumerate() {
            let dtype = FLOATS[(turn + step) % 4];
            let index = if step == 0 { DType::I64 } else { DType::I32 };
            cases.push(shape.clone().max(dtype, index, Placement::Contiguous, special));
            cases.push(shape.clone().max_alone(FLOATS[(turn + 1) % 4], special));
        }
        cases.push(shape.nan_if_first().max_alone(FLOATS[(turn + 2) % 4], true));
    }
    // One NaN at every place of a row in turn, which is then of every window that holds it: by whole vectors and one by one.
    let moved = [
        Shape::new(&[32, 1, 32], &[16], &[3], &[2], &[1]),
        Shape::new(&[16, 1, 16], &[14], &[3], &[1], &[0]),
        Shape::new(&[37, 1, 37], &[13], &[4], &[3], &[2]),
        Shape::new(&[32, 1, 2, 16], &[2, 8], &[3, 3], &[1, 2], &[1, 1]),
    ];
    for (turn, shape) in moved.into_iter().enumerate() {
        for dtype in [FLOATS[turn % 4], FLOATS[(turn + 1) % 4]] {
            let x = shape.one_nan(dtype);
            cases.push(shape.clone().max_of(x.clone(), DType::I32, Placement::Contiguous, " one NaN"));
            cases.push(shape.clone().max_alone_of(x.clone(), " one NaN"));
            cases.push(shape.clone().nan_if_first().max_alone_of(x.clone(), " one NaN"));
            cases.push(shape.clone().nan_if_first().max_of(x, DType::I32, Placement::Strided, " one NaN"));
        }
    }
    // Channels side by side, in whole vectors or not.
    let images = [
        Shape::new(&[2, 16, 9, 10], &[5, 5], &[3, 3], &[2, 2], &[1, 1]),
        Shape::new(&[1, 24, 3, 4, 5], &[2, 2, 5], &[2, 1, 3], &[1, 2, 1], &[0, 0, 1]).dilation(&[1, 1, 1]),
        Shape::new(&[2, 5, 7], &[4], &[2], &[2], &[1]),
    ];
    for (turn, shape) in images.into_iter().enumerate() {
        cases.push(shape.clone().last(false, FLOATS[(turn + 1) % 4], false));
        cases.push(shape.clone().last(false, FLOATS[turn], true));
        cases.push(shape.clone().nan_if_first().last(false, FLOATS[(turn + 2) % 4], true));
        cases.push(shape.clone().last_with_places(false, true, FLOATS[turn], DType::I32));
        cases.push(shape.clone().last_with_places(false, true, FLOATS[(turn + 1) % 4], DType::I64));
        cases.push(shape.clone().last_with_places(true, true, FLOATS[turn], DType::I64));
        cases.push(shape.clone().last_with_places(true, true, FLOATS[(turn + 2) % 4], DType::I32));
        cases.push(shape.clone().last_with_places(true, false, FLOATS[(turn + 1) % 4], DType::I64));
        cases.push(shape.last(true, FLOATS[(turn + 1) % 4], false));
    }
    // More boxes than elements.
    let spread = || Shape::new(&[2, 2, 3, 4], &[7, 5], &[1, 1], &[1, 1], &[0, 0]);
    for gradient in [false, true] {
        cases.push(spread().average(Mean::Adaptive, gradient, DType::F32, Placement::Contiguous));
    }
    cases
}
