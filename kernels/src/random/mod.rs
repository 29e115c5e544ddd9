//! Random numbers.
//!
//! Every element is a function of ([`Seed`], its index) alone: the same on every device, in every order, whoever computes
//! it. [`uniform`], [`normal`] and [`bernoulli`] are one kernel source. The caller advances [`Seed::offset`] per draw.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod random;

pub(crate) use random::sources;
pub use random::{Seed, bernoulli, normal, uniform};
