//! Operations that read or write a lane mask: carries, `v_cndmask`, and the division helpers.

use super::driver::{Choice, MaskOp};
use crate::numeric::*;
use rocfire_isa::{Inst, Op};

macro_rules! mask_ops {
    ($($(#[$doc:meta])* $name:ident [$reads:literal $writes:literal $properties:expr] ($($a:ident: $t:ty),*; $mask:ident) -> $r:ty = $body:expr;)*) => {
        $($(#[$doc])*
        pub(super) struct $name;
        impl MaskOp for $name {
            type S = ($($t,)*);
            type R = $r;
            const READS: bool = $reads;
            const WRITES: bool = $writes;
            const PROPERTIES: u32 = $properties;
            #[inline(always)]
            fn lane<C: Cpu>(($($a,)*): Self::S, $mask: bool) -> ($r, bool) {
                $body
            }
        })*
    };
}

/// `a + b + carry`, and the carry.
#[inline(always)]
fn add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

/// `a - b - borrow`, and the borrow.
#[inline(always)]
fn sub(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(borrow));
    (difference as u32, difference >> 63 != 0)
}

/// With clamp, an overflowing sum or difference is its bound; the mask still says that it overflowed.
#[inline(always)]
fn saturate((value, overflow): (u32, bool), bound: u32) -> (u32, bool) {
    (if overflow { bound } else { value }, overflow)
}

const NAN: u32 = super::driver::property::NAN;

mask_ops! {
    /// `{mask, D} = S0 + S1`
    AddCo [false true 0] (a: u32, b: u32; _m) -> u32 = add(a, b, false);
    /// `{mask, D} = S0 - S1`
    SubCo [false true 0] (a: u32, b: u32; _m) -> u32 = sub(a, b, false);
    /// `{mask, D} = S1 - S0`
    SubrevCo [false true 0] (a: u32, b: u32; _m) -> u32 = sub(b, a, false);
    /// `{mask, D} = S0 + S1 + mask`
    AddcCo [true true 0] (a: u32, b: u32; m) -> u32 = add(a, b, m);
    /// `{mask, D} = S0 - S1 - mask`
    SubbCo [true true 0] (a: u32, b: u32; m) -> u32 = sub(a, b, m);
    /// `{mask, D} = S1 - S0 - mask`
    SubbrevCo [true true 0] (a: u32, b: u32; m) -> u32 = sub(b, a, m);
    /// With clamp.
    AddCoClamp [false true 0] (a: u32, b: u32; _m) -> u32 = saturate(add(a, b, false), u32::MAX);
    /// With clamp.
    SubCoClamp [false true 0] (a: u32, b: u32; _m) -> u32 = saturate(sub(a, b, false), 0);
    /// With clamp.
    SubrevCoClamp [false true 0] (a: u32, b: u32; _m) -> u32 = saturate(sub(b, a, false), 0);
    /// With clamp.
    AddcCoClamp [true true 0] (a: u32, b: u32; m) -> u32 = saturate(add(a, b, m), u32::MAX);
    /// With clamp.
    SubbCoClamp [true true 0] (a: u32, b: u32; m) -> u32 = saturate(sub(a, b, m), 0);
    /// With clamp.
    SubbrevCoClamp [true true 0] (a: u32, b: u32; m) -> u32 = saturate(sub(b, a, m), 0);
    /// `D = mask ? S1 : S0`
    Cndmask [true false 0] (a: u32, b: u32; m) -> u32 = {
        // Bitwise, or the compiler chooses between addresses, lane by lane.
        let chosen = 0u32.wrapping_sub(u32::from(m));
        (a & !chosen | b & chosen, false)
    };
    /// `D.b16 = mask ? S1.b16 : S0.b16`
    CndmaskB16 [true false 0] (a: u16, b: u16; m) -> u16 = (if m { b } else { a }, false);
    /// `D = S0 scaled for S2 / S1`, `mask = v_div_fmas must scale`
    DivScaleF32 [false true 0] (a: f32, b: f32, c: f32; _m) -> f32 = div_scale_f32(a, b, c);
    /// `D = S0 scaled for S2 / S1`, `mask = v_div_fmas must scale`
    DivScaleF64 [false true 0] (a: f64, b: f64, c: f64; _m) -> f64 = div_scale_f64(a, b, c);
    /// `D = (S0 * S1 + S2) * (mask ? 2 ** +-64 : 1)`
    DivFmasF32 [true false NAN] (a: f32, b: f32, c: f32; m) -> f32 = {
        let (plain, scaled) = (C::fma_f32(a, b, c), div_fmas_f32(a, b, c));
        (if m { scaled } else { plain }, false)
    };
    /// `D = (S0 * S1 + S2) * (mask ? 2 ** +-128 : 1)`
    DivFmasF64 [true false NAN] (a: f64, b: f64, c: f64; m) -> f64 =
        (if m { div_fmas_f64(a, b, c) } else { C::fma_f64(a, b, c) }, false);
}

/// The operation of an instruction with a mask.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    let clamp = inst.mods.clamp;
    Some(match inst.op {
        Op::VAddCoU32 => {
            if clamp {
                Choice::mask::<AddCoClamp>()
            } else {
                Choice::hot_mask::<AddCo>()
            }
        }
        Op::VSubCoU32 => {
            if clamp {
                Choice::mask::<SubCoClamp>()
            } else {
                Choice::hot_mask::<SubCo>()
            }
        }
        Op::VSubrevCoU32 => {
            if clamp {
                Choice::mask::<SubrevCoClamp>()
            } else {
                Choice::mask::<SubrevCo>()
            }
        }
        Op::VAddcCoU32 => {
            if clamp {
                Choice::mask::<AddcCoClamp>()
            } else {
                Choice::hot_mask::<AddcCo>()
            }
        }
        Op::VSubbCoU32 => {
            if clamp {
                Choice::mask::<SubbCoClamp>()
            } else {
                Choice::hot_mask::<SubbCo>()
            }
        }
        Op::VSubbrevCoU32 => {
            if clamp {
                Choice::mask::<SubbrevCoClamp>()
            } else {
                Choice::mask::<SubbrevCo>()
            }
        }
        Op::VCndmaskB32 => Choice::hot_mask::<Cndmask>(),
        Op::VCndmaskB16 => Choice::mask::<CndmaskB16>(),
        Op::VDivScaleF32 => Choice::mask::<DivScaleF32>(),
        Op::VDivScaleF64 => Choice::mask::<DivScaleF64>(),
        Op::VDivFmasF32 => Choice::mask::<DivFmasF32>(),
        Op::VDivFmasF64 => Choice::mask::<DivFmasF64>(),
        _ => return None,
    })
}
