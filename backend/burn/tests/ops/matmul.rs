//! Matrix products.

use burn_backend::DType;
use burn_backend::ops::{FloatTensorOps, IntTensorOps};

use crate::check::{EXACT, SUMS, agree, f32s, float, floats, int, ints, rounding};

#[test]
fn products_of_any_shape_and_strides() {
    for (a, b) in [
        (vec![3, 5], vec![5, 7]),
        (vec![1, 1], vec![1, 1]),
        (vec![2, 3, 4], vec![2, 4, 6]),
        (vec![2, 1, 3, 4], vec![1, 5, 4, 2]),
        (vec![33, 65], vec![65, 17]),
        (vec![3, 0], vec![0, 2]),
        (vec![0, 3], vec![3, 2]),
    ] {
        agree!(format!("{a:?} · {b:?}"), SUMS, device => {
            let product = B::float_matmul(f32s::<B>(&a, 1, device), f32s::<B>(&b, 2, device));
            vec![float::<B>(product)]
        });
    }
    agree!("transposed", SUMS, device => {
        let a = B::float_swap_dims(f32s::<B>(&[5, 3], 1, device), 0, 1);
        let b = B::float_swap_dims(f32s::<B>(&[7, 5], 2, device), 0, 1);
        let sliced = B::float_flip(f32s::<B>(&[5, 4], 3, device), &[0]);
        vec![float::<B>(B::float_matmul(a.clone(), b)), float::<B>(B::float_matmul(a, sliced))]
    });
}

#[test]
fn products_of_other_types() {
    for dtype in [DType::F64, DType::F16, DType::BF16] {
        agree!(format!("{dtype:?}"), rounding(dtype), device => vec![
            float::<B>(B::float_matmul(floats::<B>(&[4, 8], dtype, 1, device), floats::<B>(&[8, 3], dtype, 2, device))),
        ]);
    }
    agree!("integers", EXACT, device => {
        let a = ints::<B>(&(0..12).collect::<Vec<_>>(), &[3, 4], DType::I32, device);
        let b = ints::<B>(&(-10..10).collect::<Vec<_>>(), &[4, 5], DType::I32, device);
        vec![int::<B>(B::int_matmul(a, b))]
    });
}
