//! Kernels that are compiled while the program goes on: what waits for them comes out as if nothing had waited.
#![cfg(feature = "emulated")]

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::Work;
use rocfire_hal::{Checks, Config, DType, Device, DeviceId, Error, Function, Launch, Source, Tensor};

const SCALE: &str = include_str!("kernels/scale.hip");
/// Sources that differ, so that each is compiled by itself.
const BLOCKS: [u32; 4] = [64, 128, 256, 512];
const COUNT: usize = 1000;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ScaleArgs {
    x: u64,
    y: u64,
    count: u32,
    factor: f32,
}

fn source(block: u32) -> Source {
    Source::new("scale", SCALE, &[("SCALE_BLOCK", &block.to_string())])
}

/// A device with an empty cache and all checks that say what memory is whose, which compiles so many kernels at a time.
fn device(jobs: usize) -> (tempfile::TempDir, Device) {
    checked(jobs, Checks { poison: true, unwritten: true, ..Checks::default() })
}

fn checked(jobs: usize, checks: Checks) -> (tempfile::TempDir, Device) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::default().with_cache_dir(folder.path().to_owned()).with_packs(Vec::new());
    let config = config.with_compile_jobs(jobs).with_checks(checks);
    (folder, Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap())
}

/// Whether this machine has what these tests need, said where it has not.
fn can(test: &str) -> bool {
    if let Err(error @ Error::NoCompiler { .. }) = device(1).1.module(&source(64)) {
        println!("skipped {test}: {error}");
        return false;
    }
    if rocfire_hal::compile::jobs(&Config::default()) < 2 {
        println!("skipped {test}: this machine compiles one kernel at a time");
        return false;
    }
    true
}

fn floats(device: &Device, values: &[f32]) -> Tensor {
    Tensor::from_bytes(device, &[values.len()], DType::F32, bytemuck::cast_slice(values)).unwrap()
}

fn empty(device: &Device) -> Tensor {
    Tensor::empty(device, &[COUNT], DType::F32).unwrap()
}

fn launch(function: &Function, block: u32, x: &Tensor, y: &Tensor) -> rocfire_hal::Result<()> {
    let (x_address, y_address) = (x.view().device_address(), y.view().device_address());
    let args = ScaleArgs { x: x_address, y: y_address, count: COUNT as u32, factor: 3.0 };
    let launch = Launch {
        label: "scale",
        grid: [(COUNT as u32).div_ceil(block), 1, 1],
        block: [block, 1, 1],
        lds_bytes: 0,
        args: bytemuck::bytes_of(&args),
        outputs: &[y.buffer()],
        work: Work::default(),
    };
    // SAFETY: the emulator checks every access; nothing here can harm the host.
    unsafe { x.device().stream().launch(function, &launch) }
}

fn scaled(x: &Tensor, block: u32) -> Tensor {
    let y = empty(x.device());
    launch(&x.device().function(&source(block), "scale_f32").unwrap(), block, x, &y).unwrap();
    y
}

/// Launches, fills, copies and writes of the host, each needing what came before; tensors in between are let go of at once.
fn program(device: &Device) -> Vec<u8> {
    let values: Vec<f32> = (0..COUNT).map(|i| i as f32 * 0.25 - 100.0).collect();
    let mut x = floats(device, &values);
    let stream = device.stream();
    for (turn, block) in BLOCKS.into_iter().enumerate() {
        let y = scaled(&x, block);
        let z = empty(device);
        stream.copy(y.buffer(), 0, z.buffer(), 0, 4 * COUNT as u64).unwrap();
        stream.copy_to_device(bytemuck::bytes_of(&(turn as f32)), z.buffer(), 4 * turn as u64).unwrap();
        stream.fill(z.buffer(), 4 * (turn as u64 + 100), 0x40, 4).unwrap();
        x = z;
    }
    x.to_bytes().unwrap()
}

#[test]
fn results_are_those_of_waiting_for_each_kernel() {
    if !can("results_are_those_of_waiting_for_each_kernel") {
        return;
    }
    let ((_one, waiting), (_two, ahead)) = (device(1), device(2));
    assert_eq!(program(&ahead), program(&waiting));
    for device in [&waiting, &ahead] {
        assert_eq!(device.launches(), BLOCKS.len() as u64, "copies, fills and writes are no launches");
        assert_eq!(device.compiled(), BLOCKS.len() as u64);
        assert_eq!(device.memory().live_blocks, 0, "what was kept while launches waited was given back");
    }
    // All of it once more, with kernels that are there.
    assert_eq!(program(&ahead), program(&waiting));
}

/// Tensors of 16 MiB that come and go behind a launch that waits: what they leave is not much more than 64 MiB before it is waited for.
#[test]
fn memory_that_is_held_is_bounded() {
    if !can("memory_that_is_held_is_bounded") {
        return;
    }
    // Without poison, which takes longer to write than the kernel to come.
    let (_folder, device) = checked(2, Checks::default());
    let x = floats(&device, &vec![1.0; COUNT]);
    let y = scaled(&x, BLOCKS[0]);
    for _ in 0..40 {
        let large = Tensor::empty(&device, &[4 << 20], DType::F32).unwrap();
        device.stream().fill(large.buffer(), 0, 0x40, 4).unwrap();
    }
    let mebibytes = device.memory().peak_bytes >> 20;
    assert!((64..=160).contains(&mebibytes), "{mebibytes} MiB at most");
    assert_eq!(y.to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&vec![3.0; COUNT]));
    assert_eq!(device.memory().live_blocks, 2);
}

#[test]
fn kernels_are_compiled_side_by_side() {
    if !can("kernels_are_compiled_side_by_side") {
        return;
    }
    let (_folder, device) = device(2);
    let x = floats(&device, &vec![1.0; COUNT]);
    let functions = BLOCKS.map(|block| device.function(&source(block), "scale_f32").unwrap());
    assert!(functions.iter().any(|function| function.info().vgprs == 0), "not all of them can have come already");
    let y = empty(&device);
    for (function, block) in functions.iter().zip(BLOCKS) {
        launch(function, block, &x, &y).unwrap();
    }
    assert_eq!(y.to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0; COUNT]));
    assert!(functions.iter().all(|function| function.info().vgprs > 0 && function.name() == "scale_f32"));
    assert_eq!(device.compiled(), BLOCKS.len() as u64, "each once");
    let module = device.module(&source(64)).unwrap();
    assert_eq!(module.kernels().len(), 2);
}

#[test]
fn what_does_not_compile_is_a_fault_of_its_launch_and_the_device_goes_on() {
    if !can("what_does_not_compile_is_a_fault_of_its_launch_and_the_device_goes_on") {
        return;
    }
    let (_folder, device) = device(2);
    let (x, y) = (floats(&device, &vec![1.0; COUNT]), empty(&device));
    let good = scaled(&x, 64);
    let broken = Source::new("broken", "#error no such kernel", &[]);
    launch(&device.function(&broken, "scale_f32").unwrap(), 64, &x, &y).unwrap();
    let behind = scaled(&y, 128);
    let message = y.to_bytes().unwrap_err().to_string();
    assert!(message.contains("broken did not compile for gfx942") && message.contains("no such kernel"), "{message}");
    assert!(matches!(behind.to_bytes(), Err(Error::Fault(_))), "so is what was computed from it");
    assert_eq!(good.to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0; COUNT]), "what came before is good");
    device.sync().unwrap();
    assert_eq!(scaled(&x, 128).to_bytes().unwrap(), good.to_bytes().unwrap());
    let error = device.module(&broken).unwrap_err();
    assert!(matches!(error, Error::Compile { .. }), "{error}");
}

#[test]
fn limits_and_names_are_checked_when_the_kernel_has_come() {
    if !can("limits_and_names_are_checked_when_the_kernel_has_come") {
        return;
    }
    let (_folder, device) = device(2);
    let (x, y) = (floats(&device, &vec![1.0; COUNT]), empty(&device));
    // 128 threads, of a kernel that was compiled for 64.
    launch(&device.function(&source(64), "scale_f32").unwrap(), 128, &x, &y).unwrap();
    let message = device.sync().unwrap_err().to_string();
    assert!(message.contains("at most 64 threads"), "{message}");
    launch(&device.function(&source(256), "scale_f16").unwrap(), 256, &x, &y).unwrap();
    let message = device.sync().unwrap_err().to_string();
    assert!(message.contains("scale has no kernel scale_f16"), "{message}");
    device.sync().unwrap();
}

#[test]
fn a_timed_or_recorded_launch_waits_for_its_kernel() {
    if !can("a_timed_or_recorded_launch_waits_for_its_kernel") {
        return;
    }
    let (_folder, device) = device(2);
    let x = floats(&device, &vec![2.0; COUNT]);
    device.start_profile().unwrap();
    let y = scaled(&x, 64);
    let timeline = device.take_profile().unwrap().unwrap();
    assert_eq!(timeline.launches.len(), 1);
    device.begin_capture().unwrap();
    launch(&device.function(&source(128), "scale_f32").unwrap(), 128, &x, &y).unwrap();
    let graph = device.end_capture().unwrap();
    assert_eq!(graph.len(), 1);
    // SAFETY: both tensors are alive.
    unsafe { graph.replay().unwrap() };
    assert_eq!(y.to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&[6.0; COUNT]));
}

#[test]
fn what_another_stands_in_for_is_compiled_behind_and_waited_for_where_it_is_launched() {
    if !can("what_another_stands_in_for_is_compiled_behind_and_waited_for_where_it_is_launched") {
        return;
    }
    let (_folder, device) = device(2);
    let (x, y) = (floats(&device, &vec![1.0; COUNT]), empty(&device));
    let behind = BLOCKS.map(|block| device.function_behind(&source(block), "scale_f32").unwrap());
    assert!(behind.iter().any(|function| !function.has_come()), "not all of them can have come already");
    // The last of them, whoever asks for it.
    launch(&behind[3], BLOCKS[3], &x, &y).unwrap();
    let z = scaled(&y, BLOCKS[2]);
    assert_eq!(z.to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&[9.0; COUNT]));
    device.wait_for_compiles();
    assert!(behind.iter().all(Function::has_come));
    assert_eq!(device.compiled(), BLOCKS.len() as u64, "each once");
    // What is in the cache is there at once.
    let config = device.config().clone();
    let again = Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap();
    assert!(again.function_behind(&source(64), "scale_f32").unwrap().has_come());
}

#[test]
fn what_does_not_compile_behind_is_told_by_its_launch_alone() {
    if !can("what_does_not_compile_behind_is_told_by_its_launch_alone") {
        return;
    }
    let (_folder, device) = device(2);
    let (x, y) = (floats(&device, &vec![1.0; COUNT]), empty(&device));
    let broken = Source::new("broken", "#error no such kernel", &[]);
    let function = device.function_behind(&broken, "scale_f32").unwrap();
    device.wait_for_compiles();
    assert!(function.has_come(), "that it cannot be had is known");
    assert_eq!(scaled(&x, 64).to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0; COUNT]));
    launch(&function, 64, &x, &y).unwrap();
    let message = y.to_bytes().unwrap_err().to_string();
    assert!(message.contains("no such kernel"), "{message}");
}
