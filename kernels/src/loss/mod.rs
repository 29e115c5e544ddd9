//! Losses that are recursions over time.
//!
//! [`ctc_alpha`] and [`ctc_beta`] are the two halves of connectionist temporal classification; the adapters make its loss and
//! gradient of them. Losses that are elementwise or row reductions are not here: those are fused.

mod ctc;

pub use ctc::{Ctc, ctc_alpha, ctc_beta};
pub(crate) use ctc::{CtcKey, source as ctc_source};
