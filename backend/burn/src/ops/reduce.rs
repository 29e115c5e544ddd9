//! Reductions over an axis or over everything.
//!
//! The device reduces rows: any axis becomes the last by a view, so nothing is copied.

use rocfire_fusion::{Reduce, eager};
use rocfire_hal::{DType, Tensor};

use super::{elementwise, view};
use crate::error::Result;

/// `axis` moved to the end, and the permutation that does it.
pub(crate) fn axis_last(x: &Tensor, axis: usize) -> Result<(Tensor, Vec<usize>)> {
    let mut axes: Vec<usize> = (0..x.shape().len()).filter(|&i| i != axis).collect();
    axes.push(axis);
    Ok((view::permute(x, &axes)?, axes))
}

/// The last axis moved back to where [`axis_last`] took it from.
pub(crate) fn axis_back(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let mut back = vec![0; axes.len()];
    for (to, &from) in axes.iter().enumerate() {
        back[from] = to;
    }
    view::permute(x, &back)
}

/// `op` over `axis`, which keeps an extent of 1.
pub(crate) fn axis(op: Reduce, x: &Tensor, axis: usize) -> Result<Tensor> {
    let (rows, axes) = axis_last(x, axis)?;
    axis_back(&eager::reduce_last(op, &rows)?, &axes)
}

/// `op` over all elements: one element, of rank 1. One row, however long: long rows are shared among workgroups.
pub(crate) fn all(op: Reduce, x: &Tensor) -> Result<Tensor> {
    let row = view::reshape(x, &[x.layout().len()])?;
    Ok(eager::reduce_last(op, &row)?)
}

/// Whether any element along `axis` differs from zero; over everything without an axis.
pub(crate) fn any(x: &Tensor, axis: Option<usize>) -> Result<Tensor> {
    test(Reduce::Any, x, axis)
}

/// Whether all elements along `axis` differ from zero; over everything without an axis.
pub(crate) fn every(x: &Tensor, axis: Option<usize>) -> Result<Tensor> {
    test(Reduce::All, x, axis)
}

fn test(op: Reduce, x: &Tensor, over: Option<usize>) -> Result<Tensor> {
    let set = if x.dtype() == DType::Bool { x.clone() } else { elementwise::is_nonzero(x)? };
    match over {
        Some(over) => axis(op, &set, over),
        None => all(op, &set),
    }
}
