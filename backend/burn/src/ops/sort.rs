//! Sorting along an axis and the largest few, on the device. Shared by float and int.
//!
//! The order is that of Burn's Flex: IEEE 754's totalOrder for floats. Burn promises nothing about equal elements; here
//! they keep their order.

use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::sort::{Order, sort as launch};

use super::memory;
use crate::error::Result;

/// What is wanted of a sorted line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    /// The axis that lines run along.
    pub axis: usize,
    /// Whether the largest come first.
    pub descending: bool,
    /// How many of each line; all without a number.
    pub first: Option<usize>,
}

impl Sort {
    /// All of each line.
    pub(crate) fn all(axis: usize, descending: bool) -> Sort {
        Sort { axis, descending, first: None }
    }

    /// The largest `k` of each line, the largest first.
    pub(crate) fn top(axis: usize, k: usize) -> Sort {
        Sort { axis, descending: true, first: Some(k) }
    }

    fn order(self) -> Order {
        if self.descending { Order::Descending } else { Order::Ascending }
    }

    fn shape(self, x: &Tensor) -> Result<Vec<usize>> {
        let mut shape = x.shape().to_vec();
        let rank = shape.len();
        match shape.get_mut(self.axis) {
            None => return Err(HalError::shape("sort", "axis", format!("below {rank}"), self.axis).into()),
            Some(extent) => match self.first {
                Some(k) if k > *extent => {
                    return Err(HalError::shape("topk", "k", format!("at most {extent}"), k).into());
                }
                Some(k) => *extent = k,
                None => {}
            },
        }
        Ok(shape)
    }
}

/// The elements in order.
pub(crate) fn values(x: &Tensor, sort: Sort) -> Result<Tensor> {
    let mut values = memory::empty(x.device(), &sort.shape(x)?, x.dtype())?;
    launch(x.device().stream(), sort.order(), sort.axis, x.view(), Some(values.view_mut()), None)?;
    Ok(values)
}

/// Where the elements in order were, in `dtype`.
pub(crate) fn places(x: &Tensor, sort: Sort, dtype: DType) -> Result<Tensor> {
    let mut places = memory::empty(x.device(), &sort.shape(x)?, width(dtype))?;
    launch(x.device().stream(), sort.order(), sort.axis, x.view(), None, Some(places.view_mut()))?;
    memory::cast(&places, dtype)
}

/// The elements in order, and where they were.
pub(crate) fn both(x: &Tensor, sort: Sort, dtype: DType) -> Result<(Tensor, Tensor)> {
    let shape = sort.shape(x)?;
    let mut values = memory::empty(x.device(), &shape, x.dtype())?;
    let mut places = memory::empty(x.device(), &shape, width(dtype))?;
    let (to, at) = (values.view_mut(), places.view_mut());
    launch(x.device().stream(), sort.order(), sort.axis, x.view(), Some(to), Some(at))?;
    Ok((values, memory::cast(&places, dtype)?))
}

/// The kernel writes indices of two widths; others are casts.
fn width(dtype: DType) -> DType {
    if matches!(dtype, DType::I64 | DType::U64) { DType::I64 } else { DType::I32 }
}
