//! Floating point of the scalar ALU (RDNA 3.5 and 4), and `v_s_…`, which computes elementary functions of scalars.
//!
//! Values, NaNs and denormal modes are as in the vector ALU; f16 values stand in the low half of a register, and a result
//! clears the high half.

use std::cmp::Ordering;

use rocfire_isa::{Format, Inst, Op};

use super::handler;
use crate::numeric::*;
use crate::step::{Constant, Flow, Handlers, MicroOp, Role, Selected};
use crate::wave::Wave;

/// An f32 source, flushed if the mode says so.
fn f32_in(w: &Wave, bits: u32) -> f32 {
    f32::from_bits(if w.mode & 1 << 4 == 0 { flush_f32(bits) } else { bits })
}

/// An f16 source in the low half.
fn f16_in(w: &Wave, bits: u32) -> u16 {
    if w.mode & 1 << 6 == 0 { flush_f16(bits as u16) } else { bits as u16 }
}

/// An f32 result with its NaN settled by the sources, flushed if the mode says so.
fn f32_out(w: &Wave, result: f32, sources: &[f32]) -> u32 {
    let bits = if result.is_nan() {
        sources.iter().find(|x| x.is_nan()).map_or(NAN_F32, |x| x.to_bits() | 1 << 22)
    } else {
        result.to_bits()
    };
    if w.mode & 1 << 5 == 0 { flush_f32(bits) } else { bits }
}

/// The same for f16.
fn f16_out(w: &Wave, result: u16, sources: &[u16]) -> u32 {
    let bits = if is_nan_f16(result) { nan_f16(sources) } else { result };
    u32::from(if w.mode & 1 << 7 == 0 { flush_f16(bits) } else { bits })
}

/// `D = f(S0)`, f32.
macro_rules! one32 {
    (|$a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let a = f32_in(w, s.s32(w, 0));
            let $a = a;
            let result = f32_out(w, $result, &[a]);
            w.set_s32(s.dst[0], result);
            Flow::Next
        })
    };
}

/// `D = f(S0, S1)`, f32.
macro_rules! two32 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let (a, b) = (f32_in(w, s.s32(w, 0)), f32_in(w, s.s32(w, 1)));
            let ($a, $b) = (a, b);
            let result = f32_out(w, $result, &[a, b]);
            w.set_s32(s.dst[0], result);
            Flow::Next
        })
    };
}

/// `D = f(S0)`, f16 through f32, which is wide enough to round twice.
macro_rules! one16 {
    (|$a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let a = f16_in(w, s.s32(w, 0));
            let $a = f16_to_f32(a);
            let result = f16_out(w, f32_to_f16($result), &[a]);
            w.set_s32(s.dst[0], result);
            Flow::Next
        })
    };
}

/// `D = f(S0, S1)`, f16 through f32.
macro_rules! two16 {
    (|$a:pat_param, $b:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let (a, b) = (f16_in(w, s.s32(w, 0)), f16_in(w, s.s32(w, 1)));
            let ($a, $b) = (f16_to_f32(a), f16_to_f32(b));
            let result = f16_out(w, f32_to_f16($result), &[a, b]);
            w.set_s32(s.dst[0], result);
            Flow::Next
        })
    };
}

/// A function of the bits of two sources, which knows its NaNs.
macro_rules! bits {
    ($read:ident, $function:ident) => {
        handler!(|w, _, s| {
            let result = u32::from($function($read(w, s.s32(w, 0)).bits(), $read(w, s.s32(w, 1)).bits()));
            w.set_s32(s.dst[0], result);
            Flow::Next
        })
    };
}

/// The bits of a value.
trait Bits {
    type Bits;
    fn bits(self) -> Self::Bits;
}

impl Bits for f32 {
    type Bits = u32;
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Bits for u16 {
    type Bits = u16;
    fn bits(self) -> u16 {
        self
    }
}

/// `D = f(S0)` without float modes on one of the sides.
macro_rules! convert {
    (|$w:ident, $a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let $a = s.s32(w, 0);
            let $w = &*w;
            let result: u32 = $result;
            w.set_s32(s.dst[0], result);
            Flow::Next
        })
    };
}

/// `D = a * b + c` with one rounding.
fn fma32(w: &mut Wave, s: &MicroOp, c: u32) -> Flow {
    let (a, b, c) = (f32_in(w, s.s32(w, 0)), f32_in(w, s.s32(w, 1)), f32_in(w, c));
    let result = f32_out(w, Baseline::fma_f32(a, b, c), &[a, b, c]);
    w.set_s32(s.dst[0], result);
    Flow::Next
}

/// SCC = whether the condition on the order of the sources holds; the first name is the one that a NaN makes false.
macro_rules! compare {
    ($read:ident, |$a:ident, $b:ident| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $b) = ($read(w, s.s32(w, 0)), $read(w, s.s32(w, 1)));
            w.scc = $result;
            Flow::Next
        })
    };
}

/// An f16 source as f32.
fn f16_wide(w: &Wave, bits: u32) -> f32 {
    f16_to_f32(f16_in(w, bits))
}

/// SOP1.
/// The handler of a scalar operation on floats.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    match inst.format {
        Format::Sop1 => select_one(inst.op),
        Format::Sop2 => select_two(inst.op),
        Format::Sopc => select_compare(inst.op),
        _ => None,
    }
}

fn select_one(op: Op) -> Option<Selected> {
    let single = match op {
        Op::SCeilF32 => one32!(|a| a.ceil()),
        Op::SFloorF32 => one32!(|a| a.floor()),
        Op::STruncF32 => one32!(|a| a.trunc()),
        Op::SRndneF32 => one32!(|a| a.round_ties_even()),
        Op::SCvtF32I32 => convert!(|_w, a| (a as i32 as f32).to_bits()),
        Op::SCvtF32U32 => convert!(|_w, a| (a as f32).to_bits()),
        Op::SCvtI32F32 => convert!(|w, a| f32_in(w, a) as i32 as u32),
        Op::SCvtU32F32 => convert!(|w, a| f32_in(w, a) as u32),
        Op::SCvtF16F32 => convert!(|w, a| {
            let x = f32_in(w, a);
            f16_out(w, f32_to_f16(x), &[f32_to_f16(x)])
        }),
        Op::SCvtF32F16 => convert!(|w, a| f32_out(w, f16_wide(w, a), &[f16_wide(w, a)])),
        Op::SCvtHiF32F16 => convert!(|w, a| f32_out(w, f16_wide(w, a >> 16), &[f16_wide(w, a >> 16)])),
        _ => return select_one_half(op),
    };
    let selected = Selected::scalars(single);
    Some(if op == Op::SCvtF32F16 { selected.with_role(0, Role::Scalar(Constant::B16)) } else { selected })
}

fn select_one_half(op: Op) -> Option<Selected> {
    let handlers = match op {
        Op::SCeilF16 => one16!(|a| a.ceil()),
        Op::SFloorF16 => one16!(|a| a.floor()),
        Op::STruncF16 => one16!(|a| a.trunc()),
        Op::SRndneF16 => one16!(|a| a.round_ties_even()),
        _ => return None,
    };
    Some(Selected::scalars(handlers).with_roles([Role::Scalar(Constant::B16); 4]))
}

/// SOP2.
fn select_two(op: Op) -> Option<Selected> {
    let handlers = match op {
        Op::SAddF32 => two32!(|a, b| a + b),
        Op::SSubF32 => two32!(|a, b| a - b),
        Op::SMulF32 => two32!(|a, b| a * b),
        Op::SMinF32 => bits!(f32_in, min_f32),
        Op::SMaxF32 => bits!(f32_in, max_f32),
        Op::SMinNumF32 => bits!(f32_in, min_num_f32),
        Op::SMaxNumF32 => bits!(f32_in, max_num_f32),
        Op::SMinimumF32 => bits!(f32_in, minimum_f32),
        Op::SMaximumF32 => bits!(f32_in, maximum_f32),
        Op::SFmaakF32 | Op::SFmamkF32 => handler!(|w, _, s| {
            let c = s.s32(w, 2);
            fma32(w, s, c)
        }),
        Op::SFmacF32 => handler!(|w, _, s| {
            let c = w.s32(s.dst[0]);
            fma32(w, s, c)
        }),
        Op::SCvtPkRtzF16F32 => handler!(|w, _, s| {
            let (a, b) = (f32_in(w, s.s32(w, 0)), f32_in(w, s.s32(w, 1)));
            let result = u32::from(f32_to_f16_toward_zero(a)) | u32::from(f32_to_f16_toward_zero(b)) << 16;
            w.set_s32(s.dst[0], result);
            Flow::Next
        }),
        _ => return select_two_halves(op),
    };
    Some(Selected::scalars(handlers))
}

fn select_two_halves(op: Op) -> Option<Selected> {
    let handlers = match op {
        Op::SAddF16 => two16!(|a, b| a + b),
        Op::SSubF16 => two16!(|a, b| a - b),
        Op::SMulF16 => two16!(|a, b| a * b),
        Op::SMinF16 => bits!(f16_in, min_f16),
        Op::SMaxF16 => bits!(f16_in, max_f16),
        Op::SMinNumF16 => bits!(f16_in, min_num_f16),
        Op::SMaxNumF16 => bits!(f16_in, max_num_f16),
        Op::SMinimumF16 => bits!(f16_in, minimum_f16),
        Op::SMaximumF16 => bits!(f16_in, maximum_f16),
        Op::SFmacF16 => handler!(|w, _, s| {
            let (a, b, c) = (f16_in(w, s.s32(w, 0)), f16_in(w, s.s32(w, 1)), f16_in(w, w.s32(s.dst[0])));
            let result = f16_out(w, fma_f16(a, b, c), &[a, b, c]);
            w.set_s32(s.dst[0], result);
            Flow::Next
        }),
        _ => return None,
    };
    Some(Selected::scalars(handlers).with_roles([Role::Scalar(Constant::B16); 4]))
}

/// Unequal and neither is NaN.
fn less_or_greater(a: f32, b: f32) -> bool {
    a.partial_cmp(&b).is_some_and(Ordering::is_ne)
}

/// SOPC. A NaN makes the negated conditions true.
// `!(a >= b)` is not `a < b` with a NaN, which is the point of the negated comparisons.
#[allow(clippy::neg_cmp_op_on_partial_ord, clippy::nonminimal_bool)]
fn select_compare(op: Op) -> Option<Selected> {
    let single = match op {
        Op::SCmpLtF32 => compare!(f32_in, |a, b| a < b),
        Op::SCmpEqF32 => compare!(f32_in, |a, b| a == b),
        Op::SCmpLeF32 => compare!(f32_in, |a, b| a <= b),
        Op::SCmpGtF32 => compare!(f32_in, |a, b| a > b),
        Op::SCmpLgF32 => compare!(f32_in, |a, b| less_or_greater(a, b)),
        Op::SCmpGeF32 => compare!(f32_in, |a, b| a >= b),
        Op::SCmpOF32 => compare!(f32_in, |a, b| !a.is_nan() && !b.is_nan()),
        Op::SCmpUF32 => compare!(f32_in, |a, b| a.is_nan() || b.is_nan()),
        Op::SCmpNgeF32 => compare!(f32_in, |a, b| !(a >= b)),
        Op::SCmpNlgF32 => compare!(f32_in, |a, b| !less_or_greater(a, b)),
        Op::SCmpNgtF32 => compare!(f32_in, |a, b| !(a > b)),
        Op::SCmpNleF32 => compare!(f32_in, |a, b| !(a <= b)),
        Op::SCmpNeqF32 => compare!(f32_in, |a, b| a != b),
        Op::SCmpNltF32 => compare!(f32_in, |a, b| !(a < b)),
        _ => return select_compare_halves(op),
    };
    Some(Selected::scalars(single))
}

#[allow(clippy::neg_cmp_op_on_partial_ord, clippy::nonminimal_bool)]
fn select_compare_halves(op: Op) -> Option<Selected> {
    let half = match op {
        Op::SCmpLtF16 => compare!(f16_wide, |a, b| a < b),
        Op::SCmpEqF16 => compare!(f16_wide, |a, b| a == b),
        Op::SCmpLeF16 => compare!(f16_wide, |a, b| a <= b),
        Op::SCmpGtF16 => compare!(f16_wide, |a, b| a > b),
        Op::SCmpLgF16 => compare!(f16_wide, |a, b| less_or_greater(a, b)),
        Op::SCmpGeF16 => compare!(f16_wide, |a, b| a >= b),
        Op::SCmpOF16 => compare!(f16_wide, |a, b| !a.is_nan() && !b.is_nan()),
        Op::SCmpUF16 => compare!(f16_wide, |a, b| a.is_nan() || b.is_nan()),
        Op::SCmpNgeF16 => compare!(f16_wide, |a, b| !(a >= b)),
        Op::SCmpNlgF16 => compare!(f16_wide, |a, b| !less_or_greater(a, b)),
        Op::SCmpNgtF16 => compare!(f16_wide, |a, b| !(a > b)),
        Op::SCmpNleF16 => compare!(f16_wide, |a, b| !(a <= b)),
        Op::SCmpNeqF16 => compare!(f16_wide, |a, b| a != b),
        Op::SCmpNltF16 => compare!(f16_wide, |a, b| !(a < b)),
        _ => return None,
    };
    Some(Selected::scalars(half).with_roles([Role::Scalar(Constant::B16); 4]))
}

/// `v_s_…`: a scalar through the vector ALU's elementary functions, with the modifiers of VOP3.
pub(crate) fn select_elementary(inst: &Inst) -> Option<Selected> {
    let single = match inst.op {
        Op::VSExpF32 => Handlers::same(|w, _, s| elementary32(w, s, exp2_f32)),
        Op::VSLogF32 => Handlers::same(|w, _, s| elementary32(w, s, log2_f32)),
        Op::VSRcpF32 => Handlers::same(|w, _, s| elementary32(w, s, rcp_f32)),
        Op::VSRsqF32 => Handlers::same(|w, _, s| elementary32(w, s, rsq_f32)),
        Op::VSSqrtF32 => Handlers::same(|w, _, s| elementary32(w, s, sqrt_f32)),
        _ => {
            let half = match inst.op {
                Op::VSExpF16 => Handlers::same(|w, _, s| elementary16(w, s, exp2_f16)),
                Op::VSLogF16 => Handlers::same(|w, _, s| elementary16(w, s, log2_f16)),
                Op::VSRcpF16 => Handlers::same(|w, _, s| elementary16(w, s, rcp_f16)),
                Op::VSRsqF16 => Handlers::same(|w, _, s| elementary16(w, s, rsq_f16)),
                Op::VSSqrtF16 => Handlers::same(|w, _, s| elementary16(w, s, sqrt_f16)),
                _ => return None,
            };
            return Some(Selected::scalars(half).with_roles([Role::Scalar(Constant::B16); 4]));
        }
    };
    Some(Selected::scalars(single))
}

/// Absolute value and negation of the source with sign bit `sign`.
fn signed_source(s: &MicroOp, bits: u32, sign: u32) -> u32 {
    let bits = if s.inst.mods.abs & 1 != 0 { bits & !sign } else { bits };
    if s.inst.mods.neg & 1 != 0 { bits ^ sign } else { bits }
}

/// The result multiplied as `omod` says, where denormals are flushed, and clamped to [0, 1].
fn modified_result(s: &MicroOp, value: f32, flushes: bool) -> f32 {
    let mods = &s.inst.mods;
    let value =
        if mods.omod != 0 && flushes { value * [1.0, 2.0, 4.0, 0.5][usize::from(mods.omod & 3)] + 0.0 } else { value };
    match mods.clamp {
        true if value > 0.0 => value.min(1.0),
        true => 0.0,
        false => value,
    }
}

fn elementary32(w: &mut Wave, s: &MicroOp, function: fn(f32) -> f32) -> Flow {
    let a = f32_in(w, signed_source(s, s.s32(w, 0), 1 << 31));
    let value = modified_result(s, function(a), w.mode & 1 << 5 == 0);
    let result = f32_out(w, value, &[a]);
    w.set_s32(s.dst[0], result);
    Flow::Next
}

fn elementary16(w: &mut Wave, s: &MicroOp, function: fn(u16) -> u16) -> Flow {
    let a = f16_in(w, signed_source(s, s.s32(w, 0), 1 << 15));
    let value = modified_result(s, f16_to_f32(function(a)), w.mode & 1 << 7 == 0);
    let result = f16_out(w, f32_to_f16(value), &[a]);
    w.set_s32(s.dst[0], result);
    Flow::Next
}
