//! `v_cmp_class`: which of ten kinds a float is of, as a bit of AMD's mask.

/// Bit number of the class: 0 signalling NaN, 1 quiet NaN, 2 −infinity, 3 −normal, 4 −denormal, 5 −0, 6 +0, 7 +denormal,
/// 8 +normal, 9 +infinity.
#[inline(always)]
fn class(negative: bool, exponent_zero: bool, exponent_ones: bool, fraction_zero: bool, quiet: bool) -> u32 {
    let magnitude = if exponent_ones {
        3
    } else if !exponent_zero {
        2
    } else if !fraction_zero {
        1
    } else {
        0
    };
    let number = if negative { 5 - magnitude } else { 6 + magnitude };
    if exponent_ones && !fraction_zero { u32::from(quiet) } else { number }
}

/// The class bit of an f32, as a mask.
#[inline(always)]
pub(crate) fn class_f32(bits: u32) -> u32 {
    let exponent = (bits >> 23) & 0xff;
    1 << class(bits >> 31 != 0, exponent == 0, exponent == 0xff, bits & 0x7f_ffff == 0, bits & 1 << 22 != 0)
}

/// The class bit of an f64, as a mask.
#[inline(always)]
pub(crate) fn class_f64(bits: u64) -> u32 {
    let exponent = (bits >> 52) & 0x7ff;
    1 << class(bits >> 63 != 0, exponent == 0, exponent == 0x7ff, bits << 12 == 0, bits & 1 << 51 != 0)
}

/// The class bit of an f16, as a mask.
#[inline(always)]
pub(crate) fn class_f16(bits: u16) -> u32 {
    let exponent = (bits >> 10) & 0x1f;
    1 << class(bits >> 15 != 0, exponent == 0, exponent == 0x1f, bits & 0x3ff == 0, bits & 1 << 9 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_bit_in_every_width() {
        let rows = [
            (0, 0x7f80_0001u32, 0xfff0_0000_0000_0001u64, 0x7c01u16),
            (1, 0xffc0_0000, 0x7ff8_0000_0000_0000, 0xfe00),
            (2, 0xff80_0000, 0xfff0_0000_0000_0000, 0xfc00),
            (3, 0xbf80_0000, 0xbff0_0000_0000_0000, 0xbc00),
            (4, 0x8000_0001, 0x8000_0000_0000_0001, 0x8001),
            (5, 0x8000_0000, 0x8000_0000_0000_0000, 0x8000),
            (6, 0, 0, 0),
            (7, 0x007f_ffff, 0x000f_ffff_ffff_ffff, 0x03ff),
            (8, 0x0080_0000, 0x0010_0000_0000_0000, 0x0400),
            (9, 0x7f80_0000, 0x7ff0_0000_0000_0000, 0x7c00),
        ];
        for (bit, single, double, half) in rows {
            assert_eq!(class_f32(single), 1 << bit);
            assert_eq!(class_f64(double), 1 << bit);
            assert_eq!(class_f16(half), 1 << bit);
        }
    }
}
