//! [`super::Schedule::Elementwise`]: lanes stride over the vectors of the whole space.

use std::fmt::Write as _;

use super::{ENTRY, Kernel, THREADS, body};
use crate::graph::Graph;
use crate::plan::{Argument, Pass, Plan, arguments};

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
    let _ = writeln!(out, "extern \"C\" __global__ __launch_bounds__({THREADS}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    let _ = writeln!(
        out,
        "    for (index_t item = rf::group_x() * (index_t){THREADS} + rf::thread_x(); item < a.space.items; item += a.space.step) {{"
    );
    let _ = writeln!(out, "        index_t offset[{}];", kernel.arguments.len());
    for at in 0..kernel.arguments.len() {
        let _ = writeln!(out, "        offset[{at}] = a.tensor[{at}].start;");
    }
    // The last axis in vectors is axis 0; where it is the only one, an item is a vector's number.
    out.push_str("        index_t outer = 0, inner = item;\n");
    out.push_str("        if (a.space.rank > 1) {\n");
    out.push_str("            outer = fuse::divide(item, a.space.axis[0]);\n");
    out.push_str("            inner -= outer * a.space.axis[0].extent;\n        }\n");
    kernel.locate(out, "outer");
    kernel.row_values(out, 0);
    let _ = writeln!(out, "        const index_t column = inner * {width};");
    let _ = writeln!(out, "        const rf::u32 count = fuse::window(column, a.space.extent, {width});");
    let empty = Pass::default();
    let pass = kernel.plan.passes.first().unwrap_or(&empty);
    let step = body::Step {
        pass,
        number: 0,
        width,
        keeps: false,
        preloaded: false,
        tile: None,
        indent: "        ",
        chain: &|_| unreachable!("an elementwise graph has no reduction"),
        guarded: false,
    };
    body::render(kernel, &step, out);
    out.push_str("    }\n}\n");
}
