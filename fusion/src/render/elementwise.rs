//! [`super::Schedule::Elementwise`]: lanes stride over the vectors of the whole space.
//!
//! Where few inputs are read a lane takes two vectors at a time: it reads both before it computes either, so that more is under
//! way.

use std::fmt::Write as _;

use super::{ENTRY, Kernel, THREADS, body};
use crate::graph::{Graph, Kind, Value};
use crate::plan::{Argument, Pass, Plan, arguments};

/// Vectors that a lane reads at once.
const BATCH: usize = 2;

/// Most inputs of which that many vectors are read at once, so that they stay in registers.
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
    let inputs = if kernel.plan.passes.is_empty() { Vec::new() } else { body::inputs(kernel, 0, false) };
    let has_rows = kernel.plan.kinds.iter().zip(&kernel.plan.live).any(|(kind, live)| *live && *kind == Kind::Row);
    let is_plain = !has_rows && kernel.plan.index_axes.is_none();
    let _ = writeln!(out, "extern \"C\" __global__ __launch_bounds__({THREADS}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    let first = format!("rf::group_x() * (index_t){THREADS} + rf::thread_x()");
    if is_plain && (1..=BATCHED_MOST).contains(&inputs.len()) {
        let _ = writeln!(
            out,
            "    for (index_t first = {first}; first < a.space.items; first += {BATCH} * a.space.step) {{"
        );
        batched(kernel, &inputs, out);
    } else {
        let _ = writeln!(
            out,
            "    for (index_t item = {first}; item < a.space.items; item += a.space.step) {{\n        index_t offset[{}];",
            kernel.arguments.len()
        );
        single(kernel, out);
    }
    out.push_str("    }\n}\n");
}

/// The offsets of item `item` in `offset`, and its place along the last axis in `inner`.
fn locate(kernel: &Kernel<'_>, out: &mut String) {
    for at in 0..kernel.arguments.len() {
        let _ = writeln!(out, "        offset[{at}] = a.tensor[{at}].start;");
    }
    // The last axis in vectors is axis 0; where it is the only one, an item is a vector's number.
    out.push_str("        index_t outer = 0, inner = item;\n");
    out.push_str("        if (a.space.rank > 1) {\n");
    out.push_str("            outer = fuse::divide(item, a.space.axis[0]);\n");
    out.push_str("            inner -= outer * a.space.axis[0].extent;\n        }\n");
    kernel.locate(out, "outer");
}

fn single(kernel: &Kernel<'_>, out: &mut String) {
    let width = vector(kernel.graph, kernel.plan);
    locate(kernel, out);
    kernel.row_values(out, 0);
    let _ = writeln!(out, "        const index_t column = inner * {width};");
    let _ = writeln!(out, "        const rf::u32 count = fuse::window(column, a.space.extent, {width});");
    step(kernel, width, false, out);
}

fn batched(kernel: &Kernel<'_>, inputs: &[Value], out: &mut String) {
    let (width, tensors) = (vector(kernel.graph, kernel.plan), kernel.arguments.len());
    let _ = writeln!(out, "        index_t offsets[{BATCH}][{tensors}], columns[{BATCH}];");
    let _ = writeln!(out, "        rf::u32 counts[{BATCH}];");
    body::arrays(kernel, inputs, (BATCH, width, true), "        ", out);
    let each = format!("#pragma unroll\n        for (rf::u32 q = 0; q < {BATCH}; ++q) {{");
    let offset = format!("        index_t (&offset)[{tensors}] = offsets[q];");
    let _ = writeln!(out, "{each}\n{offset}\n        const index_t item = first + q * a.space.step;");
    locate(kernel, out);
    let _ = writeln!(out, "        const index_t column = columns[q] = inner * {width};");
    let window = format!("fuse::window(column, a.space.extent, {width})");
    let _ = writeln!(out, "        const rf::u32 count = counts[q] = item < a.space.items ? {window} : 0;");
    body::preload_step(kernel, inputs, width, "        ", out);
    let _ = writeln!(out, "        }}\n{each}\n{offset}");
    out.push_str("        const index_t column = columns[q];\n        const rf::u32 count = counts[q];\n");
    step(kernel, width, true, out);
    out.push_str("        }\n");
}

fn step(kernel: &Kernel<'_>, width: usize, preloaded: bool, out: &mut String) {
    let empty = Pass::default();
    let pass = kernel.plan.passes.first().unwrap_or(&empty);
    let step = body::Step { preloaded, ..body::Step::anew(pass, 0, width) };
    body::render(kernel, &step, out);
}
