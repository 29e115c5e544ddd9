//! Runs one operator at a time, by graphs of a single operator that are made once per operator and dtype.
//!
//! The adapters' eager backends call these for every elementwise operator and row reduction, copy and fill. Each is one
//! [`run`] of a cached graph, so it has the same numbers, broadcasting and strides as the operator inside a longer chain.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use rocfire_hal::{DType, Dims, Layout, Tensor, View, ViewMut};

use crate::draft::Draft;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::run::run;
use crate::scalar::Scalar;

/// What tells the graphs of a single operator apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Unary(Unary, DType),
    Binary(Binary, DType),
    BinaryScalar(Binary, DType),
    ScalarBinary(Binary, DType),
    Compare(Compare, DType),
    CompareScalar(Compare, DType),
    Select(DType),
    SelectScalar(DType),
    Cast(DType, DType),
    Reduce(Reduce, DType),
    Copy(DType),
    Fill(DType),
}

static GRAPHS: RwLock<Option<HashMap<Key, &'static Graph>>> = RwLock::new(None);

/// The graph of a key. There are finitely many keys, so those that were asked for are never freed.
fn graph(key: Key) -> Result<&'static Graph> {
    let graphs = GRAPHS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(&graph) = graphs.as_ref().and_then(|graphs| graphs.get(&key)) {
        return Ok(graph);
    }
    drop(graphs);
    let made = build(key)?;
    let mut graphs = GRAPHS.write().unwrap_or_else(PoisonError::into_inner);
    Ok(graphs.get_or_insert_default().entry(key).or_insert_with(|| Box::leak(Box::new(made))))
}

fn build(key: Key) -> Result<Graph> {
    let (name, dtype, takes) = match key {
        Key::Unary(op, dtype) => (op.name(), dtype, op.class().takes(dtype)),
        Key::Binary(op, dtype) | Key::BinaryScalar(op, dtype) | Key::ScalarBinary(op, dtype) => {
            (op.name(), dtype, op.class().takes(dtype))
        }
        Key::Compare(op, dtype) | Key::CompareScalar(op, dtype) => (op.name(), dtype, op.class().takes(dtype)),
        Key::Reduce(op, dtype) => (op.name(), dtype, op.class().takes(dtype)),
        Key::Select(dtype) | Key::SelectScalar(dtype) => ("select", dtype, true),
        Key::Cast(dtype, _) => ("cast", dtype, true),
        Key::Copy(dtype) => ("copy", dtype, true),
        Key::Fill(dtype) => ("fill", dtype, true),
    };
    if !takes {
        return Err(Error::Operand { op: name, dtype });
    }
    Ok(Draft::graph(name, |g| match key {
        Key::Unary(op, dtype) => g.input(dtype).unary(op),
        Key::Binary(op, dtype) => g.input(dtype).binary(op, g.input(dtype)),
        Key::BinaryScalar(op, dtype) => g.input(dtype).binary(op, g.scalar(dtype)),
        Key::ScalarBinary(op, dtype) => g.scalar(dtype).binary(op, g.input(dtype)),
        Key::Compare(op, dtype) => g.input(dtype).is(op, g.input(dtype)),
        Key::CompareScalar(op, dtype) => g.input(dtype).is(op, g.scalar(dtype)),
        Key::Select(dtype) => g.input(DType::Bool).choose(g.input(dtype), g.input(dtype)),
        Key::SelectScalar(dtype) => g.input(DType::Bool).choose(g.scalar(dtype), g.input(dtype)),
        Key::Cast(from, to) => g.input(from).cast(to),
        Key::Reduce(op, dtype) => g.input(dtype).reduce(op),
        Key::Copy(dtype) => g.input(dtype),
        Key::Fill(dtype) => g.scalar(dtype),
    }))
}

/// `op(x)`, as a contiguous tensor.
///
/// # Errors
/// [`Error::Operand`] if `op` does not take the dtype; [`Error::Hal`].
pub fn unary(op: Unary, x: &Tensor) -> Result<Tensor> {
    let graph = graph(Key::Unary(op, x.dtype()))?;
    fresh(graph, x.shape(), op.result(x.dtype()), &[x.view()], &[])
}

/// `op(a, b)`, as a contiguous tensor; the shapes broadcast.
///
/// # Errors
/// [`Error::Operand`] if `op` does not take the dtype; [`Error::DType`] if `b` has another; [`Error::Shape`] if the shapes do
/// not broadcast; [`Error::Hal`].
pub fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let graph = graph(Key::Binary(op, a.dtype()))?;
    fresh(graph, &broadcast(graph, &[a.shape(), b.shape()])?, a.dtype(), &[a.view(), b.view()], &[])
}

/// `op(a, b)` with a scalar on the right.
///
/// # Errors
/// As [`unary`].
pub fn binary_scalar(op: Binary, a: &Tensor, b: Scalar) -> Result<Tensor> {
    fresh(graph(Key::BinaryScalar(op, a.dtype()))?, a.shape(), a.dtype(), &[a.view()], &[b])
}

/// `op(a, b)` with a scalar on the left.
///
/// # Errors
/// As [`unary`].
pub fn scalar_binary(op: Binary, a: Scalar, b: &Tensor) -> Result<Tensor> {
    fresh(graph(Key::ScalarBinary(op, b.dtype()))?, b.shape(), b.dtype(), &[b.view()], &[a])
}

/// `op(a, b)`, a bool tensor; the shapes broadcast.
///
/// # Errors
/// As [`binary`].
pub fn compare(op: Compare, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let graph = graph(Key::Compare(op, a.dtype()))?;
    fresh(graph, &broadcast(graph, &[a.shape(), b.shape()])?, DType::Bool, &[a.view(), b.view()], &[])
}

/// `op(a, b)` with a scalar on the right, a bool tensor.
///
/// # Errors
/// As [`unary`].
pub fn compare_scalar(op: Compare, a: &Tensor, b: Scalar) -> Result<Tensor> {
    fresh(graph(Key::CompareScalar(op, a.dtype()))?, a.shape(), DType::Bool, &[a.view()], &[b])
}

/// `a` where `condition` (bool) holds, else `b`; the shapes broadcast.
///
/// # Errors
/// As [`binary`].
pub fn select(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let graph = graph(Key::Select(a.dtype()))?;
    let shape = broadcast(graph, &[condition.shape(), a.shape(), b.shape()])?;
    fresh(graph, &shape, a.dtype(), &[condition.view(), a.view(), b.view()], &[])
}

/// The scalar `a` where `condition` (bool) holds, else `b`; the shapes broadcast.
///
/// # Errors
/// As [`binary`].
pub fn select_scalar(condition: &Tensor, a: Scalar, b: &Tensor) -> Result<Tensor> {
    let graph = graph(Key::SelectScalar(b.dtype()))?;
    let shape = broadcast(graph, &[condition.shape(), b.shape()])?;
    fresh(graph, &shape, b.dtype(), &[condition.view(), b.view()], &[a])
}

/// `x` in another dtype, as a contiguous tensor, converted as by [`Graph::cast`]. The same dtype makes a copy.
///
/// # Errors
/// [`Error::Hal`].
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    fresh(graph(Key::Cast(x.dtype(), dtype))?, x.shape(), dtype, &[x.view()], &[])
}

/// `x` reduced over its last axis, which becomes 1.
///
/// # Errors
/// [`Error::Operand`] if `op` does not take the dtype; [`Error::Shape`] for a tensor without axes; [`Error::Hal`].
pub fn reduce_last(op: Reduce, x: &Tensor) -> Result<Tensor> {
    let graph = graph(Key::Reduce(op, x.dtype()))?;
    let Some((_, outer)) = x.shape().split_last() else {
        return Err(Error::Shape { graph: op.name(), what: "input", slot: 0, got: Vec::new(), space: Vec::new() });
    };
    let mut shape = [1; rocfire_hal::MAX_RANK];
    shape[..outer.len()].copy_from_slice(outer);
    let mut y = Tensor::empty(x.device(), &shape[..=outer.len()], x.dtype())?;
    run(x.device().stream(), graph, x.shape(), &[x.view()], &[], &mut [y.view_mut()])?;
    Ok(y)
}

/// A contiguous copy of `x` in new memory.
///
/// # Errors
/// [`Error::Hal`].
pub fn copy(x: &Tensor) -> Result<Tensor> {
    fresh(graph(Key::Copy(x.dtype()))?, x.shape(), x.dtype(), &[x.view()], &[])
}

/// Copies `x` into `y`, broadcast to the shape of `y`. Both may have any strides.
///
/// # Errors
/// [`Error::DType`], [`Error::Shape`], [`Error::Alias`], [`Error::Overlap`]; [`Error::Hal`].
pub fn copy_into(x: View<'_>, y: ViewMut<'_>) -> Result<()> {
    let shape = y.layout().dims();
    run(x.device().stream(), graph(Key::Copy(x.dtype()))?, &shape, &[x], &[], &mut [y])
}

/// Sets every element of `y`.
///
/// # Errors
/// [`Error::Overlap`]; [`Error::Hal`].
pub fn fill(y: ViewMut<'_>, value: Scalar) -> Result<()> {
    let (shape, device) = (y.layout().dims(), y.device());
    run(device.stream(), graph(Key::Fill(y.dtype()))?, &shape, &[], &[value], &mut [y])
}

/// As [`unary`], but in `x`'s own memory if nobody else has a handle of it.
///
/// # Errors
/// As [`unary`].
pub fn unary_reusing(op: Unary, x: Tensor) -> Result<Tensor> {
    reusing(graph(Key::Unary(op, x.dtype()))?, x.shape(), op.result(x.dtype()), &[&x], &[&x], &[])
}

/// As [`binary`], but in the memory of `a` or `b` if that has the result's shape and nobody else has a handle of it.
///
/// # Errors
/// As [`binary`].
pub fn binary_reusing(op: Binary, a: Tensor, b: Tensor) -> Result<Tensor> {
    let graph = graph(Key::Binary(op, a.dtype()))?;
    let shape = broadcast(graph, &[a.shape(), b.shape()])?;
    reusing(graph, &shape, a.dtype(), &[&a, &b], &[&a, &b], &[])
}

/// As [`binary_scalar`], but in `a`'s own memory if nobody else has a handle of it.
///
/// # Errors
/// As [`unary`].
pub fn binary_scalar_reusing(op: Binary, a: Tensor, b: Scalar) -> Result<Tensor> {
    reusing(graph(Key::BinaryScalar(op, a.dtype()))?, a.shape(), a.dtype(), &[&a], &[&a], &[b])
}

/// As [`select`], but in the memory of `a` or `b` if that has the result's shape and nobody else has a handle of it.
///
/// # Errors
/// As [`binary`].
pub fn select_reusing(condition: &Tensor, a: Tensor, b: Tensor) -> Result<Tensor> {
    let graph = graph(Key::Select(a.dtype()))?;
    let shape = broadcast(graph, &[condition.shape(), a.shape(), b.shape()])?;
    reusing(graph, &shape, a.dtype(), &[&a, &b], &[condition, &a, &b], &[])
}

/// As [`select_scalar`], but in `b`'s own memory if that has the result's shape and nobody else has a handle of it.
///
/// # Errors
/// As [`binary`].
pub fn select_scalar_reusing(condition: &Tensor, a: Scalar, b: Tensor) -> Result<Tensor> {
    let graph = graph(Key::SelectScalar(b.dtype()))?;
    let shape = broadcast(graph, &[condition.shape(), b.shape()])?;
    reusing(graph, &shape, b.dtype(), &[&b], &[condition, &b], &[a])
}

/// Runs a graph into the first tensor of `given` that is contiguous, has the result's shape and dtype, and has the only handle of its
/// memory; into new memory if there is none. The callers own `given` and drop it.
fn reusing(
    graph: &Graph,
    shape: &[usize],
    dtype: DType,
    given: &[&Tensor],
    inputs: &[&Tensor],
    scalars: &[Scalar],
) -> Result<Tensor> {
    let fits = |x: &&&Tensor| x.is_unique() && x.dtype() == dtype && x.shape() == shape && x.layout().is_contiguous();
    let mut y = match given.iter().find(fits) {
        Some(&x) => x.clone(),
        None => Tensor::empty(inputs[0].device(), shape, dtype)?,
    };
    let mut views = [inputs[0].view(); 3];
    for (view, input) in views.iter_mut().zip(inputs) {
        *view = input.view();
    }
    run(y.device().clone().stream(), graph, shape, &views[..inputs.len()], scalars, &mut [y.view_mut()])?;
    Ok(y)
}

fn fresh(graph: &Graph, shape: &[usize], dtype: DType, inputs: &[View<'_>], scalars: &[Scalar]) -> Result<Tensor> {
    let device = inputs[0].device();
    let mut y = Tensor::empty(device, shape, dtype)?;
    run(device.stream(), graph, shape, inputs, scalars, &mut [y.view_mut()])?;
    Ok(y)
}

/// The shape to which all shapes broadcast, aligned at the last axis.
fn broadcast(graph: &Graph, shapes: &[&[usize]]) -> Result<Dims> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut joined = [1; rocfire_hal::MAX_RANK];
    for (slot, shape) in shapes.iter().enumerate() {
        let lead = rank - shape.len();
        for (axis, &extent) in shape.iter().enumerate() {
            let so_far = &mut joined[lead + axis];
            if *so_far == 1 {
                *so_far = extent;
            } else if extent != 1 && extent != *so_far {
                let (got, space) = (shape.to_vec(), joined[..rank].to_vec());
                return Err(Error::Shape { graph: graph.name(), what: "input", slot, got, space });
            }
        }
    }
    Ok(Layout::contiguous(&joined[..rank])?.dims())
}
