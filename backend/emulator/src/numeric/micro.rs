//! The element formats of the Open Compute Project's 8-bit and microscaling specifications, and their shared scale.
//!
//! | format | bits | sign, exponent, mantissa | bias | largest | infinity and NaN |
//! | --- | --- | --- | --- | --- | --- |
//! | E4M3 (FP8) | 8 | 1, 4, 3 | 7 | 448 | NaN where all but the sign are ones |
//! | E5M2 (BF8) | 8 | 1, 5, 2 | 15 | 57344 | as IEEE 754 |
//! | E2M3 (FP6) | 6 | 1, 2, 3 | 1 | 7.5 | none |
//! | E3M2 (BF6) | 6 | 1, 3, 2 | 3 | 28 | none |
//! | E2M1 (FP4) | 4 | 1, 2, 1 | 1 | 6 | none |
//! | E8M0 (scale) | 8 | 0, 8, 0 | 127 | 2^127 | 0xff is NaN |

use super::NAN_F32;

/// Which of the element formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Micro {
    E4M3,
    E5M2,
    E2M3,
    E3M2,
    E2M1,
}

impl Micro {
    /// Bits of exponent and mantissa, and the bias.
    #[inline(always)]
    const fn fields(self) -> (u32, u32, u32) {
        match self {
            Micro::E4M3 => (4, 3, 7),
            Micro::E5M2 => (5, 2, 15),
            Micro::E2M3 => (2, 3, 1),
            Micro::E3M2 => (3, 2, 3),
            Micro::E2M1 => (2, 1, 1),
        }
    }

    /// Bits of an element.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        let (exponent, mantissa, _) = self.fields();
        1 + exponent + mantissa
    }
}

/// An element, in the low bits of `bits` with zeros above, as f32; exact.
#[inline(always)]
pub(crate) fn micro_to_f32(format: Micro, bits: u32) -> f32 {
    let (exponent, mantissa, bias) = format.fields();
    let magnitude = bits & ((1 << (exponent + mantissa)) - 1);
    // The fields are put where f32 has them; one exact multiplication corrects the bias and normalises denormals.
    let rebias = f32::from_bits((254 - bias) << 23);
    let value = f32::from_bits(magnitude << (23 - mantissa)) * rebias;
    let value = match format {
        Micro::E4M3 if magnitude == 0x7f => f32::from_bits(NAN_F32),
        Micro::E5M2 if magnitude == 0x7c => f32::INFINITY,
        Micro::E5M2 if magnitude > 0x7c => f32::from_bits(NAN_F32),
        _ => value,
    };
    let sign = bits >> (exponent + mantissa) & 1;
    f32::from_bits(value.to_bits() ^ sign << 31)
}

/// A scale as f32: a power of two, or NaN.
#[inline(always)]
pub(crate) fn e8m0_to_f32(bits: u8) -> f32 {
    match bits {
        // 2^-127 is a denormal.
        0 => f32::from_bits(0x0040_0000),
        0xff => f32::from_bits(NAN_F32),
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_the_value_of_its_fields() {
        for format in [Micro::E4M3, Micro::E5M2, Micro::E2M3, Micro::E3M2, Micro::E2M1] {
            let (exponent_bits, mantissa_bits, bias) = format.fields();
            for bits in 0..1u32 << format.bits() {
                let exponent = (bits >> mantissa_bits & ((1 << exponent_bits) - 1)) as i32;
                let fraction = f64::from(bits & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
                let magnitude = match exponent {
                    0 => fraction * 2f64.powi(1 - bias as i32),
                    _ => (1.0 + fraction) * 2f64.powi(exponent - bias as i32),
                };
                let value = if bits >> (format.bits() - 1) == 1 { -magnitude } else { magnitude };
                let got = micro_to_f32(format, bits);
                match (format, bits & 0x7f) {
                    (Micro::E4M3, 0x7f) | (Micro::E5M2, 0x7d..) => assert!(got.is_nan(), "{format:?} {bits:#x}"),
                    (Micro::E5M2, 0x7c) => assert_eq!(f64::from(got), value.signum() * f64::INFINITY),
                    _ => {
                        assert_eq!(f64::from(got), value, "{format:?} {bits:#x}");
                        assert_eq!(got.is_sign_negative(), bits >> (format.bits() - 1) == 1);
                    }
                }
            }
        }
        let largest = [(Micro::E4M3, 0x7e, 448.0), (Micro::E5M2, 0x7b, 57344.0), (Micro::E2M3, 0x1f, 7.5)];
        for (format, bits, value) in largest.into_iter().chain([(Micro::E3M2, 0x1f, 28.0), (Micro::E2M1, 7, 6.0)]) {
            assert_eq!(micro_to_f32(format, bits), value);
        }
    }

    #[test]
    fn a_scale_is_a_power_of_two() {
        for bits in 0..=254u8 {
            assert_eq!(f64::from(e8m0_to_f32(bits)), 2f64.powi(i32::from(bits) - 127));
        }
        assert!(e8m0_to_f32(255).is_nan());
    }
}
