//! [`super::Schedule::Columns`]: lanes across rows, for rows whose elements are far apart but whose neighbours are side by side.
//!
//! A workgroup takes as many rows as a wave has lanes. Chunk by chunk, each of its waves runs through some chains of every row
//! ([`COLUMN_CHAINS`] at most), one after another, which leaves the loops to the scalar unit; the waves' subtrees meet in LDS.

use std::fmt::Write as _;

use super::{COLUMN_CHAINS, COLUMN_LEVELS, COLUMN_WAVES, ENTRY, Kernel, body, expr, group};
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
    out.push_str("    const rf::u32 wave = rf::uniform(rf::thread_y()), waves = 1u << a.space.lanes_log2;\n");
    // Chains beyond the quads of a short row have nothing.
    out.push_str("    const index_t used = a.space.quads < a.space.chains ? a.space.quads : a.space.chains;\n");
    out.push_str("    rf::u32 own_chains = 1;\n    while (own_chains * waves < (rf::u32)used) own_chains *= 2;\n");
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
    let levels = COLUMN_CHAINS.ilog2();
    let functors: Vec<(u32, String)> =
        pass.reduces.iter().map(|&reduce| (reduce.0, kernel.reduction(reduce).0)).collect();
    for (at, functor) in &functors {
        let _ = writeln!(out, "        {functor}::A w{at}[{COLUMN_LEVELS} + 1];");
    }
    let _ = writeln!(out, "        rf::u32 chunks{number} = 0;");
    let _ = writeln!(
        out,
        "        for (index_t chunk = 0; chunk < a.space.quads; chunk += {CHUNK_QUADS}, ++chunks{number}) {{"
    );
    let _ = writeln!(
        out,
        "            const index_t end = a.space.quads - chunk < {CHUNK_QUADS} ? a.space.quads : chunk + {CHUNK_QUADS};"
    );
    for (at, functor) in &functors {
        let _ = writeln!(out, "            {functor}::A u{at}[{levels} + 1];");
    }
    let _ = writeln!(out, "            for (rf::u32 i = 0; i < own_chains; ++i) {{");
    out.push_str("                const index_t chain = wave * own_chains + i;\n");
    group::chains(kernel, &pass.reduces, 'c', "                ", out);
    out.push_str("                for (index_t quad = chunk + chain; quad < end; quad += a.space.chains) {\n");
    let _ = writeln!(out, "                    const index_t column = quad * {QUAD};");
    let _ = writeln!(out, "                    const rf::u32 count = fuse::window(column, a.space.extent, {QUAD});");
    let step = body::Step {
        pass,
        number,
        width: QUAD,
        keeps: false,
        preloaded: false,
        tile: None,
        halves: true,
        indent: "                    ",
        chain: &|reduce| format!("c{}", reduce.0),
        guarded: true,
        once: false,
    };
    body::render(kernel, &step, out);
    out.push_str("                }\n");
    for (at, functor) in &functors {
        let _ = writeln!(out, "                fuse::Climb<{functor}, 0, {levels}>::put(u{at}, c{at}, i);");
    }
    out.push_str("            }\n");
    for (at, functor) in &functors {
        let waves = format!("({functor}::A*)scratch, wave, waves");
        let own = format!("fuse::climbed<{functor}, {levels}>(u{at}, own_chains)");
        let total = format!("fuse::tree_waves<{functor}, {COLUMN_WAVES}>({own}, {waves})");
        let _ = writeln!(
            out,
            "            fuse::Climb<{functor}, 0, {COLUMN_LEVELS}>::put(w{at}, {total}, chunks{number});"
        );
    }
    out.push_str("        }\n");
    for &reduce in &pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, register) = (reduce.0, expr::register(kernel.graph.dtype(operand)));
        let total = format!("fuse::climbed<{functor}, {COLUMN_LEVELS}>(w{at}, chunks{number})");
        let _ = writeln!(out, "        const {register} v{at} = {functor}::finish({total}, a.space.extent);");
    }
}
