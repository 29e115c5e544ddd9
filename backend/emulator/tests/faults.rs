//! What a kernel must not do is a fault that says who did it and where.

mod common;

use common::{Args, Bench};
use rocfire_arch::Arch;
use rocfire_emulator::{Access, Error, Fault, FaultKind, Gpu, Live, Nearest, Options};

fn fault(result: Result<rocfire_emulator::Counters, Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reading_past_an_allocation_names_lane_and_allocation() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[1f32; 100]);
    let args = Args::new().with(x).with(101i32);
    let fault = fault(bench.try_run("scale", [1, 1, 1], [128, 1, 1], 0, &args));
    assert_eq!(fault.kind, FaultKind::OutOfBounds(Access::Read));
    assert_eq!((fault.wave, fault.lane, fault.workgroup), (1, Some(36), [0, 0, 0]));
    assert_eq!((fault.address, fault.bytes), (Some(x + 400), 4));
    assert_eq!(fault.nearest, Nearest::Block { address: x, bytes: 400, offset_bytes: 400, live: true });
    assert!(fault.disassembly.starts_with("global_load_dword"), "{fault}");
    let text = fault.to_string();
    assert!(text.contains("scale") && text.contains("lane 36") && text.contains("400-byte block"), "{text}");
}

#[test]
fn all_lanes_that_must_not_are_named() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[1f32; 100]);
    let past = fault(bench.try_run("scale", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(x).with(128i32)));
    assert_eq!((past.wave, past.lane, past.lanes), (1, Some(36), !0 << 36));
    assert!(past.to_string().contains("lanes 36-63; 4 bytes at"), "{past}");
    let out = bench.upload(&[0u32; 64]);
    let lds = fault(bench.try_run("lds_index", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(out).with(4i32)));
    assert_eq!((lds.kind, lds.lanes), (FaultKind::LdsOutOfBounds { lds_bytes: 256 }, !0 << 60));
    // One lane alone.
    let one = fault(bench.try_run("store_at", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(0u64).with(1u32)));
    assert_eq!((one.lane, one.lanes), (Some(5), 1 << 5));
    let Some(bench) = Bench::on("faults", "gfx1100", 32) else { return };
    let x = bench.upload(&[1f32; 100]);
    let past = fault(bench.try_run("scale", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(x).with(110i32)));
    assert_eq!((past.wave, past.lanes), (3, 0x3ff << 4));
}

#[test]
fn a_fault_leaves_the_device_usable() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[1f32; 100]);
    fault(bench.try_run("scale", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(x).with(128i32)));
    bench.gpu.write(x, bytemuck::cast_slice(&[3f32; 100])).unwrap();
    bench.run("scale", 1, 128, &Args::new().with(x).with(100i32));
    assert_eq!(bench.download::<f32>(x, 100), [6f32; 100]);
}

#[test]
fn marked_blocks_are_checked_against_what_was_asked_for() {
    let Some(bench) = Bench::new("faults") else { return };
    let slab = bench.gpu.allocate(1 << 16).unwrap();
    bench.gpu.mark(slab, 512, Live::Requested(400)).unwrap();
    bench.gpu.mark(slab + 512, 512, Live::Requested(512)).unwrap();
    bench.run("scale", 1, 128, &Args::new().with(slab).with(100i32));
    let past = fault(bench.try_run("scale", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(slab).with(101i32)));
    assert_eq!(past.kind, FaultKind::OutOfBounds(Access::Read));
    assert_eq!(past.nearest, Nearest::Block { address: slab, bytes: 400, offset_bytes: 400, live: true });
    bench.gpu.mark(slab + 512, 512, Live::Free).unwrap();
    let freed = fault(bench.try_run("scale", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(slab + 512).with(1i32)));
    assert_eq!(freed.kind, FaultKind::UseAfterFree(Access::Read));
    // Two blocks become one again.
    bench.gpu.mark(slab, 1024, Live::Requested(1024)).unwrap();
    bench.run("scale", 1, 256, &Args::new().with(slab).with(256i32));
    assert!(matches!(bench.gpu.mark(slab, 1 << 17, Live::Free), Err(Error::BadAddress { call: "mark", .. })));
}

#[test]
fn freed_allocations_are_gone_for_good() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[1f32; 64]);
    bench.run("scale", 1, 64, &Args::new().with(x).with(64i32));
    bench.gpu.free(x).unwrap();
    assert_ne!(bench.upload(&[1f32; 64]), x);
    let fault = fault(bench.try_run("scale", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(x).with(64i32)));
    assert_eq!(fault.kind, FaultKind::UseAfterFree(Access::Read));
    assert_eq!(fault.nearest, Nearest::Block { address: x, bytes: 256, offset_bytes: 0, live: false });
    assert!(fault.to_string().contains("offset 0 of the freed 256-byte block"), "{fault}");
    assert!(matches!(bench.gpu.free(x), Err(Error::BadAddress { call: "free", .. })));
}

#[test]
fn code_and_null_cannot_be_written() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[1f32; 64]);
    let args = Args::new().with(x).with(65i32);
    let pc = fault(bench.try_run("scale", [1, 1, 1], [128, 1, 1], 0, &args)).pc;
    let to_code = fault(bench.try_run("store_at", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(pc).with(1u32)));
    assert_eq!((to_code.kind, to_code.lane), (FaultKind::ReadOnly, Some(5)));
    let to_null = fault(bench.try_run("store_at", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(0u64).with(1u32)));
    assert_eq!((to_null.kind, to_null.address), (FaultKind::OutOfBounds(Access::Write), Some(0)));
}

#[test]
fn a_host_pointer_is_called_one() {
    let Some(bench) = Bench::new("faults") else { return };
    bench.upload(&[1f32; 64]);
    let on_the_heap = vec![1f32; 64];
    let on_the_stack = [1f32; 64];
    // Blocks of other threads' heaps and their stacks have no name on Linux.
    for address in [on_the_heap.as_ptr(), on_the_stack.as_ptr()] {
        let args = Args::new().with(address as u64).with(64i32);
        let fault = fault(bench.try_run("scale", [1, 1, 1], [64, 1, 1], 0, &args));
        assert_eq!(fault.kind, FaultKind::OutOfBounds(Access::Read));
        assert!(matches!(fault.nearest, Nearest::Host { .. }), "{fault}");
        assert!(fault.to_string().contains("a host pointer: the host's "), "{fault}");
    }
    // Once it is given to the device it is right.
    let shared = std::ptr::NonNull::from(&on_the_heap[0]).cast();
    // SAFETY: the vector lives until the block is freed below, and nobody reads it meanwhile.
    let address = unsafe { bench.gpu.share(shared, 256) }.unwrap();
    bench.run("scale", 1, 64, &Args::new().with(address).with(64i32));
    bench.gpu.free(address).unwrap();
}

#[test]
fn lds_is_bounded_by_the_workgroups_share() {
    let Some(bench) = Bench::new("faults") else { return };
    let out = bench.upload(&[0u32; 64]);
    bench.run("lds_index", 1, 64, &Args::new().with(out).with(0i32));
    let fault = fault(bench.try_run("lds_index", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(out).with(1i32)));
    assert_eq!((fault.kind, fault.lane), (FaultKind::LdsOutOfBounds { lds_bytes: 256 }, Some(63)));
    assert_eq!(fault.address, Some(256));
}

#[test]
fn endless_loops_end_at_the_step_limit() {
    let mut options = Options::default();
    options.step_limit = 100_000;
    let Some(bench) = Bench::with_options("faults", options) else { return };
    let flag = bench.upload(&[0u32; 2]);
    let args = Args::new().with(flag).with(flag + 4);
    let limit = fault(bench.try_run("spin_and_count", [1, 1, 1], [64, 1, 1], 0, &args));
    assert_eq!(limit.kind, FaultKind::StepLimit { limit: 100_000 });
    assert!(limit.to_string().contains("ROCFIRE_HANG_SECONDS"), "{limit}");
    assert_eq!(Options::default().step_limit, Options::steps_of(20));
}

#[test]
fn barriers_must_be_reached_by_all_waves_unless_the_device_is_lenient() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[0u32; 64]);
    let strict = fault(bench.try_run("half_barrier", [1, 1, 1], [128, 1, 1], 0, &Args::new().with(x)));
    assert_eq!((strict.kind, strict.wave), (FaultKind::BarrierDivergence { ended: 2 }, 0));
    let mut options = Options::default();
    options.strict_barriers = false;
    let Some(bench) = Bench::with_options("faults", options) else { return };
    let x = bench.upload(&[0u32; 64]);
    bench.run("half_barrier", 1, 128, &Args::new().with(x));
    assert_eq!(bench.download::<u32>(x, 64), [1; 64]);
}

#[test]
fn traps_and_unknown_instructions_fault() {
    let Some(bench) = Bench::new("faults") else { return };
    let x = bench.upload(&[7u32]);
    let trap = fault(bench.try_run("trap", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(x)));
    assert_eq!(trap.kind, FaultKind::Trap(2));
    let unknown = fault(bench.try_run("unknown", [1, 1, 1], [64, 1, 1], 0, &Args::new().with(x)));
    assert_eq!(unknown.kind, FaultKind::UnknownInstruction);
    assert!(unknown.disassembly.contains("00 00 bf bf"), "{unknown}");
}

#[test]
fn the_lowest_faulting_workgroup_is_reported_whatever_the_threads() {
    for threads in [1, 4] {
        let mut options = Options::default();
        options.threads = Some(threads);
        let Some(bench) = Bench::with_options("faults", options) else { return };
        let n = 64 * 5000;
        let x = bench.upload(&vec![1f32; n]);
        let args = Args::new().with(x).with(i32::MAX);
        let fault = fault(bench.try_run("scale", [9000, 1, 1], [64, 1, 1], 0, &args));
        assert_eq!((fault.workgroup, fault.lane), ([5000, 0, 0], Some(0)));
    }
}

#[test]
fn memory_is_bounded_and_host_calls_are_checked() {
    let mut options = Options::default();
    options.memory_bytes = 1 << 20;
    let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), options).unwrap();
    let x = gpu.allocate(1 << 19).unwrap();
    assert_eq!(x % 4096, 0);
    let full = gpu.allocate(1 << 20).unwrap_err();
    assert!(matches!(full, Error::OutOfMemory { requested: 1_048_576, free: 524_288, capacity: 1_048_576 }), "{full}");
    gpu.fill(x, 0xab, 16).unwrap();
    gpu.copy(x + 4, x, 12).unwrap();
    let mut back = [0; 20];
    gpu.read(x, &mut back).unwrap();
    assert_eq!(back, [[0xab; 16].as_slice(), &[0; 4]].concat()[..]);
    assert!(matches!(gpu.write(x + (1 << 19) - 1, &[0; 2]), Err(Error::BadAddress { call: "write", .. })));
    assert!(matches!(gpu.read(1, &mut back), Err(Error::BadAddress { call: "read", .. })));
    gpu.free(x).unwrap();
    gpu.allocate(1 << 20).unwrap();
}

#[test]
fn what_is_no_code_object_is_refused() {
    let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), Options::default()).unwrap();
    let refused = |bytes: &[u8]| matches!(gpu.load(bytes), Err(Error::BadCodeObject { .. }));
    assert!(refused(&[]) && refused(b"\x7fELF") && refused(&std::fs::read("/proc/self/exe").unwrap_or_default()));
    assert!(matches!(
        Gpu::new(Arch::parse("gfx1250").unwrap(), Options::default()),
        Err(Error::UnsupportedArch { .. })
    ));
    let Some(object) = common::compile("faults") else { return };
    gpu.load(&object).unwrap();
    // A truncated or damaged file is an error or loads; it never panics.
    for cut in (0..object.len()).step_by(97) {
        let _ = gpu.load(&object[..cut]);
        let mut damaged = object.clone();
        damaged[cut] ^= 0x55;
        let _ = gpu.load(&damaged);
    }
}
