//! Conversions between f16, bf16 and wider floats, branch-free so that lane loops become vector code.

/// f16 to f32, exact; a signalling NaN becomes quiet.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    // Moving the field and multiplying by 2^112 re-biases the exponent and normalises denormals in one exact step.
    let scaled = (f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = magnitude >= 0x7c00;
    let quiet = u32::from(magnitude > 0x7c00) << 22;
    let out = if special { 0x7f80_0000 | (magnitude & 0x3ff) << 13 | quiet } else { scaled };
    f32::from_bits(out | sign)
}

/// f32 to f16, to nearest even.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: add half of the last place (minus one unless the kept part is odd), then drop 13 bits.
    let odd = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_add(0xfff + odd).wrapping_sub(112 << 23)) >> 13;
    // Denormal results: adding 0.5 puts the last place of the sum at 2^-24, the host rounding does the rest.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let nan = 0x7e00 | (magnitude >> 13) & 0x3ff;
    let mut out = if magnitude < 113 << 23 { denormal } else { normal };
    // From 65520 on, the nearest is infinity.
    out = if magnitude >= 0x477f_f000 { 0x7c00 } else { out };
    out = if magnitude > 0x7f80_0000 { nan } else { out };
    out as u16 | sign
}

/// f32 to f16, toward zero (`v_cvt_pkrtz_f16_f32`): a finite value never becomes infinite.
#[inline(always)]
pub(crate) fn f32_to_f16_toward_zero(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(112 << 23) >> 13;
    let shift = (126u32.wrapping_sub(magnitude >> 23)).min(31);
    let denormal = (magnitude & 0x7f_ffff | 0x80_0000) >> shift;
    let mut out = if magnitude < 113 << 23 { denormal } else { normal };
    out = if magnitude >= 0x4780_0000 { 0x7bff } else { out };
    out = if magnitude == 0x7f80_0000 { 0x7c00 } else { out };
    out = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13) & 0x3ff } else { out };
    out as u16 | sign
}

/// f64 to f16 with one rounding to nearest even.
#[inline(always)]
pub(crate) fn f64_to_f16(x: f64) -> u16 {
    f32_to_f16(super::fma::round_odd_f32(x))
}

/// f32 to f16 with stochastic rounding: the upper bits of `random` are added below the last place kept, then the sum is
/// truncated.
#[inline(always)]
pub(crate) fn f32_to_f16_stochastic(x: f32, random: u32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude >= 0x7f80_0000 {
        return f32_to_f16(x);
    }
    let out = if magnitude >= 113 << 23 {
        (magnitude.wrapping_sub(112 << 23).wrapping_add(random >> 19)) >> 13
    } else {
        let significand = magnitude & 0x7f_ffff | u32::from(magnitude >> 23 != 0) << 23;
        match 126 - (magnitude >> 23).max(1) {
            drop @ ..=30 => (significand + (random >> (32 - drop))) >> drop,
            _ => 0,
        }
    };
    out.min(0x7c00) as u16 | sign
}

/// f32 to bf16 with stochastic rounding, as for f16.
#[inline(always)]
pub(crate) fn f32_to_bf16_stochastic(x: f32, random: u32) -> u16 {
    if x.is_finite() { (x.to_bits().wrapping_add(random >> 16) >> 16) as u16 } else { f32_to_bf16(x) }
}

/// f64 to bf16 with one rounding to nearest even.
#[inline(always)]
pub(crate) fn f64_to_bf16(x: f64) -> u16 {
    f32_to_bf16(super::fma::round_odd_f32(x))
}

/// bf16 to f32, exact.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// f32 to bf16, to nearest even; a NaN becomes quiet and keeps its sign and upper bits.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    ((if x.is_nan() { bits | 0x0040_0000 } else { rounded }) >> 16) as u16
}

/// `a * b + c` in f16 with one rounding.
#[inline(always)]
pub(crate) fn fma_f16(a: u16, b: u16, c: u16) -> u16 {
    // The product is exact in f64. The sum may lose bits only where the product is below 2^-31 of `c`, too little to
    // reach a tie of f16, so rounding it once more is harmless.
    let sum = f16_to_f32(a) as f64 * f16_to_f32(b) as f64 + f16_to_f32(c) as f64;
    f64_to_f16(sum)
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::Random;
    use super::*;

    #[test]
    fn every_f16_widens_exactly_and_comes_back() {
        for bits in 0..=u16::MAX {
            let wide = f16_to_f32(bits);
            let want = half::f16::from_bits(bits).to_f32();
            if want.is_nan() {
                assert!(wide.is_nan());
                assert_eq!(f32_to_f16(wide), bits | 0x200);
            } else {
                assert_eq!(wide.to_bits(), want.to_bits());
                assert_eq!(f32_to_f16(wide), bits);
                assert_eq!(f32_to_f16_toward_zero(wide), bits);
                assert_eq!(f64_to_f16(wide as f64), bits);
            }
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even_between_every_pair_of_neighbours() {
        for bits in 0..0x7c00u16 {
            let low = f16_to_f32(bits) as f64;
            let high = if bits == 0x7bff { 65536.0 } else { f16_to_f32(bits + 1) as f64 };
            let middle = (low + high) / 2.0;
            let even = bits + (bits & 1);
            assert_eq!(f32_to_f16(middle as f32), even, "{bits:#x}");
            assert_eq!(f64_to_f16(middle), even);
            assert_eq!(f64_to_f16(middle * (1.0 - 1e-15)), bits);
            assert_eq!(f64_to_f16(middle * (1.0 + 1e-15)), bits + 1);
            let below = f32::from_bits((middle as f32).to_bits() - 1);
            let above = f32::from_bits((middle as f32).to_bits() + 1);
            assert_eq!(f32_to_f16(below), bits);
            assert_eq!(f32_to_f16(above), bits + 1);
            assert_eq!(f32_to_f16_toward_zero(above), bits);
            assert_eq!(f32_to_f16_toward_zero(-above), bits | 0x8000);
        }
        assert_eq!(f32_to_f16(f32::INFINITY), 0x7c00);
        assert_eq!(f32_to_f16_toward_zero(f32::MAX), 0x7bff);
        assert_eq!(f32_to_f16_toward_zero(f32::NEG_INFINITY), 0xfc00);
        assert_eq!(f32_to_f16_toward_zero(1e-45), 0);
        assert_eq!(f32_to_f16(1e-45), 0);
    }

    #[test]
    fn bf16_rounds_to_nearest_even_between_every_pair_of_neighbours() {
        for bits in 0..0x7f7fu16 {
            let (low, high) = (bf16_to_f32(bits), bf16_to_f32(bits + 1));
            // Exact: the neighbours differ in the last of 8 bits.
            let middle = f32::from_bits(low.to_bits() + 0x8000);
            assert_eq!(f64::from(middle) * 2.0, f64::from(low) + f64::from(high));
            assert_eq!(f32_to_bf16(middle), bits + (bits & 1));
            assert_eq!(f32_to_bf16(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(f32_to_bf16(-f32::from_bits(middle.to_bits() + 1)), bits + 1 | 0x8000);
            assert_eq!(f64_to_bf16(f64::from(middle) * (1.0 + 1e-15)), bits + 1);
            assert_eq!(f32_to_bf16_stochastic(middle, 0x7fff_ffff), bits);
            assert_eq!(f32_to_bf16_stochastic(middle, 0x8000_0000), bits + 1);
        }
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
        assert_eq!(f32_to_bf16(f32::from_bits(0xff80_0001)), 0xffc0);
        assert_eq!(f32_to_bf16_stochastic(f32::NEG_INFINITY, u32::MAX), 0xff80);
    }

    #[test]
    fn random_bits_carry_into_f16_where_they_reach_the_last_place() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (f16_to_f32(bits), f16_to_f32(bits + 1));
            let quarter = low + (high - low) * 0.25;
            assert_eq!(f32_to_f16_stochastic(quarter, 0xbfff_ffff), bits, "{bits:#x}");
            assert_eq!(f32_to_f16_stochastic(quarter, 0xc000_0000), bits + 1, "{bits:#x}");
            assert_eq!(f32_to_f16_stochastic(-low, u32::MAX), bits | 0x8000);
        }
        assert_eq!(f32_to_f16_stochastic(1e9, 0), 0x7c00);
        assert_eq!(f32_to_f16_stochastic(f32::NAN, 7) & 0x7e00, 0x7e00);
    }

    #[test]
    fn fma_f16_rounds_once() {
        // The reference: the exact sum as an integer multiple of 2^-48, rounded by comparing exact distances.
        let fixed = |h: u16| -> i128 { ((f16_to_f32(h) as f64) * 2f64.powi(24)) as i128 };
        let mut random = Random::new(3);
        for _ in 0..200_000 {
            let pick = |r: &mut Random| {
                let h = r.next_u32() as u16;
                if h & 0x7c00 == 0x7c00 { h & 0x83ff } else { h }
            };
            let (a, b, c) = (pick(&mut random), pick(&mut random), pick(&mut random));
            let exact = fixed(a) * fixed(b) + (fixed(c) << 24);
            let got = fma_f16(a, b, c);
            if got & 0x7fff == 0x7c00 {
                assert!(exact.abs() >= (65520i128) << 48);
                continue;
            }
            let error = |h: u16| (exact - (fixed(h) << 24)).abs();
            let magnitude = got & 0x7fff;
            if magnitude > 0 {
                let down = error(got - 1);
                assert!(error(got) < down || error(got) == down && got & 1 == 0, "{a:#x} {b:#x} {c:#x} {got:#x}");
            }
            if magnitude < 0x7bff {
                let up = error(got + 1);
                assert!(error(got) < up || error(got) == up && got & 1 == 0, "{a:#x} {b:#x} {c:#x} {got:#x}");
            }
        }
    }
}
