//! Facts about this machine, for `rocfire doctor`.

use std::path::Path;

/// Whether the kernel offers AMD GPUs at all: `/dev/kfd`, or on WSL `/dev/dxg`.
pub(crate) fn gpu_nodes_exist() -> bool {
    Path::new("/dev/kfd").exists() || Path::new("/dev/dxg").exists()
}
