//! [`super::Schedule::Columns`]: lanes across rows, for rows whose elements are far apart but whose neighbours are side by side.

use super::body::{Form, Reads};
use super::{COLUMN_CHAINS, COLUMN_LEVELS, COLUMN_WAVES, Kernel};
use crate::graph::{Graph, Node, Value};
use crate::order::{CHUNK_QUADS, LONG_CHAINS, QUAD};
use crate::plan::Plan;

pub(super) fn render(kernel: &Kernel<'_>, out: &mut String) {
    let constants = vec![
        ("WAVES", COLUMN_WAVES),
        ("CHAIN_LEVELS", COLUMN_CHAINS.ilog2() as usize),
        ("CHUNK_LEVELS", COLUMN_LEVELS),
        ("CHUNK_QUADS", CHUNK_QUADS),
    ];
    let form = Form { constants, ..Form::of(QUAD) };
    let bounds = format!("RF_BOUNDS({COLUMN_WAVES} * ARCH_WAVE_SIZE, 1)");
    kernel.instantiate(&form, include_str!("columns.h"), (&bounds, "columns"), out);
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

const _: () = assert!(WIDE == 2, "columns.h has two rows to a lane");

/// Whether lanes may take [`WIDE`] neighbouring rows at once, as far as the graph goes: nothing but values per row is made, and nothing
/// is looked up.
pub(crate) fn can_be_wide(graph: &Graph, plan: &Plan) -> bool {
    let is_looked_up = |at: usize| plan.live[at] && graph.nodes[at].0.is_lookup();
    let narrow = |value: &Value| graph.dtype(*value).size_bytes() <= 4;
    let inputs = (0..graph.nodes.len()).filter(|&at| matches!(graph.nodes[at].0, Node::Input(_)));
    plan.passes.len() == 1
        && plan.passes[0].stores.is_empty()
        && plan.index_axes.is_none()
        && !(0..graph.nodes.len()).any(is_looked_up)
        && inputs.map(|at| Value(at as u32)).all(|value| narrow(&value))
}

/// As [`render`], with [`WIDE`] neighbouring rows to a lane, which it reads in one access, for rows of one chunk.
pub(super) fn render_wide(kernel: &Kernel<'_>, out: &mut String) {
    let constants = vec![
        ("WAVES", WIDE_WAVES),
        ("CHAINS", WIDE_CHAINS),
        ("CHAIN_LEVELS", (LONG_CHAINS / WIDE_WAVES / WIDE_CHAINS).ilog2() as usize),
    ];
    let form =
        Form { halves: false, input_halves: false, reads: Reads::Ahead, across: true, constants, ..Form::of(QUAD) };
    let bounds = format!("RF_BOUNDS({WIDE_WAVES} * ARCH_WAVE_SIZE, {WIDE_GROUPS})");
    let header = concat!(include_str!("across.h"), include_str!("columns.h"));
    kernel.instantiate(&form, header, (&bounds, "columns_wide"), out);
}

/// Waves of a workgroup in [`super::Schedule::SplitColumns`] and [`super::Schedule::SplitColumnsWide`].
pub(crate) const SPLIT_WAVES: usize = 8;

/// Some chains of a chunk a workgroup, of `rows` neighbouring rows a lane, for [`super::Schedule::Join`] to add up.
pub(super) fn render_split(kernel: &Kernel<'_>, rows: usize, out: &mut String) {
    let constants = vec![
        ("WAVES", SPLIT_WAVES),
        ("ROWS", rows),
        ("CHAIN_LEVELS", (LONG_CHAINS / SPLIT_WAVES).ilog2() as usize),
        ("CHUNK_QUADS", CHUNK_QUADS),
    ];
    let is_wide = rows == WIDE;
    let reads = if is_wide { Reads::Ahead } else { Reads::Directly };
    let form = Form { halves: false, input_halves: false, reads, across: is_wide, constants, ..Form::of(QUAD) };
    let bounds = format!("RF_BOUNDS({SPLIT_WAVES} * ARCH_WAVE_SIZE, 2)");
    let header = concat!(include_str!("across.h"), include_str!("split_columns.h"));
    kernel.instantiate(&form, header, (&bounds, "split_columns"), out);
}
