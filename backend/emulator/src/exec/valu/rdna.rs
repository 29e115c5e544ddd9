//! Operations that only the RDNA line has: 16-bit logic and moves, minima of maxima, the minima and maxima of IEEE 754-2019,
//! and products where zero times anything is zero. 16-bit results leave the other half of their register alone, which
//! [`exec`](crate::exec) sees to for all operations of these families.

use super::driver::{Choice, ops};
use super::word::{Half, Halves, Shorts};
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

#[inline(always)]
fn bits2(f: impl Fn(u32, u32) -> u32, a: f32, b: f32) -> f32 {
    f32::from_bits(f(a.to_bits(), b.to_bits()))
}

#[inline(always)]
fn bits2_f64(f: impl Fn(u64, u64) -> u64, a: f64, b: f64) -> f64 {
    f64::from_bits(f(a.to_bits(), b.to_bits()))
}

/// `f(a, b)`, then `g` of that and `c`.
#[inline(always)]
fn chain(f: impl Fn(u32, u32) -> u32, g: impl Fn(u32, u32) -> u32, a: f32, b: f32, c: f32) -> f32 {
    f32::from_bits(g(f(a.to_bits(), b.to_bits()), c.to_bits()))
}

#[inline(always)]
fn chain_f16(f: impl Fn(u16, u16) -> u16, g: impl Fn(u16, u16) -> u16, a: Half, b: Half, c: Half) -> Half {
    Half(g(f(a.0, b.0), c.0))
}

#[inline(always)]
fn pairs(f: impl Fn(u16, u16) -> u16, a: Halves, b: Halves) -> Halves {
    let high = f((a.0 >> 16) as u16, (b.0 >> 16) as u16);
    Halves(u32::from(f(a.0 as u16, b.0 as u16)) | u32::from(high) << 16)
}

/// The middle one; with a NaN among them their minimum.
#[inline(always)]
fn med3_num_f32(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        chain(min_num_f32, min_num_f32, a, b, c)
    } else {
        f32::from_bits(med3_f32(a.to_bits(), b.to_bits(), c.to_bits()))
    }
}

#[inline(always)]
fn med3_num_f16(a: Half, b: Half, c: Half) -> Half {
    if is_nan_f16(a.0) || is_nan_f16(b.0) || is_nan_f16(c.0) {
        chain_f16(min_num_f16, min_num_f16, a, b, c)
    } else {
        Half(med3_f16(a.0, b.0, c.0))
    }
}

/// `a * b + c` where zero times anything is zero.
#[inline(always)]
fn fma_zero<C: Cpu>(a: f32, b: f32, c: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 + c } else { C::fma_f32(a, b, c) }
}

/// The product of lighting: the lowest number where the exponent or the base is of no use.
#[inline(always)]
fn mullit(a: f32, b: f32, c: f32) -> f32 {
    let useless = b.is_nan() || b <= -f32::MAX || c.is_nan() || c <= 0.0;
    match (useless, a == 0.0 || b == 0.0) {
        (true, _) => -f32::MAX,
        (false, true) => 0.0,
        (false, false) => a * b,
    }
}

/// `c + a.lo * b.lo + a.hi * b.hi` in f32, rounded once more to f16.
#[inline(always)]
fn dot2_f16<C: Cpu>(a: Halves, b: Halves, c: Half) -> Half {
    let part = |x: u32| f16_to_f32(x as u16);
    let low = C::fma_f32(part(a.0), part(b.0), f16_to_f32(c.0));
    let r = f32_to_f16(C::fma_f32(part(a.0 >> 16), part(b.0 >> 16), low));
    let nan = nan_f16(&[a.0 as u16, b.0 as u16, (a.0 >> 16) as u16, (b.0 >> 16) as u16, c.0]);
    Half(if is_nan_f16(r) { nan } else { r })
}

/// The same of bf16, rounded to bf16.
#[inline(always)]
fn dot2_bf16<C: Cpu>(a: Shorts, b: Shorts, c: u16) -> u16 {
    let part = |x: u32| bf16_to_f32(x as u16);
    let low = C::fma_f32(part(a.0), part(b.0), bf16_to_f32(c));
    f32_to_bf16(C::fma_f32(part(a.0 >> 16), part(b.0 >> 16), low))
}

/// f32 to a signed 16-bit integer, toward zero, saturating, NaN to 0.
#[inline(always)]
fn i16_of(x: f32) -> u32 {
    u32::from(x as i16 as u16)
}

/// f32 to an unsigned 16-bit integer.
#[inline(always)]
fn u16_of(x: f32) -> u32 {
    u32::from(x as u16)
}

ops! {
    /// `D = S0 ^ S1 ^ S2`
    Xor3 [0] (a: u32, b: u32, c: u32) -> u32 = a ^ b ^ c;
    /// `D = min(max(S0, S1), S2)`
    MaxminI32 [0] (a: i32, b: i32, c: i32) -> i32 = a.max(b).min(c);
    /// `D = max(min(S0, S1), S2)`
    MinmaxI32 [0] (a: i32, b: i32, c: i32) -> i32 = a.min(b).max(c);
    /// `D = min(max(S0, S1), S2)`
    MaxminU32 [0] (a: u32, b: u32, c: u32) -> u32 = a.max(b).min(c);
    /// `D = max(min(S0, S1), S2)`
    MinmaxU32 [0] (a: u32, b: u32, c: u32) -> u32 = a.min(b).max(c);
    /// `D = min(max(S0, S1), S2)`
    MaxminF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(max_f32, min_f32, a, b, c);
    /// `D = max(min(S0, S1), S2)`
    MinmaxF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(min_f32, max_f32, a, b, c);
    /// `D = min(max(S0, S1), S2)`
    MaxminF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(max_f16, min_f16, a, b, c);
    /// `D = max(min(S0, S1), S2)`
    MinmaxF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(min_f16, max_f16, a, b, c);

    /// `D = S0`
    MovB16 [0] (a: u16) -> u16 = a;
    /// `D = ~S0`
    NotB16 [0] (a: u16) -> u16 = !a;
    /// `D = S0 & S1`
    AndB16 [0] (a: u16, b: u16) -> u16 = a & b;
    /// `D = S0 | S1`
    OrB16 [0] (a: u16, b: u16) -> u16 = a | b;
    /// `D = S0 ^ S1`
    XorB16 [0] (a: u16, b: u16) -> u16 = a ^ b;
    /// `D.i32 = S0.i16`
    CvtI32I16 [0] (a: i16) -> i32 = a.into();
    /// `D.u32 = S0.u16`
    CvtU32U16 [0] (a: u16) -> u32 = a.into();
    /// `D = {i16(S1), i16(S0)}`
    CvtPkI16F32 [0] (a: f32, b: f32) -> u32 = i16_of(a) | i16_of(b) << 16;
    /// `D = {u16(S1), u16(S0)}`
    CvtPkU16F32 [0] (a: f32, b: f32) -> u32 = u16_of(a) | u16_of(b) << 16;
    /// `D.u16 = {u8 of sat(S0.i16[1]), u8 of sat(S0.i16[0])}`
    SatPkU8I16 [0] (a: u32) -> u16 =
        (a as i16).clamp(0, 255) as u16 | ((a >> 16) as i16).clamp(0, 255) as u16 * 256;
    /// `D = S0 * S1 + D`, one rounding
    FmacF16 [ACC] (a: Half, b: Half, c: Half) -> Half = {
        let r = fma_f16(a.0, b.0, c.0);
        Half(if is_nan_f16(r) { nan_f16(&[a.0, b.0, c.0]) } else { r })
    };
    /// `D = {S0, S1} >> S2.u16[4:0]`
    AlignbitB16 [0] (a: u32, b: u32, c: u16) -> u32 = align(a, b, u32::from(c) & 31);
    /// `D = {S0, S1} >> (8 * S2.u16[1:0])`
    AlignbyteB16 [0] (a: u32, b: u32, c: u16) -> u32 = align(a, b, 8 * (u32::from(c) & 3));

    /// `D = S0 * S1 + S2`, zero times anything is zero
    FmaZeroF32 [NAN] (a: f32, b: f32, c: f32) -> f32 = fma_zero::<C>(a, b, c);
    /// `D = S0 * S1 + D`, zero times anything is zero
    FmacZeroF32 [NAN | ACC] (a: f32, b: f32, c: f32) -> f32 = fma_zero::<C>(a, b, c);
    /// `D = S0 * S1 + D`, two roundings, zero times anything is zero
    MacZeroF32 [NAN | ACC] (a: f32, b: f32, c: f32) -> f32 = if a == 0.0 || b == 0.0 { 0.0 + c } else { a * b + c };
    /// `D = S0 * S1`, or the lowest number where S1 or S2 is of no use
    Mullit [NAN] (a: f32, b: f32, c: f32) -> f32 = mullit(a, b, c);
    /// `D.f16 = S2.f16 + S0.f16[0] * S1.f16[0] + S0.f16[1] * S1.f16[1]`
    Dot2F16F16 [0] (a: Halves, b: Halves, c: Half) -> Half = dot2_f16::<C>(a, b, c);

    /// `D.bf16 = S2.bf16 + S0.bf16[0] * S1.bf16[0] + S0.bf16[1] * S1.bf16[1]`
    Dot2Bf16Bf16 [0] (a: Shorts, b: Shorts, c: u16) -> u16 = dot2_bf16::<C>(a, b, c);

    /// `D = minimumNumber(S0, S1)`
    MinNumF32 [0] (a: f32, b: f32) -> f32 = bits2(min_num_f32, a, b);
    /// `D = maximumNumber(S0, S1)`
    MaxNumF32 [0] (a: f32, b: f32) -> f32 = bits2(max_num_f32, a, b);
    /// `D = minimum(S0, S1)`
    MinimumF32 [0] (a: f32, b: f32) -> f32 = bits2(minimum_f32, a, b);
    /// `D = maximum(S0, S1)`
    MaximumF32 [0] (a: f32, b: f32) -> f32 = bits2(maximum_f32, a, b);
    /// `D = minimumNumber(S0, S1)`
    MinNumF64 [0] (a: f64, b: f64) -> f64 = bits2_f64(min_num_f64, a, b);
    /// `D = maximumNumber(S0, S1)`
    MaxNumF64 [0] (a: f64, b: f64) -> f64 = bits2_f64(max_num_f64, a, b);
    /// `D = minimum(S0, S1)`
    MinimumF64 [0] (a: f64, b: f64) -> f64 = bits2_f64(minimum_f64, a, b);
    /// `D = maximum(S0, S1)`
    MaximumF64 [0] (a: f64, b: f64) -> f64 = bits2_f64(maximum_f64, a, b);
    /// `D = minimumNumber(S0, S1)`
    MinNumF16 [0] (a: Half, b: Half) -> Half = Half(min_num_f16(a.0, b.0));
    /// `D = maximumNumber(S0, S1)`
    MaxNumF16 [0] (a: Half, b: Half) -> Half = Half(max_num_f16(a.0, b.0));
    /// `D = minimum(S0, S1)`
    MinimumF16 [0] (a: Half, b: Half) -> Half = Half(minimum_f16(a.0, b.0));
    /// `D = maximum(S0, S1)`
    MaximumF16 [0] (a: Half, b: Half) -> Half = Half(maximum_f16(a.0, b.0));
    /// `minimumNumber` of three.
    Min3NumF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(min_num_f32, min_num_f32, a, b, c);
    /// `maximumNumber` of three.
    Max3NumF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(max_num_f32, max_num_f32, a, b, c);
    /// The middle one.
    Med3NumF32 [0] (a: f32, b: f32, c: f32) -> f32 = med3_num_f32(a, b, c);
    /// `minimum` of three.
    Minimum3F32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(minimum_f32, minimum_f32, a, b, c);
    /// `maximum` of three.
    Maximum3F32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(maximum_f32, maximum_f32, a, b, c);
    /// `maximumNumber(minimumNumber(S0, S1), S2)`
    MinmaxNumF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(min_num_f32, max_num_f32, a, b, c);
    /// `minimumNumber(maximumNumber(S0, S1), S2)`
    MaxminNumF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(max_num_f32, min_num_f32, a, b, c);
    /// `maximum(minimum(S0, S1), S2)`
    MinimummaximumF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(minimum_f32, maximum_f32, a, b, c);
    /// `minimum(maximum(S0, S1), S2)`
    MaximumminimumF32 [0] (a: f32, b: f32, c: f32) -> f32 = chain(maximum_f32, minimum_f32, a, b, c);
    /// `minimumNumber` of three.
    Min3NumF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(min_num_f16, min_num_f16, a, b, c);
    /// `maximumNumber` of three.
    Max3NumF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(max_num_f16, max_num_f16, a, b, c);
    /// The middle one.
    Med3NumF16 [0] (a: Half, b: Half, c: Half) -> Half = med3_num_f16(a, b, c);
    /// `minimum` of three.
    Minimum3F16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(minimum_f16, minimum_f16, a, b, c);
    /// `maximum` of three.
    Maximum3F16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(maximum_f16, maximum_f16, a, b, c);
    /// `maximumNumber(minimumNumber(S0, S1), S2)`
    MinmaxNumF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(min_num_f16, max_num_f16, a, b, c);
    /// `minimumNumber(maximumNumber(S0, S1), S2)`
    MaxminNumF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(max_num_f16, min_num_f16, a, b, c);
    /// `maximum(minimum(S0, S1), S2)`
    MinimummaximumF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(minimum_f16, maximum_f16, a, b, c);
    /// `minimum(maximum(S0, S1), S2)`
    MaximumminimumF16 [0] (a: Half, b: Half, c: Half) -> Half = chain_f16(maximum_f16, minimum_f16, a, b, c);
    /// `minimumNumber` of both halves.
    PkMinNumF16 [0] (a: Halves, b: Halves) -> Halves = pairs(min_num_f16, a, b);
    /// `maximumNumber` of both halves.
    PkMaxNumF16 [0] (a: Halves, b: Halves) -> Halves = pairs(max_num_f16, a, b);
    /// `minimum` of both halves.
    PkMinimumF16 [0] (a: Halves, b: Halves) -> Halves = pairs(minimum_f16, a, b);
    /// `maximum` of both halves.
    PkMaximumF16 [0] (a: Halves, b: Halves) -> Halves = pairs(maximum_f16, a, b);
}

/// The operation of an instruction that only RDNA has.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VXor3B32 => Choice::op::<Xor3>(),
        Op::VMaxminI32 => Choice::op::<MaxminI32>(),
        Op::VMinmaxI32 => Choice::op::<MinmaxI32>(),
        Op::VMaxminU32 => Choice::op::<MaxminU32>(),
        Op::VMinmaxU32 => Choice::op::<MinmaxU32>(),
        Op::VMaxminF32 => Choice::op::<MaxminF32>(),
        Op::VMinmaxF32 => Choice::op::<MinmaxF32>(),
        Op::VMaxminF16 => Choice::op::<MaxminF16>(),
        Op::VMinmaxF16 => Choice::op::<MinmaxF16>(),
        Op::VMovB16 => Choice::op::<MovB16>(),
        Op::VNotB16 => Choice::op::<NotB16>(),
        Op::VAndB16 => Choice::op::<AndB16>(),
        Op::VOrB16 => Choice::op::<OrB16>(),
        Op::VXorB16 => Choice::op::<XorB16>(),
        Op::VCvtI32I16 => Choice::op::<CvtI32I16>(),
        Op::VCvtU32U16 => Choice::op::<CvtU32U16>(),
        Op::VCvtPkI16F32 => Choice::op::<CvtPkI16F32>(),
        Op::VCvtPkU16F32 => Choice::op::<CvtPkU16F32>(),
        Op::VSatPkU8I16 => Choice::op::<SatPkU8I16>(),
        Op::VFmacF16 => Choice::op::<FmacF16>(),
        Op::VAlignbitB32 => Choice::op::<AlignbitB16>(),
        Op::VAlignbyteB32 => Choice::op::<AlignbyteB16>(),
        Op::VFmaDx9ZeroF32 | Op::VFmaLegacyF32 => Choice::op::<FmaZeroF32>(),
        Op::VFmacDx9ZeroF32 | Op::VFmacLegacyF32 => Choice::op::<FmacZeroF32>(),
        Op::VMacLegacyF32 => Choice::op::<MacZeroF32>(),
        Op::VMullitF32 => Choice::op::<Mullit>(),
        Op::VDot2F16F16 => Choice::op::<Dot2F16F16>(),
        Op::VDot2Bf16Bf16 => Choice::op::<Dot2Bf16Bf16>(),
        _ => return None,
    })
}

/// A minimum or maximum of IEEE 754-2019.
pub(crate) fn choose_2019(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VMinNumF32 => Choice::hot::<MinNumF32>(),
        Op::VMaxNumF32 => Choice::hot::<MaxNumF32>(),
        Op::VMinimumF32 => Choice::op::<MinimumF32>(),
        Op::VMaximumF32 => Choice::op::<MaximumF32>(),
        Op::VMinNumF64 => Choice::op::<MinNumF64>(),
        Op::VMaxNumF64 => Choice::op::<MaxNumF64>(),
        Op::VMinimumF64 => Choice::op::<MinimumF64>(),
        Op::VMaximumF64 => Choice::op::<MaximumF64>(),
        Op::VMinNumF16 => Choice::op::<MinNumF16>(),
        Op::VMaxNumF16 => Choice::op::<MaxNumF16>(),
        Op::VMinimumF16 => Choice::op::<MinimumF16>(),
        Op::VMaximumF16 => Choice::op::<MaximumF16>(),
        Op::VMin3NumF32 => Choice::op::<Min3NumF32>(),
        Op::VMax3NumF32 => Choice::op::<Max3NumF32>(),
        Op::VMed3NumF32 => Choice::op::<Med3NumF32>(),
        Op::VMinimum3F32 => Choice::op::<Minimum3F32>(),
        Op::VMaximum3F32 => Choice::op::<Maximum3F32>(),
        Op::VMinmaxNumF32 => Choice::op::<MinmaxNumF32>(),
        Op::VMaxminNumF32 => Choice::op::<MaxminNumF32>(),
        Op::VMinimummaximumF32 => Choice::op::<MinimummaximumF32>(),
        Op::VMaximumminimumF32 => Choice::op::<MaximumminimumF32>(),
        Op::VMin3NumF16 => Choice::op::<Min3NumF16>(),
        Op::VMax3NumF16 => Choice::op::<Max3NumF16>(),
        Op::VMed3NumF16 => Choice::op::<Med3NumF16>(),
        Op::VMinimum3F16 => Choice::op::<Minimum3F16>(),
        Op::VMaximum3F16 => Choice::op::<Maximum3F16>(),
        Op::VMinmaxNumF16 => Choice::op::<MinmaxNumF16>(),
        Op::VMaxminNumF16 => Choice::op::<MaxminNumF16>(),
        Op::VMinimummaximumF16 => Choice::op::<MinimummaximumF16>(),
        Op::VMaximumminimumF16 => Choice::op::<MaximumminimumF16>(),
        Op::VPkMinNumF16 => Choice::op::<PkMinNumF16>(),
        Op::VPkMaxNumF16 => Choice::op::<PkMaxNumF16>(),
        Op::VPkMinimumF16 => Choice::op::<PkMinimumF16>(),
        Op::VPkMaximumF16 => Choice::op::<PkMaximumF16>(),
        _ => return None,
    })
}
