//! Normalisation of rows: RMSNorm, Gemma's, LayerNorm and GroupNorm, with a residual added before, a gate behind, codes
//! instead of floats, and their gradients.
//!
//! All but the codes, and gradients of whole rows, are graphs of `fusion`, whose row kernels keep a row in registers where it fits: a
//! norm is one launch that reads each element once. Query and key norms are two calls one after the other: launches of one kernel share one.

mod group_norm;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod norm;
mod norm_backward;

pub use group_norm::{GroupNormGradients, GroupNormParams, group_norm, group_norm_backward};
pub use norm::{NormKind, NormParams, norm, norm_graph};
pub(crate) use norm::{check, check_output};
pub(crate) use norm_backward::sources;
pub use norm_backward::{NormGradients, norm_backward};
