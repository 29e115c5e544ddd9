//! Trains the demo's transformer by Burn 0.23: `cargo run --manifest-path backend/burn/next/Cargo.toml -- STEPS`.

use std::process::ExitCode;

use burn::tensor::{Device, Tensor};
use char_transformer::{Options, run};
use rocfire_burn::RocmDevice;

fn main() -> ExitCode {
    let steps = std::env::args().nth(1).map_or(Ok(Options::STEPS), |steps| steps.parse());
    let Ok(steps) = steps else {
        eprintln!("steps must be a number");
        return ExitCode::FAILURE;
    };
    // What users of Burn write, and what names a device of rocfire's, are one device.
    let (by_number, by_name): (Device, Device) = (Device::rocm(0), RocmDevice::new(0).burn().into());
    let sum = Tensor::<1>::from_floats([1.0, 2.0, 4.0], &by_number) + Tensor::<1>::ones([3], &by_name);
    let sum = sum.into_data();
    assert_eq!(sum.as_slice::<f32>().ok(), Some([2.0_f32, 3.0, 5.0].as_slice()), "a sum on the device");
    let folder = std::env::temp_dir().join("rocfire-burn-next");
    match run(RocmDevice::default(), &Options { text: Vec::new(), steps, seed: 0, plot: false, folder }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
