//! Rounding to integers, splitting and scaling by powers of two.

use super::{f16_to_f32, f32_to_f16};

/// `x - floor(x)`, below one even where the subtraction rounds up to it.
#[inline(always)]
pub(crate) fn fract_f32(x: f32) -> f32 {
    let f = x - x.floor();
    if f >= 1.0 { f32::from_bits(0x3f7f_ffff) } else { f }
}

/// `x - floor(x)`, below one.
#[inline(always)]
pub(crate) fn fract_f64(x: f64) -> f64 {
    let f = x - x.floor();
    if f >= 1.0 { f64::from_bits(0x3fef_ffff_ffff_ffff) } else { f }
}

/// `x - floor(x)`, below one.
#[inline(always)]
pub(crate) fn fract_f16(x: u16) -> u16 {
    let x = f16_to_f32(x);
    let f = f32_to_f16(x - x.floor());
    if f == 0x3c00 { 0x3bff } else { f }
}

/// The mantissa in ±[0.5, 1); zero, infinity and NaN are returned as they are.
#[inline(always)]
pub(crate) fn frexp_mant_f32(x: f32) -> f32 {
    let scaled = if x.to_bits() & 0x7f80_0000 == 0 { x * 16777216.0 } else { x }.to_bits();
    let out = scaled & 0x807f_ffff | 126 << 23;
    f32::from_bits(if x == 0.0 || !x.is_finite() { x.to_bits() } else { out })
}

/// The exponent that goes with [`frexp_mant_f32`]; 0 for zero, infinity and NaN.
#[inline(always)]
pub(crate) fn frexp_exp_f32(x: f32) -> i32 {
    let denormal = x.to_bits() & 0x7f80_0000 == 0;
    let scaled = if denormal { x * 16777216.0 } else { x }.to_bits();
    let exponent = ((scaled >> 23) & 0xff) as i32 - 126 - if denormal { 24 } else { 0 };
    if x == 0.0 || !x.is_finite() { 0 } else { exponent }
}

/// The mantissa in ±[0.5, 1); zero, infinity and NaN are returned as they are.
#[inline(always)]
pub(crate) fn frexp_mant_f64(x: f64) -> f64 {
    let scaled = if x.to_bits() & 0x7ff << 52 == 0 { x * 18014398509481984.0 } else { x }.to_bits();
    let out = scaled & 0x800f_ffff_ffff_ffff | 1022 << 52;
    f64::from_bits(if x == 0.0 || !x.is_finite() { x.to_bits() } else { out })
}

/// The exponent that goes with [`frexp_mant_f64`]; 0 for zero, infinity and NaN.
#[inline(always)]
pub(crate) fn frexp_exp_f64(x: f64) -> i32 {
    let denormal = x.to_bits() & 0x7ff << 52 == 0;
    let scaled = if denormal { x * 18014398509481984.0 } else { x }.to_bits();
    let exponent = ((scaled >> 52) & 0x7ff) as i32 - 1022 - if denormal { 54 } else { 0 };
    if x == 0.0 || !x.is_finite() { 0 } else { exponent }
}

/// The mantissa in ±[0.5, 1); zero, infinity and NaN are returned as they are.
#[inline(always)]
pub(crate) fn frexp_mant_f16(x: u16) -> u16 {
    // Every f16 is a normal f32 or zero, so the f32 mantissa is exact in f16.
    if x & 0x7c00 == 0x7c00 { x } else { f32_to_f16(frexp_mant_f32(f16_to_f32(x))) }
}

/// The exponent that goes with [`frexp_mant_f16`]; 0 for zero, infinity and NaN.
#[inline(always)]
pub(crate) fn frexp_exp_f16(x: u16) -> i16 {
    frexp_exp_f32(f16_to_f32(x)) as i16
}

/// `x * 2^e` with one rounding.
#[inline(always)]
pub(crate) fn ldexp_f32(x: f32, e: i32) -> f32 {
    // Beyond ±300 every non-zero f32 over- or underflows; within, the product is exact in f64.
    let factor = f64::from_bits(((1023 + i64::from(e.clamp(-300, 300))) as u64) << 52);
    (x as f64 * factor) as f32
}

/// `x * 2^e` with one rounding.
#[inline(always)]
pub(crate) fn ldexp_f16(x: u16, e: i16) -> u16 {
    let factor = f32::from_bits((127 + i32::from(e.clamp(-60, 60))) as u32 * (1 << 23));
    f32_to_f16(f16_to_f32(x) * factor)
}

/// `x * 2^e` with one rounding.
#[inline(always)]
pub(crate) fn ldexp_f64(x: f64, e: i32) -> f64 {
    let power = |e: i32| f64::from_bits(((1023 + e) as u64) << 52);
    let mut e = e.clamp(-2200, 2200);
    let mut x = x;
    // Steps of 2^-969 = 2^(53 - 1022) leave a full significand above the smallest normal, so that only the last one rounds.
    for _ in 0..2 {
        if e > 1023 {
            x *= power(1023);
            e -= 1023;
        } else if e < -1022 {
            x *= power(-969);
            e += 969;
        }
    }
    x * power(e.clamp(-1022, 1023))
}

#[cfg(test)]
mod tests {
    use super::super::fma_f64_scaled;
    use super::super::tests_support::{EDGES_F32, EDGES_F64, Random};
    use super::*;

    #[test]
    fn frexp_and_ldexp_are_inverse() {
        let mut random = Random::new(4);
        let values = EDGES_F32.into_iter().chain((0..50_000).map(|_| random.any_f32())).filter(|x| x.is_finite());
        for x in values {
            let (m, e) = (frexp_mant_f32(x), frexp_exp_f32(x));
            assert!(x == 0.0 && e == 0 || (0.5..1.0).contains(&m.abs()));
            assert_eq!(ldexp_f32(m, e).to_bits(), x.to_bits());
        }
        let values = EDGES_F64.into_iter().chain((0..50_000).map(|_| random.any_f64())).filter(|x| x.is_finite());
        for x in values {
            let (m, e) = (frexp_mant_f64(x), frexp_exp_f64(x));
            assert!(x == 0.0 && e == 0 || (0.5..1.0).contains(&m.abs()));
            assert_eq!(ldexp_f64(m, e).to_bits(), x.to_bits());
        }
        for x in (0..=u16::MAX).filter(|x| x & 0x7c00 != 0x7c00) {
            assert_eq!(ldexp_f16(frexp_mant_f16(x), frexp_exp_f16(x)), x);
        }
        assert_eq!(frexp_exp_f32(f32::INFINITY), 0);
        assert_eq!(frexp_mant_f32(f32::NEG_INFINITY), f32::NEG_INFINITY);
    }

    #[test]
    fn ldexp_rounds_once_even_into_denormals() {
        let mut random = Random::new(5);
        for _ in 0..50_000 {
            let (x, e) = (random.any_f64(), (random.next() % 4800) as i32 - 2400);
            if x.is_finite() {
                assert_eq!(ldexp_f64(x, e).to_bits(), fma_f64_scaled(x, 1.0, 0.0, e).to_bits(), "{x:e} {e}");
            }
        }
        // Where a first step could leave a denormal that the second rounds again.
        for _ in 0..50_000 {
            let exponent = 1023 - random.next() % 60;
            let x = f64::from_bits(random.next() >> 12 | exponent << 52);
            let e = -1022 - (random.next() % 60) as i32;
            assert_eq!(ldexp_f64(x, e).to_bits(), fma_f64_scaled(x, 1.0, 0.0, e).to_bits(), "{x:e} {e}");
        }
        assert_eq!(ldexp_f64(f64::INFINITY, i32::MIN), f64::INFINITY);
        assert_eq!(ldexp_f32(1.0, i32::MAX), f32::INFINITY);
        assert_eq!(ldexp_f32(-1.0, i32::MIN).to_bits(), 0x8000_0000);
        assert_eq!(ldexp_f32(f32::from_bits(0x3f80_0003), -150).to_bits(), 1);
        assert_eq!(ldexp_f16(0x3c00, -24), 1);
    }

    #[test]
    fn a_fraction_is_never_one() {
        assert_eq!(fract_f32(-1e-20), f32::from_bits(0x3f7f_ffff));
        assert_eq!(fract_f64(-1e-30), f64::from_bits(0x3fef_ffff_ffff_ffff));
        assert_eq!(fract_f16(0x8001), 0x3bff);
        assert_eq!(fract_f32(2.75), 0.75);
        assert_eq!(fract_f32(-2.25), 0.75);
        assert!(fract_f32(f32::INFINITY).is_nan());
    }
}
