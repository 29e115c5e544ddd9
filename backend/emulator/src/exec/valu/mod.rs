//! The vector ALU: VOP1, VOP2, VOPC, VOP3 and VOP3P, in all their encodings.
//!
//! An operation is written once, as a function of one lane's sources ([`driver::Op`] and its siblings), whatever encoding it came in.
//! [`driver`] has the loops over the lanes, for each CPU level. [`modifiers`] does what an encoding adds (SDWA, DPP, negation, clamp,
//! `op_sel`) around the same loops. The most frequent operations have a second form, on host vectors ([`vector`]).
//!
//! Each class of operations has a file, with a `choose` that matches on the operation. Moves between lanes and the matrix unit are
//! elsewhere in `exec`.
//!
//! [`rdna`] has the operations of the RDNA line, and [`permute`] its moves between lanes.
//!
//! What is not here: `v_nop` and `v_clrexcp`, which do nothing, are handled by an empty handler below;
//! `v_screen_partition_4se_b32` belongs to graphics and stays unknown.

pub(super) mod bfloat16;
pub(super) mod bitop3;
pub(super) mod compare;
mod directed;
pub(crate) mod dpp;
pub(crate) mod driver;
pub(super) mod float16;
pub(super) mod float32;
pub(super) mod float64;
pub(super) mod float8;
#[cfg(target_arch = "x86_64")]
mod forms;
pub(super) mod int16;
pub(super) mod int32;
pub(super) mod int64;
pub(super) mod mask;
pub(super) mod minimum3;
mod modifiers;
mod overflow;
pub(super) mod packed;
pub(super) mod permute;
pub(super) mod rdna;
pub(super) mod scaled;
pub(super) mod special;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
/// Without the host's vector registers, the loops over lanes are all there is.
#[cfg(not(target_arch = "x86_64"))]
mod vector {
    pub(crate) use super::driver::{
        Compare as HotCompare, MaskOp as HotMask, Op as Hot, Op as HotPair, compare_handlers, mask_handlers,
        op_handlers, op_handlers as wide_handlers, pair_handlers,
    };
}
mod word;
