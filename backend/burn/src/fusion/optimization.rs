//! Kernels as they are kept for a stretch of operations, and run for every one of the same form.

use std::sync::Arc;
use std::time::Instant;

use rocfire_kernels::random::Seed;

use super::attention::AttentionPlan;
use super::bindings::Bindings;
use super::execute::{draw, execute};
use super::plan::{Kernel, Plan};
use super::report;
use crate::RocmDevice;

/// Operations that run together.
#[derive(Clone)]
pub(super) enum Work {
    /// Kernels made of the operations.
    Kernels(Plan),
    /// The kernel of a pattern.
    Attention(Box<AttentionPlan>),
}

impl Work {
    /// Its kernels that are made of operations.
    pub(super) fn kernels(&self) -> &[Kernel] {
        match self {
            Work::Kernels(plan) => &plan.kernels,
            Work::Attention(_) => &[],
        }
    }
}

/// A stretch of operations that runs as a few launches.
pub(crate) struct FusedKernel {
    /// In the order in which they run, each with its use for [`super::plans`].
    pieces: Vec<(Work, Arc<report::Use>)>,
    /// Random tensors that they draw.
    draws: usize,
    device: RocmDevice,
}

impl FusedKernel {
    pub(super) fn new(pieces: Vec<(Work, Arc<report::Use>)>, draws: usize, device: RocmDevice) -> FusedKernel {
        FusedKernel { pieces, draws, device }
    }

    /// Runs the operations: what they make has handles then, or errors.
    pub(crate) fn run(&self, bindings: &mut Bindings) {
        let draws: Vec<Seed> = draw(&self.device, self.draws);
        for (work, used) in &self.pieces {
            let start = Instant::now();
            match work {
                Work::Kernels(plan) => execute(plan, &self.device, &draws, bindings),
                Work::Attention(plan) => plan.execute(&self.device, bindings),
            }
            used.add(start.elapsed());
        }
    }
}
