//! What is known to fail, as data: a row turns a failure into an expected one, and fails the day the case passes.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Device};

use crate::Case;
use crate::case::Failure;

/// A case, or a group of them, that is known to fail.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// The operator.
    pub operator: &'static str,
    /// The dtype, or every one.
    pub dtype: Option<DType>,
    /// The architecture, or every one.
    pub arch: Option<&'static str>,
    /// Why, and what would end it.
    pub reason: &'static str,
}

/// Nothing is known to fail.
const EXPECTATIONS: &[Expectation] = &[];

/// Runs a case on a device; one that is expected to fail must.
///
/// # Errors
/// Why it failed, or that it passed where it should not.
pub fn judge(case: &Case, device: &Device) -> Result<(), Failure> {
    match (case.check(device), expectation(case, device.arch())) {
        (Ok(_), None) | (Err(_), Some(_)) => Ok(()),
        (Err(error), None) => Err(error),
        (Ok(_), Some(row)) => Err(format!("passes, but is expected to fail: {}", row.reason).into()),
    }
}

/// The row that a case falls under on an architecture.
pub fn expectation(case: &Case, arch: Arch) -> Option<&'static Expectation> {
    EXPECTATIONS.iter().find(|row| {
        row.operator == case.operator
            && row.dtype.is_none_or(|dtype| dtype == case.dtype)
            && row.arch.is_none_or(|name| name == arch.name())
    })
}
