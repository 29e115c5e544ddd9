//! Grids and workgroups of kernels for which Candle's own (1024 lanes a workgroup, 32 lanes a row) are not the best.

use cudarc::driver::LaunchConfig;

/// Lanes of a workgroup of kernels that have a lane per element or line; also `CANDLE_BLOCK` of `thin.hip`.
pub(crate) const BLOCK: u32 = 256;

/// `grid` workgroups of `block` lanes, along one axis.
pub(crate) fn groups(grid: u64, block: u32) -> LaunchConfig {
    // A grid that does not fit 32 bits is refused by the launch, not cut.
    let grid = u32::try_from(grid).unwrap_or(u32::MAX);
    LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (block, 1, 1), shared_mem_bytes: 0 }
}
