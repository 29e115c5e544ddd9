//! The types of cuBLAS that Candle names.

#![allow(non_camel_case_types)] // cuBLAS's names.

use crate::driver::sys::CUstream;

/// Names the stream that products run on.
pub type cublasHandle_t = CUstream;

/// Whether an operand is transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cublasOperation_t {
    /// As it is.
    CUBLAS_OP_N = 0,
    /// Transposed.
    CUBLAS_OP_T = 1,
}

/// The least precision that factors and sums may have. Our sums have f32's, or f64's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cublasComputeType_t {
    /// That of f16.
    CUBLAS_COMPUTE_16F = 64,
    /// That of f32.
    CUBLAS_COMPUTE_32F = 68,
    /// That of f64.
    CUBLAS_COMPUTE_64F = 70,
    /// That of bf16 for the operands.
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    /// That of f16 for the operands.
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    /// That of TF32 for the operands: taken where the card has it.
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

/// A choice of kernel, which the dispatch makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum cublasGemmAlgo_t {
    /// No wish.
    CUBLAS_GEMM_DEFAULT = -1,
    /// No wish.
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
}
