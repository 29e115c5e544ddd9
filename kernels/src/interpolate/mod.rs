//! Resizing of images: nearest, bilinear, bicubic, Lanczos, and their gradients.
//!
//! Every mode is separable: a small first launch makes the taps of each row and column in f64, and for the gradient the rows
//! and columns of the result that each of the image went into; the second makes one element per lane. The gradient gathers,
//! so that its order is fixed. Callers are the adapters.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod interpolate;

pub(crate) use interpolate::sources;
pub use interpolate::{Interpolation, interpolate, interpolate_gradient};
