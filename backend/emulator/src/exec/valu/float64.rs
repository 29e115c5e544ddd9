//! f64 arithmetic and functions, and conversions from and to f64.

use super::driver::{Choice, ops};
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

ops! {
    /// `D = S0 + S1`
    AddF64 [NAN] (a: f64, b: f64) -> f64 = a + b;
    /// `D = S0 * S1`
    MulF64 [NAN] (a: f64, b: f64) -> f64 = a * b;
    /// `D = S0 * S1 + S2`, one rounding
    FmaF64 [NAN] (a: f64, b: f64, c: f64) -> f64 = C::fma_f64(a, b, c);
    /// `D = S0 * S1 + D`, one rounding
    FmacF64 [NAN | ACC] (a: f64, b: f64, c: f64) -> f64 = C::fma_f64(a, b, c);
    /// `D = min(S0, S1)`
    MinF64 [0] (a: f64, b: f64) -> f64 = f64::from_bits(min_f64(a.to_bits(), b.to_bits()));
    /// `D = max(S0, S1)`
    MaxF64 [0] (a: f64, b: f64) -> f64 = f64::from_bits(max_f64(a.to_bits(), b.to_bits()));
    /// `D = S0 * 2 ** S1.i32`
    LdexpF64 [NAN] (a: f64, b: i32) -> f64 = ldexp_f64(a, b);
    /// Toward zero.
    TruncF64 [NAN] (a: f64) -> f64 = a.trunc();
    /// Toward +infinity.
    CeilF64 [NAN] (a: f64) -> f64 = a.ceil();
    /// To nearest even.
    RndneF64 [NAN] (a: f64) -> f64 = a.round_ties_even();
    /// Toward -infinity.
    FloorF64 [NAN] (a: f64) -> f64 = a.floor();
    /// `D = S0 - floor(S0)`
    FractF64 [NAN] (a: f64) -> f64 = fract_f64(a);
    /// `D = 1 / S0`
    RcpF64 [NAN] (a: f64) -> f64 = rcp_f64(a);
    /// `D = 1 / sqrt(S0)`
    RsqF64 [NAN] (a: f64) -> f64 = rsq_f64(a);
    /// `D = sqrt(S0)`
    SqrtF64 [NAN] (a: f64) -> f64 = sqrt_f64(a);
    /// Exponent, 0 for zero, infinity and NaN.
    FrexpExpF64 [0] (a: f64) -> i32 = frexp_exp_f64(a);
    /// Mantissa in +-[0.5, 1).
    FrexpMantF64 [NAN] (a: f64) -> f64 = frexp_mant_f64(a);
    /// Fixes the special cases of a quotient S0 of S2 / S1.
    DivFixupF64 [0] (a: f64, b: f64, c: f64) -> f64 = div_fixup_f64(a, b, c);
    /// Segment S1[4:0] of 2/pi for the reduction of S0.
    TrigPreopF64 [0] (a: f64, b: u32) -> f64 = trig_preop_f64(a, b);

    /// f64 to signed, toward zero, saturating, NaN to 0.
    CvtI32F64 [0] (a: f64) -> i32 = a as i32;
    /// f64 to unsigned, toward zero, saturating, NaN to 0.
    CvtU32F64 [0] (a: f64) -> u32 = a as u32;
    /// Signed to f64.
    CvtF64I32 [0] (a: i32) -> f64 = a.into();
    /// Unsigned to f64.
    CvtF64U32 [0] (a: u32) -> f64 = a.into();
    /// f64 to f32.
    CvtF32F64 [0] (a: f64) -> f32 = if a.is_nan() { f32::from_bits(narrow_nan(a)) } else { a as f32 };
    /// f32 to f64.
    CvtF64F32 [0] (a: f32) -> f64 = if a.is_nan() { f64::from_bits(widen_nan(a)) } else { a as f64 };
}

/// An f64 NaN's sign and upper payload as a quiet f32.
#[inline(always)]
fn narrow_nan(a: f64) -> u32 {
    let bits = a.to_bits();
    (bits >> 32) as u32 & 0x8000_0000 | NAN_F32 | (bits >> 29) as u32 & 0x7f_ffff
}

/// An f32 NaN's sign and payload as a quiet f64.
#[inline(always)]
fn widen_nan(a: f32) -> u64 {
    let bits = u64::from(a.to_bits());
    (bits & 0x8000_0000) << 32 | NAN_F64 | (bits & 0x7f_ffff) << 29
}

/// The operation of an f64 instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VAddF64 => Choice::op::<AddF64>(),
        Op::VMulF64 => Choice::op::<MulF64>(),
        Op::VFmaF64 => Choice::op::<FmaF64>(),
        Op::VFmacF64 => Choice::op::<FmacF64>(),
        Op::VMinF64 => Choice::op::<MinF64>(),
        Op::VMaxF64 => Choice::op::<MaxF64>(),
        Op::VLdexpF64 => Choice::op::<LdexpF64>(),
        Op::VTruncF64 => Choice::op::<TruncF64>(),
        Op::VCeilF64 => Choice::op::<CeilF64>(),
        Op::VRndneF64 => Choice::op::<RndneF64>(),
        Op::VFloorF64 => Choice::op::<FloorF64>(),
        Op::VFractF64 => Choice::op::<FractF64>(),
        Op::VRcpF64 => Choice::op::<RcpF64>(),
        Op::VRsqF64 => Choice::op::<RsqF64>(),
        Op::VSqrtF64 => Choice::op::<SqrtF64>(),
        Op::VFrexpExpI32F64 => Choice::op::<FrexpExpF64>(),
        Op::VFrexpMantF64 => Choice::op::<FrexpMantF64>(),
        Op::VDivFixupF64 => Choice::op::<DivFixupF64>(),
        Op::VTrigPreopF64 => Choice::op::<TrigPreopF64>(),
        Op::VCvtI32F64 => Choice::op::<CvtI32F64>(),
        Op::VCvtU32F64 => Choice::op::<CvtU32F64>(),
        Op::VCvtF64I32 => Choice::op::<CvtF64I32>(),
        Op::VCvtF64U32 => Choice::op::<CvtF64U32>(),
        Op::VCvtF32F64 => Choice::op::<CvtF32F64>(),
        Op::VCvtF64F32 => Choice::op::<CvtF64F32>(),
        _ => return None,
    })
}
