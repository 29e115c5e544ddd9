//! [`super::Schedule::Tiled`]: squares of the last axis and one other, for inputs whose neighbours lie along that other.

use super::body::Form;
use super::{Kernel, THREADS, vector};
use crate::graph::{Graph, Kind, Node};
use crate::plan::Plan;

/// Most inputs that go through tiles; more are read element by element.
const SLOTS_MOST: usize = 2;

/// Bytes of the widest input per element, and how many inputs per element there are.
fn inputs(graph: &Graph, plan: &Plan) -> (usize, usize) {
    let full =
        graph.nodes.iter().enumerate().filter(|(at, (node, _))| {
            plan.live[*at] && matches!(node, Node::Input(_)) && plan.kinds[*at] == Kind::Full
        });
    full.fold((1, 0), |(bytes, count), (_, (_, dtype))| (bytes.max(dtype.size_bytes()), count + 1))
}

/// Inputs that may go through tiles in one launch.
pub(crate) fn slots(graph: &Graph, plan: &Plan) -> usize {
    inputs(graph, plan).1.min(SLOTS_MOST)
}

/// Elements of a tile's side: 128 bytes and more, and a square of 16 KiB at most.
pub(crate) fn side(graph: &Graph, plan: &Plan) -> usize {
    if inputs(graph, plan).0 <= 4 { 64 } else { 32 }
}

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    let (graph, plan) = (kernel.graph, kernel.plan);
    let (side, slots) = (side(graph, plan), slots(graph, plan).max(1));
    let words = (side * (side + 1) * inputs(graph, plan).0).div_ceil(8);
    let constants = vec![("THREADS", THREADS), ("SIDE", side), ("TILES", slots), ("TILE_WORDS", words)];
    let form = Form { tiled: true, constants, ..Form::of(vector(graph, plan)) };
    kernel.instantiate(&form, include_str!("tiled.h"), (&format!("__launch_bounds__({THREADS})"), "tiled"), out);
}
