//! `librocblas`: AMD's BLAS.
//!
//! Source: AMD's rocBLAS reference, versions 2.44 to 5 (ROCm 5.2 to 7). Handles are opaque.

use std::ffi::{c_char, c_int, c_void};

use crate::DType;
use crate::foreign::Status;

/// `rocblas_operation_none`, `rocblas_operation_transpose`.
pub const OPERATIONS: [c_int; 2] = [111, 112];
/// `rocblas_atomics_not_allowed`.
pub const ATOMICS_NOT_ALLOWED: c_int = 0;
/// `rocblas_gemm_algo_standard`.
pub const ALGORITHM_STANDARD: c_int = 0;

/// `rocblas_datatype`, for the types that products have.
pub fn type_code(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 150,
        DType::F32 => 151,
        DType::F64 => 152,
        DType::I8 => 160,
        DType::I32 => 162,
        DType::BF16 => 168,
        other => unreachable!("no product is of {other}"),
    }
}

crate::foreign::table! {
    /// The functions of rocBLAS that are used.
    Rocblas {
        /// The version's text.
        fn rocblas_get_version_string(text: *mut c_char, bytes: usize) -> Status;
        /// A handle for the thread's device.
        fn rocblas_create_handle(handle: *mut *mut c_void) -> Status;
        /// The stream that the handle's work goes to.
        fn rocblas_set_stream(handle: *mut c_void, stream: *mut c_void) -> Status;
        /// Whether results may be added up by atomics, and so differ from run to run.
        fn rocblas_set_atomics_mode(handle: *mut c_void, mode: c_int) -> Status;
        /// Memory to use in place of its own.
        fn rocblas_set_workspace(handle: *mut c_void, address: u64, bytes: usize) -> Status;
        /// `D = alpha op(A) op(B) + beta C`, for every matrix of a batch.
        fn rocblas_gemm_strided_batched_ex(
            handle: *mut c_void, a_operation: c_int, b_operation: c_int, m: c_int, n: c_int, k: c_int,
            alpha: *const c_void, a: u64, a_type: c_int, a_leading: c_int, a_stride: i64, b: u64, b_type: c_int,
            b_leading: c_int, b_stride: i64, beta: *const c_void, c: u64, c_type: c_int, c_leading: c_int,
            c_stride: i64, d: u64, d_type: c_int, d_leading: c_int, d_stride: i64, batches: c_int, compute: c_int,
            algorithm: c_int, solution: i32, flags: u32
        ) -> Status;
    }
}
