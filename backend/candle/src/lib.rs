//! Candle on AMD GPUs: which device was found, and what Candle lacks there.
//!
//! Candle's own crates need nothing of this one: with two patches its `Device::new_cuda(0)` is rocfire's device (see
//! `cudarc`'s page). [`device`] opens it and says what it is. A patch that is missing, or of another source, stops the
//! build here: the types would be two.

mod device;

pub use device::{Found, device};
