//! A case as a test of its own name.

use libtest_mimic::{Failed, Trial};
use rocfire_hal::Device;
use rocfire_tests::{Case, judge};

/// The case on the device; one that is expected to fail must.
pub fn trial(case: Case, device: Device) -> Trial {
    Trial::test(case.name(), move || judge(&case, &device).map_err(Failed::from))
}

/// What a case may move and compute to be small.
const MOST_BYTES: f64 = 64.0 * 1024.0;
const MOST_FLOPS: f64 = 1e6;

/// Of every operator and type the largest case that is small; with `ROCFIRE_TEST_FULL` every case.
#[allow(dead_code)] // Not every binary of tests that has this module in it asks for it.
pub fn share() -> Vec<Case> {
    let mut cases = rocfire_tests::case::all();
    if std::env::var_os("ROCFIRE_TEST_FULL").is_some() {
        return cases;
    }
    cases.retain(|case| case.cost.bytes <= MOST_BYTES && case.cost.flops <= MOST_FLOPS);
    cases.sort_by(|a, b| b.cost.bytes.total_cmp(&a.cost.bytes));
    let mut seen = std::collections::HashSet::new();
    cases.retain(|case| seen.insert((case.operator, case.dtype.name())));
    cases
}
