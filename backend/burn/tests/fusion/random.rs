//! Random tensors inside of chains: the numbers that the kernels of their own give.

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Distribution, Scalar, Shape, TensorMetadata};
use burn_std::FloatDType;
use rocfire_burn::Fused;

use crate::check::{EXACT, f32s, float};
use crate::harness::{device, launches, same};
use crate::rows::softmax;

fn dropout<B: Backend>(x: FloatTensor<B>, keep: f64, dtype: FloatDType) -> FloatTensor<B> {
    let (shape, device) = (x.shape(), x.device());
    let mask = B::float_random(shape, Distribution::Bernoulli(keep), &device, dtype);
    B::float_mul_scalar(B::float_mul(x, mask), Scalar::Float(1.0 / keep))
}

/// Dropout of a softmax's rows, what they give, and dropout of that.
fn dropped<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let scores = dropout::<B>(softmax::<B>(x, 3), 0.7, FloatDType::F32);
    dropout::<B>(B::float_exp(scores), 0.5, FloatDType::F32)
}

#[test]
fn dropout_joins_what_it_drops_from() {
    let (device, guard) = device();
    let x = f32s::<Fused>(&[2, 3, 5, 8], 1, &device);
    let (_y, count) = launches(|| dropped::<Fused>(x));
    assert_eq!(count, 1);
    drop(guard);
    same!("softmax and dropout", EXACT, device => {
        B::seed(device, 7);
        vec![float::<B>(dropped::<B>(f32s::<B>(&[2, 3, 5, 8], 1, device)))]
    });
}

#[test]
fn a_mask_is_that_of_its_own_shape_wherever_it_is_used() {
    // Transposed, and merged with another axis, before it meets what it masks.
    same!("transposed", EXACT, device => {
        B::seed(device, 8);
        let mask = B::float_random(Shape::from([6, 10]), Distribution::Default, device, FloatDType::F32);
        let x = B::float_exp(f32s::<B>(&[10, 6], 2, device));
        vec![float::<B>(B::float_add(B::float_swap_dims(mask, 0, 1), x))]
    });
    same!("merged", EXACT, device => {
        B::seed(device, 9);
        let mask = B::float_random(Shape::from([2, 3, 7]), Distribution::Bernoulli(0.3), device, FloatDType::F32);
        let x = B::float_exp(f32s::<B>(&[6, 7], 3, device));
        let masked = B::float_mul(B::float_reshape(mask, Shape::from([6, 7])), x);
        vec![float::<B>(B::float_sum_dim(masked, 1))]
    });
}

#[test]
fn draws_are_the_same_in_every_float() {
    for dtype in [FloatDType::F32, FloatDType::F16, FloatDType::BF16, FloatDType::F64] {
        same!(format!("{dtype:?}"), EXACT, device => {
            B::seed(device, 10);
            let [flags, units] = [Distribution::Bernoulli(0.25), Distribution::Default]
                .map(|distribution| B::float_random(Shape::from([3, 37]), distribution, device, dtype));
            vec![float::<B>(B::float_add(B::float_neg(flags), units))]
        });
    }
}
