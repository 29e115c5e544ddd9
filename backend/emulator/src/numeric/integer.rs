//! Integer operations that Rust has no operator for.

/// Sign-extends the low 24 bits.
#[inline(always)]
pub(crate) fn i24(x: u32) -> i32 {
    ((x << 8) as i32) >> 8
}

/// The low 24 bits.
#[inline(always)]
pub(crate) fn u24(x: u32) -> u32 {
    x & 0xff_ffff
}

/// `width & 31` bits from bit `offset & 31`, zero-extended.
#[inline(always)]
pub(crate) fn bfe_u32(x: u32, offset: u32, width: u32) -> u32 {
    (x >> (offset & 31)) & ((1u32 << (width & 31)) - 1)
}

/// `width & 31` bits from bit `offset & 31`, sign-extended; width 0 gives 0.
#[inline(always)]
pub(crate) fn bfe_i32(x: u32, offset: u32, width: u32) -> u32 {
    let (offset, width) = (offset & 31, width & 31);
    // Bits beyond the top of the source repeat its sign.
    let field = (x as i32) >> offset;
    let unused = (32 - width) & 31;
    let out = ((field as u32) << unused) as i32 >> unused;
    if width == 0 { 0 } else { out as u32 }
}

/// Bits of `a` where `mask` is set, of `b` elsewhere.
#[inline(always)]
pub(crate) fn bfi(mask: u32, a: u32, b: u32) -> u32 {
    mask & a | !mask & b
}

/// `width & 31` ones from bit `offset & 31`.
#[inline(always)]
pub(crate) fn bfm(width: u32, offset: u32) -> u32 {
    ((1u32 << (width & 31)) - 1) << (offset & 31)
}

/// Low 32 bits of `{high, low} >> shift`.
#[inline(always)]
pub(crate) fn align(high: u32, low: u32, shift: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> shift) as u32
}

/// `v_perm_b32`: each byte of `select` picks a byte of `{high, low}` or makes a constant: 0–7 the byte; 8–11 the sign of
/// byte 1, 3, 5, 7 repeated; 12 zero; 13 and above 0xff.
#[inline(always)]
pub(crate) fn perm(high: u32, low: u32, select: u32) -> u32 {
    let data = u64::from(high) << 32 | u64::from(low);
    let byte = |select: u32| -> u32 {
        let plain = (data >> (8 * (select & 7))) as u32 & 0xff;
        let sign = (0u32.wrapping_sub((data >> (16 * (select & 3) + 15)) as u32 & 1)) & 0xff;
        let constant = if select == 12 { 0 } else { 0xff };
        if select < 8 {
            plain
        } else if select < 12 {
            sign
        } else {
            constant
        }
    };
    byte(select & 0xff) | byte((select >> 8) & 0xff) << 8 | byte((select >> 16) & 0xff) << 16 | byte(select >> 24) << 24
}

/// Per byte `(a + b + (c & 1)) >> 1`.
#[inline(always)]
pub(crate) fn lerp_u8(a: u32, b: u32, c: u32) -> u32 {
    let mut out = 0;
    for shift in [0, 8, 16, 24] {
        let sum = ((a >> shift) & 0xff) + ((b >> shift) & 0xff) + ((c >> shift) & 1);
        out |= (sum >> 1) << shift;
    }
    out
}

/// Position of the first one from the top, counted from bit 31; all ones if there is none.
#[inline(always)]
pub(crate) fn ffbh_u32(x: u32) -> u32 {
    if x == 0 { u32::MAX } else { x.leading_zeros() }
}

/// Position of the first one from the bottom; all ones if there is none.
#[inline(always)]
pub(crate) fn ffbl_u32(x: u32) -> u32 {
    if x == 0 { u32::MAX } else { x.trailing_zeros() }
}

/// Position from the top of the first bit that differs from the sign; all ones if there is none.
#[inline(always)]
pub(crate) fn ffbh_i32(x: u32) -> u32 {
    ffbh_u32(x ^ ((x as i32) >> 31) as u32)
}

/// The high half of the product of 24-bit signed factors (`v_mul_hi_i32_i24`).
#[inline(always)]
pub(crate) fn mul_hi_i24(a: u32, b: u32) -> u32 {
    ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as u32
}

/// The high half of the product of 24-bit unsigned factors.
#[inline(always)]
pub(crate) fn mul_hi_u24(a: u32, b: u32) -> u32 {
    ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32
}

/// High half of a 32 by 32 bit product.
#[inline(always)]
pub(crate) fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// High half of a signed 32 by 32 bit product.
#[inline(always)]
pub(crate) fn mul_hi_i32(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b)) >> 32) as i32
}

/// `c + Σ a[i]·b[i]` over `32 / BITS` signed fields, wrapping or saturating.
#[inline(always)]
pub(crate) fn dot_signed<const BITS: u32>(a: u32, b: u32, c: i32, saturate: bool) -> i32 {
    let field = |x: u32, i: u32| i64::from(((x << (32 - BITS - i)) as i32) >> (32 - BITS));
    let mut sum = i64::from(c);
    let mut i = 0;
    while i < 32 {
        sum += field(a, i) * field(b, i);
        i += BITS;
    }
    if saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32 } else { sum as i32 }
}

/// `Σ a[i]·b[i]` over `32 / BITS` fields, those of `a` and of `b` signed or not.
#[inline(always)]
pub(crate) fn dot_signed_by<const BITS: u32>(a: u32, b: u32, signed: [bool; 2]) -> i64 {
    let field = |x: u32, i: u32, signed: bool| {
        let top = x << (32 - BITS - i);
        if signed { i64::from((top as i32) >> (32 - BITS)) } else { i64::from(top >> (32 - BITS)) }
    };
    (0..32 / BITS).map(|i| field(a, BITS * i, signed[0]) * field(b, BITS * i, signed[1])).sum()
}

/// The nearest 32-bit number.
#[inline(always)]
pub(crate) fn saturate_i32(x: i64) -> i32 {
    x.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// `c + Σ a[i]·b[i]` over `32 / BITS` unsigned fields, wrapping or saturating.
#[inline(always)]
pub(crate) fn dot_unsigned<const BITS: u32>(a: u32, b: u32, c: u32, saturate: bool) -> u32 {
    let field = |x: u32, i: u32| u64::from((x >> i) & (u32::MAX >> (32 - BITS)));
    let mut sum = u64::from(c);
    let mut i = 0;
    while i < 32 {
        sum += field(a, i) * field(b, i);
        i += BITS;
    }
    if saturate { sum.min(u32::MAX.into()) as u32 } else { sum as u32 }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::Random;
    use super::*;

    #[test]
    fn bit_fields_match_a_bit_by_bit_reference() {
        let mut random = Random::new(6);
        for _ in 0..20_000 {
            let (x, o, w) = (random.next_u32(), random.next_u32() % 40, random.next_u32() % 40);
            let (mut unsigned, mut signed) = (0, 0);
            for i in 0..w & 31 {
                let at = (o & 31) + i;
                unsigned |= if at < 32 { (x >> at & 1) << i } else { 0 };
                signed |= (x >> at.min(31) & 1) << i;
            }
            if w & 31 > 0 && signed >> ((w & 31) - 1) & 1 == 1 {
                signed |= u32::MAX << (w & 31);
            }
            assert_eq!(bfe_u32(x, o, w), unsigned);
            assert_eq!(bfe_i32(x, o, w), signed, "{x:#x} {o} {w}");
        }
        assert_eq!(bfm(4, 8), 0xf00);
        assert_eq!(bfi(0xff00, 0x1234, 0x5678), 0x1278);
        assert_eq!(align(0x1122_3344, 0x5566_7788, 8), 0x4455_6677);
    }

    #[test]
    fn perm_picks_bytes_signs_and_constants() {
        assert_eq!(perm(0x8877_6655, 0x4433_2211, 0x0700_0405), 0x8811_5566);
        assert_eq!(perm(0x8877_6655, 0x4433_22f1, 0x0d0c_0b08), 0xff00_ff00);
        assert_eq!(perm(0, 0x0000_8000, 0x0c0c_0c08), 0xff);
    }

    #[test]
    fn small_integer_operations_match_their_definitions() {
        assert_eq!(lerp_u8(0xff01_0203, 0xff02_0304, 0x0101_0000), 0xff02_0203);
        assert_eq!((ffbh_u32(0), ffbh_u32(1), ffbl_u32(8)), (u32::MAX, 31, 3));
        assert_eq!((ffbh_i32(0), ffbh_i32(u32::MAX), ffbh_i32(0xffff_0000), ffbh_i32(1)), (u32::MAX, u32::MAX, 16, 31));
        assert_eq!(mul_hi_i24(0x80_0000, 0x7f_ffff), ((-(1i64 << 23) * ((1 << 23) - 1)) >> 32) as u32);
        assert_eq!(mul_hi_u24(0xffff_ffff, 0xff_ffff), ((0xff_ffffu64 * 0xff_ffff) >> 32) as u32);
        assert_eq!(mul_hi_i32(i32::MIN, i32::MIN), 1 << 30);
        assert_eq!(dot_signed::<8>(0x80ff_0102, 0x8002_0304, 10, false), 10 + 16384 - 2 + 3 + 8);
        assert_eq!(dot_signed::<16>(0x8000_8000, 0x8000_8000, i32::MAX, true), i32::MAX);
        assert_eq!(dot_signed::<4>(0x8888_8888, 0x7777_7777, 0, false), -448);
        assert_eq!(dot_unsigned::<8>(0xffff_ffff, 0xffff_ffff, u32::MAX, true), u32::MAX);
        assert_eq!(dot_unsigned::<16>(0x0002_0003, 0x0005_0007, 1, false), 32);
        assert_eq!(dot_unsigned::<4>(0x1111_1111, 0xffff_ffff, 1, false), 121);
    }
}
