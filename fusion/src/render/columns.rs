//! [`super::Schedule::Columns`] and its like: a lane takes a row, for rows that lie side by side, so that the elements of one row are far
//! apart.

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

/// How many neighbouring rows a lane takes in [`super::Schedule::ColumnsWide`].
pub(crate) const WIDE: usize = 2;

/// The fewest chains that a lane runs through at once there.
pub(crate) const WIDE_CHAINS: usize = 4;

/// The most waves of a workgroup there, because a lane needs registers for several rows.
pub(crate) const WIDE_WAVES: usize = 8;

/// How many workgroups shall run on a compute unit at once there, which limits a lane's registers. On an H200 gradients of norms take
/// longer with four, because registers are spilled to memory.
const WIDE_GROUPS: usize = 3;

const _: () = assert!(WIDE == 2, "columns.h has two rows to a lane");

/// Whether the graph lets lanes take [`WIDE`] neighbouring rows at once: it must have one pass, only outputs per row, no lookups, and
/// inputs of at most 4 bytes.
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

/// As [`render`], for rows of one chunk. A lane takes [`WIDE`] neighbouring rows, and reads their elements in one access.
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

/// Renders the kernel in which a workgroup sums some chains of a chunk, with `rows` neighbouring rows a lane.
/// [`super::Schedule::Join`] adds the totals.
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
