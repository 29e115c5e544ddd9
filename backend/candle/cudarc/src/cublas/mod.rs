//! Matrix products, by `rocfire_kernels::gemm`.
//!
//! A product of cuBLAS is column-major: `C = op(A) · op(B)` of `m × k` by `k × n`. Read row by row the same memory is
//! `Cᵀ = op(B)ᵀ · op(A)ᵀ`, and transposes and leading extents are strides: nothing is copied. Sums are in f32 for floats of 16 and 32
//! bits and in f64 for f64, whatever less [`sys::cublasComputeType_t`] would allow; `ROCFIRE_PRECISION` is what lowers them.
//! `CUBLAS_COMPUTE_32F_FAST_TF32` lets factors of f32 be rounded to TF32, where the card has it
//! ([`rocfire_kernels::gemm::GemmParams::tf32`]); the types for fewer bits of 16-bit floats allow what brings nothing: AMD's matrix
//! units, and NVIDIA's of data centres, sum such products in f32 at the same rate.

pub mod result;
mod safe;
pub mod sys;

pub use safe::{CudaBlas, Gemm, GemmConfig, StridedBatchedConfig};
