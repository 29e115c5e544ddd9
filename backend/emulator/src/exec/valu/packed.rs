//! VOP3P on 16-bit halves, and dot products. `op_sel`, `op_sel_hi` and the negations are applied before these operations
//! see their sources.

use super::driver::{Choice, ops};
use super::word::{Halves, Shorts};
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

/// Applies `f` to both halves.
#[inline(always)]
fn two(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// Applies `f` to both halves.
#[inline(always)]
fn three(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16, c as u16))
        | u32::from(f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16)) << 16
}

#[inline(always)]
fn signed(a: Shorts, b: Shorts, f: impl Fn(i16, i16) -> i16) -> Shorts {
    Shorts(two(a.0, b.0, |x, y| f(x as i16, y as i16) as u16))
}

#[inline(always)]
fn unsigned(a: Shorts, b: Shorts, f: impl Fn(u16, u16) -> u16) -> Shorts {
    Shorts(two(a.0, b.0, f))
}

#[inline(always)]
fn float(a: Halves, b: Halves, f: impl Fn(f32, f32) -> f32) -> Halves {
    Halves(two(a.0, b.0, |x, y| {
        let r = f32_to_f16(f(f16_to_f32(x), f16_to_f32(y)));
        let nan = nan_f16(&[x, y]);
        if is_nan_f16(r) { nan } else { r }
    }))
}

#[inline(always)]
fn fma(a: Halves, b: Halves, c: Halves) -> Halves {
    Halves(three(a.0, b.0, c.0, |x, y, z| {
        let r = fma_f16(x, y, z);
        let nan = nan_f16(&[x, y, z]);
        if is_nan_f16(r) { nan } else { r }
    }))
}

/// `c + a.lo * b.lo + a.hi * b.hi`: the products exact, the two sums in f32, low product first.
#[inline(always)]
fn dot2<C: Cpu>(a: Halves, b: Halves, c: f32) -> f32 {
    let part = |x: u32| f16_to_f32(x as u16);
    C::fma_f32(part(a.0 >> 16), part(b.0 >> 16), C::fma_f32(part(a.0), part(b.0), c))
}

ops! {
    /// `D = S0 * S1 + S2`
    PkMadU16 [0] (a: Shorts, b: Shorts, c: Shorts) -> Shorts =
        Shorts(three(a.0, b.0, c.0, |x, y, z| x.wrapping_mul(y).wrapping_add(z)));
    /// With clamp.
    PkMadU16Clamp [0] (a: Shorts, b: Shorts, c: Shorts) -> Shorts =
        Shorts(three(a.0, b.0, c.0, |x, y, z| (u64::from(x) * u64::from(y) + u64::from(z)).min(0xffff) as u16));
    /// With clamp.
    PkMadI16Clamp [0] (a: Shorts, b: Shorts, c: Shorts) -> Shorts = Shorts(three(a.0, b.0, c.0, |x, y, z| {
        (i64::from(x as i16) * i64::from(y as i16) + i64::from(z as i16)).clamp(-32768, 32767) as u16
    }));
    /// `D = S0 * S1`
    PkMulLoU16 [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::wrapping_mul);
    /// `D = S0 + S1`
    PkAddU16 [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::wrapping_add);
    /// With clamp.
    PkAddU16Clamp [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::saturating_add);
    /// With clamp.
    PkAddI16Clamp [0] (a: Shorts, b: Shorts) -> Shorts = signed(a, b, i16::saturating_add);
    /// `D = S0 - S1`
    PkSubU16 [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::wrapping_sub);
    /// With clamp.
    PkSubU16Clamp [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::saturating_sub);
    /// With clamp.
    PkSubI16Clamp [0] (a: Shorts, b: Shorts) -> Shorts = signed(a, b, i16::saturating_sub);
    /// `D = S1 << S0[3:0]`
    PkLshlrev [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, |x, y| y << (x & 15));
    /// `D = S1 >> S0[3:0]`
    PkLshrrev [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, |x, y| y >> (x & 15));
    /// `D = S1.i16 >> S0[3:0]`
    PkAshrrev [0] (a: Shorts, b: Shorts) -> Shorts = signed(a, b, |x, y| y >> (x & 15));
    /// `D = max(S0, S1)`
    PkMaxI16 [0] (a: Shorts, b: Shorts) -> Shorts = signed(a, b, i16::max);
    /// `D = min(S0, S1)`
    PkMinI16 [0] (a: Shorts, b: Shorts) -> Shorts = signed(a, b, i16::min);
    /// `D = max(S0, S1)`
    PkMaxU16 [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::max);
    /// `D = min(S0, S1)`
    PkMinU16 [0] (a: Shorts, b: Shorts) -> Shorts = unsigned(a, b, u16::min);
    /// `D = S0 * S1 + S2`, one rounding
    PkFmaF16 [0] (a: Halves, b: Halves, c: Halves) -> Halves = fma(a, b, c);
    /// `D = S0 * S1 + D`, one rounding
    PkFmacF16 [ACC] (a: Halves, b: Halves, c: Halves) -> Halves = fma(a, b, c);
    /// `D = S0 + S1`
    PkAddF16 [0] (a: Halves, b: Halves) -> Halves = float(a, b, |x, y| x + y);
    /// `D = S0 * S1`
    PkMulF16 [0] (a: Halves, b: Halves) -> Halves = float(a, b, |x, y| x * y);
    /// `D = min(S0, S1)`
    PkMinF16 [0] (a: Halves, b: Halves) -> Halves = Halves(two(a.0, b.0, min_f16));
    /// `D = max(S0, S1)`
    PkMaxF16 [0] (a: Halves, b: Halves) -> Halves = Halves(two(a.0, b.0, max_f16));

    /// `D.f32 = S2.f32 + S0.f16[0] * S1.f16[0] + S0.f16[1] * S1.f16[1]`
    Dot2F32F16 [NAN] (a: Halves, b: Halves, c: f32) -> f32 = dot2::<C>(a, b, c);
    /// `D.f32 += S0.f16[0] * S1.f16[0] + S0.f16[1] * S1.f16[1]`
    Dot2cF32F16 [NAN | ACC] (a: Halves, b: Halves, c: f32) -> f32 = dot2::<C>(a, b, c);
    /// `D = S2 + sum of S0.i16 * S1.i16`
    Dot2I32 [0] (a: Shorts, b: Shorts, c: i32) -> i32 = dot_signed::<16>(a.0, b.0, c, false);
    /// With clamp.
    Dot2I32Clamp [0] (a: Shorts, b: Shorts, c: i32) -> i32 = dot_signed::<16>(a.0, b.0, c, true);
    /// `D = S2 + sum of S0.u16 * S1.u16`
    Dot2U32 [0] (a: Shorts, b: Shorts, c: u32) -> u32 = dot_unsigned::<16>(a.0, b.0, c, false);
    /// With clamp.
    Dot2U32Clamp [0] (a: Shorts, b: Shorts, c: u32) -> u32 = dot_unsigned::<16>(a.0, b.0, c, true);
    /// `D = S2 + sum of S0.i8 * S1.i8`
    Dot4I32 [0] (a: u32, b: u32, c: i32) -> i32 = dot_signed::<8>(a, b, c, false);
    /// With clamp.
    Dot4I32Clamp [0] (a: u32, b: u32, c: i32) -> i32 = dot_signed::<8>(a, b, c, true);
    /// `D = S2 + sum of S0.u8 * S1.u8`
    Dot4U32 [0] (a: u32, b: u32, c: u32) -> u32 = dot_unsigned::<8>(a, b, c, false);
    /// With clamp.
    Dot4U32Clamp [0] (a: u32, b: u32, c: u32) -> u32 = dot_unsigned::<8>(a, b, c, true);
    /// `D = S2 + sum of S0.i4 * S1.i4`
    Dot8I32 [0] (a: u32, b: u32, c: i32) -> i32 = dot_signed::<4>(a, b, c, false);
    /// With clamp.
    Dot8I32Clamp [0] (a: u32, b: u32, c: i32) -> i32 = dot_signed::<4>(a, b, c, true);
    /// `D = S2 + sum of S0.u4 * S1.u4`
    Dot8U32 [0] (a: u32, b: u32, c: u32) -> u32 = dot_unsigned::<4>(a, b, c, false);
    /// With clamp.
    Dot8U32Clamp [0] (a: u32, b: u32, c: u32) -> u32 = dot_unsigned::<4>(a, b, c, true);
    /// `D += sum of S0.i16 * S1.i16`
    Dot2cI32 [ACC] (a: Shorts, b: Shorts, c: i32) -> i32 = dot_signed::<16>(a.0, b.0, c, false);
    /// `D += sum of S0.i8 * S1.i8`
    Dot4cI32 [ACC] (a: u32, b: u32, c: i32) -> i32 = dot_signed::<8>(a, b, c, false);
    /// `D += sum of S0.i4 * S1.i4`
    Dot8cI32 [ACC] (a: u32, b: u32, c: i32) -> i32 = dot_signed::<4>(a, b, c, false);
}

/// The operation of a packed 16-bit instruction.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    let clamp = inst.mods.clamp;
    Some(match inst.op {
        Op::VPkMadI16 => {
            if clamp {
                Choice::op::<PkMadI16Clamp>()
            } else {
                Choice::op::<PkMadU16>()
            }
        }
        Op::VPkMadU16 => {
            if clamp {
                Choice::op::<PkMadU16Clamp>()
            } else {
                Choice::op::<PkMadU16>()
            }
        }
        Op::VPkMulLoU16 => Choice::op::<PkMulLoU16>(),
        Op::VPkAddI16 => {
            if clamp {
                Choice::op::<PkAddI16Clamp>()
            } else {
                Choice::op::<PkAddU16>()
            }
        }
        Op::VPkAddU16 => {
            if clamp {
                Choice::op::<PkAddU16Clamp>()
            } else {
                Choice::op::<PkAddU16>()
            }
        }
        Op::VPkSubI16 => {
            if clamp {
                Choice::op::<PkSubI16Clamp>()
            } else {
                Choice::op::<PkSubU16>()
            }
        }
        Op::VPkSubU16 => {
            if clamp {
                Choice::op::<PkSubU16Clamp>()
            } else {
                Choice::op::<PkSubU16>()
            }
        }
        Op::VPkLshlrevB16 => Choice::op::<PkLshlrev>(),
        Op::VPkLshrrevB16 => Choice::op::<PkLshrrev>(),
        Op::VPkAshrrevI16 => Choice::op::<PkAshrrev>(),
        Op::VPkMaxI16 => Choice::op::<PkMaxI16>(),
        Op::VPkMinI16 => Choice::op::<PkMinI16>(),
        Op::VPkMaxU16 => Choice::op::<PkMaxU16>(),
        Op::VPkMinU16 => Choice::op::<PkMinU16>(),
        Op::VPkFmaF16 => Choice::op::<PkFmaF16>(),
        Op::VPkFmacF16 => Choice::op::<PkFmacF16>(),
        Op::VPkAddF16 => Choice::op::<PkAddF16>(),
        Op::VPkMulF16 => Choice::op::<PkMulF16>(),
        Op::VPkMinF16 => Choice::op::<PkMinF16>(),
        Op::VPkMaxF16 => Choice::op::<PkMaxF16>(),
        _ => return None,
    })
}

/// The operation of a dot product.
pub(crate) fn choose_dot(inst: &Inst) -> Option<Choice> {
    let clamp = inst.mods.clamp;
    Some(match inst.op {
        Op::VDot2F32F16 => Choice::op::<Dot2F32F16>(),
        Op::VDot2cF32F16 => Choice::op::<Dot2cF32F16>(),
        Op::VDot2I32I16 => {
            if clamp {
                Choice::op::<Dot2I32Clamp>()
            } else {
                Choice::op::<Dot2I32>()
            }
        }
        Op::VDot2U32U16 => {
            if clamp {
                Choice::op::<Dot2U32Clamp>()
            } else {
                Choice::op::<Dot2U32>()
            }
        }
        Op::VDot4I32I8 => {
            if clamp {
                Choice::op::<Dot4I32Clamp>()
            } else {
                Choice::op::<Dot4I32>()
            }
        }
        Op::VDot4U32U8 => {
            if clamp {
                Choice::op::<Dot4U32Clamp>()
            } else {
                Choice::op::<Dot4U32>()
            }
        }
        Op::VDot8I32I4 => {
            if clamp {
                Choice::op::<Dot8I32Clamp>()
            } else {
                Choice::op::<Dot8I32>()
            }
        }
        Op::VDot8U32U4 => {
            if clamp {
                Choice::op::<Dot8U32Clamp>()
            } else {
                Choice::op::<Dot8U32>()
            }
        }
        Op::VDot2cI32I16 => Choice::op::<Dot2cI32>(),
        Op::VDot4cI32I8 => Choice::op::<Dot4cI32>(),
        Op::VDot8cI32I4 => Choice::op::<Dot8cI32>(),
        _ => return None,
    })
}
