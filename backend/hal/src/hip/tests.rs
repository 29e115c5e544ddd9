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
    let (folder, api) = fake_api_or_skip(test)?;
    Some((folder, Hip::with_api(api, 0).unwrap()))
}

fn fake_api_or_skip(test: &str) -> Option<(tempfile::TempDir, &'static Api)> {
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
    Some((folder, Box::leak(Box::new(Api::new(library).unwrap()))))
}

sys::table! {
    /// What the library under test tells of itself.
    Fake {
        /// How often something happened.
        fn hipFakeCount(which: c_int) -> c_int;
        /// A word of the variable of every module.
        fn hipFakeRecord(word: c_int) -> u64;
    }
}

const STREAM_WAITS: c_int = 0;
const EVENT_WAITS: c_int = 1;
const PINNED: c_int = 2;
const PEER_COPIES: c_int = 3;

fn counts(folder: &tempfile::TempDir) -> impl Fn(c_int) -> c_int + use<> {
    let table = Fake::new(sys::Library::open("fake", &[folder.path().join("libamdhip64.so.5")]).unwrap());
    // SAFETY: the library was written with it.
    move |which| unsafe { table.hipFakeCount(which) }.unwrap()
}

fn open(api: &'static Api, ordinal: u16) -> Device {
    let hip = Hip::with_api(api, ordinal).unwrap();
    let id = DeviceId::new(DriverKind::Hip, hip.info().arch, ordinal);
    Device::with_driver(id, crate::Config::default(), Arc::new(hip))
}

/// Bytes without a short period.
fn pattern(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn copies_of_any_size_go_through_pinned_memory_and_wait_as_little_as_they_can() {
    let test = "copies_of_any_size_go_through_pinned_memory_and_wait_as_little_as_they_can";
    let Some((folder, api)) = fake_api_or_skip(test) else { return };
    let (count, device) = (counts(&folder), open(api, 0));
    let sizes = [1, 100, 4096, 5 << 20, 63, 40 << 20, 7];
    let written: Vec<Vec<u8>> = (0..).zip(sizes).map(|(seed, size)| pattern(size, seed)).collect();
    let up = |bytes: &Vec<u8>| crate::Tensor::from_bytes(&device, &[bytes.len()], crate::DType::U8, bytes).unwrap();
    let tensors: Vec<crate::Tensor> = written.iter().map(up).collect();
    assert_eq!((count(STREAM_WAITS), count(PINNED)), (0, 1));
    // 45 MiB went up: whoever wraps around 16 MiB waits for the oldest 4.
    assert!((1..=9).contains(&count(EVENT_WAITS)), "{}", count(EVENT_WAITS));
    let read = crate::Tensor::read_all(&tensors.iter().collect::<Vec<_>>()).unwrap();
    assert!(read == written, "what was read is what was written");
    assert_eq!(count(STREAM_WAITS), 0);

    // However many are small, one wait.
    let before = count(EVENT_WAITS);
    let small: Vec<Vec<u8>> = (0..200).map(|seed| pattern(1000 + seed, seed as u32)).collect();
    let tensors: Vec<crate::Tensor> = small.iter().map(up).collect();
    assert_eq!(count(EVENT_WAITS), before);
    assert!(crate::Tensor::read_all(&tensors.iter().collect::<Vec<_>>()).unwrap() == small);
    assert_eq!(count(EVENT_WAITS), before + 1);
}

#[test]
fn pinned_memory_is_given_back_with_the_device() {
    let Some((folder, api)) = fake_api_or_skip("pinned_memory_is_given_back_with_the_device") else { return };
    let (count, device) = (counts(&folder), open(api, 0));
    let tensor = crate::Tensor::from_bytes(&device, &[3], crate::DType::U8, &[1, 2, 3]).unwrap();
    assert_eq!(tensor.to_bytes().unwrap(), [1, 2, 3]);
    assert_eq!(count(PINNED), 1);
    drop((device, tensor));
    assert_eq!(count(PINNED), 0);
}

#[test]
fn what_a_kernel_tells_of_an_index_is_found_in_the_memory_that_both_see() {
    let test = "what_a_kernel_tells_of_an_index_is_found_in_the_memory_that_both_see";
    let Some((folder, hip)) = fake_or_skip(test) else { return };
    let fake = Fake::new(sys::Library::open("fake", &[folder.path().join("libamdhip64.so.5")]).unwrap());
    // SAFETY: the library was written with it.
    let variable = |word| unsafe { fake.hipFakeRecord(word) }.unwrap();
    let module = hip.load(b"\x7fELF").unwrap();
    let record = crate::index_fault::IndexRecord::new(true);
    record.attach(&hip, &*module, "a source without").unwrap();
    assert_eq!((variable(0), counts(&folder)(PINNED)), (0, 0), "nothing is made for who does not ask");
    for _ in 0..2 {
        record.attach(&hip, &*module, "RF_CHECKS_INDICES").unwrap();
    }
    assert_eq!(counts(&folder)(PINNED), 1);
    assert_eq!(record.take(&hip).unwrap(), None);
    let [claim, details] = [0, 1].map(|word| std::ptr::with_exposed_provenance_mut::<u64>(variable(word) as usize));
    for index in [-3_i64, 1 << 40] {
        // As a kernel does: the claim, and what there is to tell.
        let name = |from: usize| u64::from_le_bytes(*b"a_name_of_16_char"[from..].first_chunk().unwrap());
        let words = [name(0), name(8), 0, index as u64, 7];
        // SAFETY: the library's device memory is the process's; the record has these words, and nobody else uses them.
        unsafe {
            claim.write(1);
            (1..).zip(words).for_each(|(at, word)| details.add(at).write(word));
            details.write(1);
        }
        let fault = record.take(&hip).unwrap().unwrap();
        assert_eq!((fault.op.as_str(), fault.index, fault.extent), ("a_name_of_16_cha", index, 7));
        hip.synchronize().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { (claim.read(), details.read()) }, (0, 0), "there is room for the next");
        assert_eq!(record.take(&hip).unwrap(), None);
    }
    drop((module, hip));
    assert_eq!(counts(&folder)(PINNED), 0);
}

#[test]
fn what_kernels_print_is_taken_from_their_modules_while_those_are_loaded() {
    let test = "what_kernels_print_is_taken_from_their_modules_while_those_are_loaded";
    let Some((_folder, hip)) = fake_or_skip(test) else { return };
    let module = hip.load(b"\x7fELF").unwrap();
    assert_eq!(module.variable("no_such_variable").unwrap(), None);
    let (address, bytes) = module.variable("__rocfire_print").unwrap().unwrap();
    assert_eq!(bytes, 512);
    let printing = crate::print::Printing::default();
    printing.attach(&module).unwrap();
    assert_eq!(printing.taken(&hip).unwrap(), b"");
    let memory = std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
    for number in [42_u64, 7] {
        // As a kernel does for `printf("%d!\n", number)`: five words, one argument.
        let words = [5 * 8, 5 | 1 << 32, 4, u64::from(u32::from_le_bytes(*b"%d!\n")), 0, number];
        // SAFETY: the library's device memory is the process's; the variable has these words, and nobody else uses them.
        (0..).zip(words).for_each(|(at, word)| unsafe { memory.add(at).write(word) });
        assert_eq!(printing.taken(&hip).unwrap(), format!("{number}!\n").as_bytes());
        assert_eq!(printing.taken(&hip).unwrap(), b"", "what was taken is gone");
    }
    // SAFETY: as above.
    unsafe { memory.write(8) };
    drop(module);
    assert_eq!(printing.taken(&hip).unwrap(), b"", "a module that was unloaded has no variable");
}

#[test]
fn a_copy_between_devices_keeps_both_in_order() {
    let Some((folder, api)) = fake_api_or_skip("a_copy_between_devices_keeps_both_in_order") else { return };
    let (count, here, there) = (counts(&folder), open(api, 0), open(api, 1));
    let bytes = pattern(5000, 3);
    let source = crate::Tensor::from_bytes(&here, &[5000], crate::DType::U8, &bytes).unwrap();
    let moved = source.to_device(&there).unwrap();
    assert_eq!((moved.device(), moved.to_device(&there).unwrap().buffer().same(moved.buffer())), (&there, true));
    // What comes later on the first device does not reach what was copied.
    here.stream().fill(source.buffer(), 0, 0, 5000).unwrap();
    assert_eq!(count(PEER_COPIES), 1);
    here.sync().unwrap();
    assert!(moved.to_bytes().unwrap() == bytes);
    assert_eq!(source.to_bytes().unwrap(), [0; 5000]);
    // And back, from the middle to the middle.
    let stream = here.stream();
    stream.copy_from_device(moved.buffer(), 100, source.buffer(), 1000, 50).unwrap();
    assert_eq!(source.to_bytes().unwrap()[999..1051], [&[0], &bytes[100..150], &[0]].concat());
    let error = stream.copy_from_device(moved.buffer(), 4990, source.buffer(), 0, 11).unwrap_err().to_string();
    assert!(error.contains("source"), "{error}");
    let error = stream.copy_from_device(moved.buffer(), 0, source.buffer(), 4999, 2).unwrap_err().to_string();
    assert!(error.contains("target"), "{error}");
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
