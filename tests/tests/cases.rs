//! Every case on the device, each a test of its own name: `cargo verify gemm` runs those that hold `gemm`.
//!
//! The device is what `ROCFIRE_DEVICE` names, else the emulated default: CI and a newcomer's machine are judged alike,
//! and a real card with `ROCFIRE_DEVICE=hip:0`.

mod common;
mod graph;

use libtest_mimic::Arguments;
use rocfire_hal::Device;
use rocfire_tests::{case, device_id};

fn main() {
    let arguments = Arguments::from_args();
    let device = device_id().and_then(Device::get).unwrap_or_else(|error| panic!("no device to test on: {error}"));
    let mut trials: Vec<_> = case::all().into_iter().map(|case| common::trial(case, device.clone())).collect();
    trials.push(graph::trial(&device));
    libtest_mimic::run(&arguments, trials).exit();
}
