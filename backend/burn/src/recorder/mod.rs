//! The backend that Burn programs use: operators are recorded on the model's own thread, and run as few launches.
//!
//! - `ops`, `quantised`: turn Burn's operators into operations, which `channel` hands to the recorder.
//! - `recording`: what a thread has recorded, in a form that does not name tensors, extents and scalars.
//! - `forms`: the programs that were recorded before. An operation that is the expected one costs a comparison.
//! - `state`: decides what runs when, and has the tensors that threads share.
//! - `recall`: tensors that are not kept, and how they are computed again.
//! - `record`: records operators of ours that Burn has no name for.
//! - `spent`: counts where the host's time goes.
//! - `backend`: Burn's `Backend` itself, and what it asks of a device.

mod backend;
pub(crate) mod channel;
mod forms;
mod ops;
mod quantised;
mod recall;
pub(crate) mod record;
mod recording;
mod spent;
mod state;

pub use backend::Fused;
pub(crate) use channel::Lazy;
pub use spent::{Recorded, recorded};
