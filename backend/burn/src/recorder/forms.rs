//! The programs that were recorded before, as a tree. Each edge is an operation, and leads to those that have followed it.
//!
//! An operation that is the expected one costs a comparison, and the fuser is not asked. The node behind the last operation of a
//! stretch has what runs the stretch.

use std::hash::BuildHasher;
use std::sync::Arc;

use burn_ir::{OperationIr, TensorStatus};
use rustc_hash::FxBuildHasher;

use crate::fusion::{FusedKernel, Recipe, recipes};

/// A node of the tree, which stands for the operations that lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// What an operation does to the stretch that was recorded up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It joins the stretch, which is then at this node.
    Joins(NodeId),
    /// It joins the stretch and ends it.
    Closes(NodeId),
    /// It ends the stretch, and is not part of it.
    Ends,
}

/// What runs a stretch, in relative form.
#[derive(Clone)]
pub(super) struct Stretch {
    /// The kernels that keep all results, and those that do not keep what has a recipe; `None` until they are needed.
    kernels: [Option<Arc<FusedKernel>>; 2],
    /// How to compute again what need not be kept.
    pub(super) recipes: Arc<[Recipe]>,
    /// Numbers of the tensors whose life ends in the stretch.
    pub(super) ending: Arc<[usize]>,
    /// Numbers of the tensors that it makes.
    pub(super) made: Arc<[usize]>,
}

/// An operation that has followed a node.
struct Edge {
    hash: u64,
    operation: OperationIr,
    next: Next,
}

struct Node {
    /// The node before, and which of its edges leads here; `None` for the root.
    before: Option<(NodeId, usize)>,
    edges: Vec<Edge>,
    /// The edge that was taken last, which is compared first.
    likely: usize,
    /// What runs the stretch that ends here, if one has.
    stretch: Option<Stretch>,
}

/// The tree of a device.
pub(super) struct Forms {
    nodes: Vec<Node>,
}

/// From so many nodes on the tree is forgotten. A program whose stretches never come again would fill the memory.
const NODES_MOST: usize = 1 << 20;

impl Forms {
    pub(super) const START: NodeId = NodeId(0);

    pub(super) fn new() -> Forms {
        Forms { nodes: vec![Node { before: None, edges: Vec::new(), likely: 0, stretch: None }] }
    }

    /// Whether the tree should be forgotten before the next stretch.
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= NODES_MOST
    }

    /// What an operation did when it last came behind a node; `None` if it never did.
    pub(super) fn next(&mut self, at: NodeId, operation: &OperationIr) -> Option<Next> {
        let node = &mut self.nodes[at.0 as usize];
        let likely = node.edges.get(node.likely)?;
        if likely.operation == *operation {
            return Some(likely.next);
        }
        if node.edges.len() == 1 {
            return None;
        }
        let hash = hash(operation);
        let found = node.edges.iter().position(|edge| edge.hash == hash && edge.operation == *operation)?;
        node.likely = found;
        Some(node.edges[found].next)
    }

    /// Remembers that an operation joins the stretch behind a node, and whether it ends the stretch.
    pub(super) fn join(&mut self, at: NodeId, operation: OperationIr, closes: bool) -> Next {
        let made = NodeId(self.nodes.len() as u32);
        let edge = self.nodes[at.0 as usize].edges.len();
        self.nodes.push(Node { before: Some((at, edge)), edges: Vec::new(), likely: 0, stretch: None });
        let next = if closes { Next::Closes(made) } else { Next::Joins(made) };
        self.add(at, operation, next);
        next
    }

    /// Remembers that an operation ends the stretch at a node without joining it.
    pub(super) fn end(&mut self, at: NodeId, operation: OperationIr) -> Next {
        self.add(at, operation, Next::Ends);
        Next::Ends
    }

    fn add(&mut self, at: NodeId, operation: OperationIr, next: Next) {
        let node = &mut self.nodes[at.0 as usize];
        node.likely = node.edges.len();
        node.edges.push(Edge { hash: hash(&operation), operation, next });
    }

    /// The operations that lead to a node, in order.
    pub(super) fn operations(&self, at: NodeId) -> Vec<&OperationIr> {
        let steps =
            std::iter::successors(self.nodes[at.0 as usize].before, |(node, _)| self.nodes[node.0 as usize].before);
        let mut operations: Vec<_> =
            steps.map(|(node, edge)| &self.nodes[node.0 as usize].edges[edge].operation).collect();
        operations.reverse();
        operations
    }

    /// What is known of the stretch that ends at a node, if one has ended there before.
    pub(super) fn stretch(&self, at: NodeId) -> Option<Stretch> {
        self.nodes[at.0 as usize].stretch.clone()
    }

    /// Finds out about the stretch that ends at a node, and remembers it.
    pub(super) fn learn(&mut self, at: NodeId) -> Stretch {
        let numbers = |tensors: &mut dyn Iterator<Item = &burn_ir::TensorIr>| -> Arc<[usize]> {
            tensors.map(|tensor| tensor.id.value() as usize).collect()
        };
        let operations: Vec<OperationIr> = self.operations(at).into_iter().cloned().collect();
        let nodes = operations.iter().flat_map(|operation| match operation {
            OperationIr::Drop(tensor) => vec![tensor],
            operation => operation.nodes(),
        });
        let stretch = Stretch {
            kernels: [None, None],
            recipes: recipes(&operations).into(),
            ending: numbers(&mut nodes.filter(|tensor| tensor.status == TensorStatus::ReadWrite)),
            made: numbers(&mut operations.iter().flat_map(|operation| operation.outputs())),
        };
        self.nodes[at.0 as usize].stretch = Some(stretch.clone());
        stretch
    }

    /// Remembers what runs the stretch that ends at a node.
    pub(super) fn keep(&mut self, at: NodeId, recomputes: bool, kernel: FusedKernel) -> Arc<FusedKernel> {
        let kernel = Arc::new(kernel);
        if let Some(stretch) = &mut self.nodes[at.0 as usize].stretch {
            stretch.kernels[usize::from(recomputes)] = Some(Arc::clone(&kernel));
        }
        kernel
    }
}

impl Stretch {
    /// What runs the stretch, if it has run before.
    pub(super) fn kernel(&self, recomputes: bool) -> Option<Arc<FusedKernel>> {
        self.kernels[usize::from(recomputes)].clone()
    }
}

fn hash(operation: &OperationIr) -> u64 {
    FxBuildHasher.hash_one(operation)
}
