//! The runtime on the emulated GPU: kernels compiled, launched, read back; what happens when one goes wrong.
#![cfg(feature = "emulated")]

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work, read_trace};
use rocfire_hal::{Checks, Config, DType, Device, DeviceId, Error, Function, Launch, Source, Tensor};

const BLOCK: u32 = 256;
const SCALE: &str = include_str!("kernels/scale.hip");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ScaleArgs {
    x: u64,
    y: u64,
    count: u32,
    factor: f32,
}

/// An emulated device of its own; without a compiler the test says that it was skipped.
fn device_or_skip(test: &str, config: Config) -> Option<Device> {
    let device = Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap();
    match device.module(&source()) {
        Ok(_) => Some(device),
        Err(error @ Error::NoCompiler { .. }) => {
            println!("skipped {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn source() -> Source {
    Source::new("scale", SCALE, &[])
}

fn function(device: &Device, name: &str) -> Function {
    device.module(&source()).unwrap().function(name).unwrap()
}

fn floats(device: &Device, values: &[f32]) -> Tensor {
    Tensor::from_bytes(device, &[values.len()], DType::F32, bytemuck::cast_slice(values)).unwrap()
}

fn read(tensor: &Tensor) -> Vec<f32> {
    let bytes = tensor.to_bytes().unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn launch(function: &Function, x: &Tensor, y: &Tensor, count: u32) -> rocfire_hal::Result<()> {
    let args = ScaleArgs { x: x.view().device_address(), y: y.view().device_address(), count, factor: 3.0 };
    let launch = Launch {
        label: "scale",
        grid: [count.div_ceil(BLOCK), 1, 1],
        block: [BLOCK, 1, 1],
        lds_bytes: 0,
        args: bytemuck::bytes_of(&args),
        outputs: &[y.buffer()],
        work: Work::default(),
    };
    // SAFETY: the emulator checks every access; nothing here can harm the host.
    unsafe { x.device().stream().launch(function, &launch) }
}

#[test]
fn a_kernel_computes_what_it_says() {
    let Some(device) = device_or_skip("a_kernel_computes_what_it_says", Config::default()) else { return };
    for count in [1, 63, 64, 255, 256, 257, 1000] {
        let values: Vec<f32> = (0..count).map(|i| i as f32 - 100.5).collect();
        let (x, y) = (floats(&device, &values), floats(&device, &vec![0.0; count]));
        launch(&function(&device, "scale_f32"), &x, &y, count as u32).unwrap();
        let result = read(&y);
        assert_eq!(result, values.iter().map(|value| value * 3.0).collect::<Vec<_>>(), "{count}");
    }
    assert_eq!(device.launches(), 7);
}

#[test]
fn a_fault_surfaces_at_the_next_read_and_the_device_goes_on() {
    let name = "a_fault_surfaces_at_the_next_read_and_the_device_goes_on";
    let Some(device) = device_or_skip(name, Config::default()) else { return };
    let (x, y, z) = (floats(&device, &[1.0; 64]), floats(&device, &[0.0; 64]), floats(&device, &[0.0; 64]));
    let good = function(&device, "scale_f32");
    launch(&good, &x, &z, 64).unwrap();
    launch(&function(&device, "out_of_bounds_f32"), &x, &y, 64).unwrap();
    // What is launched behind it may use what it should have written.
    let w = floats(&device, &[0.0; 64]);
    launch(&good, &y, &w, 64).unwrap();
    let message = y.to_bytes().unwrap_err().to_string();
    assert!(message.starts_with("scale failed in kernel out_of_bounds_f32"), "{message}");
    assert!(message.contains("out-of-bounds write") && message.contains("workgroup (0, 0, 0)"), "{message}");
    assert!(message.contains("launches before it, newest first:\n  scale: scale_f32 grid [1, 1, 1]"), "{message}");
    assert!(matches!(y.to_bytes(), Err(Error::Fault(_))), "the poisoned buffer goes on saying so");
    assert!(matches!(w.to_bytes(), Err(Error::Fault(_))), "and so does what was computed from it");
    assert_eq!(z.to_bytes().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0; 64]), "what came before is good");
    device.sync().unwrap();
    launch(&good, &x, &w, 64).unwrap();
    device.sync().unwrap();
    // Written anew from the host, the buffer is good again.
    device.stream().copy_to_device(&[0; 256], y.buffer(), 0).unwrap();
    assert_eq!(y.to_bytes().unwrap(), [0; 256]);
}

#[test]
fn a_fault_surfaces_at_the_next_wait() {
    let Some(device) = device_or_skip("a_fault_surfaces_at_the_next_wait", Config::default()) else { return };
    let (x, y) = (floats(&device, &[1.0; 8]), floats(&device, &[0.0; 8]));
    launch(&function(&device, "out_of_bounds_f32"), &x, &y, 8).unwrap();
    let message = device.sync().unwrap_err().to_string();
    assert!(message.contains("of the 32-byte block"), "checked against what was asked for: {message}");
    device.sync().unwrap();
}

#[test]
fn with_sync_a_fault_is_the_launchs_own_error() {
    let name = "with_sync_a_fault_is_the_launchs_own_error";
    let Some(device) = device_or_skip(name, Config::default().with_sync(true)) else { return };
    let (x, y) = (floats(&device, &[1.0; 8]), floats(&device, &[0.0; 8]));
    let error = launch(&function(&device, "out_of_bounds_f32"), &x, &y, 8).unwrap_err();
    assert!(matches!(&error, Error::Fault(fault) if fault.kernel == "out_of_bounds_f32"), "{error}");
    device.sync().unwrap();
    assert!(y.to_bytes().is_err());
}

#[test]
fn a_report_names_the_line_of_the_source() {
    let name = "a_report_names_the_line_of_the_source";
    for checks in [Checks::default(), Checks::ALL] {
        let Some(device) = device_or_skip(name, Config::default().with_checks(checks)) else { return };
        let (x, y) = (floats(&device, &[1.0; 8]), floats(&device, &[0.0; 8]));
        launch(&function(&device, "out_of_bounds_f32"), &x, &y, 8).unwrap();
        let message = device.sync().unwrap_err().to_string();
        let store = SCALE.lines().position(|line| line.contains("a.y[i + a.count] =")).unwrap() + 1;
        assert!(message.contains(&format!("; scale.hip:{store}:")), "line {store}: {message}");
    }
}

#[test]
fn a_freed_buffer_is_not_accessible() {
    let Some(device) = device_or_skip("a_freed_buffer_is_not_accessible", Config::default()) else { return };
    let (x, y) = (floats(&device, &[1.0; 8]), floats(&device, &[0.0; 8]));
    let freed = x.clone();
    let address = x.view().device_address();
    drop((x, freed));
    let args = ScaleArgs { x: address, y: y.view().device_address(), count: 8, factor: 1.0 };
    let (args, outputs) = (bytemuck::bytes_of(&args), [y.buffer()]);
    let launch = Launch {
        label: "scale",
        grid: [1; 3],
        block: [BLOCK, 1, 1],
        lds_bytes: 0,
        args,
        outputs: &outputs,
        work: Work::default(),
    };
    // SAFETY: the emulator checks every access; nothing here can harm the host.
    unsafe { device.stream().launch(&function(&device, "scale_f32"), &launch).unwrap() };
    let message = y.to_bytes().unwrap_err().to_string();
    assert!(message.contains("use after free"), "{message}");
}

#[test]
fn what_a_check_finds_comes_with_the_whole_report() {
    let config = Config::default().with_checks(Checks::ALL);
    let Some(device) = device_or_skip("what_a_check_finds_comes_with_the_whole_report", config) else { return };
    let (x, y) = (Tensor::empty(&device, &[8], DType::F32).unwrap(), floats(&device, &[0.0; 8]));
    launch(&function(&device, "scale_f32"), &x, &y, 8).unwrap();
    let message = y.to_bytes().unwrap_err().to_string();
    let parts =
        ["scale failed in kernel scale_f32", "a value stored to device memory depends on device memory that nobody"];
    for part in parts.into_iter().chain(["global_store_dword", "workgroup (0, 0, 0)", "lanes 0-7", "32-byte block"]) {
        assert!(message.contains(part), "{part:?} is missing in {message}");
    }
}

#[test]
fn poison_makes_unwritten_memory_nan() {
    let config = Config::default().with_checks(Checks { poison: true, ..Checks::default() });
    let Some(device) = device_or_skip("poison_makes_unwritten_memory_nan", config) else { return };
    for _ in 0..2 {
        let tensor = Tensor::empty(&device, &[10], DType::F32).unwrap();
        let values = read(&tensor);
        assert!(values.iter().all(|value| value.is_nan()), "{values:?}");
        // Written, given back, and poisoned when it is handed out again.
        device.stream().fill(tensor.buffer(), 0, 0, 40).unwrap();
    }
}

#[test]
fn wrong_launches_are_refused_before_they_run() {
    let Some(device) = device_or_skip("wrong_launches_are_refused_before_they_run", Config::default()) else { return };
    let (scale, y) = (function(&device, "scale_f32"), floats(&device, &[0.0; 8]));
    let args = [0; 24];
    let refused = |grid, block, lds_bytes, args: &[u8]| {
        let launch =
            Launch { label: "scale", grid, block, lds_bytes, args, outputs: &[y.buffer()], work: Work::default() };
        // SAFETY: the emulator checks every access; nothing here can harm the host.
        unsafe { device.stream().launch(&scale, &launch) }.unwrap_err().to_string()
    };
    assert_eq!(refused([1; 3], [64, 1, 1], 0, &args[1..]), "scale: scale_f32 takes 24 bytes of arguments, got 23");
    assert!(refused([0, 1, 1], [64, 1, 1], 0, &args).contains("must be without a zero"));
    assert!(refused([1; 3], [64, 0, 1], 0, &args).contains("must be without a zero"));
    assert!(refused([1; 3], [257, 1, 1], 0, &args).contains("block must be at most 256 threads"));
    assert!(refused([u32::MAX, 1, 1], [64, 1, 1], 0, &args).contains("fewer than 2^32 threads"));
    assert!(refused([1; 3], [64, 1, 1], 65537, &args).contains("LDS must be at most 65536 bytes, got 65537"));
    assert_eq!(device.launches(), 0);
    let message = device.module(&source()).unwrap().function("scale_f16").unwrap_err().to_string();
    assert_eq!(message, "scale has no kernel scale_f16; it has scale_f32, out_of_bounds_f32");
}

#[test]
fn modules_are_loaded_once_and_many_at_a_time() {
    let Some(device) = device_or_skip("modules_are_loaded_once_and_many_at_a_time", Config::default()) else { return };
    let sources = [source(), Source::new("scale", SCALE, &[("SCALE_BLOCK", "64")])];
    let modules = device.compile_many(&sources).unwrap();
    assert!(std::sync::Arc::ptr_eq(&modules[0], &device.module(&sources[0]).unwrap()));
    assert_eq!(modules[1].kernels()[0].max_workgroup_threads, 64);
    let broken = [source(), Source::new("broken", "#error no", &[])];
    assert!(matches!(device.compile_many(&broken), Err(Error::Compile { .. })));
}

#[test]
fn events_measure_forwards() {
    let device = Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default()).unwrap();
    let first = device.stream().record_event().unwrap();
    let second = device.stream().record_event().unwrap();
    assert!(second.elapsed_ms(&first).unwrap() >= 0.0);
}

#[test]
fn a_profile_has_every_launch_and_copy_in_order() {
    let Some(device) = device_or_skip("a_profile_has_every_launch_and_copy_in_order", Config::default()) else {
        return;
    };
    let function = function(&device, "scale_f32");
    let x = Tensor::from_bytes(&device, &[100], DType::F32, &[0; 400]).unwrap();
    let y = Tensor::empty(&device, &[100], DType::F32).unwrap();
    assert!(device.take_profile().unwrap().is_none());
    device.start_profile().unwrap();
    launch(&function, &x, &y, 100).unwrap();
    launch(&function, &x, &y, 50).unwrap();
    let _ = y.to_bytes().unwrap();
    let timeline = device.take_profile().unwrap().unwrap();
    let names: Vec<(&str, &str)> =
        timeline.launches.iter().map(|launch| (launch.operator.as_str(), launch.kernel.as_str())).collect();
    assert_eq!(names, [("scale", "scale_f32"), ("scale", "scale_f32"), ("copy to the host", "copy to the host")]);
    assert_eq!(timeline.launches[2].bytes, 400);
    assert_eq!(timeline.launches[1].category, Category::Other);
    for pair in timeline.launches.windows(2) {
        assert!(pair[0].duration_us > 0.0 && pair[1].start_us >= pair[0].start_us + pair[0].duration_us - 1.0);
    }
    launch(&function, &x, &y, 100).unwrap();
    assert!(device.take_profile().unwrap().is_none(), "it has ended");
}

#[test]
fn a_timed_device_writes_a_trace_whenever_it_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let config = Config::default().with_timed(path.clone());
    let Some(device) = device_or_skip("a_timed_device_writes_a_trace", config) else { return };
    let function = function(&device, "scale_f32");
    let x = Tensor::from_bytes(&device, &[100], DType::F32, &[0; 400]).unwrap();
    let y = Tensor::empty(&device, &[100], DType::F32).unwrap();
    launch(&function, &x, &y, 100).unwrap();
    device.sync().unwrap();
    let timelines = read_trace(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let names: Vec<&str> = timelines[0].launches.iter().map(|launch| launch.operator.as_str()).collect();
    assert_eq!((timelines.len(), names), (1, vec!["copy to the device", "scale"]));
}

#[test]
fn a_graph_does_its_launches_again() {
    let Some(device) = device_or_skip("a_graph_does_its_launches_again", Config::default()) else { return };
    let scale = function(&device, "scale_f32");
    let (x, y) = (floats(&device, &[1.0, 2.0]), floats(&device, &[0.0; 2]));
    drop(Tensor::empty(&device, &[2], DType::F32).unwrap());
    device.begin_capture().unwrap();
    assert!(device.is_capturing() && device.begin_capture().is_err());
    // A temporary, which is given back while the graph is recorded.
    let between = Tensor::empty(&device, &[2], DType::F32).unwrap();
    launch(&scale, &x, &between, 2).unwrap();
    launch(&scale, &between, &y, 2).unwrap();
    drop(between);
    device.stream().copy(y.buffer(), 0, x.buffer(), 0, 8).unwrap();
    let graph = device.end_capture().unwrap();
    assert_eq!((graph.len(), graph.is_native(), read(&y)), (3, false, vec![0.0, 0.0]));
    // Memory of the temporary is not handed out again.
    let others: Vec<Tensor> = (0..32).map(|_| floats(&device, &[7.0, 7.0])).collect();
    for power in 1..4 {
        // SAFETY: x and y are alive, and nobody else uses them.
        unsafe { graph.replay().unwrap() };
        let expected = 9.0_f32.powi(power);
        assert_eq!(read(&y), [expected, 2.0 * expected]);
    }
    assert!(others.iter().all(|other| read(other) == [7.0, 7.0]));
}

#[test]
fn what_no_graph_can_do_is_refused_by_name() {
    let Some(device) = device_or_skip("what_no_graph_can_do_is_refused_by_name", Config::default()) else { return };
    let scale = function(&device, "scale_f32");
    let (x, y) = (floats(&device, &[1.0, 2.0]), floats(&device, &[0.0; 2]));
    type Deed<'a> = &'a dyn Fn() -> rocfire_hal::Result<()>;
    let deeds: [(&str, Deed<'_>); 4] = [
        ("a copy to the host, after operator scale", &|| y.to_bytes().map(drop)),
        ("a copy from the host, after operator scale", &|| device.stream().copy_to_device(&[0; 8], x.buffer(), 0)),
        ("waiting for the device, after operator scale", &|| device.sync()),
        ("memory that the pool does not have, after operator scale", &|| {
            Tensor::empty(&device, &[1 << 28], DType::F32).map(drop)
        }),
    ];
    for (expected, deed) in deeds {
        device.begin_capture().unwrap();
        launch(&scale, &x, &y, 2).unwrap();
        let told = deed().unwrap_err().to_string();
        let graph = device.end_capture().unwrap_err().to_string();
        assert!(told.contains(expected) && graph.contains(expected), "{told}; {graph}");
        assert!(device.end_capture().unwrap_err().to_string().contains("not begun"));
        // The device goes on as before.
        launch(&scale, &x, &y, 2).unwrap();
        assert_eq!(read(&y), [3.0, 6.0]);
    }
}

/// The code object of [`source`], as somebody else may have made it.
fn ready() -> Vec<u8> {
    let arch = DeviceId::emulated("gfx942").unwrap().arch();
    let compiled = rocfire_hal::compile::compile_many(arch, &[source()], &Config::from_env().unwrap()).unwrap();
    compiled[0].as_ref().unwrap().bytes().to_vec()
}

#[test]
fn a_ready_code_object_is_loaded_and_launched() {
    let Some(device) = device_or_skip("a ready code object", Config::default()) else { return };
    let module = device.load_code_object("ready", &ready()).unwrap();
    assert_eq!(module.name(), "ready");
    let function = module.function("scale_f32").unwrap();
    assert_eq!(function.info().explicit_kernarg_bytes as usize, size_of::<ScaleArgs>());
    let x = floats(&device, &[1.0, 2.0, 3.0]);
    let y = Tensor::empty(&device, &[3], DType::F32).unwrap();
    // The kernel outlives the module that it came from.
    drop(module);
    launch(&function, &x, &y, 3).unwrap();
    assert_eq!(read(&y), [3.0, 6.0, 9.0]);
}

#[test]
fn a_ready_code_object_that_cannot_be_used_is_refused() {
    let Some(device) = device_or_skip("refused code objects", Config::default()) else { return };
    let code = ready();
    let refused = |device: &Device, code: &[u8]| match device.load_code_object("ready", code) {
        Err(Error::CodeObject { name, reason }) if name == "ready" => reason,
        other => panic!("{other:?}"),
    };
    let other = Device::open(DeviceId::emulated("gfx950").unwrap(), Config::default()).unwrap();
    assert_eq!(refused(&other, &code), "it is for gfx942, and the device is gfx950");
    let mut unknown = code.clone();
    unknown[48] = 0xfe;
    assert!(refused(&device, &unknown).contains("EF_AMDGPU_MACH is 0xfe"));
    for cut in [0, 3, 63, code.len() / 2] {
        assert!(!refused(&device, &code[..cut]).is_empty(), "{cut} bytes");
    }
    assert!(!refused(&device, b"no code object").is_empty());
    let module = device.load_code_object("ready", &code).unwrap();
    assert!(matches!(module.function("scales"), Err(Error::NoKernel { .. })));
    // The arguments are counted as for any kernel.
    let function = module.function("scale_f32").unwrap();
    let x = floats(&device, &[1.0]);
    let launch = Launch {
        label: "scale",
        grid: [1; 3],
        block: [BLOCK, 1, 1],
        lds_bytes: 0,
        args: &[0; 8],
        outputs: &[x.buffer()],
        work: Work::default(),
    };
    // SAFETY: it is refused before anything is launched.
    let refused = unsafe { device.stream().launch(&function, &launch) };
    assert!(matches!(refused, Err(Error::Arguments { got_bytes: 8, .. })), "{refused:?}");
}
