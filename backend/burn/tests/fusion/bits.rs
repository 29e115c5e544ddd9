//! Programs that random ones were shrunk to: the bits of `Fused` are those of `Rocm`, and both are right.

use burn_backend::ops::{BoolTensorOps, ConvTransposeOptions, FloatTensorOps, ModuleOps};
use burn_backend::{DType, Scalar, TensorData};
use burn_std::{FloatDType, IndexingUpdateOp, IntDType};

use crate::check::{bool, bools, f32s, float, given, int, ints, numbers};
use crate::harness::device;
use crate::version;

/// Runs a program on `Fused` and on `Rocm`, compares every byte, and gives the results.
macro_rules! bits {
    ($device:ident => $body:expr) => {{
        let (device, _guard) = device::<rocfire_burn::RocmDevice>();
        let fused: Vec<TensorData> = {
            type B = rocfire_burn::Fused;
            let $device = &device.burn();
            $body
        };
        let eager: Vec<TensorData> = {
            type B = rocfire_burn::Rocm;
            let $device = &device;
            $body
        };
        for (number, (fused, eager)) in fused.iter().zip(&eager).enumerate() {
            assert_eq!(fused.as_bytes(), eager.as_bytes(), "result {number}: {fused:?} and {eager:?}");
        }
        assert_eq!(fused.len(), eager.len());
        eager
    }};
}

#[test]
fn an_axis_of_one_element_is_reduced_to_it() {
    const X: [f32; 4] = [-0.0, 1.5, f32::NEG_INFINITY, 0.0];
    let results = bits!(device => {
        let x = || given::<B>(&X, &[1, 4], DType::F32, device);
        let reduced =
            [B::float_sum_dim(x(), 0), B::float_mean_dim(x(), 0), B::float_prod_dim(x(), 0), B::float_max_dim(x(), 0), B::float_min_dim(x(), 0)];
        reduced.into_iter().map(float::<B>).collect()
    });
    for result in results {
        let bits: Vec<u32> = result.as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, X.map(f32::to_bits));
    }
}

#[test]
fn reductions_of_what_is_the_same_everywhere_are_kernels() {
    let results = bits!(device => {
        let ones = || B::float_ones([2, 3].into(), device, FloatDType::F32);
        let twos = B::float_full([3, 2, 2].into(), Scalar::Float(2.0), device, FloatDType::F32);
        vec![
            float::<B>(B::float_sum_dim(ones(), 1)),
            float::<B>(B::float_sum_dim(ones(), 0)),
            float::<B>(B::float_neg(B::float_sum(B::float_mul_scalar(ones(), Scalar::Float(0.5))))),
            float::<B>(B::float_max_dim(twos.clone(), 2)),
            float::<B>(B::float_mean_dim(twos, 1)),
        ]
    });
    let expected: [&[f64]; 5] = [&[3.0; 2], &[2.0; 3], &[-3.0], &[2.0; 6], &[2.0; 6]];
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(numbers(result), expected);
    }
}

#[test]
fn what_an_extreme_s_gradient_is_made_of() {
    // As Burn's autodiff writes half the sum of the squares of the extremes of columns.
    let results = bits!(device => {
        let x = given::<B>(&[1.5, 2.0, 2.0, -0.5], &[2, 2], DType::F32, device);
        let (extremes, places) = B::float_max_dim_with_indices(x, 0, IntDType::I64);
        let loss = B::float_sum(B::float_mul(extremes.clone(), extremes.clone()));
        let ones = B::float_ones([1].into(), device, FloatDType::F32);
        let arriving = B::float_expand(B::float_reshape(ones, [1, 1].into()), [1, 2].into());
        let arriving = B::float_mul(B::float_ones([1, 2].into(), device, FloatDType::F32), arriving);
        let gradient = B::float_mul(arriving, extremes);
        let zeros = B::float_zeros([2, 2].into(), device, FloatDType::F32);
        let gradient = B::float_scatter(0, zeros, places, gradient, IndexingUpdateOp::Add);
        vec![float::<B>(gradient), float::<B>(loss)]
    });
    assert_eq!(numbers(&results[0]), [0.0, 2.0, 2.0, 0.0]);
    assert_eq!(numbers(&results[1]), [8.0]);
}

#[test]
fn bools_brought_to_one_place_of_a_row_are_joined_by_or() {
    let results = bits!(device => {
        let x = B::bool_not(bools::<B>(&[3, 4], 1, device));
        let places = ints::<B>(&[0, 3, 2], &[3, 1], DType::I64, device);
        let values = B::bool_not(bools::<B>(&[3, 1], 2, device));
        vec![bool::<B>(version::bool_scatter_or::<B>(1, x.clone(), places, values.clone())), bool::<B>(x), bool::<B>(values)]
    });
    let [joined, x, values] = [0, 1, 2].map(|at| numbers(&results[at]));
    for row in 0..3 {
        for column in 0..4 {
            let at = 4 * row + column;
            let brought = if column == [0, 3, 2][row] { values[row] } else { 0.0 };
            assert_eq!(joined[at], x[at].max(brought), "row {row}, column {column}");
        }
    }
}

#[test]
fn an_extreme_of_zeros_is_the_positive_one_with_and_without_its_place() {
    let results = bits!(device => {
        let x = || given::<B>(&[-0.0, 0.0, -0.0, -0.0], &[2, 2], DType::F32, device);
        let (most, at) = B::float_max_dim_with_indices(x(), 1, IntDType::I64);
        let (least, _) = B::float_min_dim_with_indices(x(), 1, IntDType::I64);
        vec![float::<B>(most), float::<B>(least), float::<B>(B::float_max_dim(x(), 1)), int::<B>(at)]
    });
    for extremes in &results[..3] {
        assert!(extremes.as_bytes().iter().all(|byte| *byte == 0), "{extremes:?}");
    }
    assert_eq!(numbers(&results[3]), [0.0, 0.0]);
}

#[test]
fn sums_over_several_axes_are_rounded_once() {
    for (dtype, dims) in
        [(DType::F32, &[0, 2][..]), (DType::F16, &[2, 1]), (DType::BF16, &[0, 1, 2]), (DType::F32, &[1])]
    {
        bits!(device => {
            let x = || crate::check::floats::<B>(&[5, 7, 9], dtype, 1, device);
            let turned = B::float_sum_dims(B::float_swap_dims(x(), 0, 2), dims);
            vec![float::<B>(B::float_sum_dims(x(), dims)), float::<B>(turned)]
        });
    }
}

#[test]
fn products_of_f16_keep_the_sign_of_zero() {
    // The gradient of a power by its base: one factor is computed in 32 bits, another is zero.
    let results = bits!(device => {
        let x = || given::<B>(&[-0.25, -1.75, 2.0, -0.5], &[4], DType::F16, device);
        let y = || given::<B>(&[0.0, 0.0, 0.0, 1.0], &[4], DType::F16, device);
        let power = B::float_powf(x(), B::float_sub_scalar(y(), Scalar::Float(1.0)));
        let value = B::float_mul(power, y());
        vec![float::<B>(B::float_mul(B::float_powf(x(), y()), value))]
    });
    let signs: Vec<bool> =
        results[0].as_slice::<burn_std::f16>().unwrap().iter().map(|x| x.is_sign_negative()).collect();
    assert_eq!(signs, [true, true, false, true]);
}

#[test]
fn the_gradient_of_a_transposed_convolution_s_bias_is_one_sum() {
    // Where each image were summed first, the last bits would be others.
    bits!(device => {
        let [x, bias, grad] = [&[2, 2, 1, 1, 2][..], &[2], &[2, 2, 3, 5, 7]].map(|shape| f32s::<B>(shape, 3, device));
        let images = B::float_permute(grad.clone(), &[0, 1, 4, 3, 2]);
        vec![
            float::<B>(B::conv_transpose3d_bias_backward(x.clone(), bias.clone(), grad)),
            float::<B>(B::conv_transpose3d_bias_backward(x.clone(), bias.clone(), images)),
            float::<B>(B::conv_transpose3d(x, f32s::<B>(&[2, 2, 1, 1, 1], 4, device), Some(bias), ConvTransposeOptions::new([1; 3], [0; 3], [0; 3], [1; 3], 1))),
        ]
    });
}
