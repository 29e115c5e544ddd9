//! Conversions between floats and integers: toward zero, saturating, NaN to zero, as `v_cvt_*` defines them.
//! (Rust's `as` has the same rules, so the plain ones need no function here.)

use super::f16_to_f32;

/// `floor(x + 0.5)`, saturating (`v_cvt_rpi_i32_f32`). The sum is exact: the half is added after the floor is known.
#[inline(always)]
pub(crate) fn round_half_up_i32(x: f32) -> i32 {
    let low = x.floor();
    (if x - low >= 0.5 { low + 1.0 } else { low }) as i32
}

/// The low four bits as a signed number of sixteenths (`v_cvt_off_f32_i4`).
#[inline(always)]
pub(crate) fn offset_i4(x: u32) -> f32 {
    (((x << 28) as i32) >> 28) as f32 / 16.0
}

/// `x` in [−1, 1] as a fraction of 32767, to nearest even; NaN gives 0.
#[inline(always)]
pub(crate) fn norm_i16(x: f32) -> u16 {
    let x = if !x.is_nan() { x.clamp(-1.0, 1.0) } else { 0.0 };
    (x as f64 * 32767.0).round_ties_even() as i16 as u16
}

/// `x` in [0, 1] as a fraction of 65535, to nearest even; NaN gives 0.
#[inline(always)]
pub(crate) fn norm_u16(x: f32) -> u16 {
    let x = if !x.is_nan() { x.clamp(0.0, 1.0) } else { 0.0 };
    (x as f64 * 65535.0).round_ties_even() as u16
}

/// f16 to i16, toward zero, saturating.
#[inline(always)]
pub(crate) fn f16_to_i16(x: u16) -> i16 {
    f16_to_f32(x) as i16
}

/// f16 to u16, toward zero, saturating.
#[inline(always)]
pub(crate) fn f16_to_u16(x: u16) -> u16 {
    f16_to_f32(x) as u16
}

/// `value` as an unsigned byte in place of byte `select & 3` of `old` (`v_cvt_pk_u8_f32`).
#[inline(always)]
pub(crate) fn insert_u8(value: f32, select: u32, old: u32) -> u32 {
    let shift = 8 * (select & 3);
    old & !(0xff << shift) | u32::from(value as u8) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_up_at_half_saturates_and_does_not_round_the_sum() {
        assert_eq!(round_half_up_i32(2.5), 3);
        assert_eq!(round_half_up_i32(-2.5), -2);
        assert_eq!(round_half_up_i32(0.49999997), 0);
        assert_eq!(round_half_up_i32(8388609.0), 8388609);
        assert_eq!(round_half_up_i32(f32::INFINITY), i32::MAX);
        assert_eq!(round_half_up_i32(f32::NAN), 0);
    }

    #[test]
    fn normalised_integers_reach_their_ends() {
        assert_eq!((norm_i16(1.0), norm_i16(-1.0) as i16, norm_i16(9.0)), (32767, -32767, 32767));
        assert_eq!((norm_u16(1.0), norm_u16(-1.0), norm_u16(f32::NAN)), (65535, 0, 0));
        assert_eq!(norm_u16(0.5), 32768, "32767.5 is a tie, its even neighbour is above");
        assert_eq!(offset_i4(0xf8), -0.5);
        assert_eq!(offset_i4(7), 0.4375);
        assert_eq!(insert_u8(300.0, 2, 0x1122_3344), 0x11ff_3344);
        assert_eq!(f16_to_u16(0xbc00), 0);
        assert_eq!(f16_to_i16(0xfc00), i16::MIN);
    }
}
