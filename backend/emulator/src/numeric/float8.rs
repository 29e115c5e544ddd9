//! The 8-bit floats of CDNA 3, in their FNUZ forms: no infinities, no negative zero, 0x80 is the only NaN.

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float8 {
    /// FP8: 4 exponent bits of bias 8, 3 of mantissa; up to 240.
    E4M3,
    /// BF8: 5 exponent bits of bias 16, 2 of mantissa; up to 57344.
    E5M2,
}

impl Float8 {
    #[inline(always)]
    const fn mantissa_bits(self) -> u32 {
        match self {
            Float8::E4M3 => 3,
            Float8::E5M2 => 2,
        }
    }

    #[inline(always)]
    const fn bias(self) -> i32 {
        match self {
            Float8::E4M3 => 8,
            Float8::E5M2 => 16,
        }
    }
}

const NAN: u8 = 0x80;
const LARGEST: u32 = 0x7f;

/// 8-bit float to f32, exact.
#[inline(always)]
pub(crate) fn float8_to_f32(format: Float8, bits: u8) -> f32 {
    let mantissa_bits = format.mantissa_bits();
    let magnitude = u32::from(bits & 0x7f);
    // As for f16: place the field, then one exact multiplication re-biases it and normalises denormals.
    let rebias = f32::from_bits(((127 + 127 - format.bias()) as u32) << 23);
    let value = (f32::from_bits(magnitude << (23 - mantissa_bits)) * rebias).to_bits();
    let signed = value | u32::from(bits & 0x80) << 24;
    f32::from_bits(if bits == NAN { super::NAN_F32 } else { signed })
}

/// f32 to an 8-bit float, to nearest even. What lies beyond the largest value becomes NaN, or with `saturate` (MODE's
/// FP16_OVFL) the largest value; infinities and NaNs become NaN.
#[inline(always)]
pub(crate) fn f32_to_float8(format: Float8, x: f32, saturate: bool) -> u8 {
    narrow(format, x, saturate, |_, half, odd| half - 1 + odd)
}

/// f32 to an 8-bit float with stochastic rounding: the upper bits of `random` are added below the last place kept, then
/// the sum is truncated.
#[inline(always)]
pub(crate) fn f32_to_float8_stochastic(format: Float8, x: f32, random: u32, saturate: bool) -> u8 {
    narrow(format, x, saturate, |drop, _, _| random.checked_shr(32 - drop.min(31)).unwrap_or(0))
}

/// `addend(dropped bits, half of the last place kept, last bit kept)` is what rounding adds before it truncates.
#[inline(always)]
fn narrow(format: Float8, x: f32, saturate: bool, addend: impl Fn(u32, u32, u32) -> u32) -> u8 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 24) as u8 & 0x80;
    if magnitude >= 0x7f80_0000 {
        return NAN;
    }
    let mantissa_bits = format.mantissa_bits();
    let exponent = (magnitude >> 23).max(1) as i32 - 127 + format.bias();
    let significand = if magnitude >> 23 == 0 { magnitude } else { magnitude & 0x7f_ffff | 0x80_0000 };
    // Below exponent 1 the result is denormal: its last place stays where exponent 1 has it.
    let drop = (23 - mantissa_bits) as i32 + (1 - exponent).max(0);
    let kept = if drop > 30 {
        // Less than a quarter of the smallest value.
        0
    } else {
        let drop = drop as u32;
        let odd = (significand >> drop) & 1;
        (significand + addend(drop, 1 << (drop - 1), odd)) >> drop
    };
    // The carry of a rounding moves the exponent by itself.
    let out = if exponent >= 1 { (((exponent - 1) as u32) << mantissa_bits) + kept } else { kept };
    if out > LARGEST {
        if saturate { LARGEST as u8 | sign } else { NAN }
    } else if out == 0 {
        0
    } else {
        out as u8 | sign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value by the format's definition.
    fn value(format: Float8, bits: u8) -> f64 {
        let m = format.mantissa_bits();
        let (e, f) = (i32::from(bits & 0x7f) >> m, f64::from(bits & ((1 << m) - 1)));
        let one = f64::from(1u32 << m);
        let magnitude = if e == 0 {
            f / one * 2f64.powi(1 - format.bias())
        } else {
            (1.0 + f / one) * 2f64.powi(e - format.bias())
        };
        if bits & 0x80 != 0 { -magnitude } else { magnitude }
    }

    #[test]
    fn every_value_is_exact_and_comes_back() {
        for format in [Float8::E4M3, Float8::E5M2] {
            for bits in (0..=255u8).filter(|&b| b != NAN) {
                let x = float8_to_f32(format, bits);
                assert_eq!(f64::from(x), value(format, bits), "{format:?} {bits:#x}");
                assert_eq!(f32_to_float8(format, x, false), bits);
                assert_eq!(f32_to_float8_stochastic(format, x, u32::MAX, false), bits);
            }
            assert!(float8_to_f32(format, NAN).is_nan());
        }
        assert_eq!(float8_to_f32(Float8::E4M3, 0x7f), 240.0);
        assert_eq!(float8_to_f32(Float8::E5M2, 0x7f), 57344.0);
    }

    #[test]
    fn rounding_is_to_nearest_even_between_every_pair_of_neighbours() {
        for format in [Float8::E4M3, Float8::E5M2] {
            for bits in 0..0x7fu8 {
                let (low, high) = (value(format, bits) as f32, value(format, bits + 1) as f32);
                let middle = (low + high) / 2.0;
                let next = |x: f32, by: i32| f32::from_bits((x.to_bits() as i32 + by) as u32);
                assert_eq!(f32_to_float8(format, middle, false), bits + (bits & 1));
                assert_eq!(f32_to_float8(format, next(middle, -1), false), bits);
                assert_eq!(f32_to_float8(format, next(middle, 1), false), bits + 1);
                let negative = f32_to_float8(format, -next(middle, -1), false);
                assert_eq!(negative, if bits == 0 { 0 } else { bits | 0x80 }, "there is no negative zero");
                assert_eq!(f32_to_float8_stochastic(format, next(high, -1), 0, false), bits);
                assert_eq!(f32_to_float8_stochastic(format, middle, 1 << 31, false), bits + 1);
                assert_eq!(f32_to_float8_stochastic(format, middle, (1 << 31) - 1 & !0xff, false), bits);
            }
        }
    }

    #[test]
    fn overflow_is_nan_or_the_largest_value() {
        assert_eq!(f32_to_float8(Float8::E4M3, 247.9, false), 0x7f);
        assert_eq!(f32_to_float8(Float8::E4M3, 248.0, false), NAN);
        assert_eq!(f32_to_float8(Float8::E4M3, -1e9, true), 0xff);
        assert_eq!(f32_to_float8(Float8::E5M2, 61440.0, false), NAN);
        assert_eq!(f32_to_float8(Float8::E5M2, f32::INFINITY, true), NAN);
        assert_eq!(f32_to_float8(Float8::E5M2, f32::NAN, true), NAN);
        assert_eq!(f32_to_float8(Float8::E5M2, 1e-40, true), 0);
    }
}
