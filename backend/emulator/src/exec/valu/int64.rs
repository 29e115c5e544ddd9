//! 64-bit integers, and products of 32-bit ones with 64-bit sums.

use super::driver::{Choice, MaskOp, ops};
use crate::numeric::{Cpu, quad_sad_u16};
use rocfire_isa::{Inst, Op};

ops! {
    /// `D = S0`
    MovB64 [0] (a: u64) -> u64 = a;
    /// `D = (S0 << S1[2:0]) + S2`. Shifts above 4 are not defined by the ISA; all three bits are used.
    LshlAddU64 [0] (a: u64, b: u32, c: u64) -> u64 = (a << (b & 7)).wrapping_add(c);
    /// `D = S1 << S0[5:0]`
    LshlrevB64 [0] (a: u32, b: u64) -> u64 = b << (a & 63);
    /// `D = S1 >> S0[5:0]`
    LshrrevB64 [0] (a: u32, b: u64) -> u64 = b >> (a & 63);
    /// `D = S1.i64 >> S0[5:0]`
    AshrrevI64 [0] (a: u32, b: i64) -> i64 = b >> (a & 63);
    /// Four sums of absolute byte differences, each added to 16 bits of S2.
    QsadPkU16U8 [0] (a: u64, b: u32, c: u64) -> u64 = quad_sad_u16(a, b, c, false);
    /// The same, without the bytes where S1 is 0.
    MqsadPkU16U8 [0] (a: u64, b: u32, c: u64) -> u64 = quad_sad_u16(a, b, c, true);
}

/// `{VCC, D} = S0.u32 * S1.u32 + S2.u64`
pub(super) struct MadU64U32;
impl MaskOp for MadU64U32 {
    type S = (u32, u32, u64);
    type R = u64;
    const READS: bool = false;
    const WRITES: bool = true;
    const PROPERTIES: u32 = 0;
    #[inline(always)]
    fn lane<C: Cpu>((a, b, c): Self::S, _: bool) -> (u64, bool) {
        (u64::from(a) * u64::from(b)).overflowing_add(c)
    }
}

/// `{VCC, D} = S0.i32 * S1.i32 + S2.i64`
struct MadI64I32;
impl MaskOp for MadI64I32 {
    type S = (i32, i32, i64);
    type R = i64;
    const READS: bool = false;
    const WRITES: bool = true;
    const PROPERTIES: u32 = 0;
    #[inline(always)]
    fn lane<C: Cpu>((a, b, c): Self::S, _: bool) -> (i64, bool) {
        (i64::from(a) * i64::from(b)).overflowing_add(c)
    }
}

/// The operation of a 64-bit integer instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VMovB64 => Choice::wide::<MovB64>(),
        Op::VLshlAddU64 => Choice::wide::<LshlAddU64>(),
        Op::VLshlrevB64 => Choice::wide::<LshlrevB64>(),
        Op::VLshrrevB64 => Choice::op::<LshrrevB64>(),
        Op::VAshrrevI64 => Choice::op::<AshrrevI64>(),
        Op::VQsadPkU16U8 => Choice::op::<QsadPkU16U8>(),
        Op::VMqsadPkU16U8 => Choice::op::<MqsadPkU16U8>(),
        Op::VMadU64U32 => Choice::hot_mask::<MadU64U32>(),
        Op::VMadI64I32 => Choice::mask::<MadI64I32>(),
        _ => return None,
    })
}
