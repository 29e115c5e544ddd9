//! The fuser that Burn's search asks.
//!
//! It follows what may come before an attention, and starts a reading at each product that may be one's scores. It calls
//! itself open while a reading goes on, so that the search brings it the operations that the reading waits for.

use std::sync::Arc;

use burn_fusion::{FuserProperties, FuserStatus, OperationFuser};
use burn_ir::{FloatOperationIr, OperationIr};

use super::apart::Apart;
use super::follow::Reading;
use super::plan::AttentionPlan;
use crate::RocmDevice;
use crate::fusion::optimization::{FusedKernel, Work};
use crate::fusion::refusal::Refusal;
use crate::fusion::report;
use crate::fusion::trace::Trace;

/// Most operations in a plan.
const MAX_OPERATIONS: usize = 256;
/// Most readings of one stream.
const MAX_READINGS: usize = 4;

/// See the module's description.
#[derive(Clone)]
pub(in crate::fusion) struct AttentionFuser {
    device: RocmDevice,
    /// What has come so far as views and elementwise operations, and as a product and its end, as long as it is such.
    leads: Vec<Arc<Trace>>,
    /// Operations that run first and by themselves, by their place.
    first: Vec<usize>,
    readings: Vec<Reading>,
    best: Option<Reading>,
    /// All that came.
    operations: Arc<Vec<OperationIr>>,
    /// Why the best plan's reading ended.
    stopped: Option<(String, Refusal)>,
}

impl AttentionFuser {
    pub(in crate::fusion) fn new(device: RocmDevice) -> AttentionFuser {
        let leads = [false, true].map(|multiplies| Arc::new(Trace { multiplies, ..Trace::default() }));
        AttentionFuser {
            device,
            leads: leads.into(),
            first: vec![],
            readings: vec![],
            best: None,
            operations: Arc::default(),
            stopped: None,
        }
    }

    /// Readings that start at this operation.
    fn start(&mut self, operation: &OperationIr) {
        let OperationIr::Float(_, FloatOperationIr::Matmul(product)) = operation else { return };
        for lead in &self.leads {
            // Before the first product both leads are the same, but for elementwise operations, which only one takes.
            let is_other = lead.multiplies && lead.product.is_none();
            if !is_other && self.readings.len() < MAX_READINGS {
                self.readings.extend(Reading::start(
                    self.first.clone(),
                    Arc::clone(lead),
                    product,
                    self.operations.len(),
                ));
            }
        }
    }

    fn follow(&mut self, operation: &OperationIr) {
        let mut readings = std::mem::take(&mut self.readings);
        readings.retain_mut(|reading| {
            if let Err(reason) = reading.take(operation) {
                tracing::trace!(target: "rocfire::fusion", fuser = AttentionPlan::NAME, %reason, ?operation, "closed");
                if self.best.is_some() && self.stopped.is_none() {
                    self.stopped = Some((report::name(operation), reason));
                }
                return false;
            }
            if reading.is_ready() {
                self.best = Some(reading.clone());
            }
            reading.goes_on()
        });
        // A plan that is there needs no other reading.
        if self.best.is_some() {
            readings.truncate(1);
        }
        self.readings = readings;
    }
}

impl OperationFuser<FusedKernel> for AttentionFuser {
    fn fuse(&mut self, operation: &OperationIr) {
        if self.operations.len() >= MAX_OPERATIONS || (self.leads.is_empty() && self.readings.is_empty()) {
            (self.leads, self.readings) = (vec![], vec![]);
            return;
        }
        Arc::make_mut(&mut self.operations).push(operation.clone());
        self.follow(operation);
        if self.best.is_none() {
            self.start(operation);
        }
        match operation {
            OperationIr::Init(_) => self.first.push(self.operations.len() - 1),
            _ => self.leads.retain_mut(|lead| Arc::make_mut(lead).take(operation).is_ok()),
        }
    }

    fn finish(&mut self) -> FusedKernel {
        let operations = &self.operations[..self.len()];
        let (apart, _) = Apart::new(self.device, operations);
        let work = match &self.best {
            Some(best) => Work::Attention(Box::new(best.plan(apart))),
            None => Work::Apart(apart),
        };
        tracing::debug!(target: "rocfire::fusion", kernel = work.name(), operations = operations.len(), "fused");
        let names: Vec<String> = operations.iter().map(report::name).collect();
        let runs = report::record(&work, &names, self.stopped.clone());
        FusedKernel::new(work, self.device, runs)
    }

    fn reset(&mut self) {
        *self = AttentionFuser::new(self.device);
    }

    fn status(&self) -> FuserStatus {
        if self.readings.is_empty() { FuserStatus::Closed } else { FuserStatus::Open }
    }

    fn properties(&self) -> FuserProperties {
        // What a reading would run if the program asked for results now; one that has ended leaves it to the others.
        match (&self.best, self.readings.is_empty()) {
            (Some(best), _) => FuserProperties { score: best.score(), ready: true },
            (None, true) => FuserProperties::default(),
            (None, false) => FuserProperties { score: Apart::new(self.device, &self.operations).1, ready: true },
        }
    }

    fn len(&self) -> usize {
        match (&self.best, self.readings.is_empty()) {
            (Some(best), _) => best.operations(),
            (None, true) => 0,
            (None, false) => self.operations.len(),
        }
    }

    fn clone_dyn(&self) -> Box<dyn OperationFuser<FusedKernel>> {
        Box::new(self.clone())
    }
}
