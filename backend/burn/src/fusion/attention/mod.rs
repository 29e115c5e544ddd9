//! Attention that a model writes out in primitives, as the kernel that keeps no scores.
//!
//! What attention is, is `rocfire_kernels::pattern`'s business; here recorded operations are told to it.
//!
//! - *When the kernel may stand in.* It may if nobody else reads what is computed inside: each value in between dies within the
//!   stretch that is being planned. In training they live on for the gradient, and the operations run as product,
//!   softmax, product.
//! - *What runs if it does not fit.* Extents and scalars are not known when a plan is made. Those that are none of the kernel's run
//!   as kernels of the operations.
//!
//! `find` looks for attention among the operations of a stretch, for `partition`; `plan` is what is kept and run.

mod find;
mod plan;

pub(super) use find::{Found, Lives, find};
pub(super) use plan::AttentionPlan;
