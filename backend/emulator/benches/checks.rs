//! What checks and wave sizes cost: times of kernels of the usual kinds as multiples of the time without checks on waves of 64;
//! `with-all` is gfx1100 with all checks.
//! Run: `cargo bench -p rocfire-emulator --bench checks`; with names of kernels and columns behind `--`, those only.
//! These are times of the emulator and say nothing about a GPU.

#[path = "../tests/cost/cases.rs"]
mod cases;
#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use cases::{CASES, Case, device};
use common::{Args, Bench};
use rocfire_emulator::Checks;

fn only(set: impl Fn(&mut Checks)) -> Checks {
    let mut checks = Checks::default();
    set(&mut checks);
    checks
}

/// How long a kernel is run, on all devices together.
const SPENT: Duration = Duration::from_secs(3);

/// Least number of turns.
const TURNS: usize = 7;

/// The least time of a run on each device, taken in turns: that of a moment when nothing else ran on the host.
fn times(benches: &[Bench], case: &Case) -> Vec<Duration> {
    let (kernel, groups, make) = case;
    let args: Vec<Args> = benches.iter().map(|bench| make(bench).0).collect();
    let mut least = vec![Duration::MAX; benches.len()];
    let (begun, mut turns) = (Instant::now(), 0);
    while turns < TURNS || begun.elapsed() < SPENT {
        turns += 1;
        for (i, bench) in benches.iter().enumerate() {
            let started = Instant::now();
            bench.run(kernel, *groups, 256, &args[i]);
            least[i] = least[i].min(started.elapsed());
        }
    }
    least
}

/// The devices that are compared with the first: name, architecture, lanes of a wave, checks.
fn devices() -> Vec<(&'static str, &'static str, u32, Checks)> {
    vec![
        ("none", "gfx942", 64, Checks::default()),
        ("unwritten", "gfx942", 64, only(|checks| checks.unwritten = true)),
        ("lds-race", "gfx942", 64, only(|checks| checks.lds_races = true)),
        ("global-race", "gfx942", 64, only(|checks| checks.global_races = true)),
        ("waitcnt", "gfx942", 64, only(|checks| checks.waits = true)),
        ("all", "gfx942", 64, Checks::ALL),
        ("gfx1100", "gfx1100", 32, Checks::default()),
        ("with-all", "gfx1100", 32, Checks::ALL),
    ]
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    // All of them if none is named.
    let is_asked = |name: &str, all: &[&str]| {
        asked.iter().any(|asked| asked == name) || !asked.iter().any(|asked| all.contains(&asked.as_str()))
    };
    let mut columns = devices();
    let names: Vec<&str> = columns.iter().map(|column| column.0).collect();
    columns.retain(|column| column.0 == "none" || is_asked(column.0, &names));
    let benches: Option<Vec<Bench>> =
        columns.iter().map(|&(_, arch, wave, checks)| device(arch, wave, checks)).collect();
    let Some(benches) = benches else { return };
    let names: String = columns[1..].iter().map(|(name, ..)| format!("{name:>12}")).collect();
    println!("{:12} {:>10} {names}", "kernel", "us");
    let kernels = CASES.map(|case| case.0);
    for case in CASES.iter().filter(|case| is_asked(case.0, &kernels)) {
        let times = times(&benches, case);
        let ratio = |time: &Duration| format!("{:>12.2}", time.as_secs_f64() / times[0].as_secs_f64());
        let ratios: String = times[1..].iter().map(ratio).collect();
        println!("{:12} {:>10.0} {ratios}", case.0, times[0].as_secs_f64() * 1e6);
    }
}
