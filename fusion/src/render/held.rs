//! [`super::Schedule::Held2`] and its like: one workgroup a row, and the row stays in registers from pass to pass. The number of quads of a
//! chain is a constant of the text, because registers cannot be indexed. If elements have one or two bytes, a thread has two neighbouring
//! chains, so that it reads 16 bytes at once. [`super::Schedule::HeldLong2`] and its like have as many threads for each chunk of a
//! longer row. They are for rows that lie packed and end with a whole step: for others the text of so many steps would be long.

use rocfire_hal::DType;

use super::body::{Form, Reads};
use super::room::{self, Room, is_input};
use super::{Kernel, THREADS, expr};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::Reduce;
use crate::order::{CHUNK_QUADS, LONG_CHAINS, QUAD};
use crate::plan::Plan;

/// The most registers of each of [`THREADS`] lanes for the row: half of what a lane of such a workgroup can have on every card. With
/// more lanes each has fewer elements.
const REGISTERS_MOST: usize = 128;

/// The most registers of a lane for a row that is read as a whole before anything is reduced. They are fewer, so that more rows are
/// under way at once.
const EARLY_REGISTERS_MOST: usize = 96;

/// The most registers of a lane for a row whose computed 16-bit values are kept as floats: with more, too few rows are under way at
/// once.
const FLOAT_REGISTERS_MOST: usize = 64;

/// The most registers of a lane for a row of 16-bit elements, if [`MANY_THREADS`] threads shall run on a compute unit at once.
const MANY_REGISTERS_MOST: usize = 48;

/// How many threads shall run on a compute unit at once if a row takes few registers.
const MANY_THREADS: usize = 1280;

/// How many quads a chain has in a chunk.
const CHAIN_QUADS: usize = CHUNK_QUADS / LONG_CHAINS;

/// How many threads a workgroup has, and how many chains each of them, for rows of which [`THREADS`] threads would hold `turns` quads
/// each.
pub(crate) fn threads(graph: &Graph, plan: &Plan, turns: usize) -> (usize, usize) {
    let chunks = turns.div_ceil(CHAIN_QUADS);
    let chains = chains_of_thread(graph, plan, turns / chunks);
    (THREADS * chunks / chains, chains)
}

/// How many chains a thread has if it reads `turns` quads of each.
fn chains_of_thread(graph: &Graph, plan: &Plan, turns: usize) -> usize {
    if room::widest(graph, plan) <= 2 && has_room(graph, plan, 2 * turns) { 2 } else { 1 }
}

/// Whether there are enough registers for a row. Rows of several chunks leave few for computing, so functions that take many are refused
/// there.
pub(crate) fn fits(graph: &Graph, plan: &Plan, turns: usize) -> bool {
    let heavy = |at: usize| plan.live[at] && plan.kinds[at] == Kind::Full && expr::is_heavy(graph.nodes[at].0);
    has_room(graph, plan, turns) && (turns <= CHAIN_QUADS || !(0..graph.nodes.len()).any(heavy))
}

/// Whether the values that are kept from one pass to the next fit into registers, with those that a pass reads besides.
fn has_room(graph: &Graph, plan: &Plan, turns: usize) -> bool {
    let Room { kept, most, .. } = Room::new(graph, plan);
    (kept + most) * turns * QUAD <= 4 * REGISTERS_MOST
}

/// Whether the inputs of all passes fit into registers at once. They are then read first, and no later pass waits for its own.
fn reads_early(graph: &Graph, plan: &Plan, elements: usize) -> bool {
    let Room { kept, all, .. } = Room::new(graph, plan);
    plan.passes.len() > 1 && (kept + all) * elements <= 4 * EARLY_REGISTERS_MOST
}

/// Whether computed 16-bit values fit into registers as floats.
fn keeps_floats(graph: &Graph, plan: &Plan, elements: usize) -> bool {
    let Room { kept, all, .. } = Room::of_floats(graph, plan);
    (kept + all) * elements <= 4 * FLOAT_REGISTERS_MOST
}

/// Renders the kernel for at most `turns` quads a chain, and rows of at most `chunks` chunks.
pub(super) fn render(kernel: &Kernel<'_>, turns: usize, chunks: usize, out: &mut String) {
    let chains = chains_of_thread(kernel.graph, kernel.plan, turns);
    let (threads, width) = (THREADS * chunks / chains, QUAD * chains);
    let early = reads_early(kernel.graph, kernel.plan, turns * width);
    let Room { kept, all, .. } = Room::new(kernel.graph, kernel.plan);
    let is_small = chains > 1 && (kept + all) * turns * width <= 4 * MANY_REGISTERS_MOST;
    let groups = if is_small { MANY_THREADS / threads } else { 1 };
    let constants = vec![
        ("THREADS", threads),
        ("TURNS", turns),
        ("CHUNKS", chunks),
        ("CHUNK_QUADS", CHUNK_QUADS),
        ("EARLY", early.into()),
    ];
    let form = Form {
        keeps: true,
        halves: !keeps_floats(kernel.graph, kernel.plan, turns * width),
        reads: Reads::Ahead,
        words: if chunks == 1 { |_, _| None } else { of_words },
        constants,
        ..Form::of(width)
    };
    let bounds = format!("RF_BOUNDS({threads}, {groups})");
    kernel.instantiate(&form, include_str!("held.h"), (&bounds, "rows_held"), out);
}

/// For a reduction that is the extreme of a 16-bit input, the functor that takes the input's words, and the input. An extreme does not
/// depend on the order, and some devices take two elements in one instruction.
fn of_words(kernel: &Kernel<'_>, reduce: Value) -> Option<(String, Value)> {
    let graph = kernel.graph;
    let (Node::Reduce(op @ (Reduce::Max | Reduce::Min), operand), _) = graph.nodes[reduce.at()] else { return None };
    let input = match graph.nodes[operand.at()] {
        (Node::Cast(from), DType::F32) => from,
        _ => operand,
    };
    let dtype = graph.dtype(input);
    let is_half = is_input(graph, input) && expr::is_half(dtype) && kernel.plan.kinds[input.at()] == Kind::Full;
    let functor = kernel.reduction(reduce).0;
    is_half.then(|| (format!("fuse::OfWords<{functor}, {}, {}>", expr::storage(dtype), op == Reduce::Max), input))
}
