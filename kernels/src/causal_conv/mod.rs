//! Causal convolution of each channel along its sequence, with the last inputs of sequences in a pool of states.
//!
//! [`causal_conv`] takes whole sequences, parts of them and single tokens alike: what it needs of earlier calls lies in the pool.
//! Convolutions of images, and those with gradients, are in [`crate::conv`].

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod causal_conv;

pub use crate::sequences::Sequences;
pub(crate) use causal_conv::sources;
pub use causal_conv::{CausalConv, Window, causal_conv};
