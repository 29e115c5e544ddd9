//! [`super::Schedule::Group`]: one workgroup a row, one thread a chain; every pass reads its inputs anew.
//!
//! [`super::Schedule::Split`] does the same for some neighbouring chunks of one row and writes their total;
//! [`super::Schedule::Join`] adds up those totals and finishes the row.

use std::fmt::Write as _;

use super::{ENTRY, Kernel, THREADS, body, expr};
use crate::graph::{Kind, Value};
use crate::order::{CHUNK_QUADS, QUAD};

/// Quads of a chain that are read at once where all of a chunk is there and packed.
const BATCH: usize = 4;

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    open(kernel, out);
    for reduce in kernel.plan.passes.iter().flat_map(|pass| &pass.reduces) {
        let _ = writeln!(out, "    __shared__ rf::u64 totals{}[fuse::CHUNK_LEVELS];", reduce.0);
    }
    out.push_str("    for (index_t row = rf::group_x(); row < a.space.items; row += a.space.step) {\n");
    kernel.row_offsets(out);
    for level in 0..=kernel.plan.passes.len() {
        kernel.row_values(out, level);
        if level < kernel.plan.passes.len() {
            pass(kernel, level, out);
        }
    }
    close(kernel, out);
    out.push_str("    }\n}\n");
}

/// Levels of the tree over the chunks of a workgroup: [`super::SPLIT_CHUNKS`] of them at most.
const SPLIT_LEVELS: u32 = super::SPLIT_CHUNKS.ilog2();

/// A workgroup takes the `turns` chunks from `group_x * turns` on of row `group_y`, whose total is a subtree's.
pub(super) fn render_split(kernel: &Kernel<'_>, out: &mut String) {
    let pass = &kernel.plan.passes[0];
    open(kernel, out);
    out.push_str("    {\n        const index_t row = rf::group_y();\n");
    kernel.row_offsets(out);
    kernel.row_values(out, 0);
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "        {functor}::A u{}[{SPLIT_LEVELS} + 1];", reduce.0);
    }
    out.push_str("        rf::u32 number = 0;\n");
    out.push_str("        for (; number < (rf::u32)a.space.turns; ++number) {\n");
    let _ = writeln!(
        out,
        "            const index_t chunk = (rf::group_x() * a.space.turns + number) * (index_t){CHUNK_QUADS};"
    );
    out.push_str("            if (chunk >= a.space.quads) break;\n");
    chains(kernel, &pass.reduces, 'c', "            ", out);
    chunk_loop(kernel, 0, "            ", out);
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let (at, tree) = (reduce.0, tree(&functor, 'c', reduce));
        let _ = writeln!(out, "            fuse::Climb<{functor}, 0, {SPLIT_LEVELS}>::put(u{at}, {tree}, number);");
    }
    out.push_str("        }\n");
    for (number, &reduce) in pass.reduces.iter().enumerate() {
        let (functor, _) = kernel.reduction(reduce);
        let (at, place) = (reduce.0, partial(number, "rf::group_x()"));
        let total = format!("fuse::climbed<{functor}, {SPLIT_LEVELS}>(u{at}, number)");
        let _ = writeln!(out, "        const {functor}::A s{at} = {total};");
        let _ = writeln!(out, "        if (rf::thread_x() == 0) *({functor}::A*)({place}) = s{at};");
    }
    out.push_str("    }\n}\n");
}

/// Totals that a thread reads at once.
const LEAVES: usize = 8;

/// A thread takes `per` totals that are neighbours, so that the threads' own go on the same tree.
pub(super) fn render_join(kernel: &Kernel<'_>, out: &mut String) {
    let pass = &kernel.plan.passes[0];
    open(kernel, out);
    let _ = writeln!(out, "    rf::u32 per = {LEAVES};\n    while (per * {THREADS} < (rf::u32)a.chunks) per *= 2;");
    out.push_str("    for (index_t row = rf::group_x(); row < a.space.items; row += a.space.step) {\n");
    kernel.row_offsets(out);
    kernel.row_values(out, 0);
    for (number, &reduce) in pass.reduces.iter().enumerate() {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, register) = (reduce.0, expr::register(kernel.graph.dtype(operand)));
        let place = partial(number, "chunk");
        // 2^32 chunks among 2^8 threads, eight at a time.
        let _ = writeln!(out, "        {functor}::A u{at}[22];");
        let _ = writeln!(out, "        for (rf::u32 turn = 0; turn < per / {LEAVES}; ++turn) {{");
        let _ = writeln!(out, "            {functor}::A x[{LEAVES}];");
        let _ = writeln!(out, "#pragma unroll\n            for (rf::u32 i = 0; i < {LEAVES}; ++i) {{");
        let _ = writeln!(out, "                const rf::u32 chunk = rf::thread_x() * per + turn * {LEAVES} + i;");
        let _ = writeln!(out, "                x[i] = {functor}::neutral();");
        let _ = writeln!(
            out,
            "                if (chunk < a.chunks) x[i] = *(const {functor}::A*)({place});\n            }}"
        );
        let leaf = format!("fuse::tree_of<{functor}, {LEAVES}>(x)");
        let _ = writeln!(out, "            fuse::Climb<{functor}, 0, 21>::put(u{at}, {leaf}, turn);\n        }}");
        let _ =
            writeln!(out, "        const {functor}::A t{at} = fuse::climbed<{functor}, 21>(u{at}, per / {LEAVES});");
        let tree = tree(&functor, 't', reduce);
        let _ = writeln!(out, "        const {register} v{at} = {functor}::finish({tree}, a.space.extent);");
    }
    kernel.row_values(out, 1);
    close(kernel, out);
    out.push_str("    }\n}\n");
}

/// The tree over the workgroup's chains.
fn tree(functor: &str, prefix: char, reduce: Value) -> String {
    format!("fuse::tree_group<{functor}, {THREADS}>({prefix}{}, ({functor}::A*)scratch)", reduce.0)
}

/// Address of a chunk's total: reduction, row, chunk.
fn partial(reduction: usize, chunk: &str) -> String {
    format!("fuse::memory(a.partials) + (({reduction}ull * a.space.items + row) * a.chunks + {chunk}) * 8")
}

/// The entry, what is the same everywhere, and LDS for the trees.
fn open(kernel: &Kernel<'_>, out: &mut String) {
    let _ = writeln!(out, "extern \"C\" __global__ __launch_bounds__({THREADS}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    let _ = writeln!(out, "    const bool packed = {};", body::packed(kernel, QUAD));
    // One value per wave, of the widest accumulator; every tree waits for the one before it.
    if kernel.plan.passes.iter().any(|pass| !pass.reduces.is_empty()) {
        let _ = writeln!(out, "    __shared__ rf::u64 scratch[{THREADS} / ARCH_WAVE_SIZE];");
    }
}

pub(super) fn close(kernel: &Kernel<'_>, out: &mut String) {
    if kernel.graph.outputs.iter().any(|output| kernel.plan.kinds[output.at()] == Kind::Row) {
        out.push_str("        if (rf::thread_x() == 0) {\n");
        kernel.row_stores(out, "            ");
        out.push_str("        }\n");
    }
}

/// Accumulators that start from the neutral element.
pub(super) fn chains(kernel: &Kernel<'_>, reduces: &[Value], prefix: char, indent: &str, out: &mut String) {
    for &reduce in reduces {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "{indent}{functor}::A {prefix}{} = {functor}::neutral();", reduce.0);
    }
}

fn pass(kernel: &Kernel<'_>, number: usize, out: &mut String) {
    let pass = &kernel.plan.passes[number];
    let _ =
        writeln!(out, "        const rf::u32 chunks{number} = (a.space.quads + {CHUNK_QUADS} - 1) / {CHUNK_QUADS};");
    let _ = writeln!(out, "        for (rf::u32 number = 0; number < chunks{number}; ++number) {{");
    let _ = writeln!(out, "            const index_t chunk = number * (index_t){CHUNK_QUADS};");
    chains(kernel, &pass.reduces, 'c', "            ", out);
    chunk_loop(kernel, number, "            ", out);
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let at = reduce.0;
        let _ = writeln!(out, "            const {functor}::A s{at} = {};", tree(&functor, 'c', reduce));
        let put = format!("fuse::put_chunk<{functor}>(({functor}::A*)totals{at}, s{at}, number)");
        let _ = writeln!(out, "            if (rf::thread_x() == 0) {put};");
    }
    out.push_str("        }\n");
    if !pass.reduces.is_empty() {
        // The next write of the totals is behind the barrier of the next tree.
        out.push_str("        rf::barrier();\n");
    }
    for &reduce in &pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, register) = (reduce.0, expr::register(kernel.graph.dtype(operand)));
        let total = format!("fuse::all_chunks<{functor}>((const {functor}::A*)totals{at}, chunks{number})");
        let _ = writeln!(out, "        const {register} v{at} = {functor}::finish({total}, a.space.extent);");
    }
}

/// The quads of one chunk that are this thread's chain's.
fn chunk_loop(kernel: &Kernel<'_>, number: usize, indent: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "{indent}const index_t end = a.space.quads - chunk < {CHUNK_QUADS} ? a.space.quads : chunk + {CHUNK_QUADS};"
    );
    let inner = format!("{indent}    ");
    let inputs = body::inputs(kernel, number, false);
    let step = |preloaded, indent| body::Step {
        preloaded,
        indent,
        chain: &|reduce| format!("c{}", reduce.0),
        ..body::Step::anew(&kernel.plan.passes[number], number, QUAD)
    };
    let whole = if inputs.is_empty() { "false" } else { "packed" };
    let _ = writeln!(out, "{indent}if ({whole} && end - chunk == {CHUNK_QUADS}) {{");
    let _ = writeln!(out, "{inner}for (index_t first = chunk; first < end; first += {BATCH} * {THREADS}) {{");
    let (in_batch, in_turn) = (format!("{inner}    "), format!("{inner}        "));
    let column = format!("(first + q * {THREADS} + rf::thread_x()) * {QUAD}");
    body::arrays(kernel, &inputs, (BATCH, QUAD, true), &in_batch, out);
    body::preload(kernel, &inputs, body::Lie::Packed, (BATCH, QUAD, &column), &in_batch, out);
    let _ = writeln!(out, "#pragma unroll\n{in_batch}for (rf::u32 q = 0; q < {BATCH}; ++q) {{");
    let _ = writeln!(out, "{in_turn}const index_t column = {column};\n{in_turn}const rf::u32 count = {QUAD};");
    body::render(kernel, &step(true, &in_turn), out);
    let _ = writeln!(out, "{in_batch}}}\n{inner}}}\n{indent}}} else {{");
    let _ = writeln!(out, "{inner}for (index_t first = chunk; first < end; first += {THREADS}) {{");
    let _ = writeln!(out, "{in_batch}const index_t column = (first + rf::thread_x()) * {QUAD};");
    let _ = writeln!(out, "{in_batch}const rf::u32 count = fuse::window(column, a.space.extent, {QUAD});");
    body::render(kernel, &step(false, &in_batch), out);
    let _ = writeln!(out, "{inner}}}\n{indent}}}");
}
