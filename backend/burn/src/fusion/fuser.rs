//! Collecting operations: what Burn's search asks of a fuser.
//!
//! There are three, one of elementwise operations, one that takes reductions too, one that ends a matrix product or a convolution; which
//! kernel comes of the second is known at the end. All follow the stream as long as it can become a kernel and remember the last point where it was one.

use std::sync::Arc;

use burn_fusion::{FuserProperties, FuserStatus, OperationFuser};
use burn_ir::OperationIr;

use super::optimization::{FusedKernel, Work};
use super::plan::{Kind, Plan, plan};
use super::refusal::Refusal;
use super::report;
use super::trace::Trace;
use crate::RocmDevice;

/// Most operations that a fuser follows beyond the last kernel. The search hands over whole blocks, which only their last
/// operation may join to the rest.
const MAX_PENDING: usize = 48;

/// Most operations in a plan.
const MAX_OPERATIONS: usize = 256;

/// What a fuser takes besides elementwise operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Reductions,
    /// One, before everything else.
    Product,
}

impl Takes {
    pub(super) const ALL: [Takes; 3] = [Takes::Nothing, Takes::Reductions, Takes::Product];
}

/// Collects operations into kernels.
#[derive(Clone)]
pub(super) struct Fuser {
    device: RocmDevice,
    takes: Takes,
    /// Shared with the clones that the search makes until one of them goes on.
    current: Arc<Trace>,
    best: Option<Best>,
    /// Burn's names of the operations taken.
    names: Arc<Vec<String>>,
    /// The first operation that was not, and why.
    stopped: Option<(String, Refusal)>,
    /// Whether `current` is a kernel.
    is_kernel: bool,
    is_closed: bool,
}

#[derive(Clone)]
struct Best {
    trace: Arc<Trace>,
    score: u64,
}

impl Fuser {
    pub(super) fn new(device: RocmDevice, takes: Takes) -> Fuser {
        let trace =
            Trace { reduces: takes == Takes::Reductions, multiplies: takes == Takes::Product, ..Trace::default() };
        Fuser {
            device,
            takes,
            current: Arc::new(trace),
            best: None,
            names: Arc::default(),
            stopped: None,
            is_kernel: true,
            is_closed: false,
        }
    }

    /// Whether it takes nothing more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The plan of its kernels so far, if it has one.
    pub(super) fn plan(&self) -> Option<Plan> {
        let best = self.best.as_ref()?;
        let arrangements = best.trace.arrange().expect("it was arranged when it became the best");
        Some(plan(&best.trace, &arrangements))
    }

    fn name(&self) -> &'static str {
        match self.takes {
            Takes::Nothing => Kind::ElementWise.name(),
            Takes::Reductions => Kind::Reduce.name(),
            Takes::Product => Kind::Matmul.name(),
        }
    }

    fn try_fuse(&mut self, operation: &OperationIr) -> Result<(), Refusal> {
        let trace = Arc::make_mut(&mut self.current);
        if trace.operations >= MAX_OPERATIONS {
            return Err(Refusal::Full);
        }
        trace.take(operation)?;
        if trace.lacks_product() {
            return Err(Refusal::NoProduct);
        }
        let arrangements = trace.arrange().filter(|arrangements| trace.ends_product(arrangements));
        self.is_kernel = arrangements.is_some();
        // A kernel without what this fuser is for is another's.
        let is_ours = match self.takes {
            Takes::Nothing => true,
            Takes::Reductions => trace.has_reduction(),
            Takes::Product => trace.product.is_some(),
        };
        if let (true, Some(arrangements)) = (is_ours, arrangements) {
            let score = trace.score(&arrangements);
            self.best = Some(Best { trace: self.current.clone(), score });
        }
        let settled = self.best.as_ref().map_or(0, |best| best.trace.operations);
        if !self.is_kernel && self.current.operations - settled > MAX_PENDING { Err(Refusal::Stuck) } else { Ok(()) }
    }
}

impl OperationFuser<FusedKernel> for Fuser {
    fn fuse(&mut self, operation: &OperationIr) {
        if self.is_closed {
            return;
        }
        let name = report::name(operation);
        if let Err(reason) = self.try_fuse(operation) {
            self.is_closed = true;
            self.stopped = Some((name, reason));
            tracing::trace!(
                target: "rocfire::fusion",
                fuser = self.name(),
                taken = self.current.operations,
                kept = self.best.as_ref().map_or(0, |best| best.trace.operations),
                %reason,
                ?operation,
                "closed"
            );
        } else {
            Arc::make_mut(&mut self.names).push(name);
        }
    }

    fn finish(&mut self) -> FusedKernel {
        let plan = self.plan().expect("only a fuser that is ready is asked for its kernel");
        for kernel in &plan.kernels {
            tracing::debug!(
                target: "rocfire::fusion",
                kernel = kernel.graph.name(),
                operations = plan.operations,
                launches = kernel.launches,
                graph = %kernel.graph,
                "fused"
            );
        }
        let taken = plan.operations.min(self.names.len());
        // Operations behind the last kernel were followed in vain: the first of them is what the kernel did not take.
        let stopped = match self.names.get(taken) {
            Some(name) => Some((name.clone(), self.stopped.as_ref().map_or(Refusal::Stuck, |(_, reason)| *reason))),
            None => self.stopped.clone(),
        };
        let work = Work::Kernels(plan);
        let runs = report::record(&work, &self.names[..taken], stopped);
        FusedKernel::new(work, self.device, runs)
    }

    fn reset(&mut self) {
        *self = Fuser::new(self.device, self.takes);
    }

    fn status(&self) -> FuserStatus {
        // The search goes on, and merges blocks, as long as some fuser is open; what it has then is what it runs. So a fuser
        // is open only where stopping would leave a kernel. It still follows operations that make it one again.
        if self.is_closed || !self.is_kernel { FuserStatus::Closed } else { FuserStatus::Open }
    }

    fn properties(&self) -> FuserProperties {
        self.best
            .as_ref()
            .map_or_else(FuserProperties::default, |best| FuserProperties { score: best.score, ready: true })
    }

    fn len(&self) -> usize {
        self.best.as_ref().map_or(0, |best| best.trace.operations)
    }

    fn clone_dyn(&self) -> Box<dyn OperationFuser<FusedKernel>> {
        Box::new(self.clone())
    }
}
