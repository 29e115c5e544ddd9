//! [`super::Schedule::Wave1`] and its like: lanes of one wave share a short row, step by step, and keep it in registers: it is read
//! once.
//!
//! All loads of a row, or where registers do not suffice of a pass, come before its arithmetic, so that they are under way
//! together. How many steps a lane has at most is in the text, since registers cannot be indexed, and so that a short row's kernel
//! is short: a small launch ends before it has paid for much text. Where everything lies packed and the row ends with a whole
//! step, that is in the text too, for the same reason.
//!
//! A step is a quad, or of packed 16-bit elements two quads whose chains are neighbours: 16 bytes. A row that needs more than one
//! step a lane has the whole wave, or as many lanes as make the order's 64 chains; on a wave of 32 lanes with steps of a quad, two
//! chains fall to a lane in turn. Where a graph keeps more values than there are registers for, passes compute them anew.

use std::fmt::Write as _;

use super::room::{self, Room};
use super::{ENTRY, Kernel, Schedule, THREADS, body, expr};
use crate::graph::{Graph, Kind, Value};
use crate::order::{QUAD, SHORT_CHAINS};
use crate::plan::Plan;

/// Most registers of a lane for the row: half of what a lane of such a workgroup can have everywhere.
const REGISTERS_MOST: usize = 128;

/// Most registers of a lane for a row that lies anyhow and is all read before anything is reduced: the ways to read it keep addresses
/// alive beside it.
const EARLY_REGISTERS_MOST: usize = 96;

/// Most registers of a lane for a packed 16-bit row of which [`GROUPS`] workgroups are under way on a compute unit, and those. Where a row
/// has more steps than 2, that hides more of memory's latency than the registers would spare: a LayerNorm in f16 of 8192x768 takes 7.4
/// instead of 8.1 us (H200, 2026-11-22).
const MANY_REGISTERS_MOST: usize = 64;
const GROUPS: usize = 3;

/// The schedule for `turns` steps a lane.
pub(crate) fn schedule(turns: usize, packed: bool) -> Schedule {
    match (turns, packed) {
        (0 | 1, false) => Schedule::Wave1,
        (0 | 1, true) => Schedule::WavePacked1,
        (2, false) => Schedule::Wave2,
        (2, true) => Schedule::WavePacked2,
        (3 | 4, false) => Schedule::Wave4,
        (3 | 4, true) => Schedule::WavePacked4,
        (_, false) => Schedule::Wave8,
        (_, true) => Schedule::WavePacked8,
    }
}

/// Chains of a lane that are neighbours where everything lies packed: as many as it reads in one access.
pub(crate) fn chains(graph: &Graph, plan: &Plan) -> usize {
    if room::widest(graph, plan) <= 2 { 2 } else { 1 }
}

/// The kernel's sizes.
struct Size {
    /// Steps of a lane, at most; more than half of them are there.
    turns: usize,
    packed: bool,
    /// Chains of a step.
    chains: usize,
    /// Elements of a step.
    width: usize,
    /// Whether values pass from one pass to the next.
    keeps: bool,
    /// Whether a pass reads its inputs before it computes anything.
    ahead: bool,
    /// Whether all inputs are read first.
    early: bool,
    /// Whether the row takes few registers for its steps.
    is_small: bool,
}

impl Size {
    fn new(kernel: &Kernel<'_>, turns: usize, packed: bool) -> Size {
        let chains = if packed { chains(kernel.graph, kernel.plan) } else { 1 };
        let width = chains * QUAD;
        let Room { kept, most, all } = Room::new(kernel.graph, kernel.plan);
        let fits = |bytes: usize, registers: usize| bytes * turns * width <= 4 * registers;
        let early_most = if packed { REGISTERS_MOST } else { EARLY_REGISTERS_MOST };
        Size {
            turns,
            packed,
            chains,
            width,
            keeps: fits(kept, REGISTERS_MOST),
            ahead: fits(kept + most, REGISTERS_MOST),
            early: fits(kept + all, early_most),
            is_small: chains > 1 && turns > 2 && fits(kept + all, MANY_REGISTERS_MOST),
        }
    }

    /// The first element of step `q`.
    fn column(&self) -> String {
        format!("((q << lanes_log2) + lane) * {}", self.width)
    }
}

/// `turns` steps a lane at most; `packed` where [`crate::geometry::Geometry::is_packed`] holds for a step.
pub(super) fn render(kernel: &Kernel<'_>, turns: usize, packed: bool, out: &mut String) {
    let size = Size::new(kernel, turns, packed);
    let lanes = format!("(ARCH_WAVE_SIZE < {0} ? ARCH_WAVE_SIZE : {0})", SHORT_CHAINS / size.chains);
    let (lanes_log2, slots) = match turns {
        1 => ("a.space.lanes_log2".to_owned(), "1".to_owned()),
        _ => (format!("{lanes} == 64 ? 6 : 5"), format!("({} / {lanes})", SHORT_CHAINS / size.chains)),
    };
    let _ = writeln!(out, "#define FUSE_SLOTS {slots}");
    let bounds = match size.is_small {
        true => format!("RF_BOUNDS({THREADS}, {GROUPS})"),
        false => format!("__launch_bounds__({THREADS})"),
    };
    let _ = writeln!(out, "extern \"C\" __global__ {bounds} void {ENTRY}(FusedArgs a) {{");
    kernel.uniforms(out);
    let _ = writeln!(out, "    const rf::u32 lanes_log2 = {lanes_log2};");
    out.push_str("    const rf::u32 lane = rf::thread_x() & ((1u << lanes_log2) - 1u);\n");
    if !packed {
        let _ = writeln!(out, "    const bool whole = a.space.extent > 0 && a.space.extent % {QUAD} == 0;");
    }
    let _ = writeln!(out, "    const index_t rows = {THREADS}u >> lanes_log2;");
    out.push_str("    for (index_t base = rf::group_x() * rows; base < a.space.items; base += a.space.step) {\n");
    // Lanes without a row do the last one again, so that every lane has a value to exchange, and store nothing.
    out.push_str("        const index_t own = base + (rf::thread_x() >> lanes_log2);\n");
    out.push_str("        const bool live = own < a.space.items;\n");
    out.push_str("        const index_t row = live ? own : a.space.items - 1;\n");
    kernel.row_offsets(out);
    if size.keeps {
        // Inputs that are read ahead are declared where they are read.
        let here = |value: &Value| !(size.ahead && room::is_input(kernel.graph, *value));
        let kept: Vec<Value> = room::kept(kernel.graph, kernel.plan).filter(here).collect();
        body::arrays(kernel, &kept, (turns, size.width, true), "        ", out);
    }
    if size.early {
        let all = (0..kernel.plan.passes.len()).flat_map(|number| body::inputs(kernel, number, true));
        read(kernel, &all.collect::<Vec<Value>>(), &size, out);
    }
    for level in 0..=kernel.plan.passes.len() {
        kernel.row_values(out, level);
        if level < kernel.plan.passes.len() {
            if size.ahead && !size.early {
                read(kernel, &body::inputs(kernel, level, true), &size, out);
            }
            pass(kernel, level, &size, out);
        }
    }
    if kernel.graph.outputs.iter().any(|output| kernel.plan.kinds[output.at()] == Kind::Row) {
        out.push_str("        if (live && lane == 0) {\n");
        kernel.row_stores(out, "            ");
        out.push_str("        }\n");
    }
    out.push_str("    }\n}\n");
}

/// Reads inputs of the whole row. Where they may lie anyhow, each asks for itself, so that one that does not lie packed makes the
/// others no slower.
fn read(kernel: &Kernel<'_>, inputs: &[Value], size: &Size, out: &mut String) {
    let (turns, width, column) = (size.turns, size.width, size.column());
    body::arrays(kernel, inputs, (turns, width, true), "        ", out);
    if size.packed {
        let inside = body::inside(&column);
        return body::preload(kernel, inputs, body::Lie::Packed, (turns, width, &inside), "        ", out);
    }
    for &input in inputs {
        let packed = format!("whole && a.tensor[{}].mode == fuse::PACKED", kernel.input(input));
        body::preload_either(kernel, &[input], (&packed, body::Lie::Packed), (turns, width, &column), out);
    }
}

fn pass(kernel: &Kernel<'_>, number: usize, size: &Size, out: &mut String) {
    let pass = &kernel.plan.passes[number];
    let &Size { turns, packed, chains, width, keeps, ahead, .. } = size;
    for &reduce in &pass.reduces {
        let (functor, _) = kernel.reduction(reduce);
        let _ = writeln!(out, "        {functor}::A c{}[FUSE_SLOTS][{chains}];", reduce.0);
        let each = format!("c{0}[i / {chains}][i % {chains}] = {functor}::neutral();", reduce.0);
        let _ = writeln!(out, "#pragma unroll\n        for (int i = 0; i < FUSE_SLOTS * {chains}; ++i) {each}");
    }
    let _ = writeln!(out, "#pragma unroll\n        for (rf::u32 q = 0; q < {turns}; ++q) {{");
    if turns > 2 {
        let _ = writeln!(out, "            if (q > {} && q >= a.space.turns) continue;", turns / 2);
    }
    let _ = writeln!(out, "            const index_t column = {};", size.column());
    let _ = match packed {
        true => writeln!(out, "            const rf::u32 count = column < a.space.extent ? {width} : 0;"),
        false => writeln!(out, "            const rf::u32 count = fuse::window(column, a.space.extent, {width});"),
    };
    let only = if chains == 1 { "[0]" } else { "" };
    let step = body::Step {
        keeps,
        preloaded: ahead,
        indent: "            ",
        chain: &|reduce| format!("c{}[q % FUSE_SLOTS]{only}", reduce.0),
        guarded: true,
        packed,
        ..body::Step::anew(pass, number, width)
    };
    body::render(kernel, &step, out);
    out.push_str("        }\n");
    for &reduce in &pass.reduces {
        let (functor, operand) = kernel.reduction(reduce);
        let (at, register) = (reduce.0, expr::register(kernel.graph.dtype(operand)));
        let _ = writeln!(out, "        {functor}::A t{at}[FUSE_SLOTS];");
        let own = format!("fuse::tree_of<{functor}, {chains}>(c{at}[slot])");
        let _ = writeln!(
            out,
            "#pragma unroll\n        for (int slot = 0; slot < FUSE_SLOTS; ++slot) t{at}[slot] = fuse::tree<{functor}>({own}, lanes_log2);"
        );
        let _ = writeln!(
            out,
            "        const {register} v{at} = {functor}::finish(fuse::tree_of<{functor}, FUSE_SLOTS>(t{at}), a.space.extent);"
        );
    }
}
