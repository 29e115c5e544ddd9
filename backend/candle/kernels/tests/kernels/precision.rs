//! Products whose factors may be rounded, as Candle's switches of reduced precision ask for them.

use core::ffi::c_void;

use cudarc::cublas::CudaBlas;
use cudarc::cublas::result::gemm_strided_batched_ex;
use cudarc::cublas::sys::{cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cudaDataType_t};
use cudarc::driver::{DevicePtr, DevicePtrMut};
use half::f16;

use crate::harness::{Card, Data, noise, on_each_card, rounded};

/// Several tiles of any size, and two sums along what is summed over.
const SIZE: [usize; 3] = [70, 40, 1100];

/// `x · wᵀ` of `[rows, inner]` and `[outputs, inner]`.
fn product(card: &Card, compute: cublasComputeType_t, dtype: &'static str, x: &[f64], w: &[f64]) -> Data {
    let [rows, outputs, inner] = SIZE.map(|extent| extent as i32);
    let stream = card.stream();
    let blas = CudaBlas::new(stream.clone()).unwrap();
    let x = stream.clone_htod(&Data::new(dtype, x).bytes).unwrap();
    let w = stream.clone_htod(&Data::new(dtype, w).bytes).unwrap();
    let empty = Data::unwritten(dtype, SIZE[0] * SIZE[1]);
    let mut y = stream.clone_htod(&empty.bytes).unwrap();
    let element = match dtype {
        "f32" => cudaDataType_t::CUDA_R_32F,
        "f16" => cudaDataType_t::CUDA_R_16F,
        _ => cudaDataType_t::CUDA_R_16BF,
    };
    let (halves, floats) = ([f16::ONE, f16::ZERO], [1_f32, 0.0]);
    let factor = |at: usize| -> *const c_void {
        match compute {
            cublasComputeType_t::CUBLAS_COMPUTE_16F => (&raw const halves[at]).cast(),
            _ => (&raw const floats[at]).cast(),
        }
    };
    let [x_at, w_at] = [&x, &w].map(|memory| memory.device_ptr(stream).0 as *const c_void);
    let y_at = y.device_ptr_mut(stream).0 as *mut c_void;
    let (turned, plain) = (cublasOperation_t::CUBLAS_OP_T, cublasOperation_t::CUBLAS_OP_N);
    let algorithm = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT_TENSOR_OP;
    // SAFETY: the factors are of the type that `compute` says; extents are checked.
    unsafe {
        gemm_strided_batched_ex(
            *blas.handle(),
            turned,
            plain,
            outputs,
            rows,
            inner,
            factor(0),
            w_at,
            element,
            inner,
            0,
            x_at,
            element,
            inner,
            0,
            factor(1),
            y_at,
            element,
            outputs,
            0,
            1,
            compute,
            algorithm,
        )
    }
    .unwrap();
    Data { dtype, bytes: stream.clone_dtoh(&y).unwrap() }
}

fn inputs(dtype: &'static str) -> [Vec<f64>; 2] {
    let [rows, outputs, inner] = SIZE;
    [noise(rows * inner, 1), noise(outputs * inner, 2)].map(|of| of.into_iter().map(|x| rounded(dtype, x)).collect())
}

#[test]
fn factors_of_f32_are_rounded_to_tf32_where_the_card_has_it_and_only_if_allowed() {
    let [rows, outputs, inner] = SIZE;
    let [x, w] = inputs("f32");
    on_each_card(|card| {
        let full = product(card, cublasComputeType_t::CUBLAS_COMPUTE_32F, "f32", &x, &w);
        let fast = product(card, cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, "f32", &x, &w);
        let (full, fast) = (full.values(), fast.values());
        // The largest errors, in parts of the sum of all magnitudes.
        let [mut full_error, mut fast_error] = [0_f64; 2];
        for (at, (full, fast)) in full.iter().zip(&fast).enumerate() {
            let (row, output) = (at / outputs, at % outputs);
            let terms = (0..inner).map(|k| x[row * inner + k] * w[output * inner + k]);
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            full_error = full_error.max((full - sum).abs() / size);
            fast_error = fast_error.max((fast - sum).abs() / size);
        }
        assert_eq!(full.len(), rows * outputs);
        assert!(full_error <= 2_f64.powi(-21), "{}: {full_error}", card.name);
        if card.name == "gfx942" {
            // A factor loses less than 2^-10 of itself, so a product less than 2^-9.
            assert!(fast_error <= 2_f64.powi(-9), "{fast_error}");
            assert!(fast_error >= 2_f64.powi(-15), "{fast_error}: not rounded");
        } else {
            assert_eq!(full, fast, "{} has no TF32", card.name);
        }
    });
}

#[test]
fn sums_of_16_bit_floats_stay_those_of_f32_whatever_is_allowed() {
    use cublasComputeType_t::{CUBLAS_COMPUTE_16F, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_16BF};
    for (dtype, less) in [("f16", CUBLAS_COMPUTE_16F), ("bf16", CUBLAS_COMPUTE_32F_FAST_16BF)] {
        let [x, w] = inputs(dtype);
        on_each_card(|card| {
            let full = product(card, CUBLAS_COMPUTE_32F, dtype, &x, &w);
            assert_eq!(full, product(card, less, dtype, &x, &w), "{dtype} on {}", card.name);
        });
    }
}
