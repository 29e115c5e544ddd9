//! [`super::Schedule::Elementwise`]: lanes stride over the vectors of the whole space.

use super::body::{Form, Reads};
use super::{Kernel, THREADS, room};
use crate::graph::{Graph, Kind};
use crate::plan::{Argument, Plan, arguments};

/// Most inputs of which several vectors are read at once, so that they stay in registers.
const BATCHED_MOST: usize = 3;

/// Elements of a lane's vector: 16 bytes of the widest tensor, at least 2 and at most 8.
pub(crate) fn vector(graph: &Graph, plan: &Plan) -> usize {
    let bytes = arguments(graph, plan).into_iter().map(|argument| match argument {
        Argument::Input(_, value) => graph.dtype(value).size_bytes(),
        Argument::Output(slot) => graph.dtype(graph.outputs[slot]).size_bytes(),
    });
    (16 / bytes.max().unwrap_or(1)).clamp(2, 8)
}

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    let width = vector(kernel.graph, kernel.plan);
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
