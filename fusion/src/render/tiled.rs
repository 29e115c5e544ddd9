//! [`super::Schedule::Tiled`]: squares of the last axis and one other, for inputs whose neighbours lie along that other.
//!
//! A workgroup takes a tile at a time. Such an input is read along the axis on which its elements are side by side, and kept in
//! LDS; the step then finds it there, as it finds the others in memory. Which inputs those are is known at the launch: their mode
//! says so. The value of every element is that of [`super::Schedule::Elementwise`].

use std::fmt::Write as _;

use super::{ENTRY, Kernel, THREADS, body, expr, vector};
use crate::graph::{Graph, Kind, Node};
use crate::plan::{Pass, Plan};

/// Most inputs that go through tiles; more are read element by element.
const SLOTS_MOST: usize = 2;

/// Bytes of the widest input per element, and how many inputs per element there are.
fn inputs(graph: &Graph, plan: &Plan) -> (usize, usize) {
    let full = graph.nodes.iter().enumerate().filter(|(at, (node, _))| {
        plan.live[*at] && matches!(node, Node::Input { .. }) && plan.kinds[*at] == Kind::Full
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
    let (width, side, slots) = (vector(graph, plan), side(graph, plan), slots(graph, plan).max(1));
    let words = (side * (side + 1) * inputs(graph, plan).0).div_ceil(8);
    let across = side / width;
    let tensors = kernel.arguments.len();
    let _ = writeln!(out, "extern \"C\" __global__ __launch_bounds__({THREADS}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    let _ = writeln!(out, "    __shared__ rf::u64 tiles[{slots}][{words}];");
    let _ = writeln!(out, "    const rf::u32 column = rf::thread_x() % {across} * {width};");
    out.push_str("    for (index_t item = rf::group_x(); item < a.space.items; item += a.space.step) {\n");
    out.push_str("        const index_t rest = fuse::divide(item, a.space.axis[0]);\n");
    out.push_str("        const index_t outer = fuse::divide(rest, a.space.axis[1]);\n");
    let _ = writeln!(out, "        const index_t along = (item - rest * a.space.axis[0].extent) * {side};");
    let _ = writeln!(out, "        const index_t down = (rest - outer * a.space.axis[1].extent) * {side};");
    let _ = writeln!(out, "        const rf::u32 wide = fuse::window(along, a.space.extent, {side});");
    let _ = writeln!(out, "        const rf::u32 deep = fuse::window(down, a.space.quads, {side});");
    let _ = writeln!(out, "        index_t corner[{tensors}];");
    for at in 0..tensors {
        let _ = writeln!(
            out,
            "        corner[{at}] = a.tensor[{at}].start + along * a.tensor[{at}].stride[0] + down * a.tensor[{at}].stride[1];"
        );
    }
    out.push_str("        fuse::locate_from<2>(a.space, a.tensor, outer, corner);\n");
    let empty = Pass::default();
    let pass = plan.passes.first().unwrap_or(&empty);
    for input in body::inputs(kernel, 0, false) {
        let (at, storage) = (kernel.input(input), expr::storage(graph.dtype(input)));
        let tile = format!("({storage}*)tiles[a.tensor[{at}].mode - fuse::TILED]");
        let _ = writeln!(
            out,
            "        if (a.tensor[{at}].mode >= fuse::TILED) fuse::load_tile<{storage}, {side}, {THREADS}>({tile}, a.tensor[{at}], corner[{at}], wide, deep);"
        );
    }
    out.push_str("        rf::barrier();\n");
    let _ = writeln!(out, "#pragma unroll\n        for (rf::u32 s = 0; s < {}; ++s) {{", side * across / THREADS);
    let _ = writeln!(out, "            const rf::u32 line = rf::thread_x() / {across} + s * {};", THREADS / across);
    let _ = writeln!(out, "            const rf::u32 count = line < deep ? fuse::window(column, wide, {width}) : 0;");
    let _ = writeln!(out, "            index_t offset[{tensors}];");
    for at in 0..tensors {
        let _ = writeln!(out, "            offset[{at}] = corner[{at}] + line * a.tensor[{at}].stride[1];");
    }
    let step = body::Step { tile: Some(side), indent: "            ", ..body::Step::anew(pass, 0, width) };
    body::render(kernel, &step, out);
    out.push_str("        }\n        rf::barrier();\n    }\n}\n");
}
