//! Which values of a row a lane keeps in registers from pass to pass, and what they take there.

use crate::graph::{Graph, Kind, Node, Value};
use crate::plan::{Argument, Plan, arguments};

use super::expr;

/// Bytes of registers for each element of a row that a lane has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// For what passes from one pass to the next.
    pub kept: usize,
    /// For what one pass reads for itself alone, at most.
    pub most: usize,
    /// For what all passes read so.
    pub all: usize,
}

impl Room {
    /// Where 16-bit floats share registers.
    pub fn new(graph: &Graph, plan: &Plan) -> Room {
        Room::of(graph, plan, |value| held_bytes(graph, value))
    }

    /// Where only those do that are inputs.
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

/// Bytes of registers that an element of a value takes.
fn held_bytes(graph: &Graph, value: Value) -> usize {
    let dtype = graph.dtype(value);
    if expr::is_half(dtype) { 2 } else { dtype.size_bytes().max(4) }
}

pub(super) fn is_input(graph: &Graph, value: Value) -> bool {
    matches!(graph.nodes[value.at()].0, Node::Input(_))
}

/// The values that pass from one pass to the next.
pub(super) fn kept<'a>(graph: &'a Graph, plan: &'a Plan) -> impl Iterator<Item = Value> + 'a {
    (0..graph.nodes.len()).filter(|&at| plan.kept[at]).map(|at| Value(at as u32))
}

/// What a pass reads for itself alone.
fn passing<'a>(graph: &'a Graph, plan: &'a Plan, number: usize) -> impl Iterator<Item = Value> + 'a {
    let own = move |value: &Value| !plan.kept[value.at()] && plan.first[value.at()] == number;
    plan.passes[number].needs.iter().copied().filter(move |&value| is_input(graph, value)).filter(own)
}

/// Bytes of the widest element that lies along the rows.
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
