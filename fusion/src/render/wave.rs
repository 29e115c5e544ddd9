//! [`super::Schedule::Wave`]: 2^`lanes_log2` lanes of one wave share a short row, quad by quad, and keep it in registers.
//!
//! A row that needs more than one quad a lane (`turns`) has the whole wave. On a wave of 32 lanes two chains of the order's
//! 64 fall to a lane, in turn. Where a graph keeps more values than there are registers for, passes compute them anew.

use std::fmt::Write as _;

use super::{ENTRY, Kernel, THREADS, body};
use crate::graph::{Kind, Value};
use crate::order::{QUAD, SHORT_CHAINS, SHORT_MOST};

/// Most values per element that are kept between passes: 8 of 4 bytes are 128 registers a lane on a wave of 64.
const KEPT_BYTES_MOST: usize = 32;

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    let kept: Vec<Value> =
        (0..kernel.graph.nodes.len()).filter(|&at| kernel.plan.kept[at]).map(|at| Value(at as u32)).collect();
    let kept_bytes: usize = kept.iter().map(|&value| kernel.graph.dtype(value).size_bytes().max(4)).sum();
    let keeps = kept_bytes <= KEPT_BYTES_MOST;
    let turns = SHORT_MOST / QUAD;
    let _ = writeln!(
        out,
        "#define FUSE_TURNS ({turns} / ARCH_WAVE_SIZE)\n#define FUSE_SLOTS ({SHORT_CHAINS} / ARCH_WAVE_SIZE)"
    );
    let _ = writeln!(out, "extern \"C\" __global__ __launch_bounds__({THREADS}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    out.push_str("    const rf::u32 lanes_log2 = a.space.lanes_log2;\n");
    out.push_str("    const rf::u32 lane = rf::thread_x() & ((1u << lanes_log2) - 1u);\n");
    let _ = writeln!(out, "    const index_t rows = {THREADS}u >> lanes_log2;");
    out.push_str("    for (index_t base = rf::group_x() * rows; base < a.space.items; base += a.space.step) {\n");
    // Lanes without a row do the last one again, so that every lane has a value to exchange, and store nothing.
    out.push_str("        const index_t own = base + (rf::thread_x() >> lanes_log2);\n");
    out.push_str("        const bool live = own < a.space.items;\n");
    out.push_str("        const index_t row = live ? own : a.space.items - 1;\n");
    kernel.row_offsets(out);
    if keeps {
        body::arrays(kernel, &kept, ("FUSE_TURNS", QUAD, true), "        ", out);
    }
    for level in 0..=kernel.plan.passes.len() {
        kernel.row_values(out, level);
        if level < kernel.plan.passes.len() {
            pass(kernel, level, keeps, out);
        }
    }
    if kernel.graph.outputs.iter().any(|output| kernel.plan.kinds[output.at()] == Kind::Row) {
        out.push_str("        if (live && lane == 0) {\n");
        kernel.row_stores(out, "            ");
        out.push_str("        }\n");
    }
    out.push_str("    }\n}\n");
}

fn pass(kernel: &Kernel<'_>, number: usize, keeps: bool, out: &mut String) {
    let pass = &kernel.plan.passes[number];
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let at = reduce.0;
        let _ = writeln!(out, "        {functor}::A c{at}[FUSE_SLOTS];");
        let _ = writeln!(
            out,
            "#pragma unroll\n        for (int slot = 0; slot < FUSE_SLOTS; ++slot) c{at}[slot] = {functor}::neutral();"
        );
    }
    out.push_str("#pragma unroll\n        for (rf::u32 q = 0; q < FUSE_TURNS; ++q) {\n");
    out.push_str("            if (q >= a.space.turns) continue;\n");
    let _ = writeln!(out, "            const index_t column = ((q << lanes_log2) + lane) * {QUAD};");
    let _ = writeln!(out, "            const rf::u32 count = fuse::window(column, a.space.extent, {QUAD});");
    let step = body::Step {
        keeps,
        indent: "            ",
        chain: &|reduce| format!("c{}[q % FUSE_SLOTS]", reduce.0),
        guarded: true,
        ..body::Step::anew(pass, number, QUAD)
    };
    body::render(kernel, &step, out);
    out.push_str("        }\n");
    for &reduce in &pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let at = reduce.0;
        let register = super::expr::register(kernel.graph.dtype(operand));
        let _ = writeln!(
            out,
            "#pragma unroll\n        for (int slot = 0; slot < FUSE_SLOTS; ++slot) c{at}[slot] = fuse::tree<{functor}>(c{at}[slot], lanes_log2);"
        );
        let _ = writeln!(
            out,
            "        const {register} v{at} = {functor}::finish(fuse::tree_of<{functor}, FUSE_SLOTS>(c{at}), a.space.extent);"
        );
    }
}
