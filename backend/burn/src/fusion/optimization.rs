//! Kernels in the place that Burn keeps for them: in its plans, run for every stream of operations that matches.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use burn_fusion::stream::{Context, OrderedExecution};
use burn_fusion::{NumOperations, Optimization};
use rocfire_fusion::Graph;
use rocfire_kernels::random::Seed;
use serde::{Deserialize, Serialize};

use super::attention::AttentionPlan;
use super::execute::{draw, execute};
use super::handle::Handle;
use super::plan::{Kernel, Kind, Plan};
use super::report;
use super::runtime::RocmRuntime;
use crate::RocmDevice;

/// Operations that run together.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Work {
    /// Kernels made of the operations.
    Kernels(Plan),
    /// The kernel of a pattern.
    Attention(Box<AttentionPlan>),
    /// The operation of this place in the stretch, as Burn runs it: a tensor that comes from the host.
    Alone(usize),
}

impl Work {
    /// Its kernels that are made of operations.
    pub(super) fn kernels(&self) -> &[Kernel] {
        match self {
            Work::Kernels(plan) => &plan.kernels,
            Work::Attention(_) | Work::Alone(_) => &[],
        }
    }
}

/// Operations of Burn's stream that run as a few launches.
pub struct FusedKernel {
    /// In the order in which they run, each with its use for [`super::plans`].
    pieces: Vec<(Work, Arc<report::Use>)>,
    operations: usize,
    /// Random tensors that they draw.
    draws: usize,
    device: RocmDevice,
}

/// A [`FusedKernel`] without its device, in a form that can be stored.
#[derive(Serialize, Deserialize)]
pub struct FusedKernelState {
    pieces: Vec<Work>,
    operations: usize,
    draws: usize,
}

impl FusedKernel {
    pub(super) fn new(
        pieces: Vec<(Work, Arc<report::Use>)>,
        operations: usize,
        draws: usize,
        device: RocmDevice,
    ) -> FusedKernel {
        FusedKernel { pieces, operations, draws, device }
    }

    /// The computations that are launched, but for the kernels of patterns.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.pieces.iter().flat_map(|(work, _)| work.kernels()).map(|kernel| &kernel.graph)
    }

    fn launches(&self) -> usize {
        let attention = self.pieces.iter().filter(|(work, _)| matches!(work, Work::Attention(_)));
        self.graphs().count() + attention.count()
    }

    /// That of the kernel which replaces most.
    fn kernel_name(&self) -> &'static str {
        let named = |(work, _): &(Work, _)| match work {
            Work::Attention(plan) => Some((plan.pattern.steps(), AttentionPlan::NAME)),
            work => {
                work.kernels().iter().map(|kernel| (kernel.launches, kernel.kind.name())).max_by_key(|(most, _)| *most)
            }
        };
        let most = self.pieces.iter().filter_map(named).max_by_key(|(most, _)| *most);
        most.map_or(Kind::ElementWise.name(), |(_, name)| name)
    }
}

impl fmt::Debug for FusedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} operations in {} launches", self.kernel_name(), self.operations, self.launches())
    }
}

impl NumOperations for FusedKernel {
    fn len(&self) -> usize {
        self.operations
    }

    fn name(&self) -> &'static str {
        self.kernel_name()
    }
}

impl Optimization<RocmRuntime> for FusedKernel {
    fn execute(&mut self, context: &mut Context<Handle>, execution: &OrderedExecution<RocmRuntime>) {
        let draws: Vec<Seed> = draw(&self.device, self.draws);
        for (work, used) in &self.pieces {
            let start = Instant::now();
            match work {
                Work::Kernels(plan) => execute(plan, &self.device, &draws, context),
                Work::Attention(plan) => plan.execute(&self.device, context),
                Work::Alone(at) => execution.operation_within_optimization(*at).execute(&mut context.handles),
            }
            used.add(start.elapsed());
        }
    }

    fn to_state(&self) -> FusedKernelState {
        let pieces = self.pieces.iter().map(|(work, _)| work.clone()).collect();
        FusedKernelState { pieces, operations: self.operations, draws: self.draws }
    }

    fn from_state(device: &RocmDevice, state: FusedKernelState) -> FusedKernel {
        let used = |work: Work| {
            let used = report::record(&work, Vec::new(), None);
            (work, used)
        };
        let pieces = state.pieces.into_iter().map(used).collect();
        FusedKernel { pieces, operations: state.operations, draws: state.draws, device: *device }
    }
}
