//! The backend in Burn's slot: operators recorded on the model's own thread, run as few launches.
//!
//! - `ops`, `quantised`: Burn's operators as operations, by way of `channel`.
//! - `recording`: what a thread has recorded, in a form that does not name tensors, extents and scalars.
//! - `forms`: the programs that came before. An operation that is the one expected costs a comparison.
//! - `state`: what runs when, and tensors that several threads share.
//! - `record`: operators of ours that Burn has no name for.
//! - `spent`: where the host's time goes.
//! - `backend`: what Burn asks of the whole.

mod backend;
mod channel;
mod forms;
mod ops;
mod quantised;
pub(crate) mod record;
mod recording;
mod spent;
mod state;

pub use backend::Fused;
pub(crate) use channel::Lazy;
pub use spent::{Recorded, recorded};
