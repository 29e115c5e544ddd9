//! Operations as the other fusers have them, one plan after the other: what runs where a reading comes to nothing.
//!
//! Burn's search runs what a block has when the program asks for results, and what no plan covers then runs one by one. A
//! reading that waits for the end of an attention must have an answer at any time: this one, over everything that it has
//! taken. The same runs where shapes or scalars turn out to be none of the kernel's.

use burn_fusion::OperationFuser;
use burn_fusion::stream::{Context, OrderedExecution};
use burn_ir::OperationIr;
use serde::{Deserialize, Serialize};

use crate::RocmDevice;
use crate::fusion::execute::execute;
use crate::fusion::fuser::{Fuser, Takes};
use crate::fusion::handle::Handle;
use crate::fusion::plan::Plan;
use crate::fusion::runtime::RocmRuntime;

/// See the module's description.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::fusion) struct Apart {
    segments: Vec<Segment>,
    pub(in crate::fusion) operations: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Segment {
    Kernels(Plan),
    /// The operation of this place, by itself.
    Alone(usize),
}

impl Apart {
    /// All of `operations`, and how much better the plans are than the operations one by one.
    pub(super) fn new(device: RocmDevice, operations: &[OperationIr]) -> (Apart, u64) {
        let (mut apart, mut score) = (Apart { segments: vec![], operations: operations.len() }, 0);
        let mut at = 0;
        while at < operations.len() {
            let mut fusers = Takes::ALL.map(|takes| Fuser::new(device, takes));
            for operation in &operations[at..] {
                fusers.iter_mut().for_each(|fuser| fuser.fuse(operation));
                if fusers.iter().all(Fuser::is_closed) {
                    break;
                }
            }
            // The first of the best, as Burn's search chooses.
            let best = fusers.iter().filter(|fuser| fuser.len() > 0).rev().max_by_key(|fuser| fuser.properties().score);
            match best.and_then(Fuser::plan) {
                Some(plan) => {
                    at += plan.operations;
                    score += best.map_or(0, |fuser| fuser.properties().score);
                    apart.segments.push(Segment::Kernels(plan));
                }
                None => {
                    apart.segments.push(Segment::Alone(at));
                    at += 1;
                }
            }
        }
        (apart, score)
    }

    pub(in crate::fusion) fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Kernels(plan) => Some(plan),
            Segment::Alone(_) => None,
        })
    }

    pub(in crate::fusion) fn execute(
        &self,
        device: &RocmDevice,
        context: &mut Context<Handle>,
        execution: &OrderedExecution<RocmRuntime>,
    ) {
        for segment in &self.segments {
            match segment {
                Segment::Kernels(plan) => execute(plan, device, context),
                Segment::Alone(at) => execution.operation_within_optimization(*at).execute(&mut context.handles),
            }
        }
    }
}
