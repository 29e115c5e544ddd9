//! Row reductions with elementwise operations around them.

use std::time::{Duration, Instant};

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, DType, Scalar, Shape};
use burn_std::IntDType;
use rocfire_burn::Fused;

use crate::check::{EXACT, SUMS, agree, f32s, float, floats, indices, int};
use crate::harness::{device, launches, same};

/// As Burn's tensors compute it.
pub fn softmax<B: Backend>(x: FloatTensor<B>, axis: usize) -> FloatTensor<B> {
    let exp = B::float_exp(B::float_sub(x.clone(), B::float_max_dim(x, axis)));
    B::float_div(exp.clone(), B::float_sum_dim(exp, axis))
}

/// As Burn's tensors compute it.
pub fn log_softmax<B: Backend>(x: FloatTensor<B>, axis: usize) -> FloatTensor<B> {
    let shifted = B::float_sub(x.clone(), B::float_max_dim(x, axis));
    let sum = B::float_sum_dim(B::float_exp(shifted.clone()), axis);
    B::float_sub(shifted, B::float_log(sum))
}

/// As `burn::nn` computes it.
pub fn layer_norm<B: Backend>(x: FloatTensor<B>, gamma: FloatTensor<B>, beta: FloatTensor<B>) -> FloatTensor<B> {
    let (axis, width) = (2, 8);
    let centred = B::float_sub(x.clone(), B::float_mean_dim(x, axis));
    let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred.clone()), axis);
    let normal = B::float_div(centred, B::float_sqrt(B::float_add_scalar(variance, Scalar::Float(1e-5))));
    let scaled = B::float_mul(normal, B::float_reshape(gamma, Shape::from([1, 1, width])));
    B::float_add(scaled, B::float_reshape(beta, Shape::from([1, 1, width])))
}

/// As `burn::nn` computes the loss of classes.
fn cross_entropy<B: Backend>(logits: FloatTensor<B>, targets: IntTensor<B>) -> FloatTensor<B> {
    let logits = B::float_reshape(logits, Shape::from([10, 8]));
    let targets = B::int_reshape(targets, Shape::from([10, 1]));
    let picked = B::float_gather(1, log_softmax::<B>(logits, 1), targets);
    B::float_neg(B::float_mean(B::float_reshape(picked, Shape::from([10]))))
}

#[test]
fn softmax_is_one_launch_along_any_axis() {
    for axis in 0..3 {
        let (device, _guard) = device();
        let x = f32s::<Fused>(&[3, 5, 8], 1, &device);
        let (_y, count) = launches(|| softmax::<Fused>(x.clone(), axis));
        assert_eq!(count, 1, "softmax over axis {axis}");
        let (_y, count) = launches(|| log_softmax::<Fused>(x, axis));
        assert_eq!(count, 1, "log_softmax over axis {axis}");
    }
}

#[test]
fn layer_norm_is_one_launch() {
    let (device, _guard) = device();
    let [gamma, beta] = [1, 2].map(|seed| f32s::<Fused>(&[8], seed, &device));
    let x = f32s::<Fused>(&[3, 5, 8], 3, &device);
    let (_y, count) = launches(|| layer_norm::<Fused>(x, gamma, beta));
    assert_eq!(count, 1);
}

#[test]
fn cross_entropy_is_at_most_three_launches() {
    let (device, _guard) = device();
    let logits = f32s::<Fused>(&[2, 5, 8], 1, &device);
    let targets = indices::<Fused>(&[10], 8, 2, &device);
    let (_loss, count) = launches(|| cross_entropy::<Fused>(logits, targets));
    assert!(count <= 3, "{count} launches");
}

#[test]
fn calls_on_tensors_of_their_own_run_before_anybody_waits() {
    let (device, _guard) = device();
    let inputs: Vec<_> = (1..=16).map(|seed| f32s::<Fused>(&[3, 5, 8], seed, &device)).collect();
    Fused::sync(&device).unwrap();
    let runs = || -> u64 {
        let plans = rocfire_burn::plans();
        let softmax = |plan: &&rocfire_burn::PlanReport| plan.operations == ["MaxDim", "Sub", "Exp", "SumDim", "Div"];
        plans.iter().filter(softmax).map(rocfire_burn::PlanReport::runs).sum()
    };
    let before = runs();
    let held: Vec<_> = inputs.iter().map(|x| softmax::<Fused>(x.clone(), 2)).collect();
    // A thread of its own executes what is recorded. It is given 32 operations at a time, so the last calls may be missing.
    let patience = Instant::now() + Duration::from_secs(60);
    while runs() < before + 8 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(runs() >= before + 8, "{} calls", runs() - before);
    for (x, y) in inputs.into_iter().zip(held) {
        assert_eq!(float::<Fused>(y), float::<Fused>(softmax::<Fused>(x, 2)));
    }
}

#[test]
fn rows_are_those_of_their_operations() {
    for dtype in [DType::F32, DType::F16, DType::F64] {
        same!(format!("softmax {dtype:?}"), EXACT, device => {
            let x = || floats::<B>(&[3, 5, 8], dtype, 1, device);
            (0..3).map(|axis| float::<B>(softmax::<B>(x(), axis))).chain([float::<B>(log_softmax::<B>(x(), 2))]).collect()
        });
    }
    same!("layer_norm", EXACT, device => {
        let [gamma, beta] = [1, 2].map(|seed| f32s::<B>(&[8], seed, device));
        vec![float::<B>(layer_norm::<B>(f32s::<B>(&[3, 5, 8], 3, device), gamma, beta))]
    });
    same!("cross_entropy", EXACT, device => {
        vec![float::<B>(cross_entropy::<B>(f32s::<B>(&[2, 5, 8], 1, device), indices::<B>(&[10], 8, 2, device)))]
    });
}

#[test]
fn rows_are_near_those_of_flex() {
    for width in [1, 7, 64, 200] {
        let ours = {
            let (device, _guard) = device();
            float::<Fused>(softmax::<Fused>(f32s::<Fused>(&[5, width], 1, &device), 1))
        };
        let theirs = float::<burn_flex::Flex>(softmax::<burn_flex::Flex>(
            f32s::<burn_flex::Flex>(&[5, width], 1, &burn_flex::FlexDevice),
            1,
        ));
        crate::check::compare("softmax", &[ours], &[theirs], SUMS);
    }
    let (_, _guard) = device::<rocfire_burn::RocmDevice>();
    agree!("cross_entropy", SUMS, device => {
        vec![float::<B>(cross_entropy::<B>(f32s::<B>(&[2, 5, 8], 1, device), indices::<B>(&[10], 8, 2, device)))]
    });
}

#[test]
fn a_reduction_with_operations_before_and_after_is_one_launch() {
    fn program<B: Backend>(x: FloatTensor<B>, scale: FloatTensor<B>) -> FloatTensor<B> {
        let squares = B::float_sum_dim(B::float_mul(x.clone(), x), 0);
        B::float_sqrt(B::float_mul(squares, scale))
    }
    let (device, _guard) = device();
    let (x, scale) = (f32s::<Fused>(&[9, 6], 1, &device), f32s::<Fused>(&[1, 6], 2, &device));
    let (_y, count) = launches(|| program::<Fused>(x, scale));
    assert_eq!(count, 1);
    drop(_guard);
    same!("column norms", EXACT, device => {
        vec![float::<B>(program::<B>(f32s::<B>(&[9, 6], 1, device), f32s::<B>(&[1, 6], 2, device)))]
    });
}

#[test]
fn sums_over_the_batch_axes_are_one_launch() {
    // Burn's gradients of broadcast parameters: both batch axes at once, merged into one row.
    fn program<B: Backend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
        B::float_sum_dims(B::float_mul(x, y), &[0, 1])
    }
    let (device, _guard) = device();
    let inputs = [1, 2].map(|seed| f32s::<Fused>(&[3, 5, 4], seed, &device));
    let (_sum, count) = launches(|| {
        let [x, y] = inputs;
        program::<Fused>(x, y)
    });
    assert_eq!(count, 1);
    drop(_guard);
    same!("sum_dims", SUMS, device => {
        vec![float::<B>(program::<B>(f32s::<B>(&[3, 5, 4], 1, device), f32s::<B>(&[3, 5, 4], 2, device)))]
    });
    // The batch axes of a transposed tensor do not lie one behind the other: it is copied first.
    same!("sum_dims of a view", SUMS, device => {
        let x = B::float_swap_dims(f32s::<B>(&[5, 3, 4], 1, device), 0, 1);
        vec![float::<B>(program::<B>(x, f32s::<B>(&[3, 5, 4], 2, device)))]
    });
}

#[test]
fn extremes_and_where_they_stand_are_those_of_their_operations() {
    same!("extremes", EXACT, device => {
        let x = B::float_round(f32s::<B>(&[4, 9], 1, device));
        let (highest, at) = B::float_max_dim_with_indices(B::float_mul_scalar(x.clone(), Scalar::Float(2.0)), 1, IntDType::I32);
        let lowest = B::float_argmin(B::float_neg(x), 0, IntDType::I64);
        vec![float::<B>(highest), int::<B>(at), int::<B>(lowest)]
    });
}
