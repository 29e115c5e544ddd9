//! [`super::Schedule::Columns`]: lanes across rows, for rows whose elements are far apart but whose neighbours are side by side.
//!
//! A workgroup takes as many rows as a wave has lanes. Chunk by chunk, each of its waves runs through some chains of every row
//! ([`COLUMN_CHAINS`] at most), one after another, which leaves the loops to the scalar unit; the waves' subtrees meet in LDS.
//!
//! [`super::Schedule::ColumnsWide`] has two neighbouring rows to a lane, so that a wave reads twice as much at once.

use std::fmt::Write as _;

use super::{COLUMN_CHAINS, COLUMN_LEVELS, COLUMN_WAVES, ENTRY, Kernel, body, expr, group};
use crate::graph::{Graph, Kind, Node, Value};
use crate::order::{CHUNK_QUADS, LONG_CHAINS, QUAD};
use crate::plan::Plan;

/// The entry, what is the same everywhere, and the loop over `rows` rows a lane.
fn open(kernel: &Kernel<'_>, rows: usize, waves: usize, chains: usize, out: &mut String) {
    let _ = writeln!(
        out,
        "extern \"C\" __global__ RF_BOUNDS({waves} * ARCH_WAVE_SIZE, {groups}) void {ENTRY}(FusedArgs a) {{",
        groups = if rows > 1 { WIDE_GROUPS } else { 1 }
    );
    kernel.uniforms(out);
    if kernel.plan.passes.iter().any(|pass| !pass.reduces.is_empty()) {
        let _ = writeln!(out, "    __shared__ rf::u64 scratch[{waves} * ARCH_WAVE_SIZE];");
    }
    out.push_str("    const rf::u32 wave = rf::uniform(rf::thread_y()), waves = 1u << a.space.lanes_log2;\n");
    // Chains beyond the quads of a short row have nothing.
    out.push_str("    const index_t used = a.space.quads < a.space.chains ? a.space.quads : a.space.chains;\n");
    let _ = writeln!(
        out,
        "    rf::u32 own_chains = {chains};\n    while (own_chains * waves < (rf::u32)used) own_chains *= 2;"
    );
    let _ = writeln!(
        out,
        "    for (index_t base = rf::group_x() * (index_t)(ARCH_WAVE_SIZE * {rows}); base < a.space.items; base += a.space.step) {{"
    );
    let _ = writeln!(out, "        const index_t own = base + rf::thread_x() * {rows};");
    out.push_str("        const bool live = own < a.space.items;\n");
    let _ = writeln!(out, "        const index_t row = live ? own : a.space.items - {rows};");
    kernel.row_offsets(out);
}

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    open(kernel, 1, COLUMN_WAVES, 1, out);
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
        indent: "                    ",
        chain: &|reduce| format!("c{}", reduce.0),
        guarded: true,
        ..body::Step::anew(pass, number, QUAD)
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

/// Rows of a lane in [`super::Schedule::ColumnsWide`].
pub(crate) const WIDE: usize = 2;

/// Chains that a lane runs through at once there, at least.
pub(crate) const WIDE_CHAINS: usize = 4;

/// Most waves of a workgroup there: a lane needs registers for so many rows.
pub(crate) const WIDE_WAVES: usize = 8;

/// Workgroups of a compute unit that the registers of a lane are to leave room for there: H200, gradients of norms, four take more
/// time, since registers go to memory.
const WIDE_GROUPS: usize = 3;

/// What [`render_wide`] stands on.
const ACROSS: &str = include_str!("across.h");
const _: () = assert!(WIDE == 2, "a word of across.h has two elements");

/// Whether lanes may take [`WIDE`] neighbouring rows at once, as far as the graph goes: nothing but sums of elements is made.
pub(crate) fn can_be_wide(graph: &Graph, plan: &Plan) -> bool {
    let is_row_input = |at: usize| {
        plan.live[at]
            && matches!(graph.nodes[at].0, Node::RowInput { .. } | Node::Lookup { .. } | Node::RowLookup { .. })
    };
    let narrow = |value: &Value| graph.dtype(*value).size_bytes() <= 4;
    let inputs = (0..graph.nodes.len()).filter(|&at| matches!(graph.nodes[at].0, Node::Input { .. }));
    plan.passes.len() == 1
        && plan.passes[0].stores.is_empty()
        && plan.index_axes.is_none()
        && !(0..graph.nodes.len()).any(is_row_input)
        && inputs.map(|at| Value(at as u32)).all(|value| narrow(&value))
}

/// As [`render`], with [`WIDE`] neighbouring rows to a lane, which it reads in one access, for rows of one chunk.
pub(super) fn render_wide(kernel: &Kernel<'_>, out: &mut String) {
    let pass = &kernel.plan.passes[0];
    let (levels, tensors) = ((LONG_CHAINS / WIDE_WAVES / WIDE_CHAINS).ilog2(), kernel.arguments.len());
    let functors: Vec<(u32, String)> =
        pass.reduces.iter().map(|&reduce| (reduce.0, kernel.reduction(reduce).0)).collect();
    let each = |indent: &str| format!("#pragma unroll\n{indent}for (rf::u32 q = 0; q < {WIDE}; ++q)");
    out.push_str(ACROSS);
    open(kernel, WIDE, WIDE_WAVES, WIDE_CHAINS, out);
    for (at, functor) in &functors {
        let _ = writeln!(out, "            {functor}::A u{at}[{WIDE}][{levels} + 1], t{at}[{WIDE}];");
    }
    let _ = writeln!(out, "            for (rf::u32 i = 0; i < own_chains; i += {WIDE_CHAINS}) {{");
    for (at, functor) in &functors {
        let _ = writeln!(out, "            {functor}::A g{at}[{WIDE}][{WIDE_CHAINS}];");
    }
    let _ = writeln!(out, "#pragma unroll\n            for (rf::u32 j = 0; j < {WIDE_CHAINS}; ++j) {{");
    out.push_str("                const index_t chain = wave * own_chains + i + j;\n");
    for (at, functor) in &functors {
        let _ = writeln!(out, "                {functor}::A c{at}[{WIDE}];");
        let _ = writeln!(out, "{} c{at}[q] = {functor}::neutral();", each("                "));
    }
    out.push_str("                for (index_t quad = chain; quad < a.space.quads; quad += a.space.chains) {\n");
    let inner = "                    ";
    let _ = writeln!(out, "{inner}const index_t column = quad * {QUAD};");
    let _ = writeln!(out, "{inner}const rf::u32 count = fuse::window(column, a.space.extent, {QUAD});");
    let (halves, others): (Vec<Value>, Vec<Value>) =
        body::inputs(kernel, 0, false).into_iter().partition(|input| expr::is_half(kernel.graph.dtype(*input)));
    let place = |input: Value| {
        let at = kernel.input(input);
        format!("a.tensor[{at}], offset[{at}] + column * a.tensor[{at}].stride[0]")
    };
    for &input in &halves {
        let storage = expr::storage(kernel.graph.dtype(input));
        let _ = writeln!(out, "{inner}Across<{storage}> r{};", input.0);
        let _ = writeln!(out, "{inner}r{}.get({}, count);", input.0, place(input));
    }
    for &input in &others {
        let dtype = kernel.graph.dtype(input);
        let (storage, register) = (expr::storage(dtype), expr::register(dtype));
        let _ = writeln!(out, "{inner}{register} k{}[{WIDE}][{QUAD}];", input.0);
        let _ = writeln!(out, "{inner}fuse::load_across<{storage}>(k{}, {}, count);", input.0, place(input));
    }
    for &input in &halves {
        let at = kernel.input(input);
        let _ = writeln!(out, "{inner}float k{0}[{WIDE}][{QUAD}];\n{inner}r{0}.put(k{0}, a.tensor[{at}]);", input.0);
    }
    let _ = writeln!(out, "{} {{", each(inner));
    let step = body::Step {
        halves: false,
        preloaded: true,
        indent: "                        ",
        chain: &|reduce| format!("c{}[q]", reduce.0),
        guarded: true,
        ..body::Step::anew(pass, 0, QUAD)
    };
    body::render(kernel, &step, out);
    let _ = writeln!(out, "{inner}}}\n                }}\n{} {{", each("                "));
    for (at, _) in &functors {
        let _ = writeln!(out, "                    g{at}[q][j] = c{at}[q];");
    }
    let _ = writeln!(out, "                }}\n            }}\n{} {{", each("            "));
    for (at, functor) in &functors {
        let own = format!("fuse::tree_of<{functor}, {WIDE_CHAINS}>(g{at}[q])");
        let put = format!("fuse::Climb<{functor}, 0, {levels}>::put(u{at}[q], {own}, i / {WIDE_CHAINS})");
        let _ = writeln!(out, "                {put};");
    }
    let _ = writeln!(out, "            }}\n            }}\n{} {{", each("            "));
    for (at, functor) in &functors {
        let waves = format!("({functor}::A*)scratch, wave, waves");
        let own = format!("fuse::climbed<{functor}, {levels}>(u{at}[q], own_chains / {WIDE_CHAINS})");
        let total = format!("fuse::tree_waves<{functor}, {WIDE_WAVES}>({own}, {waves})");
        let _ = writeln!(out, "                t{at}[q] = {total};");
    }
    let _ = writeln!(out, "            }}\n{} {{", each("        "));
    let _ = writeln!(out, "            index_t moved[{tensors}];");
    for at in 0..tensors {
        let _ = writeln!(out, "            moved[{at}] = offset[{at}] + q * a.tensor[{at}].stride[1];");
    }
    let _ = writeln!(out, "            {{\n            index_t (&offset)[{tensors}] = moved;");
    for &reduce in &pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, register) = (reduce.0, expr::register(kernel.graph.dtype(operand)));
        let _ = writeln!(out, "        const {register} v{at} = {functor}::finish(t{at}[q], a.space.extent);");
    }
    kernel.row_values(out, 1);
    out.push_str("        if (live && wave == 0) {\n");
    kernel.row_stores(out, "            ");
    out.push_str("        }\n            }\n        }\n    }\n}\n");
}
