//! Graphs of this crate's own: several operators in one launch where Burn has a name for the whole.
//!
//! A graph is built once for a name and its element types and kept; launches of it then allocate their outputs only.
//! Chains of length one go through [`rocfire_fusion::eager`] instead.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use rocfire_fusion::{Draft, Graph, Scalar, Term, run};
use rocfire_hal::{DType, Tensor};

use super::{memory, view};
use crate::error::Result;

/// Most element types that tell one graph of a name from another.
const MAX_KEY: usize = 4;

type Key = ((&'static str, u8), [Option<DType>; MAX_KEY]);

static GRAPHS: LazyLock<RwLock<HashMap<Key, Arc<Graph>>>> = LazyLock::new(RwLock::default);

/// The graph of a name for these element types, written by `write` the first time. Everything that `write` depends on must be
/// in the name or the types.
pub(crate) fn graph(name: &'static str, dtypes: &[DType], write: impl FnOnce(&Draft) -> Term<'_>) -> Arc<Graph> {
    variant((name, 0), dtypes, write)
}

/// The same of a graph that is written in several ways, by their number.
pub(crate) fn variant(
    named: (&'static str, u8),
    dtypes: &[DType],
    write: impl FnOnce(&Draft) -> Term<'_>,
) -> Arc<Graph> {
    assert!(dtypes.len() <= MAX_KEY, "{named:?} has more element types than a key holds");
    let mut key: Key = (named, [None; MAX_KEY]);
    for (slot, &dtype) in key.1.iter_mut().zip(dtypes) {
        *slot = Some(dtype);
    }
    if let Some(graph) = GRAPHS.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return graph.clone();
    }
    let graph = Arc::new(Draft::graph(named.0, write));
    GRAPHS.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(graph).clone()
}

/// Runs a graph with one output that has the shape its inputs broadcast to.
pub(crate) fn elementwise(graph: &Graph, inputs: &[&Tensor], scalars: &[Scalar], dtype: DType) -> Result<Tensor> {
    let space = view::broadcast(graph.name(), inputs)?;
    into_fresh(graph, &space, inputs, scalars, &space, dtype)
}

/// Runs a graph with one output that has one element per row: the inputs' shape with a last extent of 1.
pub(crate) fn per_row(graph: &Graph, inputs: &[&Tensor], scalars: &[Scalar], dtype: DType) -> Result<Tensor> {
    let space = view::broadcast(graph.name(), inputs)?;
    let mut rows = space.clone();
    if let Some(last) = rows.last_mut() {
        *last = 1;
    }
    into_fresh(graph, &space, inputs, scalars, &rows, dtype)
}

fn into_fresh(
    graph: &Graph,
    space: &[usize],
    inputs: &[&Tensor],
    scalars: &[Scalar],
    shape: &[usize],
    dtype: DType,
) -> Result<Tensor> {
    let device = inputs[0].device();
    let mut output = memory::empty(device, shape, dtype)?;
    let views: Vec<_> = inputs.iter().map(|x| x.view()).collect();
    run(device.stream(), graph, space, &views, scalars, &mut [output.view_mut()])?;
    Ok(output)
}

/// What elements of `dtype` are computed in where several operators make one launch: 16-bit floats in f32.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}
