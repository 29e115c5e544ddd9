//! Matrix products, by `rocfire_kernels::gemm`.
//!
//! A product of cuBLAS is column-major: `C = op(A) · op(B)` of `m × k` by `k × n`. Read row by row the same memory is
//! `Cᵀ = op(B)ᵀ · op(A)ᵀ`, and transposes and leading extents are strides: nothing is copied. Sums are in f32 for floats of 16 and 32
//! bits and in f64 for f64, even where [`sys::cublasComputeType_t`] would allow less; only `ROCFIRE_PRECISION` lowers them.
//! `CUBLAS_COMPUTE_32F_FAST_TF32` lets factors of f32 be rounded to TF32, where the card has it
//! ([`rocfire_kernels::gemm::GemmParams::tf32`]). The types that allow sums of fewer bits for 16-bit floats change nothing: AMD's matrix
//! units, and those of NVIDIA's cards for data centres, sum such products in f32 at the same rate.

pub mod result;
mod safe;
pub mod sys;

pub use safe::{CudaBlas, Gemm, GemmConfig, StridedBatchedConfig};
