//! Views of tensors in memory, as a plan remembers and applies them.

use burn_backend::Slice;
use rocfire_hal::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ops::view;

/// One step from a tensor to a view of it. Target shapes are those of the view's tensor when the plan runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum ViewOp {
    /// The tensor itself.
    Same,
    /// Two axes exchanged.
    Swap(usize, usize),
    /// The axes in another order.
    Permute(Vec<usize>),
    /// Axes run backwards.
    Flip(Vec<usize>),
    /// Broadcast to the target shape.
    Expand,
    /// Another shape of as many elements; a copy where strides cannot say it.
    Reshape,
    /// A part; the numbers under which Burn keeps the ranges.
    Slice(Vec<usize>),
}

impl ViewOp {
    /// The view of `tensor` with the shape `target`. Launches a copy only for a reshape that needs one.
    pub(super) fn apply(&self, tensor: &Tensor, target: &[usize], ranges: &[Slice]) -> Result<Tensor> {
        match self {
            ViewOp::Same => Ok(tensor.clone()),
            ViewOp::Swap(a, b) => view::swap(tensor, *a, *b),
            ViewOp::Permute(axes) => view::permute(tensor, axes),
            ViewOp::Flip(axes) => view::flip(tensor, axes),
            ViewOp::Expand => view::expand(tensor, target),
            ViewOp::Reshape => view::reshape(tensor, target),
            ViewOp::Slice(numbers) => {
                let slices: Vec<Slice> = numbers.iter().map(|number| ranges[*number]).collect();
                view::slice(tensor, &slices)
            }
        }
    }
}
