//! Pooling, by the kernels of `rocfire_kernels::pool`: Burn's arguments as theirs, and the number of windows.

use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::pool::{self as kernel, Nan, PoolParams};

use crate::error::Result;
use crate::ops::memory;
use crate::version::windows_beyond;

/// Axis of the rows in `[batch, channels, height, width]`; the first spatial axis of volumes too.
const SPATIAL: usize = 2;

/// The windows of a pool over images, or volumes.
#[derive(Clone, Copy)]
pub(crate) struct Windows<const N: usize> {
    /// Elements.
    pub(crate) kernel: [usize; N],
    /// From one window to the next.
    pub(crate) stride: [usize; N],
    /// Elements outside the input, on either side.
    pub(crate) padding: [usize; N],
    /// From one element of a window to the next.
    pub(crate) dilation: [usize; N],
    /// Whether a window that begins inside but ends outside counts.
    pub(crate) ceil: bool,
}

impl<const N: usize> Windows<N> {
    fn params(&self) -> PoolParams<'_> {
        PoolParams { kernel: &self.kernel, stride: &self.stride, padding: &self.padding, dilation: &self.dilation }
    }

    /// The shape of a pool of `x`. As in PyTorch and ONNX, rounding up never adds a window that would begin behind the input.
    fn output_shape(&self, op: &'static str, x: &Tensor) -> Result<Vec<usize>> {
        require_rank(op, x, SPATIAL + N)?;
        if [self.kernel, self.stride, self.dilation].iter().any(|numbers| numbers.contains(&0)) {
            let got = format!("kernel {:?}, stride {:?}, dilation {:?}", self.kernel, self.stride, self.dilation);
            return Err(HalError::shape(op, "window", "of at least one element and step", got).into());
        }
        let mut shape = x.shape().to_vec();
        for axis in 0..N {
            let input = x.shape()[SPATIAL + axis];
            let larger =
                || HalError::shape(op, "kernel", "no larger than the padded input", format!("{:?}", self.kernel));
            shape[SPATIAL + axis] = self.outputs(axis, input).ok_or_else(larger)?;
        }
        Ok(shape)
    }

    fn outputs(&self, axis: usize, input: usize) -> Option<usize> {
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
        let padded = input + 2 * padding;
        let Some(free) = padded.checked_sub(reach) else { return windows_beyond(reach - padded, stride, self.ceil) };
        if !self.ceil {
            return Some(free / stride + 1);
        }
        let outputs = free.div_ceil(stride) + 1;
        Some(if (outputs - 1) * stride >= input + padding { outputs - 1 } else { outputs })
    }
}

/// The largest of each window.
pub(crate) fn max<const N: usize>(x: &Tensor, windows: &Windows<N>) -> Result<Tensor> {
    let mut y = memory::empty_like(x, &windows.output_shape("max_pool", x)?)?;
    kernel::max_pool(x.device().stream(), x.view(), &windows.params(), Nan::Any, y.view_mut(), None)?;
    Ok(y)
}

/// The largest of each window and where it is: its number in the image, the first of equals, the last of NaNs as in
/// PyTorch; -1 for a window that lies outside.
pub(crate) fn max_with_indices<const N: usize>(
    x: &Tensor,
    windows: &Windows<N>,
    indices: DType,
) -> Result<(Tensor, Tensor)> {
    let shape = windows.output_shape("max_pool", x)?;
    let mut y = memory::empty_like(x, &shape)?;
    let mut places = memory::empty_of_like(x, &shape, indices)?;
    let stream = x.device().stream();
    kernel::max_pool(stream, x.view(), &windows.params(), Nan::Any, y.view_mut(), Some(places.view_mut()))?;
    Ok((y, places))
}

/// The gradient of a maximum pool: each window's goes to the element it was.
pub(crate) fn max_backward<const N: usize>(
    x: &Tensor,
    grad: &Tensor,
    indices: &Tensor,
    windows: &Windows<N>,
) -> Result<Tensor> {
    let mut x_grad = memory::empty_of_like(x, x.shape(), grad.dtype())?;
    let stream = x.device().stream();
    kernel::max_pool_gradient(stream, grad.view(), indices.view(), &windows.params(), x_grad.view_mut())?;
    Ok(x_grad)
}

/// The mean of each window; without `include_padding` only what is inside the input counts.
pub(crate) fn average<const N: usize>(x: &Tensor, windows: &Windows<N>, include_padding: bool) -> Result<Tensor> {
    let mut y = memory::empty_like(x, &windows.output_shape("avg_pool", x)?)?;
    kernel::average_pool(x.device().stream(), x.view(), &windows.params(), include_padding, y.view_mut())?;
    Ok(y)
}

/// The gradient of [`average`].
pub(crate) fn average_backward<const N: usize>(
    x: &Tensor,
    grad: &Tensor,
    windows: &Windows<N>,
    include_padding: bool,
) -> Result<Tensor> {
    let mut x_grad = memory::empty_of_like(x, x.shape(), grad.dtype())?;
    let stream = x.device().stream();
    kernel::average_pool_gradient(stream, grad.view(), &windows.params(), include_padding, x_grad.view_mut())?;
    Ok(x_grad)
}

/// The means of boxes that divide the input into `sizes`, overlapping where they must.
pub(crate) fn adaptive(x: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    require_rank("adaptive_avg_pool", x, SPATIAL + sizes.len())?;
    let mut shape = x.shape().to_vec();
    shape[SPATIAL..].copy_from_slice(sizes);
    let mut y = memory::empty(x.device(), &shape, x.dtype())?;
    kernel::adaptive_average_pool(x.device().stream(), x.view(), y.view_mut())?;
    Ok(y)
}

/// The gradient of [`adaptive`].
pub(crate) fn adaptive_backward(x: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let mut x_grad = memory::empty_of_like(x, x.shape(), grad.dtype())?;
    kernel::adaptive_average_pool_gradient(x.device().stream(), grad.view(), x_grad.view_mut())?;
    Ok(x_grad)
}

fn require_rank(op: &'static str, x: &Tensor, rank: usize) -> Result<()> {
    if x.shape().len() == rank {
        return Ok(());
    }
    Err(HalError::shape(op, "x", format!("of rank {rank}"), format!("{:?}", x.shape())).into())
}
