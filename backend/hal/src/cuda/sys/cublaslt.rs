//! `libcublasLt`: what it has in its own way. The rest it shares with hipBLASLt: `gpu/sys/blas.rs`.

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
};

crate::foreign::table! {
    /// The one function.
    CublasLt {
        /// Version, `major * 10000 + minor * 100 + patch` from 12 on, `major * 1000 + minor * 100 + patch` before.
        fn cublasLtGetVersion() -> usize;
    }
}
