//! What was fused, what was not, and why: a record of every plan that the process has made.
//!
//! Plans are few (one for each form of a stream), so they are kept for as long as the process runs. Operations that no plan
//! has run one by one; the operation that ended a plan is named with the reason.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn_ir::OperationIr;

use super::optimization::Work;
use super::plan::Plan;
use super::refusal::Refusal;

/// A plan: operations of Burn's stream and the kernels that run them.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// Its name: that of the kernel which replaces most.
    pub name: &'static str,
    /// Burn's names of the operations that it runs, in order; views and drops are among them.
    pub operations: Vec<String>,
    /// Its kernels, in order.
    pub kernels: Vec<KernelReport>,
    /// The operation that was not taken, and why; `None` where the stream was asked for its results before one came.
    pub stopped: Option<(String, String)>,
    runs: Arc<AtomicU64>,
}

/// A kernel of a plan.
#[derive(Clone, Debug)]
pub struct KernelReport {
    /// Its name.
    pub name: &'static str,
    /// How many launches its operations would be one by one.
    pub launches_apart: usize,
    /// What it computes, as the text form of its graph; attention in words.
    pub graph: String,
}

impl PlanReport {
    /// How often it has run.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, run {} times: {}", self.name, self.runs(), self.operations.join(" "))?;
        for kernel in &self.kernels {
            writeln!(f, "    {} in place of {} launches", kernel.name, kernel.launches_apart)?;
        }
        match &self.stopped {
            Some((operation, reason)) => writeln!(f, "    not {operation}: {reason}"),
            None => writeln!(f, "    to the end of the stream"),
        }
    }
}

static PLANS: Mutex<Vec<PlanReport>> = Mutex::new(Vec::new());

/// Every plan that the process has made, in order.
pub fn plans() -> Vec<PlanReport> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Remembers a plan; what is returned counts its runs.
pub(super) fn record(work: &Work, operations: &[String], stopped: Option<(String, Refusal)>) -> Arc<AtomicU64> {
    let runs = Arc::new(AtomicU64::new(0));
    let report = PlanReport {
        name: work.name(),
        operations: operations.to_vec(),
        kernels: work.reports(),
        stopped: stopped.map(|(operation, reason)| (operation, reason.to_string())),
        runs: Arc::clone(&runs),
    };
    PLANS.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    runs
}

/// What the kernels of a plan are.
pub(super) fn kernels(plan: &Plan) -> impl Iterator<Item = KernelReport> + '_ {
    plan.kernels.iter().map(|kernel| KernelReport {
        name: kernel.kind.name(),
        launches_apart: kernel.launches,
        graph: kernel.graph.to_string(),
    })
}

/// Burn's name of an operation: `NumericFloat(F32, Add(BinaryOpIr {..` is an `Add`.
pub(super) fn name(operation: &OperationIr) -> String {
    let text = format!("{operation:?}");
    let head = text.split('{').next().unwrap_or_default();
    let mut words = head.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.rfind(|word| !word.ends_with("Ir")).unwrap_or("operation").to_owned()
}
