//! Views of tensors in memory: how a plan keeps them, and makes them when it runs.

use burn_backend::Slice;
use rocfire_hal::Tensor;

use crate::error::Result;
use crate::ops::view;

/// One step from a tensor to a view of it. Target shapes are those that the view's tensor has when the plan runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ViewOp {
    /// The tensor itself.
    Same,
    /// Two axes are exchanged.
    Swap(usize, usize),
    /// The axes stand in another order.
    Permute(Vec<usize>),
    /// These axes run backwards.
    Flip(Vec<usize>),
    /// It is broadcast to the target shape.
    Expand,
    /// It gets another shape with as many elements. It is copied if strides cannot express that.
    Reshape,
    /// A part of it, along each axis by the range with this number.
    Slice(Vec<usize>),
    /// Each axis changes by itself.
    Shift(Vec<Shift>),
    /// The axes from one to another, both included, become one.
    Merge(usize, usize),
}

/// How one axis changes in a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shift {
    /// It stays as it is.
    #[default]
    Stay,
    /// A part of it: the range with this number.
    Part(u16),
    /// All of it, backwards if the range with this number runs backwards.
    Whole(u16),
    /// All of it, backwards.
    Back,
}

impl ViewOp {
    /// The view of `tensor`, whose shape is `target`. A copy is launched only for a reshape that needs one.
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
