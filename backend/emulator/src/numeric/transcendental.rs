//! Reciprocal, roots, exponential, logarithm, sine and cosine: our own, the same bits on every host.
//!
//! f32 and f16 results are computed in f64 by `+ - * /` and square root alone and rounded at the end. So they are within 0.51 ulp of
//! the exact value; AMD documents 1 ulp for f32 and 0.51 for f16.
//!
//! Denormals are as AMD documents. The f32 forms of `rcp`, `rsq`, `sqrt`, `exp` and `log` flush sources and results in every mode, the
//! f64 forms flush too, and the f16 forms never do. `sin` and `cos` take turns, not radians.
//!
//! Nothing branches, so that loops over lanes become vector code.

use super::{f16_to_f32, f64_to_f16, flush_f32, flush_f64};

#[inline(always)]
fn flushed(x: f32) -> f32 {
    f32::from_bits(flush_f32(x.to_bits()))
}

#[inline(always)]
fn flushed_f64(x: f64) -> f64 {
    f64::from_bits(flush_f64(x.to_bits()))
}

/// `1 / x`.
#[inline(always)]
pub(crate) fn rcp_f32(x: f32) -> f32 {
    flushed(1.0 / flushed(x))
}

/// `√x`.
#[inline(always)]
pub(crate) fn sqrt_f32(x: f32) -> f32 {
    flushed(x).sqrt()
}

/// `1 / √x`.
#[inline(always)]
pub(crate) fn rsq_f32(x: f32) -> f32 {
    (1.0 / (flushed(x) as f64).sqrt()) as f32
}

/// `2^x`.
#[inline(always)]
pub(crate) fn exp2_f32(x: f32) -> f32 {
    flushed(exp2(flushed(x) as f64) as f32)
}

/// Base-2 logarithm.
#[inline(always)]
pub(crate) fn log2_f32(x: f32) -> f32 {
    log2(flushed(x) as f64) as f32
}

/// `sin(2πx)`; 0 outside ±256.
#[inline(always)]
pub(crate) fn sin_f32(x: f32) -> f32 {
    sin_turns(x as f64) as f32
}

/// `cos(2πx)`; 1 outside ±256.
#[inline(always)]
pub(crate) fn cos_f32(x: f32) -> f32 {
    cos_turns(x as f64) as f32
}

/// `1 / x`.
#[inline(always)]
pub(crate) fn rcp_f64(x: f64) -> f64 {
    flushed_f64(1.0 / flushed_f64(x))
}

/// `√x`.
#[inline(always)]
pub(crate) fn sqrt_f64(x: f64) -> f64 {
    flushed_f64(x).sqrt()
}

/// `1 / √x`.
#[inline(always)]
pub(crate) fn rsq_f64(x: f64) -> f64 {
    1.0 / flushed_f64(x).sqrt()
}

macro_rules! half_precision {
    ($($(#[$doc:meta])* $name:ident = $function:expr;)*) => {
        $($(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(x: u16) -> u16 {
            let f: fn(f64) -> f64 = $function;
            f64_to_f16(f(f16_to_f32(x) as f64))
        })*
    };
}

half_precision! {
    /// `1 / x`.
    rcp_f16 = |x| 1.0 / x;
    /// `√x`.
    sqrt_f16 = |x| x.sqrt();
    /// `1 / √x`.
    rsq_f16 = |x| 1.0 / x.sqrt();
    /// `2^x`.
    exp2_f16 = exp2;
    /// Base-2 logarithm.
    log2_f16 = log2;
    /// `sin(2πx)`; 0 outside ±256.
    sin_f16 = sin_turns;
    /// `cos(2πx)`; 1 outside ±256.
    cos_f16 = cos_turns;
}

/// Adding and subtracting it rounds an f64 below 2^51 to an integer, which stands in the sum's low bits.
const TO_INTEGER: f64 = 6755399441055744.0;

/// `2^x`, relative error below 2^-31 (the Taylor series of degree 8 on ±1/2 leaves 2e-10).
#[inline(always)]
fn exp2(x: f64) -> f64 {
    // Beyond ±1000 every f32 result is infinite or zero already.
    let clamped = if x > 1000.0 { 1000.0 } else { x };
    let clamped = if clamped < -1000.0 { -1000.0 } else { clamped };
    let shifted = clamped + TO_INTEGER;
    let f = (clamped - (shifted - TO_INTEGER)) * std::f64::consts::LN_2;
    let f2 = f * f;
    let low = (1.0 + f) + f2 * (0.5 + f * (1.0 / 6.0));
    let high = (1.0 / 24.0 + f * (1.0 / 120.0)) + f2 * (1.0 / 720.0 + f * (1.0 / 5040.0) + f2 * (1.0 / 40320.0));
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let value = (low + f2 * f2 * high) * scale;
    let value = if x > 1000.0 { f64::INFINITY } else { value };
    if !x.is_nan() { value } else { x }
}

/// Base-2 logarithm of a normal f64, ±0, infinity or NaN, relative error below 2^-33.
#[inline(always)]
fn log2(x: f64) -> f64 {
    // The mantissa in [√½, √2): subtracting √½'s bits makes the exponent field of the difference the exponent wanted.
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let difference = x.to_bits().wrapping_sub(SQRT_HALF);
    let exponent = (difference as i64 >> 52) as i32 as f64;
    let m = f64::from_bits((difference & ((1 << 52) - 1)).wrapping_add(SQRT_HALF));
    // log2(m) = 2/ln 2 · atanh(s), |s| < 0.172: the series to s^13 leaves s^15/15 < 3e-13.
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let s4 = s2 * s2;
    let series = (1.0 + s2 * (1.0 / 3.0))
        + s4 * ((1.0 / 5.0 + s2 * (1.0 / 7.0)) + s4 * (1.0 / 9.0 + s2 * (1.0 / 11.0) + s4 * (1.0 / 13.0)));
    let value = exponent + s * series * (2.0 * std::f64::consts::LOG2_E);
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x < 0.0 || x.is_nan() { f64::NAN } else { value }
}

/// Quarter turns, and sine and cosine of what is left (at most an eighth of a turn).
#[inline(always)]
fn reduced(x: f64) -> (u64, f64, f64) {
    // Four times x is below 2^51 in the valid domain, where the reduction is exact.
    let shifted = x * 4.0 + TO_INTEGER;
    let angle = (x - (shifted - TO_INTEGER) * 0.25) * std::f64::consts::TAU;
    let a2 = angle * angle;
    let sin = angle
        * (1.0
            + a2 * (-1.0 / 6.0
                + a2 * (1.0 / 120.0 + a2 * (-1.0 / 5040.0 + a2 * (1.0 / 362880.0 + a2 * (-1.0 / 39916800.0))))));
    let cos = 1.0
        + a2 * (-0.5
            + a2 * (1.0 / 24.0
                + a2 * (-1.0 / 720.0 + a2 * (1.0 / 40320.0 + a2 * (-1.0 / 3628800.0 + a2 * (1.0 / 479001600.0))))));
    (shifted.to_bits(), sin, cos)
}

#[inline(always)]
fn sin_turns(x: f64) -> f64 {
    let (quarter, sin, cos) = reduced(x);
    let value = if quarter & 1 != 0 { cos } else { sin };
    let value = if quarter & 2 != 0 { -value } else { value };
    // A whole number of turns keeps the sign of zero that x = 0 has and is +0 otherwise.
    let value = if value == 0.0 { x * 0.0 } else { value };
    outside(x, value, 0.0)
}

#[inline(always)]
fn cos_turns(x: f64) -> f64 {
    let (quarter, sin, cos) = reduced(x);
    let value = if quarter & 1 != 0 { sin } else { cos };
    let value = if (quarter + 1) & 2 != 0 { -value } else { value };
    // A quarter turn is +0 whichever side it came from.
    outside(x, value + 0.0, 1.0)
}

/// `value` in the valid domain, `far` outside; NaN for infinities and NaN.
#[inline(always)]
fn outside(x: f64, value: f64, far: f64) -> f64 {
    let value = if x.abs() > 256.0 { far } else { value };
    if x.abs() < f64::INFINITY { value } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::super::f32_to_f16;
    use super::super::tests_support::Random;
    use super::*;

    /// Distance of `got` from the f64 `want` in units of the last place of f32 at `want`.
    fn ulps(got: f32, want: f64) -> f64 {
        let near = want as f32;
        let ulp = (f32::from_bits((near.to_bits() & 0x7f80_0000).max(0x0080_0000)) as f64) * 2f64.powi(-23);
        (got as f64 - want).abs() / ulp
    }

    fn worst(f: fn(f32) -> f32, want: fn(f64) -> f64, inputs: impl Fn(&mut Random) -> f32) -> f64 {
        let mut random = Random::new(7);
        let mut worst = 0f64;
        for _ in 0..200_000 {
            let x = inputs(&mut random);
            let exact = want(x as f64);
            if exact.abs() >= f32::MIN_POSITIVE as f64 && exact.abs() < f32::MAX as f64 {
                worst = worst.max(ulps(f(x), exact));
            }
        }
        worst
    }

    #[test]
    fn f32_functions_stay_within_half_an_ulp_and_a_bit() {
        let positive = |r: &mut Random| f32::from_bits(r.next_u32() % 0x7f00_0000 + 0x0080_0000);
        let around_zero = |r: &mut Random| (r.next_u32() as i32 as f32) * 2f32.powi(-24);
        let near_one = |r: &mut Random| f32::from_bits(0x3f80_0000 - 0x1000 + r.next_u32() % 0x2000);
        let turns = |r: &mut Random| (r.next_u32() as i32 as f32) * 2f32.powi(-24 - (r.next_u32() % 8) as i32);
        assert!(worst(exp2_f32, f64::exp2, around_zero) < 0.51);
        assert!(worst(log2_f32, f64::log2, positive) < 0.51);
        assert!(worst(log2_f32, f64::log2, near_one) < 0.51);
        assert!(worst(rsq_f32, |x| 1.0 / x.sqrt(), positive) < 0.51);
        assert!(worst(rcp_f32, |x| 1.0 / x, positive) < 0.51);
        assert!(worst(sqrt_f32, f64::sqrt, positive) < 0.51);
        let sin = |x: f64| ((x - x.round()) * std::f64::consts::TAU).sin();
        assert!(worst(sin_f32, sin, turns) < 0.51);
        // The cosine near a quarter turn as a sine, so that the reference does not cancel.
        let cos = |x: f64| {
            let q = (x.abs() - x.abs().round()).abs();
            ((0.25 - q) * std::f64::consts::TAU).sin()
        };
        assert!(worst(cos_f32, cos, turns) < 0.51);
    }

    #[test]
    fn special_values_follow_the_isa() {
        let denormal = f32::from_bits(0x007f_ffff);
        assert_eq!(rcp_f32(denormal), f32::INFINITY);
        assert_eq!(rcp_f32(-denormal), f32::NEG_INFINITY);
        assert_eq!(rcp_f32(f32::MAX).to_bits(), 0, "a denormal result is flushed");
        assert_eq!((sqrt_f32(denormal), rsq_f32(denormal)), (0.0, f32::INFINITY));
        assert_eq!(rsq_f32(-0.0), f32::NEG_INFINITY);
        assert_eq!(exp2_f32(-127.0), 0.0);
        assert_eq!(exp2_f32(-126.0), f32::MIN_POSITIVE);
        assert_eq!(exp2_f32(128.0), f32::INFINITY);
        assert_eq!((exp2_f32(f32::NEG_INFINITY), exp2_f32(f32::INFINITY)), (0.0, f32::INFINITY));
        assert_eq!(
            (log2_f32(0.0), log2_f32(denormal), log2_f32(f32::INFINITY)),
            (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY)
        );
        assert!(
            log2_f32(-1.0).is_nan() && sqrt_f32(-1.0).is_nan() && rsq_f32(-1.0).is_nan() && exp2_f32(f32::NAN).is_nan()
        );
        for n in -126..128 {
            assert_eq!(exp2_f32(n as f32), 2f32.powi(n));
            assert_eq!(log2_f32(2f32.powi(n)), n as f32);
        }
        assert_eq!((rcp_f64(f64::from_bits(1)), rcp_f64(f64::MAX).to_bits()), (f64::INFINITY, 0));
        assert_eq!((sqrt_f64(f64::from_bits(1)), rsq_f64(4.0)), (0.0, 0.5));
    }

    #[test]
    fn sine_and_cosine_are_exact_at_quarter_turns_and_constant_far_away() {
        for turns in -200..200 {
            let t = turns as f32;
            assert_eq!((sin_f32(t), cos_f32(t)), (0.0, 1.0));
            assert_eq!((sin_f32(t + 0.25), cos_f32(t + 0.25)), (1.0, 0.0));
            assert_eq!((sin_f32(t + 0.5), cos_f32(t + 0.5)), (0.0, -1.0));
            assert_eq!((sin_f32(t + 0.75), cos_f32(t + 0.75)), (-1.0, 0.0));
        }
        assert_eq!(sin_f32(-0.0).to_bits(), 0x8000_0000);
        assert_eq!((sin_f32(256.5), cos_f32(-300.0)), (0.0, 1.0));
        assert!(sin_f32(f32::INFINITY).is_nan() && cos_f32(f32::NAN).is_nan());
    }

    #[test]
    fn f16_functions_are_correctly_rounded_but_for_ties() {
        for bits in (0..=u16::MAX).filter(|b| b & 0x7c00 != 0x7c00) {
            let x = f16_to_f32(bits) as f64;
            // The reference rounds twice (f64 to f32 to f16), so it may differ by one in the last place.
            let close = |got: u16, want: f64| {
                let want = f32_to_f16(want as f32);
                got == want || got.abs_diff(want) == 1 || want & 0x7fff > 0x7c00 && got & 0x7fff > 0x7c00
            };
            assert!(close(rcp_f16(bits), 1.0 / x) && close(exp2_f16(bits), x.exp2()), "{bits:#x}");
            assert!(close(sqrt_f16(bits), x.sqrt()) && close(rsq_f16(bits), 1.0 / x.sqrt()), "{bits:#x}");
            assert!(close(log2_f16(bits), x.log2()), "{bits:#x}");
        }
        assert_eq!(rcp_f16(0x0200), 0x7800, "f16 denormals are supported");
        assert_eq!((sin_f16(0x3400), cos_f16(0x3800)), (0x3c00, 0xbc00));
    }
}
