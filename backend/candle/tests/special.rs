//! NaN, infinities and zeros of either sign through what compares numbers, on Candle's CPU device and on ours.

mod common;

use candle_core::DType::{BF16, F16, F32, F64};
use candle_core::{D, DType, Result, Tensor};
use common::agree;

const FLOATS: [DType; 4] = [F32, F64, F16, BF16];
const SPECIAL: [f64; 9] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, 65504.0, 1e-7];

type Extreme = fn(&Tensor, &Tensor) -> Result<Tensor>;
type Reduction = fn(&Tensor, D) -> Result<Tensor>;

#[test]
fn the_greater_and_the_lesser_of_each_with_each() {
    for dtype in FLOATS {
        for (name, operator) in [("maximum", (|x, y| x.maximum(y)) as Extreme), ("minimum", |x, y| x.minimum(y))] {
            // NaN on the left, on the right and on both sides.
            agree(&format!("{name} {dtype:?}"), |inputs| {
                let x = inputs.values(&SPECIAL, dtype)?;
                let all = (SPECIAL.len(), SPECIAL.len());
                operator(&x.unsqueeze(1)?.broadcast_as(all)?, &x.unsqueeze(0)?.broadcast_as(all)?)
            });
        }
        agree(&format!("clamp {dtype:?}"), |inputs| inputs.values(&SPECIAL, dtype)?.clamp(-0.5, 2.0));
        agree(&format!("relu {dtype:?}"), |inputs| inputs.values(&SPECIAL, dtype)?.relu());
    }
}

#[test]
fn extremes_of_lines_in_which_a_nan_moves_through_every_place() {
    for dtype in FLOATS {
        for (name, operator) in [
            ("max", Tensor::max::<D> as Reduction),
            ("min", Tensor::min::<D>),
            ("argmax", Tensor::argmax::<D>),
            ("argmin", Tensor::argmin::<D>),
        ] {
            let line = |row: usize| (0..9).map(move |column| SPECIAL[(9 + column - row) % 9]);
            let lines: Vec<f64> = (0..9).flat_map(line).collect();
            agree(&format!("{name} {dtype:?}"), |inputs| {
                operator(&inputs.values(&lines, dtype)?.reshape((9, 9))?, D::Minus1)
            });
            agree(&format!("{name} of columns {dtype:?}"), |inputs| {
                operator(&inputs.values(&lines, dtype)?.reshape((9, 9))?.t()?, D::Minus1)
            });
        }
    }
}

#[test]
fn a_nan_in_every_place_of_a_pooled_window() {
    for dtype in FLOATS {
        // Rows of any length, and such as are whole vectors of every type.
        for (rows, columns, window, step) in [(6, 6, 3, 2), (3, 16, 3, 2), (4, 16, 2, 2)] {
            for place in 0..rows * columns {
                agree(&format!("max_pool2d {dtype:?}, NaN at {place} of {rows} x {columns}"), |inputs| {
                    let numbers = (0..rows * columns).map(|at| (at * 7 % 11) as f64);
                    let mut image: Vec<f64> = numbers.collect();
                    image[place] = f64::NAN;
                    let image = inputs.values(&image, dtype)?.reshape((1, 1, rows, columns))?;
                    image.max_pool2d_with_stride(window, step)
                });
            }
        }
    }
}

#[test]
fn chains_of_extremes_are_those_of_the_kernels_one_by_one() {
    for dtype in FLOATS {
        // Often enough that the chain becomes one kernel.
        for _ in 0..4 {
            agree(&format!("a chain of extremes {dtype:?}"), |inputs| {
                let x = inputs.values(&SPECIAL, dtype)?;
                (x.clamp(-0.5, 2.0)? * 2.0)?.minimum(&x)?.maximum(&x.flip(&[0])?)?.relu()?.neg()
            });
        }
    }
}

#[test]
fn elu_of_zeros_of_either_sign_with_any_slope() {
    for dtype in FLOATS {
        for alpha in [1.0, -0.5, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            agree(&format!("elu {dtype:?} {alpha}"), |inputs| inputs.values(&SPECIAL, dtype)?.elu(alpha));
        }
    }
}
