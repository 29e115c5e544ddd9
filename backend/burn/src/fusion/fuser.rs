//! Collects operations: decides what joins a stretch, and where a stretch ends.
//!
//! A [`Fuser`] takes every operation that is a kernel or a view by itself, and `partition` makes kernels of all of them at the end.
//! Where a stretch ends depends on the operations alone: before one that does not fuse; where results are asked for; in a long
//! stream, at a point that comes again in the next step; and where a call has come several times on unrelated tensors (`repeats`).

use burn_ir::{FloatOperationIr, OperationIr, TensorId};

use super::assign::is_in_place;
use super::optimization::FusedKernel;
use super::partition::{draws, is_piece, pieces};
use super::recompute::Recipe;
use super::refusal::Refusal;
use super::repeats::Repeats;
use super::report;
use crate::RocmDevice;

/// A stretch with at least so many operations ends behind dropped tensors. An optimizer's step drops the tensors that it replaces.
const STEP_LEAST: usize = 256;

/// A stretch with at least so many operations ends before the next matrix product. So the device gets work, and memory is given back,
/// even if nobody reads a result. A step of a transformer with twelve blocks is about 6000 operations.
const PRODUCT_LEAST: usize = 4096;

/// What [`Fuser::take`] did with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It joins the stretch.
    Joins,
    /// It joins the stretch and ends it.
    Closes,
    /// It does not join: the stretch ends before it.
    Refused,
}

/// Collects the operations of one stretch.
pub(crate) struct Fuser {
    device: RocmDevice,
    operations: Vec<OperationIr>,
    repeats: Repeats,
}

impl Fuser {
    pub(crate) fn new(device: RocmDevice) -> Fuser {
        Fuser { device, operations: Vec::new(), repeats: Repeats::default() }
    }

    /// Takes an operation, if it can. It is not called again after an operation was refused or has closed the stretch.
    pub(crate) fn take(&mut self, operation: &OperationIr) -> Taken {
        let count = self.operations.len();
        if let Err(reason) = self.admit(operation) {
            report::end(operation, reason);
            tracing::trace!(target: "rocfire::fusion", taken = count, %reason, ?operation, "closed");
            return Taken::Refused;
        }
        self.operations.push(operation.clone());
        self.repeats.take(operation);
        if self.repeats.is_loop() {
            tracing::trace!(target: "rocfire::fusion", taken = count + 1, "closed behind a repetition");
            return Taken::Closes;
        }
        Taken::Joins
    }

    /// The kernels of the operations that it has taken. They do not keep what is computed again later.
    pub(crate) fn finish(self, recomputed: &[Recipe]) -> FusedKernel {
        for recipe in recomputed {
            let operations = recipe.operations.len();
            tracing::debug!(target: "rocfire::fusion", tensor = ?recipe.tensor.id, operations, "computed again when it is read");
        }
        let pieces = pieces(&self.operations, recomputed).into_iter().map(|piece| {
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
        FusedKernel::new(pieces.collect(), draws(&self.operations), self.device)
    }

    fn admit(&self, operation: &OperationIr) -> Result<(), Refusal> {
        let is_drop = |operation: &OperationIr| matches!(operation, OperationIr::Drop(_));
        let is_product = matches!(operation, OperationIr::Float(_, FloatOperationIr::Matmul(_)));
        let (count, follows_drop) = (self.operations.len(), self.operations.last().is_some_and(is_drop));
        match operation {
            OperationIr::Drop(_) if count == 0 => Err(Refusal::Empty),
            OperationIr::Drop(_) => Ok(()),
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
