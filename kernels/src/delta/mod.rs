//! The gated delta rule: attention whose past is one matrix for each head (Qwen3-Next, Kimi-Linear).
//!
//! [`delta_rule`] takes the tokens of sequences into their states and gives what they read there. Lengths and the places of states
//! lie on the device, so that a recorded launch replays with others.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod delta;

pub use delta::{DELTA_K_MAX, DeltaGates, DeltaInputs, DeltaParams, DeltaStates, delta_rule, delta_workspace};
pub(crate) use delta::{has_products, sources};
