//! What Burn makes of some operators under fusion before we are asked, as the README says: when a later Burn does better, it is to be said
//! no more.

use burn_backend::DType;
use burn_backend::ops::{ActivationOps, ModuleOps};
use rocfire_burn::{Fused, Rocm};

use crate::check::{f32s, float, given, numbers};
use crate::harness::device;
use crate::outcomes::outcome;
use crate::version::LARGER_WINDOW;

#[test]
fn log_sigmoid_of_minus_infinity_is_burns_own() {
    let (device, _guard) = device();
    let far = [f32::NEG_INFINITY, -1e30, f32::INFINITY];
    let eager =
        numbers(&float::<Rocm>(Rocm::log_sigmoid(given::<Rocm>(&far, &[3], DType::F32, &crate::check::device()))));
    assert_eq!(eager, [f64::NEG_INFINITY, f64::from(-1e30_f32), 0.0]);
    let fused = numbers(&float::<Fused>(Fused::log_sigmoid(given::<Fused>(&far, &[3], DType::F32, &device))));
    assert!(fused[0].is_nan() && fused[1..] == eager[1..], "{fused:?}");
}

#[cfg(debug_assertions)]
#[test]
fn the_shape_of_a_pool_that_is_too_large_is_burns_own() {
    let (device, _guard) = device();
    let x = f32s::<Fused>(&[1, 1, 2, 3], 1, &device);
    let pooled = || vec![float::<Fused>(Fused::max_pool2d(x, [5, 5], [1, 1], [0, 0], [1, 1], false))];
    assert!(outcome(pooled).is_err_and(|text| text.contains(LARGER_WINDOW)));
}
