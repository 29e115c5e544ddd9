//! Every case on the device, each a test of its own name: `cargo verify gemm` runs those that hold `gemm`.
//!
//! The device is what `ROCFIRE_DEVICE` names, else the emulated default: CI and a newcomer's machine are judged alike,
//! and a real card with `ROCFIRE_DEVICE=hip:0`.

mod graph;
mod just_written;
mod session;

use libtest_mimic::Arguments;
use rocfire_hal::Device;
use rocfire_tests::{Case, case, device_id, judge};

fn main() {
    let arguments = Arguments::from_args();
    let device = device_id().and_then(Device::get).unwrap_or_else(|error| panic!("no device to test on: {error}"));
    let test = |case: Case| -> session::Test {
        let device = device.clone();
        (case.name(), Box::new(move || judge(&case, &device)))
    };
    let mut tests: Vec<_> = case::all().into_iter().map(test).collect();
    tests.push((graph::NAME.to_owned(), graph::test(&device)));
    tests.push((just_written::NAME.to_owned(), just_written::test(&device)));
    session::run(&arguments, tests).exit();
}
