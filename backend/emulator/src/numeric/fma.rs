//! The exact fused multiply-add in software, for hosts without one and for the scaled one of `v_div_fmas`.

use super::Rounding;

/// Rounds to f32 toward zero, then sets the last bit if anything was lost ("round to odd"), so that a later rounding to
/// a format at least two bits narrower gives what one rounding of `x` would have given.
#[inline(always)]
pub(crate) fn round_odd_f32(x: f64) -> f32 {
    let near = x as f32;
    let back = near as f64;
    let away = back.abs() > x.abs();
    let lost = back != x && !x.is_nan();
    let bits = near.to_bits().wrapping_sub(u32::from(away));
    f32::from_bits(bits | u32::from(lost))
}

/// `p + c` in f64 rounded to odd.
#[inline(always)]
pub(crate) fn add_round_odd(p: f64, c: f64) -> f64 {
    let sum = p + c;
    // Knuth's two-sum: `error` is exactly what `sum` lost.
    let c_part = sum - p;
    let error = (p - (sum - c_part)) + (c - c_part);
    let bits = sum.to_bits();
    let fix = error != 0.0 && sum.abs() < f64::INFINITY && bits & 1 == 0;
    let outward = (error > 0.0) == (sum > 0.0);
    let fixed = if outward { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if fix { fixed } else { bits })
}

/// `a * b + c` in f32 with one rounding, by f64: the product is exact there, the sum rounded to odd.
#[inline(always)]
pub(crate) fn fma_f32_soft(a: f32, b: f32, c: f32) -> f32 {
    add_round_odd(a as f64 * b as f64, c as f64) as f32
}

/// `(a * b + c) * 2^scale` in f32 with one rounding: `v_div_fmas_f32`.
#[inline(always)]
pub(crate) fn fma_f32_scaled(a: f32, b: f32, c: f32, scale: i32) -> f32 {
    let factor = f64::from_bits(((1023 + scale) as u64) << 52);
    // The sum lies within 2^-298 … 2^257, so scaling it by up to 2^±64 is exact in f64.
    (add_round_odd(a as f64 * b as f64, c as f64) * factor) as f32
}

/// `a * b + c` in f64 with one rounding.
#[inline(never)]
pub(crate) fn fma_f64_soft(a: f64, b: f64, c: f64) -> f64 {
    fma_f64_scaled(a, b, c, 0)
}

/// A finite non-zero f64 as an integer significand and a power of two.
fn decompose(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// `x >> shift` with every bit shifted out gathered into the last one.
fn shift_right_sticky(x: u128, shift: u32) -> u128 {
    if shift == 0 {
        x
    } else if shift > 127 {
        u128::from(x != 0)
    } else {
        (x >> shift) | u128::from(x << (128 - shift) != 0)
    }
}

/// `(a * b + c) * 2^scale` in f64 with one rounding: `v_div_fmas_f64`, and with scale 0 the plain operation.
#[inline(never)]
pub(crate) fn fma_f64_scaled(a: f64, b: f64, c: f64, scale: i32) -> f64 {
    fma_f64_directed(a, b, c, scale, Rounding::Nearest)
}

/// The same with any rounding.
#[inline(always)]
pub(crate) fn fma_f64_directed(a: f64, b: f64, c: f64, scale: i32, rounding: Rounding) -> f64 {
    if !a.is_finite() || !b.is_finite() || !c.is_finite() {
        // No finite result: the product and the sum of the infinities and NaNs decide. A finite product must not
        // overflow on the way, which it would only with an infinite or NaN `c`.
        return if a.is_finite() && b.is_finite() { c } else { a * b + c };
    }
    let product_negative = a.is_sign_negative() != b.is_sign_negative();
    if a == 0.0 || b == 0.0 {
        let zero = if product_negative { -0.0 } else { 0.0 };
        return if c == 0.0 {
            let down = rounding == Rounding::Down && (product_negative || c.is_sign_negative());
            if down { -0.0 } else { zero + c }
        } else {
            compose(c.is_sign_negative(), decompose(c).0.into(), decompose(c).1 + scale, rounding)
        };
    }
    let (ma, ea) = decompose(a);
    let (mb, eb) = decompose(b);
    let product = u128::from(ma) * u128::from(mb);
    let product_exponent = ea + eb;
    if c == 0.0 {
        return compose(product_negative, product, product_exponent + scale, rounding);
    }
    let (mc, ec) = decompose(c);
    // Both with the leading one at bit 126: one bit of headroom, and at least 20 zero bits below the product.
    let normal = |m: u128, e: i32| {
        let shift = m.leading_zeros() as i32 - 1;
        (m << shift, e - shift)
    };
    let (mp, ep) = normal(product, product_exponent);
    let (mc, ec) = normal(mc.into(), ec);
    let product_larger = (ep, mp) >= (ec, mc);
    let (large, small, exponent, distance) = if product_larger { (mp, mc, ep, ep - ec) } else { (mc, mp, ec, ec - ep) };
    let negative = if product_larger { product_negative } else { c.is_sign_negative() };
    let small = shift_right_sticky(small, distance as u32);
    let sum = if product_negative == c.is_sign_negative() { large + small } else { large - small };
    match sum {
        0 if rounding == Rounding::Down => -0.0,
        0 => 0.0,
        _ => compose(negative, sum, exponent + scale, rounding),
    }
}

/// The f64 that `±m · 2^e` is rounded to, for non-zero `m`, whose last bit may be sticky if `m` has over 55 bits.
fn compose(negative: bool, m: u128, e: i32, rounding: Rounding) -> f64 {
    let sign = u64::from(negative) << 63;
    let top = 127 - m.leading_zeros() as i32;
    // The exponent of the last place kept: 53 bits, or fewer where the result is subnormal.
    let last = (e + top - 52).max(-1074);
    let drop = last - e;
    let (kept, rest, half) = if drop <= 0 {
        (m << (-drop).min(127), 0, 1)
    } else if drop > 127 {
        (0, 1, 2)
    } else {
        (m >> drop, m & ((1 << drop) - 1), 1 << (drop - 1))
    };
    let outward = match rounding {
        Rounding::Nearest => true,
        Rounding::Up => !negative,
        Rounding::Down => negative,
        Rounding::Zero => false,
    };
    let up = match rounding {
        Rounding::Nearest => rest > half || (rest == half && kept & 1 == 1),
        _ => rest != 0 && outward,
    };
    let kept = kept as u64 + u64::from(up);
    if kept == 0 {
        return f64::from_bits(sign);
    }
    if last > 971 || (last == 971 && kept >> 53 != 0) {
        let infinity = 0x7ff << 52;
        return f64::from_bits(sign | if outward { infinity } else { infinity - 1 });
    }
    // Adding the fraction to the biased exponent lets a carry of the rounding move the exponent by itself.
    let bits = if kept >> 52 == 0 { kept } else { (((last + 1075) as u64) << 52) + (kept - (1 << 52)) };
    f64::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::{EDGES_F32, EDGES_F64, Random};
    use super::*;

    #[test]
    fn software_fma_f32_matches_the_library() {
        let mut random = Random::new(1);
        let check = |a: f32, b: f32, c: f32| {
            let (got, want) = (fma_f32_soft(a, b, c), a.mul_add(b, c));
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{a:e} {b:e} {c:e}: {got:e} {want:e}"
            );
        };
        for a in EDGES_F32 {
            for b in EDGES_F32 {
                for c in EDGES_F32 {
                    check(a, b, c);
                }
            }
        }
        for _ in 0..300_000 {
            check(random.any_f32(), random.any_f32(), random.any_f32());
            let (a, b) = (random.near_f32(), random.near_f32());
            check(a, b, random.near_f32());
            check(a, b, -(a * b));
        }
        // A product of 2^24 + 1, which lies between two numbers, and a sum that lies just above it: odd in f64, and even again
        // if it were brought nearer to what it should be.
        check(97.0, 172_961.0, 2f32.powi(-28) - 2f32.powi(-40));
        check(97.0, -172_961.0, 2f32.powi(-40) - 2f32.powi(-28));
    }

    #[test]
    fn software_fma_f64_matches_the_library() {
        let mut random = Random::new(2);
        let check = |a: f64, b: f64, c: f64| {
            let (got, want) = (fma_f64_soft(a, b, c), a.mul_add(b, c));
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{a:e} {b:e} {c:e}: {got:e} {want:e}"
            );
        };
        for a in EDGES_F64 {
            for b in EDGES_F64 {
                for c in EDGES_F64 {
                    check(a, b, c);
                }
            }
        }
        for _ in 0..300_000 {
            check(random.any_f64(), random.any_f64(), random.any_f64());
            let (a, b) = (random.near_f64(), random.near_f64());
            check(a, b, random.near_f64());
            check(a, b, -(a * b));
            check(a * 1e-200, b * 1e-110, random.near_f64() * 1e-308);
        }
        // Products of 2^53 + 1 and 2^53 + 3, which lie between two numbers, and so little more or less that it is all shifted
        // out, by just 127 bits or by more: only the last bit tells.
        for small in [2f64.powi(-74), 2f64.powi(-75), 1e-60] {
            for c in [small, -small] {
                check(321.0, 28_059_810_762_433.0, c);
                check(5.0, 1_801_439_850_948_199.0, c);
            }
        }
    }

    #[test]
    fn scaling_happens_before_the_one_rounding() {
        // 1 + 2^-52 scaled into the subnormal range loses bits once only: the reference scales exactly by halves.
        let x = 1.5 + f64::EPSILON;
        assert_eq!(fma_f64_scaled(x, 1.0, 0.0, -1030), x * 2f64.powi(-1000) * 2f64.powi(-30));
        assert_eq!(fma_f64_scaled(3.0, 5.0, 1.0, 128), 16.0 * 2f64.powi(128));
        assert_eq!(fma_f32_scaled(3.0, 5.0, 1.0, -64), 16.0 * 2f32.powi(-64));
    }

    #[test]
    fn round_to_odd_keeps_what_a_second_rounding_needs() {
        assert_eq!(round_odd_f32(1.0), 1.0);
        assert_eq!(round_odd_f32(1.0 + 1e-12).to_bits(), 1f32.to_bits() | 1);
        assert_eq!(round_odd_f32(-1e300), f32::MIN);
        assert!(round_odd_f32(f64::NAN).is_nan());
        assert_eq!(round_odd_f32(f64::INFINITY), f32::INFINITY);
    }
}
