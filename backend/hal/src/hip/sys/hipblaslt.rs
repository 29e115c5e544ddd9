//! `libhipblaslt`: what it has in its own way. The rest it shares with cuBLASLt: `gpu/sys/blas.rs`.
//!
//! Source of the numbers: `hipblaslt.h` of ROCm 7 and `library_types.h` of HIP 7, which numbers types as CUDA does.

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
    // HIP_R_8F_E4M3, HIP_R_8F_E5M2, HIP_R_8F_E4M3_FNUZ, HIP_R_8F_E5M2_FNUZ, HIP_R_4F_E2M1.
    code_types: [Some(28), Some(29), Some(1000), Some(1001), Some(33)],
    // HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER, HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER.
    scale_pointer: [5, 6],
    // HIPBLASLT_MATMUL_DESC_A_SCALE_MODE, HIPBLASLT_MATMUL_DESC_B_SCALE_MODE: ROCm 7 on.
    scale_mode: [31, 32],
    // HIPBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, OUTER_VEC_32F and VEC32_UE8M0; VEC128_32F and BLK128x128_32F are "not supported yet".
    scale_modes: [Some(0), Some(3), None, None, Some(2)],
    // HIPBLASLT_MATMUL_DESC_EPILOGUE.
    epilogue: 2,
    // HIPBLASLT_EPILOGUE_DEFAULT and BIAS, RELU and RELU_BIAS, GELU and GELU_BIAS, SWISH_EXT and SWISH_BIAS_EXT: ROCm 7 on.
    epilogues: [[Some(1), Some(4)], [Some(2), Some(6)], [Some(32), Some(36)], [Some(65536), Some(65540)]],
    // HIPBLASLT_MATMUL_DESC_BIAS_POINTER, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE.
    bias: [3, 4],
    // HIPBLASLT_MATMUL_DESC_D_SCALE_POINTER.
    d_scale_pointer: 8,
    beside_codes: None,
};

crate::foreign::table! {
    /// The one function.
    HipblasLt {
        /// Version, `major * 100000 + minor * 100 + patch`.
        fn hipblasLtGetVersion(handle: *mut c_void, version: *mut c_int) -> Status;
    }
}
