//! bf16: conversions from and to it, the dot product, and the conversions to f16 that came with them. Stochastic rounding
//! adds the upper random bits below the last place that is kept, then truncates.

use rocfire_isa::{Inst, Op};

use super::driver::{Choice, ops};
use super::modifiers::flag::KEEP_HALF;
use super::word::{Halves, Shorts};
use crate::numeric::*;

/// `c + a.lo * b.lo + a.hi * b.hi`: the products exact, the two sums in f32, low product first.
#[inline(always)]
fn dot2<C: Cpu>(a: Shorts, b: Shorts, c: f32) -> f32 {
    let part = |x: u32| bf16_to_f32(x as u16);
    C::fma_f32(part(a.0 >> 16), part(b.0 >> 16), C::fma_f32(part(a.0), part(b.0), c))
}

ops! {
    /// bf16 to f32.
    CvtF32Bf16 [NAN] (a: u16) -> f32 = bf16_to_f32(a);
    /// `D = {bf16(S1), bf16(S0)}`
    CvtPkBf16F32 [0] (a: f32, b: f32) -> u32 = u32::from(f32_to_bf16(a)) | u32::from(f32_to_bf16(b)) << 16;
    /// `D = {f16(S1), f16(S0)}`
    CvtPkF16F32 [0] (a: f32, b: f32) -> Halves =
        Halves(u32::from(f32_to_f16(a)) | u32::from(f32_to_f16(b)) << 16);
    /// `D.b16 = f16(S0)`, rounded by the random bits S1
    CvtSrF16F32 [0] (a: f32, b: u32) -> u32 = f32_to_f16_stochastic(a, b).into();
    /// `D.b16 = bf16(S0)`, rounded by the random bits S1
    CvtSrBf16F32 [0] (a: f32, b: u32) -> u32 = f32_to_bf16_stochastic(a, b).into();
    /// `D.f32 = S2.f32 + S0.bf16[0] * S1.bf16[0] + S0.bf16[1] * S1.bf16[1]`
    Dot2F32Bf16 [NAN] (a: Shorts, b: Shorts, c: f32) -> f32 = dot2::<C>(a, b, c);
    /// `D.f32 += S0.bf16[0] * S1.bf16[0] + S0.bf16[1] * S1.bf16[1]`
    Dot2cF32Bf16 [NAN | ACC] (a: Shorts, b: Shorts, c: f32) -> f32 = dot2::<C>(a, b, c);
}

/// The operation of a bf16 instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VCvtF32Bf16 => Choice::op::<CvtF32Bf16>(),
        Op::VCvtPkBf16F32 => Choice::op::<CvtPkBf16F32>(),
        Op::VCvtPkF16F32 => Choice::op::<CvtPkF16F32>(),
        Op::VCvtSrF16F32 => Choice::op::<CvtSrF16F32>().with(KEEP_HALF),
        Op::VCvtSrBf16F32 => Choice::op::<CvtSrBf16F32>().with(KEEP_HALF),
        Op::VDot2F32Bf16 => Choice::op::<Dot2F32Bf16>(),
        Op::VDot2cF32Bf16 => Choice::op::<Dot2cF32Bf16>(),
        _ => return None,
    })
}
