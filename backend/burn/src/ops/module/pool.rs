//! Pooling: windows as strided views, reduced by rows; means as taps.

use burn_std::IndexingUpdateOp;
use rocfire_fusion::{Binary, Compare, Reduce, Scalar, Unary, eager};
use rocfire_hal::{DType, Error as HalError, Tensor};

use super::pad::{self, Side};
use super::taps::Taps;
use crate::error::Result;
use crate::ops::{elementwise, fused, index, memory, view};

/// Axis of the rows in `[batch, channels, height, width]`; the first spatial axis of volumes too.
const SPATIAL: usize = 2;

/// A pooling window along one axis.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Elements.
    pub(crate) kernel: usize,
    /// From one window to the next.
    pub(crate) stride: usize,
    /// Elements outside the input, on either side.
    pub(crate) padding: usize,
    /// From one element of a window to the next.
    pub(crate) dilation: usize,
    /// Whether a window that begins inside but ends outside counts.
    pub(crate) ceil: bool,
}

impl Window {
    fn reach(&self) -> usize {
        self.dilation * (self.kernel - 1) + 1
    }

    /// The number of windows over an axis of extent `input`. As in PyTorch and ONNX, rounding up never adds a window that
    /// would begin behind the input.
    fn outputs(&self, input: usize) -> usize {
        let padded = input + 2 * self.padding;
        let Some(free) = padded.checked_sub(self.reach()) else { return usize::from(self.ceil) };
        if !self.ceil {
            return free / self.stride + 1;
        }
        let outputs = free.div_ceil(self.stride) + 1;
        if (outputs - 1) * self.stride >= input + self.padding { outputs - 1 } else { outputs }
    }

    fn check(&self, op: &'static str) -> Result<()> {
        if self.kernel > 0 && self.stride > 0 && self.dilation > 0 {
            return Ok(());
        }
        let got = format!("kernel {}, stride {}, dilation {}", self.kernel, self.stride, self.dilation);
        Err(HalError::shape(op, "window", "of at least one element and step", got).into())
    }
}

/// `x` with room for every window, what is outside filled with minus infinity, seen as
/// `[batch, channels, out_h, out_w, kernel_h, kernel_w]`.
fn maximum_windows(x: &Tensor, windows: [Window; 2]) -> Result<Tensor> {
    require_rank("max_pool2d", x, 4)?;
    let mut sides = Vec::with_capacity(2);
    for (axis, window) in windows.iter().enumerate() {
        window.check("max_pool2d")?;
        let input = x.shape()[SPATIAL + axis];
        let needed = window.outputs(input).saturating_sub(1) * window.stride + window.reach();
        let after = needed.saturating_sub(window.padding + input);
        sides.push(Side { before: window.padding, after });
    }
    let padded = pad::pad(x, SPATIAL, &sides, Scalar::Float(f64::NEG_INFINITY))?;
    let mut seen = padded;
    for (axis, window) in windows.iter().enumerate() {
        let outputs = window.outputs(x.shape()[SPATIAL + axis]);
        seen = view::windows(&seen, SPATIAL + axis, window.kernel, window.stride, window.dilation)?;
        seen = view::narrow(&seen, SPATIAL + axis, 0, outputs)?;
    }
    Ok(seen)
}

/// The largest of each window.
pub(crate) fn max(x: &Tensor, windows: [Window; 2]) -> Result<Tensor> {
    let seen = maximum_windows(x, windows)?;
    last_two(Reduce::Max, &seen)
}

/// A reduction of the last two axes of six.
fn last_two(op: Reduce, x: &Tensor) -> Result<Tensor> {
    let shape = &x.shape()[..5];
    let inner = view::reshape(&eager::reduce_last(op, x)?, shape)?;
    view::reshape(&eager::reduce_last(op, &inner)?, &shape[..4])
}

/// The largest of each window and where it is: its number in the image, the first of equals, the last of NaNs as in
/// PyTorch; -1 for a window that lies outside.
///
/// Each element of a window gets a key: its number where it equals the maximum, the negative of it where it is a NaN, and
/// more than any number elsewhere. The smallest key of a window is the answer.
pub(crate) fn max_with_indices(x: &Tensor, windows: [Window; 2], indices: DType) -> Result<(Tensor, Tensor)> {
    let seen = maximum_windows(x, windows)?;
    let largest = last_two(Reduce::Max, &seen)?;
    let broadcast = view::unsqueeze(&view::unsqueeze(&largest, 4)?, 5)?;
    let dtype = x.dtype();
    let graph = fused::graph("max_pool2d_key", &[dtype], |g| {
        let (x, largest) = (g.input(dtype), g.input(dtype));
        let nowhere = g.constant(DType::I64, i64::MAX);
        let zero = g.constant(DType::I64, 0_i64);
        // The coordinate along one axis of the image, and whether it is inside.
        let mut along = |output: usize, element: usize| {
            let [stride, dilation, padding, extent] = [(); 4].map(|()| g.scalar(DType::I64));
            let (output, element) = (g.index(output), g.index(element));
            let first = g.binary(Binary::Mul, output, stride);
            let step = g.binary(Binary::Mul, element, dilation);
            let at = g.binary(Binary::Add, first, step);
            let at = g.binary(Binary::Sub, at, padding);
            let (low, high) = (g.compare(Compare::Ge, at, zero), g.compare(Compare::Lt, at, extent));
            let inside = g.binary(Binary::And, low, high);
            (at, inside, extent)
        };
        let (row, row_inside, _) = along(3, 1);
        let (column, column_inside, width) = along(2, 0);
        let above = g.binary(Binary::Mul, row, width);
        let number = g.binary(Binary::Add, above, column);
        let negative = g.unary(Unary::Neg, number);
        let equal = g.compare(Compare::Eq, x, largest);
        let inside = g.binary(Binary::And, row_inside, column_inside);
        let chosen = g.binary(Binary::And, equal, inside);
        let key = g.select(chosen, number, nowhere);
        let nan = g.unary(Unary::IsNan, x);
        let key = g.select(nan, negative, key);
        let first = g.reduce(Reduce::Min, key);
        g.output(first);
    });
    let mut scalars = Vec::with_capacity(8);
    for (axis, window) in windows.iter().enumerate() {
        let extent = x.shape()[SPATIAL + axis];
        scalars.extend([window.stride, window.dilation, window.padding, extent].map(|n| Scalar::Uint(n as u64)));
    }
    let keys = fused::per_row(&graph, &[&seen, &broadcast], &scalars, DType::I64)?;
    let keys = view::reshape(&keys, &seen.shape()[..5])?;
    let finish = fused::graph("max_pool2d_index", &[indices], |g| {
        let keys = g.input(DType::I64);
        let key = g.reduce(Reduce::Min, keys);
        let nowhere = g.constant(DType::I64, i64::MAX);
        let outside = g.compare(Compare::Eq, key, nowhere);
        let none = g.constant(DType::I64, -1_i64);
        let number = g.unary(Unary::Abs, key);
        let number = g.select(outside, none, number);
        let number = g.cast(number, indices);
        g.output(number);
    });
    let places = fused::per_row(&finish, &[&keys], &[], indices)?;
    let places = view::reshape(&places, largest.shape())?;
    Ok((largest, places))
}

/// The gradient of a maximum pool: each window's goes to the element it was.
pub(crate) fn max_backward(x: &Tensor, grad: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let shape = x.shape();
    let planes = shape[0] * shape[1];
    let (inputs, outputs) = (shape[2] * shape[3], grad.shape()[2] * grad.shape()[3]);
    let zeros = memory::full(x.device(), &[planes, inputs], grad.dtype(), Scalar::Int(0))?;
    let indices = view::reshape(indices, &[planes, outputs])?;
    let grad = view::reshape(grad, &[planes, outputs])?;
    view::reshape(&index::scatter(zeros, 1, &indices, &grad, IndexingUpdateOp::Add)?, shape)
}

/// The means of boxes: the taps of each spatial axis, and how many elements each mean divides by, axis by axis.
pub(crate) struct Means {
    taps: Vec<Taps>,
    counts: Vec<Vec<usize>>,
}

impl Means {
    /// Windows that slide; without `include_pad` only what is inside the input counts.
    pub(crate) fn sliding(x: &Tensor, windows: &[Window], include_pad: bool) -> Result<Means> {
        require_rank("avg_pool2d", x, SPATIAL + windows.len())?;
        let (mut taps, mut counts) = (Vec::new(), Vec::new());
        for (axis, window) in windows.iter().enumerate() {
            window.check("avg_pool2d")?;
            let input = x.shape()[SPATIAL + axis];
            let first = |output: usize| output * window.stride;
            let inside = |output: usize| {
                let places = first(output)..first(output) + window.kernel;
                places.filter_map(|place| place.checked_sub(window.padding)).filter(|&place| place < input)
            };
            let outputs = 0..window.outputs(input);
            let lists = outputs.clone().map(|output| inside(output).map(|place| (place, 1.0)).collect()).collect();
            let axis_taps = Taps::new(input, lists);
            counts.push(match include_pad {
                true => outputs
                    .map(|output| (input + 2 * window.padding).saturating_sub(first(output)).min(window.kernel))
                    .collect(),
                false => axis_taps.lengths(),
            });
            taps.push(axis_taps);
        }
        Ok(Means { taps, counts })
    }

    /// Boxes that divide the input into `sizes`, overlapping where they must.
    pub(crate) fn adaptive(x: &Tensor, sizes: &[usize]) -> Result<Means> {
        require_rank("adaptive_avg_pool", x, SPATIAL + sizes.len())?;
        let axis = |(axis, &outputs): (usize, &usize)| {
            let input = x.shape()[SPATIAL + axis];
            let range = |output: usize| output * input / outputs..((output + 1) * input).div_ceil(outputs);
            let lists = (0..outputs).map(|output| range(output).map(|place| (place, 1.0)).collect()).collect();
            Taps::new(input, lists)
        };
        let taps: Vec<Taps> = sizes.iter().enumerate().map(axis).collect();
        let counts = taps.iter().map(Taps::lengths).collect();
        Ok(Means { taps, counts })
    }

    /// The means of `x`, `[batch, channels, spatial…]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut sums = x.clone();
        for (axis, taps) in self.taps.iter().enumerate() {
            sums = taps.apply(&sums, SPATIAL + axis)?;
        }
        let wide = memory::cast(&sums, fused::wide(x.dtype()))?;
        memory::cast(&self.divide(&wide)?, x.dtype())
    }

    /// The gradient with respect to the input, for the gradient of the means.
    pub(crate) fn backward(&self, grad: &Tensor) -> Result<Tensor> {
        let wide = memory::cast(grad, fused::wide(grad.dtype()))?;
        let mut spread = self.divide(&wide)?;
        for (axis, taps) in self.taps.iter().enumerate() {
            spread = taps.transposed().apply(&spread, SPATIAL + axis)?;
        }
        memory::cast(&spread, grad.dtype())
    }

    /// `x` over the number of elements of each box.
    fn divide(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = vec![1; x.shape().len()];
        let mut products = vec![1_u64];
        for (axis, counts) in self.counts.iter().enumerate() {
            shape[SPATIAL + axis] = counts.len();
            let spread = |&product: &u64| counts.iter().map(move |&count| product * count.max(1) as u64);
            products = products.iter().flat_map(spread).collect();
        }
        let counts = memory::table(x.device(), &shape, DType::U64, &products)?;
        elementwise::binary(Binary::Div, x, &memory::cast(&counts, x.dtype())?)
    }
}

fn require_rank(op: &'static str, x: &Tensor, rank: usize) -> Result<()> {
    if x.shape().len() == rank {
        return Ok(());
    }
    Err(HalError::shape(op, "x", format!("of rank {rank}"), format!("{:?}", x.shape())).into())
}
