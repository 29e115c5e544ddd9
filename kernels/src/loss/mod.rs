//! Losses.
//!
//! [`cross_entropy`] and its gradient, of classes by their numbers, are graphs of `fusion`; [`ctc_alpha`] and [`ctc_beta`] are the
//! two halves of connectionist temporal classification, of which the adapters make its loss and gradient.

mod cross_entropy;
mod ctc;

pub use cross_entropy::{CrossEntropy, cross_entropy, cross_entropy_backward};
pub(crate) use ctc::sources;
pub use ctc::{Ctc, ctc_alpha, ctc_beta};

#[cfg(test)]
mod tests;
