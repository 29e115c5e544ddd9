//! Analyses a graph for its kernel: whether it looks at rows, how often it passes over a row, and what each pass computes.
//!
//! A *pass* goes over the elements of a row once. The level of a reduction is one above that of its operand; any other node has the
//! highest level of its operands. Pass `n` reduces operands of level `n` and stores outputs of level `n`. Softmax has
//! three passes: the maximum, the sum of exponentials, the quotients.

use rocfire_hal::DType;

use crate::graph::{Graph, Kind, Node, Value};
use crate::op::Binary;

/// How a graph is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Element by element.
    Elementwise,
    /// Row by row.
    Rows,
}

/// What one pass over the elements of a row does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    /// Reductions whose operands this pass visits.
    pub reduces: Vec<Value>,
    /// Slots of the outputs per element that this pass stores.
    pub stores: Vec<usize>,
    /// Nodes per element that these reductions and stores need, in order.
    pub needs: Vec<Value>,
    /// Needed nodes that an earlier pass computed too, and that are computed again: that is cheaper than keeping them in registers.
    pub again: Vec<Value>,
}

/// The analysis of a valid, simplified graph.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub shape: Shape,
    pub kinds: Vec<Kind>,
    /// For each node its level: how many passes must come before it is known.
    pub levels: Vec<usize>,
    pub passes: Vec<Pass>,
    /// For each node, whether an output depends on it.
    pub live: Vec<bool>,
    /// For each node per element, the number of the first pass that needs it.
    pub first: Vec<usize>,
    /// For each node per element, whether it must be kept in registers for a later pass.
    pub kept: Vec<bool>,
    /// The highest axis whose coordinate the graph asks for; `None` if it asks for none.
    pub index_axes: Option<usize>,
}

impl Plan {
    pub(crate) fn new(graph: &Graph) -> Plan {
        let kinds = graph.kinds();
        let levels = levels(graph);
        let live = graph.needed(graph.outputs.iter().copied());
        let reduces = |at: usize| live[at] && matches!(graph.nodes[at].0, Node::Reduce(..));
        let rows = (0..graph.nodes.len()).any(reduces) || graph.outputs.iter().any(|v| kinds[v.at()] == Kind::Row);
        let mut passes = passes(graph, &kinds, &levels, &live);
        let (first, kept) = lifetimes(graph, &kinds, &mut passes);
        let index_axes = graph.nodes.iter().zip(&live).filter_map(|(&(node, _), &live)| match node {
            Node::Index(axis) if live => Some(axis as usize),
            _ => None,
        });
        let shape = if rows { Shape::Rows } else { Shape::Elementwise };
        Plan { index_axes: index_axes.max(), shape, kinds, levels, passes, live, first, kept }
    }

    /// Whether there is only one pass, and it stores nothing per element. The chunks of a row can then be reduced independently.
    pub(crate) fn splits(&self) -> bool {
        self.passes.len() == 1 && self.passes[0].stores.is_empty() && !self.passes[0].reduces.is_empty()
    }
}

fn levels(graph: &Graph) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for (node, _) in &graph.nodes {
        let highest = node.operands().map(|operand| levels[operand.at()]).max().unwrap_or(0);
        levels.push(if matches!(node, Node::Reduce(..)) { highest + 1 } else { highest });
    }
    levels
}

fn passes(graph: &Graph, kinds: &[Kind], levels: &[usize], live: &[bool]) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    fn at_level(passes: &mut Vec<Pass>, level: usize) -> &mut Pass {
        if passes.len() <= level {
            passes.resize_with(level + 1, Pass::default);
        }
        &mut passes[level]
    }
    for (at, &(node, _)) in graph.nodes.iter().enumerate() {
        if let (Node::Reduce(_, operand), true) = (node, live[at]) {
            at_level(&mut passes, levels[operand.at()]).reduces.push(Value(at as u32));
        }
    }
    // An output that is the same everywhere is still stored for every element. The last pass stores all outputs, because an output may
    // be in the memory of an input, which no later pass may read.
    let full: Vec<usize> =
        (0..graph.outputs.len()).filter(|&slot| kinds[graph.outputs[slot].at()] != Kind::Row).collect();
    if let Some(level) = full.iter().map(|&slot| levels[graph.outputs[slot].at()]).max() {
        let last = level.max(passes.len().saturating_sub(1));
        at_level(&mut passes, last).stores = full;
    }
    for pass in &mut passes {
        pass.needs = needs(graph, kinds, pass);
    }
    passes
}

/// The nodes per element that a pass would compute if nothing were kept from earlier passes.
fn needs(graph: &Graph, kinds: &[Kind], pass: &Pass) -> Vec<Value> {
    let mut wanted = vec![false; graph.nodes.len()];
    for reduce in &pass.reduces {
        for operand in graph.nodes[reduce.at()].0.operands() {
            wanted[operand.at()] = true;
        }
    }
    for &slot in &pass.stores {
        wanted[graph.outputs[slot].at()] = true;
    }
    for at in (0..wanted.len()).rev() {
        wanted[at] &= kinds[at] == Kind::Full;
        if wanted[at] {
            for operand in graph.nodes[at].0.operands() {
                wanted[operand.at()] = true;
            }
        }
    }
    (0..wanted.len()).filter(|&at| wanted[at]).map(|at| Value(at as u32)).collect()
}

/// For each node per element, the first pass that computes it, and whether it must be kept. A node that a later pass needs again is
/// kept, unless it [`is_cheap`]: then that pass computes it again.
fn lifetimes(graph: &Graph, kinds: &[Kind], passes: &mut [Pass]) -> (Vec<usize>, Vec<bool>) {
    let mut first = vec![usize::MAX; graph.nodes.len()];
    let mut kept = vec![false; graph.nodes.len()];
    for (number, pass) in passes.iter_mut().enumerate() {
        let sinks = pass.reduces.iter().flat_map(|reduce| graph.nodes[reduce.at()].0.operands());
        let mut stack: Vec<Value> = sinks.chain(pass.stores.iter().map(|&slot| graph.outputs[slot])).collect();
        while let Some(value) = stack.pop() {
            if kinds[value.at()] != Kind::Full {
                continue;
            }
            if first[value.at()] == usize::MAX {
                first[value.at()] = number;
                stack.extend(graph.nodes[value.at()].0.operands());
            } else if first[value.at()] < number && is_cheap(graph, kinds, value) {
                if !pass.again.contains(&value) {
                    pass.again.push(value);
                    stack.extend(graph.nodes[value.at()].0.operands());
                }
            } else if first[value.at()] < number {
                kept[value.at()] = true;
            }
        }
    }
    (first, kept)
}

/// Whether a value is a 16-bit input that was widened, and perhaps shifted or scaled by a value that is the same along the row. The
/// input takes half of the registers that the value would, and the value is one or two instructions from it.
fn is_cheap(graph: &Graph, kinds: &[Kind], value: Value) -> bool {
    let (node, dtype) = graph.nodes[value.at()];
    match node {
        Node::Cast(from) => {
            dtype == DType::F32
                && matches!(graph.dtype(from), DType::F16 | DType::BF16)
                && matches!(graph.nodes[from.at()].0, Node::Input(_))
        }
        Node::Binary(Binary::Add | Binary::Sub | Binary::Mul, a, b) => {
            let along = |value: Value| kinds[value.at()] == Kind::Full;
            dtype == DType::F32 && along(a) != along(b) && is_cheap(graph, kinds, if along(a) { a } else { b })
        }
        _ => false,
    }
}

/// A tensor argument of a kernel: an input that is used, or an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// The input of a slot, and the node that reads it.
    Input(usize, Value),
    /// The output of a slot.
    Output(usize),
}

/// The inputs that are looked up in, in the order of the arguments.
pub(crate) fn lookups(graph: &Graph, plan: &Plan) -> Vec<Value> {
    let is_lookup = |at: &usize| plan.live[*at] && graph.nodes[*at].0.is_lookup();
    (0..graph.nodes.len()).filter(is_lookup).map(|at| Value(at as u32)).collect()
}

/// The tensors that a kernel of `graph` takes, in order.
pub(crate) fn arguments(graph: &Graph, plan: &Plan) -> Vec<Argument> {
    let inputs = graph.nodes.iter().enumerate().filter_map(|(at, &(node, _))| match node {
        Node::Input(slot) | Node::RowInput(slot) | Node::Lookup(slot, _) | Node::RowLookup(slot, _)
            if plan.live[at] =>
        {
            Some(Argument::Input(slot as usize, Value(at as u32)))
        }
        _ => None,
    });
    inputs.chain((0..graph.outputs.len()).map(Argument::Output)).collect()
}
