//! Float and bool operators, element by element.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{DType, Scalar};
use burn_std::{BoolDType, FloatDType, IntDType};

use crate::check::{CLOSE, EXACT, agree, bool, bools, f32s, float, floats, given, int, ints, rounding};

/// Numbers where functions have edges.
const SPECIAL: [f32; 12] =
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-30];

macro_rules! unary {
    ($($name:ident),+ $(,)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), CLOSE, device => vec![
                float::<B>(B::$name(f32s::<B>(&[3, 7], 1, device))),
                float::<B>(B::$name(given::<B>(&SPECIAL, &[12], DType::F32, device))),
                float::<B>(B::$name(f32s::<B>(&[0, 2], 1, device))),
            ]);
        }
    )+ };
}

unary! {
    float_neg, float_recip, float_exp, float_log, float_log1p, float_sqrt, float_abs, float_cos, float_sin, float_tan,
    float_cosh, float_sinh, float_tanh, float_acos, float_acosh, float_asin, float_asinh, float_atan, float_atanh,
    float_round, float_floor, float_ceil, float_trunc, float_erf, float_sign,
}

macro_rules! binary {
    ($($name:ident),+ $(,)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), CLOSE, device => {
                let column = || f32s::<B>(&[5, 1], 3, device);
                let transposed = B::float_swap_dims(f32s::<B>(&[7, 5], 4, device), 0, 1);
                vec![
                    float::<B>(B::$name(f32s::<B>(&[5, 7], 2, device), f32s::<B>(&[5, 7], 9, device))),
                    float::<B>(B::$name(transposed, column())),
                    float::<B>(B::$name(column(), f32s::<B>(&[1, 7], 5, device))),
                ]
            });
        }
    )+ };
}

binary! {
    float_add, float_sub, float_mul, float_div, float_remainder, float_powf, float_atan2, float_hypot,
}

macro_rules! with_scalar {
    ($($name:ident),+ $(,)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), CLOSE, device => vec![
                float::<B>(B::$name(f32s::<B>(&[2, 11], 6, device), Scalar::Float(0.75))),
                float::<B>(B::$name(f32s::<B>(&[2, 11], 7, device), Scalar::Int(-3))),
            ]);
        }
    )+ };
}

with_scalar! {
    float_add_scalar, float_sub_scalar, float_mul_scalar, float_div_scalar, float_remainder_scalar,
    float_powf_scalar, float_clamp_min, float_clamp_max,
}

macro_rules! comparison {
    ($($name:ident, $elem:ident);+ $(;)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), EXACT, device => {
                let special = || given::<B>(&SPECIAL, &[12], DType::F32, device);
                let across = B::float_swap_dims(B::float_reshape(special(), [1, 12].into()), 0, 1);
                vec![
                    bool::<B>(B::$name(across, B::float_reshape(special(), [1, 12].into()), BoolDType::Native)),
                    bool::<B>(B::$elem(special(), Scalar::Float(0.5), BoolDType::Native)),
                ]
            });
        }
    )+ };
}

comparison! {
    float_equal, float_equal_elem;
    float_not_equal, float_not_equal_elem;
    float_greater, float_greater_elem;
    float_greater_equal, float_greater_equal_elem;
    float_lower, float_lower_elem;
    float_lower_equal, float_lower_equal_elem;
}

#[test]
fn every_float_type_is_computed_and_rounded() {
    for dtype in [DType::F64, DType::F16, DType::BF16] {
        agree!(format!("{dtype:?}"), rounding(dtype), device => {
            let [a, b] = [1, 2].map(|seed| floats::<B>(&[3, 5], dtype, seed, device));
            vec![
                float::<B>(B::float_add(a.clone(), b.clone())),
                float::<B>(B::float_div(a.clone(), b)),
                float::<B>(B::float_exp(a.clone())),
                float::<B>(B::float_mul_scalar(a, Scalar::Float(1.5))),
            ]
        });
    }
}

#[test]
fn float_powi_takes_every_shortcut() {
    for exponent in [0, 1, 2, 3, -1, -2, -3] {
        agree!(format!("powi {exponent}"), CLOSE, device => {
            let x = B::float_add_scalar(f32s::<B>(&[9], 8, device), Scalar::Float(2.5));
            let exponents = ints::<B>(&[exponent; 9], &[9], DType::I32, device);
            vec![
                float::<B>(B::float_powi_scalar(x.clone(), Scalar::Int(exponent))),
                float::<B>(B::float_powi(x, exponents)),
            ]
        });
    }
}

#[test]
fn float_clamp_holds_between_and_keeps_nan() {
    agree!("clamp", EXACT, device => {
        let x = given::<B>(&SPECIAL, &[12], DType::F32, device);
        vec![float::<B>(B::float_clamp(x, Scalar::Float(-0.5), Scalar::Float(1.25)))]
    });
}

#[test]
fn float_tests_for_nan_and_infinity() {
    agree!("is_nan, is_inf", EXACT, device => {
        let x = || given::<B>(&SPECIAL, &[12], DType::F32, device);
        vec![bool::<B>(B::float_is_nan(x(), BoolDType::Native)), bool::<B>(B::float_is_inf(x(), BoolDType::Native))]
    });
}

#[test]
fn masks_select_and_fill_with_broadcast() {
    agree!("masks", EXACT, device => {
        let x = || f32s::<B>(&[4, 5], 1, device);
        let mask = || bools::<B>(&[4, 5], 2, device);
        let row = B::bool_expand(bools::<B>(&[1, 5], 3, device), [4, 5].into());
        let [a, b] = [4, 5].map(|seed| bools::<B>(&[4, 5], seed, device));
        vec![
            float::<B>(B::float_mask_where(x(), mask(), f32s::<B>(&[4, 5], 6, device))),
            float::<B>(B::float_mask_fill(x(), row, Scalar::Float(f64::NEG_INFINITY))),
            bool::<B>(B::bool_mask_where(a.clone(), mask(), b)),
            bool::<B>(B::bool_mask_fill(a, mask(), Scalar::Bool(true))),
        ]
    });
}

#[test]
fn float_cross_along_any_axis() {
    agree!("cross", CLOSE, device => vec![
        float::<B>(B::float_cross(f32s::<B>(&[2, 3], 1, device), f32s::<B>(&[2, 3], 2, device), 1)),
        float::<B>(B::float_cross(f32s::<B>(&[3, 4], 1, device), f32s::<B>(&[3, 4], 2, device), 0)),
    ]);
}

#[test]
fn float_creation() {
    agree!("creation", EXACT, device => {
        let shape = || [2, 3].into();
        vec![
            float::<B>(B::float_zeros(shape(), device, FloatDType::F32)),
            float::<B>(B::float_ones(shape(), device, FloatDType::F16)),
            float::<B>(B::float_full(shape(), Scalar::Float(-1.75), device, FloatDType::BF16)),
            float::<B>(B::float_full([0, 3].into(), Scalar::Int(7), device, FloatDType::F64)),
        ]
    });
    let device = &crate::check::device();
    let empty = rocfire_burn::Rocm::float_empty([2, 3].into(), device, FloatDType::F32);
    assert_eq!(empty.as_inner().shape(), [2, 3]);
}

#[test]
fn float_casts_between_all_kinds() {
    let integers = [IntDType::I64, IntDType::I32, IntDType::I16, IntDType::I8, IntDType::U64, IntDType::U32];
    for dtype in integers.into_iter().chain([IntDType::U16, IntDType::U8]) {
        agree!(format!("into {dtype:?}"), EXACT, device => {
            let x = given::<B>(&[0.0, 1.9, 100.5, 3.0, 77.99], &[5], DType::F32, device);
            vec![int::<B>(B::float_into_int(x, dtype))]
        });
    }
    for dtype in [FloatDType::F64, FloatDType::F16, FloatDType::BF16] {
        agree!(format!("cast to {dtype:?}"), EXACT, device => {
            let wide = B::float_cast(f32s::<B>(&[3, 5], 4, device), dtype);
            vec![float::<B>(wide.clone()), float::<B>(B::float_cast(wide, FloatDType::F32))]
        });
    }
}

#[test]
fn bool_logic_and_conversions() {
    agree!("bool", EXACT, device => {
        let [a, b] = [1, 2].map(|seed| bools::<B>(&[3, 5], seed, device));
        let row = bools::<B>(&[1, 5], 3, device);
        vec![
            bool::<B>(B::bool_not(a.clone())),
            bool::<B>(B::bool_and(a.clone(), row.clone())),
            bool::<B>(B::bool_or(a.clone(), b.clone())),
            bool::<B>(B::bool_xor(a.clone(), row)),
            bool::<B>(B::bool_equal(a.clone(), b.clone())),
            bool::<B>(B::bool_not_equal(a.clone(), b)),
            bool::<B>(B::bool_equal_elem(a.clone(), Scalar::Bool(true))),
            bool::<B>(B::bool_not_equal_elem(a.clone(), Scalar::Bool(true))),
            int::<B>(B::bool_into_int(a.clone(), IntDType::I32)),
            float::<B>(B::bool_into_float(a, FloatDType::F32)),
            bool::<B>(B::bool_zeros([2, 2].into(), device, BoolDType::Native)),
            bool::<B>(B::bool_ones([2, 2].into(), device, BoolDType::Native)),
        ]
    });
    let device = &crate::check::device();
    let empty = rocfire_burn::Rocm::bool_empty([4].into(), device, BoolDType::Native);
    assert_eq!(empty.as_inner().shape(), [4]);
}

#[test]
fn tensors_go_to_their_own_device_as_they_are() {
    agree!("to_device", EXACT, device => vec![
        float::<B>(B::float_to_device(f32s::<B>(&[3], 1, device), device)),
        int::<B>(B::int_to_device(ints::<B>(&[1, 2], &[2], DType::I32, device), device)),
        bool::<B>(B::bool_to_device(bools::<B>(&[3], 1, device), device)),
    ]);
}
