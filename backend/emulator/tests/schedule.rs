//! Waves run to their barrier, or take turns: code with all its barriers gives the same either way, code without them shows which
//! it was.

mod common;

use std::num::NonZeroU32;

use common::{Args, Bench};
use rocfire_emulator::{Counters, Error, FaultKind, Options, Schedule};

/// Threads of the kernels here: two waves.
const THREADS: usize = 128;

fn turns(instructions: u32) -> Schedule {
    Schedule::Turns(NonZeroU32::new(instructions).unwrap())
}

/// What a kernel of `tests/kernels/planted.hip` makes of 0, 1, 2, …
fn run(kernel: &str, options: Options) -> Option<Result<(Vec<u32>, Counters), Error>> {
    let bench = Bench::with_options("planted", options)?;
    let x = bench.upload(&(0..THREADS as u32).collect::<Vec<_>>());
    let done = bench.try_run(kernel, [1, 1, 1], [THREADS as u32, 1, 1], 0, &Args::new().with(x));
    Some(done.map(|counters| (bench.download(x, THREADS), counters)))
}

fn with(schedule: Schedule) -> Options {
    let mut options = Options::default();
    options.schedule = schedule;
    options
}

#[test]
fn code_that_relies_on_timing_is_right_in_short_turns_only() {
    let right: Vec<u32> = (0..THREADS as u32).map(|t| (t + 1) % THREADS as u32).collect();
    let Some(short) = run("shift_racing", with(turns(1))) else { return };
    assert_eq!(short.unwrap().0, right);
    // Wave 0 reads what wave 1 has not written yet: a pattern that no value is.
    for schedule in [Schedule::ToBarrier, turns(10_000)] {
        let (values, _) = run("shift_racing", with(schedule)).unwrap().unwrap();
        assert_eq!(values.iter().zip(&right).filter(|(value, right)| value != right).count(), 1, "{schedule:?}");
        assert_eq!(values[63], u32::MAX, "{schedule:?}");
    }
    for schedule in [Schedule::ToBarrier, turns(1), turns(7), turns(10_000)] {
        assert_eq!(run("shift", with(schedule)).unwrap().unwrap().0, right, "{schedule:?}");
        let mut checked = with(schedule);
        checked.checks.lds_races = true;
        let Err(Error::Fault(race)) = run("shift_racing", checked).unwrap() else { panic!("no race in {schedule:?}") };
        assert!(matches!(race.kind, FaultKind::LdsRace { .. }), "{race}");
    }
}

/// The instrumented loop has more steps, those without effect, and must end turns at the same instructions all the same.
#[test]
fn turns_end_at_the_same_instruction_in_both_loops() {
    let mut seen = Vec::new();
    for instructions in 1..60 {
        let options = with(turns(instructions));
        let Some(fast) = run("rounds_racing", options.clone()) else { return };
        let mut checked = options;
        checked.checks.waits = true;
        let (fast, watched) = (fast.unwrap(), run("rounds_racing", checked).unwrap().unwrap());
        assert_eq!(fast.0, watched.0, "turns of {instructions}");
        assert_eq!(fast.1, watched.1, "turns of {instructions}");
        seen.push(fast.0);
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 1, "the kernel does not depend on its turns, so this compares nothing");
}

/// A wave that waits for another's word waits for as many turns as it takes, and one that waits for nothing is found.
#[test]
fn waves_that_wait_for_each_other_get_on() {
    for schedule in [Schedule::ToBarrier, turns(1), turns(3), turns(1000)] {
        let Some(done) = run("pass_on", with(schedule)) else { return };
        assert_eq!(done.unwrap().0[..2], [20_000, 20_000], "{schedule:?}");
        let Err(Error::Fault(stuck)) = run("wait_for_nothing", with(schedule)).unwrap() else { panic!("no fault") };
        assert!(matches!(stuck.kind, FaultKind::EndlessWait(_)), "{stuck}");
    }
}
