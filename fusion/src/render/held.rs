//! [`super::Schedule::Held2`] and its like: one workgroup a row, and the row stays in registers from pass to pass. How many quads a chain
//! has is in the text, since registers cannot be indexed. Where the elements are of two bytes or one, a thread has two chains that are
//! neighbours, so that it reads 16 bytes at once. [`super::Schedule::HeldLong2`] and its like have as many threads for each chunk of a
//! longer row that lies packed and ends with a whole step: so many steps of any other kind are much text.

use rocfire_hal::DType;

use super::body::{Form, Reads};
use super::room::{self, Room, is_input};
use super::{Kernel, THREADS, expr};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::Reduce;
use crate::order::{CHUNK_QUADS, LONG_CHAINS, QUAD};
use crate::plan::Plan;

/// Most registers of each of [`THREADS`] lanes for the row: half of what a lane of such a workgroup can have everywhere. More lanes
/// have less each.
const REGISTERS_MOST: usize = 128;

/// Most registers of a lane for a row of which everything is read before anything is reduced. Fewer, so that more rows are
/// under way.
const EARLY_REGISTERS_MOST: usize = 96;

/// Most registers of a lane for a row whose computed 16-bit values are kept as floats: with more, too few rows are under way.
const FLOAT_REGISTERS_MOST: usize = 64;

/// Most registers of a lane for a row of 16-bit elements of which [`MANY_THREADS`] are under way on a compute unit.
const MANY_REGISTERS_MOST: usize = 48;

/// Threads of a compute unit at once that rows of few registers are held to.
const MANY_THREADS: usize = 1280;

/// Quads that a chain has in a chunk.
const CHAIN_QUADS: usize = CHUNK_QUADS / LONG_CHAINS;

/// Threads of a workgroup for rows of which [`THREADS`] would hold `turns` quads each, and the chains of each.
pub(crate) fn threads(graph: &Graph, plan: &Plan, turns: usize) -> (usize, usize) {
    let chunks = turns.div_ceil(CHAIN_QUADS);
    let chains = chains_of_thread(graph, plan, turns / chunks);
    (THREADS * chunks / chains, chains)
}

/// How many chains a thread has if it reads `turns` quads of each.
fn chains_of_thread(graph: &Graph, plan: &Plan, turns: usize) -> usize {
    if room::widest(graph, plan) <= 2 && has_room(graph, plan, 2 * turns) { 2 } else { 1 }
}

/// Whether a row's registers suffice. Rows of several chunks leave few for what is computed.
pub(crate) fn fits(graph: &Graph, plan: &Plan, turns: usize) -> bool {
    let heavy = |at: usize| plan.live[at] && plan.kinds[at] == Kind::Full && expr::is_heavy(graph.nodes[at].0);
    has_room(graph, plan, turns) && (turns <= CHAIN_QUADS || !(0..graph.nodes.len()).any(heavy))
}

/// Whether the values that pass from one pass to the next, and what a pass reads on top, fit into registers.
fn has_room(graph: &Graph, plan: &Plan, turns: usize) -> bool {
    let Room { kept, most, .. } = Room::new(graph, plan);
    (kept + most) * turns * QUAD <= 4 * REGISTERS_MOST
}

/// Whether a row's inputs fit all at once: then the last pass does not wait for its own.
fn reads_early(graph: &Graph, plan: &Plan, elements: usize) -> bool {
    let Room { kept, all, .. } = Room::new(graph, plan);
    plan.passes.len() > 1 && (kept + all) * elements <= 4 * EARLY_REGISTERS_MOST
}

/// Whether there is room for computed 16-bit values as floats.
fn keeps_floats(graph: &Graph, plan: &Plan, elements: usize) -> bool {
    let Room { kept, all, .. } = Room::of_floats(graph, plan);
    (kept + all) * elements <= 4 * FLOAT_REGISTERS_MOST
}

/// `turns` quads of a chain, in rows of `chunks` chunks at most.
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

/// The 16-bit input whose extreme a reduction is, whatever the order, and how the schedule takes it: the extremes of two elements take
/// one instruction on some devices.
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
