//! The error of calls to the driver.

use std::fmt;
use std::sync::Arc;

/// Why a call failed, in rocfire's words. Two errors are equal if their messages are.
#[derive(Clone, PartialEq, Eq)]
pub struct DriverError(Arc<str>);

impl DriverError {
    /// An error with this message.
    pub fn new(message: impl Into<Arc<str>>) -> DriverError {
        DriverError(message.into())
    }

    /// Its message.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverError({:?})", &self.0)
    }
}

impl std::error::Error for DriverError {}

impl From<rocfire_hal::Error> for DriverError {
    fn from(error: rocfire_hal::Error) -> DriverError {
        DriverError::new(error.to_string())
    }
}

impl From<rocfire_kernels::Error> for DriverError {
    fn from(error: rocfire_kernels::Error) -> DriverError {
        DriverError::new(error.to_string())
    }
}

impl From<rocfire_fusion::Error> for DriverError {
    fn from(error: rocfire_fusion::Error) -> DriverError {
        DriverError::new(error.to_string())
    }
}
