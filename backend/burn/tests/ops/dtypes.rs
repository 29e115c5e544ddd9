//! Operators with every element type: arithmetic at its limits, comparisons, reductions, order, indices, masks.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{DType, Scalar, read_sync};
use burn_std::{BoolDType, BoolStore, IndexingUpdateOp, IntDType};

use crate::check::float;
use crate::check::{EXACT, agree, bool, bools, floats, given, indices, int, ints, rounding};

const INTEGERS: [DType; 8] =
    [DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8];
const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Small numbers that every integer type holds.
fn small(dtype: DType) -> Vec<i64> {
    let signed: Vec<i64> = vec![7, -7, 0, 100, -100, 3, 1, -1, 12, 5, 90, -128];
    if dtype.is_uint() { signed.iter().map(|n| n.abs()).collect() } else { signed }
}

#[test]
fn arithmetic_and_comparisons_of_every_integer_type() {
    let divisors = [2, 2, 5, 7, 9, 3, 1, 4, 5, 100, 6, 3];
    for dtype in INTEGERS {
        agree!(format!("{dtype:?}"), EXACT, device => {
            let a = || ints::<B>(&small(dtype), &[3, 4], dtype, device);
            let b = || ints::<B>(&divisors, &[3, 4], dtype, device);
            vec![
                int::<B>(B::int_add(a(), b())), int::<B>(B::int_mul(a(), a())), int::<B>(B::int_sub(b(), a())),
                int::<B>(B::int_div(a(), b())), int::<B>(B::int_remainder(a(), b())),
                int::<B>(B::bitwise_and(a(), b())),
                bool::<B>(B::int_lower(a(), b(), BoolDType::Native)),
            ]
        });
    }
}

#[test]
fn reductions_and_running_results_of_every_integer_type() {
    for dtype in INTEGERS {
        agree!(format!("{dtype:?}"), EXACT, device => {
            let a = || ints::<B>(&small(dtype), &[3, 4], dtype, device);
            vec![
                int::<B>(B::int_sum_dim(a(), 1)), int::<B>(B::int_max_dim(a(), 0)), int::<B>(B::int_min(a())),
                int::<B>(B::int_cumsum(a(), 1)), int::<B>(B::int_cummax(a(), 0)),
                int::<B>(B::int_argmax(a(), 1)),
            ]
        });
    }
}

#[test]
fn order_indices_and_masks_of_every_integer_type() {
    for dtype in INTEGERS {
        agree!(format!("{dtype:?}"), EXACT, device => {
            let a = || ints::<B>(&small(dtype), &[3, 4], dtype, device);
            let mask = || bools::<B>(&[3, 4], 3, device);
            let at = || indices::<B>(&[3, 2], 4, 1, device);
            vec![
                int::<B>(B::int_sort(a(), 1, false)), int::<B>(B::int_topk(a(), 0, 2)),
                int::<B>(B::int_gather(1, a(), at())),
                int::<B>(B::int_scatter(1, a(), at(), B::int_slice(a(), &[(0..3).into(), (0..2).into()]), IndexingUpdateOp::Add)),
                int::<B>(B::int_mask_where(a(), mask(), B::int_sort(a(), 1, true))),
                int::<B>(read_sync(B::int_mask_select(a(), mask()))),
                int::<B>(B::int_repeat_dim(a(), 1, 3)),
            ]
        });
    }
}

#[test]
fn order_running_results_and_masks_of_every_float_type() {
    for dtype in FLOATS {
        agree!(format!("{dtype:?}"), rounding(dtype), device => {
            let a = || floats::<B>(&[3, 5], dtype, 4, device);
            let mask = || bools::<B>(&[3, 5], 5, device);
            let (sorted, places) = B::float_sort_with_indices(a(), 1, true, IntDType::I64);
            let (top, top_places) = B::float_topk_with_indices(a(), 1, 2, IntDType::I32);
            vec![
                float::<B>(sorted), int::<B>(places), float::<B>(top), int::<B>(top_places),
                float::<B>(B::float_cumsum(a(), 1)), float::<B>(B::float_cumprod(a(), 0)),
                float::<B>(read_sync(B::float_mask_select(a(), mask()))),
                float::<B>(B::float_mask_fill(a(), mask(), Scalar::Float(1.5))),
                float::<B>(B::float_remainder_scalar(a(), Scalar::Float(0.75))),
                float::<B>(B::float_max_abs_dim(a(), 1)), float::<B>(B::float_max_abs(a())),
                bool::<B>(B::float_any_dim(a(), 0, BoolDType::Native)),
            ]
        });
    }
}

/// The largest magnitudes, where results wrap around.
#[test]
fn integers_wrap_at_their_ends() {
    for (dtype, low, high) in
        [(DType::I32, i64::from(i32::MIN), i64::from(i32::MAX)), (DType::I8, -128, 127), (DType::U8, 0, 255)]
    {
        agree!(format!("{dtype:?}"), EXACT, device => {
            let ends = || ints::<B>(&[low, high, low, high], &[4], dtype, device);
            vec![
                int::<B>(B::int_add_scalar(ends(), Scalar::Int(1))),
                int::<B>(B::int_mul_scalar(ends(), Scalar::Int(3))),
                int::<B>(B::int_sub_scalar(ends(), Scalar::Int(2))),
            ]
        });
    }
}

#[test]
fn long_lines_are_sorted_and_summed_as_short_ones_are() {
    agree!("long", EXACT, device => {
        let numbers: Vec<i64> = (0..5000).map(|n| n * 7919 % 5003 - 2500).collect();
        let line = || ints::<B>(&numbers, &[5000], DType::I32, device);
        vec![
            int::<B>(B::int_sort(line(), 0, true)), int::<B>(B::int_argsort(line(), 0, false)),
            int::<B>(B::int_topk(line(), 0, 9)), int::<B>(B::int_cumsum(line(), 0)),
            int::<B>(B::int_select_assign(line(), 0, B::int_slice(B::int_abs(line()), &[(0..600).into()]),
                B::int_slice(line(), &[(100..700).into()]), IndexingUpdateOp::Add)),
        ]
    });
}

#[test]
fn nan_and_signed_zeros_are_sorted_as_flex_sorts_them() {
    agree!("order", EXACT, device => {
        let numbers = [1.0, f32::NAN, -0.0, f32::INFINITY, 0.0, f32::NEG_INFINITY, -1.0, f32::NAN];
        let x = || given::<B>(&numbers, &[8], DType::F32, device);
        let inverse = |x| B::float_recip(x);
        vec![
            float::<B>(B::float_sort(x(), 0, false)), float::<B>(B::float_sort(x(), 0, true)),
            // Tells zeros apart by their sign.
            float::<B>(inverse(B::float_sort(x(), 0, false))),
            float::<B>(B::float_topk(x(), 0, 3)),
        ]
    });
}

#[test]
fn nothing_at_all_has_the_shape_that_it_should() {
    agree!("nothing", EXACT, device => {
        let none = || floats::<B>(&[0, 3], DType::F32, 1, device);
        let numbers = || ints::<B>(&[], &[2, 0], DType::I32, device);
        let no = || B::bool_slice(bools::<B>(&[2, 3], 1, device), &[(0..0).into()]);
        vec![
            float::<B>(B::float_sum_dim(none(), 0)), float::<B>(B::float_sum(none())), float::<B>(B::float_exp(none())),
            float::<B>(B::float_sort(none(), 1, false)), float::<B>(B::float_cumsum(none(), 0)),
            float::<B>(B::float_cat(vec![none(), floats::<B>(&[2, 3], DType::F32, 2, device)], 0)),
            float::<B>(B::float_add(none(), none())), float::<B>(B::float_repeat_dim(none(), 1, 2)),
            int::<B>(B::int_sum_dim(numbers(), 1)), int::<B>(B::int_argsort(numbers(), 1, false)),
            float::<B>(read_sync(B::float_mask_select(none(), no()))),
            int::<B>(read_sync(B::bool_argwhere(no(), IntDType::I64))),
            float::<B>(B::float_select(floats::<B>(&[2, 3], DType::F32, 2, device), 1, B::int_reshape(numbers(), [0].into()))),
            float::<B>(B::float_matmul(B::float_swap_dims(none(), 0, 1), none())),
        ]
    });
}

/// Bools in every store that Burn has: the data comes back as it was asked for, through views, comparisons and selections.
#[test]
fn bools_keep_the_store_that_they_were_asked_for_in() {
    use burn_backend::{Backend, TensorData};
    use rocfire_burn::Rocm as B;
    let device = &crate::check::device();
    let truths = [true, false, true, true, false, true];
    for store in [BoolStore::Native, BoolStore::U8, BoolStore::U32] {
        let dtype = DType::Bool(store);
        assert!(B::supports_dtype(device, dtype), "{dtype:?}");
        let data = TensorData::new(truths.to_vec(), [2, 3]).convert_dtype(dtype);
        let x = || B::bool_from_data(data.clone(), device);
        assert_eq!(bool::<B>(x()), data);
        let read = |tensor, want: &[bool]| {
            let got = bool::<B>(tensor);
            assert_eq!(got.dtype(), dtype);
            let want = TensorData::new(want.to_vec(), got.shape().clone());
            assert_eq!(got.convert_dtype(DType::Bool(BoolStore::Native)), want, "{dtype:?}");
        };
        read(B::bool_not(x()), &truths.map(|truth| !truth));
        read(B::bool_swap_dims(x(), 0, 1), &[true, true, false, false, true, true]);
        read(B::bool_and(x(), x()), &truths);
        read(B::bool_zeros([3].into(), device, store), &[false; 3]);
        read(B::bool_cat(vec![x(), x()], 0), &[truths, truths].concat());
        let numbers = || ints::<B>(&[3, -1, 4, 1, -5, 9], &[2, 3], DType::I32, device);
        read(B::int_greater_elem(numbers(), Scalar::Int(0), store), &truths);
        read(B::float_is_nan(given::<B>(&[f32::NAN, 1.0], &[2], DType::F32, device), store), &[true, false]);
        let kept = int::<B>(read_sync(B::int_mask_select(numbers(), x())));
        assert_eq!(kept.as_slice::<i32>().unwrap(), [3, 4, 1, 9]);
        assert_eq!(bool::<B>(read_sync(B::bool_mask_select(x(), x()))).dtype(), dtype);
    }
}

/// The last handle to a tensor gives its memory to the result; another handle keeps what it sees.
#[test]
fn memory_is_reused_by_the_last_owner_only() {
    use rocfire_burn::Rocm as B;
    let device = &crate::check::device();
    let x = || given::<B>(&[1.0, 2.0, 3.0], &[3], DType::F32, device);
    let place = |x: &rocfire_burn::RocmTensor| x.as_inner().view().device_address();
    let last = x();
    let before = place(&last);
    let doubled = B::float_mul_scalar(last, Scalar::Float(2.0));
    assert_eq!(place(&doubled), before);
    let shared = doubled.clone();
    let sum = B::float_add(doubled, x());
    assert_ne!(place(&sum), place(&shared));
    assert_eq!(crate::check::numbers(&float::<B>(shared)), [2.0, 4.0, 6.0]);
    assert_eq!(crate::check::numbers(&float::<B>(sum)), [3.0, 6.0, 9.0]);
    // A view reads other elements than it would write.
    let wide = given::<B>(&[1.0, 2.0, 3.0, 4.0], &[2, 2], DType::F32, device);
    let exp = B::float_neg(B::float_swap_dims(wide, 0, 1));
    assert_eq!(crate::check::numbers(&float::<B>(exp)), [-1.0, -3.0, -2.0, -4.0]);
}
