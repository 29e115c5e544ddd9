//! Counting launches, and one program on `Fused` and on `Rocm`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_backend::Backend;
use rocfire_burn::{Fused, RocmDevice};

use crate::check;

static COUNTING: Mutex<()> = Mutex::new(());

/// The device of all tests, as a backend names it, with nobody else launching on it as long as the guard lives.
pub fn device<D: From<RocmDevice>>() -> (D, MutexGuard<'static, ()>) {
    let guard = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    (check::device(), guard)
}

/// Launches that `program` makes on the device of all tests until its work is done. Its inputs are there before.
pub fn launches<R>(program: impl FnOnce() -> R) -> (R, u64) {
    let opened = check::device::<RocmDevice>().open().unwrap();
    Fused::sync(&check::device()).unwrap();
    let before = opened.launches();
    let result = program();
    Fused::sync(&check::device()).unwrap();
    (result, opened.launches() - before)
}

/// Runs a program on `Fused` and on `Rocm`, and compares the data that it gives.
macro_rules! same {
    ($what:expr, $tolerance:expr, $device:ident => $body:expr) => {{
        let (device, _guard) = $crate::harness::device::<rocfire_burn::RocmDevice>();
        let fused: Vec<burn_backend::TensorData> = {
            #[allow(dead_code)]
            type B = rocfire_burn::Fused;
            let $device = &device.burn();
            $body
        };
        let eager: Vec<burn_backend::TensorData> = {
            #[allow(dead_code)]
            type B = rocfire_burn::Rocm;
            let $device = &device;
            $body
        };
        $crate::check::compare(&$what.to_string(), &fused, &eager, $tolerance);
    }};
}
pub(crate) use same;
