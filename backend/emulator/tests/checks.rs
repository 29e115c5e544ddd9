//! Each check finds the defect that was planted for it, says all that is known about it, and is silent without it.

mod common;

use common::{Args, Bench};
use rocfire_arch::Arch;
use rocfire_emulator::{Checks, Counters, Error, Fault, FaultKind, Gpu, Options};

fn options(set: impl Fn(&mut Checks)) -> Options {
    let mut options = Options::default();
    set(&mut options.checks);
    options
}

fn fault(result: Result<Counters, Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

/// That the text has all these parts.
fn says(fault: &Fault, parts: &[&str]) {
    let text = fault.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn a_missing_barrier_is_a_race_that_names_both_sides() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.lds_races = true)) else { return };
    let x = bench.upload(&[1u32; 128]);
    let args = Args::new().with(x);
    let race = fault(bench.try_run("shift_racing", [1, 1, 1], [128, 1, 1], 0, &args));
    // Wave 0 has read the first word of wave 1's part before wave 1 writes it.
    assert_eq!((race.wave, race.lane, race.address), (1, Some(0), Some(256)));
    says(&race, &["race on LDS: write with no barrier after read by wave 0", "ds_read_b32", "ds_write_b32"]);
    says(&race, &["shift_racing", "planted.hip:", "workgroup (0, 0, 0), wave 1, lane 0", "4 bytes at 0x100"]);
    let race = fault(bench.try_run("rounds_racing", [1, 1, 1], [128, 1, 1], 0, &args));
    assert!(matches!(race.kind, FaultKind::LdsRace { .. }), "{race}");
    let race = fault(bench.try_run("count_in_lds_racing", [1, 1, 1], [128, 1, 1], 0, &args));
    says(&race, &["race on LDS: atomic with no barrier after write by wave 0"]);
    // In one wave there is none.
    bench.run("count_in_lds_racing", 1, 64, &args);
    bench.run("shift", 3, 128, &Args::new().with(bench.upload(&[1u32; 3 * 128])));
    bench.run("count_in_lds", 1, 128, &args);
}

#[test]
fn workgroups_on_the_same_bytes_race_unless_atomics_order_them() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.global_races = true)) else { return };
    let x = bench.upload(&[0u32; 64 * 4 + 64]);
    let args = Args::new().with(x);
    let race = fault(bench.try_run("spill_over", [4, 1, 1], [64, 1, 1], 0, &args));
    says(&race, &["race between workgroups: write after write by workgroup (0, 0, 0)", "workgroup (1, 0, 0)"]);
    says(&race, &["offset 256 of the 1280-byte block", "planted.hip:"]);
    assert_eq!((race.address, race.lane), (Some(x + 256), Some(0)));
    let race = fault(bench.try_run("read_next", [4, 1, 1], [64, 1, 1], 0, &args));
    says(&race, &["race between workgroups: write after read by workgroup (0, 0, 0)"]);
    bench.run("spill_over", 1, 64, &args);
    let (parts, done) = (bench.upload(&[0u32; 4]), bench.upload(&[0u32]));
    bench.run("last_adds_up", 4, 64, &Args::new().with(x).with(parts).with(done));
    assert_eq!(bench.download::<u32>(x, 1), [10]);
}

/// Byte offsets of the words with these upper 16 bits.
fn words_with(object: &[u8], high: u16) -> Vec<usize> {
    (0..object.len() / 4)
        .map(|word| 4 * word)
        .filter(|&at| u16::from_le_bytes([object[at + 2], object[at + 3]]) == high)
        .collect()
}

/// The upper half of `s_waitcnt`, and the word of `s_nop 0`.
const S_WAITCNT: u16 = 0xbf8c;
const S_NOP: [u8; 4] = 0xbf80_0000u32.to_le_bytes();

#[test]
fn every_wait_that_guards_a_register_is_missed_when_it_is_gone() {
    let Some(object) = common::compile("planted") else { return };
    let mut found = Vec::new();
    for at in words_with(&object, S_WAITCNT) {
        let mut patched = object.clone();
        patched[at..at + 4].copy_from_slice(&S_NOP);
        let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), options(|checks| checks.waits = true)).unwrap();
        let bench = Bench { module: gpu.load(&patched).unwrap(), gpu };
        let x = bench.upload(&[1u32; 128]);
        match bench.try_run("shift", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(x)) {
            Ok(_) => {}
            Err(Error::Fault(fault)) => found.push(*fault),
            other => panic!("{other:?}"),
        }
    }
    let counters: Vec<_> = found
        .iter()
        .map(|fault| match &fault.kind {
            FaultKind::NotWaitedFor { counter, overwrites: false, .. } => *counter,
            other => panic!("{other:?}"),
        })
        .collect();
    // For the arguments, for the word from device memory, for the one from LDS.
    assert_eq!(counters, ["lgkmcnt", "vmcnt", "lgkmcnt"], "{found:#?}");
    says(&found[0], &["s0 read before the wait (lgkmcnt)", "s_load_dwordx2", "shift", "planted.hip:"]);
    says(&found[1], &["v2 read before the wait (vmcnt) for the load that fills it, `global_load_dword", "ds_write"]);
    says(&found[2], &["`ds_read_b32", "global_store_dword", "lanes 0-63"]);
}

#[test]
fn results_and_counts_are_the_same_with_all_checks() {
    let Some(plain) = Bench::new("planted") else { return };
    let Some(checked) = Bench::with_options("planted", options(|checks| *checks = Checks::ALL)) else { return };
    let run = |bench: &Bench| {
        let x = bench.upload(&(0..128).collect::<Vec<u32>>());
        let counters = bench.run("shift", 1, 128, &Args::new().with(x));
        (counters, bench.download::<u32>(x, 128))
    };
    assert_eq!(run(&plain), run(&checked));
}
