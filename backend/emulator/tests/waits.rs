//! Waves and workgroups that wait for others: those that may are served, a wait that will never end is told of at
//! once, and one that only the host could end after the step limit's time.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Args, Bench};
use rocfire_arch::Arch;
use rocfire_emulator::{Checks, Error, Fault, FaultKind, Gpu, Options};

fn fault(result: Result<rocfire_emulator::Counters, Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

fn says(fault: &Fault, parts: &[&str]) {
    let text = fault.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// How long the host is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Devices on which the same must come out: with one thread and several, and with all checks.
fn devices() -> Vec<Bench> {
    // In LDS nothing tells an atomic store from another one, and the check takes a hand-over for a race.
    let mut all = Checks::ALL;
    all.lds_races = false;
    let options = [(1, Checks::default()), (4, Checks::default()), (2, all)].map(|(threads, checks)| {
        let mut options = Options::default();
        (options.threads, options.checks) = (Some(threads), checks);
        options.step_limit = Options::steps_of(PATIENCE.as_secs());
        options
    });
    let on = |arch: &'static str, wave, options: &Options| {
        let object = common::compile_for("faults", arch, wave)?;
        Some(Bench::load(&object, arch, options.clone()))
    };
    let gfx942 = options.iter().filter_map(|options| on("gfx942", 64, options));
    gfx942.chain(on("gfx1100", 32, &options[0])).chain(on("gfx1201", 32, &options[2])).collect()
}

/// Far below what the instructions of a step limit take.
const AT_ONCE: Duration = Duration::from_secs(5);

#[test]
fn a_wait_for_what_nobody_writes_is_told_of() {
    for bench in devices() {
        let flag = bench.upload(&[0u32; 16]);
        let started = Instant::now();
        let wait = fault(bench.try_run("spin", [3, 1, 1], [128, 1, 1], 0, &Args::new().with(flag + 8)));
        let took = started.elapsed();
        assert!((PATIENCE..AT_ONCE + PATIENCE).contains(&took), "{took:?}");
        let FaultKind::EndlessWait(found) = wait.kind else { panic!("{wait}") };
        let waves = 128 / bench.module.kernel("spin").unwrap().wave_size() - 1;
        assert_eq!((found.reads, found.waves, found.workgroups), (Some("device memory"), waves, 2));
        assert_eq!((wait.address, wait.bytes, wait.workgroup), (Some(flag + 8), 4, [0, 0, 0]));
        says(&wait, &["endless wait: device memory is read over and over", "spin", "faults.hip:", "load"]);
        says(&wait, &["2 other workgroups wait too", "4 bytes at 0x", "offset 8 of the 64-byte block"]);
        // The device stays usable.
        bench.gpu.fill(flag, 1, 64).unwrap();
        bench.run("spin", 3, 128, &Args::new().with(flag + 8));
    }
}

#[test]
fn a_loop_without_end_is_told_of_at_once() {
    for bench in devices() {
        let endless = fault(bench.try_run("loop_for_ever", [1, 1, 1], [64, 1, 1], 0, &Args::new()));
        let FaultKind::EndlessWait(found) = endless.kind else { panic!("{endless}") };
        assert_eq!((found.reads, found.workgroups), (None, 0));
        says(&endless, &["endless loop, which reads and changes nothing", "loop_for_ever"]);
    }
}

#[test]
fn waves_of_a_workgroup_wait_for_each_other() {
    for bench in devices() {
        let out = bench.upload(&[0u32; 256]);
        bench.run("chain_of_waves", 1, 256, &Args::new().with(out).with(-1i32));
        let turns: Vec<u32> = (0..4).map(|wave| 3 - wave).collect();
        let seen = bench.download::<u32>(out, 256);
        assert!((0..4).all(|wave| seen[64 * wave] == turns[wave]), "{seen:?}");
        let started = Instant::now();
        let wait = fault(bench.try_run("chain_of_waves", [1, 1, 1], [256, 1, 1], 0, &Args::new().with(out).with(2i32)));
        assert!(started.elapsed() < PATIENCE, "nobody else has LDS: {:?}", started.elapsed());
        let FaultKind::EndlessWait(found) = wait.kind else { panic!("{wait}") };
        assert_eq!(found.reads, Some("LDS"), "{wait}");
        assert_eq!(wait.wave, 0);
    }
}

#[test]
fn workgroups_wait_for_each_other() {
    for bench in devices() {
        let groups = 40;
        let (out, turn) = (bench.upload(&vec![0u32; groups]), bench.upload(&[0u32]));
        let args = Args::new().with(out).with(turn).with(groups as i32);
        bench.run("chain_of_groups", groups as u32, 64, &args);
        let expected: Vec<u32> = (0..groups as u32).rev().collect();
        assert_eq!(bench.download::<u32>(out, groups), expected);
        let (groups, rounds) = (13u32, 5);
        let (out, arrived) = (bench.upload(&vec![0u32; 2 * groups as usize]), bench.upload(&[0u32]));
        let args = Args::new().with(out).with(arrived).with(groups as i32).with(rounds);
        bench.run("meet", groups, 128, &args);
        let sums = bench.download::<u32>(out, 2 * groups as usize);
        assert_eq!(sums[groups as usize..], vec![1 + 2 + 3 + 4 + 5; groups as usize]);
    }
}

#[test]
fn a_program_that_needs_more_workgroups_at_a_time_than_there_is_room_for_hangs() {
    let mut options = Options::default();
    options.step_limit = Options::steps_of(PATIENCE.as_secs());
    let Some(bench) = Bench::with_options("faults", options) else { return };
    // One wave too many on each of the 304 compute units.
    let groups = 304 * 16 + 1;
    let (out, turn) = (bench.upload(&vec![0u32; groups]), bench.upload(&[0u32]));
    let args = Args::new().with(out).with(turn).with(groups as i32);
    let started = Instant::now();
    let wait = fault(bench.try_run("chain_of_groups", [groups as u32, 1, 1], [512, 1, 1], 0, &args));
    assert!(started.elapsed() < 12 * AT_ONCE, "{:?}", started.elapsed());
    let FaultKind::EndlessWait(found) = wait.kind else { panic!("{wait}") };
    assert!(found.without_room > 0, "{wait}");
    says(&wait, &["have no room on the device before one ends"]);
}

#[test]
fn turns_that_differ_let_others_run_too() {
    let mut options = Options::default();
    options.threads = Some(1);
    let Some(object) = common::compile("faults") else { return };
    let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), options).unwrap();
    let bench = Bench { module: gpu.load(&object).unwrap(), gpu };
    let words = bench.upload(&[0u32; 4]);
    // Workgroup 0 counts until workgroup 1 writes.
    bench.run("count_until_written", 2, 64, &Args::new().with(words));
    assert_eq!(bench.download::<u32>(words, 1), [1]);
    assert!(bench.download::<u32>(words, 2)[1] > 0);
}

#[test]
fn the_host_may_write_what_a_kernel_waits_for_to_memory_that_both_have() {
    let Some(bench) = Bench::new("faults") else { return };
    let address = bench.gpu.allocate_shared(64).unwrap();
    // SAFETY: the block is aligned, lives to the end of the test, and is reached by atomics only.
    let flag = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            flag.store(1, Ordering::SeqCst);
        });
        bench.run("spin", 2, 128, &Args::new().with(address));
    });
    bench.gpu.free(address).unwrap();
}

#[test]
fn the_host_may_write_what_a_kernel_waits_for_to_memory_of_the_device() {
    for bench in devices() {
        let flag = bench.upload(&[0u32; 16]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(PATIENCE / 3);
                bench.gpu.write(flag, &1u32.to_le_bytes()).unwrap();
            });
            bench.run("spin", 2, 128, &Args::new().with(flag));
        });
    }
}
