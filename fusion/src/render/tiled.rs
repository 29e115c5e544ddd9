//! [`super::Schedule::Tiled`]: a workgroup takes squares of the last axis and another one, for inputs whose neighbours lie along the
//! other one.

use super::body::Form;
use super::{Kernel, THREADS, vector};
use crate::graph::{Graph, Kind, Node};
use crate::plan::Plan;

/// The most inputs that are read through tiles in LDS; others are read element by element.
const SLOTS_MOST: usize = 2;

/// The bytes of an element of the widest input per element, and how many such inputs there are.
fn inputs(graph: &Graph, plan: &Plan) -> (usize, usize) {
    let full =
        graph.nodes.iter().enumerate().filter(|(at, (node, _))| {
            plan.live[*at] && matches!(node, Node::Input(_)) && plan.kinds[*at] == Kind::Full
        });
    full.fold((1, 0), |(bytes, count), (_, (_, dtype))| (bytes.max(dtype.size_bytes()), count + 1))
}

/// How many inputs may be read through tiles in one launch.
pub(crate) fn slots(graph: &Graph, plan: &Plan) -> usize {
    inputs(graph, plan).1.min(SLOTS_MOST)
}

/// How many elements the side of a tile has: 128 bytes and more for elements of two bytes and more, and at most 16 KiB in the square.
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
