//! Candle on AMD GPUs: which device was found, and what Candle lacks there.
//!
//! Candle's own crates need nothing of this one: with two patches its `Device::new_cuda(0)` is rocfire's device (see
//! `cudarc`'s page). [`device`] opens it and says what it is. A patch that is missing, or of another source, stops the
//! build here: the types would be two.
//!
//! [`flash_attn`] is attention in one kernel, which Candle has for CUDA in a crate of its own. `candle-flash-attn` is a package
//! here too, for models that ask for it by name (`use_flash_attn`): a third patch.

mod attention;
mod device;
mod storage;

pub use attention::{FlashAttention, flash_attn, flash_attn_windowed, flash_attn_windowed_softcap};
pub use device::{Found, device, launches};
