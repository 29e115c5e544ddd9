//! 16-bit integers. Those of VOP1 and VOP2 clear the high half of their destination; those that exist only as VOP3 with
//! `op_sel` keep it (LLVM `zeroesHigh16BitsOfDest`).

use super::driver::{Choice, ops};
use super::modifiers::flag::KEEP_HALF;
use crate::numeric::med3;
use rocfire_isa::{Inst, Op};

ops! {
    /// `D = S0 + S1`
    AddU16 [0] (a: u16, b: u16) -> u16 = a.wrapping_add(b);
    /// With clamp.
    AddU16Clamp [0] (a: u16, b: u16) -> u16 = a.saturating_add(b);
    /// `D = S0 - S1`
    SubU16 [0] (a: u16, b: u16) -> u16 = a.wrapping_sub(b);
    /// With clamp.
    SubU16Clamp [0] (a: u16, b: u16) -> u16 = a.saturating_sub(b);
    /// `D = S1 - S0`
    SubrevU16 [0] (a: u16, b: u16) -> u16 = b.wrapping_sub(a);
    /// With clamp.
    SubrevU16Clamp [0] (a: u16, b: u16) -> u16 = b.saturating_sub(a);
    /// With clamp.
    AddI16Clamp [0] (a: i16, b: i16) -> i16 = a.saturating_add(b);
    /// With clamp.
    SubI16Clamp [0] (a: i16, b: i16) -> i16 = a.saturating_sub(b);
    /// `D = S0 * S1`
    MulLoU16 [0] (a: u16, b: u16) -> u16 = a.wrapping_mul(b);
    /// `D = S1 << S0[3:0]`
    LshlrevB16 [0] (a: u16, b: u16) -> u16 = b << (a & 15);
    /// `D = S1 >> S0[3:0]`
    LshrrevB16 [0] (a: u16, b: u16) -> u16 = b >> (a & 15);
    /// `D = S1.i16 >> S0[3:0]`
    AshrrevI16 [0] (a: u16, b: i16) -> i16 = b >> (a & 15);
    /// `D = max(S0, S1)`
    MaxU16 [0] (a: u16, b: u16) -> u16 = a.max(b);
    /// `D = max(S0, S1)`
    MaxI16 [0] (a: i16, b: i16) -> i16 = a.max(b);
    /// `D = min(S0, S1)`
    MinU16 [0] (a: u16, b: u16) -> u16 = a.min(b);
    /// `D = min(S0, S1)`
    MinI16 [0] (a: i16, b: i16) -> i16 = a.min(b);
    /// `D = S0 * S1 + S2`
    MadU16 [0] (a: u16, b: u16, c: u16) -> u16 = a.wrapping_mul(b).wrapping_add(c);
    /// With clamp.
    MadU16Clamp [0] (a: u16, b: u16, c: u16) -> u16 = (u64::from(a) * u64::from(b) + u64::from(c)).min(0xffff) as u16;
    /// With clamp.
    MadI16Clamp [0] (a: i16, b: i16, c: i16) -> i16 =
        (i64::from(a) * i64::from(b) + i64::from(c)).clamp(-32768, 32767) as i16;
    /// `D.u32 = S0.u16 * S1.u16 + S2.u32`
    MadU32U16 [0] (a: u16, b: u16, c: u32) -> u32 = (u32::from(a) * u32::from(b)).wrapping_add(c);
    /// With clamp.
    MadU32U16Clamp [0] (a: u16, b: u16, c: u32) -> u32 = (u32::from(a) * u32::from(b)).saturating_add(c);
    /// `D.i32 = S0.i16 * S1.i16 + S2.i32`
    MadI32I16 [0] (a: i16, b: i16, c: i32) -> i32 = (i32::from(a) * i32::from(b)).wrapping_add(c);
    /// With clamp.
    MadI32I16Clamp [0] (a: i16, b: i16, c: i32) -> i32 = (i32::from(a) * i32::from(b)).saturating_add(c);
    /// `D = min(S0, S1, S2)`
    Min3I16 [0] (a: i16, b: i16, c: i16) -> i16 = a.min(b).min(c);
    /// `D = max(S0, S1, S2)`
    Max3I16 [0] (a: i16, b: i16, c: i16) -> i16 = a.max(b).max(c);
    /// The middle one.
    Med3I16 [0] (a: i16, b: i16, c: i16) -> i16 = med3(a, b, c);
    /// `D = min(S0, S1, S2)`
    Min3U16 [0] (a: u16, b: u16, c: u16) -> u16 = a.min(b).min(c);
    /// `D = max(S0, S1, S2)`
    Max3U16 [0] (a: u16, b: u16, c: u16) -> u16 = a.max(b).max(c);
    /// The middle one.
    Med3U16 [0] (a: u16, b: u16, c: u16) -> u16 = med3(a, b, c);
    /// `D = {S1.b16, S0.b16}`
    Pack [0] (a: u16, b: u16) -> u32 = u32::from(a) | u32::from(b) << 16;
}

/// The operation of a 16-bit integer instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    let clamp = inst.mods.clamp;
    Some(match inst.op {
        Op::VAddU16 | Op::VAddNcU16 => {
            if clamp {
                Choice::op::<AddU16Clamp>()
            } else {
                Choice::op::<AddU16>()
            }
        }
        Op::VSubU16 | Op::VSubNcU16 => {
            if clamp {
                Choice::op::<SubU16Clamp>()
            } else {
                Choice::op::<SubU16>()
            }
        }
        Op::VSubrevU16 => {
            if clamp {
                Choice::op::<SubrevU16Clamp>()
            } else {
                Choice::op::<SubrevU16>()
            }
        }
        Op::VAddI16 | Op::VAddNcI16 => {
            if clamp { Choice::op::<AddI16Clamp>() } else { Choice::op::<AddU16>() }.with(KEEP_HALF)
        }
        Op::VSubI16 | Op::VSubNcI16 => {
            if clamp { Choice::op::<SubI16Clamp>() } else { Choice::op::<SubU16>() }.with(KEEP_HALF)
        }
        Op::VMulLoU16 => Choice::op::<MulLoU16>(),
        Op::VLshlrevB16 => Choice::op::<LshlrevB16>(),
        Op::VLshrrevB16 => Choice::op::<LshrrevB16>(),
        Op::VAshrrevI16 => Choice::op::<AshrrevI16>(),
        Op::VMaxU16 => Choice::op::<MaxU16>(),
        Op::VMaxI16 => Choice::op::<MaxI16>(),
        Op::VMinU16 => Choice::op::<MinU16>(),
        Op::VMinI16 => Choice::op::<MinI16>(),
        Op::VMadLegacyU16 => {
            if clamp {
                Choice::op::<MadU16Clamp>()
            } else {
                Choice::op::<MadU16>()
            }
        }
        Op::VMadLegacyI16 => {
            if clamp {
                Choice::op::<MadI16Clamp>()
            } else {
                Choice::op::<MadU16>()
            }
        }
        Op::VMadU16 => if clamp { Choice::op::<MadU16Clamp>() } else { Choice::op::<MadU16>() }.with(KEEP_HALF),
        Op::VMadI16 => if clamp { Choice::op::<MadI16Clamp>() } else { Choice::op::<MadU16>() }.with(KEEP_HALF),
        Op::VMadU32U16 => {
            if clamp {
                Choice::op::<MadU32U16Clamp>()
            } else {
                Choice::op::<MadU32U16>()
            }
        }
        Op::VMadI32I16 => {
            if clamp {
                Choice::op::<MadI32I16Clamp>()
            } else {
                Choice::op::<MadI32I16>()
            }
        }
        Op::VMin3I16 => Choice::op::<Min3I16>().with(KEEP_HALF),
        Op::VMax3I16 => Choice::op::<Max3I16>().with(KEEP_HALF),
        Op::VMed3I16 => Choice::op::<Med3I16>().with(KEEP_HALF),
        Op::VMin3U16 => Choice::op::<Min3U16>().with(KEEP_HALF),
        Op::VMax3U16 => Choice::op::<Max3U16>().with(KEEP_HALF),
        Op::VMed3U16 => Choice::op::<Med3U16>().with(KEEP_HALF),
        Op::VPackB32F16 => Choice::op::<Pack>(),
        _ => return None,
    })
}
