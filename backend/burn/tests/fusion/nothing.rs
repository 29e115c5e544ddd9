//! Reductions of nothing fail as the eager backend's do; what does not depend on them is there.

use burn_backend::DType;
use burn_backend::ops::{ActivationOps, FloatTensorOps, IntTensorOps};
use burn_std::IntDType;
use rocfire_burn::{Fused, Rocm};

use crate::check::{f32s, float, given, int, numbers};
use crate::harness::device;
use crate::outcomes::{CASES, outcome, outcomes, same_outcomes};
use crate::rows::softmax;

#[test]
fn reductions_of_nothing_are_those_of_flex() {
    let (device, _guard) = device();
    for (shape, axis) in CASES {
        let ours = outcomes::<Fused>(shape, axis, &device);
        let theirs = outcomes::<burn_flex::Flex>(shape, axis, &burn_flex::FlexDevice);
        same_outcomes(&format!("{shape:?} along {axis}"), ours, theirs);
    }
}

#[test]
fn extremes_of_nothing_fail_behind_and_ahead_of_other_operations() {
    let (device, _guard) = device();
    let x = || f32s::<Fused>(&[3, 0], 1, &device);
    let programs: [(&str, &dyn Fn() -> Vec<burn_backend::TensorData>); 4] = [
        ("max_dim", &|| vec![float::<Fused>(Fused::float_exp(Fused::float_max_dim(Fused::float_abs(x()), 1)))]),
        ("min", &|| vec![float::<Fused>(Fused::float_neg(Fused::float_min(Fused::float_neg(x()))))]),
        ("argmax", &|| {
            let places = Fused::float_argmax(Fused::float_exp(x()), 1, IntDType::I64);
            vec![int::<Fused>(Fused::int_add_scalar(places, 1.into()))]
        }),
        ("max_abs_dim", &|| {
            let most = Fused::float_max_abs_dim(x(), 1);
            vec![float::<Fused>(Fused::float_mul(f32s::<Fused>(&[3, 5], 2, &device), most))]
        }),
    ];
    for (name, program) in programs {
        let text = outcome(program).expect_err("there is no extreme");
        assert!(text.contains(name), "{name}: {text}");
    }
    // The device and its streams go on.
    assert_eq!(
        numbers(&float::<Fused>(Fused::float_max_dim(given::<Fused>(&[1.0, 2.0], &[1, 2], DType::F32, &device), 1))),
        [2.0]
    );
}

#[test]
fn what_is_beside_an_extreme_of_nothing_is_there() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[3, 0], 1, &device);
    let most = Fused::float_max_dim(x.clone(), 1);
    let sum = Fused::float_sum_dim(x, 1);
    assert_eq!(numbers(&float::<Fused>(sum)), [0.0; 3]);
    let text = outcome(|| vec![float::<Fused>(most)]).expect_err("there is no extreme");
    assert!(text.contains("max_dim"), "{text}");
}

#[test]
fn a_softmax_of_nothing_is_nothing() {
    let (device, _guard) = device();
    let written_out = float::<Fused>(softmax::<Fused>(f32s::<Fused>(&[3, 0], 1, &device), 1));
    let eager = float::<Rocm>(Rocm::softmax(f32s::<Rocm>(&[3, 0], 1, &crate::check::device()), 1));
    assert_eq!((&written_out.shape()[..], &eager.shape()[..]), (&[3, 0][..], &[3, 0][..]));
}
