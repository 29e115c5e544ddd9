//! f16 arithmetic and functions, and conversions from and to f16. Sums, products and quotients of f16 computed in f32 and
//! rounded again are correctly rounded (24 bits are more than twice 11 and two). Which half of the destination a result
//! takes and whether the other is cleared is as for 16-bit integers.

use super::driver::{Choice, ops};
use super::modifiers::flag::KEEP_HALF;
use super::word::Half;
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

/// `r` unless it is NaN; then the NaN that the sources determine.
#[inline(always)]
fn settle(r: u16, sources: &[u16]) -> Half {
    let nan = nan_f16(sources);
    Half(if is_nan_f16(r) { nan } else { r })
}

#[inline(always)]
fn one(a: Half, f: impl Fn(u16) -> u16) -> Half {
    settle(f(a.0), &[a.0])
}

#[inline(always)]
fn through_f32(a: Half, f: impl Fn(f32) -> f32) -> Half {
    one(a, |a| f32_to_f16(f(f16_to_f32(a))))
}

#[inline(always)]
fn two(a: Half, b: Half, f: impl Fn(f32, f32) -> f32) -> Half {
    settle(f32_to_f16(f(f16_to_f32(a.0), f16_to_f32(b.0))), &[a.0, b.0])
}

/// `a * b + c` with two roundings.
#[inline(always)]
fn mad(a: Half, b: Half, c: Half) -> Half {
    let product = f32_to_f16(f16_to_f32(a.0) * f16_to_f32(b.0));
    settle(f32_to_f16(f16_to_f32(product) + f16_to_f32(c.0)), &[a.0, b.0, c.0])
}

/// `a * b + c` with one rounding.
#[inline(always)]
fn fma(a: Half, b: Half, c: Half) -> Half {
    settle(fma_f16(a.0, b.0, c.0), &[a.0, b.0, c.0])
}

ops! {
    /// `D = S0 + S1`
    AddF16 [0] (a: Half, b: Half) -> Half = two(a, b, |x, y| x + y);
    /// `D = S0 - S1`
    SubF16 [0] (a: Half, b: Half) -> Half = two(a, b, |x, y| x - y);
    /// `D = S1 - S0`
    SubrevF16 [0] (a: Half, b: Half) -> Half = two(a, b, |x, y| y - x);
    /// `D = S0 * S1`
    MulF16 [0] (a: Half, b: Half) -> Half = two(a, b, |x, y| x * y);
    /// `D = S0 * S1 + D`, two roundings
    MacF16 [ACC] (a: Half, b: Half, c: Half) -> Half = mad(a, b, c);
    /// `D = S0 * S1 + S2`, two roundings
    MadF16 [0] (a: Half, b: Half, c: Half) -> Half = mad(a, b, c);
    /// `D = S0 * S1 + S2`, one rounding
    FmaF16 [0] (a: Half, b: Half, c: Half) -> Half = fma(a, b, c);
    /// `D = max(S0, S1)`
    MaxF16 [0] (a: Half, b: Half) -> Half = Half(max_f16(a.0, b.0));
    /// `D = min(S0, S1)`
    MinF16 [0] (a: Half, b: Half) -> Half = Half(min_f16(a.0, b.0));
    /// `D = min(S0, S1, S2)`
    Min3F16 [0] (a: Half, b: Half, c: Half) -> Half = Half(min3_f16(a.0, b.0, c.0));
    /// `D = max(S0, S1, S2)`
    Max3F16 [0] (a: Half, b: Half, c: Half) -> Half = Half(max3_f16(a.0, b.0, c.0));
    /// The middle one.
    Med3F16 [0] (a: Half, b: Half, c: Half) -> Half = Half(med3_f16(a.0, b.0, c.0));
    /// `D = S0 * 2 ** S1.i16`
    LdexpF16 [0] (a: Half, b: i16) -> Half = one(a, |a| ldexp_f16(a, b));
    /// `D = 1 / S0`
    RcpF16 [0] (a: Half) -> Half = one(a, rcp_f16);
    /// `D = sqrt(S0)`
    SqrtF16 [0] (a: Half) -> Half = one(a, sqrt_f16);
    /// `D = 1 / sqrt(S0)`
    RsqF16 [0] (a: Half) -> Half = one(a, rsq_f16);
    /// `D = log2(S0)`
    LogF16 [0] (a: Half) -> Half = one(a, log2_f16);
    /// `D = 2 ** S0`
    ExpF16 [0] (a: Half) -> Half = one(a, exp2_f16);
    /// `D = sin(S0 * 2pi)`
    SinF16 [0] (a: Half) -> Half = one(a, sin_f16);
    /// `D = cos(S0 * 2pi)`
    CosF16 [0] (a: Half) -> Half = one(a, cos_f16);
    /// Mantissa in +-[0.5, 1).
    FrexpMantF16 [0] (a: Half) -> Half = one(a, frexp_mant_f16);
    /// Exponent, 0 for zero, infinity and NaN.
    FrexpExpF16 [0] (a: Half) -> i16 = frexp_exp_f16(a.0);
    /// Toward -infinity.
    FloorF16 [0] (a: Half) -> Half = through_f32(a, f32::floor);
    /// Toward +infinity.
    CeilF16 [0] (a: Half) -> Half = through_f32(a, f32::ceil);
    /// Toward zero.
    TruncF16 [0] (a: Half) -> Half = through_f32(a, f32::trunc);
    /// To nearest even.
    RndneF16 [0] (a: Half) -> Half = through_f32(a, f32::round_ties_even);
    /// `D = S0 - floor(S0)`
    FractF16 [0] (a: Half) -> Half = one(a, fract_f16);
    /// Fixes the special cases of a quotient S0 of S2 / S1.
    DivFixupF16 [0] (a: Half, b: Half, c: Half) -> Half = Half(div_fixup_f16(a.0, b.0, c.0));

    /// Unsigned to f16.
    CvtF16U16 [0] (a: u16) -> Half = Half(f32_to_f16(a.into()));
    /// Signed to f16.
    CvtF16I16 [0] (a: i16) -> Half = Half(f32_to_f16(a.into()));
    /// f16 to unsigned, toward zero, saturating, NaN to 0.
    CvtU16F16 [0] (a: Half) -> u16 = f16_to_u16(a.0);
    /// f16 to signed, toward zero, saturating, NaN to 0.
    CvtI16F16 [0] (a: Half) -> i16 = f16_to_i16(a.0);
    /// `D = snorm16(S0)`
    CvtNormI16 [0] (a: Half) -> u16 = norm_i16(f16_to_f32(a.0));
    /// `D = unorm16(S0)`
    CvtNormU16 [0] (a: Half) -> u16 = norm_u16(f16_to_f32(a.0));
    /// `D = {snorm16(S1), snorm16(S0)}`
    CvtPknormI16 [0] (a: Half, b: Half) -> u32 =
        u32::from(norm_i16(f16_to_f32(a.0))) | u32::from(norm_i16(f16_to_f32(b.0))) << 16;
    /// `D = {unorm16(S1), unorm16(S0)}`
    CvtPknormU16 [0] (a: Half, b: Half) -> u32 =
        u32::from(norm_u16(f16_to_f32(a.0))) | u32::from(norm_u16(f16_to_f32(b.0))) << 16;
}

/// The operation of an f16 instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VAddF16 => Choice::op::<AddF16>(),
        Op::VSubF16 => Choice::op::<SubF16>(),
        Op::VSubrevF16 => Choice::op::<SubrevF16>(),
        Op::VMulF16 => Choice::op::<MulF16>(),
        Op::VMacF16 => Choice::op::<MacF16>().with(KEEP_HALF),
        Op::VMadmkF16 | Op::VMadakF16 | Op::VMadF16 => Choice::op::<MadF16>().with(KEEP_HALF),
        Op::VMadLegacyF16 => Choice::op::<MadF16>(),
        Op::VFmaF16 | Op::VFmamkF16 | Op::VFmaakF16 => Choice::op::<FmaF16>().with(KEEP_HALF),
        Op::VFmaLegacyF16 => Choice::op::<FmaF16>(),
        Op::VMaxF16 => Choice::op::<MaxF16>(),
        Op::VMinF16 => Choice::op::<MinF16>(),
        Op::VMin3F16 => Choice::op::<Min3F16>().with(KEEP_HALF),
        Op::VMax3F16 => Choice::op::<Max3F16>().with(KEEP_HALF),
        Op::VMed3F16 => Choice::op::<Med3F16>().with(KEEP_HALF),
        Op::VLdexpF16 => Choice::op::<LdexpF16>(),
        Op::VRcpF16 => Choice::op::<RcpF16>(),
        Op::VSqrtF16 => Choice::op::<SqrtF16>(),
        Op::VRsqF16 => Choice::op::<RsqF16>(),
        Op::VLogF16 => Choice::op::<LogF16>(),
        Op::VExpF16 => Choice::op::<ExpF16>(),
        Op::VSinF16 => Choice::op::<SinF16>(),
        Op::VCosF16 => Choice::op::<CosF16>(),
        Op::VFrexpMantF16 => Choice::op::<FrexpMantF16>(),
        Op::VFrexpExpI16F16 => Choice::op::<FrexpExpF16>(),
        Op::VFloorF16 => Choice::op::<FloorF16>(),
        Op::VCeilF16 => Choice::op::<CeilF16>(),
        Op::VTruncF16 => Choice::op::<TruncF16>(),
        Op::VRndneF16 => Choice::op::<RndneF16>(),
        Op::VFractF16 => Choice::op::<FractF16>(),
        Op::VDivFixupF16 => Choice::op::<DivFixupF16>().with(KEEP_HALF),
        Op::VDivFixupLegacyF16 => Choice::op::<DivFixupF16>(),
        Op::VCvtF16U16 => Choice::op::<CvtF16U16>(),
        Op::VCvtF16I16 => Choice::op::<CvtF16I16>(),
        Op::VCvtU16F16 => Choice::op::<CvtU16F16>(),
        Op::VCvtI16F16 => Choice::op::<CvtI16F16>(),
        Op::VCvtNormI16F16 => Choice::op::<CvtNormI16>(),
        Op::VCvtNormU16F16 => Choice::op::<CvtNormU16>(),
        Op::VCvtPknormI16F16 => Choice::op::<CvtPknormI16>(),
        Op::VCvtPknormU16F16 => Choice::op::<CvtPknormU16>(),
        _ => return None,
    })
}
