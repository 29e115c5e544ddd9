//! Every case on the device, each a test of its own name: `cargo verify gemm` runs those that hold `gemm`.
//!
//! The device is what `ROCFIRE_DEVICE` names, else the emulated default: CI and a newcomer's machine are judged alike,
//! and a real card with `ROCFIRE_DEVICE=hip:0`.

mod common;
mod graph;

use libtest_mimic::Arguments;
use rocfire_hal::{Device, DeviceId};
use rocfire_tests::case;

fn main() {
    let arguments = Arguments::from_args();
    let device = device().unwrap_or_else(|error| panic!("no device to test on: {error}"));
    let mut trials: Vec<_> = case::all().into_iter().map(|case| common::trial(case, device.clone())).collect();
    trials.push(graph::trial(&device));
    libtest_mimic::run(&arguments, trials).exit();
}

fn device() -> rocfire_hal::Result<Device> {
    let asked = std::env::var_os("ROCFIRE_DEVICE").is_some();
    let id = if asked { DeviceId::from_env()? } else { DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED)? };
    Device::get(id)
}
