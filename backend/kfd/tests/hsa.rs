//! AMD's HSA runtime over this library: agents, queues with barriers, a kernel by AMD's own loader, and a kernel that goes wrong.
//!
//! Each test is a process of its own, this executable again with the library preloaded, as a user's program is. Without AMD's
//! runtime (`rocfire amd-runtime --install` gets it from Debian) or a compiler the tests say that they are skipped.

mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use support::hsa::{Hsa, PACKET_BYTES, packet};

/// Tells the child what to do.
const PART: &str = "ROCFIRE_KFD_TEST_PART";
const ARCHS: [&str; 2] = ["gfx90a", "gfx1030"];

/// Runs a test of this file again, with the library before everything.
fn child(test: &str, part: &str, arch: &str) -> Option<Output> {
    if Hsa::open().is_none() {
        println!("skipped: there is no libhsa-runtime64; `rocfire amd-runtime --install` gets it");
        return None;
    }
    let executable = std::env::current_exe().unwrap();
    let library = executable.parent().unwrap().join("librocfire_kfd.so");
    assert!(library.is_file(), "{} was not built", library.display());
    let mut command = Command::new(executable);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env("LD_PRELOAD", library).env("ROCFIRE_HIP_ARCH", arch);
    for name in ["ROCFIRE_DEVICE", "ROCFIRE_CHECK", "ROCFIRE_LOG", "ROCFIRE_POOL_MB"] {
        command.env_remove(name);
    }
    Some(command.output().unwrap())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// As a test: the part runs in a child for each architecture, and must succeed.
fn in_child(test: &str, part: impl Fn(&str)) {
    match std::env::var(PART) {
        Ok(_) => part(&std::env::var("ROCFIRE_HIP_ARCH").unwrap()),
        Err(_) => {
            for arch in ARCHS {
                let Some(output) = child(test, "run", arch) else { return };
                assert!(output.status.success(), "{arch}: {}\n{}", output.status, text(&output));
            }
        }
    }
}

#[test]
fn the_runtime_finds_the_card() {
    in_child("the_runtime_finds_the_card", |arch| {
        let hsa = Hsa::open().unwrap().init();
        let card = hsa.card();
        assert_eq!(hsa.name(card), arch);
        assert!(hsa.product(card).ends_with(&format!("(emulated {arch})")), "{}", hsa.product(card));
        hsa.shut_down();
    });
}

#[test]
fn barriers_wait_for_their_signals_and_tell_theirs() {
    in_child("barriers_wait_for_their_signals_and_tell_theirs", |_| {
        let hsa = Hsa::open().unwrap().init();
        let queue = hsa.queue(hsa.card());
        let (first, other, done, after) = (hsa.signal(1), hsa.signal(1), hsa.signal(1), hsa.signal(1));
        queue.submit(&packet::barrier(3, &[first, other], done));
        queue.submit(&packet::barrier(5, &[first, other], after));
        assert_eq!(hsa.wait_zero(done, 50), 1, "nobody has told it");
        hsa.store(other, 0);
        assert_eq!(hsa.wait_zero(done, 50), 1, "one of two is not enough, and the queue keeps its order");
        assert_eq!(hsa.wait_zero(after, 0), 1);
        hsa.store(first, 0);
        let began = std::time::Instant::now();
        assert_eq!((hsa.wait_zero(done, 10_000), hsa.wait_zero(after, 10_000)), (0, 0));
        assert!(began.elapsed().as_secs() < 5, "who waits is woken");
        // More packets than the ring has places.
        let many = hsa.signal(2000);
        (0..2000).for_each(|_| queue.submit(&packet::barrier(3, &[], many)));
        assert_eq!(hsa.wait_zero(many, 20_000), 0);
        queue.destroy();
        hsa.shut_down();
    });
}

#[test]
fn a_kernel_that_amds_loader_has_loaded_runs() {
    in_child("a_kernel_that_amds_loader_has_loaded_runs", |arch| {
        let Some(object) = support::compile(arch) else { return };
        let hsa = Hsa::open().unwrap().init();
        let (card, queue) = (hsa.card(), hsa.queue(hsa.card()));
        let kernel = hsa.load(card, &object, "scale.kd");
        const N: usize = 1000;
        let (x, y, args) = (hsa.host_memory(card, 4 * N), hsa.host_memory(card, 4 * N), hsa.host_memory(card, 256));
        let values: Vec<f32> = (0..N).map(|i| i as f32 * 0.5 - 7.0).collect();
        x.write(bytemuck::cast_slice(&values));
        let mut kernarg = [0u8; 32];
        kernarg[..8].copy_from_slice(&x.address().to_le_bytes());
        kernarg[8..16].copy_from_slice(&y.address().to_le_bytes());
        kernarg[16..20].copy_from_slice(&3.0f32.to_le_bytes());
        kernarg[20..24].copy_from_slice(&(N as i32).to_le_bytes());
        args.write(&kernarg);
        let done = hsa.signal(1);
        let dispatch: [u8; PACKET_BYTES] = packet::dispatch(kernel, 1024, 256, args.address(), done);
        queue.submit(&dispatch);
        assert_eq!(hsa.wait_zero(done, 20_000), 0);
        let expected: Vec<f32> = values.iter().map(|value| value * 3.0).collect();
        let found: Vec<f32> = y.read(4 * N).chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        assert_eq!(found, expected);
        queue.destroy();
        hsa.shut_down();
    });
}

#[test]
fn a_bad_access_is_told_and_the_runtime_ends_the_program() {
    let name = "a_bad_access_is_told_and_the_runtime_ends_the_program";
    if std::env::var(PART).is_ok() {
        let Some(object) = support::compile(&std::env::var("ROCFIRE_HIP_ARCH").unwrap()) else {
            println!("no compiler");
            return;
        };
        let hsa = Hsa::open().unwrap().init();
        let (card, queue) = (hsa.card(), hsa.queue(hsa.card()));
        let kernel = hsa.load(card, &object, "scale.kd");
        let args = hsa.host_memory(card, 256);
        let mut kernarg = [0u8; 32];
        kernarg[8..16].copy_from_slice(&0x1234_5000u64.to_le_bytes());
        kernarg[20..24].copy_from_slice(&1i32.to_le_bytes());
        args.write(&kernarg);
        let done = hsa.signal(1);
        queue.submit(&packet::dispatch(kernel, 256, 256, args.address(), done));
        hsa.wait_zero(done, 20_000);
        panic!("the runtime goes on");
    }
    let Some(output) = child(name, "fault", ARCHS[0]) else { return };
    let text = text(&output);
    if text.contains("no compiler") {
        return;
    }
    assert_eq!(output.status.signal(), Some(6), "abort: {}\n{text}", output.status);
    for part in ["rocfire: error: out-of-bounds", "in scale", "Memory access fault by GPU node-1"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}
