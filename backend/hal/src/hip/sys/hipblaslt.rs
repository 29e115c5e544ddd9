//! `libhipblaslt`: AMD's matrix products for machine learning.
//!
//! Source: AMD's hipBLASLt reference, versions 0.6 to 1.2 (ROCm 6 and 7). Before 0.6 element types had other numbers. Handles
//! and descriptors are opaque.

use std::ffi::{c_int, c_void};

use crate::vendor::lt::{Codes, Found, lt_library};

/// `hipblasStatus_t`.
pub type Status = c_int;

/// `hipblasLtMatmulAlgo_t`: sixteen opaque bytes, and the workspace it may use.
pub type Algorithm = [u64; 3];

const _: () = assert!(size_of::<Found<Algorithm>>() == 56);

super::table! {
    /// The functions of hipBLASLt that are used.
    HipblasLt {
        /// Version, `major * 100000 + minor * 100 + patch`.
        fn hipblasLtGetVersion(handle: *mut c_void, version: *mut c_int) -> Status;
        /// A handle for the thread's device.
        fn hipblasLtCreate(handle: *mut *mut c_void) -> Status;
        /// A product, computed in `compute` and scaled in `scale`.
        fn hipblasLtMatmulDescCreate(product: *mut *mut c_void, compute: c_int, scale: c_int) -> Status;
        /// Ends it.
        fn hipblasLtMatmulDescDestroy(product: *mut c_void) -> Status;
        /// Sets an attribute of it.
        fn hipblasLtMatmulDescSetAttribute(
            product: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize
        ) -> Status;
        /// A matrix in memory, stored by columns.
        fn hipblasLtMatrixLayoutCreate(
            layout: *mut *mut c_void, dtype: c_int, rows: u64, columns: u64, leading: i64
        ) -> Status;
        /// Ends it.
        fn hipblasLtMatrixLayoutDestroy(layout: *mut c_void) -> Status;
        /// Sets an attribute of it.
        fn hipblasLtMatrixLayoutSetAttribute(
            layout: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize
        ) -> Status;
        /// What is preferred of algorithms.
        fn hipblasLtMatmulPreferenceCreate(preference: *mut *mut c_void) -> Status;
        /// Ends it.
        fn hipblasLtMatmulPreferenceDestroy(preference: *mut c_void) -> Status;
        /// Sets an attribute of it.
        fn hipblasLtMatmulPreferenceSetAttribute(
            preference: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize
        ) -> Status;
        /// Algorithms for a product, the fastest in the library's opinion first.
        fn hipblasLtMatmulAlgoGetHeuristic(
            handle: *mut c_void, product: *mut c_void, a: *mut c_void, b: *mut c_void, c: *mut c_void, d: *mut c_void,
            preference: *mut c_void, wanted: c_int, found: *mut Found<Algorithm>, count: *mut c_int
        ) -> Status;
        /// `D = alpha op(A) op(B) + beta C`.
        fn hipblasLtMatmul(
            handle: *mut c_void, product: *mut c_void, alpha: *const c_void, a: u64, a_layout: *mut c_void, b: u64,
            b_layout: *mut c_void, beta: *const c_void, c: u64, c_layout: *mut c_void, d: u64, d_layout: *mut c_void,
            algorithm: *const Algorithm, workspace: u64, workspace_bytes: usize, stream: *mut c_void
        ) -> Status;
    }
}

lt_library!(HipblasLt, Algorithm, Codes {
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
    hipblasLtCreate, hipblasLtMatmulDescCreate, hipblasLtMatmulDescDestroy, hipblasLtMatmulDescSetAttribute,
    hipblasLtMatrixLayoutCreate, hipblasLtMatrixLayoutDestroy, hipblasLtMatrixLayoutSetAttribute,
    hipblasLtMatmulPreferenceCreate, hipblasLtMatmulPreferenceDestroy, hipblasLtMatmulPreferenceSetAttribute,
    hipblasLtMatmulAlgoGetHeuristic, hipblasLtMatmul);
