//! What a program can hand over wrongly is an error that says what was expected, and what was there.

mod common;

use common::{Args, Bench};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use rocfire_arch::Arch;
use rocfire_emulator::{Error, Gpu, Options};

fn gpu(arch: &str) -> Gpu {
    Gpu::new(Arch::parse(arch).unwrap(), Options::default()).unwrap()
}

/// Why a code object cannot be loaded.
fn unloadable(arch: &str, object: &[u8]) -> String {
    match gpu(arch).load(object) {
        Err(Error::BadCodeObject { reason }) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was loaded"),
    }
}

/// Why a launch is refused.
fn refused(bench: &Bench, kernel: &str, grid: [u32; 3], block: [u32; 3], lds: u32, args: &Args) -> String {
    match bench.try_run(kernel, grid, block, lds, args) {
        Err(Error::BadLaunch { kernel: name, reason }) => {
            assert_eq!(name, kernel);
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_no_code_object_is_refused_with_the_reason() {
    let nothing = unloadable("gfx942", b"");
    assert!(nothing.starts_with("not a 64-bit ELF"), "{nothing}");
    let text = unloadable("gfx942", b"#!/bin/sh\necho a script that is long enough to be an ELF header by its size\n");
    assert!(text.starts_with("not a 64-bit ELF"), "{text}");
    // This test itself: an ELF file of the host.
    let host = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let host = unloadable("gfx942", &host);
    assert!(host.contains("not AMD's HSA"), "{host}");
    let Some(object) = common::compile("faults") else { return };
    let half = unloadable("gfx942", &object[..object.len() / 2]);
    assert!(!half.is_empty());
}

#[test]
fn code_for_another_architecture_is_refused_with_both_names() {
    for (built, device) in [("gfx1100", "gfx942"), ("gfx942", "gfx90a"), ("gfx1100", "gfx1201"), ("gfx90a", "gfx1030")]
    {
        let wave = Arch::parse(built).unwrap().info().wave_size;
        let Some(object) = common::compile_for("faults", built, wave) else { return };
        let reason = unloadable(device, &object);
        assert_eq!(reason, format!("it was compiled for {built}, and the device is {device}"));
    }
}

#[test]
fn a_kernel_that_is_not_there_is_none_and_the_others_are_named() {
    let Some(bench) = Bench::new("faults") else { return };
    assert!(bench.module.kernel("scales").is_none());
    let names: Vec<&str> = bench.module.kernel_names().collect();
    assert!(names.contains(&"scale") && names.is_sorted(), "{names:?}");
}

#[test]
fn too_many_arguments_are_refused_with_both_sizes_and_missing_ones_read_as_zero() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[0u32]);
    let refused = |args: &Args| refused(&bench, "scale", [1; 3], [64, 1, 1], 0, args);
    assert_eq!(refused(&Args::new().with(x).with(1i32).with(x)), "24 bytes of arguments, and it takes 12");
    // Padding up to the next argument's alignment may be there.
    bench.try_run("scale", [1; 3], [1; 3], 0, &Args::new().with(x).with(1u64)).unwrap();
    // Launchers of hand-written kernels leave out what these do not read: here the count.
    bench.try_run("scale", [1; 3], [1; 3], 0, &Args::new().with(x)).unwrap();
}

#[test]
fn workgroups_must_fit_the_kernel_and_the_card() {
    let Some(bench) = Bench::new("faults") else { return };
    let args = Args::new().with(bench.upload(&[0u32]));
    let refused = |block, lds| refused(&bench, "small", [1; 3], block, lds, &args);
    assert_eq!(refused([129, 1, 1], 0), "a workgroup of [129, 1, 1], and it was compiled for at most 128");
    assert_eq!(refused([64, 0, 1], 0), "a workgroup of [64, 0, 1], and it was compiled for at most 128");
    assert!(refused([u32::MAX; 3], 0).ends_with("for at most 128"));
    assert_eq!(refused([64, 1, 1], 65 << 10), "66560 bytes of LDS, and gfx942 has 65536");
    bench.try_run("small", [1; 3], [128, 1, 1], 64 << 10, &args).unwrap();
}

#[test]
fn grids_without_workgroups_do_nothing_and_too_large_ones_are_refused() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[0u32]);
    let args = Args::new().with(x);
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0; 3], [0, u32::MAX, u32::MAX]] {
        let counters = bench.try_run("small", grid, [64, 1, 1], 0, &args).unwrap();
        assert_eq!((counters.workgroups, counters.waves), (0, 0));
    }
    assert_eq!(bench.download::<u32>(x, 1), [0]);
    // What is wrong besides is told all the same.
    let reason = refused(&bench, "small", [0; 3], [129, 1, 1], 0, &args);
    assert!(reason.ends_with("for at most 128"), "{reason}");
    let reason = refused(&bench, "small", [u32::MAX; 3], [64, 1, 1], 0, &args);
    assert_eq!(reason, format!("a grid of {:?} workgroups", [u32::MAX; 3]));
    let Some(bench) = Bench::on("faults", "gfx1201", 32) else { return };
    let args = Args::new().with(bench.upload(&[0u32]));
    let reason = refused(&bench, "small", [1, 65537, 1], [64, 1, 1], 0, &args);
    assert!(reason.ends_with("gfx1201 numbers 65536 in y and z"), "{reason}");
}

/// Where a kernel's descriptor is in its file.
fn descriptor(object: &[u8], kernel: &str) -> usize {
    let elf = object::File::parse(object).unwrap();
    let wanted = format!("{kernel}.kd");
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(&wanted)).unwrap();
    let section = elf.section_by_index(symbol.section_index().unwrap()).unwrap();
    (section.file_range().unwrap().0 + symbol.address() - section.address()) as usize
}

#[test]
fn a_descriptor_that_wants_more_than_there_is_is_refused() {
    let Some(object) = common::compile("faults") else { return };
    let at = descriptor(&object, "small");
    // Static LDS, the first word.
    let mut greedy = object.clone();
    greedy[at..at + 4].copy_from_slice(&(1u32 << 20).to_le_bytes());
    let bench = Bench::load(&greedy, "gfx942", Options::default());
    let args = Args::new().with(bench.upload(&[0u32]));
    let reason = refused(&bench, "small", [1; 3], [64, 1, 1], 0, &args);
    assert_eq!(reason, "1048576 bytes of LDS, and gfx942 has 65536");
    // All registers for each wave, 64 times eight, half of them accumulation registers: one wave fits into a SIMD, so that
    // sixteen do not fit into four.
    let mut wide = object.clone();
    let at = descriptor(&object, "scale");
    wide[at + 48] |= 63;
    wide[at + 44] |= 63;
    let bench = Bench::load(&wide, "gfx942", Options::default());
    let args = Args::new().with(bench.upload(&[1f32; 1024])).with(1024i32);
    bench.try_run("scale", [1; 3], [256, 1, 1], 0, &args).unwrap();
    let reason = refused(&bench, "scale", [1; 3], [1024, 1, 1], 0, &args);
    assert_eq!(reason, "a workgroup of 16 waves has not enough vector registers on gfx942");
    let Some(mut object) = common::compile_for("faults", "gfx1100", 32) else { return };
    let at = descriptor(&object, "scale");
    object[at + 48] |= 63;
    let reason = unloadable("gfx1100", &object);
    assert_eq!(reason, "kernel scale wants 512 vector registers, and a wave has at most 256");
}
