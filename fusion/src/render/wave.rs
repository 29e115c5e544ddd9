//! [`super::Schedule::Wave1`] and its like: lanes of one wave share a short row, and keep it in registers, so that it is read once.
//!
//! The most steps of a lane is a constant of the text, because registers cannot be indexed, and so that the kernel of a short row is
//! short: a small launch must not spend its time loading code. For the same reason there are kernels for rows that lie packed and end
//! with a whole step.
//!
//! A step is a quad, or for packed 16-bit elements two quads of neighbouring chains, which are 16 bytes. If a graph would keep more
//! values than there are registers for, its passes compute them again.

use super::body::{Form, Reads};
use super::room::{self, Room};
use super::{Kernel, Schedule, THREADS};
use crate::graph::Graph;
use crate::order::{QUAD, SHORT_CHAINS};
use crate::plan::Plan;

/// The most registers of a lane for the row: half of what a lane of such a workgroup can have on every card.
const REGISTERS_MOST: usize = 128;

/// The same for a row that need not lie packed and is read as a whole before anything is reduced. They are fewer, because the different
/// modes of reading keep addresses in registers too.
const EARLY_REGISTERS_MOST: usize = 96;

/// The most registers of a lane for a packed 16-bit row, if [`GROUPS`] workgroups shall run on a compute unit at once. With more than 2
/// steps a lane, that hides more of memory's latency than more registers would spare: a LayerNorm in f16 of 8192x768 takes 7.4
/// instead of 8.1 us (H200, 2026-11-22).
const MANY_REGISTERS_MOST: usize = 64;
/// How many workgroups shall run on a compute unit at once then.
const GROUPS: usize = 3;

/// The schedule for at most `turns` steps a lane.
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

/// How many neighbouring chains a lane has if rows lie packed: as many as it reads in one access.
pub(crate) fn chains(graph: &Graph, plan: &Plan) -> usize {
    if room::widest(graph, plan) <= 2 { 2 } else { 1 }
}

/// The sizes of the kernel, and what fits its registers.
struct Size {
    /// Chains of a step.
    chains: usize,
    /// Elements of a step.
    width: usize,
    /// Whether values are kept from one pass to the next.
    keeps: bool,
    /// Whether a pass reads its inputs before it computes anything.
    ahead: bool,
    /// Whether the inputs of all passes are read before the first.
    early: bool,
    /// Whether the row takes so few registers that [`GROUPS`] workgroups run at once.
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
            chains,
            width,
            keeps: fits(kept, REGISTERS_MOST),
            ahead: fits(kept + most, REGISTERS_MOST),
            early: fits(kept + all, early_most),
            is_small: chains > 1 && turns > 2 && fits(kept + all, MANY_REGISTERS_MOST),
        }
    }
}

/// Renders the kernel for at most `turns` steps a lane; `packed` for rows for which [`crate::geometry::Geometry::is_packed`] holds.
pub(super) fn render(kernel: &Kernel<'_>, turns: usize, packed: bool, out: &mut String) {
    let Size { chains, width, keeps, ahead, early, is_small } = Size::new(kernel, turns, packed);
    let bounds = match is_small {
        true => format!("RF_BOUNDS({THREADS}, {GROUPS})"),
        false => format!("__launch_bounds__({THREADS})"),
    };
    let constants = vec![
        ("THREADS", THREADS),
        ("TURNS", turns),
        ("CHAINS", SHORT_CHAINS / chains),
        ("PACKED", packed.into()),
        ("AHEAD", ahead.into()),
        ("EARLY", early.into()),
    ];
    let reads = if ahead { Reads::Ahead } else { Reads::Directly };
    let form = Form { keeps, reads, constants, ..Form::of(width) };
    kernel.instantiate(&form, include_str!("wave.h"), (&bounds, "rows_by_wave"), out);
}
