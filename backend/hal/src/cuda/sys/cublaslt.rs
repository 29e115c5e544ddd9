//! `libcublasLt`: NVIDIA's matrix products.
//!
//! Source: NVIDIA's cuBLAS reference, versions 11 to 13. Handles and descriptors are opaque.

use std::ffi::{c_int, c_void};

use crate::vendor::lt::{Codes, Found, lt_library};

/// `cublasStatus_t`.
pub type Status = c_int;
/// `cublasLtMatmulAlgo_t`: eight opaque words.
pub type Algorithm = [u64; 8];

const _: () = assert!(size_of::<Found<Algorithm>>() == 96);

super::table! {
    /// The functions of cuBLASLt that are used.
    CublasLt {
        /// Version, `major * 10000 + minor * 100 + patch` from 12 on, `major * 1000 + minor * 100 + patch` before.
        fn cublasLtGetVersion() -> usize;
        /// A handle for the thread's device.
        fn cublasLtCreate(handle: *mut *mut c_void) -> Status;
        /// A product, computed in `compute` and scaled in `scale`.
        fn cublasLtMatmulDescCreate(product: *mut *mut c_void, compute: c_int, scale: c_int) -> Status;
        /// Ends it.
        fn cublasLtMatmulDescDestroy(product: *mut c_void) -> Status;
        /// Sets an attribute of it.
        fn cublasLtMatmulDescSetAttribute(
            product: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize
        ) -> Status;
        /// A matrix in memory, stored by columns.
        fn cublasLtMatrixLayoutCreate(
            layout: *mut *mut c_void, dtype: c_int, rows: u64, columns: u64, leading: i64
        ) -> Status;
        /// Ends it.
        fn cublasLtMatrixLayoutDestroy(layout: *mut c_void) -> Status;
        /// Sets an attribute of it.
        fn cublasLtMatrixLayoutSetAttribute(
            layout: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize
        ) -> Status;
        /// What is preferred of algorithms.
        fn cublasLtMatmulPreferenceCreate(preference: *mut *mut c_void) -> Status;
        /// Ends it.
        fn cublasLtMatmulPreferenceDestroy(preference: *mut c_void) -> Status;
        /// Sets an attribute of it.
        fn cublasLtMatmulPreferenceSetAttribute(
            preference: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize
        ) -> Status;
        /// Algorithms for a product, the fastest in the library's opinion first.
        fn cublasLtMatmulAlgoGetHeuristic(
            handle: *mut c_void, product: *mut c_void, a: *mut c_void, b: *mut c_void, c: *mut c_void, d: *mut c_void,
            preference: *mut c_void, wanted: c_int, found: *mut Found<Algorithm>, count: *mut c_int
        ) -> Status;
        /// `D = alpha op(A) op(B) + beta C`.
        fn cublasLtMatmul(
            handle: *mut c_void, product: *mut c_void, alpha: *const c_void, a: u64, a_layout: *mut c_void, b: u64,
            b_layout: *mut c_void, beta: *const c_void, c: u64, c_layout: *mut c_void, d: u64, d_layout: *mut c_void,
            algorithm: *const Algorithm, workspace: u64, workspace_bytes: usize, stream: *mut c_void
        ) -> Status;
    }
}

lt_library!(CublasLt, Algorithm, Codes {
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
    cublasLtCreate, cublasLtMatmulDescCreate, cublasLtMatmulDescDestroy, cublasLtMatmulDescSetAttribute,
    cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutDestroy, cublasLtMatrixLayoutSetAttribute,
    cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceSetAttribute,
    cublasLtMatmulAlgoGetHeuristic, cublasLtMatmul);
