//! Each check finds on the RDNA line what was planted for it, with waves of 32 lanes and of 64, and is silent without it.

mod common;

use common::{Args, Bench};
use rocfire_emulator::{Checks, Counters, Error, Fault, FaultKind, Options};

/// A GPU of each generation that counts waits in its own way.
const TARGETS: [&str; 3] = ["gfx1030", "gfx1100", "gfx1201"];
const WAVES: [u32; 2] = [32, 64];
/// Work-items of a workgroup.
const ITEMS: u32 = 128;

fn options(set: impl Fn(&mut Checks)) -> Options {
    let mut options = Options::default();
    set(&mut options.checks);
    options
}

/// Runs `test` on every target with the planted kernels.
fn everywhere(set: impl Fn(&mut Checks), test: impl Fn(&Bench, &str, u32)) {
    for target in TARGETS {
        for wave in WAVES {
            let Some(object) = common::compile_for("planted", target, wave) else { return };
            println!("{target}, waves of {wave}");
            test(&Bench::load(&object, target, options(&set)), target, wave);
        }
    }
}

fn fault(result: Result<Counters, Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn says(fault: &Fault, parts: &[&str]) {
    let text = fault.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

fn one_group(bench: &Bench, kernel: &str, items: u32, args: &Args) -> Result<Counters, Error> {
    bench.try_run(kernel, [1, 1, 1], [items, 1, 1], 0, args)
}

#[test]
fn races_on_lds_and_between_workgroups_are_found() {
    let races = |checks: &mut Checks| (checks.lds_races, checks.global_races) = (true, true);
    everywhere(races, |bench, _, wave| {
        let x = bench.upload(&[1u32; 64 * 4 + 64]);
        let args = Args::new().with(x);
        let race = fault(one_group(bench, "shift_racing", ITEMS, &args));
        // The first wave has read the first word of the second one's part.
        assert_eq!((race.wave, race.lane, race.address), (1, Some(0), Some(4 * u64::from(wave))));
        says(&race, &["race on LDS: write with no barrier after read by wave 0", "shift_racing", "planted.hip:"]);
        let race = fault(one_group(bench, "rounds_racing", ITEMS, &args));
        assert!(matches!(race.kind, FaultKind::LdsRace { .. }), "{race}");
        let race = fault(one_group(bench, "count_in_lds_racing", ITEMS, &args));
        says(&race, &["race on LDS: atomic with no barrier after write by wave 0"]);
        let race = fault(bench.try_run("spill_over", [4, 1, 1], [64, 1, 1], 0, &args));
        says(&race, &["race between workgroups: write after write by workgroup (0, 0, 0)", "workgroup (1, 0, 0)"]);
        let race = fault(bench.try_run("read_next", [4, 1, 1], [64, 1, 1], 0, &args));
        says(&race, &["race between workgroups: write after read by workgroup (0, 0, 0)"]);
    });
}

#[test]
fn what_nobody_wrote_is_found() {
    everywhere(
        |checks| checks.unwritten = true,
        |bench, _, _| {
            let out = bench.gpu.allocate(512).unwrap();
            // Forty words of 64 are written.
            let half = bench.gpu.allocate(256).unwrap();
            bench.gpu.write(half, bytemuck::cast_slice(&[5u32; 40])).unwrap();
            let both = || Args::new().with(out).with(half);
            let stored = fault(one_group(bench, "copy_words", 64, &both().with(64i32)));
            says(&stored, &["a value stored to device memory depends on device memory that nobody wrote"]);
            assert_eq!(stored.address, Some(half + 160));
            one_group(bench, "copy_words", 64, &both().with(40i32)).unwrap();
            let address = fault(one_group(bench, "follow", 64, &both()));
            says(&address, &["the address depends on device memory that nobody wrote", "global_store_"]);
            let lanes = fault(one_group(bench, "branch_lanes", 64, &both()));
            says(&lanes, &["which lanes go on depends on device memory that nobody wrote"]);
            let nothing = bench.gpu.allocate(4).unwrap();
            let branch = fault(one_group(bench, "branch_on", 64, &Args::new().with(out).with(nothing)));
            says(&branch, &["the branch depends on device memory that nobody wrote", "s_cbranch"]);
            let lds = fault(one_group(bench, "half_of_lds", ITEMS, &Args::new().with(out)));
            says(&lds, &["depends on LDS at 0x1", "which nobody wrote"]);
            let zeros = bench.upload(&[0u32; 64]);
            let scratch = fault(one_group(bench, "private_room", 64, &Args::new().with(out).with(zeros).with(0i32)));
            says(&scratch, &["depends on scratch at", "which nobody wrote"]);
        },
    );
}

#[test]
fn a_register_that_nobody_wrote_is_found_through_dpp8_and_in_either_half_of_a_pair() {
    everywhere(
        |checks| checks.unwritten = true,
        |bench, target, wave| {
            let out = bench.gpu.allocate(256).unwrap();
            let lanes = fault(one_group(bench, "lanes_of_nothing", 64, &Args::new().with(out)));
            says(
                &lanes,
                &["a value stored to device memory depends on v50, which nobody wrote", "dpp8:[1,0,3,2,5,4,7,6]"],
            );
            if target == "gfx1030" || wave == 64 {
                return;
            }
            one_group(bench, "pair_of_nothing", 64, &Args::new().with(out).with(0i32)).unwrap();
            assert_eq!(bench.download::<u32>(out, 64), [7; 64]);
            let second = fault(one_group(bench, "pair_of_nothing", 64, &Args::new().with(out).with(1i32)));
            says(
                &second,
                &["depends on v51, which nobody wrote", "v_dual_mov_b32 v54, v52 :: v_dual_mov_b32 v55, v51"],
            );
        },
    );
}

/// The upper halves of the instructions that wait: `s_waitcnt` and `s_waitcnt_vscnt`, or one for each counter.
fn waits(target: &str) -> &'static [u16] {
    match target {
        "gfx1030" => &[0xbf8c, 0xbbfd],
        "gfx1100" => &[0xbf89, 0xbc7c],
        _ => &[0xbfc0, 0xbfc1, 0xbfc6, 0xbfc7, 0xbfc8, 0xbfc9],
    }
}

/// What is found in `kernel` when each wait in turn is a `s_nop` instead.
fn missed(target: &str, wave: u32, kernel: &str) -> Option<Vec<Fault>> {
    let object = common::compile_for("planted", target, wave)?;
    let mut found = Vec::new();
    for at in (0..object.len() / 4).map(|word| 4 * word) {
        if !waits(target).contains(&u16::from_le_bytes([object[at + 2], object[at + 3]])) {
            continue;
        }
        let mut patched = object.clone();
        patched[at..at + 4].copy_from_slice(&0xbf80_0000u32.to_le_bytes());
        let bench = Bench::load(&patched, target, options(|checks| checks.waits = true));
        let (x, room) = (bench.upload(&[1u32; ITEMS as usize]), bench.upload(&[0u32; ITEMS as usize]));
        let args = Args::new().with(x);
        let args = if kernel == "shift_outside" { args.with(room) } else { args };
        match one_group(&bench, kernel, ITEMS, &args) {
            Ok(_) => {}
            Err(Error::Fault(fault)) => found.push(*fault),
            other => panic!("{other:?}"),
        }
    }
    Some(found)
}

fn counters(found: &[Fault]) -> Vec<&'static str> {
    let counter = |fault: &Fault| match &fault.kind {
        FaultKind::NotWaitedFor { counter, .. } => *counter,
        other => panic!("{other:?}"),
    };
    found.iter().map(counter).collect()
}

#[test]
fn every_wait_is_missed_when_it_is_gone() {
    for target in TARGETS {
        let split = target == "gfx1201";
        for wave in WAVES {
            let Some(found) = missed(target, wave, "shift") else { return };
            // For the arguments, the word from device memory, the store to LDS before the barrier, the word from LDS.
            let expected = match split {
                true => ["kmcnt", "loadcnt", "dscnt", "dscnt"],
                false => ["lgkmcnt", "vmcnt", "lgkmcnt", "lgkmcnt"],
            };
            assert_eq!(counters(&found), expected, "{target} {wave}: {found:#?}");
            says(&found[2], &["LDS at 0x", "read after a barrier that wave", "for its store, `ds_", "`ds_"]);
            let Some(found) = missed(target, wave, "shift_outside") else { return };
            // For the arguments, the word, the store to device memory before the barrier, the word behind it.
            let expected = match split {
                true => ["kmcnt", "loadcnt", "storecnt", "loadcnt"],
                false => ["lgkmcnt", "vmcnt", "vscnt", "vmcnt"],
            };
            assert_eq!(counters(&found), expected, "{target} {wave}: {found:#?}");
            says(
                &found[2],
                &["device memory at 0x", "read after a barrier that wave", "`global_store_", "-byte block"],
            );
        }
    }
}

#[test]
fn kernels_without_defect_pass_every_check() {
    everywhere(
        |checks| *checks = Checks::ALL,
        |bench, _, _| {
            let values: Vec<u32> = (0..ITEMS).collect();
            let (x, room) = (bench.upload(&values), bench.upload(&values));
            bench.run("shift", 1, ITEMS, &Args::new().with(x));
            let shifted: Vec<u32> = (0..ITEMS).map(|t| (t + 1) % ITEMS).collect();
            assert_eq!(bench.download::<u32>(x, ITEMS as usize), shifted);
            bench.run("shift_outside", 1, ITEMS, &Args::new().with(x).with(room));
            assert_eq!(bench.download::<u32>(room, ITEMS as usize), shifted);
            bench.run("count_in_lds", 1, ITEMS, &Args::new().with(x));
            let (parts, done) = (bench.upload(&[0u32; 4]), bench.upload(&[0u32]));
            bench.run("last_adds_up", 4, 64, &Args::new().with(x).with(parts).with(done));
            assert_eq!(bench.download::<u32>(x, 1), [10]);
        },
    );
}
