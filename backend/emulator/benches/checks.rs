//! What checks and wave sizes cost: times of kernels of the usual kinds as multiples of the time without checks on waves of 64.
//! Run: `cargo bench -p rocfire-emulator --bench checks`. These are times of the emulator and say nothing about a GPU.

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

/// The least time of several runs on each device, taken in turns.
fn times(benches: &[Bench], case: &Case) -> Vec<Duration> {
    let (kernel, groups, make) = case;
    let args: Vec<Args> = benches.iter().map(|bench| make(bench).0).collect();
    let mut least = vec![Duration::MAX; benches.len()];
    for _ in 0..7 {
        for (i, bench) in benches.iter().enumerate() {
            let started = Instant::now();
            bench.run(kernel, *groups, 256, &args[i]);
            least[i] = least[i].min(started.elapsed());
        }
    }
    least
}

fn main() {
    let checks = [
        ("none", Checks::default()),
        ("unwritten", only(|checks| checks.unwritten = true)),
        ("lds-race", only(|checks| checks.lds_races = true)),
        ("global-race", only(|checks| checks.global_races = true)),
        ("waitcnt", only(|checks| checks.waits = true)),
        ("all", Checks::ALL),
    ];
    let Some(wide) = checks.iter().map(|(_, checks)| device("gfx942", 64, *checks)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let Some(narrow) = device("gfx1100", 32, Checks::default()) else { return };
    let benches: Vec<Bench> = wide.into_iter().chain([narrow]).collect();
    let names: Vec<&str> = checks.iter().map(|(name, _)| *name).skip(1).chain(["gfx1100"]).collect();
    println!("{:12} {:>10} {}", "kernel", "us", names.iter().map(|name| format!("{name:>12}")).collect::<String>());
    for case in &CASES {
        let times = times(&benches, case);
        let ratio = |time: &Duration| format!("{:>12.2}", time.as_secs_f64() / times[0].as_secs_f64());
        println!(
            "{:12} {:>10.0} {}",
            case.0,
            times[0].as_secs_f64() * 1e6,
            times[1..].iter().map(ratio).collect::<String>()
        );
    }
}
