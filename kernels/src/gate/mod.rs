//! Gated activations: one half of a row's columns, through an activation, times the other half. Graphs of `fusion`, one launch.

mod activation;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod gate;
mod gate_backward;

pub use activation::Activation;
pub(crate) use gate::check;
pub use gate::{GateLayout, GateParams, gate};
pub use gate_backward::gate_backward;
