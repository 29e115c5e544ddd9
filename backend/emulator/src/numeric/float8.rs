//! Floats of 8, 6 and 4 bits.
//!
//! All are in the low bits of a byte.
//!
//! - CDNA 3, 8 bits: the FNUZ forms. They have no infinities and no negative zero, and 0x80 is the only NaN.
//! - CDNA 4 and RDNA 4, 8 bits: the Open Compute Project's. FP8 has one NaN of each sign and no infinities; BF8 has both, as larger
//!   formats do.
//! - CDNA 4, FP6, BF6 and FP4: numbers only.
//! - CDNA 4, E8M0, the scales of its matrix instructions: the way to f32 only.

/// Which of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float8 {
    /// FNUZ FP8: 4 exponent bits of bias 8, 3 of mantissa; up to 240.
    E4M3,
    /// FNUZ BF8: 5 exponent bits of bias 16, 2 of mantissa; up to 57344.
    E5M2,
    /// OCP FP8: 4 exponent bits of bias 7, 3 of mantissa; up to 448.
    OcpE4M3,
    /// OCP BF8: 5 exponent bits of bias 15, 2 of mantissa; up to 57344.
    OcpE5M2,
    /// FP6: 2 exponent bits of bias 1, 3 of mantissa; up to 7.5.
    E2M3,
    /// BF6: 3 exponent bits of bias 3, 2 of mantissa; up to 28.
    E3M2,
    /// FP4: 2 exponent bits of bias 1, 1 of mantissa; up to 6.
    E2M1,
}

impl Float8 {
    #[inline(always)]
    const fn mantissa_bits(self) -> u32 {
        match self {
            Float8::E4M3 | Float8::OcpE4M3 | Float8::E2M3 => 3,
            Float8::E5M2 | Float8::OcpE5M2 | Float8::E3M2 => 2,
            Float8::E2M1 => 1,
        }
    }

    #[inline(always)]
    const fn bias(self) -> i32 {
        match self {
            Float8::E4M3 => 8,
            Float8::E5M2 => 16,
            Float8::OcpE4M3 => 7,
            Float8::OcpE5M2 => 15,
            Float8::E3M2 => 3,
            Float8::E2M3 | Float8::E2M1 => 1,
        }
    }

    /// Bits of a value, its sign included.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Float8::E4M3 | Float8::E5M2 | Float8::OcpE4M3 | Float8::OcpE5M2 => 8,
            Float8::E2M3 | Float8::E3M2 => 6,
            Float8::E2M1 => 4,
        }
    }

    /// The largest finite value, without a sign.
    #[inline(always)]
    const fn largest(self) -> u32 {
        match self {
            Float8::E4M3 | Float8::E5M2 => 0x7f,
            Float8::OcpE4M3 => 0x7e,
            Float8::OcpE5M2 => 0x7b,
            Float8::E2M3 | Float8::E3M2 => 0x1f,
            Float8::E2M1 => 0x7,
        }
    }

    /// A value of this sign from the bits without one.
    #[inline(always)]
    const fn signed(self, magnitude: u32, negative: bool) -> u8 {
        (magnitude | (negative as u32) << (self.bits() - 1)) as u8
    }

    /// What a NaN becomes.
    #[inline(always)]
    const fn nan(self, negative: bool) -> u8 {
        match self {
            Float8::E4M3 | Float8::E5M2 => 0x80,
            Float8::OcpE4M3 | Float8::OcpE5M2 => self.signed(0x7f, negative),
            Float8::E2M3 | Float8::E3M2 | Float8::E2M1 => self.signed(self.largest(), negative),
        }
    }

    /// What a number beyond the largest becomes where it is not held to that.
    #[inline(always)]
    const fn overflow(self, negative: bool) -> u8 {
        match self {
            Float8::OcpE5M2 => self.signed(0x7c, negative),
            _ => self.nan(negative),
        }
    }
}

/// To f32, exact.
#[inline(always)]
pub(crate) fn float8_to_f32(format: Float8, bits: u8) -> f32 {
    let mantissa_bits = format.mantissa_bits();
    let sign = 1u32 << (format.bits() - 1);
    let (magnitude, negative) = (u32::from(bits) & (sign - 1), u32::from(bits) & sign != 0);
    // As for f16: place the field, then one exact multiplication re-biases it and normalises denormals.
    let rebias = f32::from_bits(((127 + 127 - format.bias()) as u32) << 23);
    let value = (f32::from_bits(magnitude << (23 - mantissa_bits)) * rebias).to_bits();
    let signed = value | u32::from(negative) << 31;
    let out = match format {
        Float8::E4M3 | Float8::E5M2 => {
            if bits == 0x80 {
                super::NAN_F32
            } else {
                signed
            }
        }
        Float8::OcpE4M3 => {
            if magnitude == 0x7f {
                super::NAN_F32
            } else {
                signed
            }
        }
        Float8::OcpE5M2 => match magnitude {
            0x7c => 0x7f80_0000 | u32::from(negative) << 31,
            0x7d.. => super::NAN_F32,
            _ => signed,
        },
        Float8::E2M3 | Float8::E3M2 | Float8::E2M1 => signed,
    };
    f32::from_bits(out)
}

/// A scale as f32: a power of two, or NaN.
#[inline(always)]
pub(crate) fn e8m0_to_f32(bits: u8) -> f32 {
    match bits {
        // 2^-127 is a denormal.
        0 => f32::from_bits(0x0040_0000),
        0xff => f32::from_bits(super::NAN_F32),
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

/// From f32, to nearest even. What lies beyond the largest value becomes NaN (OCP BF8: infinity), or with `saturate`
/// (MODE's FP16_OVFL) the largest value; in the formats of 6 and 4 bits always that. FNUZ infinities become NaN.
#[inline(always)]
pub(crate) fn f32_to_float8(format: Float8, x: f32, saturate: bool) -> u8 {
    narrow(format, x, saturate, |_, half, odd| half - 1 + odd)
}

/// From f32 with stochastic rounding: the upper bits of `random` are added below the last place kept, then the sum is
/// truncated.
#[inline(always)]
pub(crate) fn f32_to_float8_stochastic(format: Float8, x: f32, random: u32, saturate: bool) -> u8 {
    narrow(format, x, saturate, |drop, _, _| random.checked_shr(32 - drop.min(31)).unwrap_or(0))
}

/// `addend(dropped bits, half of the last place kept, last bit kept)` is what rounding adds before it truncates.
#[inline(always)]
fn narrow(format: Float8, x: f32, saturate: bool, addend: impl Fn(u32, u32, u32) -> u32) -> u8 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let negative = bits >> 31 != 0;
    let fnuz = matches!(format, Float8::E4M3 | Float8::E5M2);
    if magnitude > 0x7f80_0000 || magnitude == 0x7f80_0000 && fnuz {
        return format.nan(negative);
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
    if out > format.largest() {
        if saturate { format.signed(format.largest(), negative) } else { format.overflow(negative) }
    } else if out == 0 && fnuz {
        0
    } else {
        format.signed(out, negative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Float8; 7] =
        [Float8::E4M3, Float8::E5M2, Float8::OcpE4M3, Float8::OcpE5M2, Float8::E2M3, Float8::E3M2, Float8::E2M1];

    /// The value by the format's definition.
    fn value(format: Float8, bits: u8) -> f64 {
        let m = format.mantissa_bits();
        let sign = 1 << (format.bits() - 1);
        let (e, f) = (i32::from(bits & (sign - 1)) >> m, f64::from(bits & ((1 << m) - 1)));
        let one = f64::from(1u32 << m);
        let magnitude = if e == 0 {
            f / one * 2f64.powi(1 - format.bias())
        } else {
            (1.0 + f / one) * 2f64.powi(e - format.bias())
        };
        if bits & sign != 0 { -magnitude } else { magnitude }
    }

    /// Every finite value.
    fn finite(format: Float8) -> impl Iterator<Item = u8> {
        let sign = 1 << (format.bits() - 1);
        let fnuz = matches!(format, Float8::E4M3 | Float8::E5M2);
        (0..=(2 * sign - 1) as u8)
            .filter(move |&b| u32::from(b) & (sign - 1) <= format.largest() && !(fnuz && b == 0x80))
    }

    #[test]
    fn every_value_is_exact_and_comes_back() {
        for format in ALL {
            for bits in finite(format) {
                let x = float8_to_f32(format, bits);
                assert_eq!(f64::from(x), value(format, bits), "{format:?} {bits:#x}");
                assert_eq!(f32_to_float8(format, x, false), bits, "{format:?} {bits:#x}");
                assert_eq!(f32_to_float8_stochastic(format, x, u32::MAX, false), bits);
            }
        }
        let largest = ALL.map(|format| float8_to_f32(format, format.largest() as u8));
        assert_eq!(largest, [240.0, 57344.0, 448.0, 57344.0, 7.5, 28.0, 6.0]);
        assert!(float8_to_f32(Float8::E4M3, 0x80).is_nan() && float8_to_f32(Float8::E5M2, 0x80).is_nan());
        assert!(float8_to_f32(Float8::OcpE4M3, 0xff).is_nan() && float8_to_f32(Float8::OcpE5M2, 0x7d).is_nan());
        assert_eq!(float8_to_f32(Float8::OcpE5M2, 0xfc), f32::NEG_INFINITY);
    }

    #[test]
    fn rounding_is_to_nearest_even_between_every_pair_of_neighbours() {
        for format in ALL {
            for bits in 0..format.largest() as u8 {
                let (low, high) = (value(format, bits) as f32, value(format, bits + 1) as f32);
                let middle = (low + high) / 2.0;
                let next = |x: f32, by: i32| f32::from_bits((x.to_bits() as i32 + by) as u32);
                assert_eq!(f32_to_float8(format, middle, false), bits + (bits & 1));
                assert_eq!(f32_to_float8(format, next(middle, -1), false), bits);
                assert_eq!(f32_to_float8(format, next(middle, 1), false), bits + 1);
                let negative = f32_to_float8(format, -next(middle, -1), false);
                let fnuz = matches!(format, Float8::E4M3 | Float8::E5M2);
                let sign = 1 << (format.bits() - 1);
                assert_eq!(negative, if bits == 0 && fnuz { 0 } else { bits | sign }, "FNUZ has no negative zero");
                assert_eq!(f32_to_float8_stochastic(format, next(high, -1), 0, false), bits);
                assert_eq!(f32_to_float8_stochastic(format, middle, 1 << 31, false), bits + 1);
                assert_eq!(f32_to_float8_stochastic(format, middle, (1 << 31) - 1 & !0xff, false), bits);
            }
        }
    }

    #[test]
    fn overflow_is_nan_or_the_largest_value() {
        assert_eq!(f32_to_float8(Float8::E4M3, 247.9, false), 0x7f);
        assert_eq!(f32_to_float8(Float8::E4M3, 248.0, false), 0x80);
        assert_eq!(f32_to_float8(Float8::E4M3, -1e9, true), 0xff);
        assert_eq!(f32_to_float8(Float8::E5M2, 61440.0, false), 0x80);
        assert_eq!(f32_to_float8(Float8::E5M2, f32::INFINITY, true), 0x80);
        assert_eq!(f32_to_float8(Float8::E5M2, f32::NAN, true), 0x80);
        assert_eq!(f32_to_float8(Float8::E5M2, 1e-40, true), 0);
        assert_eq!(f32_to_float8(Float8::OcpE4M3, 464.0, false), 0x7e);
        assert_eq!(f32_to_float8(Float8::OcpE4M3, 464.1, false), 0x7f);
        assert_eq!(f32_to_float8(Float8::OcpE4M3, -1e9, true), 0xfe);
        assert_eq!(f32_to_float8(Float8::OcpE5M2, -61440.0, false), 0xfc);
        assert_eq!(f32_to_float8(Float8::OcpE5M2, f32::INFINITY, false), 0x7c);
        assert_eq!(f32_to_float8(Float8::OcpE5M2, f32::NAN, false) & 0x7f, 0x7f);
        assert_eq!(f32_to_float8(Float8::E2M1, f32::NEG_INFINITY, false), 0xf);
        assert_eq!(f32_to_float8(Float8::E2M3, 1e9, false), 0x1f);
    }

    #[test]
    fn a_scale_is_a_power_of_two() {
        for bits in 0..=254u8 {
            assert_eq!(f64::from(e8m0_to_f32(bits)), 2f64.powi(i32::from(bits) - 127));
        }
        assert!(e8m0_to_f32(255).is_nan());
    }
}
