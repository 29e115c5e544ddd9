//! Attention: `softmax(Q · Kᵀ · scale + bias) · V` without its scores in memory.
//!
//! [`attention`] is the forward, [`attention_backward`] its gradients, [`AttentionInputs`] what it reads and [`AttentionParams`] what it is asked for. The kernels
//! run on the matrix unit for 16-bit floats (and f32 on MFMA), by multiply-add else; `tile.rs` chooses the tiles, `tile.h` is
//! what a workgroup is made of, `scores.h` says what is hidden. `plain.hip` is for f32 on NVIDIA's cards; `aiter.rs` and `aiter/backward.rs` say when
//! AMD's own kernels go first, where they are installed, `paged/aiter.rs` when for decoding. [`paged_attention`] is the forward
//! over a cache on pages, for decoding. Callers are the adapters.

mod aiter;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod attention;
mod attention_backward;
mod choice;
mod explain;
mod paged;
mod plain;
mod problem;
mod sources;
mod tile;
mod work;

#[cfg(test)]
mod tests;

pub use attention::attention;
pub use attention_backward::{AttentionSaved, attention_backward, attention_backward_sinks};
pub use explain::{explain, explain_backward};
pub use paged::{
    PAGED_VALUE_DEPTH_MAX, PagedInputs, PagedParams, Queries, QueryCodes, explain_paged, paged_attention,
    paged_workspace,
};
pub use plain::is_fast;
pub use problem::{AttentionInputs, AttentionParams, DEPTH_MAX, Dropout, Starts, takes_depth};
pub(crate) use sources::sources;
pub(crate) use tile::Tile;
