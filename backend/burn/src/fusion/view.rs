//! Views of tensors in memory, as a plan remembers and applies them.

use burn_backend::Slice;
use rocfire_hal::Tensor;

use crate::error::Result;
use crate::ops::view;

/// One step from a tensor to a view of it. Target shapes are those of the view's tensor when the plan runs.
#[derive(Clone, Debug, PartialEq)]
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
    /// Each axis moved by itself.
    Shift(Vec<Shift>),
    /// The axes from one to another, both included, as one.
    Merge(usize, usize),
}

/// What becomes of one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shift {
    /// Nothing.
    #[default]
    Stay,
    /// Its part in the range with Burn's number.
    Part(u16),
    /// All of it, backwards if the range with Burn's number is.
    Whole(u16),
    /// All of it, backwards.
    Back,
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
            ViewOp::Shift(shifts) => {
                let part = |shift: &Shift| match shift {
                    Shift::Part(number) => ranges[usize::from(*number)],
                    Shift::Stay | Shift::Whole(_) | Shift::Back => Slice::full(),
                };
                let slices: Vec<Slice> = shifts.iter().map(part).collect();
                let is_back = |shift: &Shift| match shift {
                    Shift::Whole(number) => ranges[usize::from(*number)].is_reversed(),
                    Shift::Back => true,
                    Shift::Stay | Shift::Part(_) => false,
                };
                let back: Vec<usize> = (0..shifts.len()).filter(|axis| is_back(&shifts[*axis])).collect();
                view::flip(&view::slice(tensor, &slices)?, &back)
            }
            ViewOp::Merge(first, last) => {
                let mut shape = tensor.shape().to_vec();
                let merged = shape[*first..=*last].iter().product();
                shape.splice(*first..=*last, [merged]);
                view::reshape(tensor, &shape)
            }
        }
    }
}
