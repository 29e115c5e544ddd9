//! Chains of elementwise operations: one launch, and the bits of the operations one by one.

use burn_backend::ops::{ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType, Scalar, Shape, Slice};
use burn_std::{BoolDType, BoolStore, FloatDType, IntDType};
use rocfire_burn::Fused;

use crate::check::{EXACT, bool, bools, f32s, float, floats, int, ints};
use crate::harness::{device, launches, same};

const BOOL: BoolDType = BoolDType::Native;

/// The gelu of Burn's tensors, as `Fused` hears it.
fn gelu<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let scaled = B::float_div_scalar(x.clone(), Scalar::Float(std::f64::consts::SQRT_2));
    let shifted = B::float_add_scalar(B::float_erf(scaled), Scalar::Int(1));
    B::float_div_scalar(B::float_mul(x, shifted), Scalar::Int(2))
}

#[test]
fn gelu_is_one_launch() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[3, 5, 8], 1, &device);
    let (_y, count) = launches(|| gelu::<Fused>(x));
    assert_eq!(count, 1);
}

#[test]
fn the_gradient_of_gelu_is_that_of_the_eager_backend() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        same!(format!("gradient of gelu {dtype:?}"), EXACT, device => {
            let [x, grad] = [1, 2].map(|seed| floats::<B>(&[3, 5, 8], dtype, seed, device));
            vec![float::<B>(B::gelu_backward(x, grad))]
        });
    }
}

#[test]
fn gelu_is_that_of_its_operations_in_every_float() {
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        same!(format!("gelu {dtype:?}"), EXACT, device => vec![float::<B>(gelu::<B>(floats::<B>(&[3, 5, 8], dtype, 1, device)))]);
    }
}

/// Broadcast and strided inputs, a cast, a comparison, a select, two outputs.
fn mixed<B: Backend>(
    x: FloatTensor<B>,
    bias: FloatTensor<B>,
    transposed: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let sum = B::float_add(x, bias);
    let other = B::float_swap_dims(transposed, 0, 1);
    let is_above = B::float_greater(sum.clone(), other.clone(), BOOL);
    let chosen = B::float_mask_where(other, is_above, sum.clone());
    let half = B::float_cast(chosen, FloatDType::F16);
    let doubled = B::float_mul_scalar(half, Scalar::Float(2.0));
    (B::float_cast(doubled, FloatDType::F32), B::float_exp(sum))
}

#[test]
fn mixed_chain_with_two_outputs_is_one_launch() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[6, 10], 1, &device);
    let bias = f32s::<Fused>(&[1, 10], 2, &device);
    let transposed = f32s::<Fused>(&[10, 6], 3, &device);
    let (_y, count) = launches(|| mixed::<Fused>(x, bias, transposed));
    assert_eq!(count, 1);
}

#[test]
fn mixed_chain_is_that_of_its_operations() {
    same!("mixed", EXACT, device => {
        let (a, b) = mixed::<B>(f32s::<B>(&[6, 10], 1, device), f32s::<B>(&[1, 10], 2, device), f32s::<B>(&[10, 6], 3, device));
        vec![float::<B>(a), float::<B>(b)]
    });
}

/// What follows a linear layer: the bias, the batch axis split off, the heads split and moved, an activation.
fn heads<B: Backend>(x: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
    let x = B::float_add(x, B::float_reshape(bias, Shape::from([1, 12])));
    let x = B::float_reshape(x, Shape::from([2, 5, 12]));
    let x = B::float_reshape(x, Shape::from([2, 5, 3, 4]));
    let x = B::float_swap_dims(x, 1, 2);
    B::float_tanh(B::float_mul_scalar(x, Scalar::Float(0.5)))
}

#[test]
fn a_chain_goes_on_through_reshapes_and_transpositions() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[10, 12], 1, &device);
    let bias = f32s::<Fused>(&[12], 2, &device);
    let (_y, count) = launches(|| heads::<Fused>(x, bias));
    assert_eq!(count, 1);
    drop(_guard);
    same!("heads", EXACT, device => vec![float::<B>(heads::<B>(f32s::<B>(&[10, 12], 1, device), f32s::<B>(&[12], 2, device)))]);
}

/// Two branches over the rows of a batch that only meet at the end, one of them in merged axes.
fn branches<B: Backend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    let x = B::float_reshape(B::float_exp(B::float_neg(x)), Shape::from([10, 4]));
    let y = B::float_sin(B::float_add_scalar(y, Scalar::Float(1.0)));
    B::float_mul(x, y)
}

#[test]
fn branches_with_merged_axes_meet_in_one_launch() {
    let (device, _guard) = device();
    let (x, y) = (f32s::<Fused>(&[2, 5, 4], 1, &device), f32s::<Fused>(&[10, 4], 2, &device));
    let (_z, count) = launches(|| branches::<Fused>(x, y));
    assert_eq!(count, 1);
    drop(_guard);
    same!("branches", EXACT, device => {
        vec![float::<B>(branches::<B>(f32s::<B>(&[2, 5, 4], 1, device), f32s::<B>(&[10, 4], 2, device)))]
    });
}

#[test]
fn views_of_inputs_cost_no_launch() {
    fn program<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
        let part = B::float_slice(x.clone(), &[Slice::new(1, Some(5), 2), Slice::new(0, None, -1)]);
        let flipped = B::float_flip(part.clone(), &[0]);
        let row = B::float_slice(x, &[Slice::new(0, Some(1), 1)]);
        let spread = B::float_expand(row, Shape::from([2, 7]));
        B::float_sub(B::float_add(part, flipped), B::float_recip(spread))
    }
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[6, 7], 1, &device);
    let (_y, count) = launches(|| program::<Fused>(x));
    assert_eq!(count, 1);
    drop(_guard);
    same!("views", EXACT, device => vec![float::<B>(program::<B>(f32s::<B>(&[6, 7], 1, device)))]);
}

#[test]
fn a_value_with_itself_transposed_is_right() {
    // Two orders of one computed value cannot be one loop: it takes two launches, and the same numbers.
    same!("x + xᵀ", EXACT, device => {
        let x = B::float_exp(B::float_neg(f32s::<B>(&[5, 5], 1, device)));
        let sum = B::float_add(x.clone(), B::float_swap_dims(x, 0, 1));
        vec![float::<B>(B::float_mul(sum.clone(), sum))]
    });
}

#[test]
fn integers_and_bools_are_those_of_their_operations() {
    same!("ints", EXACT, device => {
        let a = ints::<B>(&[7, -3, 0, i64::from(i32::MAX)], &[4], DType::I32, device);
        let b = ints::<B>(&[2, -2, 0, 5], &[4], DType::I32, device);
        let mask = bools::<B>(&[4], 3, device);
        let sum = B::int_add(B::int_mul_scalar(a.clone(), Scalar::Int(3)), b.clone());
        let mixed = B::bitwise_xor(B::bitwise_left_shift_scalar(sum.clone(), Scalar::Int(2)), B::int_sign(a.clone()));
        let quotient = B::int_remainder(B::int_clamp(mixed, Scalar::Int(-50), Scalar::Int(50)), b.clone());
        let test = B::bool_or(B::bool_not(mask), B::int_lower_equal(a, b, BOOL));
        let floats = B::int_into_float(quotient.clone(), FloatDType::F32);
        let kept = B::float_mask_fill(B::float_sqrt(floats), test.clone(), Scalar::Float(0.25));
        vec![int::<B>(quotient), bool::<B>(test), float::<B>(kept.clone()), int::<B>(B::float_into_int(kept, IntDType::I64))]
    });
}

#[test]
fn special_floats_are_those_of_their_operations() {
    same!("special", EXACT, device => {
        let x = crate::check::given::<B>(&[0.0, -0.0, f32::NAN, f32::INFINITY, -7.5, 2.5], &[6], DType::F32, device);
        let sign = B::float_sign(x.clone());
        let clamped = B::float_clamp(x.clone(), Scalar::Float(-1.0), Scalar::Float(1.0));
        let either = B::bool_or(B::float_is_nan(x.clone(), BOOL), B::float_is_inf(x.clone(), BOOL));
        let power = B::float_powf_scalar(x.clone(), Scalar::Float(3.0));
        let rounded = B::float_round(B::float_remainder_scalar(x, Scalar::Float(2.0)));
        vec![float::<B>(sign), float::<B>(clamped), bool::<B>(either), float::<B>(power), float::<B>(rounded)]
    });
}

#[test]
fn empty_tensors_launch_nothing() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[0, 4], 1, &device);
    let (y, count) = launches(|| gelu::<Fused>(x));
    assert_eq!(count, 0);
    assert_eq!(float::<Fused>(y).shape()[..], [0, 4]);
}

#[test]
fn a_second_shape_and_another_scalar_are_right() {
    // The plan is that of the first run: extents and scalars come from the second.
    for (rows, scale) in [(3, 0.5), (7, -2.0), (1, 4.0)] {
        same!(format!("{rows} rows"), EXACT, device => {
            let x = f32s::<B>(&[rows, 5], 1, device);
            let y = B::float_add_scalar(B::float_mul_scalar(x.clone(), Scalar::Float(scale)), Scalar::Float(1.0));
            vec![float::<B>(B::float_mul(y, x))]
        });
    }
}

#[test]
fn bool_store_is_the_native_one() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[4], 1, &device);
    let above = Fused::float_greater_elem(x, Scalar::Float(0.0), BOOL);
    assert_eq!(bool::<Fused>(Fused::bool_not(above)).dtype(), DType::Bool(BoolStore::Native));
}
