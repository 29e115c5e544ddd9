//! NaNs and denormals: what the vector unit returns where the host's choice would show.
//!
//! A result that is NaN is the first NaN among the sources, made quiet; without one it is the positive default NaN.
//! Hosts differ here (x86 makes negative NaNs, and which operand wins depends on the order the compiler chose), so every
//! arithmetic result passes through [`nan_f32`] or a sibling.

/// The default NaN of f32.
pub(crate) const NAN_F32: u32 = 0x7fc0_0000;
/// The default NaN of f64.
pub(crate) const NAN_F64: u64 = 0x7ff8_0000_0000_0000;
/// The default NaN of f16.
pub(crate) const NAN_F16: u16 = 0x7e00;

/// Whether the bits are an f32 NaN.
#[inline(always)]
pub(crate) fn is_nan_f32(bits: u32) -> bool {
    bits & 0x7fff_ffff > 0x7f80_0000
}

/// Whether the bits are an f64 NaN.
#[inline(always)]
pub(crate) fn is_nan_f64(bits: u64) -> bool {
    bits & (u64::MAX >> 1) > 0x7ff << 52
}

/// Whether the bits are an f16 NaN.
#[inline(always)]
pub(crate) fn is_nan_f16(bits: u16) -> bool {
    bits & 0x7fff > 0x7c00
}

/// The NaN that an operation on these sources returns.
#[inline(always)]
pub(crate) fn nan_f32(sources: &[u32]) -> u32 {
    let mut out = NAN_F32;
    for &s in sources.iter().rev() {
        out = if is_nan_f32(s) { s | 1 << 22 } else { out };
    }
    out
}

/// The NaN that an operation on these sources returns.
#[inline(always)]
pub(crate) fn nan_f16(sources: &[u16]) -> u16 {
    let mut out = NAN_F16;
    for &s in sources.iter().rev() {
        out = if is_nan_f16(s) { s | 1 << 9 } else { out };
    }
    out
}

/// `x` with a signalling NaN made quiet.
#[inline(always)]
pub(crate) fn quiet_f32(bits: u32) -> u32 {
    bits | u32::from(is_nan_f32(bits)) << 22
}

/// `x` with a signalling NaN made quiet.
#[inline(always)]
pub(crate) fn quiet_f64(bits: u64) -> u64 {
    bits | u64::from(is_nan_f64(bits)) << 51
}

/// `x` with a signalling NaN made quiet.
#[inline(always)]
pub(crate) fn quiet_f16(bits: u16) -> u16 {
    bits | u16::from(is_nan_f16(bits)) << 9
}

/// A denormal becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flush_f32(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// A denormal becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flush_f64(bits: u64) -> u64 {
    if bits & (0x7ff << 52) == 0 { bits & (1 << 63) } else { bits }
}

/// A denormal becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flush_f16(bits: u16) -> u16 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_nan_wins_and_becomes_quiet() {
        assert_eq!(nan_f32(&[0x3f80_0000, 0xff80_0001, 0x7fc0_1234]), 0xffc0_0001);
        assert_eq!(nan_f32(&[0, 0]), NAN_F32);
        assert_eq!(nan_f16(&[0x3c00, 0x7c01]), 0x7e01);
        assert_eq!(quiet_f32(0x7f80_0000), 0x7f80_0000, "an infinity is not a NaN");
        assert_eq!(quiet_f16(0xfc01), 0xfe01);
        assert_eq!(quiet_f64(0xfff0_0000_0000_0000), 0xfff0_0000_0000_0000);
    }

    #[test]
    fn flushing_keeps_the_sign_and_touches_only_denormals() {
        assert_eq!(flush_f32(0x8000_0001), 0x8000_0000);
        assert_eq!(flush_f32(0x0080_0000), 0x0080_0000);
        assert_eq!(flush_f16(0x03ff), 0);
        assert_eq!(flush_f16(0x0400), 0x0400);
        assert_eq!(flush_f64(0x800f_ffff_ffff_ffff), 1 << 63);
    }
}
