//! The kernels of a stretch as they are kept, and run for every later stretch of the same form.

use std::sync::Arc;
use std::time::Instant;

use rocfire_kernels::random::Seed;

use super::attention::AttentionPlan;
use super::bindings::Bindings;
use super::execute::{draw, execute};
use super::plan::{Kernel, Plan};
use super::report;
use crate::RocmDevice;

/// What runs for operations that run together.
#[derive(Clone)]
pub(super) enum Work {
    /// Kernels made of the operations.
    Kernels(Plan),
    /// The kernel of written-out attention.
    Attention(Box<AttentionPlan>),
}

impl Work {
    /// Its kernels that are made of the operations; none for attention.
    pub(super) fn kernels(&self) -> &[Kernel] {
        match self {
            Work::Kernels(plan) => &plan.kernels,
            Work::Attention(_) => &[],
        }
    }
}

/// A stretch of operations that runs as a few launches.
pub(crate) struct FusedKernel {
    /// What runs, in order, each with its counters for [`super::plans`].
    pieces: Vec<(Work, Arc<report::Use>)>,
    /// How many random tensors the stretch draws.
    draws: usize,
    device: RocmDevice,
}

impl FusedKernel {
    pub(super) fn new(pieces: Vec<(Work, Arc<report::Use>)>, draws: usize, device: RocmDevice) -> FusedKernel {
        FusedKernel { pieces, draws, device }
    }

    /// Runs the stretch. Afterwards every tensor that it makes has a handle or an error.
    pub(crate) fn run(&self, bindings: &mut Bindings) {
        // A device that cannot be opened is an error of each tensor.
        let Ok(device) = self.device.open() else { return self.run_pieces(bindings) };
        let ended = device.stream().together(|| {
            self.run_pieces(bindings);
            Instant::now()
        });
        // Launches that were held have gone to the driver since.
        bindings.launching += ended.elapsed();
    }

    fn run_pieces(&self, bindings: &mut Bindings) {
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
