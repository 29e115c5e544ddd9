//! [`super::Schedule::Group`]: one workgroup a row, one thread a chain; every pass reads its inputs anew.
//!
//! [`super::Schedule::Split`] does the same for one chunk of one row and writes what each chain has; [`super::Schedule::Join`]
//! adds up the chunks and finishes the row.

use std::fmt::Write as _;

use super::{ENTRY, Kernel, THREADS, body, expr};
use crate::graph::{Kind, Value};
use crate::order::{CHUNK_QUADS, QUAD};

/// Quads of a chain that are read at once where all of a chunk is there and packed.
const BATCH: usize = 4;

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    open(kernel, out);
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

/// A workgroup takes chunk `group_x` of row `group_y`.
pub(super) fn render_split(kernel: &Kernel<'_>, out: &mut String) {
    let pass = &kernel.plan.passes[0];
    open_plain(kernel, out);
    out.push_str("    {\n        const index_t row = rf::group_y();\n");
    kernel.row_offsets(out);
    kernel.row_values(out, 0);
    let _ = writeln!(out, "        const index_t chunk = rf::group_x() * (index_t){CHUNK_QUADS};");
    chains(kernel, &pass.reduces, 'c', "        ", out);
    chunk_loop(kernel, 0, "        ", out);
    for (number, &reduce) in pass.reduces.iter().enumerate() {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "        *({functor}::A*)({}) = c{};", partial(number, "rf::group_x()"), reduce.0);
    }
    out.push_str("    }\n}\n");
}

pub(super) fn render_join(kernel: &Kernel<'_>, out: &mut String) {
    let pass = &kernel.plan.passes[0];
    open(kernel, out);
    out.push_str("    for (index_t row = rf::group_x(); row < a.space.items; row += a.space.step) {\n");
    kernel.row_offsets(out);
    kernel.row_values(out, 0);
    chains(kernel, &pass.reduces, 't', "        ", out);
    out.push_str("        for (rf::u32 chunk = 0; chunk < (rf::u32)a.chunks; ++chunk) {\n");
    for (number, &reduce) in pass.reduces.iter().enumerate() {
        let (functor, _) = kernel.reduction(reduce);
        let at = reduce.0;
        let place = partial(number, "chunk");
        let _ = writeln!(out, "            t{at} = {functor}::apply(t{at}, *(const {functor}::A*)({place}));");
    }
    out.push_str("        }\n");
    finish(kernel, &pass.reduces, out);
    kernel.row_values(out, 1);
    close(kernel, out);
    out.push_str("    }\n}\n");
}

/// Address of a chain's partial result: reduction, row, chunk, chain.
fn partial(reduction: usize, chunk: &str) -> String {
    format!(
        "fuse::memory(a.partials) + ((({reduction}ull * a.space.items + row) * a.chunks + {chunk}) * {THREADS} + rf::thread_x()) * 8"
    )
}

fn open_plain(kernel: &Kernel<'_>, out: &mut String) {
    let _ = writeln!(out, "extern \"C\" __global__ __launch_bounds__({THREADS}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    let _ = writeln!(out, "    const bool packed = {};", body::packed(kernel, QUAD));
}

/// As `open_plain`, with LDS for the trees.
fn open(kernel: &Kernel<'_>, out: &mut String) {
    open_plain(kernel, out);
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

fn finish(kernel: &Kernel<'_>, reduces: &[Value], out: &mut String) {
    for &reduce in reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let at = reduce.0;
        let register = expr::register(kernel.graph.dtype(operand));
        let _ = writeln!(
            out,
            "        const {register} v{at} = {functor}::finish(fuse::tree_group<{functor}, {THREADS}>(t{at}, ({functor}::A*)scratch), a.space.extent);"
        );
    }
}

fn pass(kernel: &Kernel<'_>, number: usize, out: &mut String) {
    let pass = &kernel.plan.passes[number];
    chains(kernel, &pass.reduces, 't', "        ", out);
    let _ = writeln!(out, "        for (index_t chunk = 0; chunk < a.space.quads; chunk += {CHUNK_QUADS}) {{");
    chains(kernel, &pass.reduces, 'c', "            ", out);
    chunk_loop(kernel, number, "            ", out);
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let at = reduce.0;
        let _ = writeln!(out, "            t{at} = {functor}::apply(t{at}, c{at});");
    }
    out.push_str("        }\n");
    finish(kernel, &pass.reduces, out);
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
        pass: &kernel.plan.passes[number],
        number,
        width: QUAD,
        keeps: false,
        preloaded,
        indent,
        chain: &|reduce| format!("c{}", reduce.0),
        guarded: false,
    };
    let whole = if inputs.is_empty() { "false" } else { "packed" };
    let _ = writeln!(out, "{indent}if ({whole} && end - chunk == {CHUNK_QUADS}) {{");
    let _ = writeln!(out, "{inner}for (index_t first = chunk; first < end; first += {BATCH} * {THREADS}) {{");
    let (in_batch, in_turn) = (format!("{inner}    "), format!("{inner}        "));
    let column = format!("(first + q * {THREADS} + rf::thread_x()) * {QUAD}");
    body::arrays(kernel, &inputs, BATCH, QUAD, &in_batch, out);
    body::preload(kernel, &inputs, BATCH, &column, &in_batch, out);
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
