//! The types of cuBLAS that Candle names.

#![allow(non_camel_case_types)] // cuBLAS's names.

use crate::driver::sys::CUstream;

/// A number that names the stream that products run on.
pub type cublasHandle_t = CUstream;

/// Whether a matrix is transposed for a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cublasOperation_t {
    /// It is taken as it is.
    CUBLAS_OP_N = 0,
    /// It is transposed.
    CUBLAS_OP_T = 1,
}

/// The least precision that factors and sums may have. Our sums have that of f32 or f64 in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cublasComputeType_t {
    /// Factors and sums of f16.
    CUBLAS_COMPUTE_16F = 64,
    /// Factors and sums of f32.
    CUBLAS_COMPUTE_32F = 68,
    /// Factors and sums of f64.
    CUBLAS_COMPUTE_64F = 70,
    /// Sums of f32, factors rounded to bf16.
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    /// Sums of f32, factors rounded to f16.
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    /// Sums of f32, factors rounded to TF32, which is done where the card has it.
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cudaDataType_t {
    /// f32.
    CUDA_R_32F = 0,
    /// f64.
    CUDA_R_64F = 1,
    /// f16.
    CUDA_R_16F = 2,
    /// bf16.
    CUDA_R_16BF = 14,
}

/// cuBLAS's second name for [`cudaDataType_t`].
pub type cudaDataType = cudaDataType_t;

/// A wish for a kernel. `rocfire_kernels` chooses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cublasGemmAlgo_t {
    /// The caller wishes for no kernel in particular.
    CUBLAS_GEMM_DEFAULT = -1,
    /// The caller wishes for no kernel in particular.
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
}
