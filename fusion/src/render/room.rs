//! Which values of a row a lane keeps in registers from pass to pass, and how many bytes of registers that takes.

use crate::graph::{Graph, Kind, Node, Value};
use crate::plan::{Argument, Plan, arguments};

use super::expr;

/// Bytes of registers that a lane needs for each of its elements of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// For values that are kept from one pass to the next.
    pub kept: usize,
    /// For inputs that only one pass reads: the most of any pass.
    pub most: usize,
    /// For inputs that only one pass reads: the sum over all passes.
    pub all: usize,
}

impl Room {
    /// The need if all 16-bit floats lie two in a register.
    pub fn new(graph: &Graph, plan: &Plan) -> Room {
        Room::of(graph, plan, |value| held_bytes(graph, value))
    }

    /// The need if only 16-bit inputs lie two in a register.
    pub fn of_floats(graph: &Graph, plan: &Plan) -> Room {
        Room::of(graph, plan, |value| match is_input(graph, value) {
            true => held_bytes(graph, value),
            false => graph.dtype(value).size_bytes().max(4),
        })
    }

    fn of(graph: &Graph, plan: &Plan, bytes: impl Fn(Value) -> usize) -> Room {
        let passes: Vec<usize> =
            (0..plan.passes.len()).map(|number| passing(graph, plan, number).map(&bytes).sum()).collect();
        Room {
            kept: kept(graph, plan).map(&bytes).sum(),
            most: passes.iter().copied().max().unwrap_or(0),
            all: passes.iter().sum(),
        }
    }
}

/// The bytes of registers that an element of a value takes; 16-bit floats lie two in a register.
fn held_bytes(graph: &Graph, value: Value) -> usize {
    let dtype = graph.dtype(value);
    if expr::is_half(dtype) { 2 } else { dtype.size_bytes().max(4) }
}

pub(super) fn is_input(graph: &Graph, value: Value) -> bool {
    matches!(graph.nodes[value.at()].0, Node::Input(_))
}

/// The values that are kept from one pass to the next.
pub(super) fn kept<'a>(graph: &'a Graph, plan: &'a Plan) -> impl Iterator<Item = Value> + 'a {
    (0..graph.nodes.len()).filter(|&at| plan.kept[at]).map(|at| Value(at as u32))
}

/// The inputs that only this pass reads.
fn passing<'a>(graph: &'a Graph, plan: &'a Plan, number: usize) -> impl Iterator<Item = Value> + 'a {
    let own = move |value: &Value| !plan.kept[value.at()] && plan.first[value.at()] == number;
    plan.passes[number].needs.iter().copied().filter(move |&value| is_input(graph, value)).filter(own)
}

/// The bytes of the widest element among inputs and outputs per element.
pub(super) fn widest(graph: &Graph, plan: &Plan) -> usize {
    let bytes = arguments(graph, plan).into_iter().map(|argument| {
        let value = match argument {
            Argument::Input(_, value) => value,
            Argument::Output(slot) => graph.outputs[slot],
        };
        if plan.kinds[value.at()] == Kind::Full { graph.dtype(value).size_bytes() } else { 0 }
    });
    bytes.max().unwrap_or(0)
}
