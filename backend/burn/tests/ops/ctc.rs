//! Connectionist temporal classification: the loss, and its gradient for the logits below.

use burn_autodiff::Autodiff;
use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, DType, TensorData};

use crate::check::{SUMS, Tolerance, agree, float, floats, ints, rounding};

const STEPS: usize = 7;
const BATCH: usize = 4;
const CLASSES: usize = 5;
/// A repeated symbol, fewer symbols than there is room for, none at all, and a sample as long as it may be.
const TARGETS: [i64; BATCH * 3] = [1, 1, 2, 3, 4, 0, 2, 2, 2, 4, 2, 4];
const TARGET_LENGTHS: [i64; BATCH] = [3, 2, 0, 3];
const INPUT_LENGTHS: [i64; BATCH] = [7, 4, 5, 6];

fn loss<B: Backend>(log_probs: FloatTensor<B>, dtype: DType, device: &B::Device) -> FloatTensor<B> {
    let lengths = |numbers: &[i64]| ints::<B>(numbers, &[BATCH], dtype, device);
    let targets = ints::<B>(&TARGETS, &[BATCH, 3], dtype, device);
    B::ctc_loss(log_probs, targets, lengths(&INPUT_LENGTHS), lengths(&TARGET_LENGTHS), 0)
}

/// The gradient of the weighted losses for the logits.
fn gradient<B: Backend>(device: &B::Device) -> TensorData {
    type A<B> = Autodiff<B>;
    let logits = floats::<A<B>>(&[STEPS, BATCH, CLASSES], DType::F32, 3, device);
    let logits = A::<B>::float_set_require_grad(logits, true);
    let losses = loss::<A<B>>(A::<B>::log_softmax(logits.clone(), 2), DType::I64, device);
    let weights = floats::<A<B>>(&[BATCH], DType::F32, 4, device);
    let sum = A::<B>::float_sum(A::<B>::float_mul(losses, weights));
    float::<B>(A::<B>::grad(&logits, &A::<B>::backward(sum)).expect("the logits want a gradient"))
}

#[test]
fn ctc_loss_of_samples_of_different_lengths() {
    for (dtype, index, tolerance) in [
        (DType::F32, DType::I64, SUMS),
        (DType::F32, DType::I32, SUMS),
        (DType::F64, DType::I64, rounding(DType::F64)),
        // Burn's composition rounds at every step: seven steps of a few units each.
        (DType::F16, DType::I64, Tolerance { absolute: 2e-2, relative: 1e-2 }),
    ] {
        agree!(format!("{dtype:?}"), tolerance, device => {
            let logits = floats::<B>(&[STEPS, BATCH, CLASSES], dtype, 1, device);
            vec![float::<B>(loss::<B>(B::log_softmax(logits, 2), index, device))]
        });
    }
}

#[test]
fn ctc_gradient_for_the_logits() {
    // Sums of exponentials of sums over seven steps, in another order on either side.
    let tolerance = Tolerance { absolute: 5e-5, relative: 5e-5 };
    agree!("gradient", tolerance, device => vec![gradient::<B>(device)]);
}
