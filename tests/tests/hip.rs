//! `hal`'s `hip` driver, unchanged, over the emulator behind HIP's C interface: a case of every operator and type, its
//! kernels compiled by hiprtc, through the very calls that a real card gets. `ROCFIRE_TEST_FULL=1` runs every case.
//!
//! The library that is opened is the one that this test's build has made. It is found as a user's is: in a ROCm folder.

mod common;
mod graph;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use rocfire_hal::{DType, Device, DeviceId, DriverKind, Tensor};

/// The name under which the library's newest version is looked for.
const LIBRARY: &str = "libamdhip64.so.7";

fn main() {
    let arguments = Arguments::from_args();
    let rocm = rocm_folder();
    let settings =
        [("ROCM_PATH", rocm.path().to_str().expect("temporary folders have plain names")), ("ROCFIRE_DEVICE", "hip:0")];
    for (name, value) in settings {
        // SAFETY: this is the only thread so far.
        unsafe { std::env::set_var(name, value) };
    }
    let device = DeviceId::hip(0).and_then(Device::get).unwrap_or_else(|error| panic!("no device to test on: {error}"));
    let mut trials = vec![
        {
            let device = device.clone();
            Trial::test("the_device_is_the_emulated_one", move || is_emulated(&device))
        },
        {
            let device = device.clone();
            Trial::test("too_much_memory_is_an_error_and_the_device_stays_usable", move || out_of_memory(&device))
        },
    ];
    let graph = graph::test(&device);
    trials.push(Trial::test(graph::NAME, move || graph().map_err(Failed::from)));
    trials.extend(common::share().into_iter().map(|case| common::trial(case, device.clone())));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructors.
    drop(rocm);
    conclusion.exit();
}

/// A folder as ROCm's, with the library in it.
fn rocm_folder() -> tempfile::TempDir {
    let library = built_library();
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let lib = folder.path().join("lib");
    std::fs::create_dir(&lib).and_then(|()| std::fs::copy(&library, lib.join(LIBRARY))).expect("it can be copied");
    folder
}

/// Cargo puts a dependency's shared library beside the tests that need it.
fn built_library() -> PathBuf {
    let executable = std::env::current_exe().expect("the test is a file");
    let library = executable.parent().map(Path::to_owned).unwrap_or_default().join("librocfire_amdhip64.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

fn is_emulated(device: &Device) -> Result<(), Failed> {
    let info = device.info();
    let expected = format!("emulated {}", rocfire_arch::DEFAULT_EMULATED);
    if device.id().driver() != DriverKind::Hip || !info.name.contains(&expected) || info.arch != device.arch() {
        return Err(format!("{info:?}").into());
    }
    Ok(())
}

fn out_of_memory(device: &Device) -> Result<(), Failed> {
    let elements = device.info().memory_bytes as usize;
    match Tensor::empty(device, &[elements], DType::F32) {
        Err(rocfire_hal::Error::OutOfMemory { .. }) => {}
        other => return Err(format!("{other:?}").into()),
    }
    let values = [1_u8, 2, 3, 4];
    let tensor = Tensor::from_bytes(device, &[4], DType::U8, &values).map_err(|error| error.to_string())?;
    let mut back = [0; 4];
    device.stream().copy_to_host(tensor.buffer(), 0, &mut back).map_err(|error| error.to_string())?;
    if back == values { Ok(()) } else { Err(format!("{back:?}").into()) }
}
