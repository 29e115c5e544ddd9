//! The four rounding modes of MODE. A wave in the usual one, to nearest, never comes here.
//!
//! f32 and f16 results are computed in f64, exactly or rounded to odd, which leaves enough bits for one rounding in any
//! direction; f64 results in integers. A sum that is exactly zero is -0 when rounding down, unless both terms are +0.

use super::fma::{add_round_odd, fma_f64_directed};
use super::{f16_to_f32, f64_to_f16};

/// Where a value between two neighbours goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest, of two equally near to the even one.
    Nearest,
    /// Toward +infinity.
    Up,
    /// Toward -infinity.
    Down,
    /// Toward zero.
    Zero,
}

impl Rounding {
    /// From the two bits of a field of MODE.
    pub(crate) fn from_bits(bits: u32) -> Rounding {
        [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero][bits as usize & 3]
    }

    /// Which way the nearest value `near` of `exact` has to move by one place; `None` if it stays.
    fn correction(self, near: f64, exact: f64) -> Option<Direction> {
        match self {
            Rounding::Up if near < exact => Some(Direction::Up),
            Rounding::Down if near > exact => Some(Direction::Down),
            Rounding::Zero if near.abs() > exact.abs() => {
                Some(if near > 0.0 { Direction::Down } else { Direction::Up })
            }
            _ => None,
        }
    }

    /// An exact sum with the sign that a zero has; `negative` says whether either term is negative.
    fn zero(self, sum: f64, negative: bool) -> f64 {
        if sum == 0.0 && self == Rounding::Down && negative { -0.0 } else { sum }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The bits of the next float in a direction; `sign` is the sign bit of the format.
fn neighbour(bits: u32, sign: u32, direction: Direction) -> u32 {
    let negative = bits & sign != 0;
    let up = direction == Direction::Up;
    match bits & !sign {
        0 => 1 | if up { 0 } else { sign },
        _ if negative == up => bits - 1,
        _ => bits + 1,
    }
}

/// An f64 that is exact or rounded to odd, as f32.
pub(crate) fn f64_to_f32_directed(x: f64, rounding: Rounding) -> f32 {
    let near = x as f32;
    match rounding.correction(f64::from(near), x) {
        Some(direction) => f32::from_bits(neighbour(near.to_bits(), 1 << 31, direction)),
        None => near,
    }
}

/// An f64 that is exact or rounded to odd, as f16.
pub(crate) fn f64_to_f16_directed(x: f64, rounding: Rounding) -> u16 {
    let near = f64_to_f16(x);
    match rounding.correction(f64::from(f16_to_f32(near)), x) {
        Some(direction) => neighbour(near.into(), 1 << 15, direction) as u16,
        None => near,
    }
}

/// `a + b`, exact enough for [`f64_to_f32_directed`] and [`f64_to_f16_directed`] where the terms are f32 or products of two.
pub(crate) fn sum_directed(a: f64, b: f64, rounding: Rounding) -> f64 {
    rounding.zero(add_round_odd(a, b), a.is_sign_negative() || b.is_sign_negative())
}

/// `a + b` in f32.
pub(crate) fn add_f32_directed(a: f32, b: f32, rounding: Rounding) -> f32 {
    f64_to_f32_directed(sum_directed(a.into(), b.into(), rounding), rounding)
}

/// `a * b` in f32.
pub(crate) fn mul_f32_directed(a: f32, b: f32, rounding: Rounding) -> f32 {
    f64_to_f32_directed(f64::from(a) * f64::from(b), rounding)
}

/// `a * b + c` in f32.
pub(crate) fn fma_f32_directed(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    f64_to_f32_directed(sum_directed(f64::from(a) * f64::from(b), c.into(), rounding), rounding)
}

/// `a + b` in f64.
pub(crate) fn add_f64_directed(a: f64, b: f64, rounding: Rounding) -> f64 {
    fma_f64_directed(a, 1.0, b, 0, rounding)
}

/// `a * b` in f64.
pub(crate) fn mul_f64_directed(a: f64, b: f64, rounding: Rounding) -> f64 {
    // A zero of the product's sign changes nothing.
    let zero = if a.is_sign_negative() != b.is_sign_negative() { -0.0 } else { 0.0 };
    fma_f64_directed(a, b, zero, 0, rounding)
}

#[cfg(test)]
mod tests {
    use super::super::f32_to_f16;
    use super::super::tests_support::Random;
    use super::*;

    const ALL: [Rounding; 4] = [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero];

    /// Whether `got` is what `exact` rounds to, where both and the neighbours of `got` are integers in one unit.
    fn is_rounded(rounding: Rounding, exact: i128, below: i128, got: i128, above: i128, even: bool) -> bool {
        match rounding {
            Rounding::Up => below < exact && exact <= got,
            Rounding::Down => got <= exact && exact < above,
            Rounding::Zero if exact >= 0 => got <= exact && exact < above,
            Rounding::Zero => below < exact && exact <= got,
            Rounding::Nearest => {
                let near = (exact - got).abs();
                let (low, high) = ((exact - below).abs(), (above - exact).abs());
                (near < low || near == low && even) && (near < high || near == high && even)
            }
        }
    }

    /// An f32 of a few exponents around 1, and its value in units of 2^-40.
    fn near_one(random: &mut Random) -> (f32, i128) {
        let x = f32::from_bits(random.next_u32() & 0x807f_ffff | (120 + random.next_u32() % 14) << 23);
        (x, fixed(x))
    }

    /// In units of 2^-40, exact for what [`near_one`] gives and for sums of it.
    fn fixed(x: f32) -> i128 {
        (f64::from(x) * 2f64.powi(40)) as i128
    }

    fn neighbours(x: f32) -> (f32, f32) {
        let step = |direction| f32::from_bits(neighbour(x.to_bits(), 1 << 31, direction));
        (step(Direction::Down), step(Direction::Up))
    }

    #[test]
    fn f32_results_are_the_neighbour_that_the_mode_names() {
        let mut random = Random::new(21);
        for _ in 0..100_000 {
            let [(a, fa), (b, fb), (c, fc)] = std::array::from_fn(|_| near_one(&mut random));
            for rounding in ALL {
                let check = |name: &str, exact: i128, scale: u32, got: f32| {
                    if got.abs() < 1e-3 {
                        // Below the units that the neighbours are counted in.
                        return;
                    }
                    let (below, above) = neighbours(got);
                    let [below, got_fixed, above] = [below, got, above].map(|x| fixed(x) << scale);
                    let even = got.to_bits() & 1 == 0;
                    assert!(
                        is_rounded(rounding, exact, below, got_fixed, above, even),
                        "{name} {rounding:?}: {a:e} {b:e} {c:e} gave {got:e}"
                    );
                };
                check("add", fa + fb, 0, add_f32_directed(a, b, rounding));
                check("mul", fa * fb, 40, mul_f32_directed(a, b, rounding));
                check("fma", fa * fb + (fc << 40), 40, fma_f32_directed(a, b, c, rounding));
            }
        }
    }

    #[test]
    fn f64_results_are_the_neighbour_that_the_mode_names() {
        let mut random = Random::new(22);
        for _ in 0..50_000 {
            // Integers of 53 bits: products have 106, and sums of them with such an integer fit as well.
            let [a, b, c] = std::array::from_fn(|_| (random.next() >> 11) as i64 - (1 << 52));
            let [fa, fb, fc] = [a, b, c].map(|x| x as f64);
            for rounding in ALL {
                for (exact, got) in [
                    (i128::from(a) * i128::from(b), mul_f64_directed(fa, fb, rounding)),
                    (i128::from(a) * i128::from(b) + i128::from(c), fma_f64_directed(fa, fb, fc, 0, rounding)),
                    (i128::from(a) + i128::from(b), add_f64_directed(fa, fb, rounding)),
                ] {
                    let step = |by: i64| f64::from_bits((got.to_bits() as i64 + by) as u64);
                    let (mut below, mut above) = (step(-1), step(1));
                    if got < 0.0 {
                        std::mem::swap(&mut below, &mut above);
                    }
                    if got.abs() < 2f64.powi(54) {
                        // An integer that is exact; its neighbours may be halves.
                        assert_eq!(got as i128, exact);
                        continue;
                    }
                    let even = got.to_bits() & 1 == 0;
                    let rounded = is_rounded(rounding, exact, below as i128, got as i128, above as i128, even);
                    assert!(rounded, "{rounding:?}: {a} {b} {c} gave {got:e}");
                }
            }
        }
    }

    #[test]
    fn f16_results_are_the_neighbour_that_the_mode_names() {
        let mut random = Random::new(23);
        for _ in 0..100_000 {
            let x = f32::from_bits(random.next_u32() & 0x807f_ffff | (96 + random.next_u32() % 48) << 23);
            let near = f32_to_f16(x);
            for rounding in ALL {
                let got = f64_to_f16_directed(x.into(), rounding);
                let value = f64::from(f16_to_f32(got));
                let ok = match rounding {
                    Rounding::Nearest => got == near,
                    Rounding::Up => value >= f64::from(x),
                    Rounding::Down => value <= f64::from(x),
                    Rounding::Zero => value.abs() <= f64::from(x).abs(),
                };
                assert!(ok && got.abs_diff(near) <= 1, "{rounding:?}: {x:e} gave {got:#x}");
            }
        }
    }

    #[test]
    fn overflow_and_zero_follow_the_direction() {
        let max = f32::MAX;
        assert_eq!(add_f32_directed(max, max, Rounding::Up), f32::INFINITY);
        assert_eq!(add_f32_directed(max, max, Rounding::Down), max);
        assert_eq!(mul_f32_directed(-max, 2.0, Rounding::Zero), -max);
        assert_eq!(mul_f32_directed(-max, 2.0, Rounding::Down), f32::NEG_INFINITY);
        assert_eq!(add_f32_directed(f32::INFINITY, 1.0, Rounding::Zero), f32::INFINITY);
        assert_eq!(add_f32_directed(1.0, -1.0, Rounding::Down).to_bits(), 0x8000_0000);
        assert_eq!(add_f32_directed(1.0, -1.0, Rounding::Zero).to_bits(), 0);
        assert_eq!(add_f32_directed(0.0, 0.0, Rounding::Down).to_bits(), 0);
        let tiny = f32::from_bits(1);
        assert_eq!(mul_f32_directed(tiny, tiny, Rounding::Up), tiny);
        assert_eq!(mul_f32_directed(tiny, -tiny, Rounding::Up).to_bits(), 0x8000_0000);
        assert_eq!(mul_f32_directed(tiny, -tiny, Rounding::Down), -tiny);
        assert_eq!(f64_to_f16_directed(65519.0, Rounding::Up), 0x7c00);
        assert_eq!(f64_to_f16_directed(1e9, Rounding::Zero), 0x7bff);
        assert_eq!(add_f64_directed(f64::MAX, f64::MAX, Rounding::Down), f64::MAX);
        assert_eq!(add_f64_directed(1.0, -1.0, Rounding::Down).to_bits(), 1 << 63);
        assert_eq!(mul_f64_directed(f64::from_bits(1), 0.5, Rounding::Up), f64::from_bits(1));
        assert_eq!(mul_f64_directed(f64::from_bits(1), 0.5, Rounding::Zero), 0.0);
    }
}
