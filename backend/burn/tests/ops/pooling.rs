//! Pools and their gradients.

use burn_backend::DType;
use burn_backend::ops::{FloatTensorOps, ModuleOps};
use burn_std::IntDType;
use rocfire_burn::Rocm;

use crate::check::{EXACT, SUMS, agree, device, f32s, float, floats, given, int, rounding};
use crate::outcomes::outcome;
use crate::version::{TAKES_LARGER_WINDOWS, avg_pool1d, avg_pool1d_backward, avg_pool2d, avg_pool2d_backward};

/// Kernel, stride, padding, dilation, rounding up.
type Case = ([usize; 2], [usize; 2], [usize; 2], [usize; 2], bool);

const CASES: [Case; 7] = [
    ([2, 2], [2, 2], [0, 0], [1, 1], false),
    ([3, 2], [1, 2], [1, 0], [1, 1], false),
    ([2, 3], [2, 2], [0, 1], [2, 1], true),
    ([3, 3], [2, 3], [1, 1], [1, 1], true),
    ([1, 1], [1, 1], [0, 0], [1, 1], false),
    // A window more would begin behind the input: in the padding along the first axis, at its end along the second.
    ([2, 1], [4, 3], [1, 0], [1, 1], true),
    // One that hangs over by less than a step.
    ([8, 7], [2, 2], [0, 0], [1, 1], true),
];

#[test]
fn max_pool2d_with_places_and_gradient() {
    for (kernel, stride, padding, dilation, ceil) in CASES {
        agree!(format!("max_pool2d {kernel:?} {stride:?} {padding:?} {dilation:?} {ceil}"), EXACT, device => {
            let x = || f32s::<B>(&[2, 3, 7, 6], 1, device);
            let pooled = B::max_pool2d_with_indices(x(), kernel, stride, padding, dilation, ceil, IntDType::I64);
            let grad = f32s::<B>(&float::<B>(pooled.output.clone()).shape()[..], 2, device);
            let places = int::<B>(pooled.indices.clone());
            let back = B::max_pool2d_with_indices_backward(x(), kernel, stride, padding, dilation, ceil, grad, pooled.indices);
            vec![
                float::<B>(B::max_pool2d(x(), kernel, stride, padding, dilation, ceil)),
                float::<B>(pooled.output),
                places,
                float::<B>(B::float_mul_scalar(back.x_grad, 1.0.into())),
            ]
        });
    }
}

#[test]
fn max_pool2d_gives_the_first_of_equals_and_the_last_nan() {
    let numbers = [1.0, 1.0, 0.0, f32::NAN, 1.0, 1.0, f32::NAN, 2.0, f32::NEG_INFINITY, 0.0, 0.0, 0.0];
    agree!("ties", EXACT, device => {
        let x = given::<B>(&numbers, &[1, 1, 3, 4], DType::F32, device);
        let pooled = B::max_pool2d_with_indices(x, [2, 2], [1, 1], [1, 1], [1, 1], false, IntDType::I32);
        vec![float::<B>(pooled.output), int::<B>(pooled.indices)]
    });
}

#[test]
fn avg_pool2d_with_gradient() {
    for (kernel, stride, padding, _, ceil) in CASES {
        for include_pad in [true, false] {
            let windows = (kernel, stride, padding, include_pad, ceil);
            agree!(format!("avg_pool2d {windows:?}"), SUMS, device => {
                let x = || f32s::<B>(&[2, 3, 7, 6], 1, device);
                let y = avg_pool2d::<B>(x(), windows);
                let grad = f32s::<B>(&float::<B>(y.clone()).shape()[..], 2, device);
                vec![float::<B>(y), float::<B>(avg_pool2d_backward::<B>(x(), grad, windows))]
            });
        }
    }
}

#[test]
fn adaptive_pools_with_gradients() {
    agree!("adaptive", SUMS, device => {
        let x = || f32s::<B>(&[2, 3, 7, 6], 1, device);
        let volume = || f32s::<B>(&[1, 2, 4, 5, 6], 2, device);
        let mut results = Vec::new();
        for size in [[1, 1], [3, 4], [7, 6], [9, 2]] {
            results.push(float::<B>(B::adaptive_avg_pool2d(x(), size)));
            let grad = f32s::<B>(&[2, 3, size[0], size[1]], 3, device);
            results.push(float::<B>(B::adaptive_avg_pool2d_backward(x(), grad)));
        }
        results.push(float::<B>(B::adaptive_avg_pool3d(volume(), [2, 3, 6])));
        results.push(float::<B>(B::adaptive_avg_pool3d_backward(volume(), f32s::<B>(&[1, 2, 2, 3, 6], 4, device))));
        results
    });
}

#[test]
fn pools_along_one_axis() {
    agree!("1d", SUMS, device => {
        let x = || f32s::<B>(&[2, 3, 9], 1, device);
        let pooled = B::max_pool1d_with_indices(x(), 3, 2, 1, 1, false, IntDType::I64);
        let places = int::<B>(pooled.indices.clone());
        let back = B::max_pool1d_with_indices_backward(x(), 3, 2, 1, 1, false, f32s::<B>(&[2, 3, 5], 2, device), pooled.indices);
        vec![
            float::<B>(B::max_pool1d(x(), 3, 2, 1, 1, false)), float::<B>(pooled.output), places, float::<B>(back.x_grad),
            float::<B>(avg_pool1d::<B>(x(), ([2], [2], [0], true, false))),
            float::<B>(avg_pool1d_backward::<B>(x(), f32s::<B>(&[2, 3, 4], 3, device), ([2], [2], [0], true, false))),
            float::<B>(B::adaptive_avg_pool1d(x(), 4)),
            float::<B>(B::adaptive_avg_pool1d_backward(x(), f32s::<B>(&[2, 3, 4], 4, device))),
        ]
    });
}

#[test]
fn pools_in_sixteen_bits() {
    agree!("f16", rounding(DType::F16), device => {
        let x = || floats::<B>(&[1, 2, 6, 6], DType::F16, 1, device);
        vec![
            float::<B>(avg_pool2d::<B>(x(), ([3, 3], [1, 1], [1, 1], true, false))),
            float::<B>(B::max_pool2d(x(), [2, 2], [2, 2], [0, 0], [1, 1], false)),
        ]
    });
}

#[test]
fn windows_larger_than_the_padded_input_are_those_of_flex() {
    // No window, or one that hangs over where rounding up is asked for.
    for (size, kernel, padding, ceil) in [
        ([2, 3], [3, 2], [0, 0], false),
        ([2, 3], [5, 5], [1, 1], false),
        ([2, 3], [3, 4], [0, 0], true),
        ([1, 1], [5, 5], [1, 1], true),
    ] {
        if !TAKES_LARGER_WINDOWS {
            let x = || f32s::<Rocm>(&[2, 3, size[0], size[1]], 1, &device());
            let largest = || vec![float::<Rocm>(Rocm::max_pool2d(x(), kernel, [1, 1], padding, [1, 1], ceil))];
            let average = || vec![float::<Rocm>(avg_pool2d::<Rocm>(x(), (kernel, [1, 1], padding, true, ceil)))];
            for told in [outcome(largest), outcome(average)] {
                assert!(told.is_err_and(|text| text.contains("no larger than the padded input")));
            }
            continue;
        }
        agree!(format!("{size:?} {kernel:?} {padding:?} {ceil}"), SUMS, device => {
            let x = || f32s::<B>(&[2, 3, size[0], size[1]], 1, device);
            let pooled = B::max_pool2d_with_indices(x(), kernel, [1, 1], padding, [1, 1], ceil, IntDType::I64);
            vec![
                float::<B>(B::max_pool2d(x(), kernel, [1, 1], padding, [1, 1], ceil)),
                float::<B>(pooled.output),
                int::<B>(pooled.indices),
                float::<B>(avg_pool2d::<B>(x(), (kernel, [1, 1], padding, true, ceil))),
                float::<B>(avg_pool2d::<B>(x(), (kernel, [1, 1], padding, false, ceil))),
            ]
        });
    }
}
