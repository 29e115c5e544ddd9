//! `libcublasLt`: what it has in its own way. The rest it shares with hipBLASLt: `gpu/sys/blas.rs`.
//!
//! Source of the numbers: `cublasLt.h` as NVIDIA's nvmath-python 1.0 lists it (`nvmath.bindings.cublasLt`); of what goes with what,
//! the cuBLAS 13 reference, "Narrow Precision Data Types Usage" and `cublasLtMatmul()`.

use crate::DType;
use crate::gpu::sys::blas::Codes;

/// `cublasLtMatmulAlgo_t`: eight opaque words.
pub const ALGORITHM_WORDS: usize = 8;

/// Its numbers.
pub const CODES: Codes = Codes {
    library: "cuBLASLt",
    // CUBLAS_COMPUTE_32F, which is f32 all through for operands of f32, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_32I.
    compute: [68, 70, 72],
    // CUBLAS_COMPUTE_32F_FAST_TF32.
    tf32: 77,
    // CUBLAS_OP_N, CUBLAS_OP_T.
    operations: [0, 1],
    // CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET.
    layout_batch: [5, 6],
    // CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB.
    transpose: [3, 4],
    // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES.
    workspace: 1,
    // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES and so on for B, C, D.
    alignment: Some([5, 6, 7, 8]),
    // CUDA_R_8F_E4M3, CUDA_R_8F_E5M2. E2M1 it has with scales of E4M3 by 16 alone, which no operator makes.
    code_types: [Some(28), Some(29), None, None, None],
    // CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER.
    scale_pointer: [17, 18],
    // CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE: cuBLAS 12.8 on.
    scale_mode: [31, 32],
    // CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F and, cuBLAS 12.9 on and Hopper alone, OUTER_VEC_32F, VEC128_32F, BLK128x128_32F.
    // VEC32_UE8M0 is Blackwell's, in tiles of its own.
    scale_modes: [Some(0), Some(3), Some(4), Some(5), None],
    // CUBLASLT_MATMUL_DESC_EPILOGUE.
    epilogue: 7,
    // CUBLASLT_EPILOGUE_DEFAULT and BIAS, RELU and RELU_BIAS, GELU and GELU_BIAS, whose gelu is that of a hyperbolic tangent.
    epilogues: [[Some(1), Some(4)], [Some(2), Some(6)], [Some(32), Some(36)], [None, None]],
    // CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE.
    bias: [8, 26],
    // CUBLASLT_MATMUL_DESC_D_SCALE_POINTER.
    d_scale_pointer: 20,
    // "C type" of the table for 8-bit floats, whose bias is of that type.
    beside_codes: Some(DType::BF16),
};

crate::foreign::table! {
    /// The one function.
    CublasLt {
        /// Version, `major * 10000 + minor * 100 + patch` from 12 on, `major * 1000 + minor * 100 + patch` before.
        fn cublasLtGetVersion() -> usize;
    }
}
