//! Running results along an axis.
//!
//! [`cumulative`] is the one operator. Each line is one lane's, in ascending order: exact where order matters, and slow for
//! few long lines.

mod cumulative;

pub use cumulative::{Cumulative, cumulative};
pub(crate) use cumulative::{CumulativeKey, source as cumulative_source};
