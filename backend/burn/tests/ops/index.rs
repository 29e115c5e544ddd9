//! Gathers, selections and their updates, by axis and by tuple, and selections by a mask.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{DType, read_sync};
use burn_std::{IndexingUpdateOp, IntDType};

use crate::check::{CLOSE, EXACT, agree, bool, bools, f32s, float, floats, indices, int, ints, rounding};
use crate::version;

const UPDATES: [IndexingUpdateOp; 5] = [
    IndexingUpdateOp::Assign,
    IndexingUpdateOp::Add,
    IndexingUpdateOp::Mul,
    IndexingUpdateOp::Min,
    IndexingUpdateOp::Max,
];

#[test]
fn gather_along_every_axis() {
    for axis in 0..3 {
        let mut shape = [3, 4, 5];
        let bound = shape[axis];
        shape[axis] = 6;
        agree!(format!("gather {axis}"), EXACT, device => {
            let at = || indices::<B>(&shape, bound, 1, device);
            vec![
                float::<B>(B::float_gather(axis, f32s::<B>(&[3, 4, 5], 2, device), at())),
                int::<B>(B::int_gather(axis, ints::<B>(&(0..60).collect::<Vec<_>>(), &[3, 4, 5], DType::I32, device), at())),
                bool::<B>(B::bool_gather(axis, bools::<B>(&[3, 4, 5], 3, device), at())),
            ]
        });
    }
}

#[test]
fn select_along_every_axis_with_either_index_type() {
    for axis in 0..3 {
        let bound = [3, 4, 5][axis];
        agree!(format!("select {axis}"), EXACT, device => {
            let at = || indices::<B>(&[7], bound, 1, device);
            let narrow = || B::int_cast(at(), IntDType::I32);
            vec![
                float::<B>(B::float_select(f32s::<B>(&[3, 4, 5], 2, device), axis, at())),
                float::<B>(B::float_select(f32s::<B>(&[3, 4, 5], 2, device), axis, narrow())),
                int::<B>(B::int_select(ints::<B>(&(0..60).collect::<Vec<_>>(), &[3, 4, 5], DType::I64, device), axis, at())),
                bool::<B>(B::bool_select(bools::<B>(&[3, 4, 5], 3, device), axis, at())),
                float::<B>(B::float_select(f32s::<B>(&[3, 4, 5], 2, device), axis, indices::<B>(&[0], bound, 1, device))),
            ]
        });
    }
}

#[test]
fn scatter_with_every_update_in_order_of_the_index() {
    for update in UPDATES {
        for axis in 0..2 {
            let mut shape = [4, 5];
            let bound = shape[axis];
            shape[axis] = 7;
            agree!(format!("scatter {update:?} {axis}"), CLOSE, device => {
                let at = || indices::<B>(&shape, bound, 1, device);
                let numbers = || ints::<B>(&(0..20).collect::<Vec<_>>(), &[4, 5], DType::I32, device);
                let count = shape.iter().product::<usize>() as i64;
                let news = ints::<B>(&(1..=count).collect::<Vec<_>>(), &shape, DType::I32, device);
                vec![
                    float::<B>(B::float_scatter(axis, f32s::<B>(&[4, 5], 2, device), at(), f32s::<B>(&shape, 3, device), update)),
                    int::<B>(B::int_scatter(axis, numbers(), at(), news, update)),
                ]
            });
        }
    }
}

#[test]
fn select_assign_with_every_update_in_order_of_the_index() {
    for update in UPDATES {
        for axis in 0..2 {
            let mut shape = [4, 5];
            let bound = shape[axis];
            shape[axis] = 6;
            agree!(format!("select_assign {update:?} {axis}"), CLOSE, device => {
                let at = || indices::<B>(&[6], bound, 1, device);
                let numbers = || ints::<B>(&(0..20).collect::<Vec<_>>(), &[4, 5], DType::I64, device);
                let count = shape.iter().product::<usize>() as i64;
                let news = ints::<B>(&(1..=count).collect::<Vec<_>>(), &shape, DType::I64, device);
                vec![
                    float::<B>(B::float_select_assign(f32s::<B>(&[4, 5], 2, device), axis, at(), f32s::<B>(&shape, 3, device), update)),
                    int::<B>(B::int_select_assign(numbers(), axis, at(), news, update)),
                ]
            });
        }
    }
}

#[test]
fn updates_in_sixteen_bits() {
    for dtype in [DType::F16, DType::BF16] {
        agree!(format!("{dtype:?}"), rounding(dtype), device => {
            let at = indices::<B>(&[6], 4, 1, device);
            let x = floats::<B>(&[4, 5], dtype, 2, device);
            vec![float::<B>(B::float_select_assign(x, 0, at, floats::<B>(&[6, 5], dtype, 3, device), IndexingUpdateOp::Add))]
        });
    }
}

#[test]
fn bool_updates_are_an_or() {
    agree!("or", EXACT, device => vec![
        bool::<B>(version::bool_scatter_or::<B>(1, bools::<B>(&[3, 4], 1, device), indices::<B>(&[3, 6], 4, 2, device), bools::<B>(&[3, 6], 3, device))),
        bool::<B>(version::bool_select_or::<B>(bools::<B>(&[3, 4], 1, device), 0, indices::<B>(&[5], 3, 2, device), bools::<B>(&[5, 4], 3, device))),
    ]);
}

#[test]
fn gather_and_scatter_by_tuples() {
    let tuples = [0, 1, 2, 3, 2, 0, 1, 1, 0, 1];
    agree!("gather_nd", EXACT, device => {
        let at = || ints::<B>(&tuples, &[5, 2], DType::I64, device);
        vec![
            float::<B>(B::float_gather_nd(f32s::<B>(&[3, 4, 2], 1, device), at())),
            int::<B>(B::int_gather_nd(ints::<B>(&(0..12).collect::<Vec<_>>(), &[3, 4], DType::I32, device), at())),
            float::<B>(B::float_gather_nd(f32s::<B>(&[4, 3], 1, device), ints::<B>(&[3, 0, 1, 2], &[2, 2, 1], DType::I32, device))),
        ]
    });
    for update in UPDATES {
        agree!(format!("scatter_nd {update:?}"), CLOSE, device => {
            let at = || ints::<B>(&tuples, &[5, 2], DType::I64, device);
            let news = ints::<B>(&[9, 8, 7, 6, 5], &[5], DType::I32, device);
            vec![
                float::<B>(B::float_scatter_nd(f32s::<B>(&[3, 4, 2], 1, device), at(), f32s::<B>(&[5, 2], 2, device), update)),
                int::<B>(B::int_scatter_nd(ints::<B>(&(0..12).collect::<Vec<_>>(), &[3, 4], DType::I32, device), at(), news, update)),
            ]
        });
    }
}

#[test]
fn selections_by_a_mask() {
    agree!("mask_select", EXACT, device => {
        let mask = || bools::<B>(&[4, 5], 1, device);
        vec![
            float::<B>(read_sync(B::float_mask_select(f32s::<B>(&[4, 5], 2, device), mask()))),
            int::<B>(read_sync(B::int_mask_select(ints::<B>(&(0..20).collect::<Vec<_>>(), &[4, 5], DType::I32, device), mask()))),
            bool::<B>(read_sync(B::bool_mask_select(bools::<B>(&[4, 5], 3, device), mask()))),
            int::<B>(read_sync(B::bool_argwhere(mask(), IntDType::I32))),
        ]
    });
}
