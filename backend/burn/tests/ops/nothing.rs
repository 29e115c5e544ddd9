//! Reductions of nothing: Burn's Flex fails where there is no answer, and so do we, with the operator's name.

use burn_backend::ops::FloatTensorOps;
use burn_std::IntDType;

use crate::check::{device, f32s, float, int};
use crate::outcomes::{CASES, outcome, outcomes, same_outcomes};

#[test]
fn reductions_of_nothing_are_those_of_flex() {
    for (shape, axis) in CASES {
        let ours = outcomes::<rocfire_burn::Rocm>(shape, axis, &device());
        let theirs = outcomes::<burn_flex::Flex>(shape, axis, &burn_flex::FlexDevice);
        same_outcomes(&format!("{shape:?} along {axis}"), ours, theirs);
    }
}

#[test]
fn the_largest_few_of_nothing_fail() {
    let device = &device();
    type B = rocfire_burn::Rocm;
    let x = || f32s::<B>(&[3, 0], 1, device);
    let failed = [
        outcome(|| vec![float::<B>(B::float_topk(x(), 1, 1))]),
        outcome(|| vec![int::<B>(B::float_argtopk(x(), 1, 1, IntDType::I32))]),
        outcome(|| vec![int::<B>(B::float_topk_with_indices(x(), 1, 1, IntDType::I32).1)]),
    ];
    for failed in failed {
        let text = failed.expect_err("there is no largest");
        assert!(text.contains("topk") && text.contains("at most 0"), "{text}");
    }
    let none = B::float_topk(f32s::<B>(&[0, 3], 1, device), 1, 2);
    assert_eq!(float::<B>(none).shape()[..], [0, 2]);
}
