//! Resizing of images, by the kernels of `rocfire_kernels::interpolate`.

use burn_backend::ops::{InterpolateMode, InterpolateOptions};
use rocfire_hal::{Error as HalError, Tensor};
use rocfire_kernels::interpolate::{self as kernel, Interpolation};

use crate::error::Result;
use crate::ops::memory;
use crate::version::aligns_corners;

/// `x`, `[batch, channels, height, width]`, resized.
pub(crate) fn forward(x: &Tensor, size: [usize; 2], options: &InterpolateOptions) -> Result<Tensor> {
    let &[batch, channels, ..] = require_images(x)?;
    let mut y = memory::empty(x.device(), &[batch, channels, size[0], size[1]], x.dtype())?;
    let aligned = aligns_corners(options, x.shape(), y.shape())?;
    kernel::interpolate(x.device().stream(), x.view(), mode(options), aligned, y.view_mut())?;
    Ok(y)
}

/// The gradient of [`forward`] with respect to `x`, for the gradient of its result.
pub(crate) fn backward(x: &Tensor, grad: &Tensor, options: &InterpolateOptions) -> Result<Tensor> {
    require_images(x)?;
    let mut x_grad = memory::empty(x.device(), x.shape(), grad.dtype())?;
    let aligned = aligns_corners(options, x.shape(), grad.shape())?;
    kernel::interpolate_gradient(x.device().stream(), grad.view(), mode(options), aligned, x_grad.view_mut())?;
    Ok(x_grad)
}

fn require_images(x: &Tensor) -> Result<&[usize; 4]> {
    let got = || HalError::shape("interpolate", "x", "[batch, channels, height, width]", format!("{:?}", x.shape()));
    Ok(x.shape().first_chunk().filter(|_| x.shape().len() == 4).ok_or_else(got)?)
}

fn mode(options: &InterpolateOptions) -> Interpolation {
    match options.mode {
        InterpolateMode::Nearest => Interpolation::Nearest,
        InterpolateMode::NearestExact => Interpolation::NearestExact,
        InterpolateMode::Bilinear => Interpolation::Bilinear,
        InterpolateMode::Bicubic => Interpolation::Bicubic,
        InterpolateMode::Lanczos3 => Interpolation::Lanczos3,
    }
}
