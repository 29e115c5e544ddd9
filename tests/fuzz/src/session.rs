//! A session: programs until the time is over, what they found, and the counts.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::choice::Choices;
use crate::machine::{Family, quiet_panics};
use crate::make::{Made, separate, several};
use crate::report::Report;
use crate::run::{Done, Found, check};
use crate::shrink::shrink;

/// How long a failing program is made smaller.
pub(crate) const SHRINKING: Duration = Duration::from_secs(40);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long.
    pub time: Duration,
    /// Where every program comes from.
    pub seed: u64,
    /// Only this program.
    pub at: Option<u64>,
    /// Only operators whose name holds this.
    pub operator: Option<String>,
    /// Defects after which the session ends.
    pub most_found: usize,
    /// Whether the counts are told operator by operator.
    pub tells_all: bool,
}

/// Runs a family. The number of defects comes back.
pub fn run<F: Family>(family: &F, plan: &Plan) -> usize {
    quiet_panics();
    let named = |at: &usize| plan.operator.as_ref().is_none_or(|name| family.rows()[*at].name.contains(name.as_str()));
    let rows: Vec<usize> = (0..family.rows().len()).filter(named).collect();
    if rows.is_empty() {
        println!("{}: no operator has {} in its name", family.name(), plan.operator.as_deref().unwrap_or_default());
        return 0;
    }
    let bar = ProgressBar::new(plan.time.as_secs());
    bar.set_style(ProgressStyle::with_template("{prefix} {elapsed_precise} {wide_bar} {msg}").expect("a constant"));
    bar.set_prefix(family.name());
    let mut report = Report::default();
    let mut told: Vec<(Option<usize>, crate::run::Fault)> = Vec::new();
    let start = Instant::now();
    let mut number = plan.at.unwrap_or(0);
    while report.programs == 0 || plan.at.is_none() && start.elapsed() < plan.time && report.found < plan.most_found {
        let began = Instant::now();
        let make = |choices: &mut Choices| made(family, &rows, number, choices);
        let mut choices = Choices::drawn(program_seed(plan.seed, number));
        let made = make(&mut choices);
        let mut done = Done::default();
        let outcome = check(family, &made.program, &mut done);
        report.add(&made, done, began.elapsed());
        if let Err(found) = outcome {
            // One tale for each operator and kind of fault: the next of them is most likely the same defect.
            let kind = (found.row, found.fault);
            if !told.contains(&kind) {
                told.push(kind);
                report.found += 1;
                let shrunk = shrink(family, choices.into_record(), found, SHRINKING, make);
                bar.suspend(|| tell(family, plan, number, &shrunk.program, &shrunk.found));
            }
        }
        number += 1;
        bar.set_position(start.elapsed().as_secs());
        bar.set_message(format!("{} programs, {} found", report.programs, report.found));
    }
    bar.finish_and_clear();
    print!("{}", report.text(family.name(), family.rows(), plan.tells_all));
    report.found
}

/// Every other program is one operator, each in its turn.
fn made<F: Family>(family: &F, rows: &[usize], number: u64, choices: &mut Choices) -> Made {
    if number.is_multiple_of(2) {
        // A stride that is prime to the count visits every row.
        let turn = (number / 2).wrapping_mul(7919) % rows.len() as u64;
        separate(family, rows[turn as usize], choices)
    } else {
        let together: Vec<usize> =
            rows.iter().copied().filter(|&row| !family.differs_together(&family.rows()[row])).collect();
        if together.is_empty() { separate(family, rows[0], choices) } else { several(family, &together, choices) }
    }
}

/// SplitMix64 of both.
pub(crate) fn program_seed(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn tell<F: Family>(family: &F, plan: &Plan, number: u64, program: &crate::program::Program, found: &Found) {
    let row = found.row.map_or("an input", |row| family.rows()[row].name);
    println!("== found: {:?} in {row} of {}\n{}", found.fault, family.name(), found.said);
    let only = plan.operator.as_ref().map_or(String::new(), |name| format!(" --operator {name}"));
    println!("repeat: cargo fuzz-ops --family {} --seed {} --at {number}{only}", family.name(), plan.seed);
    println!("{}", program.summary(family.rows()));
    let name = format!("fuzz_{}_{}_{number}", family.name().replace('-', "_"), plan.seed);
    println!("{}", family.print(program, &name));
}
