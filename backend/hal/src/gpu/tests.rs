//! The driver over `tests/fake/runtime.rs`, which is a library of either platform. Each test runs on both.

pub(crate) mod coded;
pub(crate) mod products;

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rocfire_arch::Vendor;

use super::*;
use crate::compile::KernelInfo;
use crate::driver::DriverKernel;
use crate::foreign::Library;
use crate::{Device, DeviceId};

/// Runs tests on each platform.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        #[cfg(feature = "hip")]
        mod hip { $(#[test] fn $test() { super::$test::<crate::hip::Hip>(stringify!($test)) })* }
        #[cfg(feature = "cuda")]
        mod cuda { $(#[test] fn $test() { super::$test::<crate::cuda::Cuda>(stringify!($test)) })* }
    };
}

on_both! {
    copies_of_any_size_go_through_pinned_memory_and_wait_as_little_as_they_can,
    pinned_memory_is_given_back_with_the_device,
    what_a_kernel_tells_of_an_index_is_found_in_the_memory_that_both_see,
    what_kernels_print_is_taken_from_their_modules_while_those_are_loaded,
    a_copy_between_devices_keeps_both_in_order,
    large_copies_and_work_on_the_device_keep_their_order,
    large_copies_run_beside_computations_on_a_real_gpu,
    a_device_is_described_by_what_its_platform_says,
    a_kernel_gets_its_arguments_and_a_fault_loses_the_device,
    errors_name_the_platforms_own_call,
}

/// A fake library in a folder of its own, so that it has memory of its own; without `rustc` the test says so.
pub(crate) fn built_or_skip(test: &str, fake: &'static str, vendor: Vendor) -> Option<(tempfile::TempDir, PathBuf)> {
    /// A library by what it fakes and for whom.
    type Built = ((&'static str, Vendor), Vec<u8>);
    static BUILT: Mutex<Vec<Built>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join(fake).with_extension("so");
    if let Some((_, bytes)) = built.iter().find(|(of, _)| *of == (fake, vendor)) {
        std::fs::write(&library, bytes).unwrap();
        return Some((folder, library));
    }
    let source = format!("{}/tests/fake/{fake}.rs", env!("CARGO_MANIFEST_DIR"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = std::process::Command::new(rustc);
    command.args(["--edition", "2024", "-Copt-level=1", "-o"]).arg(&library).arg(source);
    if vendor == Vendor::Nvidia {
        command.args(["--cfg", "cuda"]);
    }
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped {test}: rustc: {error}");
            return None;
        }
    }
    built.push(((fake, vendor), std::fs::read(&library).unwrap()));
    Some((folder, library))
}

/// What a test has of a fake, besides the platform over it.
pub(crate) struct Fake {
    table: FakeTable,
    _folder: tempfile::TempDir,
}

crate::foreign::table! {
    /// What the library under test tells of itself.
    FakeTable {
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

impl Fake {
    pub fn count(&self, which: c_int) -> c_int {
        // SAFETY: the library was written with it.
        unsafe { self.table.hipFakeCount(which) }.unwrap().1
    }

    fn record(&self, word: c_int) -> u64 {
        // SAFETY: as above.
        unsafe { self.table.hipFakeRecord(word) }.unwrap().1
    }
}

/// The driver over the fake; without `rustc` the test says so.
pub(crate) fn fake_or_skip<P: Platform>(test: &str) -> Option<(Fake, Gpu<P>)> {
    let (fake, api) = fake_api_or_skip(test)?;
    Some((fake, Gpu::with_api(api, 0).unwrap()))
}

fn fake_api_or_skip<P: Platform>(test: &str) -> Option<(Fake, &'static Api<P>)> {
    let (folder, library) = built_or_skip(test, "runtime", P::VENDOR)?;
    let open = || Library::open("fake", std::slice::from_ref(&library)).unwrap();
    // Never closed, as the real one.
    let api = Box::leak(Box::new(Api::new(open()).unwrap()));
    Some((Fake { table: FakeTable::new(open()), _folder: folder }, api))
}

/// A device of a driver.
pub(crate) fn device_of<P: Platform>(gpu: Gpu<P>, ordinal: u16) -> Device {
    let id = DeviceId::new(P::DRIVER, gpu.info().arch, ordinal);
    Device::with_driver(id, crate::Config::default(), Arc::new(gpu))
}

fn open<P: Platform>(api: &'static Api<P>, ordinal: u16) -> Device {
    device_of(Gpu::with_api(api, ordinal).unwrap(), ordinal)
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

fn copies_of_any_size_go_through_pinned_memory_and_wait_as_little_as_they_can<P: Platform>(test: &str) {
    let Some((fake, api)) = fake_api_or_skip::<P>(test) else { return };
    let (count, device) = (|which| fake.count(which), open(api, 0));
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

fn pinned_memory_is_given_back_with_the_device<P: Platform>(test: &str) {
    let Some((fake, api)) = fake_api_or_skip::<P>(test) else { return };
    let (count, device) = (|which| fake.count(which), open(api, 0));
    let tensor = crate::Tensor::from_bytes(&device, &[3], crate::DType::U8, &[1, 2, 3]).unwrap();
    assert_eq!(tensor.to_bytes().unwrap(), [1, 2, 3]);
    assert_eq!(count(PINNED), 1);
    drop((device, tensor));
    assert_eq!(count(PINNED), 0);
}

fn what_a_kernel_tells_of_an_index_is_found_in_the_memory_that_both_see<P: Platform>(test: &str) {
    let Some((fake, gpu)) = fake_or_skip::<P>(test) else { return };
    let variable = |word| fake.record(word);
    let module = gpu.load(b"\x7fELF").unwrap();
    let record = crate::index_fault::IndexRecord::new(true);
    record.attach(&gpu, &*module, "a source without").unwrap();
    assert_eq!((variable(0), fake.count(PINNED)), (0, 0), "nothing is made for who does not ask");
    for _ in 0..2 {
        record.attach(&gpu, &*module, "RF_CHECKS_INDICES").unwrap();
    }
    assert_eq!(fake.count(PINNED), 1);
    assert_eq!(record.take(&gpu).unwrap(), None);
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
        let fault = record.take(&gpu).unwrap().unwrap();
        assert_eq!((fault.op.as_str(), fault.index, fault.extent), ("a_name_of_16_cha", index, 7));
        gpu.synchronize().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { (claim.read(), details.read()) }, (0, 0), "there is room for the next");
        assert_eq!(record.take(&gpu).unwrap(), None);
    }
    drop((module, gpu));
    assert_eq!(fake.count(PINNED), 0);
}

fn what_kernels_print_is_taken_from_their_modules_while_those_are_loaded<P: Platform>(test: &str) {
    let Some((_folder, gpu)) = fake_or_skip::<P>(test) else { return };
    let module = gpu.load(b"\x7fELF").unwrap();
    assert_eq!(module.variable("no_such_variable").unwrap(), None);
    let (address, bytes) = module.variable("__rocfire_print").unwrap().unwrap();
    assert_eq!(bytes, 512);
    let printing = crate::print::Printing::default();
    printing.attach(&module).unwrap();
    assert_eq!(printing.taken(&gpu).unwrap(), b"");
    let memory = std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
    for number in [42_u64, 7] {
        // As a kernel does for `printf("%d!\n", number)`: five words, one argument.
        let words = [5 * 8, 5 | 1 << 32, 4, u64::from(u32::from_le_bytes(*b"%d!\n")), 0, number];
        // SAFETY: the library's device memory is the process's; the variable has these words, and nobody else uses them.
        (0..).zip(words).for_each(|(at, word)| unsafe { memory.add(at).write(word) });
        assert_eq!(printing.taken(&gpu).unwrap(), format!("{number}!\n").as_bytes());
        assert_eq!(printing.taken(&gpu).unwrap(), b"", "what was taken is gone");
    }
    // SAFETY: as above.
    unsafe { memory.write(8) };
    drop(module);
    assert_eq!(printing.taken(&gpu).unwrap(), b"", "a module that was unloaded has no variable");
}

fn a_copy_between_devices_keeps_both_in_order<P: Platform>(test: &str) {
    let Some((fake, api)) = fake_api_or_skip::<P>(test) else { return };
    let (count, here, there) = (|which| fake.count(which), open(api, 0), open(api, 1));
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

fn a_device_is_described_by_what_its_platform_says<P: Platform>(test: &str) {
    let Some((_fake, gpu)) = fake_or_skip::<P>(test) else { return };
    let (name, target, wave_size, compute_units, version) = match P::VENDOR {
        Vendor::Amd => ("Fake MI210", "gfx90a:sramecc+:xnack-", 64, 104, "HIP 5.2.21153"),
        Vendor::Nvidia => ("Fake H100", "sm_90", 32, 132, "CUDA 13.0"),
    };
    let arch = rocfire_arch::Arch::parse(target).unwrap();
    let expected = DeviceInfo {
        name: name.to_owned(),
        arch,
        target: target.to_owned(),
        wave_size,
        compute_units,
        lds_bytes: arch.info().lds_bytes,
        max_workgroup_threads: 1024,
        memory_bytes: 64 << 20,
        driver_version: version.to_owned(),
    };
    assert_eq!(*gpu.info(), expected);
    assert_eq!(gpu.free_memory_bytes(), Some(48 << 20));
}

/// Memory with these bytes.
pub(crate) fn put<P: Platform>(gpu: &Gpu<P>, bytes: &[u8]) -> u64 {
    let address = gpu.allocate(bytes.len().max(1) as u64).unwrap();
    // SAFETY: the memory was just taken; the copy is waited for.
    unsafe { gpu.upload(StreamName::Compute, address, bytes) }.unwrap();
    gpu.synchronize().unwrap();
    address
}

/// The kernel `scale_f32` of the fake, with 90 numbers to double and where they go.
pub(crate) fn scale<P: Platform>(gpu: &Gpu<P>, info: &KernelInfo) -> (Box<dyn DriverKernel>, Vec<u8>, u64) {
    let kernel = gpu.load(b"\x7fELF").unwrap().kernel(info).unwrap();
    let values: Vec<u8> = (0..100_u8).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    let [x, y] = [&values[..], &[0xff; 400]].map(|bytes| put(gpu, bytes));
    let args = [&x.to_ne_bytes()[..], &y.to_ne_bytes(), &90_u32.to_ne_bytes(), &2_f32.to_ne_bytes()].concat();
    (kernel, args, y)
}

fn a_kernel_gets_its_arguments_and_a_fault_loses_the_device<P: Platform>(test: &str) {
    let Some((_fake, gpu)) = fake_or_skip::<P>(test) else { return };
    let info = |name: &str| KernelInfo { name: name.to_owned(), ..KernelInfo::default() };
    let (kernel, args, y) = scale(&gpu, &info("scale_f32"));
    let launch = RawLaunch { grid: [1; 3], block: [256, 1, 1], lds_bytes: 0, args: &args, begins_late: false };
    let before = gpu.record_event(StreamName::Compute, None).unwrap();
    // SAFETY: the arguments are the kernel's; 90 of 100 elements are accessed.
    unsafe { kernel.launch(&launch) }.unwrap();
    assert_eq!(gpu.record_event(StreamName::Compute, None).unwrap().elapsed_ms(&*before).unwrap(), 1.5);
    let mut result = [0; 400];
    // SAFETY: it has as many bytes.
    unsafe { gpu.read(y, &mut result) }.unwrap();
    let expected: Vec<u8> = (0..90_u8).flat_map(|value| (2.0 * f32::from(value)).to_le_bytes()).collect();
    assert_eq!(result[..360], expected);
    assert_eq!(result[360..], [0xff; 40]);

    let (other, args, _) = scale(&gpu, &info("out_of_bounds_f32"));
    // SAFETY: the fake accesses nothing for it.
    unsafe { other.launch(&RawLaunch { args: &args, ..launch }) }.unwrap();
    let message = gpu.synchronize().unwrap_err().to_string();
    let lost = match P::VENDOR {
        Vendor::Amd => "device lost in hipStreamSynchronize: hipErrorIllegalAddress, an illegal memory access (700)",
        Vendor::Nvidia => {
            "device lost in cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access (700)"
        }
    };
    assert_eq!(message, lost);
}

fn errors_name_the_platforms_own_call<P: Platform>(test: &str) {
    let Some((_fake, gpu)) = fake_or_skip::<P>(test) else { return };
    assert!(
        matches!(gpu.allocate(65 << 20), Err(Error::OutOfMemory { requested_bytes, .. }) if requested_bytes == 65 << 20)
    );
    let (own, lacking) = match P::VENDOR {
        Vendor::Amd => ("hipMalloc failed: hipErrorOther, other (2)", "hipGraphLaunch"),
        Vendor::Nvidia => ("cuMemAlloc_v2 failed: CUDA_ERROR_OTHER, other (2)", "cuGraphLaunch"),
    };
    assert_eq!(gpu.shared.allocate(65 << 20).unwrap_err().to_string(), own);
    // SAFETY: the fake has no such function to be called.
    let error = gpu.shared.call(|calls| unsafe { calls.graph_launch(std::ptr::null_mut(), gpu.shared.stream.0) });
    let path = gpu.shared.api.calls.library().path();
    assert_eq!(error.unwrap_err().to_string(), format!("{path} has no {lacking}"));
}

fn large_copies_and_work_on_the_device_keep_their_order<P: Platform>(test: &str) {
    const BYTES: usize = 3 << 20;
    let Some((fake, api)) = fake_api_or_skip::<P>(test) else { return };
    let device = open(api, 0);
    let stream = device.stream();
    let [x, y] = [(); 2].map(|()| crate::Buffer::new(&device, BYTES as u64).unwrap());
    let written = [1, 2, 3].map(|seed| pattern(BYTES, seed));
    let read = |buffer| {
        let mut bytes = vec![0; BYTES];
        stream.copy_to_host(buffer, 0, &mut bytes).unwrap();
        bytes
    };
    // Nothing is done before it is waited for: what is read or overwritten out of turn shows.
    stream.copy_to_device(&written[0], &x, 0).unwrap();
    stream.copy(&x, 0, &y, 0, BYTES as u64).unwrap();
    stream.copy_to_device(&written[1], &x, 0).unwrap();
    stream.fill(&x, 0, 7, 1000).unwrap();
    stream.copy_to_device(&[9; 10], &x, 990).unwrap();
    assert!(read(&y) == written[0]);
    stream.copy_to_device(&written[2], &y, 0).unwrap();
    let expected = [&[7; 990][..], &[9; 10], &written[1][1000..]].concat();
    assert!(read(&x) == expected);
    assert!(read(&y) == written[2]);
    assert_eq!(fake.count(STREAM_WAITS), 0);
}

const SPIN: &str = r#"
struct SpinArgs { float* y; rf::u32 turns; float factor; };
extern "C" __global__ void spin(SpinArgs a) {
    float x = a.factor;
    for (rf::u32 turn = 0; turn < a.turns; turn++) x = x * a.factor + 1.0f;
    if (rf::thread_x() == 0) a.y[0] = x;
}
"#;

/// One workgroup that computes for some milliseconds leaves the copies their time.
fn large_copies_run_beside_computations_on_a_real_gpu<P: Platform>(test: &str) {
    const BYTES: usize = 12 << 20;
    let device = match Gpu::<P>::open(0) {
        Ok(gpu) if gpu.info().name.contains("emulated") => return println!("skipped {test}: {}", gpu.info().name),
        Ok(gpu) => device_of(gpu, 0),
        Err(error) => return println!("skipped {test}: {error}"),
    };
    let function = device.module(&crate::Source::new("spin", SPIN, &[])).unwrap().function("spin").unwrap();
    let stream = device.stream();
    let (x, y) = (crate::Buffer::new(&device, BYTES as u64).unwrap(), crate::Buffer::new(&device, 4).unwrap());
    let bytes = pattern(BYTES, 5);
    let args = [&y.device_address().to_ne_bytes()[..], &(1_u32 << 21).to_ne_bytes(), &0.5_f32.to_ne_bytes()].concat();
    let spin = || {
        let launch = crate::Launch {
            label: "spin",
            grid: [1; 3],
            block: [64, 1, 1],
            lds_bytes: 0,
            args: &args,
            outputs: &[&y],
            work: crate::profile::Work::default(),
        };
        // SAFETY: the arguments are the kernel's, which writes one number.
        unsafe { stream.launch(&function, &launch) }.unwrap();
    };
    let upload = || stream.copy_to_device(&bytes, &x, 0).unwrap();
    let timed = |work: &dyn Fn()| {
        device.sync().unwrap();
        let before = stream.record_event().unwrap();
        work();
        stream.record_event().unwrap().elapsed_ms(&before).unwrap()
    };
    // The first time makes the rings, and loads.
    timed(&|| (spin(), upload()).0);
    let [computing, copying] = [timed(&spin), timed(&upload)];
    let both = timed(&|| {
        spin();
        upload();
    });
    println!(
        "{}: {computing:.2} ms of computing, {copying:.2} ms of copying, {both:.2} ms for both",
        device.info().name
    );
    assert!(computing > 2.0 * copying, "the kernel must outlast the copy: {computing} and {copying} ms");
    assert!(both < computing + copying / 2.0, "{both} ms for {computing} of computing and {copying} of copying");
    // And by the events around each command: copies over the bus end before the kernel does, those on the device begin after it.
    device.start_profile().unwrap();
    spin();
    upload();
    let timed = device.take_profile().unwrap().unwrap().launches;
    let (beside, in_order): (Vec<_>, Vec<_>) = timed.iter().partition(|one| one.stream == StreamName::Transfer);
    let end_us = in_order[0].start_us + in_order[0].duration_us;
    assert!(in_order[0].operator == "spin" && !beside.is_empty(), "{timed:?}");
    assert!(beside.iter().all(|copy| copy.start_us + copy.duration_us < end_us), "{timed:?}");
    assert!(in_order[1..].iter().all(|copy| copy.start_us + copy.duration_us >= end_us), "{timed:?}");
    let mut read = vec![0; BYTES];
    stream.copy_to_host(&x, 0, &mut read).unwrap();
    assert!(read == bytes);
}
