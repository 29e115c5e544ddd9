//! What can go wrong in a training.

use std::path::PathBuf;

/// Why a training stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Weights could not be carried over to the device.
    #[error("cannot {action} the weights: {reason}")]
    Weights {
        /// `save` or `load`.
        action: &'static str,
        /// What the store said.
        reason: String,
    },
    /// A loss or a result could not be read: an operator before it failed.
    #[error("cannot read the result of step {step}: {reason}")]
    Read {
        /// Which step, counted from 0.
        step: usize,
        /// What the device said.
        reason: String,
    },
    /// A result is infinite or no number.
    #[error("{what} is not finite at step {step}")]
    NotFinite {
        /// Which result.
        what: &'static str,
        /// Which step, counted from 0.
        step: usize,
    },
    /// A file could not be read, written or drawn.
    #[error("cannot {action} {path}: {reason}")]
    File {
        /// `read`, `write` or `draw`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}
