//! Collecting operations: what Burn's search asks of a fuser.
//!
//! There are two, one that takes reductions and one that does not; which kernel comes of the first is known at the end.
//! Both follow the stream as long as it can become a kernel and remember the last point where it was one.

use std::sync::Arc;

use burn_fusion::{FuserProperties, FuserStatus, OperationFuser};
use burn_ir::OperationIr;

use super::optimization::FusedKernel;
use super::plan::{Kind, plan};
use super::refusal::Refusal;
use super::trace::Trace;
use crate::RocmDevice;

/// Most operations that a fuser follows beyond the last kernel. The search hands over whole blocks, which only their last
/// operation may join to the rest.
const MAX_PENDING: usize = 48;

/// Most operations in a plan.
const MAX_OPERATIONS: usize = 256;

/// Collects elementwise operations, and if asked to reductions, into kernels.
#[derive(Clone)]
pub(super) struct Fuser {
    device: RocmDevice,
    reduces: bool,
    /// Shared with the clones that the search makes until one of them goes on.
    current: Arc<Trace>,
    best: Option<Best>,
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
    /// A fuser of elementwise operations alone.
    pub(super) fn element_wise(device: RocmDevice) -> Fuser {
        Fuser::new(device, false)
    }

    /// A fuser of elementwise operations around reductions over one set of axes.
    pub(super) fn reduce(device: RocmDevice) -> Fuser {
        Fuser::new(device, true)
    }

    fn new(device: RocmDevice, reduces: bool) -> Fuser {
        Fuser {
            device,
            reduces,
            current: Arc::new(Trace { reduces, ..Trace::default() }),
            best: None,
            is_kernel: true,
            is_closed: false,
        }
    }

    fn name(&self) -> &'static str {
        if self.reduces { Kind::Reduce.name() } else { Kind::ElementWise.name() }
    }

    fn try_fuse(&mut self, operation: &OperationIr) -> Result<(), Refusal> {
        let trace = Arc::make_mut(&mut self.current);
        if trace.operations >= MAX_OPERATIONS {
            return Err(Refusal::Full);
        }
        trace.take(operation)?;
        let arrangements = trace.arrange();
        self.is_kernel = arrangements.is_some();
        // A kernel without a reduction is the other fuser's.
        let is_ours = !self.reduces || trace.has_reduction();
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
        if let Err(reason) = self.try_fuse(operation) {
            self.is_closed = true;
            tracing::trace!(
                target: "rocfire::fusion",
                fuser = self.name(),
                taken = self.current.operations,
                kept = self.best.as_ref().map_or(0, |best| best.trace.operations),
                %reason,
                ?operation,
                "closed"
            );
        }
    }

    fn finish(&mut self) -> FusedKernel {
        let best = self.best.as_ref().expect("only a fuser that is ready is asked for its kernel");
        let arrangements = best.trace.arrange().expect("it was arranged when it became the best");
        let plan = plan(&best.trace, &arrangements);
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
        FusedKernel::new(plan, self.device)
    }

    fn reset(&mut self) {
        *self = Fuser::new(self.device, self.reduces);
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
