//! Matrix products.
//!
//! [`gemm`] is the one operator: batched, any strides, floats on the matrix unit where there is one and everything else by
//! multiply-add. Callers are the adapters (`matmul`, linear layers and their gradients). It has no epilogue yet: a bias or
//! an activation is a launch of `fusion`.

#[allow(clippy::module_inception)] // The family and its operator have one name.
mod gemm;
mod tiling;

pub(crate) use gemm::{GemmKey, matrix_side, source};
pub use gemm::{GemmParams, gemm, output_shape};
pub(crate) use tiling::{Mode, TILINGS};
