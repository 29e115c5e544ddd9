//! Reports what was fused, what was not, and why, from a record of every plan that the process has made.
//!
//! Plans are few (one for each form of a stretch), so they are kept for as long as the process runs. Operations that are in no plan
//! run one by one. A plan names the operation that ended it, with the reason; so does the list of operations that ended a whole
//! stretch. [`explain`] has all of it in words.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burn_ir::OperationIr;

use super::attention::AttentionPlan;
use super::optimization::Work;
use super::refusal::Refusal;

/// A plan: operations that run together, and the kernels that run them.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// Its name: that of the kernel which replaces most launches.
    pub name: &'static str,
    /// Burn's names of the operations that it runs, in order; views and drops are among them.
    pub operations: Vec<String>,
    /// Its kernels, in order.
    pub kernels: Vec<KernelReport>,
    /// The first operation that reads a tensor which the plan reads or computes, and that did not join, and why. `None` if there was
    /// none before the results were asked for.
    pub stopped: Option<(String, String)>,
    used: Arc<Use>,
}

/// Counters of a plan's runs.
#[derive(Debug, Default)]
pub(super) struct Use {
    runs: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Use {
    /// Adds a run that took so long on the host.
    pub(super) fn add(&self, took: Duration) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
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
        self.used.runs.load(Ordering::Relaxed)
    }

    /// How long all its runs took on the host, which finds and allocates tensors and gives launches to the driver.
    pub fn host_time(&self) -> Duration {
        Duration::from_nanos(self.used.nanoseconds.load(Ordering::Relaxed))
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.host_time().as_secs_f64() * 1e3;
        let operations = self.operations.join(" ");
        writeln!(f, "{}, run {} times in {milliseconds:.3} ms of the host: {operations}", self.name, self.runs())?;
        for kernel in &self.kernels {
            writeln!(f, "    {} in place of {} launches", kernel.name, kernel.launches_apart)?;
        }
        match &self.stopped {
            Some((operation, reason)) => writeln!(f, "    not {operation}: {reason}"),
            None => writeln!(f, "    and nothing else that would have joined"),
        }
    }
}

/// The operations that ended a stretch, with the reasons.
static ENDS: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

static PLANS: Mutex<Vec<PlanReport>> = Mutex::new(Vec::new());

/// Every plan that the process has made, oldest first.
pub fn plans() -> Vec<PlanReport> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What became of the operations so far, in words. It says how many launches the plans have made, and in place of how many; for each
/// plan that has run its kernels, operations and host time, and which operation it did not take and why; and the operations that no
/// kernel computes, behind which kernels begin anew.
///
/// Launches are counted as plans ask for them: a reduction of very long rows, which takes two, counts as one; joined launches count
/// each; copies of tensors that do not lie as a kernel reads them do not count.
///
/// Meant for the end of a program that trains or infers: `println!("{}", rocfire_burn::explain())`. `cargo explain plan MODEL` in
/// rocfire's repository prints it of some models.
pub fn explain() -> String {
    let plans: Vec<PlanReport> = plans().into_iter().filter(|plan| plan.runs() > 0).collect();
    let sum = |launches: &dyn Fn(&PlanReport) -> usize| -> u64 {
        plans.iter().map(|plan| plan.runs() * launches(plan) as u64).sum()
    };
    let (made, apart) =
        (sum(&|plan| plan.kernels.len()), sum(&|plan| plan.kernels.iter().map(|kernel| kernel.launches_apart).sum()));
    let mut text = format!("{} plans have run: {made} launches in place of {apart}\n", plans.len());
    for plan in &plans {
        let _ = write!(text, "{plan}");
    }
    let ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    if !ends.is_empty() {
        text.push_str("operations that ended a stretch, behind which kernels begin anew:\n");
        for (operation, reason) in ends.iter() {
            let _ = writeln!(text, "    {operation}: {reason}");
        }
    }
    text
}

/// Remembers that an operation ended a stretch.
pub(super) fn end(operation: &OperationIr, reason: Refusal) {
    // These reasons only end a long stretch, or say that a drop came first: no operation was left out.
    if matches!(reason, Refusal::Full | Refusal::Empty) {
        return;
    }
    let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    ends.insert((name(operation), reason.to_string()));
}

/// Remembers a plan, and returns the counters of its runs.
pub(super) fn record(work: &Work, operations: Vec<String>, stopped: Option<(String, Refusal)>) -> Arc<Use> {
    let used = Arc::new(Use::default());
    let made = work.kernels().iter().map(|kernel| KernelReport {
        name: kernel.kind.name(),
        launches_apart: kernel.launches,
        graph: kernel.graph.to_string(),
    });
    let (name, kernels) = match work {
        Work::Kernels(plan) => (plan.kind.name(), made.collect()),
        Work::Attention(plan) => (AttentionPlan::NAME, vec![plan.report()]),
    };
    let report = PlanReport {
        name,
        operations,
        kernels,
        stopped: stopped.map(|(operation, reason)| (operation, reason.to_string())),
        used: Arc::clone(&used),
    };
    PLANS.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    used
}

/// Burn's name of an operation: `NumericFloat(F32, Add(BinaryOpIr {..` is an `Add`.
pub(super) fn name(operation: &OperationIr) -> String {
    let text = format!("{operation:?}");
    let head = text.split('{').next().unwrap_or_default();
    let mut words = head.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.rfind(|word| !word.ends_with("Ir")).unwrap_or("operation").to_owned()
}
