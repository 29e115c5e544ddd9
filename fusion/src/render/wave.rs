//! [`super::Schedule::Wave1`] and its like: lanes of one wave share a short row, step by step, and keep it in registers: it is read
//! once.
//!
//! How many steps a lane has at most is in the text, since registers cannot be indexed, and so that a short row's kernel is short: a
//! small launch ends before it has paid for much text. Where everything lies packed and the row ends with a whole step, that is in the
//! text too, for the same reason.
//!
//! A step is a quad, or of packed 16-bit elements two quads whose chains are neighbours: 16 bytes. Where a graph keeps more values than
//! there are registers for, passes compute them anew.

use super::body::{Form, Reads};
use super::room::{self, Room};
use super::{Kernel, Schedule, THREADS};
use crate::graph::Graph;
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
            chains,
            width,
            keeps: fits(kept, REGISTERS_MOST),
            ahead: fits(kept + most, REGISTERS_MOST),
            early: fits(kept + all, early_most),
            is_small: chains > 1 && turns > 2 && fits(kept + all, MANY_REGISTERS_MOST),
        }
    }
}

/// `turns` steps a lane at most; `packed` where [`crate::geometry::Geometry::is_packed`] holds for a step.
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
