//! Counting launches, and one program on `Fused` and on `Rocm`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_backend::Backend;
use rocfire_burn::{Fused, RocmDevice};

use crate::check;

static COUNTING: Mutex<()> = Mutex::new(());

/// The device of all tests, with nobody else launching on it as long as the guard lives.
pub fn device() -> (RocmDevice, MutexGuard<'static, ()>) {
    let guard = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    (check::device(), guard)
}

/// Launches that `program` makes until its work is done. Its inputs are there before.
pub fn launches<R>(device: &RocmDevice, program: impl FnOnce() -> R) -> (R, u64) {
    Fused::sync(device).unwrap();
    let before = device.open().unwrap().launches();
    let result = program();
    Fused::sync(device).unwrap();
    (result, device.open().unwrap().launches() - before)
}

/// Runs a program on `Fused` and on `Rocm`, and compares the data that it gives.
macro_rules! same {
    ($what:expr, $tolerance:expr, $device:ident => $body:expr) => {{
        let (device, _guard) = $crate::harness::device();
        let $device = &device;
        let fused: Vec<burn_backend::TensorData> = {
            #[allow(dead_code)]
            type B = rocfire_burn::Fused;
            $body
        };
        let eager: Vec<burn_backend::TensorData> = {
            #[allow(dead_code)]
            type B = rocfire_burn::Rocm;
            $body
        };
        $crate::check::compare(&$what.to_string(), &fused, &eager, $tolerance);
    }};
}
pub(crate) use same;
