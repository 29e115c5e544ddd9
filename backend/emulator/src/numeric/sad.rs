//! Sums of absolute differences.

/// Σ over the bytes of |a − b|, plus `c`.
#[inline(always)]
pub(crate) fn sad_u8(a: u32, b: u32, c: u32) -> u32 {
    let mut sum = c;
    for shift in [0, 8, 16, 24] {
        sum = sum.wrapping_add(((a >> shift) & 0xff).abs_diff((b >> shift) & 0xff));
    }
    sum
}

/// [`sad_u8`] that skips the bytes where the reference `b` is zero (`v_msad_u8`).
#[inline(always)]
pub(crate) fn msad_u8(a: u32, b: u32, c: u32) -> u32 {
    let mut sum = c;
    for shift in [0, 8, 16, 24] {
        let reference = (b >> shift) & 0xff;
        let difference = ((a >> shift) & 0xff).abs_diff(reference);
        sum = sum.wrapping_add(if reference == 0 { 0 } else { difference });
    }
    sum
}

/// Σ over the halves of |a − b|, plus `c`.
#[inline(always)]
pub(crate) fn sad_u16(a: u32, b: u32, c: u32) -> u32 {
    (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
}

/// Four sums over windows of `a` one byte apart, each added to a 16-bit field of `c` and saturated
/// (`v_qsad_pk_u16_u8`, with `masked` `v_mqsad_pk_u16_u8`).
#[inline(always)]
pub(crate) fn quad_sad_u16(a: u64, b: u32, c: u64, masked: bool) -> u64 {
    let mut out = 0;
    for i in 0..4 {
        let window = (a >> (8 * i)) as u32;
        let sum = if masked { msad_u8(window, b, 0) } else { sad_u8(window, b, 0) };
        let total = (sum + ((c >> (16 * i)) as u32 & 0xffff)).min(0xffff);
        out |= u64::from(total) << (16 * i);
    }
    out
}

/// The masked sum over window `i` of `a` (`v_mqsad_u32_u8`, whose result `i` adds it to field `i` of its third source).
#[inline(always)]
pub(crate) fn window_msad_u8(a: u64, b: u32, i: u32, c: u32) -> u32 {
    msad_u8((a >> (8 * i)) as u32, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up() {
        assert_eq!(sad_u8(0x0102_03ff, 0x0200_0300, 5), 1 + 2 + 255 + 5);
        assert_eq!(msad_u8(0x0102_03ff, 0x0200_0300, 5), 1 + 5);
        assert_eq!(sad_u16(0x0001_ffff, 0x0003_0000, 1), 0xffff + 2 + 1);
        assert_eq!(quad_sad_u16(0x0000_0004_0302_0100, 0, 0xffff_0000_0001_0000, false), 0xffff_0009_000b_0006);
        assert_eq!(window_msad_u8(0x0605_0403_0201_0000, 0x0100_0001, 1, 7), 7 + 1 + 2);
    }
}
