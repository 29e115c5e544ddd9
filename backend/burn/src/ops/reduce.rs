//! Reductions over an axis or over everything.
//!
//! The device reduces rows: any axis becomes the last by a view, so nothing is copied.

use rocfire_fusion::{Compare, Graph, Reduce, Unary, eager};
use rocfire_hal::{DType, Tensor};

use super::{fused, view};
use crate::error::{Error, Result};

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

/// Refuses to reduce `count` elements where there is no answer for none.
///
/// # Errors
/// [`Error::Nothing`].
pub(crate) fn require_elements(op: &'static str, count: usize) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(Error::Nothing { op: op.into() }) }
}

/// What Burn calls a reduction that has no answer for nothing, along an axis and over everything: extremes, and means of
/// integers. Sums, products and tests have one, and a mean of floats is NaN.
fn without_answer(op: Reduce, dtype: DType) -> Option<[&'static str; 2]> {
    match op {
        Reduce::Max => Some(["max_dim", "max"]),
        Reduce::Min => Some(["min_dim", "min"]),
        Reduce::Mean if !dtype.is_float() => Some(["mean_dim", "mean"]),
        _ => None,
    }
}

/// `op` over `axis`, which keeps an extent of 1. Over an axis of one element that is the element, as in a fused kernel: a sum
/// would make +0 of -0.
pub(crate) fn axis(op: Reduce, x: &Tensor, axis: usize) -> Result<Tensor> {
    if let Some([name, _]) = without_answer(op, x.dtype()) {
        require_elements(name, x.shape()[axis])?;
    }
    if x.shape()[axis] == 1 {
        return Ok(x.clone());
    }
    let (rows, axes) = axis_last(x, axis)?;
    axis_back(&eager::reduce_last(op, &rows)?, &axes)
}

/// The sum over several axes, which keep an extent of 1: one row of all their elements, as in a fused kernel, rounded once.
pub(crate) fn sum_axes(x: &Tensor, over: &[usize]) -> Result<Tensor> {
    if over.iter().all(|axis| x.shape()[*axis] == 1) {
        return Ok(x.clone());
    }
    let (mut order, reduced): (Vec<usize>, Vec<usize>) = (0..x.shape().len()).partition(|axis| !over.contains(axis));
    let mut rows: Vec<usize> = order.iter().map(|axis| x.shape()[*axis]).collect();
    rows.push(reduced.iter().map(|axis| x.shape()[*axis]).product());
    order.extend(&reduced);
    let sums = eager::reduce_last(Reduce::Sum, &view::reshape(&view::permute(x, &order)?, &rows)?)?;
    let mut shape = x.shape().to_vec();
    reduced.iter().for_each(|axis| shape[*axis] = 1);
    view::reshape(&sums, &shape)
}

/// `op` over all elements: one element, of rank 1. One row, however long: long rows are shared among workgroups.
pub(crate) fn all(op: Reduce, x: &Tensor) -> Result<Tensor> {
    if let Some([_, name]) = without_answer(op, x.dtype()) {
        require_elements(name, x.layout().len())?;
    }
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
    let dtype = x.dtype();
    if dtype == DType::Bool {
        return match over {
            Some(over) => axis(op, x, over),
            None => all(op, x),
        };
    }
    let name = if op == Reduce::Any { "any_nonzero" } else { "all_nonzero" };
    let graph = fused::graph(name, &[dtype], |g| {
        let x = g.input(dtype);
        // A NaN differs from zero.
        x.is(Compare::Ne, x.number(0.0)).reduce(op)
    });
    rows(&graph, x, over, DType::Bool)
}

/// The largest magnitude along an axis, or of all elements.
pub(crate) fn max_abs(x: &Tensor, over: Option<usize>) -> Result<Tensor> {
    let dtype = x.dtype();
    match over {
        Some(axis) => require_elements("max_abs_dim", x.shape()[axis])?,
        None => require_elements("max_abs", x.layout().len())?,
    }
    let graph = fused::graph("max_abs", &[dtype], |g| g.input(dtype).unary(Unary::Abs).reduce(Reduce::Max));
    rows(&graph, x, over, dtype)
}

/// Runs a row reduction of one input over an axis, which keeps an extent of 1, or over all elements.
fn rows(graph: &Graph, x: &Tensor, over: Option<usize>, dtype: DType) -> Result<Tensor> {
    match over {
        Some(over) => {
            let (rows, axes) = axis_last(x, over)?;
            axis_back(&fused::per_row(graph, &[&rows], &[], dtype)?, &axes)
        }
        None => fused::per_row(graph, &[&view::reshape(x, &[x.layout().len()])?], &[], dtype),
    }
}
