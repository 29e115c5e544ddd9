//! Which results of a stretch need not be kept, because what keeps them can have them computed again.
//!
//! For the gradient of an activation Burn keeps what the activation has read. Often that follows, element by element, from a tensor
//! that another gradient keeps too: what a rectifier behind a normalisation reads follows from what the normalisation reads, and from
//! two numbers for each channel. Then it need not lie in memory from forward to backward. The operation that reads it next has its
//! operations recorded again in front, and the kernel that they become reads what it mostly would read anyway.
//!
//! A result is left out if all of this holds:
//! - kernels of the stretch have read it, and no product or attention has, which would take it from memory;
//! - it follows by at most [`OPERATIONS_MOST`] operations element by element and views from tensors that outlive the stretch, or from
//!   results of the stretch with fewer elements, as a channel's deviation, which are kept for it and not computed for every element;
//! - each of these has no more elements than the result, and at most twice as many bytes; at most [`LARGE_MOST`] have as many elements.
//!
//! They are kept for as long as the result could be read. What an operation reads mostly outlives its result in a backward pass, so
//! that no memory is used for this.
//!
//! No bit of any result depends on it: kernels of operations element by element give the bits of the operations.

use std::collections::{BTreeMap, BTreeSet};

use burn_ir::{OperationIr, TensorId, TensorIr};
use rocfire_fusion::Node;

use super::axes::{Extent, ONE};
use super::partition::{Stretch, is_draw, is_free};
use super::trace::Trace;

/// The most operations that compute a tensor again, without views. A normalisation, a cast and a residual connection are six, which take
/// about half as long as reading the result; two normalisations and their sum would take longer.
const OPERATIONS_MOST: usize = 8;

/// The most views among these.
const VIEWS_MOST: usize = 12;

/// The most tensors that they read.
const SOURCES_MOST: usize = 12;

/// The most of these that have as many elements as the result.
const LARGE_MOST: usize = 2;

/// A tensor that need not be kept, and how to compute it again; all in relative form.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// The tensor.
    pub(crate) tensor: TensorIr,
    /// What computes it, in order.
    pub(crate) operations: Vec<OperationIr>,
    /// The tensors that these read and do not make.
    pub(crate) sources: Vec<TensorId>,
    /// Those of them that would end in the stretch.
    pub(super) kept: Vec<TensorId>,
}

/// The tensors that a stretch of these operations need not keep, in the order in which it makes them.
pub(crate) fn recipes(operations: &[OperationIr]) -> Vec<Recipe> {
    let mut stretch = Stretch::new(operations);
    stretch.find_attention();
    let mut recipes: Vec<Recipe> = Vec::new();
    for at in 0..operations.len() {
        if let Some(recipe) = recipe(&stretch, at) {
            apply(&recipe, &mut stretch);
            recipes.push(recipe);
        }
    }
    recipes
}

/// Has the result end in the stretch, and what is kept for it outlive the stretch.
pub(super) fn apply(recipe: &Recipe, stretch: &mut Stretch) {
    stretch.dying.insert(recipe.tensor.id);
    recipe.kept.iter().for_each(|id| _ = stretch.dying.remove(id));
}

/// How to compute an operation's result again, if it need not be kept. Tensors that are not kept for this reason end in the stretch.
fn recipe(stretch: &Stretch, at: usize) -> Option<Recipe> {
    let operation = &stretch.operations[at];
    let mut outputs = operation.outputs();
    let (tensor, None) = (outputs.next()?, outputs.next()) else { return None };
    let is_kept = |id: &TensorId| !stretch.dying.contains(id);
    if !is_kept(&tensor.id) || is_free(operation) || !is_spent(stretch, tensor.id) {
        return None;
    }
    let (mut members, mut stack) = (BTreeSet::from([at]), vec![at]);
    let mut sources: BTreeMap<u64, &TensorIr> = BTreeMap::new();
    let mut kept = BTreeSet::new();
    while let Some(member) = stack.pop() {
        let views = members.iter().filter(|member| is_free(&stretch.operations[**member])).count();
        if members.len() - views > OPERATIONS_MOST || views > VIEWS_MOST || !is_elementwise(&stretch.operations[member])
        {
            return None;
        }
        for input in stretch.operations[member].inputs() {
            match stretch.makers.get(&input.id) {
                _ if is_kept(&input.id) => _ = sources.insert(input.id.value(), input),
                Some(maker) if is_smaller(input, tensor) && !is_free(&stretch.operations[*maker]) => {
                    kept.insert(input.id.value());
                    sources.insert(input.id.value(), input);
                }
                Some(maker) if members.insert(*maker) => stack.push(*maker),
                Some(_) => (),
                None => return None,
            }
        }
    }
    is_worth(tensor, sources.values().copied()).then(|| Recipe {
        tensor: tensor.clone(),
        operations: members.iter().map(|member| stretch.operations[*member].clone()).collect(),
        sources: sources.values().map(|source| source.id).collect(),
        kept: kept.into_iter().map(TensorId::new).collect(),
    })
}

/// Whether kernels of the stretch read a tensor, nothing else of it does, and views of it end with the stretch.
fn is_spent(stretch: &Stretch, id: TensorId) -> bool {
    let mut stack = vec![id];
    while let Some(id) = stack.pop() {
        for reader in stretch.readers.get(&id).into_iter().flatten() {
            let operation = &stretch.operations[*reader];
            for view in operation.outputs().filter(|_| is_free(operation)) {
                if !stretch.dying.contains(&view.id) {
                    return false;
                }
                stack.push(view.id);
            }
        }
    }
    stretch.is_read_by_kernels(id, &[])
}

/// Whether an operation is a view, or computes each element of its result from one element of each operand, the same in every run.
fn is_elementwise(operation: &OperationIr) -> bool {
    let mut trace = Trace::default();
    let is_taken = !is_draw(operation) && trace.take(operation).is_ok();
    is_taken
        && trace.graph.nodes().all(|(_, node, _)| !matches!(node, Node::Reduce(..)))
        && trace.reads.iter().all(|read| read.free.is_none())
}

/// Whether the sources are small enough to be kept in place of a tensor.
fn is_worth<'a>(tensor: &TensorIr, sources: impl Iterator<Item = &'a TensorIr>) -> bool {
    let (mut count, mut large) = (0, 0);
    for source in sources {
        let Some(missing) = missing(source, tensor) else { return false };
        if source.dtype.size() > 2 * tensor.dtype.size() {
            return false;
        }
        count += 1;
        large += usize::from(missing == 0);
    }
    count <= SOURCES_MOST && large <= LARGE_MOST
}

/// Whether a tensor has some of another one's extents, so that it has fewer elements.
fn is_smaller(part: &TensorIr, whole: &TensorIr) -> bool {
    missing(part, whole).is_some_and(|missing| missing > 0)
}

/// How many of a tensor's extents other than 1 another one lacks; `None` if that has any other extents.
fn missing(part: &TensorIr, whole: &TensorIr) -> Option<usize> {
    let mut rest = extents(whole);
    for extent in extents(part) {
        let at = rest.iter().position(|other| *other == extent)?;
        rest.swap_remove(at);
    }
    Some(rest.len())
}

/// A tensor's extents other than 1.
fn extents(tensor: &TensorIr) -> Vec<Extent> {
    tensor.shape.iter().copied().filter(|extent| *extent != ONE).collect()
}
