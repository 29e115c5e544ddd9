//! A kernel in the place that Burn keeps for it: in its plans, run for every stream of operations that matches.

use std::fmt;

use burn_fusion::stream::{Context, OrderedExecution};
use burn_fusion::{NumOperations, Optimization};
use rocfire_fusion::Graph;
use serde::{Deserialize, Serialize};

use super::execute::execute;
use super::handle::Handle;
use super::plan::Plan;
use super::runtime::RocmRuntime;
use crate::RocmDevice;

/// Operations of Burn's stream that run as one launch, or as one for each part that shares no tensor with the others.
pub struct FusedKernel {
    plan: Plan,
    device: RocmDevice,
}

/// A [`FusedKernel`] without its device, in a form that can be stored.
#[derive(Serialize, Deserialize)]
pub struct FusedKernelState(Plan);

impl FusedKernel {
    pub(super) fn new(plan: Plan, device: RocmDevice) -> FusedKernel {
        FusedKernel { plan, device }
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
        execute(&self.plan, &self.device, context);
    }

    fn to_state(&self) -> FusedKernelState {
        FusedKernelState(self.plan.clone())
    }

    fn from_state(device: &RocmDevice, state: FusedKernelState) -> FusedKernel {
        FusedKernel { plan: state.0, device: *device }
    }
}
