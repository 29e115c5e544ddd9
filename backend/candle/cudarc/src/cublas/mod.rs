//! Matrix products, by `rocfire_kernels::gemm`.
//!
//! A product of cuBLAS is column-major: `C = op(A) · op(B)` of `m × k` by `k × n`. Read row by row the same memory is
//! `Cᵀ = op(B)ᵀ · op(A)ᵀ`, and transposes and leading extents are strides: nothing is copied. Sums are in f32 for floats of 16 and 32
//! bits and in f64 for f64, whatever less [`sys::cublasComputeType_t`] would allow; `ROCFIRE_PRECISION` is what lowers them.

pub mod result;
mod safe;
pub mod sys;

pub use safe::{CudaBlas, Gemm, GemmConfig, StridedBatchedConfig};
