//! A kernel in the place that Burn keeps for it: in its plans, run for every stream of operations that matches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn_fusion::stream::{Context, OrderedExecution};
use burn_fusion::{NumOperations, Optimization};
use rocfire_fusion::Graph;
use serde::{Deserialize, Serialize};

use super::attention::{Apart, AttentionPlan};
use super::execute::execute;
use super::handle::Handle;
use super::plan::{Kind, Plan};
use super::report::{self, KernelReport};
use super::runtime::RocmRuntime;
use crate::RocmDevice;

/// Operations of Burn's stream that run as one launch, or as one for each part that shares no tensor with the others.
pub struct FusedKernel {
    work: Work,
    device: RocmDevice,
    /// How often it has run, for [`super::plans`].
    runs: Arc<AtomicU64>,
}

/// What replaces operations of a stream.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Work {
    /// Kernels made of the operations.
    Kernels(Plan),
    /// The kernel of a pattern, and what comes between its operations.
    Attention(Box<AttentionPlan>),
    /// Kernels one after the other.
    Apart(Apart),
}

impl Work {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Work::Kernels(plan) => plan.kind.name(),
            Work::Attention(_) => AttentionPlan::NAME,
            Work::Apart(apart) => apart.plans().next().map_or(Kind::ElementWise, |plan| plan.kind).name(),
        }
    }

    fn operations(&self) -> usize {
        match self {
            Work::Kernels(plan) => plan.operations,
            Work::Attention(plan) => plan.apart.operations,
            Work::Apart(apart) => apart.operations,
        }
    }

    /// Plans of kernels, in order.
    fn plans(&self) -> Vec<&Plan> {
        match self {
            Work::Kernels(plan) => vec![plan],
            Work::Attention(plan) => plan.before.iter().chain(&plan.after).collect(),
            Work::Apart(apart) => apart.plans().collect(),
        }
    }

    pub(super) fn reports(&self) -> Vec<KernelReport> {
        match self {
            Work::Kernels(plan) => report::kernels(plan).collect(),
            Work::Attention(plan) => plan.reports(),
            Work::Apart(apart) => apart.plans().flat_map(report::kernels).collect(),
        }
    }
}

/// A [`FusedKernel`] without its device, in a form that can be stored.
#[derive(Serialize, Deserialize)]
pub struct FusedKernelState(Work);

impl FusedKernel {
    pub(super) fn new(work: Work, device: RocmDevice, runs: Arc<AtomicU64>) -> FusedKernel {
        FusedKernel { work, device, runs }
    }

    /// The computations that are launched, but for the kernels of patterns.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.work.plans().into_iter().flat_map(|plan| &plan.kernels).map(|kernel| &kernel.graph)
    }
}

impl fmt::Debug for FusedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, kernels) = (self.work.operations(), self.work.reports().len());
        write!(f, "{} of {operations} operations in {kernels} launches", self.work.name())
    }
}

impl NumOperations for FusedKernel {
    fn len(&self) -> usize {
        self.work.operations()
    }

    fn name(&self) -> &'static str {
        self.work.name()
    }
}

impl Optimization<RocmRuntime> for FusedKernel {
    fn execute(&mut self, context: &mut Context<Handle>, execution: &OrderedExecution<RocmRuntime>) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        match &self.work {
            Work::Kernels(plan) => execute(plan, &self.device, context),
            Work::Attention(plan) => plan.execute(&self.device, context, execution),
            Work::Apart(apart) => apart.execute(&self.device, context, execution),
        }
    }

    fn to_state(&self) -> FusedKernelState {
        FusedKernelState(self.work.clone())
    }

    fn from_state(device: &RocmDevice, state: FusedKernelState) -> FusedKernel {
        let runs = report::record(&state.0, &[], None);
        FusedKernel { work: state.0, device: *device, runs }
    }
}
