//! A case as a test of its own name.

use libtest_mimic::{Failed, Trial};
use rocfire_hal::Device;
use rocfire_tests::{Case, judge};

/// The case on the device; one that is expected to fail must.
pub fn trial(case: Case, device: Device) -> Trial {
    Trial::test(case.name(), move || judge(&case, &device).map_err(Failed::from))
}
