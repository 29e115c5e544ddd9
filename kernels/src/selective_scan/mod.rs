//! Mamba's selective scan: a linear recurrence of each channel along its sequence, with the states of sequences in a pool.
//!
//! [`selective_scan`] takes whole sequences, parts of them and single tokens alike. A sequence is gone through token by token, its
//! channels side by side: that fills a device by channels and by sequences, not by the length of one.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod selective_scan;

pub use crate::sequences::Sequences;
pub(crate) use selective_scan::sources;
pub use selective_scan::{SELECTIVE_SCAN_STATES_MAX, ScanKept, SelectiveScan, selective_scan};
