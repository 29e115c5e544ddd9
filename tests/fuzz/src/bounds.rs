//! How far off a result may be, of formulas of a framework's whose steps in between are larger than what comes out.

use rocfire_hal::DType;

use crate::data::{Data, limits, unit_roundoff};

/// For `x / 2 · (1 + f(x))` with an `f` near -1. There `f` is a multiple of half a unit, off by two of them at most, and the sum
/// is exact; below 32 bits all of it is computed in f32. The reference's own is as far off in f64.
pub(crate) fn cancelled(x: f64, dtype: DType, ours: bool) -> f64 {
    let unit = if ours { unit_roundoff(dtype).min(unit_roundoff(DType::F32)) } else { 0.0 };
    if x.is_finite() { (4.0 * unit + 8.0 * unit_roundoff(DType::F64)) * x.abs() } else { 0.0 }
}

/// For `Σ(x - m)² / (n - 1)`, `m` being the mean as the type holds it. With `m = mean + δ` the sum is larger by `n δ²`, and by
/// nothing else, since the distances from the mean itself add up to nothing. A mean is rounded as a sum, as `1/n` and as their
/// product, and its sum is off by some units of f32 besides; the reference adds up one after the other in f64. Each distance, its
/// square, the sum and the quotient are rounded relatively to what they are.
pub(crate) fn of_variance(x: &Data, got: &Data, want: &Data) -> Vec<f64> {
    let (most, least) = limits(got.dtype);
    let narrow = unit_roundoff(got.dtype);
    let accumulated = narrow.min(unit_roundoff(DType::F32));
    let mut largest = vec![0.0_f64; want.bits.len()];
    let mut sizes = vec![0.0_f64; want.bits.len()];
    for (at, number) in x.numbers().enumerate() {
        let result = kept(at, &x.shape, &want.shape);
        largest[result] = largest[result].max(number.abs());
        sizes[result] += number.abs();
    }
    let count = (x.bits.len() / want.bits.len().max(1)) as f64;
    let steps = 8.0 + 4.0 * count.sqrt();
    let one = |((want, largest), size): ((f64, f64), f64)| {
        // The sum of the elements, or that of the squares, may leave the range where the variance does not.
        if size > most / 4.0 || want * count > most / 4.0 {
            return f64::INFINITY;
        }
        let mean = (4.0 * narrow + steps * accumulated + count * unit_roundoff(DType::F64)) * largest + 4.0 * least;
        let shifted = 2.0 * mean * mean;
        shifted + (8.0 * narrow + steps * accumulated) * (want + shifted) + 8.0 * least
    };
    want.numbers().zip(largest).zip(sizes).map(one).collect()
}

/// The result that an element goes into, where extents of the result are those of the operand or 1.
fn kept(at: usize, shape: &[usize], kept: &[usize]) -> usize {
    let (mut rest, mut place, mut stride) = (at, 0, 1);
    for (&extent, &kept) in shape.iter().zip(kept).rev() {
        place += (rest % extent) % kept * stride;
        rest /= extent;
        stride *= kept;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_go_where_the_axis_is_left_out() {
        let places: Vec<usize> = (0..12).map(|at| kept(at, &[2, 3, 2], &[2, 1, 2])).collect();
        assert_eq!(places, [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]);
    }

    #[test]
    fn a_mean_rounded_to_f16_is_no_fault_and_a_wrong_variance_is_one() {
        // Seven equal numbers, whose mean is one unit off in f16.
        let x = Data::of_numbers(DType::F16, &[7, 1], [-0.7998046875; 7]);
        let got = Data::of_numbers(DType::F16, &[1, 1], [2.980232238769531e-7]);
        let want = Data::of_numbers(DType::F64, &[1, 1], [0.0]);
        let bound = of_variance(&x, &got, &want)[0];
        assert!(bound > 2.98e-7 && bound < 1e-4, "{bound}");
    }
}
