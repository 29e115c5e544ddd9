//! Matrix products.
//!
//! [`gemm`] is the one operator: batched, any strides, floats on the matrix unit where there is one and everything else by
//! multiply-add. Callers are the adapters (`matmul`, linear layers and their gradients). [`gemm_fused`] is the same with a
//! bias, an activation, a residual or any other chain of `fusion` behind it, in one launch.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod gemm;
mod tiling;

pub(crate) use gemm::{GemmKey, matrix_side, source};
pub use gemm::{GemmParams, gemm, gemm_fused, output_shape};
pub(crate) use tiling::{Mode, TILINGS};
