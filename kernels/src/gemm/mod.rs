//! Matrix products.
//!
//! [`gemm`] is the one operator: batched, any strides, floats on the matrix unit where there is one and everything else by
//! multiply-add. Callers are the adapters (`matmul`, linear layers and their gradients). [`gemm_fused`] is the same with a
//! bias, an activation, a residual or any other chain of `fusion` behind it, in one launch, and [`gemm_apart`] says where two are
//! faster. [`gemm_grouped`] multiplies groups of rows by a matrix each, as mixtures of experts do; how long the groups are, only the
//! device need know, and a row that several of them take lies in memory once. [`gemm_grouped_transposed`] gives the gradients of such
//! matrices.
//!
//! The kernel is one text in parts: `gemm.hip` (contract, arguments, where results go), `rows.hip` and `groups.hip` (which rows tiles are of), then for
//! the matrix units `stage.hip` (tiles in LDS) and `matrix.hip` (their product), or `fma.hip` for both without, and `kernel.hip` (the loop over K).

mod choice;
mod explain;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod gemm;
mod sources;
mod tiling;
pub mod tune;

pub(crate) use choice::{scaled_pays, sums_first, sums_pay};
pub use explain::explain;
pub use gemm::{
    GemmGroups, GemmParams, chunk_of, gemm, gemm_apart, gemm_fused, gemm_grouped, gemm_grouped_fused,
    gemm_grouped_transposed, is_ours, output_shape,
};
pub(crate) use gemm::{GroupArgs, ToldGroups, is_real, multiply, multiply_groups, outermost};
pub(crate) use sources::{Grouping, sources};
pub(crate) use tiling::{Staging, Unit};
pub(crate) use tune::candidate_hash;

/// Side of the largest product of this type that the architecture's matrix unit has; 0 where it has none.
pub(crate) fn matrix_side(info: &rocfire_arch::ArchInfo, dtype: rocfire_hal::DType) -> u16 {
    Unit::of(info, dtype).side
}
