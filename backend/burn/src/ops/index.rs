//! Operators that indices steer. Shared by float, int and bool.
//!
//! Reading outside an axis gives zero and writing there does nothing, and the next read or wait tells of it. Updates of one element happen in the order of the
//! index tensor, so results do not depend on scheduling. Index tuples (`_nd`) are turned into numbers of rows in one launch.

use burn_std::IndexingUpdateOp;
use rocfire_fusion::{Compare, IndexOp, Reduce};
use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::index::{self as kernel, Chosen, Update};

use super::{fused, memory, view};
use crate::error::Result;

fn update(op: IndexingUpdateOp) -> Update {
    match op {
        IndexingUpdateOp::Assign => Update::Assign,
        IndexingUpdateOp::Add => Update::Add,
        IndexingUpdateOp::Mul => Update::Mul,
        IndexingUpdateOp::Min => Update::Min,
        IndexingUpdateOp::Max => Update::Max,
    }
}

/// `y[.., j, ..] = x[.., indices[.., j, ..], ..]` along `axis`.
pub(crate) fn gather(x: &Tensor, axis: usize, indices: &Tensor) -> Result<Tensor> {
    let mut y = memory::empty(x.device(), indices.shape(), x.dtype())?;
    kernel::gather(x.device().stream(), axis, x.view(), indices.view(), y.view_mut())?;
    Ok(y)
}

/// `y[.., j, ..] = x[.., indices[j], ..]` along `axis`.
pub(crate) fn select(x: &Tensor, axis: usize, indices: &Tensor) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    match shape.get_mut(axis) {
        Some(extent) => *extent = indices.layout().len(),
        None => return Err(HalError::shape("select", "axis", format!("below {}", x.shape().len()), axis).into()),
    }
    let mut y = memory::empty(x.device(), &shape, x.dtype())?;
    kernel::select(x.device().stream(), axis, x.view(), indices.view(), y.view_mut())?;
    Ok(y)
}

/// `x` with `value[.., j, ..]` brought to index `indices[.., j, ..]` of `axis`.
pub(crate) fn scatter(
    x: Tensor,
    axis: usize,
    indices: &Tensor,
    value: &Tensor,
    op: IndexingUpdateOp,
) -> Result<Tensor> {
    let mut x = memory::writable(x)?;
    let device = x.device().clone();
    kernel::scatter(device.stream(), update(op), axis, x.view_mut(), indices.view(), value.view())?;
    Ok(x)
}

/// `x` with `value[.., j, ..]` brought to index `indices[j]` of `axis`.
pub(crate) fn select_assign(
    x: Tensor,
    axis: usize,
    indices: &Tensor,
    value: &Tensor,
    op: IndexingUpdateOp,
) -> Result<Tensor> {
    let mut x = memory::writable(x)?;
    let device = x.device().clone();
    kernel::select_update(device.stream(), update(op), axis, x.view_mut(), indices.view(), value.view())?;
    Ok(x)
}

/// The number of the row that each tuple (the last axis of `indices`) names in the leading axes of `shape`; -1 for a tuple
/// that leaves them.
fn rows(op: IndexOp, shape: &[usize], indices: &Tensor) -> Result<Tensor> {
    let width = indices.shape().last().copied().unwrap_or(0);
    if width == 0 || width > shape.len() {
        let got = format!("{:?} for {shape:?}", indices.shape());
        return Err(HalError::shape("gather_nd", "indices", "tuples of 1 to rank elements", got).into());
    }
    let extents: Vec<i64> = shape[..width].iter().map(|&extent| extent as i64).collect();
    let strides: Vec<i64> = (0..width).map(|axis| extents[axis + 1..].iter().product()).collect();
    let count = indices.layout().len() / width;
    let tuples = view::reshape(indices, &[count, width])?;
    let extents = memory::table(indices.device(), &[1, width], DType::I64, &extents)?;
    let strides = memory::table(indices.device(), &[1, width], DType::I64, &strides)?;
    let dtype = indices.dtype();
    let graph = fused::graph(op.name(), &[dtype], |g| {
        let index = g.input(dtype).cast(DType::I64);
        let (extent, stride) = (g.input(DType::I64), g.input(DType::I64));
        let index = g.term(|g| g.check(op, index.value, extent.value));
        let is_inside = index.is(Compare::Ge, index.number(0_i64)) & index.is(Compare::Lt, extent);
        let row = (index * stride).reduce(Reduce::Sum);
        is_inside.reduce(Reduce::All).choose(row, row.number(-1_i64))
    });
    view::reshape(&fused::per_row(&graph, &[&tuples, &extents, &strides], &[], DType::I64)?, &[count])
}

/// The leading axes that a tuple names as one, the rest as another.
fn by_row(x: &Tensor, width: usize) -> Result<Tensor> {
    let (named, rest) = x.shape().split_at(width);
    view::reshape(x, &[named.iter().product(), rest.iter().product()])
}

/// Slices of `x` at index tuples: `y[n.., rest..] = x[indices[n.., 0], indices[n.., 1], …, rest..]`.
pub(crate) fn gather_nd(x: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let rows = rows(IndexOp::GatherNd, x.shape(), indices)?;
    let (&width, tuples) = indices.shape().split_last().expect("rows has checked that there is a last axis");
    let picked = select(&by_row(x, width)?, 0, &rows)?;
    let shape: Vec<usize> = tuples.iter().chain(&x.shape()[width..]).copied().collect();
    view::reshape(&picked, &shape)
}

/// `x` with slices brought to index tuples.
pub(crate) fn scatter_nd(x: &Tensor, indices: &Tensor, values: &Tensor, op: IndexingUpdateOp) -> Result<Tensor> {
    let rows = rows(IndexOp::ScatterNd, x.shape(), indices)?;
    let width = indices.shape().last().copied().unwrap_or(0);
    let target = memory::copy(&by_row(x, width)?)?;
    let values = view::reshape(values, &[rows.shape()[0], target.shape()[1]])?;
    view::reshape(&select_assign(target, 0, &rows, &values, op)?, x.shape())
}

/// The elements of `x` where `mask`, of the same shape, holds. Waits for their number.
pub(crate) fn mask_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let stream = x.device().stream();
    let chosen = Chosen::of(stream, mask)?;
    let mut y = memory::empty(x.device(), &[chosen.len()], x.dtype())?;
    chosen.values(stream, x.view(), y.view_mut())?;
    Ok(y)
}

/// The coordinates of the elements where `mask` holds, one row each, in `dtype`. Waits for their number.
pub(crate) fn argwhere(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    let stream = mask.device().stream();
    let chosen = Chosen::of(stream, mask)?;
    let width = if matches!(dtype, DType::I64 | DType::U64) { DType::I64 } else { DType::I32 };
    let mut places = memory::empty(mask.device(), &[chosen.len(), mask.shape().len()], width)?;
    chosen.places(stream, places.view_mut())?;
    memory::cast(&places, dtype)
}
