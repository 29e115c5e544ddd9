//! Convolutions of one to three spatial axes and their gradients, by the kernels of `rocfire_kernels::conv`.
//!
//! A transposed convolution is the gradient of a convolution by its input, and its gradients are a convolution and a
//! convolution's gradient by its weight with the roles of input and gradient exchanged.

use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use rocfire_fusion::Reduce;
use rocfire_hal::{Error as HalError, Tensor};
use rocfire_kernels::conv as kernel;
use rocfire_kernels::conv::ConvParams;

use crate::error::Result;
use crate::ops::{fused, memory, reduce, view};

/// Axis of the first spatial extent in `[batch, channels, spatial…]`.
const SPATIAL: usize = 2;

fn params<const N: usize>(options: &ConvOptions<N>) -> ConvParams<'_> {
    ConvParams {
        stride: &options.stride,
        padding: &options.padding,
        dilation: &options.dilation,
        groups: options.groups,
    }
}

/// The convolution that a transposed one is the input gradient of: its padding is the same on both sides.
fn transposed_padding<const N: usize>(options: &ConvTransposeOptions<N>) -> [(usize, usize); N] {
    options.padding.map(|padding| (padding, padding))
}

fn transposed_params<'a, const N: usize>(
    options: &'a ConvTransposeOptions<N>,
    padding: &'a [(usize, usize); N],
) -> ConvParams<'a> {
    ConvParams { stride: &options.stride, padding, dilation: &options.dilation, groups: options.groups }
}

/// `x` (`[batch, channels_in, spatial…]`) convolved with `weight` (`[channels_out, channels_in / groups, kernel…]`), plus
/// `bias` (`[channels_out]`).
pub(crate) fn conv<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    forward("conv", x, weight, bias, &params(options))
}

/// [`conv`] of any number of axes, named `op` in errors.
pub(crate) fn forward(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    params: &ConvParams<'_>,
) -> Result<Tensor> {
    let shape = kernel::conv_output_shape(op, x.shape(), weight.shape(), params)?;
    let mut y = memory::empty(x.device(), &shape, x.dtype())?;
    kernel::conv(x.device().stream(), x.view(), weight.view(), bias.map(Tensor::view), y.view_mut(), params)?;
    Ok(y)
}

/// The gradient of [`conv`] by `x`, with its channels innermost where a kernel writes them so as well and those of `x` are.
pub(crate) fn input_gradient<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    grad: &Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let mut x_grad = match grad.dtype().size_bytes() {
        2 => memory::empty_of_like(x, x.shape(), grad.dtype())?,
        _ => memory::empty(x.device(), x.shape(), grad.dtype())?,
    };
    let stream = x.device().stream();
    kernel::conv_input_gradient(stream, grad.view(), weight.view(), None, x_grad.view_mut(), &params(options))?;
    Ok(x_grad)
}

/// The gradient of [`conv`] by `weight`.
pub(crate) fn weight_gradient<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    grad: &Tensor,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let mut weight_grad = memory::empty(x.device(), weight.shape(), grad.dtype())?;
    let stream = x.device().stream();
    kernel::conv_weight_gradient(stream, x.view(), grad.view(), weight_grad.view_mut(), &params(options))?;
    Ok(weight_grad)
}

/// The sum over every axis but 1, the gradient of a bias: the places of each image, then the images. Sums stay in f32 (f64
/// for f64) between the two.
pub(crate) fn bias_gradient(grad: &Tensor) -> Result<Tensor> {
    let (dtype, wide) = (grad.dtype(), fused::wide(grad.dtype()));
    let [batch, channels] = [grad.shape()[0], grad.shape()[1]];
    let places = grad.shape()[SPATIAL..].iter().product();
    let rows = view::reshape(grad, &[batch, channels, places])?;
    let graph = fused::graph("bias_gradient", &[dtype], |g| g.input(dtype).cast(wide).reduce(Reduce::Sum));
    let sums = fused::per_row(&graph, &[&rows], &[], wide)?;
    let by_channel = reduce::axis(Reduce::Sum, &view::reshape(&sums, &[batch, channels])?, 0)?;
    memory::cast(&view::reshape(&by_channel, &[channels])?, dtype)
}

/// The transpose of a convolution: `x` (`[batch, channels_in, spatial…]`) with `weight`
/// (`[channels_in, channels_out / groups, kernel…]`), plus `bias` (`[channels_out]`).
pub(crate) fn transposed<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    const OP: &str = "conv_transpose";
    let rank = SPATIAL + N;
    let fits = x.shape().len() == rank && weight.shape().len() == rank && x.shape()[1] == weight.shape()[0];
    if !fits || weight.shape()[SPATIAL..].contains(&0) {
        let expected = format!("[batch, channels, {N} spatial axes] for a weight of {:?}", weight.shape());
        return Err(HalError::shape(OP, "x", expected, format!("{:?}", x.shape())).into());
    }
    let mut shape = vec![x.shape()[0], weight.shape()[1] * options.groups];
    for i in 0..N {
        let reach = options.dilation[i] * (weight.shape()[SPATIAL + i] - 1);
        let spread = x.shape()[SPATIAL + i].checked_sub(1).map_or(0, |last| last * options.stride[i] + 1);
        let full = spread + reach + options.padding_out[i];
        let extent = full.checked_sub(2 * options.padding[i]).ok_or_else(|| {
            let got = format!("{} for an output of {full}", options.padding[i]);
            HalError::shape(OP, "padding", "less than half of the output", got)
        })?;
        shape.push(extent);
    }
    let padding = transposed_padding(options);
    let mut y = memory::empty(x.device(), &shape, x.dtype())?;
    let params = transposed_params(options, &padding);
    let stream = x.device().stream();
    kernel::conv_input_gradient(stream, x.view(), weight.view(), bias.map(Tensor::view), y.view_mut(), &params)?;
    Ok(y)
}

/// The gradient of [`transposed`] by `x`.
pub(crate) fn transposed_input_gradient<const N: usize>(
    weight: &Tensor,
    grad: &Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let padding = transposed_padding(options);
    let params = transposed_params(options, &padding);
    let mut x_grad = forward("conv_transpose_x_backward", grad, weight, None, &params)?;
    // More room than a stride at the end of the output has no element of the input to it.
    for i in 0..N {
        let unreached = options.padding_out[i] / options.stride[i];
        let extent = x_grad.shape()[SPATIAL + i].saturating_sub(unreached);
        x_grad = view::narrow(&x_grad, SPATIAL + i, 0, extent)?;
    }
    Ok(x_grad)
}

/// The gradient of [`transposed`] by `weight`.
pub(crate) fn transposed_weight_gradient<const N: usize>(
    x: &Tensor,
    weight: &Tensor,
    grad: &Tensor,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let padding = transposed_padding(options);
    let mut weight_grad = memory::empty(x.device(), weight.shape(), grad.dtype())?;
    let params = transposed_params(options, &padding);
    kernel::conv_weight_gradient(x.device().stream(), grad.view(), x.view(), weight_grad.view_mut(), &params)?;
    Ok(weight_grad)
}
