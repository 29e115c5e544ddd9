//! A run of a kernel, and what is made of it: whether it is right, under which schedule of waves, and what the checks say.

use std::num::NonZeroU32;
use std::path::PathBuf;

use rocfire_emulator::{Checks, Error, FaultKind, Options, Profile, Schedule};

use crate::bench::{Bench, Unrun};

/// A code object of a package.
#[derive(Clone, Debug)]
pub struct Object {
    /// The architecture that it is for.
    pub arch: &'static str,
    /// Its path inside the package's folder of code objects.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Which of its kernels; `None` for the only one.
    pub kernel: Option<String>,
}

impl Object {
    /// The file's name without its ending.
    pub fn stem(&self) -> &str {
        let file = self.name.rsplit('/').next().unwrap_or(&self.name);
        file.strip_suffix(".co").unwrap_or(file)
    }
}

/// Launches the kernel and gives its [`distance`](crate::number::distance) from the reference.
pub type Run = dyn Fn(&Bench) -> Result<f64, Unrun> + Send + Sync;

/// One kernel on one shape.
pub struct Case {
    /// The code object.
    pub object: Object,
    /// The family of kernels.
    pub family: &'static str,
    /// The shape, for readers.
    pub shape: String,
    /// How far from the reference is still right.
    pub tolerance: f64,
    /// Whether it is run under the checks too.
    pub is_checked: bool,
    /// What it does.
    pub run: Box<Run>,
}

/// Schedules that are tried in this order until one is right. Turns of 20 instructions are of the length of what a SIMD of a GPU
/// issues of one wave while it waits for another's memory.
pub const SCHEDULES: [Schedule; 3] = [Schedule::ToBarrier, turns(20), turns(1)];

const fn turns(instructions: u32) -> Schedule {
    match NonZeroU32::new(instructions) {
        Some(instructions) => Schedule::Turns(instructions),
        None => Schedule::ToBarrier,
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The distance from the reference is within the tolerance.
    Right(f64),
    /// It is not.
    Wrong(f64),
    /// It was stopped, or could not start.
    Stopped(String),
}

/// What came of a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// By schedule, up to the first that is right.
    pub results: Vec<Outcome>,
    /// What the checks say under that schedule, or under the default one: one line each.
    pub reports: Vec<String>,
}

impl Verdict {
    /// The schedule under which it was right.
    pub fn right(&self) -> Option<Schedule> {
        let at = self.results.iter().position(|result| matches!(result, Outcome::Right(_)))?;
        Some(SCHEDULES[at])
    }
}

impl Case {
    /// Runs it under schedule after schedule until it is right, then, if asked to, under the checks.
    pub fn judge(&self, with_checks: bool) -> Verdict {
        let mut results = Vec::new();
        let mut right = Schedule::ToBarrier;
        for schedule in SCHEDULES {
            let result = match self.go(schedule, Checks::default()) {
                Ok(distance) if distance <= self.tolerance => Outcome::Right(distance),
                Ok(distance) => Outcome::Wrong(distance),
                Err(unrun) => Outcome::Stopped(unrun.to_string()),
            };
            let done = matches!(result, Outcome::Right(_));
            results.push(result);
            if done {
                right = schedule;
                break;
            }
        }
        let reports = if with_checks && self.is_checked { self.checked(right) } else { Vec::new() };
        Verdict { results, reports }
    }

    /// What the checks report: each that does ends the launch, so it is run once more without that one.
    fn checked(&self, schedule: Schedule) -> Vec<String> {
        let (mut checks, mut reports) = (Checks::ALL, Vec::new());
        // AMD's kernels let several waves load the same bytes to the same place.
        checks.equal_writes = false;
        while let Err(unrun) = self.go(schedule, checks) {
            let Unrun::Emulator(Error::Fault(fault)) = &unrun else { return reports };
            let check = match fault.kind {
                FaultKind::LdsRace { .. } => &mut checks.lds_races,
                FaultKind::GlobalRace { .. } => &mut checks.global_races,
                FaultKind::NotWaitedFor { .. } => &mut checks.waits,
                FaultKind::Unwritten { .. } => &mut checks.unwritten,
                _ => return reports,
            };
            if !std::mem::take(check) {
                return reports;
            }
            reports.push(unrun.to_string());
        }
        reports
    }

    /// What its launches count under the first schedule that is right; every workgroup runs, and the result is compared.
    ///
    /// # Errors
    /// [`Unrun`], with the distance from the reference where it is right under none.
    pub fn counted(&self) -> Result<Vec<Profile>, Unrun> {
        let mut wrong = Vec::new();
        for schedule in SCHEDULES {
            let mut options = options(schedule, Checks::default());
            options.threads = None;
            let bench = Bench::counting(&self.object, options)?;
            let distance = (self.run)(&bench)?;
            if distance <= self.tolerance {
                return Ok(bench.into_profiles());
            }
            wrong.push(distance);
        }
        Err(Unrun::Description(format!("wrong under every schedule: {wrong:?}, {} is allowed", self.tolerance)))
    }

    fn go(&self, schedule: Schedule, checks: Checks) -> Result<f64, Unrun> {
        (self.run)(&Bench::new(&self.object, options(schedule, checks))?)
    }
}

fn options(schedule: Schedule, checks: Checks) -> Options {
    let mut options = Options::default();
    options.threads = Some(1);
    options.schedule = schedule;
    options.checks = checks;
    // None of these kernels runs for long, and one that waits for what never comes is to end soon.
    options.step_limit = Options::steps_of(5);
    // Hand-written kernels let waves end while others wait at a barrier, as the hardware allows.
    options.strict_barriers = false;
    options
}
