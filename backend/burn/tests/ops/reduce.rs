//! Reductions, cumulative operators, extrema with their places, sorting.

use burn_backend::DType;
use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_std::{BoolDType, IntDType};

use crate::check::{EXACT, SUMS, agree, bool, bools, f32s, float, floats, given, int, ints, rounding};

macro_rules! along_axes {
    ($($name:ident, $tolerance:expr);+ $(;)?) => { $(
        #[test]
        fn $name() {
            for axis in 0..3 {
                agree!(format!("{} {axis}", stringify!($name)), $tolerance, device => vec![
                    float::<B>(B::$name(f32s::<B>(&[3, 5, 7], 1, device), axis)),
                    float::<B>(B::$name(B::float_swap_dims(f32s::<B>(&[7, 5, 1], 2, device), 0, 2), axis)),
                ]);
            }
        }
    )+ };
}

along_axes! {
    float_sum_dim, SUMS;
    float_mean_dim, SUMS;
    float_prod_dim, SUMS;
    float_max_dim, EXACT;
    float_min_dim, EXACT;
    float_max_abs_dim, EXACT;
    float_cumsum, SUMS;
    float_cumprod, SUMS;
    float_cummin, EXACT;
    float_cummax, EXACT;
}

macro_rules! over_all {
    ($($name:ident, $tolerance:expr);+ $(;)?) => { $(
        #[test]
        fn $name() {
            for shape in [vec![1], vec![7, 11], vec![3, 1, 2], vec![9000]] {
                agree!(format!("{} {shape:?}", stringify!($name)), $tolerance, device => vec![
                    float::<B>(B::$name(f32s::<B>(&shape, 1, device))),
                ]);
            }
            agree!(stringify!($name), $tolerance, device => vec![
                float::<B>(B::$name(B::float_swap_dims(f32s::<B>(&[7, 5], 3, device), 0, 1))),
            ]);
        }
    )+ };
}

over_all! {
    float_sum, crate::check::Tolerance { absolute: 2e-3, relative: 1e-5 };
    float_mean, SUMS;
    float_max, EXACT;
    float_min, EXACT;
    float_max_abs, EXACT;
}

#[test]
fn float_prod_over_all() {
    agree!("prod", SUMS, device => vec![float::<B>(B::float_prod(f32s::<B>(&[3, 5], 1, device)))]);
}

#[test]
fn float_sum_dims_over_several_axes() {
    agree!("sum_dims", SUMS, device => vec![float::<B>(B::float_sum_dims(f32s::<B>(&[3, 5, 7], 1, device), &[0, 2]))]);
}

#[test]
fn half_precision_sums_are_kept_in_f32() {
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        agree!(format!("{dtype:?}"), rounding(dtype), device => {
            let x = || floats::<B>(&[5, 300], dtype, 3, device);
            vec![float::<B>(B::float_mean_dim(x(), 1)), float::<B>(B::float_max_dim(x(), 0)), float::<B>(B::float_mean(x()))]
        });
    }
    // Their sum is beyond f16, their mean is not.
    let device = &crate::check::device();
    type B = rocfire_burn::Rocm;
    let large = given::<B>(&[1000.0; 10000], &[10000], DType::F16, device);
    assert_eq!(crate::check::numbers(&float::<B>(B::float_mean(large))), [1000.0]);
}

#[test]
fn nan_wins_every_maximum_and_infinities_count() {
    let numbers = [1.0, f32::NAN, 3.0, f32::INFINITY, f32::NEG_INFINITY, 2.0];
    agree!("nan", EXACT, device => {
        let x = || given::<B>(&numbers, &[2, 3], DType::F32, device);
        vec![
            float::<B>(B::float_max_dim(x(), 1)),
            float::<B>(B::float_min_dim(x(), 1)),
            float::<B>(B::float_max(x())),
            float::<B>(B::float_cummax(x(), 1)),
        ]
    });
}

#[test]
fn extrema_with_their_places() {
    for axis in 0..2 {
        agree!(format!("places {axis}"), EXACT, device => {
            let x = || f32s::<B>(&[5, 6], 4, device);
            let ties = || ints::<B>(&[3, 1, 3, 2, 1, 3, 0, 0], &[2, 4], DType::I32, device);
            let (largest, its_place) = B::float_max_dim_with_indices(x(), axis, IntDType::I32);
            let (smallest, other_place) = B::float_min_dim_with_indices(x(), axis, IntDType::I64);
            let (int_largest, int_place) = B::int_max_dim_with_indices(ties(), axis);
            let (int_smallest, other_int_place) = B::int_min_dim_with_indices(ties(), axis);
            vec![
                float::<B>(largest), int::<B>(its_place), float::<B>(smallest), int::<B>(other_place),
                int::<B>(int_largest), int::<B>(int_place), int::<B>(int_smallest), int::<B>(other_int_place),
                int::<B>(B::float_argmax(x(), axis, IntDType::I64)),
                int::<B>(B::float_argmin(x(), axis, IntDType::I32)),
                int::<B>(B::int_argmax(ties(), axis)),
                int::<B>(B::int_argmin(ties(), axis)),
            ]
        });
    }
}

#[test]
fn tests_over_axes_and_all() {
    agree!("any, all", EXACT, device => {
        let x = || given::<B>(&[0.0, 1.0, 0.0, 2.0, f32::NAN, 3.0], &[3, 2], DType::F32, device);
        let n = || ints::<B>(&[0, 1, 0, 2, 0, 3], &[3, 2], DType::I32, device);
        let b = || bools::<B>(&[3, 4], 5, device);
        let native = BoolDType::Native;
        vec![
            bool::<B>(B::float_any(x(), native)), bool::<B>(B::float_any_dim(x(), 0, native)),
            bool::<B>(B::float_all(x(), native)), bool::<B>(B::float_all_dim(x(), 1, native)),
            bool::<B>(B::int_any(n(), native)), bool::<B>(B::int_any_dim(n(), 0, native)),
            bool::<B>(B::int_all(n(), native)), bool::<B>(B::int_all_dim(n(), 0, native)),
            bool::<B>(B::bool_any(b())), bool::<B>(B::bool_any_dim(b(), 1)),
            bool::<B>(B::bool_all(b())), bool::<B>(B::bool_all_dim(b(), 0)),
        ]
    });
}

#[test]
fn integer_reductions_truncate_and_wrap() {
    let numbers = [7, -7, 0, 100, -100, 3, 1, -1, 2, 5, -4, 6];
    for axis in 0..2 {
        agree!(format!("axis {axis}"), EXACT, device => {
            let x = || ints::<B>(&numbers, &[3, 4], DType::I32, device);
            vec![
                int::<B>(B::int_sum_dim(x(), axis)), int::<B>(B::int_prod_dim(x(), axis)),
                int::<B>(B::int_mean_dim(x(), axis)), int::<B>(B::int_max_dim(x(), axis)),
                int::<B>(B::int_min_dim(x(), axis)), int::<B>(B::int_max_abs_dim(x(), axis)),
                int::<B>(B::int_cumsum(x(), axis)), int::<B>(B::int_cumprod(x(), axis)),
                int::<B>(B::int_cummin(x(), axis)), int::<B>(B::int_cummax(x(), axis)),
            ]
        });
    }
    agree!("all", EXACT, device => {
        let x = || ints::<B>(&numbers, &[3, 4], DType::I64, device);
        vec![
            int::<B>(B::int_sum(x())), int::<B>(B::int_prod(x())), int::<B>(B::int_mean(x())),
            int::<B>(B::int_max(x())), int::<B>(B::int_min(x())), int::<B>(B::int_max_abs(x())),
        ]
    });
}

/// Found by random operators on a GPU of NVIDIA's: a magnitude in 16 bits was compared as one in 32.
#[test]
fn the_least_integer_is_its_own_magnitude() {
    for (dtype, least) in
        [(DType::I8, -128), (DType::I16, -32768), (DType::I32, i64::from(i32::MIN)), (DType::I64, i64::MIN)]
    {
        agree!(format!("least {dtype:?}"), EXACT, device => {
            let x = || ints::<B>(&[least, -1, least, 5, 3, least], &[3, 2], dtype, device);
            let size = || B::int_abs(x());
            vec![
                int::<B>(B::int_max_abs(x())), int::<B>(B::int_max_abs_dim(x(), 0)), int::<B>(B::int_max_abs_dim(x(), 1)),
                int::<B>(size()), int::<B>(B::int_max(size())), int::<B>(B::int_cast(size(), IntDType::I64)),
            ]
        });
    }
}

#[test]
fn sorting_and_the_largest_few() {
    agree!("sort", EXACT, device => {
        let x = || f32s::<B>(&[3, 9], 6, device);
        let n = || ints::<B>(&[5, 2, 9, 1, 7, 3], &[2, 3], DType::I32, device);
        let (sorted, order) = B::float_sort_with_indices(x(), 1, true, IntDType::I32);
        let (top, places) = B::float_topk_with_indices(x(), 1, 3, IntDType::I32);
        let (int_sorted, int_order) = B::int_sort_with_indices(n(), 1, false);
        let (int_top, int_places) = B::int_topk_with_indices(n(), 1, 2);
        vec![
            float::<B>(B::float_sort(x(), 0, false)), float::<B>(sorted), int::<B>(order),
            int::<B>(B::float_argsort(x(), 1, false, IntDType::I64)),
            float::<B>(B::float_topk(x(), 1, 4)), float::<B>(top), int::<B>(places),
            int::<B>(B::float_argtopk(x(), 0, 2, IntDType::I32)),
            int::<B>(B::int_sort(n(), 1, true)), int::<B>(int_sorted), int::<B>(int_order),
            int::<B>(B::int_argsort(n(), 1, true)), int::<B>(B::int_topk(n(), 1, 2)),
            int::<B>(int_top), int::<B>(int_places), int::<B>(B::int_argtopk(n(), 1, 1)),
        ]
    });
}
