//! Attention that a model writes out in primitives, as the kernel that keeps no scores.
//!
//! What attention is, is `rocfire_kernels::pattern`'s business; here Burn's stream is told to it. Two things are Burn's own:
//!
//! - *When the kernel may stand in.* It may if nobody else reads what is computed inside: each value in between dies within the
//!   plan. In training they live on for the gradient, and the operators run as product, softmax, product. The weights may die a
//!   little later, as those in `burn::nn`'s `MhaOutput` do when it is taken apart: the plan then goes on with the
//!   operations behind until they are dropped.
//! - *What comes between.* Burn's search puts operations into one block by the tensors that they share, and blocks together where
//!   one operation reads from both. The projection that makes the values is still open when the product that reads them
//!   comes, so a plan has operations before its attention, which run first: views, and one kernel of elementwise operations or
//!   a product with its end.
//!
//! - *What runs if it comes to nothing.* The program may ask for results while a reading waits for its end, and shapes or
//!   scalars may turn out to be none of the kernel's. Then the operations run as the other fusers have them.
//!
//! `collect` is the fuser, `follow` one reading of a stream as attention, `plan` what is kept and run, `apart` the same
//! operations without the kernel.

mod apart;
mod collect;
mod follow;
mod plan;

pub(super) use apart::Apart;
pub(super) use collect::AttentionFuser;
pub(super) use plan::AttentionPlan;
