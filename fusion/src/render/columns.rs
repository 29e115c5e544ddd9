//! [`super::Schedule::Columns`]: lanes across rows, for rows whose elements are far apart but whose neighbours are side by side.
//!
//! A workgroup takes as many rows as a wave has lanes. Each of its waves runs through [`COLUMN_CHAINS`] chains of every row, one
//! after another, which leaves the loops to the scalar unit; the waves' subtrees meet in LDS.

use std::fmt::Write as _;

use super::{COLUMN_CHAINS, COLUMN_WAVES, ENTRY, Kernel, body, expr};
use crate::graph::Kind;
use crate::order::{CHUNK_QUADS, QUAD};

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    let _ = writeln!(
        out,
        "extern \"C\" __global__ __launch_bounds__({COLUMN_WAVES} * ARCH_WAVE_SIZE) void {ENTRY}(FusedArgs a) {{"
    );
    kernel.uniforms(out);
    if kernel.plan.passes.iter().any(|pass| !pass.reduces.is_empty()) {
        let _ = writeln!(out, "    __shared__ rf::u64 scratch[{COLUMN_WAVES} * ARCH_WAVE_SIZE];");
    }
    out.push_str("    const rf::u32 wave = rf::uniform(rf::thread_y());\n");
    out.push_str(
        "    for (index_t base = rf::group_x() * (index_t)ARCH_WAVE_SIZE; base < a.space.items; base += a.space.step) {\n",
    );
    out.push_str("        const index_t own = base + rf::thread_x();\n");
    out.push_str("        const bool live = own < a.space.items;\n");
    out.push_str("        const index_t row = live ? own : a.space.items - 1;\n");
    kernel.row_offsets(out);
    for level in 0..=kernel.plan.passes.len() {
        kernel.row_values(out, level);
        if level < kernel.plan.passes.len() {
            pass(kernel, level, out);
        }
    }
    if kernel.graph.outputs.iter().any(|output| kernel.plan.kinds[output.at()] == Kind::Row) {
        out.push_str("        if (live && wave == 0) {\n");
        kernel.row_stores(out, "            ");
        out.push_str("        }\n");
    }
    out.push_str("    }\n}\n");
}

fn pass(kernel: &Kernel<'_>, number: usize, out: &mut String) {
    let pass = &kernel.plan.passes[number];
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let levels = COLUMN_CHAINS.ilog2();
        let _ = writeln!(out, "        {functor}::A u{}[{levels} + 1];", reduce.0);
    }
    let _ = writeln!(out, "        for (rf::u32 i = 0; i < {COLUMN_CHAINS}; ++i) {{");
    let _ = writeln!(out, "            const index_t chain = wave * {COLUMN_CHAINS} + i;");
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "            {functor}::A t{} = {functor}::neutral();", reduce.0);
    }
    let _ = writeln!(out, "            for (index_t chunk = 0; chunk < a.space.quads; chunk += {CHUNK_QUADS}) {{");
    let _ = writeln!(
        out,
        "                const index_t end = a.space.quads - chunk < {CHUNK_QUADS} ? a.space.quads : chunk + {CHUNK_QUADS};"
    );
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "                {functor}::A c{} = {functor}::neutral();", reduce.0);
    }
    out.push_str("                for (index_t quad = chunk + chain; quad < end; quad += a.space.chains) {\n");
    let _ = writeln!(out, "                    const index_t column = quad * {QUAD};");
    let _ = writeln!(out, "                    const rf::u32 count = fuse::window(column, a.space.extent, {QUAD});");
    let step = body::Step {
        pass,
        number,
        width: QUAD,
        keeps: false,
        preloaded: false,
        indent: "                    ",
        chain: &|reduce| format!("c{}", reduce.0),
        guarded: true,
    };
    body::render(kernel, &step, out);
    out.push_str("                }\n");
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let at = reduce.0;
        let _ = writeln!(out, "                t{at} = {functor}::apply(t{at}, c{at});");
    }
    out.push_str("            }\n");
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let (at, levels) = (reduce.0, COLUMN_CHAINS.ilog2());
        let _ = writeln!(out, "            fuse::Climb<{functor}, 0, {levels}>::put(u{at}, t{at}, i);");
    }
    out.push_str("        }\n");
    for &reduce in &pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, levels) = (reduce.0, COLUMN_CHAINS.ilog2());
        let register = expr::register(kernel.graph.dtype(operand));
        let _ = writeln!(
            out,
            "        const {register} v{at} = {functor}::finish(fuse::tree_waves<{functor}, {COLUMN_WAVES}>(u{at}[{levels}], ({functor}::A*)scratch, wave, 1u << a.space.lanes_log2), a.space.extent);"
        );
    }
}
