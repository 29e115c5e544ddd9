//! Attention that a model writes out in primitives, as one kernel that does not store scores.
//!
//! `rocfire_kernels::pattern` knows what attention is; here recorded operations are handed to it.
//!
//! - *When the kernel is taken.* It is if nothing else reads the values in between: each of them dies within the stretch that is
//!   being planned. In training they live on for the gradient, and the operations run as product, softmax, product.
//! - *What runs if it does not fit.* Extents and scalars are not known when a plan is made. If the kernel does not take those of a
//!   run, kernels of the single operations run instead.
//!
//! `find` looks for attention among the operations of a stretch, for `partition`; `plan` has the plan that is kept and run.

mod find;
mod plan;

pub(super) use find::{Found, Lives, find};
pub(super) use plan::AttentionPlan;
