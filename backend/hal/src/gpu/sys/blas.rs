//! `libhipblaslt` and `libcublasLt`: matrix products for machine learning.
//!
//! Source: AMD's hipBLASLt reference, versions 0.6 to 1.2 (ROCm 6 and 7; before 0.6 element types had other numbers); NVIDIA's
//! cuBLAS reference, versions 11 to 13. Handles and descriptors are opaque. The two differ in names, in the numbers that
//! [`Codes`] holds, and in the size of an algorithm.

use std::ffi::{c_int, c_void};

use crate::DType;
use crate::foreign::Status;

/// What the heuristic returns for each algorithm, the same in both but for the algorithm itself, which has so many 64-bit words.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Found<const WORDS: usize> {
    /// The algorithm, opaque.
    pub algorithm: [u64; WORDS],
    /// Workspace that it needs, bytes.
    pub workspace_bytes: usize,
    /// Whether the rest means anything.
    pub state: Status,
    /// How many waves of workgroups there would be.
    pub waves: f32,
    /// Nothing.
    pub reserved: [c_int; 4],
}
const _: () = assert!(size_of::<Found<3>>() == 56 && size_of::<Found<8>>() == 96);

/// The numbers that differ between the two libraries.
pub struct Codes {
    /// The library's name.
    pub library: &'static str,
    /// Computing in f32, f64 and i32.
    pub compute: [c_int; 3],
    /// Computing in f32 with factors that may be rounded to TF32.
    pub tf32: c_int,
    /// Not transposed, transposed.
    pub operations: [i32; 2],
    /// Attributes of a layout: number of matrices, distance between them.
    pub layout_batch: [c_int; 2],
    /// Attributes of the product: how each factor is read.
    pub transpose: [c_int; 2],
    /// Attribute of the preference: most workspace, bytes.
    pub workspace: c_int,
    /// Attributes of the preference: alignment of X, Y, C and D, where the library asks for it.
    pub alignment: Option<[c_int; 4]>,
    /// Types of codes, in the order of [`Code`](crate::vendor::Code): E4M3, E5M2, both with one zero, E2M1.
    pub code_types: [Option<c_int>; 5],
    /// Attributes of the product: where X's and Y's scales are.
    pub scale_pointer: [c_int; 2],
    /// Attributes of the product: how X's and Y's scales lie.
    pub scale_mode: [c_int; 2],
    /// What they are set to, in the order of [`Scaling`](crate::vendor::Scaling) behind none: one, by line, by 128, by 128 x 128, by 32.
    pub scale_modes: [Option<c_int>; 5],
    /// Attribute of the product: what is done to sums.
    pub epilogue: c_int,
    /// What it is set to, in the order of [`EndActivation`](crate::vendor::EndActivation), each without and with a bias.
    pub epilogues: [[Option<c_int>; 2]; 4],
    /// Attributes of the product: where a bias is, and its type.
    pub bias: [c_int; 2],
    /// Attribute of the product: where it is what D is multiplied by before it is coded.
    pub d_scale_pointer: c_int,
    /// The type of a matrix to be added where D is codes, if it may not be D's own. None is added, but it is described.
    pub beside_codes: Option<DType>,
}

crate::foreign::table! {
    /// The functions of either that are used.
    BlasLt {
        /// A handle for the thread's device.
        fn create(handle: *mut *mut c_void) -> Status = "hipblasLtCreate", "cublasLtCreate";
        /// A product, computed in `compute` and scaled in `scale`.
        fn product_create(product: *mut *mut c_void, compute: c_int, scale: c_int) -> Status
            = "hipblasLtMatmulDescCreate", "cublasLtMatmulDescCreate";
        /// Ends it.
        fn product_destroy(product: *mut c_void) -> Status = "hipblasLtMatmulDescDestroy", "cublasLtMatmulDescDestroy";
        /// Sets an attribute of it.
        fn product_set(product: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize) -> Status
            = "hipblasLtMatmulDescSetAttribute", "cublasLtMatmulDescSetAttribute";
        /// A matrix in memory, stored by columns.
        fn layout_create(layout: *mut *mut c_void, dtype: c_int, rows: u64, columns: u64, leading: i64) -> Status
            = "hipblasLtMatrixLayoutCreate", "cublasLtMatrixLayoutCreate";
        /// Ends it.
        fn layout_destroy(layout: *mut c_void) -> Status
            = "hipblasLtMatrixLayoutDestroy", "cublasLtMatrixLayoutDestroy";
        /// Sets an attribute of it.
        fn layout_set(layout: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize) -> Status
            = "hipblasLtMatrixLayoutSetAttribute", "cublasLtMatrixLayoutSetAttribute";
        /// What is preferred of algorithms.
        fn preference_create(preference: *mut *mut c_void) -> Status
            = "hipblasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceCreate";
        /// Ends it.
        fn preference_destroy(preference: *mut c_void) -> Status
            = "hipblasLtMatmulPreferenceDestroy", "cublasLtMatmulPreferenceDestroy";
        /// Sets an attribute of it.
        fn preference_set(preference: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize) -> Status
            = "hipblasLtMatmulPreferenceSetAttribute", "cublasLtMatmulPreferenceSetAttribute";
        /// Algorithms for a product, the fastest in the library's opinion first; `found` is a row of [`Found`].
        fn heuristic(
            handle: *mut c_void, product: *mut c_void, a: *mut c_void, b: *mut c_void, c: *mut c_void, d: *mut c_void,
            preference: *mut c_void, wanted: c_int, found: *mut c_void, count: *mut c_int
        ) -> Status = "hipblasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoGetHeuristic";
        /// `D = alpha op(A) op(B) + beta C`.
        fn multiply(
            handle: *mut c_void, product: *mut c_void, alpha: *const c_void, a: u64, a_layout: *mut c_void, b: u64,
            b_layout: *mut c_void, beta: *const c_void, c: u64, c_layout: *mut c_void, d: u64, d_layout: *mut c_void,
            algorithm: *const u64, workspace: u64, workspace_bytes: usize, stream: *mut c_void
        ) -> Status = "hipblasLtMatmul", "cublasLtMatmul";
    }
}
