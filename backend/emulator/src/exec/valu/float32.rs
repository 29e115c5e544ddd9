//! f32 arithmetic and functions, and conversions from and to f32.

use super::driver::{Choice, ops};
use super::modifiers::flag::{KEEP_HALF, KEEP_LOW};
use super::word::{Half, Mixed, Pair};
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

/// Applies a function of f32 bits.
#[inline(always)]
fn bits2(f: impl Fn(u32, u32) -> u32, a: f32, b: f32) -> f32 {
    f32::from_bits(f(a.to_bits(), b.to_bits()))
}

/// Applies a function of f32 bits.
#[inline(always)]
fn bits3(f: impl Fn(u32, u32, u32) -> u32, a: f32, b: f32, c: f32) -> f32 {
    f32::from_bits(f(a.to_bits(), b.to_bits(), c.to_bits()))
}

/// As a product where zero times anything is zero.
#[inline(always)]
fn mul_legacy(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

/// A product rounded before the sum, denormals flushed all the way: the older multiply-adds do not have them, whatever MODE
/// says.
#[inline(always)]
fn mad(a: f32, b: f32, c: f32) -> f32 {
    let flushed = |x: f32| f32::from_bits(flush_f32(x.to_bits()));
    flushed(flushed(flushed(a) * flushed(b)) + flushed(c))
}

/// The same, where zero times anything is zero.
#[inline(always)]
fn mad_legacy(a: f32, b: f32, c: f32) -> f32 {
    let flushed = |x: f32| f32::from_bits(flush_f32(x.to_bits()));
    flushed(flushed(mul_legacy(flushed(a), flushed(b))) + flushed(c))
}

/// f32 to f16 bits, with the NaN rule.
#[inline(always)]
fn half(x: f32) -> Half {
    Half(f32_to_f16(x))
}

ops! {
    /// `D = S0 + S1`
    AddF32 [NAN] (a: f32, b: f32) -> f32 = a + b;
    /// `D = S0 - S1`
    SubF32 [NAN] (a: f32, b: f32) -> f32 = a - b;
    /// `D = S1 - S0`
    SubrevF32 [NAN] (a: f32, b: f32) -> f32 = b - a;
    /// `D = S0 * S1`
    MulF32 [NAN] (a: f32, b: f32) -> f32 = a * b;
    /// `D = S0 * S1`, zero times anything is zero
    MulLegacyF32 [NAN] (a: f32, b: f32) -> f32 = mul_legacy(a, b);
    /// `D = S0 * S1 + S2`, one rounding
    FmaF32 [NAN] (a: f32, b: f32, c: f32) -> f32 = C::fma_f32(a, b, c);
    /// `D = S0 * S1 + D`, one rounding
    FmacF32 [NAN | ACC] (a: f32, b: f32, c: f32) -> f32 = C::fma_f32(a, b, c);
    /// `D = S0 * S1 + S2`, two roundings
    MadF32 [NAN] (a: f32, b: f32, c: f32) -> f32 = mad(a, b, c);
    /// `D = S0 * S1 + S2`, two roundings, zero times anything is zero
    MadLegacyF32 [NAN] (a: f32, b: f32, c: f32) -> f32 = mad_legacy(a, b, c);
    /// `D = S0 * S1 + D`, two roundings
    MacF32 [NAN | ACC] (a: f32, b: f32, c: f32) -> f32 = mad(a, b, c);
    /// `D = min(S0, S1)`
    MinF32 [0] (a: f32, b: f32) -> f32 = bits2(min_f32, a, b);
    /// `D = max(S0, S1)`
    MaxF32 [0] (a: f32, b: f32) -> f32 = bits2(max_f32, a, b);
    /// `D = min(S0, S1, S2)`
    Min3F32 [0] (a: f32, b: f32, c: f32) -> f32 = bits3(min3_f32, a, b, c);
    /// `D = max(S0, S1, S2)`
    Max3F32 [0] (a: f32, b: f32, c: f32) -> f32 = bits3(max3_f32, a, b, c);
    /// The middle one.
    Med3F32 [0] (a: f32, b: f32, c: f32) -> f32 = bits3(med3_f32, a, b, c);
    /// `D = S0 - floor(S0)`
    FractF32 [NAN] (a: f32) -> f32 = fract_f32(a);
    /// Toward zero.
    TruncF32 [NAN] (a: f32) -> f32 = a.trunc();
    /// Toward +infinity.
    CeilF32 [NAN] (a: f32) -> f32 = a.ceil();
    /// To nearest even.
    RndneF32 [NAN] (a: f32) -> f32 = a.round_ties_even();
    /// Toward -infinity.
    FloorF32 [NAN] (a: f32) -> f32 = a.floor();
    /// `D = 2 ** S0`
    ExpF32 [NAN] (a: f32) -> f32 = exp2_f32(a);
    /// `D = log2(S0)`
    LogF32 [NAN] (a: f32) -> f32 = log2_f32(a);
    /// `D = 1 / S0`
    RcpF32 [NAN] (a: f32) -> f32 = rcp_f32(a);
    /// `D = 1 / sqrt(S0)`
    RsqF32 [NAN] (a: f32) -> f32 = rsq_f32(a);
    /// `D = sqrt(S0)`
    SqrtF32 [NAN] (a: f32) -> f32 = sqrt_f32(a);
    /// `D = sin(S0 * 2pi)`
    SinF32 [NAN] (a: f32) -> f32 = sin_f32(a);
    /// `D = cos(S0 * 2pi)`
    CosF32 [NAN] (a: f32) -> f32 = cos_f32(a);
    /// Exponent, 0 for zero, infinity and NaN.
    FrexpExpF32 [0] (a: f32) -> i32 = frexp_exp_f32(a);
    /// Mantissa in +-[0.5, 1).
    FrexpMantF32 [NAN] (a: f32) -> f32 = frexp_mant_f32(a);
    /// `D = S0 * 2 ** S1.i32`
    LdexpF32 [NAN] (a: f32, b: i32) -> f32 = ldexp_f32(a, b);
    /// Fixes the special cases of a quotient S0 of S2 / S1.
    DivFixupF32 [0] (a: f32, b: f32, c: f32) -> f32 = div_fixup_f32(a, b, c);
    /// Face.
    CubeIdF32 [0] (a: f32, b: f32, c: f32) -> f32 = cube_id(a, b, c);
    /// S coordinate.
    CubeScF32 [0] (a: f32, b: f32, c: f32) -> f32 = cube_sc(a, b, c);
    /// T coordinate.
    CubeTcF32 [0] (a: f32, b: f32, c: f32) -> f32 = cube_tc(a, b, c);
    /// Twice the major axis.
    CubeMaF32 [0] (a: f32, b: f32, c: f32) -> f32 = cube_ma(a, b, c);

    /// Signed to f32.
    CvtF32I32 [0] (a: i32) -> f32 = a as f32;
    /// Unsigned to f32.
    CvtF32U32 [0] (a: u32) -> f32 = a as f32;
    /// f32 to unsigned, toward zero, saturating, NaN to 0.
    CvtU32F32 [0] (a: f32) -> u32 = a as u32;
    /// f32 to signed, toward zero, saturating, NaN to 0.
    CvtI32F32 [0] (a: f32) -> i32 = a as i32;
    /// `D = i32(floor(S0 + 0.5))`
    CvtRpiI32F32 [0] (a: f32) -> i32 = round_half_up_i32(a);
    /// `D = i32(floor(S0))`
    CvtFlrI32F32 [0] (a: f32) -> i32 = a.floor() as i32;
    /// Four bits as sixteenths.
    CvtOffF32I4 [0] (a: u32) -> f32 = offset_i4(a);
    /// Byte 0 to f32.
    CvtF32Ubyte0 [0] (a: u32) -> f32 = (a & 0xff) as f32;
    /// Byte 1 to f32.
    CvtF32Ubyte1 [0] (a: u32) -> f32 = (a >> 8 & 0xff) as f32;
    /// Byte 2 to f32.
    CvtF32Ubyte2 [0] (a: u32) -> f32 = (a >> 16 & 0xff) as f32;
    /// Byte 3 to f32.
    CvtF32Ubyte3 [0] (a: u32) -> f32 = (a >> 24) as f32;
    /// f32 to f16.
    CvtF16F32 [0] (a: f32) -> Half = half(a);
    /// f16 to f32.
    CvtF32F16 [0] (a: Half) -> f32 = f16_to_f32(a.0);
    /// `D = {f16(S1), f16(S0)}`, toward zero
    CvtPkrtz [0] (a: f32, b: f32) -> u32 =
        u32::from(f32_to_f16_toward_zero(a)) | u32::from(f32_to_f16_toward_zero(b)) << 16;
    /// `D = {snorm16(S1), snorm16(S0)}`
    CvtPknormI16 [0] (a: f32, b: f32) -> u32 = u32::from(norm_i16(a)) | u32::from(norm_i16(b)) << 16;
    /// `D = {unorm16(S1), unorm16(S0)}`
    CvtPknormU16 [0] (a: f32, b: f32) -> u32 = u32::from(norm_u16(a)) | u32::from(norm_u16(b)) << 16;
    /// Byte S1[1:0] of S2 replaced by u8(S0).
    CvtPkU8 [0] (a: f32, b: u32, c: u32) -> u32 = insert_u8(a, b, c);
    /// Byte S1[1:0] of D replaced by u8(S0).
    CvtPkaccumU8 [ACC] (a: f32, b: u32, c: u32) -> u32 = insert_u8(a, b, c);

    /// `D = S0 * S1 + S2`, each source f32 or f16
    FmaMixF32 [0] (a: Mixed, b: Mixed, c: Mixed) -> f32 = fma_mixed::<C>(a, b, c);
    /// `D.f16 = f16(S0 * S1 + S2)`, each source f32 or f16
    FmaMixF16 [0] (a: Mixed, b: Mixed, c: Mixed) -> Half = half(fma_mixed::<C>(a, b, c));

    /// `D.lo = S0 by op_sel[0]`, `D.hi = S1 by op_sel[1]`; `op_sel` is applied before, and puts what it selects low.
    PkMovB32 [0] (a: Pair, b: Pair) -> Pair = Pair(a.0, b.0);
}

#[inline(always)]
fn fma_mixed<C: Cpu>(a: Mixed, b: Mixed, c: Mixed) -> f32 {
    nan_fma::<C>(a.0, b.0, c.0)
}

#[inline(always)]
fn settle(r: f32, sources: &[u32]) -> f32 {
    let nan = nan_f32(sources);
    if r.is_nan() { f32::from_bits(nan) } else { r }
}

#[inline(always)]
fn nan_fma<C: Cpu>(a: f32, b: f32, c: f32) -> f32 {
    settle(C::fma_f32(a, b, c), &[a.to_bits(), b.to_bits(), c.to_bits()])
}

/// The operation of an f32 instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VAddF32 => Choice::fast::<AddF32>(),
        Op::VSubF32 => Choice::fast::<SubF32>(),
        Op::VSubrevF32 => Choice::fast::<SubrevF32>(),
        Op::VMulF32 => Choice::fast::<MulF32>(),
        Op::VMulLegacyF32 => Choice::op::<MulLegacyF32>(),
        Op::VFmaF32 | Op::VFmamkF32 | Op::VFmaakF32 => Choice::fast::<FmaF32>(),
        Op::VFmacF32 => Choice::fast::<FmacF32>(),
        Op::VMadF32 | Op::VMadmkF32 | Op::VMadakF32 => Choice::op::<MadF32>(),
        Op::VMadLegacyF32 => Choice::op::<MadLegacyF32>(),
        Op::VMacF32 => Choice::op::<MacF32>(),
        Op::VMinF32 => Choice::hot::<MinF32>(),
        Op::VMaxF32 => Choice::hot::<MaxF32>(),
        Op::VMin3F32 => Choice::op::<Min3F32>(),
        Op::VMax3F32 => Choice::op::<Max3F32>(),
        Op::VMed3F32 => Choice::op::<Med3F32>(),
        Op::VFractF32 => Choice::op::<FractF32>(),
        Op::VTruncF32 => Choice::op::<TruncF32>(),
        Op::VCeilF32 => Choice::op::<CeilF32>(),
        Op::VRndneF32 => Choice::op::<RndneF32>(),
        Op::VFloorF32 => Choice::op::<FloorF32>(),
        Op::VExpF32 | Op::VExpLegacyF32 => Choice::hot::<ExpF32>(),
        Op::VLogF32 | Op::VLogLegacyF32 => Choice::op::<LogF32>(),
        Op::VRcpF32 | Op::VRcpIflagF32 => Choice::hot::<RcpF32>(),
        Op::VRsqF32 => Choice::op::<RsqF32>(),
        Op::VSqrtF32 => Choice::op::<SqrtF32>(),
        Op::VSinF32 => Choice::op::<SinF32>(),
        Op::VCosF32 => Choice::op::<CosF32>(),
        Op::VFrexpExpI32F32 => Choice::op::<FrexpExpF32>(),
        Op::VFrexpMantF32 => Choice::op::<FrexpMantF32>(),
        Op::VLdexpF32 => Choice::op::<LdexpF32>(),
        Op::VDivFixupF32 => Choice::op::<DivFixupF32>(),
        Op::VCubeidF32 => Choice::op::<CubeIdF32>(),
        Op::VCubescF32 => Choice::op::<CubeScF32>(),
        Op::VCubetcF32 => Choice::op::<CubeTcF32>(),
        Op::VCubemaF32 => Choice::op::<CubeMaF32>(),
        Op::VPkAddF32 => Choice::pairs::<AddF32>(),
        Op::VPkMulF32 => Choice::pairs::<MulF32>(),
        Op::VPkFmaF32 => Choice::pairs::<FmaF32>(),
        Op::VPkMovB32 => Choice::op::<PkMovB32>(),
        Op::VFmaMixF32 => Choice::op::<FmaMixF32>(),
        Op::VFmaMixloF16 => Choice::op::<FmaMixF16>().with(KEEP_HALF),
        Op::VFmaMixhiF16 => Choice::op::<FmaMixF16>().with(KEEP_LOW),
        _ => return None,
    })
}

/// The operation of a conversion from or to f32.
pub(crate) fn choose_conversion(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VCvtF32I32 => Choice::fast::<CvtF32I32>(),
        Op::VCvtF32U32 => Choice::hot::<CvtF32U32>(),
        Op::VCvtU32F32 => Choice::op::<CvtU32F32>(),
        Op::VCvtI32F32 => Choice::op::<CvtI32F32>(),
        Op::VCvtRpiI32F32 => Choice::op::<CvtRpiI32F32>(),
        Op::VCvtFlrI32F32 => Choice::op::<CvtFlrI32F32>(),
        Op::VCvtOffF32I4 => Choice::op::<CvtOffF32I4>(),
        Op::VCvtF32Ubyte0 => Choice::op::<CvtF32Ubyte0>(),
        Op::VCvtF32Ubyte1 => Choice::op::<CvtF32Ubyte1>(),
        Op::VCvtF32Ubyte2 => Choice::op::<CvtF32Ubyte2>(),
        Op::VCvtF32Ubyte3 => Choice::op::<CvtF32Ubyte3>(),
        Op::VCvtF16F32 => Choice::hot::<CvtF16F32>(),
        Op::VCvtF32F16 => Choice::hot::<CvtF32F16>(),
        Op::VCvtPkrtzF16F32 => Choice::op::<CvtPkrtz>(),
        Op::VCvtPknormI16F32 => Choice::op::<CvtPknormI16>(),
        Op::VCvtPknormU16F32 => Choice::op::<CvtPknormU16>(),
        Op::VCvtPkU8F32 => Choice::op::<CvtPkU8>(),
        Op::VCvtPkaccumU8F32 => Choice::op::<CvtPkaccumU8>(),
        _ => return None,
    })
}
