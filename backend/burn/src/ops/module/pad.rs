//! A tensor with more room around it.

use burn_backend::Slice;
use rocfire_fusion::Scalar;
use rocfire_hal::Tensor;

use crate::error::Result;
use crate::ops::memory;

/// Elements put before and behind those of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Before the first.
    pub(crate) before: usize,
    /// Behind the last.
    pub(crate) after: usize,
}

/// `x` with `sides` of `value` around its axes from `first_axis` on; `x` itself where there are none.
pub(crate) fn pad(x: &Tensor, first_axis: usize, sides: &[Side], value: Scalar) -> Result<Tensor> {
    if sides.iter().all(|side| *side == Side { before: 0, after: 0 }) {
        return Ok(x.clone());
    }
    let mut shape = x.shape().to_vec();
    let mut inside: Vec<Slice> = shape.iter().map(|&extent| Slice::from(0..extent)).collect();
    for (axis, side) in sides.iter().enumerate().map(|(i, side)| (first_axis + i, side)) {
        inside[axis] = Slice::from(side.before..side.before + shape[axis]);
        shape[axis] += side.before + side.after;
    }
    let mut padded = memory::full(x.device(), &shape, x.dtype(), value)?;
    memory::write(&mut padded, &inside, x)?;
    Ok(padded)
}
