//! [`super::Schedule::Elementwise`] and [`super::Schedule::Single`]: lanes walk over the vectors, or the elements, of the whole space.

use super::body::{Form, Reads};
use super::{Kernel, THREADS, pairs, room};
use crate::graph::{Graph, Kind, Node};
use crate::plan::{Argument, Plan, arguments};

/// The most inputs of which a lane reads several vectors at once: more would not fit registers.
const BATCHED_MOST: usize = 3;

/// How many elements a lane's vector has: 16 bytes of the widest tensor, at least 2 and at most 8 elements.
pub(crate) fn vector(graph: &Graph, plan: &Plan) -> usize {
    let bytes = arguments(graph, plan).into_iter().map(|argument| match argument {
        Argument::Input(_, value) => graph.dtype(value).size_bytes(),
        Argument::Output(slot) => graph.dtype(graph.outputs[slot]).size_bytes(),
    });
    (16 / bytes.max().unwrap_or(1)).clamp(2, 8)
}

/// Whether a lane may take one element if the last axis is shorter than a vector. It may if the graph reads by lookups only.
///
/// A last axis of 3 fills 3 of a vector's 8 elements: the others are computed in vain, and no store is whole. An access of a wave then
/// reads elements that are as far apart as rows, and there is one for each of the 3. With one element a lane, neighbouring lanes read
/// and write neighbouring elements in one access.
///
/// A vector spares divisions of item numbers into coordinates. That pays if rows are long, as those of an enlarged image; the windows of
/// an image (`im2col`) have short rows.
///
/// Graphs that compute pairs keep their vectors: a step has at least two elements there, and 16-bit inputs lie two in a register.
pub(crate) fn may_be_single(graph: &Graph, plan: &Plan) -> bool {
    let live = |kind: fn(Node) -> bool| {
        let is_full = |at: usize| plan.live[at] && plan.kinds[at] == Kind::Full;
        (0..graph.nodes.len()).any(|at| is_full(at) && kind(graph.nodes[at].0))
    };
    let (looks_up, reads) =
        (live(|node| matches!(node, Node::Lookup(..))), live(|node| matches!(node, Node::Input(_))));
    looks_up && !reads && !pairs::apply(graph, plan)
}

/// Renders the kernel for vectors of `width` elements: [`vector`], or 1.
pub(super) fn render(kernel: &Kernel<'_>, width: usize, out: &mut String) {
    let needs = kernel.plan.passes.first().map_or(&[][..], |pass| &pass.needs);
    let inputs = needs.iter().filter(|&&value| room::is_input(kernel.graph, value)).count();
    let has_rows = kernel.plan.kinds.iter().zip(&kernel.plan.live).any(|(kind, live)| *live && *kind == Kind::Row);
    let is_plain = !has_rows && kernel.plan.index_axes.is_none();
    let (template, reads) = match is_plain && (1..=BATCHED_MOST).contains(&inputs) {
        true => ("elementwise_batched", Reads::Ahead),
        false => ("elementwise", Reads::Directly),
    };
    let form = Form { reads, constants: vec![("THREADS", THREADS)], ..Form::of(width) };
    let bounds = format!("__launch_bounds__({THREADS})");
    kernel.instantiate(&form, include_str!("elementwise.h"), (&bounds, template), out);
}
