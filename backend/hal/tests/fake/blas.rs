//! hipBLASLt and rocBLAS in one library, or with `--cfg cuda` cuBLASLt, over host memory, for products of f32, of bytes, and of codes
//! with scales. For testing what the driver passes to them, where there is no GPU.
//!
//! Compiled by `rustc` alone, as a shared library, by the tests in `src/gpu/tests`. Written from AMD's and NVIDIA's API
//! references: what those say is not supported is refused, by a status of the heuristic.
#![crate_type = "cdylib"]
#![allow(non_snake_case, unsafe_op_in_unsafe_fn, private_interfaces)]

#[macro_use]
mod exported;
mod codes;

use std::ffi::{c_char, c_int, c_void};

const INVALID: c_int = 3;
const NOT_SUPPORTED: c_int = if cfg!(cuda) { 15 } else { 7 };
const F32: c_int = 0;
const I8: c_int = 3;
const I32: c_int = 10;
const BF16: c_int = 14;
const COMPUTE_F32: c_int = if cfg!(cuda) { 68 } else { 2 };
const COMPUTE_I32: c_int = if cfg!(cuda) { 72 } else { 9 };
const COMPUTE_F32_FAST_TF32: c_int = if cfg!(cuda) { 77 } else { 6 };
/// The bits of an f32 that TF32 has.
const TF32_BITS: u32 = !0x1fff;
const ROCBLAS_F32: c_int = 151;
const TRANSPOSE: c_int = if cfg!(cuda) { 1 } else { 112 };
/// The first attribute that says how a factor is read; the second's number is one more.
const READ_AS: c_int = if cfg!(cuda) { 3 } else { 0 };
/// The same of where a factor's scales are, and of how they lie.
const SCALE_POINTER: c_int = if cfg!(cuda) { 17 } else { 5 };
const SCALE_MODE: c_int = 31;
/// Attributes of what follows a product: what it is, the type and the place of a bias, where it is what coded results are multiplied by.
const EPILOGUE: c_int = if cfg!(cuda) { 7 } else { 2 };
const BIAS_TYPE: c_int = if cfg!(cuda) { 26 } else { 4 };
const BIAS_POINTER: c_int = if cfg!(cuda) { 8 } else { 3 };
const D_SCALE_POINTER: c_int = if cfg!(cuda) { 20 } else { 8 };
const BATCH_COUNT: c_int = if cfg!(cuda) { 5 } else { 0 };
const BATCH_STRIDE: c_int = BATCH_COUNT + 1;
const WORDS: usize = if cfg!(cuda) { 8 } else { 3 };
const ALGORITHM: [u64; WORDS] = [11; WORDS];
const WORKSPACE_BYTES: usize = 96;
/// The stream of the fake `amdhip64`.
const STREAM: usize = 0x5712;

/// A product's description.
#[derive(Clone, Copy)]
struct Desc {
    compute: c_int,
    scale: c_int,
    operations: [i32; 2],
    /// Of the scales: where they are, and how they lie.
    scales: [usize; 2],
    modes: [i32; 2],
    /// What follows: its number, the bias' type and place, the place of what coded results are multiplied by.
    epilogue: i32,
    bias_type: i32,
    bias: usize,
    d_scale: usize,
}

#[derive(Clone, Copy)]
struct Layout {
    dtype: c_int,
    columns: u64,
    rows: u64,
    leading: i64,
    batches: i32,
    stride: i64,
}

#[repr(C)]
struct Found {
    algorithm: [u64; WORDS],
    workspace_bytes: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

// SAFETY, for everything below: the driver under test passes what AMD's references ask for; that is what is tested.

exported! {
    fn hipblasLtGetVersion(_handle: *mut c_void, version: *mut c_int) {
        *version = 100_203;
        0
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetVersion() -> usize {
    130_100
}

exported! {
    "cublasLtCreate" fn hipblasLtCreate(handle: *mut *mut c_void) {
        *handle = std::ptr::without_provenance_mut(0x17);
        0
    }

    "cublasLtMatmulDescCreate" fn hipblasLtMatmulDescCreate(desc: *mut *mut c_void, compute: c_int, scale: c_int) {
        match (compute, scale) {
            (COMPUTE_F32 | COMPUTE_F32_FAST_TF32, F32) | (COMPUTE_I32, I32) => {}
            _ => return INVALID,
        }
        let (operations, scales, modes) = ([0; 2], [0; 2], [0; 2]);
        let made =
            Desc { compute, scale, operations, scales, modes, epilogue: 1, bias_type: -1, bias: 0, d_scale: 0 };
        *desc = Box::into_raw(Box::new(made)).cast();
        0
    }

    "cublasLtMatmulDescDestroy" fn hipblasLtMatmulDescDestroy(desc: *mut c_void) {
        drop(unsafe { Box::from_raw(desc.cast::<Desc>()) });
        0
    }

    "cublasLtMatmulDescSetAttribute" fn hipblasLtMatmulDescSetAttribute(
        desc: *mut c_void, what: c_int, value: *const c_void, bytes: usize,
    ) {
        let desc = &mut *desc.cast::<Desc>();
        let of = |first: c_int| usize::try_from(what - first).ok().filter(|&which| which < 2);
        let (number, address) = match bytes {
            4 => (Some(value.cast::<i32>().read()), None),
            8 => (None, Some(value.cast::<usize>().read())),
            _ => return INVALID,
        };
        let own = match (what, of(READ_AS), of(SCALE_POINTER), of(SCALE_MODE)) {
            (EPILOGUE, ..) => number.map(|number| desc.epilogue = number),
            (BIAS_TYPE, ..) => number.map(|number| desc.bias_type = number),
            (BIAS_POINTER, ..) => address.map(|address| desc.bias = address),
            (D_SCALE_POINTER, ..) => address.map(|address| desc.d_scale = address),
            (_, Some(which), ..) => number.map(|number| desc.operations[which] = number),
            (_, _, Some(which), _) => address.map(|address| desc.scales[which] = address),
            (_, _, _, Some(which)) => number.map(|number| desc.modes[which] = number),
            _ => None,
        };
        if own.is_none() {
            return INVALID;
        }
        0
    }

    "cublasLtMatrixLayoutCreate" fn hipblasLtMatrixLayoutCreate(
        layout: *mut *mut c_void, dtype: c_int, rows: u64, columns: u64, leading: i64,
    ) {
        if leading < rows as i64 {
            return INVALID;
        }
        let made = Layout { dtype, rows, columns, leading, batches: 1, stride: 0 };
        *layout = Box::into_raw(Box::new(made)).cast();
        0
    }

    "cublasLtMatrixLayoutDestroy" fn hipblasLtMatrixLayoutDestroy(layout: *mut c_void) {
        drop(unsafe { Box::from_raw(layout.cast::<Layout>()) });
        0
    }

    "cublasLtMatrixLayoutSetAttribute" fn hipblasLtMatrixLayoutSetAttribute(
        layout: *mut c_void, what: c_int, value: *const c_void, bytes: usize,
    ) {
        let layout = unsafe { &mut *layout.cast::<Layout>() };
        match (what, bytes) {
            (BATCH_COUNT, 4) => layout.batches = unsafe { value.cast::<i32>().read() },
            (BATCH_STRIDE, 8) => layout.stride = unsafe { value.cast::<i64>().read() },
            _ => return INVALID,
        }
        0
    }

    "cublasLtMatmulPreferenceCreate" fn hipblasLtMatmulPreferenceCreate(preference: *mut *mut c_void) {
        *preference = Box::into_raw(Box::new(0_u64)).cast();
        0
    }

    "cublasLtMatmulPreferenceDestroy" fn hipblasLtMatmulPreferenceDestroy(preference: *mut c_void) {
        drop(unsafe { Box::from_raw(preference.cast::<u64>()) });
        0
    }

    "cublasLtMatmulPreferenceSetAttribute" fn hipblasLtMatmulPreferenceSetAttribute(
        preference: *mut c_void, what: c_int, value: *const c_void, bytes: usize,
    ) {
        if cfg!(cuda) && (5..9).contains(&what) && bytes == 4 {
            return 0;
        }
        if (what, bytes) != (1, 8) {
            return INVALID;
        }
        preference.cast::<u64>().write(value.cast::<u64>().read());
        0
    }

    "cublasLtMatmulAlgoGetHeuristic" fn hipblasLtMatmulAlgoGetHeuristic(
        _handle: *mut c_void, desc: *mut c_void, x: *mut c_void, y: *mut c_void, c: *mut c_void, d: *mut c_void,
        preference: *mut c_void, wanted: c_int, found: *mut Found, count: *mut c_int,
    ) {
        let (desc, layouts) = (*desc.cast::<Desc>(), [x, y, d].map(|layout| *layout.cast::<Layout>()));
        if !codes::is_supported(&desc, &layouts, &*c.cast::<Layout>()) {
            return NOT_SUPPORTED;
        }
        let allowed = unsafe { *preference.cast::<u64>() };
        if wanted < 2 || allowed < WORKSPACE_BYTES as u64 {
            return INVALID;
        }
        let made = |state| Found {
            algorithm: ALGORITHM,
            workspace_bytes: WORKSPACE_BYTES,
            state,
            waves: 1.0,
            reserved: [0; 4],
        };
        // The first does not serve.
        unsafe {
            found.write(made(INVALID));
            found.add(1).write(made(0));
            *count = 2;
        }
        0
    }
}

/// One matrix of a batch.
#[derive(Clone, Copy)]
struct Matrix<T> {
    at: *mut T,
    leading: i64,
    transposed: bool,
}

impl<T> Matrix<T> {
    /// # Safety
    /// The element is inside.
    unsafe fn get(self, row: u64, column: u64) -> *mut T {
        let (row, column) = if self.transposed { (column, row) } else { (row, column) };
        // SAFETY: as promised.
        unsafe { self.at.offset((row as i64 + column as i64 * self.leading) as isize) }
    }
}

/// # Safety
/// The matrices are as large as said. Of the factors these bits count.
unsafe fn multiply([m, n, k]: [u64; 3], x: Matrix<f32>, y: Matrix<f32>, d: Matrix<f32>, bits: u32) {
    let kept = |factor: f32| f32::from_bits(factor.to_bits() & bits);
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        // SAFETY: as promised.
        *d.get(row, column) = (0..k).map(|depth| kept(*x.get(row, depth)) * kept(*y.get(depth, column))).sum();
    }
}

exported! {
    "cublasLtMatmul" fn hipblasLtMatmul(
        handle: *mut c_void, desc: *mut c_void, alpha: *const f32, x: *mut f32, x_layout: *mut c_void, y: *mut
        f32, y_layout: *mut c_void, beta: *const f32, c: *mut f32, c_layout: *mut c_void, d: *mut f32,
        d_layout: *mut c_void, algorithm: *const [u64; WORDS], workspace: *mut u8, workspace_bytes: usize,
        stream: *mut c_void,
    ) {
        let (desc, factors, chosen) = unsafe { (*desc.cast::<Desc>(), [*alpha, *beta].map(f32::to_bits), *algorithm) };
        // C may lie where D does if it has D's type, as cuBLASLt wants it.
        let [c_type, d_type] = [c_layout, d_layout].map(|layout| unsafe { (*layout.cast::<Layout>()).dtype });
        let is_apart = if c_type == d_type { c == d } else { c.is_null() };
        let expected = handle.addr() == 0x17 && stream.addr() == STREAM && chosen == ALGORITHM && is_apart;
        let one = if desc.scale == I32 { 1 } else { 1_f32.to_bits() };
        if !expected || factors != [one, 0] || workspace_bytes != WORKSPACE_BYTES {
            return INVALID;
        }
        workspace.write_bytes(0x5a, workspace_bytes);
        let [x_layout, y_layout, d_layout] =
            [x_layout, y_layout, d_layout].map(|layout| unsafe { *layout.cast::<Layout>() });
        if x_layout.dtype != F32 {
            codes::multiply(&desc, [x.cast(), y.cast()], d.cast(), &[x_layout, y_layout, d_layout]);
            return 0;
        }
        let [x_op, y_op] = desc.operations;
        let bits = if desc.compute == COMPUTE_F32 { !0 } else { TF32_BITS };
        let k = if x_op == TRANSPOSE { x_layout.rows } else { x_layout.columns };
        for batch in 0..i64::from(d_layout.batches) {
            let matrix = |at: *mut f32, layout: Layout, op: c_int| Matrix {
                at: at.wrapping_offset((batch * layout.stride) as isize),
                leading: layout.leading,
                transposed: op == TRANSPOSE,
            };
            let size = [d_layout.rows, d_layout.columns, k];
            let [x, y, d] = [matrix(x, x_layout, x_op), matrix(y, y_layout, y_op), matrix(d, d_layout, 0)];
            multiply(size, x, y, d, bits);
        }
        0
    }

    fn rocblas_get_version_string(text: *mut c_char, bytes: usize) {
        let version = c"4.4.0.fake";
        if bytes <= version.count_bytes() {
            return INVALID;
        }
        version.as_ptr().copy_to_nonoverlapping(text, version.count_bytes() + 1);
        0
    }

    fn rocblas_create_handle(handle: *mut *mut c_void) {
        *handle = std::ptr::without_provenance_mut(0x18);
        0
    }

    fn rocblas_set_stream(_handle: *mut c_void, stream: *mut c_void) {
        if stream.addr() == STREAM { 0 } else { INVALID }
    }

    fn rocblas_set_atomics_mode(_handle: *mut c_void, mode: c_int) {
        if mode == 0 { 0 } else { INVALID }
    }

    fn rocblas_set_workspace(_handle: *mut c_void, address: *mut c_void, bytes: usize) {
        if address.is_null() || bytes == 0 { INVALID } else { 0 }
    }

    fn rocblas_gemm_strided_batched_ex(
        handle: *mut c_void, x_op: c_int, y_op: c_int, m: c_int, n: c_int, k: c_int, alpha: *const f32, x:
        *mut f32, x_type: c_int, x_leading: c_int, x_stride: i64, y: *mut f32, y_type: c_int, y_leading:
        c_int, y_stride: i64, beta: *const f32, c: *mut f32, c_type: c_int, _c_leading: c_int, _c_stride:
        i64, d: *mut f32, d_type: c_int, d_leading: c_int, d_stride: i64, batches: c_int, compute: c_int,
        algorithm: c_int, _solution: i32, _flags: u32
    ) {
        let types = [x_type, y_type, c_type, d_type, compute] == [ROCBLAS_F32; 5];
        let scales = [*alpha, *beta];
        if handle.addr() != 0x18 || !types || scales != [1.0, 0.0] || c != d || algorithm != 0 {
            return INVALID;
        }
        for batch in 0..i64::from(batches) {
            let matrix = |at: *mut f32, leading: c_int, stride: i64, op: c_int| Matrix {
                at: at.wrapping_offset((batch * stride) as isize),
                leading: i64::from(leading),
                transposed: op == TRANSPOSE,
            };
            let (x, y) = (matrix(x, x_leading, x_stride, x_op), matrix(y, y_leading, y_stride, y_op));
            multiply([m as u64, n as u64, k as u64], x, y, matrix(d, d_leading, d_stride, 0), !0);
        }
        0
    }
}
