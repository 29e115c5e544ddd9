//! Integer operators.

use burn_backend::ops::IntTensorOps;
use burn_backend::{DType, Scalar};
use burn_std::{BoolDType, FloatDType, IntDType};

use crate::check::{EXACT, agree, bool, bools, float, int, ints};

const A: [i64; 8] = [7, -7, 0, 100, -100, 3, 1, -1];
const B_: [i64; 8] = [2, 2, 5, -7, 9, -3, 1, 4];

macro_rules! binary {
    ($($name:ident, $with_scalar:ident);+ $(;)?) => { $(
        #[test]
        fn $name() {
            for dtype in [DType::I32, DType::I64] {
                agree!(format!("{} {dtype:?}", stringify!($name)), EXACT, device => {
                    let a = || ints::<B>(&A, &[2, 4], dtype, device);
                    vec![
                        int::<B>(B::$name(a(), ints::<B>(&B_, &[2, 4], dtype, device))),
                        int::<B>(B::$name(a(), ints::<B>(&B_[..4], &[1, 4], dtype, device))),
                        int::<B>(B::$with_scalar(a(), Scalar::Int(3))),
                    ]
                });
            }
        }
    )+ };
}

binary! {
    int_add, int_add_scalar;
    int_sub, int_sub_scalar;
    int_mul, int_mul_scalar;
    int_div, int_div_scalar;
    int_remainder, int_remainder_scalar;
    bitwise_and, bitwise_and_scalar;
    bitwise_or, bitwise_or_scalar;
    bitwise_xor, bitwise_xor_scalar;
    bitwise_left_shift, bitwise_left_shift_scalar;
    bitwise_right_shift, bitwise_right_shift_scalar;
}

macro_rules! comparison {
    ($($name:ident, $elem:ident);+ $(;)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), EXACT, device => {
                let a = || ints::<B>(&A, &[8], DType::I32, device);
                vec![
                    bool::<B>(B::$name(a(), ints::<B>(&B_, &[8], DType::I32, device), BoolDType::Native)),
                    bool::<B>(B::$elem(a(), Scalar::Int(1), BoolDType::Native)),
                ]
            });
        }
    )+ };
}

comparison! {
    int_equal, int_equal_elem;
    int_not_equal, int_not_equal_elem;
    int_greater, int_greater_elem;
    int_greater_equal, int_greater_equal_elem;
    int_lower, int_lower_elem;
    int_lower_equal, int_lower_equal_elem;
}

#[test]
fn unary_operators() {
    agree!("unary", EXACT, device => {
        let a = || ints::<B>(&A, &[8], DType::I32, device);
        vec![
            int::<B>(B::int_neg(a())),
            int::<B>(B::int_abs(a())),
            int::<B>(B::int_sign(a())),
            int::<B>(B::bitwise_not(a())),
            int::<B>(B::int_square(a())),
            int::<B>(B::int_clamp(a(), Scalar::Int(-5), Scalar::Int(5))),
            int::<B>(B::int_clamp_min(a(), Scalar::Int(-5))),
            int::<B>(B::int_clamp_max(a(), Scalar::Int(5))),
        ]
    });
}

#[test]
fn powers_of_integers() {
    agree!("powi", EXACT, device => {
        let a = || ints::<B>(&[7, -7, 0, 2, -2, 3, 1, -1], &[8], DType::I32, device);
        let exponents = ints::<B>(&[0, 1, 2, 3, 4, 5, 6, 7], &[8], DType::I32, device);
        let mut results = vec![int::<B>(B::int_powi(a(), exponents))];
        results.extend([0, 1, 2, 3].map(|n| int::<B>(B::int_powi_scalar(a(), Scalar::Int(n)))));
        results
    });
}

#[test]
fn negative_powers_of_integers_are_their_inverses_without_the_fraction() {
    // Flex takes the exponent's bits for a large one.
    let device = &crate::check::device();
    type B = rocfire_burn::Rocm;
    for dtype in [DType::I32, DType::I64] {
        let a = || ints::<B>(&[1, -1, 2, -2, 0, 7], &[6], dtype, device);
        let odd = int::<B>(B::int_powi_scalar(a(), Scalar::Int(-3)));
        assert_eq!(crate::check::numbers(&odd), [1.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
        let even = int::<B>(B::int_powi(a(), ints::<B>(&[-2], &[1], dtype, device)));
        assert_eq!(crate::check::numbers(&even), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn means_of_integers_do_not_wrap_on_the_way() {
    let device = &crate::check::device();
    type B = rocfire_burn::Rocm;
    for (dtype, most) in [(DType::U8, 255), (DType::I8, 127), (DType::I16, 32767), (DType::I32, i64::from(i32::MAX))] {
        let mean = int::<B>(B::int_mean_dim(ints::<B>(&[most, most - 1, most - 3], &[3], dtype, device), 0));
        assert_eq!(crate::check::numbers(&mean), [(most - 2) as f64], "{dtype:?}");
    }
}

#[test]
fn narrow_and_unsigned_types_wrap_as_their_width_says() {
    for dtype in [DType::I16, DType::I8, DType::U8, DType::U16, DType::U32, DType::U64] {
        agree!(format!("{dtype:?}"), EXACT, device => {
            let a = || ints::<B>(&[100, 27, 3, 0, 90], &[5], dtype, device);
            let b = || ints::<B>(&[27, 9, 7, 5, 1], &[5], dtype, device);
            vec![
                int::<B>(B::int_add(a(), b())),
                int::<B>(B::int_div(a(), b())),
                int::<B>(B::int_remainder(a(), b())),
                bool::<B>(B::int_greater(a(), b(), BoolDType::Native)),
                int::<B>(B::bitwise_right_shift_scalar(a(), Scalar::Int(2))),
            ]
        });
    }
}

#[test]
fn division_by_zero_is_zero_and_the_least_integer_wraps() {
    let device = &crate::check::device();
    type B = rocfire_burn::Rocm;
    let a = || ints::<B>(&[5, -5, i64::from(i32::MIN)], &[3], DType::I32, device);
    let zeros = || ints::<B>(&[0, 0, -1], &[3], DType::I32, device);
    let quotient = int::<B>(B::int_div(a(), zeros()));
    assert_eq!(quotient.as_slice::<i32>().unwrap(), [0, 0, i32::MIN]);
    let rest = int::<B>(B::int_remainder(a(), zeros()));
    assert_eq!(rest.as_slice::<i32>().unwrap(), [0, 0, 0]);
}

#[test]
fn masks() {
    agree!("masks", EXACT, device => {
        let a = || ints::<B>(&A, &[2, 4], DType::I32, device);
        vec![
            int::<B>(B::int_mask_where(a(), bools::<B>(&[2, 4], 1, device), ints::<B>(&B_, &[2, 4], DType::I32, device))),
            int::<B>(B::int_mask_fill(a(), bools::<B>(&[2, 4], 1, device), Scalar::Int(42))),
        ]
    });
}

#[test]
fn creation_and_ranges() {
    agree!("creation", EXACT, device => vec![
        int::<B>(B::int_zeros([2, 3].into(), device, IntDType::I32)),
        int::<B>(B::int_ones([3].into(), device, IntDType::U8)),
        int::<B>(B::int_full([2].into(), Scalar::Int(-9), device, IntDType::I64)),
        int::<B>(B::int_arange(0..7, device, IntDType::I32)),
        int::<B>(B::int_arange_step(-5..12, 3, device, IntDType::I64)),
        int::<B>(B::int_arange(3..3, device, IntDType::I32)),
    ]);
    let device = &crate::check::device();
    let empty = rocfire_burn::Rocm::int_empty([5].into(), device, IntDType::I32);
    assert_eq!(empty.as_inner().shape(), [5]);
}

#[test]
fn casts() {
    agree!("casts", EXACT, device => {
        let a = || ints::<B>(&A, &[8], DType::I32, device);
        vec![
            int::<B>(B::int_cast(a(), IntDType::I64)),
            int::<B>(B::int_cast(a(), IntDType::I8)),
            float::<B>(B::int_into_float(a(), FloatDType::F32)),
            float::<B>(B::int_into_float(a(), FloatDType::F16)),
            float::<B>(B::int_into_float(a(), FloatDType::F64)),
        ]
    });
}
