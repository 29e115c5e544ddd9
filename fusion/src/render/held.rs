//! [`super::Schedule::Held2`] and its like: one workgroup a row, one thread a chain, and the row stays in registers from pass to
//! pass: it is read once.
//!
//! For rows of one chunk. All loads of a pass come before its arithmetic, so that they are under way together. How many
//! quads a chain has is in the text, since registers cannot be indexed. Where the elements are of two bytes or one, a thread
//! has two chains that are neighbours, so that it reads 16 bytes at once. The order is that of `Group` in either case.
//!
//! [`super::Schedule::HeldLong2`] and its like have as many threads for each chunk of a longer row: the tree over chunks is that over the
//! waves that have them. For rows that lie packed and end with a whole step, since so many steps of any other kind are much text.

use std::fmt::Write as _;

use rocfire_hal::DType;

use super::room::{self, Room, is_input};
use super::{ENTRY, Kernel, THREADS, body, expr, group};
use crate::graph::{Graph, Kind, Node, Value};
use crate::op::Reduce;
use crate::order::{CHUNK_QUADS, LONG_CHAINS, QUAD};
use crate::plan::{Argument, Pass, Plan};

/// Most registers of each of [`THREADS`] lanes for the row: half of what a lane of such a workgroup can have everywhere. More lanes
/// have less each.
const REGISTERS_MOST: usize = 128;

/// Most registers of a lane for a row of which everything is read before anything is reduced. Fewer, so that more rows are
/// under way.
const EARLY_REGISTERS_MOST: usize = 96;

/// Most registers of a lane for a row whose computed 16-bit values are kept as floats: with more, too few rows are under way.
const FLOAT_REGISTERS_MOST: usize = 64;

/// Most registers of a lane for a row of 16-bit elements of which [`MANY_THREADS`] are under way on a compute unit.
const MANY_REGISTERS_MOST: usize = 48;

/// Threads of a compute unit at once that rows of few registers are held to.
const MANY_THREADS: usize = 1280;

/// Quads that a chain has in a chunk.
const CHAIN_QUADS: usize = CHUNK_QUADS / LONG_CHAINS;

/// Threads of a workgroup for rows of which [`THREADS`] would hold `turns` quads each, and the chains of each.
pub(crate) fn threads(graph: &Graph, plan: &Plan, turns: usize) -> (usize, usize) {
    let chunks = turns.div_ceil(CHAIN_QUADS);
    let chains = chains_of_thread(graph, plan, turns / chunks);
    (THREADS * chunks / chains, chains)
}

/// How many chains a thread has if it reads `turns` quads of each.
fn chains_of_thread(graph: &Graph, plan: &Plan, turns: usize) -> usize {
    if room::widest(graph, plan) <= 2 && has_room(graph, plan, 2 * turns) { 2 } else { 1 }
}

/// Whether a row's registers suffice. Rows of several chunks leave few for what is computed.
pub(crate) fn fits(graph: &Graph, plan: &Plan, turns: usize) -> bool {
    let heavy = |at: usize| plan.live[at] && plan.kinds[at] == Kind::Full && expr::is_heavy(graph.nodes[at].0);
    has_room(graph, plan, turns) && (turns <= CHAIN_QUADS || !(0..graph.nodes.len()).any(heavy))
}

/// Whether the values that pass from one pass to the next, and what a pass reads on top, fit into registers.
fn has_room(graph: &Graph, plan: &Plan, turns: usize) -> bool {
    let Room { kept, most, .. } = Room::new(graph, plan);
    (kept + most) * turns * QUAD <= 4 * REGISTERS_MOST
}

/// Whether a row's inputs fit all at once: then the last pass does not wait for its own.
fn reads_early(graph: &Graph, plan: &Plan, elements: usize) -> bool {
    let Room { kept, all, .. } = Room::new(graph, plan);
    plan.passes.len() > 1 && (kept + all) * elements <= 4 * EARLY_REGISTERS_MOST
}

/// How many workgroups a compute unit should hold at once, at least.
fn groups_least(graph: &Graph, plan: &Plan, size: &Size) -> usize {
    let Room { kept, all, .. } = Room::new(graph, plan);
    let is_small = size.chains > 1 && (kept + all) * size.turns * size.width <= 4 * MANY_REGISTERS_MOST;
    if is_small { MANY_THREADS / size.threads } else { 1 }
}

/// Whether there is room for computed 16-bit values as floats.
fn keeps_floats(graph: &Graph, plan: &Plan, elements: usize) -> bool {
    let Room { kept, all, .. } = Room::of_floats(graph, plan);
    (kept + all) * elements <= 4 * FLOAT_REGISTERS_MOST
}

/// The kernel's sizes.
struct Size {
    turns: usize,
    /// Chains of a thread.
    chains: usize,
    /// Chunks of a row.
    chunks: usize,
    threads: usize,
    /// Elements that a thread takes at once.
    width: usize,
    /// Whether all inputs are read first.
    early: bool,
    /// Whether computed 16-bit values share registers, which costs two instructions each.
    halves: bool,
}

/// What kernels of several chunks stand on.
const LONG: &str = include_str!("long.h");

/// `turns` quads of a chain, in rows of `chunks` chunks at most.
pub(super) fn render(kernel: &Kernel<'_>, turns: usize, chunks: usize, out: &mut String) {
    let chains = chains_of_thread(kernel.graph, kernel.plan, turns);
    let early = reads_early(kernel.graph, kernel.plan, turns * QUAD * chains);
    let halves = !keeps_floats(kernel.graph, kernel.plan, turns * QUAD * chains);
    let size = Size { turns, chains, chunks, threads: THREADS * chunks / chains, width: QUAD * chains, early, halves };
    if chunks > 1 {
        out.push_str(LONG);
    }
    let (threads, width) = (size.threads, size.width);
    let reductions: usize = kernel.plan.passes.iter().map(|pass| pass.reduces.len()).sum();
    let groups = groups_least(kernel.graph, kernel.plan, &size);
    let _ = writeln!(out, "extern \"C\" __global__ RF_BOUNDS({threads}, {groups}) void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    if chunks == 1 {
        let _ = writeln!(out, "    const bool packed = {};", body::packed(kernel, width));
    } else {
        all_packed(kernel, width, out);
    }
    // Each reduction of a row has its own values, so that one barrier a reduction is enough: the next use of them is behind the
    // barrier of another. A single reduction takes turns with itself.
    let slots = reductions.max(2);
    let _ = writeln!(out, "    __shared__ rf::u64 scratch[{slots}][{threads} / ARCH_WAVE_SIZE];");
    if reductions == 1 {
        out.push_str("    rf::u32 slot = 1;\n");
    }
    out.push_str("    for (index_t row = rf::group_x(); row < a.space.items; row += a.space.step) {\n");
    if reductions == 1 {
        out.push_str("        slot ^= 1u;\n");
    }
    kernel.row_offsets(out);
    let computed: Vec<Value> =
        room::kept(kernel.graph, kernel.plan).filter(|&value| !is_input(kernel.graph, value)).collect();
    body::arrays(kernel, &computed, (turns, width, size.halves), "        ", out);
    if size.early {
        let all: Vec<Value> =
            (0..kernel.plan.passes.len()).flat_map(|number| body::inputs(kernel, number, true)).collect();
        read(kernel, &all, &size, out);
    }
    let mut before = 0;
    for level in 0..=kernel.plan.passes.len() {
        kernel.row_values(out, level);
        if level < kernel.plan.passes.len() {
            pass(kernel, level, &size, before, reductions, out);
            before += kernel.plan.passes[level].reduces.len();
        }
    }
    group::close(kernel, out);
    out.push_str("    }\n}\n");
}

/// Tells the compiler what the launch has seen to.
fn all_packed(kernel: &Kernel<'_>, width: usize, out: &mut String) {
    let _ = writeln!(out, "    if (a.space.extent % {width} != 0) __builtin_unreachable();");
    for (at, &argument) in kernel.arguments.iter().enumerate() {
        let is_full = match argument {
            Argument::Input(_, value) => is_input(kernel.graph, value),
            Argument::Output(slot) => kernel.plan.kinds[kernel.graph.outputs[slot].at()] != Kind::Row,
        };
        if is_full {
            let _ = writeln!(out, "    if (a.tensor[{at}].mode != fuse::PACKED) __builtin_unreachable();");
        }
    }
}

/// The first element of step `q`.
fn column(size: &Size) -> String {
    let &Size { chunks, threads, width, .. } = size;
    if chunks == 1 {
        return format!("(q * {threads} + rf::thread_x()) * {width}");
    }
    // Threads of one chunk are neighbours.
    let own = threads / chunks;
    let chunk = CHUNK_QUADS * QUAD;
    format!("(rf::thread_x() / {own} * {chunk} + (q * {own} + rf::thread_x() % {own}) * {width})")
}

/// Reads inputs of the whole row.
fn read(kernel: &Kernel<'_>, inputs: &[Value], size: &Size, out: &mut String) {
    if inputs.is_empty() {
        return;
    }
    let (column, turns, width) = (column(size), size.turns, size.width);
    body::arrays(kernel, inputs, (turns, width, true), "        ", out);
    let once = body::Lie::PackedOnce;
    if size.chunks == 1 {
        body::preload_either(kernel, inputs, ("packed", once), (turns, width, &column), out);
    } else {
        body::preload(kernel, inputs, once, (turns, width, &body::inside(&column)), "        ", out);
    }
}

/// The 16-bit input whose extreme a reduction is, whatever the order: those of two elements take one instruction on some devices.
fn of_words(kernel: &Kernel<'_>, reduce: Value) -> Option<Value> {
    let graph = kernel.graph;
    let (Node::Reduce(Reduce::Max | Reduce::Min, operand), _) = graph.nodes[reduce.at()] else { return None };
    let input = match graph.nodes[operand.at()] {
        (Node::Cast(from), DType::F32) => from,
        _ => operand,
    };
    let is_half = is_input(graph, input) && expr::is_half(graph.dtype(input));
    (is_half && kernel.plan.kinds[input.at()] == Kind::Full).then_some(input)
}

/// The type of such an extreme so far.
fn most(kernel: &Kernel<'_>, reduce: Value, input: Value) -> String {
    let storage = expr::storage(kernel.graph.dtype(input));
    let is_most = matches!(kernel.graph.nodes[reduce.at()].0, Node::Reduce(Reduce::Max, _));
    format!("Extreme<{storage}, {is_most}>")
}

/// `before` is the number of reductions of the row so far.
fn pass(kernel: &Kernel<'_>, number: usize, size: &Size, before: usize, reductions: usize, out: &mut String) {
    let pass = &kernel.plan.passes[number];
    let &Size { turns, chains, chunks, threads, width, early, halves } = size;
    let tree_of_all = if chunks == 1 { "fuse::tree_group_apart" } else { "tree_many" };
    let column = column(size);
    if !early {
        read(kernel, &body::inputs(kernel, number, true), size, out);
    }
    let words: Vec<(Value, Value)> = match chunks {
        1 => Vec::new(),
        _ => pass.reduces.iter().filter_map(|&reduce| Some((reduce, of_words(kernel, reduce)?))).collect(),
    };
    let in_words = |reduce: Value| words.iter().find(|(known, _)| *known == reduce).map(|(_, input)| *input);
    let rest = Pass {
        reduces: pass.reduces.iter().copied().filter(|&reduce| in_words(reduce).is_none()).collect(),
        ..pass.clone()
    };
    for &(reduce, input) in &words {
        let _ = writeln!(out, "        {} m{};", most(kernel, reduce, input), reduce.0);
    }
    if chains == 1 {
        group::chains(kernel, &rest.reduces, 'c', "        ", out);
    } else {
        for &reduce in &rest.reduces {
            let (functor, _) = kernel.reduction(reduce);
            let neutral = vec![format!("{functor}::neutral()"); chains].join(", ");
            let _ = writeln!(out, "        {functor}::A c{}[{chains}] = {{{neutral}}};", reduce.0);
        }
    }
    let _ = writeln!(out, "#pragma unroll\n        for (rf::u32 q = 0; q < {turns}; ++q) {{");
    for value in pass.again.iter().flat_map(|again| kernel.graph.nodes[again.at()].0.operands()) {
        if is_input(kernel.graph, value) && kernel.plan.kinds[value.at()] == Kind::Full {
            let _ = writeln!(out, "            fuse::make_anew(k{}[q]);", value.0);
        }
    }
    let _ = writeln!(out, "            const index_t column = {column};");
    if chunks == 1 {
        let _ = writeln!(out, "            const rf::u32 count = fuse::window(column, a.space.extent, {width});");
    } else {
        out.push_str("            if (column >= a.space.extent) continue;\n");
        for &(reduce, input) in &words {
            let _ = writeln!(out, "            m{}.put(k{}[q]);", reduce.0, input.0);
        }
        let _ = writeln!(out, "            const rf::u32 count = {width};");
    }
    let step = body::Step {
        keeps: true,
        halves,
        preloaded: true,
        indent: "            ",
        chain: &|reduce| format!("c{}", reduce.0),
        once: true,
        ..body::Step::anew(&rest, number, width)
    };
    if !(rest.reduces.is_empty() && rest.stores.is_empty()) {
        body::render(kernel, &step, out);
    }
    out.push_str("        }\n");
    for (index, &reduce) in pass.reduces.iter().enumerate() {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, register) = (reduce.0, expr::register(kernel.graph.dtype(operand)));
        let slot = if reductions == 1 { "slot".to_owned() } else { (before + index).to_string() };
        let own = match (in_words(reduce), chains) {
            (Some(_), _) => format!("m{at}.total()"),
            (None, 1) => format!("c{at}"),
            (None, _) => format!("fuse::tree_of<{functor}, {chains}>(c{at})"),
        };
        let tree = format!("{tree_of_all}<{functor}, {threads}>({own}, ({functor}::A*)scratch[{slot}])");
        let _ = writeln!(out, "        const {register} v{at} = {functor}::finish({tree}, a.space.extent);");
    }
}
