use super::*;
use crate::{Device, DeviceId, DriverKind};

#[test]
fn a_library_that_is_not_there_is_an_error_that_says_where_it_was_looked_for() {
    let candidates = api::candidates(&["librocfire_test_nowhere.so"]);
    let error = sys::Library::open("librocfire_test_nowhere", &candidates).err().expect("there is no such library");
    let message = error.to_string();
    assert!(message.starts_with("cannot load librocfire_test_nowhere: tried "), "{message}");
    assert!(message.contains("librocfire_test_nowhere.so"), "{message}");
}

#[test]
fn a_function_that_a_library_lacks_is_an_error_when_it_is_called() {
    sys::table! {
        /// A table with a function that exists nowhere.
        Lacking {
            /// None.
            fn hipRocfireTestNoSuchFunction() -> c_int;
        }
    }
    let Ok(library) = sys::Library::open("libc", &["libc.so.6".into()]) else {
        println!("skipped a_function_that_a_library_lacks_is_an_error_when_it_is_called: no libc.so.6");
        return;
    };
    let table = Lacking::new(library);
    // SAFETY: there is no such function to be called.
    let message = unsafe { table.hipRocfireTestNoSuchFunction() }.unwrap_err().to_string();
    assert_eq!(message, format!("{} has no hipRocfireTestNoSuchFunction", table.library().path()));
}

#[test]
fn without_a_device_the_answer_says_so_and_why() {
    let api = match api() {
        Ok(api) => api,
        Err(error) => {
            println!("skipped without_a_device_the_answer_says_so_and_why: {error}");
            return;
        }
    };
    for name in ["HIP_FORCE_DEV_KERNARG", "GPU_MAX_HW_QUEUES"] {
        assert!(std::env::var_os(name).is_some(), "{name} is set before HIP opens");
    }
    assert!(api.version().major >= 5, "{}", api.version());
    let count = api.device_count().unwrap();
    let message = match DeviceId::hip(count) {
        Err(error @ Error::NoDevice { driver: DriverKind::Hip, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    if count == 0 {
        assert!(message.starts_with("no hip device: HIP "), "{message}");
        assert!(message.contains("sees none"), "{message}");
        let id = DeviceId::new(DriverKind::Hip, rocfire_arch::Arch::parse("gfx90a").unwrap(), 0);
        assert!(matches!(Device::open(id, crate::Config::default()), Err(Error::NoDevice { .. })));
    } else {
        assert!(message.contains(&format!("sees {count}")), "{message}");
    }
}

/// The driver over `tests/fake/amdhip64.rs`, each time a library of its own; without `rustc` the test says so.
pub(super) fn fake_or_skip(test: &str) -> Option<(tempfile::TempDir, Hip)> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libamdhip64.so.5");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake/amdhip64.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = std::process::Command::new(rustc);
    match command.args(["--edition", "2024", "-Copt-level=1", "-o"]).arg(&library).arg(source).output() {
        Ok(built) => assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr)),
        Err(error) => {
            println!("skipped {test}: rustc: {error}");
            return None;
        }
    }
    let library = sys::Library::open("libamdhip64", &[library]).unwrap();
    // Never closed, as the real one.
    let api: &'static Api = Box::leak(Box::new(Api::new(library).unwrap()));
    Some((folder, Hip::with_api(api, 0).unwrap()))
}

const SCALE: &str = include_str!("../../tests/kernels/scale.hip");

#[test]
fn a_device_is_described_by_what_hip_says() {
    let Some((_folder, hip)) = fake_or_skip("a_device_is_described_by_what_hip_says") else { return };
    let arch = rocfire_arch::Arch::parse("gfx90a").unwrap();
    let expected = DeviceInfo {
        name: "Fake MI210".to_owned(),
        arch,
        target: "gfx90a:sramecc+:xnack-".to_owned(),
        wave_size: 64,
        compute_units: 104,
        lds_bytes: arch.info().lds_bytes,
        max_workgroup_threads: 1024,
        memory_bytes: 64 << 20,
        driver_version: "HIP 5.2.21153".to_owned(),
    };
    assert_eq!(*hip.info(), expected);
    assert_eq!(hip.free_memory_bytes(), Some(48 << 20));
}

#[test]
fn a_kernel_gets_its_arguments_and_a_fault_loses_the_device() {
    let test = "a_kernel_gets_its_arguments_and_a_fault_loses_the_device";
    let Some((_folder, hip)) = fake_or_skip(test) else { return };
    let id = DeviceId::new(DriverKind::Hip, hip.info().arch, 0);
    let device = Device::with_driver(id, crate::Config::default(), Arc::new(hip));
    let source = crate::Source::new("scale", SCALE, &[]);
    let module = match device.module(&source) {
        Err(error @ Error::NoCompiler { .. }) => {
            println!("skipped {test}: {error}");
            return;
        }
        module => module.unwrap(),
    };
    let values: Vec<u8> = (0..100_u8).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    let x = crate::Tensor::from_bytes(&device, &[100], crate::DType::F32, &values).unwrap();
    let y = crate::Tensor::empty(&device, &[100], crate::DType::F32).unwrap();
    device.stream().fill(y.buffer(), 0, 0xff, 400).unwrap();
    let mut args = Vec::new();
    args.extend_from_slice(&x.view().device_address().to_ne_bytes());
    args.extend_from_slice(&y.view().device_address().to_ne_bytes());
    args.extend_from_slice(&90_u32.to_ne_bytes());
    args.extend_from_slice(&2_f32.to_ne_bytes());
    let launch = |kernel| {
        let outputs = [y.buffer()];
        let launch = crate::Launch {
            label: "scale",
            grid: [1; 3],
            block: [256, 1, 1],
            lds_bytes: 0,
            args: &args,
            outputs: &outputs,
            work: crate::profile::Work::default(),
        };
        // SAFETY: the arguments are those of the kernel; x and y have 100 elements, of which 90 are accessed.
        unsafe { device.stream().launch(&module.function(kernel).unwrap(), &launch) }
    };
    let before = device.stream().record_event().unwrap();
    launch("scale_f32").unwrap();
    assert_eq!(device.stream().record_event().unwrap().elapsed_ms(&before).unwrap(), 1.5);
    let copy = crate::Buffer::new(&device, 400).unwrap();
    device.stream().copy(y.buffer(), 0, &copy, 0, 400).unwrap();
    let mut result = [0; 400];
    device.stream().copy_to_host(&copy, 0, &mut result).unwrap();
    let expected: Vec<u8> = (0..90_u8).flat_map(|value| (2.0 * f32::from(value)).to_le_bytes()).collect();
    assert_eq!(result[..360], expected);
    assert_eq!(result[360..], [0xff; 40]);
    assert!(matches!(crate::Buffer::new(&device, 65 << 20), Err(Error::OutOfMemory { .. })));

    launch("out_of_bounds_f32").unwrap();
    let message = device.sync().unwrap_err().to_string();
    let start = "device lost in hipStreamSynchronize: hipErrorIllegalAddress, an illegal memory access (700)";
    assert!(message.starts_with(start), "{message}");
    assert!(message.contains("newest first:\n  scale: out_of_bounds_f32 grid [1, 1, 1]"), "{message}");
}
