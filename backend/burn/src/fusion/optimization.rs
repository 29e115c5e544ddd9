//! A kernel in the place that Burn keeps for it: in its plans, run for every stream of operations that matches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn_fusion::stream::{Context, OrderedExecution};
use burn_fusion::{NumOperations, Optimization};
use rocfire_fusion::Graph;
use serde::{Deserialize, Serialize};

use super::execute::execute;
use super::handle::Handle;
use super::plan::Plan;
use super::report;
use super::runtime::RocmRuntime;
use crate::RocmDevice;

/// Operations of Burn's stream that run as one launch, or as one for each part that shares no tensor with the others.
pub struct FusedKernel {
    plan: Plan,
    device: RocmDevice,
    /// How often it has run, for [`super::plans`].
    runs: Arc<AtomicU64>,
}

/// A [`FusedKernel`] without its device, in a form that can be stored.
#[derive(Serialize, Deserialize)]
pub struct FusedKernelState(Plan);

impl FusedKernel {
    pub(super) fn new(plan: Plan, device: RocmDevice, runs: Arc<AtomicU64>) -> FusedKernel {
        FusedKernel { plan, device, runs }
    }

    /// The computations that are launched.
    pub fn graphs(&self) -> impl ExactSizeIterator<Item = &Graph> {
        self.plan.kernels.iter().map(|kernel| &kernel.graph)
    }
}

impl fmt::Debug for FusedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, launches) = (self.plan.operations, self.plan.kernels.len());
        write!(f, "{} of {operations} operations in {launches} launches", self.plan.kind.name())
    }
}

impl NumOperations for FusedKernel {
    fn len(&self) -> usize {
        self.plan.operations
    }

    fn name(&self) -> &'static str {
        self.plan.kind.name()
    }
}

impl Optimization<RocmRuntime> for FusedKernel {
    fn execute(&mut self, context: &mut Context<Handle>, _execution: &OrderedExecution<RocmRuntime>) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        execute(&self.plan, &self.device, context);
    }

    fn to_state(&self) -> FusedKernelState {
        FusedKernelState(self.plan.clone())
    }

    fn from_state(device: &RocmDevice, state: FusedKernelState) -> FusedKernel {
        let runs = report::record(&state.0, &[], None);
        FusedKernel { plan: state.0, device: *device, runs }
    }
}
