//! Operators that move elements or only look at them differently, for all three kinds.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{DType, Slice};
use burn_std::PadMode;

use crate::check::{EXACT, agree, bool, bools, f32s, float, int, ints};

/// 0, 1, 2, … of a shape.
fn counted(shape: &[usize]) -> Vec<i64> {
    (0..shape.iter().product::<usize>() as i64).collect()
}

/// The same operator on a float, an int and a bool tensor of one shape.
macro_rules! all_kinds {
    ($what:expr, $shape:expr, |$x:ident| $float:expr, $int:expr, $bool:expr) => {
        agree!($what, EXACT, device => {
            let shape: &[usize] = &$shape;
            let a = { let $x = f32s::<B>(shape, 1, device); float::<B>($float) };
            let b = { let $x = ints::<B>(&counted(shape), shape, DType::I32, device); int::<B>($int) };
            let c = { let $x = bools::<B>(shape, 2, device); bool::<B>($bool) };
            vec![a, b, c]
        })
    };
}

#[test]
fn swap_and_permute() {
    all_kinds!(
        "swap",
        [2, 3, 5],
        |x| B::float_swap_dims(x, 0, 2),
        B::int_swap_dims(x, 0, 2),
        B::bool_swap_dims(x, 0, 2)
    );
    all_kinds!(
        "permute",
        [2, 3, 5],
        |x| B::float_permute(x, &[2, 0, 1]),
        B::int_permute(x, &[2, 0, 1]),
        B::bool_permute(x, &[2, 0, 1])
    );
    all_kinds!("transpose", [3, 4], |x| B::float_transpose(x), B::int_transpose(x), B::bool_transpose(x));
}

#[test]
fn flip_one_and_several_axes() {
    all_kinds!("flip", [3, 1, 4], |x| B::float_flip(x, &[0, 2]), B::int_flip(x, &[2]), B::bool_flip(x, &[0]));
}

#[test]
fn expand_repeats_axes_of_one() {
    all_kinds!(
        "expand",
        [1, 3, 1],
        |x| B::float_expand(x, [2, 3, 4].into()),
        B::int_expand(x, [5, 3, 1].into()),
        B::bool_expand(x, [1, 3, 2].into())
    );
}

#[test]
fn reshape_of_contiguous_transposed_and_empty() {
    all_kinds!(
        "reshape",
        [4, 6],
        |x| B::float_reshape(x, [2, 12].into()),
        B::int_reshape(x, [24].into()),
        B::bool_reshape(x, [3, 2, 4].into())
    );
    all_kinds!(
        "reshape of a transposed",
        [4, 6],
        |x| B::float_reshape(B::float_swap_dims(x, 0, 1), [8, 3].into()),
        B::int_reshape(B::int_swap_dims(x, 0, 1), [24].into()),
        B::bool_reshape(B::bool_swap_dims(x, 0, 1), [2, 12].into())
    );
    all_kinds!(
        "reshape of nothing",
        [0, 6],
        |x| B::float_reshape(x, [3, 0].into()),
        B::int_reshape(x, [0].into()),
        B::bool_reshape(x, [2, 0, 1].into())
    );
}

fn slices() -> Vec<Vec<Slice>> {
    vec![
        vec![Slice::new(1, Some(4), 1), Slice::new(0, None, 1)],
        vec![Slice::new(0, None, 2), Slice::new(1, Some(7), 3)],
        vec![Slice::new(0, None, -1), Slice::new(0, None, -2)],
        vec![Slice::new(-3, Some(-1), 1)],
        vec![Slice::new(2, Some(2), 1)],
    ]
}

#[test]
fn slice_with_steps_and_from_the_end() {
    for slices in slices() {
        all_kinds!(
            format!("slice {slices:?}"),
            [5, 7],
            |x| B::float_slice(x, &slices),
            B::int_slice(x, &slices),
            B::bool_slice(x, &slices)
        );
    }
}

#[test]
fn slice_assign_with_steps_and_from_the_end() {
    for slices in slices() {
        let part: Vec<usize> =
            [5, 7].iter().enumerate().map(|(i, &n)| slices.get(i).map_or(n, |s| s.output_size(n))).collect();
        agree!(format!("slice_assign {slices:?}"), EXACT, device => vec![
            float::<B>(B::float_slice_assign(f32s::<B>(&[5, 7], 1, device), &slices, f32s::<B>(&part, 2, device))),
            int::<B>(B::int_slice_assign(
                ints::<B>(&counted(&[5, 7]), &[5, 7], DType::I32, device),
                &slices,
                ints::<B>(&counted(&part), &part, DType::I32, device),
            )),
            bool::<B>(B::bool_slice_assign(bools::<B>(&[5, 7], 1, device), &slices, bools::<B>(&part, 2, device))),
        ]);
    }
}

#[test]
fn slice_assign_leaves_other_handles_as_they_were() {
    agree!("shared slice_assign", EXACT, device => {
        let x = f32s::<B>(&[4, 4], 1, device);
        let slices = [Slice::new(1, Some(3), 1), Slice::new(1, Some(3), 1)];
        let y = B::float_slice_assign(x.clone(), &slices, f32s::<B>(&[2, 2], 2, device));
        vec![float::<B>(x), float::<B>(y)]
    });
}

#[test]
fn cat_joins_along_any_axis_and_skips_nothing() {
    agree!("cat", EXACT, device => {
        let rows = [1_usize, 0, 3].map(|rows| f32s::<B>(&[rows, 5], rows as u64, device));
        let columns = [2_usize, 3].map(|columns| ints::<B>(&counted(&[2, columns]), &[2, columns], DType::I64, device));
        let flipped = B::bool_flip(bools::<B>(&[2, 2], 1, device), &[0]);
        vec![
            float::<B>(B::float_cat(rows.to_vec(), 0)),
            int::<B>(B::int_cat(columns.to_vec(), 1)),
            bool::<B>(B::bool_cat(vec![flipped, bools::<B>(&[2, 3], 2, device)], 1)),
        ]
    });
}

#[test]
fn repeat_an_axis() {
    all_kinds!(
        "repeat",
        [2, 3],
        |x| B::float_repeat_dim(x, 1, 3),
        B::int_repeat_dim(x, 0, 2),
        B::bool_repeat_dim(x, 1, 1)
    );
}

#[test]
fn unfold_into_overlapping_windows() {
    all_kinds!(
        "unfold",
        [3, 8],
        |x| B::float_unfold(x, 1, 3, 2),
        B::int_unfold(x, 1, 4, 1),
        B::bool_unfold(x, 0, 2, 1)
    );
    all_kinds!(
        "sum of windows",
        [3, 8],
        |x| B::float_reshape(B::float_unfold(x, 1, 3, 2), [27].into()),
        B::int_reshape(B::int_unfold(x, 0, 2, 1), [32].into()),
        B::bool_reshape(B::bool_unfold(x, 1, 8, 1), [24].into())
    );
}

#[test]
fn pad_with_every_mode() {
    for mode in [PadMode::Constant(1.5), PadMode::Reflect, PadMode::Edge] {
        agree!(format!("pad {mode:?}"), EXACT, device => vec![
            float::<B>(B::float_pad(f32s::<B>(&[3, 4], 1, device), &[(1, 2), (2, 0)], mode)),
            int::<B>(B::int_pad(ints::<B>(&counted(&[3, 4]), &[3, 4], DType::I32, device), &[(0, 1), (1, 1)], mode)),
        ]);
    }
}
