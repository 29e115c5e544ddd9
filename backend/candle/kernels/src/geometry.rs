//! How kernels are launched where Candle's own geometry (1024 lanes a workgroup, 32 lanes a row) is not the best.

use cudarc::driver::LaunchConfig;
use cudarc::rocfire::Launch;

/// Lanes of a workgroup of elementwise kernels: `CANDLE_BLOCK` of `each.h`.
pub(crate) const BLOCK: u32 = 256;

/// As `rows.h`: rows of up to so many elements get the small workgroup.
const SHORT_ROW: u64 = 1024;
const SHORT_ROW_BLOCK: u32 = 64;
/// As `reduce.hip`: so do lines.
const SHORT_LINE: u64 = 512;
/// As `reduce.hip`: longer lines get the large workgroup.
const MIDDLE_LINE: u64 = 8192;
const LONG_LINE_BLOCK: u32 = 1024;

pub(crate) type Geometry = fn(&Launch<'_>) -> LaunchConfig;

pub(crate) fn groups(grid: u64, block: u32) -> LaunchConfig {
    // A grid that does not fit 32 bits is refused by the launch, not cut.
    let grid = u32::try_from(grid).unwrap_or(u32::MAX);
    LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (block, 1, 1), shared_mem_bytes: 0 }
}

/// `PER` elements a workgroup, of as many as the first argument says.
fn counted<const PER: u64>(launch: &Launch<'_>) -> LaunchConfig {
    groups(launch.integer(0).div_ceil(PER), BLOCK)
}

/// The same where Candle's grid, of 1024 lanes a workgroup, is all that says how many elements there are.
fn asked<const PER: u64>(launch: &Launch<'_>) -> LaunchConfig {
    groups((u64::from(launch.config().grid_dim.0) * 1024).div_ceil(PER), BLOCK)
}

/// `elements` per workgroup times [`BLOCK`] for elements of so many bytes, the widest of a kernel's: as many as 16 bytes hold,
/// 8 at most.
pub(crate) fn lane_elements(bytes: usize) -> usize {
    (16 / bytes).min(8)
}

/// For kernels whose first argument counts the elements, of so many bytes the widest.
pub(crate) fn elements(bytes: usize) -> Geometry {
    match lane_elements(bytes) {
        8 => counted::<2048>,
        4 => counted::<1024>,
        2 => counted::<512>,
        _ => counted::<256>,
    }
}

/// For kernels of which only Candle's grid says how many elements there are.
pub(crate) fn elements_asked(bytes: usize) -> Geometry {
    match lane_elements(bytes) {
        8 => asked::<2048>,
        4 => asked::<1024>,
        2 => asked::<512>,
        _ => asked::<256>,
    }
}

/// One lane per element, as many as the first argument says.
pub(crate) fn lanes(launch: &Launch<'_>) -> LaunchConfig {
    counted::<256>(launch)
}

/// One lane per element, as many as Candle's grid holds.
pub(crate) fn lanes_asked(launch: &Launch<'_>) -> LaunchConfig {
    asked::<256>(launch)
}

/// As `rows`, of lines that are reduced: `block_for` in `reduce.hip`.
pub(crate) fn lines(launch: &Launch<'_>) -> LaunchConfig {
    let block = match launch.integer(1) {
        extent if extent <= SHORT_LINE => SHORT_ROW_BLOCK,
        extent if extent <= MIDDLE_LINE => BLOCK,
        _ => LONG_LINE_BLOCK,
    };
    groups(u64::from(launch.config().grid_dim.0), block)
}

/// One workgroup per row, of as many rows as Candle's grid says; the argument `COLUMNS` is their length.
pub(crate) fn rows<const COLUMNS: usize>(launch: &Launch<'_>) -> LaunchConfig {
    row_groups(launch.config().grid_dim.0, launch.integer(COLUMNS))
}

/// One workgroup for each of so many rows of a length.
pub(crate) fn row_groups(rows: u32, columns: u64) -> LaunchConfig {
    groups(rows.into(), if columns <= SHORT_ROW { SHORT_ROW_BLOCK } else { BLOCK })
}

/// Short rows that share a workgroup of [`BLOCK`] lanes: `CANDLE_ROWS_TOGETHER` of `rows_of.hip`.
const ROWS_TOGETHER: u32 = 8;

/// Workgroups of [`BLOCK`] lanes for rows, of which short ones share a workgroup: as `rows_of.hip` says of a softmax of its parts.
pub(crate) fn rows_together(rows: u32, columns: u64) -> LaunchConfig {
    let together = if columns <= SHORT_LINE { ROWS_TOGETHER } else { 1 };
    groups(rows.div_ceil(together).into(), BLOCK)
}

/// The lanes that `reduce.hip` gives such a row, and a power of two that none of them has more elements than.
pub(crate) fn parts(columns: u64) -> [u64; 2] {
    let lanes = u64::from(if columns <= SHORT_LINE { SHORT_ROW_BLOCK } else { BLOCK });
    [lanes, columns.div_ceil(lanes).next_power_of_two()]
}
