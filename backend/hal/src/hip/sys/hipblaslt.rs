//! `libhipblaslt`: what it has in its own way. The rest it shares with cuBLASLt: `gpu/sys/blas.rs`.

use std::ffi::{c_int, c_void};

use crate::foreign::Status;
use crate::gpu::sys::blas::Codes;

/// `hipblasLtMatmulAlgo_t`: sixteen opaque bytes, and the workspace it may use. Its 64-bit words.
pub const ALGORITHM_WORDS: usize = 3;

/// Its numbers.
pub const CODES: Codes = Codes {
    library: "hipBLASLt",
    // HIPBLAS_COMPUTE_32F, HIPBLAS_COMPUTE_64F, HIPBLAS_COMPUTE_32I.
    compute: [2, 7, 9],
    // HIPBLAS_COMPUTE_32F_FAST_TF32.
    tf32: 6,
    // HIPBLAS_OP_N, HIPBLAS_OP_T.
    operations: [111, 112],
    // HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET.
    layout_batch: [0, 1],
    // HIPBLASLT_MATMUL_DESC_TRANSA, HIPBLASLT_MATMUL_DESC_TRANSB.
    transpose: [0, 1],
    // HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES.
    workspace: 1,
    alignment: None,
};

crate::foreign::table! {
    /// The one function.
    HipblasLt {
        /// Version, `major * 100000 + minor * 100 + patch`.
        fn hipblasLtGetVersion(handle: *mut c_void, version: *mut c_int) -> Status;
    }
}
