//! 32-bit and 24-bit integers, bits and bytes. Names follow the mnemonics; each line is the operation of the ISA manual.

use super::driver::{Choice, ops};
use super::modifiers::flag::KEEP_HALF;
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

ops! {
    /// `D = S0`
    Mov [0] (a: u32) -> u32 = a;
    /// `D = ~S0`
    Not [0] (a: u32) -> u32 = !a;
    /// `D[i] = S0[31 - i]`
    Bfrev [0] (a: u32) -> u32 = a.reverse_bits();
    /// Zeros above the first one; -1 if none.
    FfbhU32 [0] (a: u32) -> u32 = ffbh_u32(a);
    /// Zeros below the first one; -1 if none.
    FfblB32 [0] (a: u32) -> u32 = ffbl_u32(a);
    /// Equal bits below the sign; -1 if all are.
    FfbhI32 [0] (a: u32) -> u32 = ffbh_i32(a);
    /// `D = S0 + S1`
    AddU32 [0] (a: u32, b: u32) -> u32 = a.wrapping_add(b);
    /// With clamp.
    AddU32Clamp [0] (a: u32, b: u32) -> u32 = a.saturating_add(b);
    /// `D = S0 - S1`
    SubU32 [0] (a: u32, b: u32) -> u32 = a.wrapping_sub(b);
    /// With clamp.
    SubU32Clamp [0] (a: u32, b: u32) -> u32 = a.saturating_sub(b);
    /// `D = S1 - S0`
    SubrevU32 [0] (a: u32, b: u32) -> u32 = b.wrapping_sub(a);
    /// With clamp.
    SubrevU32Clamp [0] (a: u32, b: u32) -> u32 = b.saturating_sub(a);
    /// With clamp.
    AddI32Clamp [0] (a: i32, b: i32) -> i32 = a.saturating_add(b);
    /// With clamp.
    SubI32Clamp [0] (a: i32, b: i32) -> i32 = a.saturating_sub(b);
    /// `D = S0.i24 * S1.i24`
    MulI24 [0] (a: u32, b: u32) -> u32 = (i24(a) as u32).wrapping_mul(i24(b) as u32);
    /// `D = (S0.i24 * S1.i24) >> 32`
    MulHiI24 [0] (a: u32, b: u32) -> u32 = mul_hi_i24(a, b);
    /// `D = S0.u24 * S1.u24`
    MulU24 [0] (a: u32, b: u32) -> u32 = u24(a).wrapping_mul(u24(b));
    /// `D = (S0.u24 * S1.u24) >> 32`
    MulHiU24 [0] (a: u32, b: u32) -> u32 = mul_hi_u24(a, b);
    /// `D = min(S0.i32, S1.i32)`
    MinI32 [0] (a: i32, b: i32) -> i32 = a.min(b);
    /// `D = max(S0.i32, S1.i32)`
    MaxI32 [0] (a: i32, b: i32) -> i32 = a.max(b);
    /// `D = min(S0.u32, S1.u32)`
    MinU32 [0] (a: u32, b: u32) -> u32 = a.min(b);
    /// `D = max(S0.u32, S1.u32)`
    MaxU32 [0] (a: u32, b: u32) -> u32 = a.max(b);
    /// `D = S1 >> S0[4:0]`
    Lshrrev [0] (a: u32, b: u32) -> u32 = b >> (a & 31);
    /// `D = S1.i32 >> S0[4:0]`
    Ashrrev [0] (a: u32, b: i32) -> i32 = b >> (a & 31);
    /// `D = S1 << S0[4:0]`
    Lshlrev [0] (a: u32, b: u32) -> u32 = b << (a & 31);
    /// `D = S0 & S1`
    And [0] (a: u32, b: u32) -> u32 = a & b;
    /// `D = S0 | S1`
    Or [0] (a: u32, b: u32) -> u32 = a | b;
    /// `D = S0 ^ S1`
    Xor [0] (a: u32, b: u32) -> u32 = a ^ b;
    /// `D = ~(S0 ^ S1)`
    Xnor [0] (a: u32, b: u32) -> u32 = !(a ^ b);
    /// `D = S0 * S1`
    MulLo [0] (a: u32, b: u32) -> u32 = a.wrapping_mul(b);
    /// `D = (S0 * S1) >> 32`, unsigned
    MulHiU32 [0] (a: u32, b: u32) -> u32 = mul_hi_u32(a, b);
    /// `D = (S0 * S1) >> 32`, signed
    MulHiI32 [0] (a: i32, b: i32) -> i32 = mul_hi_i32(a, b);
    /// `D = S1 + ones in S0`
    Bcnt [0] (a: u32, b: u32) -> u32 = b.wrapping_add(a.count_ones());
    /// `D = ((1 << S0[4:0]) - 1) << S1[4:0]`
    Bfm [0] (a: u32, b: u32) -> u32 = bfm(a, b);
    /// `D = {sat(S1.u32).u16, sat(S0.u32).u16}`
    PackU16 [0] (a: u32, b: u32) -> u32 = a.min(0xffff) | b.min(0xffff) << 16;
    /// `D = {sat(S1.i32).i16, sat(S0.i32).i16}`
    PackI16 [0] (a: i32, b: i32) -> u32 = a.clamp(-32768, 32767) as u32 & 0xffff | (b.clamp(-32768, 32767) as u32) << 16;
    /// `D = S0.i24 * S1.i24 + S2`
    MadI24 [0] (a: u32, b: u32, c: u32) -> u32 = (i24(a) as u32).wrapping_mul(i24(b) as u32).wrapping_add(c);
    /// `D = S0.u24 * S1.u24 + S2`
    MadU24 [0] (a: u32, b: u32, c: u32) -> u32 = u24(a).wrapping_mul(u24(b)).wrapping_add(c);
    /// With clamp.
    MadI24Clamp [0] (a: u32, b: u32, c: i32) -> i32 =
        (i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c)).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    /// With clamp.
    MadU24Clamp [0] (a: u32, b: u32, c: u32) -> u32 =
        (u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c)).min(u32::MAX.into()) as u32;
    /// `D = S0 << 1`, with 197 over it if a bit left at the top
    Prng [0] (a: u32) -> u32 = a << 1 ^ if a >> 31 != 0 { 197 } else { 0 };
    /// `D.b16 = {sat.i8(S1.i32 >> S2[4:0]), sat.i8(S0.i32 >> S2[4:0])}`
    AshrPkI8 [0] (a: i32, b: i32, c: u32) -> u32 = {
        let byte = |x: i32| (x >> (c & 31)).clamp(-128, 127) as u32 & 0xff;
        byte(a) | byte(b) << 8
    };
    /// `D.b16 = {sat.u8(S1.i32 >> S2[4:0]), sat.u8(S0.i32 >> S2[4:0])}`
    AshrPkU8 [0] (a: i32, b: i32, c: u32) -> u32 = {
        let byte = |x: i32| (x >> (c & 31)).clamp(0, 255) as u32;
        byte(a) | byte(b) << 8
    };
    /// `D = (S0 >> S1[4:0]) & ((1 << S2[4:0]) - 1)`
    BfeU32 [0] (a: u32, b: u32, c: u32) -> u32 = bfe_u32(a, b, c);
    /// The same, sign-extended.
    BfeI32 [0] (a: u32, b: u32, c: u32) -> u32 = bfe_i32(a, b, c);
    /// `D = (S0 & S1) | (~S0 & S2)`
    Bfi [0] (a: u32, b: u32, c: u32) -> u32 = bfi(a, b, c);
    /// Per byte `(S0 + S1 + S2[0]) >> 1`
    Lerp [0] (a: u32, b: u32, c: u32) -> u32 = lerp_u8(a, b, c);
    /// `D = {S0, S1} >> S2[4:0]`
    Alignbit [0] (a: u32, b: u32, c: u32) -> u32 = align(a, b, c & 31);
    /// `D = {S0, S1} >> (8 * S2[1:0])`
    Alignbyte [0] (a: u32, b: u32, c: u32) -> u32 = align(a, b, 8 * (c & 3));
    /// `D = min(S0, S1, S2)`
    Min3I32 [0] (a: i32, b: i32, c: i32) -> i32 = a.min(b).min(c);
    /// `D = max(S0, S1, S2)`
    Max3I32 [0] (a: i32, b: i32, c: i32) -> i32 = a.max(b).max(c);
    /// The middle one.
    Med3I32 [0] (a: i32, b: i32, c: i32) -> i32 = med3(a, b, c);
    /// `D = min(S0, S1, S2)`
    Min3U32 [0] (a: u32, b: u32, c: u32) -> u32 = a.min(b).min(c);
    /// `D = max(S0, S1, S2)`
    Max3U32 [0] (a: u32, b: u32, c: u32) -> u32 = a.max(b).max(c);
    /// The middle one.
    Med3U32 [0] (a: u32, b: u32, c: u32) -> u32 = med3(a, b, c);
    /// `D = S2 + sum of |S0.u8 - S1.u8|`
    SadU8 [0] (a: u32, b: u32, c: u32) -> u32 = sad_u8(a, b, c);
    /// `D = S2 + (sum of |S0.u8 - S1.u8| << 16)`
    SadHiU8 [0] (a: u32, b: u32, c: u32) -> u32 = (sad_u8(a, b, 0) << 16).wrapping_add(c);
    /// `D = S2 + sum of |S0.u16 - S1.u16|`
    SadU16 [0] (a: u32, b: u32, c: u32) -> u32 = sad_u16(a, b, c);
    /// `D = S2 + |S0 - S1|`
    SadU32 [0] (a: u32, b: u32, c: u32) -> u32 = a.abs_diff(b).wrapping_add(c);
    /// As `v_sad_u8`, without the bytes where S1 is 0.
    MsadU8 [0] (a: u32, b: u32, c: u32) -> u32 = msad_u8(a, b, c);
    /// Bytes of `{S0, S1}` by the bytes of S2.
    Perm [0] (a: u32, b: u32, c: u32) -> u32 = perm(a, b, c);
    /// `D = (S0 ^ S1) + S2`
    Xad [0] (a: u32, b: u32, c: u32) -> u32 = (a ^ b).wrapping_add(c);
    /// `D = (S0 << S1[4:0]) + S2`
    LshlAdd [0] (a: u32, b: u32, c: u32) -> u32 = (a << (b & 31)).wrapping_add(c);
    /// `D = (S0 + S1) << S2[4:0]`
    AddLshl [0] (a: u32, b: u32, c: u32) -> u32 = a.wrapping_add(b) << (c & 31);
    /// `D = S0 + S1 + S2`
    Add3 [0] (a: u32, b: u32, c: u32) -> u32 = a.wrapping_add(b).wrapping_add(c);
    /// `D = (S0 << S1[4:0]) | S2`
    LshlOr [0] (a: u32, b: u32, c: u32) -> u32 = (a << (b & 31)) | c;
    /// `D = (S0 & S1) | S2`
    AndOr [0] (a: u32, b: u32, c: u32) -> u32 = a & b | c;
    /// `D = S0 | S1 | S2`
    Or3 [0] (a: u32, b: u32, c: u32) -> u32 = a | b | c;
    /// `D = {u8 of sat(S0.i16[1]), u8 of sat(S0.i16[0])}`
    SatPkU8I16 [0] (a: u32) -> u32 =
        (a as i16).clamp(0, 255) as u32 | ((a >> 16) as i16).clamp(0, 255) as u32 * 256;
}

/// The operation of a 32-bit integer instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    let clamp = inst.mods.clamp;
    Some(match inst.op {
        Op::VMovB32 | Op::VAccvgprReadB32 | Op::VAccvgprWriteB32 | Op::VAccvgprMovB32 => Choice::fast::<Mov>(),
        Op::VNotB32 => Choice::op::<Not>(),
        Op::VBfrevB32 => Choice::op::<Bfrev>(),
        Op::VFfbhU32 => Choice::op::<FfbhU32>(),
        Op::VFfblB32 => Choice::op::<FfblB32>(),
        Op::VFfbhI32 => Choice::op::<FfbhI32>(),
        Op::VAddU32 => {
            if clamp {
                Choice::op::<AddU32Clamp>()
            } else {
                Choice::fast::<AddU32>()
            }
        }
        Op::VSubU32 => {
            if clamp {
                Choice::op::<SubU32Clamp>()
            } else {
                Choice::fast::<SubU32>()
            }
        }
        Op::VSubrevU32 => {
            if clamp {
                Choice::op::<SubrevU32Clamp>()
            } else {
                Choice::fast::<SubrevU32>()
            }
        }
        Op::VAddI32 => {
            if clamp {
                Choice::op::<AddI32Clamp>()
            } else {
                Choice::fast::<AddU32>()
            }
        }
        Op::VSubI32 => {
            if clamp {
                Choice::op::<SubI32Clamp>()
            } else {
                Choice::fast::<SubU32>()
            }
        }
        Op::VMulI32I24 => Choice::op::<MulI24>(),
        Op::VMulHiI32I24 => Choice::op::<MulHiI24>(),
        Op::VMulU32U24 => Choice::fast::<MulU24>(),
        Op::VMulHiU32U24 => Choice::op::<MulHiU24>(),
        Op::VMinI32 => Choice::op::<MinI32>(),
        Op::VMaxI32 => Choice::op::<MaxI32>(),
        Op::VMinU32 => Choice::op::<MinU32>(),
        Op::VMaxU32 => Choice::op::<MaxU32>(),
        Op::VLshrrevB32 => Choice::fast::<Lshrrev>(),
        Op::VAshrrevI32 => Choice::fast::<Ashrrev>(),
        Op::VLshlrevB32 => Choice::fast::<Lshlrev>(),
        Op::VAndB32 => Choice::fast::<And>(),
        Op::VOrB32 => Choice::fast::<Or>(),
        Op::VXorB32 => Choice::fast::<Xor>(),
        Op::VXnorB32 => Choice::op::<Xnor>(),
        Op::VMulLoU32 | Op::VMulLoI32 => Choice::fast::<MulLo>(),
        Op::VMulHiU32 => Choice::fast::<MulHiU32>(),
        Op::VMulHiI32 => Choice::op::<MulHiI32>(),
        Op::VBcntU32B32 => Choice::op::<Bcnt>(),
        Op::VBfmB32 => Choice::op::<Bfm>(),
        Op::VCvtPkU16U32 => Choice::op::<PackU16>(),
        Op::VCvtPkI16I32 => Choice::op::<PackI16>(),
        Op::VMadI32I24 => {
            if clamp {
                Choice::op::<MadI24Clamp>()
            } else {
                Choice::op::<MadI24>()
            }
        }
        Op::VMadU32U24 => {
            if clamp {
                Choice::op::<MadU24Clamp>()
            } else {
                Choice::fast::<MadU24>()
            }
        }
        Op::VBfeU32 => Choice::fast::<BfeU32>(),
        Op::VBfeI32 => Choice::op::<BfeI32>(),
        Op::VBfiB32 => Choice::fast::<Bfi>(),
        Op::VLerpU8 => Choice::op::<Lerp>(),
        Op::VAlignbitB32 => Choice::op::<Alignbit>(),
        Op::VAlignbyteB32 => Choice::op::<Alignbyte>(),
        Op::VMin3I32 => Choice::op::<Min3I32>(),
        Op::VMax3I32 => Choice::op::<Max3I32>(),
        Op::VMed3I32 => Choice::op::<Med3I32>(),
        Op::VMin3U32 => Choice::op::<Min3U32>(),
        Op::VMax3U32 => Choice::op::<Max3U32>(),
        Op::VMed3U32 => Choice::op::<Med3U32>(),
        Op::VSadU8 => Choice::op::<SadU8>(),
        Op::VSadHiU8 => Choice::op::<SadHiU8>(),
        Op::VSadU16 => Choice::op::<SadU16>(),
        Op::VSadU32 => Choice::op::<SadU32>(),
        Op::VMsadU8 => Choice::op::<MsadU8>(),
        Op::VPermB32 => Choice::hot::<Perm>(),
        Op::VXadU32 => Choice::op::<Xad>(),
        Op::VLshlAddU32 => Choice::fast::<LshlAdd>(),
        Op::VAddLshlU32 => Choice::fast::<AddLshl>(),
        Op::VAdd3U32 => Choice::fast::<Add3>(),
        Op::VLshlOrB32 => Choice::fast::<LshlOr>(),
        Op::VAndOrB32 => Choice::fast::<AndOr>(),
        Op::VOr3B32 => Choice::fast::<Or3>(),
        Op::VSatPkU8I16 => Choice::op::<SatPkU8I16>(),
        Op::VPrngB32 => Choice::op::<Prng>(),
        Op::VAshrPkI8I32 => Choice::op::<AshrPkI8>().with(KEEP_HALF),
        Op::VAshrPkU8I32 => Choice::op::<AshrPkU8>().with(KEEP_HALF),
        _ => return None,
    })
}
