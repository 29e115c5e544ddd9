//! The minima and maxima of three that IEEE 754-2019 defines: a NaN among the sources is the result.

use rocfire_isa::{Inst, Op};

use super::driver::{Choice, ops};
use super::word::Halves;
use crate::numeric::*;

#[inline(always)]
fn of_f32(f: impl Fn(u32, u32, u32) -> u32, a: f32, b: f32, c: f32) -> f32 {
    let bits = [a.to_bits(), b.to_bits(), c.to_bits()];
    let number = f(bits[0], bits[1], bits[2]);
    f32::from_bits(if a.is_nan() || b.is_nan() || c.is_nan() { nan_f32(&bits) } else { number })
}

#[inline(always)]
fn of_f16(f: impl Fn(u16, u16, u16) -> u16, a: u16, b: u16, c: u16) -> u16 {
    let number = f(a, b, c);
    if is_nan_f16(a) || is_nan_f16(b) || is_nan_f16(c) { nan_f16(&[a, b, c]) } else { number }
}

#[inline(always)]
fn pairs(f: impl Fn(u16, u16, u16) -> u16, a: Halves, b: Halves, c: Halves) -> Halves {
    let half = |shift: u32| of_f16(&f, (a.0 >> shift) as u16, (b.0 >> shift) as u16, (c.0 >> shift) as u16);
    Halves(u32::from(half(0)) | u32::from(half(16)) << 16)
}

ops! {
    /// `D = minimum(S0, S1, S2)`
    Minimum3F32 [0] (a: f32, b: f32, c: f32) -> f32 = of_f32(min3_f32, a, b, c);
    /// `D = maximum(S0, S1, S2)`
    Maximum3F32 [0] (a: f32, b: f32, c: f32) -> f32 = of_f32(max3_f32, a, b, c);
    /// `D = minimum(S0, S1, S2)`, of both halves
    PkMinimum3F16 [0] (a: Halves, b: Halves, c: Halves) -> Halves = pairs(min3_f16, a, b, c);
    /// `D = maximum(S0, S1, S2)`, of both halves
    PkMaximum3F16 [0] (a: Halves, b: Halves, c: Halves) -> Halves = pairs(max3_f16, a, b, c);
}

/// The operation of such an instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(match inst.op {
        Op::VMinimum3F32 => Choice::op::<Minimum3F32>(),
        Op::VMaximum3F32 => Choice::op::<Maximum3F32>(),
        Op::VPkMinimum3F16 => Choice::op::<PkMinimum3F16>(),
        Op::VPkMaximum3F16 => Choice::op::<PkMaximum3F16>(),
        _ => return None,
    })
}
