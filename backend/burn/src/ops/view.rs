//! Operators that move nothing: another layout over the same memory.
//!
//! Shared by float, int and bool. Each gives a tensor that shares its memory with the argument; only `reshape` may have to
//! copy, where no strides describe the new shape.

use burn_backend::Slice;
use rocfire_hal::{Error as HalError, Layout, Tensor};

use super::memory;
use crate::error::Result;

/// The axes in another order: axis `i` of the result is axis `axes[i]`.
pub(crate) fn permute(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    Ok(x.with_layout(x.layout().permute(axes)?)?)
}

/// Two axes exchanged.
pub(crate) fn swap(x: &Tensor, a: usize, b: usize) -> Result<Tensor> {
    Ok(x.with_layout(x.layout().swap(a, b)?)?)
}

/// Axes run backwards.
pub(crate) fn flip(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    Ok(x.with_layout(x.layout().flip(axes)?)?)
}

/// Axes of extent 1 repeated up to `shape`, aligned at the last axis.
pub(crate) fn expand(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    Ok(x.with_layout(x.layout().expand(shape)?)?)
}

/// The same elements in the same order under another shape: a view where strides allow, else a copy.
pub(crate) fn reshape(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if let Some(layout) = x.layout().reshape(shape) {
        return Ok(x.with_layout(layout)?);
    }
    if x.layout().len() != shape.iter().product::<usize>() {
        let got = format!("{shape:?} for {:?}", x.shape());
        return Err(HalError::shape("reshape", "shape", "of as many elements", got).into());
    }
    let copied = memory::copy(x)?;
    let layout = Layout::contiguous(shape)?;
    Ok(copied.with_layout(layout)?)
}

/// The layout of Burn's slices: ranges with steps, negative ones from the end of the range; missing ones are whole.
pub(crate) fn sliced(layout: &Layout, slices: &[Slice]) -> Result<Layout> {
    let mut result = *layout;
    for (axis, slice) in slices.iter().enumerate() {
        let extent = *layout
            .shape()
            .get(axis)
            .ok_or_else(|| HalError::shape("slice", "ranges", format!("at most {}", layout.rank()), slices.len()))?;
        let range = slice.to_range(extent);
        result = result.slice(axis, range.start, range.end.max(range.start), slice.step())?;
    }
    Ok(result)
}

/// A part of a tensor.
pub(crate) fn slice(x: &Tensor, slices: &[Slice]) -> Result<Tensor> {
    Ok(x.with_layout(sliced(x.layout(), slices)?)?)
}

/// Indices `start..start + len` of one axis.
pub(crate) fn narrow(x: &Tensor, axis: usize, start: usize, len: usize) -> Result<Tensor> {
    Ok(x.with_layout(x.layout().slice(axis, start, start + len, 1)?)?)
}

/// An axis of extent 1 put in front of `axis`.
pub(crate) fn unsqueeze(x: &Tensor, axis: usize) -> Result<Tensor> {
    Ok(x.with_layout(x.layout().unsqueeze(axis)?)?)
}

/// Sliding windows: `size` elements of `axis`, every `step`, `dilation` apart. The axis becomes the number of windows, and
/// a last axis runs inside them. Windows that overlap share elements.
pub(crate) fn windows(x: &Tensor, axis: usize, size: usize, step: usize, dilation: usize) -> Result<Tensor> {
    let layout = x.layout();
    let extent = *layout
        .shape()
        .get(axis)
        .ok_or_else(|| HalError::shape("unfold", "axis", format!("below {}", layout.rank()), axis))?;
    if size == 0 || step == 0 || dilation == 0 {
        let got = format!("size {size}, step {step}, dilation {dilation}");
        return Err(HalError::shape("unfold", "window", "of at least one element and step", got).into());
    }
    let reach = (size - 1) * dilation + 1;
    let count = if extent < reach { 0 } else { (extent - reach) / step + 1 };
    let mut shape = layout.shape().to_vec();
    let mut strides = layout.strides().to_vec();
    let stride = strides[axis];
    shape[axis] = count;
    strides[axis] = stride * step as i64;
    shape.push(size);
    strides.push(stride * dilation as i64);
    Ok(x.with_layout(Layout::strided(&shape, &strides, layout.offset())?)?)
}

/// The shape that tensors broadcast to, aligned at the last axis.
pub(crate) fn broadcast(op: &'static str, tensors: &[&Tensor]) -> Result<Vec<usize>> {
    let rank = tensors.iter().map(|x| x.shape().len()).max().unwrap_or(0);
    let mut shape = vec![1; rank];
    for x in tensors {
        let first = rank - x.shape().len();
        for (extent, &own) in shape[first..].iter_mut().zip(x.shape()) {
            if *extent == 1 {
                *extent = own;
            } else if own != 1 && own != *extent {
                let shapes: Vec<_> = tensors.iter().map(|x| x.shape()).collect();
                return Err(HalError::shape(op, "shapes", "equal or 1 axis by axis", format!("{shapes:?}")).into());
            }
        }
    }
    Ok(shape)
}
