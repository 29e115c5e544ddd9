//! How kernels are launched where Candle's own geometry (1024 lanes a workgroup, 32 lanes a row) is not the best.

use cudarc::driver::LaunchConfig;

/// Lanes of a workgroup of kernels with a lane per element or line: `CANDLE_BLOCK` of `thin.hip`.
pub(crate) const BLOCK: u32 = 256;

pub(crate) fn groups(grid: u64, block: u32) -> LaunchConfig {
    // A grid that does not fit 32 bits is refused by the launch, not cut.
    let grid = u32::try_from(grid).unwrap_or(u32::MAX);
    LaunchConfig { grid_dim: (grid, 1, 1), block_dim: (block, 1, 1), shared_mem_bytes: 0 }
}
