//! Softmax and its logarithm along any axis, and their gradients. Graphs of `fusion`: one launch each, which reads a row once
//! where registers hold it.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod softmax;

pub use softmax::{log_softmax, log_softmax_backward, softmax, softmax_backward, softmax_graph};
