//! How kernels are launched where Candle's own geometry (1024 lanes a workgroup, 32 lanes a row) is not the best.

use cudarc::driver::LaunchConfig;
use cudarc::rocfire::Launch;

/// Lanes of a workgroup of elementwise kernels: `CANDLE_BLOCK` of `each.h`.
pub(crate) const BLOCK: u32 = 256;

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

/// One lane per element, as many as the first argument says.
pub(crate) fn lanes(launch: &Launch<'_>) -> LaunchConfig {
    counted::<256>(launch)
}

/// One lane per element, as many as Candle's grid, of 1024 lanes a workgroup, holds.
pub(crate) fn lanes_asked(launch: &Launch<'_>) -> LaunchConfig {
    groups((u64::from(launch.config().grid_dim.0) * 1024).div_ceil(BLOCK.into()), BLOCK)
}
