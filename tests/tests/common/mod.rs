//! A case as a test of its own name.

use libtest_mimic::{Failed, Trial};
use rocfire_hal::Device;
use rocfire_tests::{Case, expectation};

/// The case on the device; one that is expected to fail must.
pub fn trial(case: Case, device: Device) -> Trial {
    Trial::test(case.name(), move || {
        let outcome = case.check(&device);
        match (outcome, expectation(&case, device.arch())) {
            (Ok(_), None) => Ok(()),
            (Err(error), None) => Err(Failed::from(error)),
            (Err(_), Some(_)) => Ok(()),
            (Ok(_), Some(row)) => Err(Failed::from(format!("passes, but is expected to fail: {}", row.reason))),
        }
    })
}
