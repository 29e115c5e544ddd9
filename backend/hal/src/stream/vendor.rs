//! Products by a vendor's library, in the order of the stream like any launch.

use std::sync::Arc;

use super::Stream;
use crate::graph::Step;
use crate::vendor::{Plan, VendorLaunch};
use crate::{Error, Result};

impl Stream {
    /// Puts a planned product on the stream. Allocates nothing unless it fails.
    ///
    /// # Errors
    /// [`Error::Shape`] for a workspace that is too small; the library's own where it refuses at once. With `ROCFIRE_SYNC=1`
    /// also what fails while it runs, which otherwise comes at the next read or wait.
    ///
    /// # Safety
    /// - `launch.a`, `launch.b` and `launch.c` lead to memory of this device that has a handle until the call returns, covers
    ///   what the plan's product says, and is aligned as it says; `launch.output` is what holds C, apart from A and B.
    pub unsafe fn launch_vendor(&self, plan: &Plan, launch: &VendorLaunch<'_>) -> Result<()> {
        let have = launch.workspace.map_or(0, |workspace| workspace.bytes());
        if have < plan.workspace_bytes() {
            let expected = format!("at least {} bytes", plan.workspace_bytes());
            return Err(Error::shape(launch.label, "workspace", expected, have));
        }
        let workspace = launch.workspace.map_or(0, |workspace| workspace.device_address());
        let addresses = [launch.a, launch.b, launch.c, workspace];
        let mut state = self.lock();
        self.settle(&mut state);
        self.count_launch();
        state.ring.record_vendor(launch.label, plan.library(), addresses);
        if let Some(fault) = &state.pending {
            launch.output.set_poison(Some(Arc::clone(fault)));
            return Ok(());
        }
        if let Some(capture) = &mut state.capture {
            let written = (launch.output.device_address(), launch.output.bytes());
            capture.steps.push(Step::Vendor { label: launch.label, plan: plan.clone(), addresses, written });
            if !capture.native {
                return Ok(());
            }
        }
        let start = state.begin_timing(&*self.driver);
        // SAFETY: the caller's duties; the workspace's size was compared above.
        let outcome = unsafe { plan.0.launch(launch.a, launch.b, launch.c, workspace) };
        if let (Some(recorder), Ok(())) = (&mut state.recorder, &outcome) {
            recorder.end_vendor(&*self.driver, start, launch.label, plan.library(), &launch.work);
        }
        if let Err(error) = outcome {
            let fault = Arc::new(state.ring.fault(error.to_string()));
            launch.output.set_poison(Some(Arc::clone(&fault)));
            return Err(error);
        }
        if self.sync {
            self.driver.synchronize().map_err(|error| {
                let fault = Arc::new(state.ring.fault(error.to_string()));
                launch.output.set_poison(Some(Arc::clone(&fault)));
                Error::Fault(fault)
            })?;
        }
        Ok(())
    }
}
