//! Collecting operations: what Burn's search asks of a fuser.
//!
//! There is one. It takes every operation that is a kernel or a view by itself, as many as come, and `partition` makes kernels
//! of them at the end; so Burn's search has nothing to choose. Where a stretch ends depends on the operations alone: at one that
//! does not fuse, where the results are asked for, in a long stream at a place that comes again with the next step, and where a
//! call has come several times on tensors that have nothing to do with each other (`repeats`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn_fusion::{FuserProperties, FuserStatus, OperationFuser};
use burn_ir::{FloatOperationIr, OperationIr, TensorId};

use super::assign::is_in_place;
use super::optimization::FusedKernel;
use super::partition::{draws, is_piece, pieces};
use super::refusal::Refusal;
use super::repeats::Repeats;
use super::report;
use crate::RocmDevice;

/// From so many operations on a stretch ends behind tensors that are dropped: an optimizer's step does so with what it replaces.
const STEP_LEAST: usize = 256;

/// From so many on it ends before the next matrix product: in a stream that nobody reads from, the device has work and memory is
/// given back. A step of a transformer with twelve blocks is about 6000 operations.
const PRODUCT_LEAST: usize = 4096;

/// Collects operations into kernels.
#[derive(Clone)]
pub(super) struct Fuser {
    device: RocmDevice,
    /// Shared with the clones that the search makes until one of them goes on.
    operations: Arc<Vec<OperationIr>>,
    is_closed: bool,
    /// Whether some fuser of the search has closed: then all stop, so that what comes next is not put before it.
    is_over: Arc<AtomicBool>,
    /// What all fusers of the search have taken: Burn gives a call that has nothing to do with the others a fuser of its own.
    repeats: Arc<Mutex<Repeats>>,
}

impl Fuser {
    pub(super) fn new(device: RocmDevice) -> Fuser {
        Fuser { device, operations: Arc::default(), is_closed: false, is_over: Arc::default(), repeats: Arc::default() }
    }

    fn admit(&self, operation: &OperationIr) -> Result<(), Refusal> {
        let is_drop = |operation: &OperationIr| matches!(operation, OperationIr::Drop(_));
        let is_product = matches!(operation, OperationIr::Float(_, FloatOperationIr::Matmul(_)));
        let (count, follows_drop) = (self.operations.len(), self.operations.last().is_some_and(is_drop));
        match operation {
            OperationIr::Drop(_) if count == 0 => Err(Refusal::Empty),
            OperationIr::Drop(_) => Ok(()),
            // A tensor from the host is there already: what computes with others goes on around it.
            OperationIr::Init(_) => Ok(()),
            _ if count >= STEP_LEAST && follows_drop => Err(Refusal::Full),
            _ if count >= PRODUCT_LEAST && is_product => Err(Refusal::Full),
            _ if is_in_place(operation, |id| self.makes(id)) => Err(Refusal::InPlace),
            _ => is_piece(operation),
        }
    }

    fn makes(&self, id: TensorId) -> bool {
        self.operations.iter().any(|operation| operation.outputs().any(|tensor| tensor.id == id))
    }
}

impl OperationFuser<FusedKernel> for Fuser {
    fn fuse(&mut self, operation: &OperationIr) {
        if self.is_closed {
            return;
        }
        match self.admit(operation) {
            Ok(()) => {
                Arc::make_mut(&mut self.operations).push(operation.clone());
                let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
                if repeats.take(operation) && repeats.is_loop() {
                    self.is_closed = true;
                    self.is_over.store(true, Ordering::Relaxed);
                    tracing::trace!(target: "rocfire::fusion", taken = self.operations.len(), "closed behind a repetition");
                }
            }
            Err(reason) => {
                self.is_closed = true;
                self.is_over.store(true, Ordering::Relaxed);
                let taken = self.operations.len();
                report::end(operation, reason);
                tracing::trace!(target: "rocfire::fusion", taken, %reason, ?operation, "closed");
            }
        }
    }

    fn finish(&mut self) -> FusedKernel {
        let pieces = pieces(&self.operations).into_iter().map(|piece| {
            for kernel in piece.work.kernels() {
                tracing::debug!(
                    target: "rocfire::fusion",
                    kernel = kernel.graph.name(),
                    operations = piece.operations.len(),
                    launches = kernel.launches,
                    graph = %kernel.graph,
                    "fused"
                );
            }
            let name = |at: usize| report::name(&self.operations[at]);
            let stopped = piece.stopped.map(|(at, reason)| (name(at), reason));
            let used = report::record(&piece.work, piece.operations.iter().copied().map(name).collect(), stopped);
            (piece.work, used)
        });
        FusedKernel::new(pieces.collect(), self.operations.len(), draws(&self.operations), self.device)
    }

    fn reset(&mut self) {
        self.operations = Arc::default();
        self.is_closed = false;
        // The clones of this search have these for themselves.
        (self.is_over, self.repeats) = (Arc::default(), Arc::default());
    }

    fn status(&self) -> FuserStatus {
        if self.is_closed || self.is_over.load(Ordering::Relaxed) { FuserStatus::Closed } else { FuserStatus::Open }
    }

    fn properties(&self) -> FuserProperties {
        let count = self.operations.len();
        FuserProperties { score: count as u64, ready: count > 0 }
    }

    fn len(&self) -> usize {
        self.operations.len()
    }

    fn clone_dyn(&self) -> Box<dyn OperationFuser<FusedKernel>> {
        Box::new(self.clone())
    }
}
