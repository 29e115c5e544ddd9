//! The Walsh-Hadamard transform of rows, which spreads outliers over a row before it is coded in few bits.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod hadamard;

pub(crate) use hadamard::sources;
pub use hadamard::{HADAMARD_MAX, hadamard};
