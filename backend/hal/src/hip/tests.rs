use super::*;
use crate::gpu::tests::{device_of, fake_or_skip};
use crate::{Device, DeviceId};

#[test]
fn a_library_that_is_not_there_is_an_error_that_says_where_it_was_looked_for() {
    let candidates = candidates(&["librocfire_test_nowhere.so"]);
    let error = Library::open("librocfire_test_nowhere", &candidates).err().expect("there is no such library");
    let message = error.to_string();
    assert!(message.starts_with("cannot load librocfire_test_nowhere: tried "), "{message}");
    assert!(message.contains("librocfire_test_nowhere.so"), "{message}");
}

#[test]
fn a_function_that_a_library_lacks_is_an_error_when_it_is_called() {
    crate::foreign::table! {
        /// A table with a function that exists nowhere.
        Lacking {
            /// None.
            fn hipRocfireTestNoSuchFunction() -> c_int;
        }
    }
    let Ok(library) = Library::open("libc", &["libc.so.6".into()]) else {
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
    let api = match Hip::api() {
        Ok(api) => api,
        Err(error) => {
            println!("skipped without_a_device_the_answer_says_so_and_why: {error}");
            return;
        }
    };
    for name in ["HIP_FORCE_DEV_KERNARG", "GPU_MAX_HW_QUEUES"] {
        assert!(std::env::var_os(name).is_some(), "{name} is set before HIP opens");
    }
    assert!(api.platform.version().major >= 5, "{}", api.platform.version());
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

const SCALE: &str = include_str!("../../tests/kernels/scale.hip");

#[test]
fn a_compiled_kernel_gets_its_arguments_and_a_fault_tells_of_the_last_launches() {
    let test = "a_compiled_kernel_gets_its_arguments_and_a_fault_tells_of_the_last_launches";
    let Some((_fake, hip)) = fake_or_skip::<Hip>(test) else { return };
    let device = device_of(hip, 0);
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

fn properties(at: usize, target: &str) -> Vec<u8> {
    let mut bytes = vec![0; PROPERTIES_BYTES];
    bytes[..12].copy_from_slice(b"gfx90c (APU)");
    bytes[at..at + target.len()].copy_from_slice(target.as_bytes());
    bytes
}

#[test]
fn target_is_found_in_properties_of_hip_5_and_6() {
    for at in [396, 1160] {
        let found = find_target(&properties(at, "gfx942:sramecc+:xnack-"));
        assert_eq!(found.as_deref(), Some("gfx942:sramecc+:xnack-"), "at {at}");
    }
}

#[test]
fn marketing_name_is_not_taken_for_the_target() {
    assert_eq!(find_target(&properties(396, "")), None);
}
