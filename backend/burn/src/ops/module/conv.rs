//! Convolutions of one to three spatial axes, as matrix products.
//!
//! The windows of the input are a strided view, so one copy makes the matrix of columns and a batched product by group
//! does the rest. Where a window is one element the view needs no copy either. A transposed convolution is a convolution of
//! its input spread by the stride, with the kernel turned around; gradients are Burn's compositions of the two. Memory:
//! the columns are as large as the output's positions times the kernel.

use burn_backend::Slice;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use rocfire_fusion::{Binary, Scalar};
use rocfire_hal::{Error as HalError, Layout, Tensor};

use super::pad::{self, Side};
use crate::error::Result;
use crate::ops::{elementwise, matmul, memory, view};

/// Axis of the first spatial extent in `[batch, channels, spatial…]`.
const SPATIAL: usize = 2;

/// A convolution whose input already has its padding.
struct Padded<'a> {
    /// `[batch, channels_in, spatial…]`.
    x: &'a Tensor,
    /// `[channels_out, channels_in / groups, kernel…]`.
    weight: &'a Tensor,
    stride: &'a [usize],
    dilation: &'a [usize],
    groups: usize,
}

/// `x` (`[batch, channels_in, spatial…]`) convolved with `weight` (`[channels_out, channels_in / groups, kernel…]`), plus
/// `bias` (`[channels_out]`).
pub(crate) fn conv<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    check::<N>("conv", x, weight, weight.shape().get(1).map_or(0, |&channels| channels * options.groups))?;
    let sides = options.padding.map(|(before, after)| Side { before, after });
    let padded = pad::pad(x, SPATIAL, &sides, Scalar::Int(0))?;
    let y = Padded { x: &padded, weight, stride: &options.stride, dilation: &options.dilation, groups: options.groups };
    add_bias(y.run()?, bias)
}

/// The transpose of a convolution: `x` (`[batch, channels_in, spatial…]`) with `weight`
/// (`[channels_in, channels_out / groups, kernel…]`), plus `bias` (`[channels_out]`).
pub(crate) fn transposed<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    check::<N>("conv_transpose", x, weight, weight.shape().first().copied().unwrap_or(0))?;
    let groups = options.groups;
    let weight = turned(weight, groups)?;
    // Room for the kernel on both sides of the spread input; `padding` then leaves part of it out again.
    let mut room = x.shape().to_vec();
    let mut inside: Vec<Slice> = room.iter().map(|&extent| Slice::from(0..extent)).collect();
    let mut seen = inside.clone();
    for i in 0..N {
        let axis = SPATIAL + i;
        let reach = options.dilation[i] * (weight.shape()[axis] - 1);
        let spread = match x.shape()[axis] {
            0 => 0,
            extent => (extent - 1) * options.stride[i] + 1,
        };
        let full = spread + reach + options.padding_out[i];
        let outputs = full.checked_sub(2 * options.padding[i]).ok_or_else(|| {
            let got = format!("{} for an output of {full}", options.padding[i]);
            HalError::shape("conv_transpose", "padding", "less than half of the output", got)
        })?;
        room[axis] = full + reach;
        inside[axis] = Slice::new(reach as isize, Some((reach + spread) as isize), options.stride[i] as isize);
        seen[axis] = Slice::from(options.padding[i]..options.padding[i] + outputs + reach);
    }
    let mut padded = memory::full(x.device(), &room, x.dtype(), Scalar::Int(0))?;
    memory::write(&mut padded, &inside, x)?;
    let padded = view::slice(&padded, &seen)?;
    let y = Padded { x: &padded, weight: &weight, stride: &[1; N], dilation: &options.dilation, groups };
    add_bias(y.run()?, bias)
}

/// `[channels_in, channels_out / groups, kernel…]` as `[channels_out, channels_in / groups, kernel…]`, the kernel run
/// backwards.
fn turned(weight: &Tensor, groups: usize) -> Result<Tensor> {
    let shape = weight.shape();
    let (inputs, outputs) = (shape[0] / groups, shape[1]);
    let mut split = vec![groups, inputs, outputs];
    split.extend_from_slice(&shape[SPATIAL..]);
    let by_group = view::swap(&view::reshape(weight, &split)?, 1, 2)?;
    let kernel_axes: Vec<usize> = (3..split.len()).collect();
    let mut joined = vec![groups * outputs, inputs];
    joined.extend_from_slice(&shape[SPATIAL..]);
    view::reshape(&view::flip(&by_group, &kernel_axes)?, &joined)
}

impl Padded<'_> {
    fn run(&self) -> Result<Tensor> {
        let (batch, kernel) = (self.x.shape()[0], &self.weight.shape()[SPATIAL..]);
        let channels_out = self.weight.shape()[0];
        let positions: Vec<usize> = (0..kernel.len()).map(|i| self.outputs(i)).collect();
        let depth = self.weight.shape()[1] * kernel.iter().product::<usize>();
        let places: usize = positions.iter().product();

        let columns = view::reshape(&self.windows(&positions)?, &[batch, self.groups, depth, places])?;
        let rows = view::reshape(self.weight, &[1, self.groups, channels_out / self.groups, depth])?;
        let rows = view::expand(&rows, &[batch, self.groups, channels_out / self.groups, depth])?;
        let y = matmul::matmul(&rows, &columns)?;
        let mut shape = vec![batch, channels_out];
        shape.extend(positions);
        view::reshape(&y, &shape)
    }

    fn outputs(&self, i: usize) -> usize {
        let reach = self.dilation[i] * (self.weight.shape()[SPATIAL + i] - 1) + 1;
        self.x.shape()[SPATIAL + i].checked_sub(reach).map_or(0, |free| free / self.stride[i] + 1)
    }

    /// The input seen as `[batch · groups, channels / groups, kernel…, positions…]`: batch and groups share an axis so that
    /// three spatial axes fit the rank a tensor can have.
    fn windows(&self, positions: &[usize]) -> Result<Tensor> {
        let channels = self.x.shape()[1];
        let per_batch = self.x.layout().strides()[1] * channels as i64;
        let joined = self.groups == 1 || self.x.shape()[0] == 1 || self.x.layout().strides()[0] == per_batch;
        let x = if joined { self.x.clone() } else { memory::copy(self.x)? };
        let (layout, spatial) = (x.layout(), &x.layout().strides()[SPATIAL..]);
        let per_group = channels / self.groups;
        let batch_stride = if self.groups == 1 { layout.strides()[0] } else { layout.strides()[1] * per_group as i64 };
        let mut shape = vec![layout.shape()[0] * self.groups, per_group];
        let mut strides = vec![batch_stride, layout.strides()[1]];
        for (i, &stride) in spatial.iter().enumerate() {
            shape.push(self.weight.shape()[SPATIAL + i]);
            strides.push(stride * self.dilation[i] as i64);
        }
        for (i, &stride) in spatial.iter().enumerate() {
            shape.push(positions[i]);
            strides.push(stride * self.stride[i] as i64);
        }
        Ok(x.with_layout(Layout::strided(&shape, &strides, layout.offset())?)?)
    }
}

fn add_bias(y: Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(y) };
    let mut shape = vec![1; y.shape().len()];
    shape[1] = y.shape()[1];
    elementwise::binary(Binary::Add, &y, &view::reshape(bias, &shape)?)
}

fn check<const N: usize>(op: &'static str, x: &Tensor, weight: &Tensor, channels: usize) -> Result<()> {
    let rank = SPATIAL + N;
    if x.shape().len() != rank || weight.shape().len() != rank || x.shape()[1] != channels {
        let expected = format!("[batch, {channels}, {N} spatial axes] for a weight of {:?}", weight.shape());
        return Err(HalError::shape(op, "x", expected, format!("{:?}", x.shape())).into());
    }
    if weight.shape()[SPATIAL..].contains(&0) {
        return Err(
            HalError::shape(op, "weight", "a kernel of at least one element", format!("{:?}", weight.shape())).into()
        );
    }
    Ok(())
}
