//! Each check finds the defect that was planted for it, says all that is known about it, and is silent without it.

mod common;

use common::{Args, Bench};
use rocfire_arch::Arch;
use rocfire_emulator::{Checks, Counters, Error, Fault, FaultKind, Gpu, Live, Options};

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
    // Both lines, and who did the other.
    says(&race, &["read by wave 0 lane 63 at code offset", "planted.hip:5:", "planted.hip:10:"]);
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
fn writes_of_the_same_value_are_told_from_races() {
    let races = |checks: &mut Checks| checks.lds_races = true;
    let Some(bench) = Bench::with_options("planted", options(races)) else { return };
    let x = bench.upload(&[0u32; 128]);
    let args = Args::new().with(x);
    bench.run("mark_equal", 1, 128, &args);
    assert_eq!(bench.download::<u32>(x, 128), [7; 128]);
    let race = fault(bench.try_run("mark_different", [1, 1, 1], [128, 1, 1], 0, &args));
    says(&race, &["race on LDS: write with no barrier after write by wave 0"]);
    let all = |checks: &mut Checks| (checks.lds_races, checks.equal_writes) = (true, true);
    let Some(bench) = Bench::with_options("planted", options(all)) else { return };
    let args = Args::new().with(bench.upload(&[0u32; 128]));
    let race = fault(bench.try_run("mark_equal", [1, 1, 1], [128, 1, 1], 0, &args));
    says(&race, &["race on LDS: write of the bytes that are there with no barrier after write by wave 0"]);
    let race = fault(bench.try_run("mark_different", [1, 1, 1], [128, 1, 1], 0, &args));
    assert!(!race.to_string().contains("bytes that are there"), "{race}");
}

#[test]
fn workgroups_on_the_same_bytes_race_unless_atomics_order_them() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.global_races = true)) else { return };
    let x = bench.upload(&[0u32; 64 * 4 + 64]);
    let args = Args::new().with(x);
    let race = fault(bench.try_run("spill_over", [4, 1, 1], [64, 1, 1], 0, &args));
    says(&race, &["race between workgroups: write after write by workgroup (0, 0, 0)", "workgroup (1, 0, 0)"]);
    says(&race, &["offset 256 of the 1280-byte block", "planted.hip:57:"]);
    assert_eq!(race.to_string().matches("planted.hip:57:").count(), 2, "{race}");
    says(&race, &["write by workgroup (0, 0, 0) wave 0 lane 63 at code offset"]);
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
    // For the arguments, for the word from device memory, for the store to LDS before the barrier, for the word from LDS.
    assert_eq!(counters, ["lgkmcnt", "vmcnt", "lgkmcnt", "lgkmcnt"], "{found:#?}");
    says(&found[0], &["s0 read before the wait (lgkmcnt)", "s_load_dwordx2", "shift", "planted.hip:"]);
    says(&found[1], &["v2 read before the wait (vmcnt) for the load that fills it, `global_load_dword", "ds_write"]);
    says(
        &found[2],
        &["LDS at 0x", "read after a barrier that wave", "reached without the wait (lgkmcnt) for its store"],
    );
    says(&found[2], &["`ds_write_b32", "`ds_read_b32"]);
    says(&found[3], &["`ds_read_b32", "global_store_dword", "lanes 0-63"]);
}

#[test]
fn what_nobody_wrote_is_reported_where_it_matters() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.unwritten = true)) else { return };
    let out = bench.gpu.allocate(512).unwrap();
    // Forty words of 64 are written.
    let half = bench.gpu.allocate(256).unwrap();
    bench.gpu.write(half, bytemuck::cast_slice(&[5u32; 40])).unwrap();
    let run = |kernel: &str, block: u32, args: &Args| bench.try_run(kernel, [1, 1, 1], [block, 1, 1], 0, args);
    let both = || Args::new().with(out).with(half);

    let stored = fault(run("copy_words", 64, &both().with(64i32)));
    says(&stored, &["a value stored to device memory depends on device memory that nobody wrote, read at code offset"]);
    says(&stored, &["`global_load_dword", "planted.hip:", "lanes 40-63", "offset 160 of the 256-byte block"]);
    assert_eq!(stored.address, Some(half + 160));
    run("copy_words", 64, &both().with(40i32)).unwrap();

    let address = fault(run("follow", 64, &both()));
    says(&address, &["the address depends on device memory that nobody wrote", "global_store_dword", "lanes 40-63"]);
    let lanes = fault(run("branch_lanes", 64, &both()));
    says(&lanes, &["which lanes go on depends on device memory that nobody wrote", "lanes 40-63"]);
    let nothing = bench.gpu.allocate(4).unwrap();
    let branch = fault(run("branch_on", 64, &Args::new().with(out).with(nothing)));
    says(&branch, &["the branch depends on device memory that nobody wrote", "`s_load_dword", "s_cbranch"]);
    says(&branch, &["offset 0 of the 4-byte block"]);
    let count = fault(run("count", 64, &Args::new().with(nothing)));
    assert!(matches!(count.kind, FaultKind::OutOfBounds(_)), "{count}");
    let counts = bench.gpu.allocate(16).unwrap();
    let count = fault(run("count", 64, &Args::new().with(counts)));
    says(&count, &["the result of an atomic depends on device memory that nobody wrote", "global_atomic_add"]);
    bench.gpu.fill(counts, 0, 16).unwrap();
    run("count", 64, &Args::new().with(counts)).unwrap();

    let lds = fault(run("half_of_lds", 128, &Args::new().with(out)));
    says(&lds, &["a value stored to device memory depends on LDS at 0x1fc, which nobody wrote", "`ds_read_b32"]);
    let words = bench.gpu.allocate(512).unwrap();
    bench.gpu.write(words, bytemuck::cast_slice(&[5u32; 100])).unwrap();
    let through = fault(run("through_lds", 128, &Args::new().with(out).with(words)));
    says(
        &through,
        &["a value stored to device memory depends on LDS at 0x1fc, which an undefined value was stored to"],
    );
    bench.gpu.fill(words, 0, 512).unwrap();
    run("through_lds", 128, &Args::new().with(out).with(words)).unwrap();
    let zeros = bench.upload(&[0u32; 64]);
    let scratch = fault(run("private_room", 64, &Args::new().with(out).with(zeros).with(0i32)));
    says(&scratch, &["depends on scratch at", "which nobody wrote"]);
}

#[test]
fn what_nobody_wrote_may_be_read_where_it_does_not_matter() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.unwritten = true)) else { return };
    let (out, bytes) = (bench.gpu.allocate(256).unwrap(), bench.gpu.allocate(256).unwrap());
    for word in 0..64 {
        bench.gpu.write(bytes + 4 * word, &[word as u8]).unwrap();
    }
    bench.run("low_bytes", 1, 64, &Args::new().with(out).with(bytes));
    assert_eq!(bench.download::<u32>(out, 64)[63], 63 | 63 << 24);
    bench.gpu.write(bytes, bytemuck::cast_slice(&[5u32; 40])).unwrap();
    bench.run("select_first", 1, 64, &Args::new().with(out).with(bytes).with(40i32));
    bench.run("move_pair", 1, 64, &Args::new().with(out).with(bytes).with(0i32));
    assert_eq!(bench.download::<u32>(out, 64)[63], 63);
    let moved =
        fault(bench.try_run("move_pair", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(out).with(bytes).with(1i32)));
    says(&moved, &["a value stored to device memory depends on device memory that nobody wrote", "lanes 40-63"]);
    // A copy on the device copies what is known of the bytes.
    let copy = bench.gpu.allocate(256).unwrap();
    bench.gpu.copy(copy, bytes, 256).unwrap();
    bench.run("copy_words", 1, 64, &Args::new().with(out).with(copy).with(40i32));
    let args = Args::new().with(out).with(copy).with(41i32);
    assert_eq!(fault(bench.try_run("copy_words", [1, 1, 1], [64, 1, 1], 0, &args)).address, Some(copy + 161));
    // A block that is handed out again has been written by nobody.
    bench.gpu.mark(copy, 256, Live::Requested(256)).unwrap();
    let args = Args::new().with(out).with(copy).with(1i32);
    assert_eq!(fault(bench.try_run("copy_words", [1, 1, 1], [64, 1, 1], 0, &args)).address, Some(copy));
}

/// `v_lshlrev_b32_e32 v1, 2, v0`.
const SHIFT_INTO_V1: [u8; 4] = 0x2402_0082u32.to_le_bytes();

#[test]
fn a_register_that_nobody_wrote_is_named() {
    let Some(mut object) = common::compile("planted") else { return };
    // Without the shift that makes them, addresses are what is in v1.
    let at = (0..object.len() / 4).map(|word| 4 * word).filter(|&at| object[at..at + 4] == SHIFT_INTO_V1);
    let places: Vec<_> = at.collect();
    assert!(!places.is_empty());
    for at in places {
        object[at..at + 4].copy_from_slice(&S_NOP);
    }
    let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), options(|checks| checks.unwritten = true)).unwrap();
    let bench = Bench { module: gpu.load(&object).unwrap(), gpu };
    let x = bench.upload(&[1u32; 128]);
    let found = fault(bench.try_run("shift", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(x)));
    says(
        &found,
        &["the address depends on v1, which nobody wrote, in shift", "`global_load_dword v2, v1", "lanes 0-63"],
    );
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

#[test]
fn a_shuffle_from_a_lane_that_is_off_is_reported_where_it_matters() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.shuffles = true)) else { return };
    let x = bench.upload(&std::array::from_fn::<u32, 64, _>(|i| i as u32));
    let args = |on: i32, guarded: i32| Args::new().with(x).with(on).with(guarded);
    let shuffle = fault(bench.try_run("from_the_next_lane", [1, 1, 1], [64, 1, 1], 0, &args(40, 0)));
    assert!(matches!(shuffle.kind, FaultKind::Unwritten { .. }), "{shuffle}");
    assert_eq!((shuffle.lane, shuffle.lanes), (Some(39), 1 << 39));
    says(&shuffle, &["a value stored to device memory depends on v", " of lane 40, which is off", "ds_bpermute_b32"]);
    // Nobody looks at what comes from there; all lanes are on, and lane 63 reads lane 0.
    bench.run("from_the_next_lane", 1, 64, &args(40, 1));
    bench.run("from_the_next_lane", 1, 64, &args(64, 0));
}

#[test]
fn private_memory_ends_where_the_frame_does() {
    let Some(bench) = Bench::with_options("planted", options(|checks| checks.unwritten = true)) else { return };
    let out = bench.gpu.allocate(256).unwrap();
    let run = |at: i32| {
        let args = Args::new().with(out).with(at);
        bench.try_run("private_past_the_end", [1, 1, 1], [64, 1, 1], 0, &args)
    };
    run(7).unwrap();
    // The frame may have padding behind the array, and there only what nobody wrote is noticed.
    for at in [8, 9, 16, 1000] {
        let past = fault(run(at));
        let told = matches!(past.kind, FaultKind::ScratchOutOfBounds { .. } | FaultKind::Unwritten { .. });
        assert!(told && (at < 16 || matches!(past.kind, FaultKind::ScratchOutOfBounds { .. })), "{at}: {past}");
        says(&past, &["private_past_the_end", "planted.hip:"]);
    }
}

#[test]
fn a_load_to_lds_marks_all_that_it_brings() {
    for (arch, sizes) in [("gfx942", &[1usize, 2, 4][..]), ("gfx950", &[1, 2, 4, 12, 16])] {
        let Some(object) = common::compile_for("to_lds", arch, 64) else { return };
        let bench = Bench::load(&object, arch, options(|checks| *checks = Checks::ALL));
        for (kind, &size) in
            ["global", "buffer"].into_iter().flat_map(|kind| sizes.iter().map(move |size| (kind, size)))
        {
            let (name, words) = (format!("{kind}_{size}"), size.div_ceil(4));
            let bytes: Vec<u8> = (0..64 * size).map(|i| (i * 7 + 3) as u8).collect();
            let (x, out) = (bench.upload(&bytes), bench.upload(&vec![0u32; 64 * words]));
            bench.run(&name, 1, 64, &Args::new().with(x).with(out).with(0i32));
            let lanes = bytes.chunks(size).flat_map(|lane| {
                lane.chunks(4).map(|word| word.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte)))
            });
            assert_eq!(bench.download::<u32>(out, 64 * words), lanes.collect::<Vec<_>>(), "{name} on {arch}");
            // One word further on, the last lane at least reads what was not loaded.
            let behind = bench.try_run(&name, [1, 1, 1], [64, 1, 1], 0, &Args::new().with(x).with(out).with(1i32));
            says(&fault(behind), &["depends on LDS at", "which nobody wrote", &name]);
        }
    }
}
