//! Products by a vendor's library, in the order of the stream like any launch.

use super::Stream;
use crate::command::Command;
use crate::vendor::{Addresses, Plan, VendorLaunch};
use crate::{Error, Result};

impl Stream {
    /// Puts a planned product on the stream. Allocates nothing unless it fails.
    ///
    /// # Errors
    /// [`Error::Shape`] for a workspace that is too small; the library's own where it refuses at once. With `ROCFIRE_SYNC=1`
    /// also what fails while it runs, which otherwise comes at the next read or wait.
    ///
    /// # Safety
    /// - `launch.a`, `launch.b`, `launch.c` and, where the plan's product has scales, `launch.scales` and `launch.end` lead to memory of this
    ///   device that has a handle until the call returns, covers what the product says, and is aligned as it says, scales and the end to
    ///   16 bytes; `launch.output` is what holds C, apart from the others.
    pub unsafe fn launch_vendor(&self, plan: &Plan, launch: &VendorLaunch<'_>) -> Result<()> {
        let have = launch.workspace.map_or(0, |workspace| workspace.bytes());
        if have < plan.workspace_bytes() {
            let expected = format!("at least {} bytes", plan.workspace_bytes());
            return Err(Error::shape(launch.label, "workspace", expected, have));
        }
        let workspace = launch.workspace.map_or(0, |workspace| workspace.device_address());
        let VendorLaunch { a, b, c, scales, end, .. } = *launch;
        let addresses = Addresses { a, b, c, scales, end, workspace };
        let command = Command::product(launch.label, plan, addresses, launch.work);
        let mut state = self.lock();
        self.settle(&mut state);
        // SAFETY: the caller's duties; the workspace's size was compared above.
        unsafe { self.submit(&mut state, &command, std::iter::once(launch.output.memory())) }
    }
}
