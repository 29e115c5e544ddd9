//! How far from its oracle a result may be: one number per dtype, in one place.

use rocfire_hal::DType;

use crate::data::NUDGE;

/// The largest normalised mean squared error that is taken for rounding, for results that sum up `terms` terms each.
///
/// In units of the dtype's squared unit roundoff u²: 16 for rounding operands, a function that is right to two units in
/// the last place, and the store; and a sixth of the terms, which is what adding up terms of random sign one after
/// the other comes to (each of n additions rounds a partial sum of mean square k·σ², so u²/3 · n²/2 · σ² against n·σ²).
/// 16-bit floats are summed in f32 and need no such share; of f64 the oracle adds up in f64 as well, so there are two.
/// Integers and bool are exact.
pub fn most_nmse(dtype: DType, terms: usize) -> f64 {
    most(dtype, terms, 1.0)
}

/// The same for so few `numbers` that the mean square of their errors is not near what it is expected to be.
///
/// The share of adding up is an expectation. The sum of m squares of normal errors is larger than m by a factor that one draw in ten
/// million exceeds: with Wilson's and Hilferty's approximation of χ² (1931), (1 - 2/9m + 5.2 · √(2/9m))³, 34 for one number
/// and 2.9 for 32.
pub fn most_nmse_of_few(dtype: DType, terms: usize, numbers: usize) -> f64 {
    let ninth = 2.0 / (9.0 * numbers.max(1) as f64);
    most(dtype, terms, (1.0 - ninth + 5.2 * ninth.sqrt()).powi(3))
}

fn most(dtype: DType, terms: usize, unlucky: f64) -> f64 {
    let (unit_roundoff_log2, terms) = match dtype {
        DType::F64 => (-53, 2 * terms),
        DType::F32 => (-24, terms),
        DType::F16 => (-11, 0),
        DType::BF16 => (-8, 0),
        _ => return 0.0,
    };
    (16.0 + unlucky * terms as f64 / 6.0) * 2.0_f64.powi(2 * unit_roundoff_log2)
}

/// The distance of a result from its oracle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Σ(got − want)² ÷ Σwant², over the elements that are finite in both.
    pub nmse: f64,
    /// Elements where one is NaN or infinite and the other is not the same.
    pub unlike: usize,
    /// The element with the largest error of those that are finite in both: its place, what it is and what it should be.
    pub furthest: (usize, f64, f64),
}

impl Distance {
    /// Measures; the lengths must agree.
    pub fn between(got: &[f64], want: &[f64]) -> Distance {
        assert_eq!(got.len(), want.len(), "a result has as many elements as its oracle");
        let (mut error, mut size, mut unlike, mut furthest) = (0.0, 0.0, 0, (0, 0.0, 0.0));
        for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
            if got.is_finite() && want.is_finite() {
                if (got - want).abs() > f64::abs(furthest.1 - furthest.2) {
                    furthest = (i, got, want);
                }
                error += (got - want) * (got - want);
                size += want * want;
            } else if !(got == want || got.is_nan() && want.is_nan()) {
                unlike += 1;
            }
        }
        Distance { nmse: share(error, size), unlike, furthest }
    }

    /// Measures few results by their terms, which may have cancelled: `moved` is what the oracle makes of inputs each of which is off
    /// by `NUDGE` of itself, up or down as the pattern says. The squares of the changes, in units of that, are what the squares of
    /// the terms add up to, in the mean of all patterns; where none cancel, results themselves may be larger.
    ///
    /// Of a few patterns the one in the middle counts, since an oracle that rounds jumps now and then; of one result, the square
    /// of the change is 0.45 of its mean as often as not (χ² of 1), which is made up for.
    pub fn of_terms(got: &[f64], want: &[f64], moved: impl Fn(u64) -> Vec<f64>) -> Distance {
        let squares = |of: &[f64], scale: f64| -> f64 {
            let pairs = of.iter().zip(want).filter(|(a, b)| a.is_finite() && b.is_finite());
            pairs.map(|(a, b)| ((a - b) / scale).powi(2)).sum()
        };
        let mut terms: Vec<f64> = (0..PATTERNS).map(|pattern| squares(&moved(pattern), NUDGE)).collect();
        terms.sort_by(f64::total_cmp);
        let results = squares(&vec![0.0; want.len()], 1.0);
        let size = results.max(terms[terms.len() / 2] / 0.45);
        Distance { nmse: share(squares(got, 1.0), size), ..Distance::between(got, want) }
    }
}

/// How many inputs nearby [`Distance::of_terms`] looks at.
pub(crate) const PATTERNS: u64 = 9;

fn share(error: f64, size: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / size.max(f64::MIN_POSITIVE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_cancels_is_measured_by_its_terms() {
        use crate::data::Array;
        let terms = Array::new(&[5], DType::F32, vec![1.0, 2.0, 3.0, -1.5, -4.5]);
        let sum = |array: &Array| vec![array.values.iter().sum::<f64>()];
        let off = |error: f64| {
            let distance = Distance::of_terms(&[error], &sum(&terms), |pattern| sum(&terms.nudged(pattern)));
            distance.nmse / most_nmse_of_few(DType::F32, 5, 1)
        };
        let unit = 2.0_f64.powi(-24);
        assert!(off(2.0 * unit) < 1.0, "what rounding makes of it");
        assert!(off(256.0 * unit) > 1.0, "more than that");
    }

    #[test]
    fn nan_where_a_number_should_be_is_seen() {
        assert_eq!(Distance::between(&[f64::NAN], &[1.0]).unlike, 1);
        assert_eq!(Distance::between(&[f64::NAN], &[f64::NAN]).unlike, 0);
        assert_eq!(Distance::between(&[f64::INFINITY], &[f64::NEG_INFINITY]).unlike, 1);
    }

    #[test]
    fn an_error_against_zeros_is_not_small() {
        assert!(Distance::between(&[1e-3], &[0.0]).nmse > 1.0);
        assert_eq!(Distance::between(&[0.0], &[0.0]).nmse, 0.0);
    }
}
