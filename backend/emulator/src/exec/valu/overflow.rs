//! MODE's FP16_OVFL: "an overflowed FP16 VALU result is clamped to +/- MAX_FP16 regardless of round mode, while still
//! preserving true INF values" (CDNA 3 ISA, table of MODE); conversions to 8-bit floats go by it too.
//!
//! An infinity is true if a source is one, or if the operation has a pole where its source is. What is known of that is
//! gathered before the operation, which may write over its sources, and used on the staged result.

use rocfire_arch::{Arch, Fp8};
use rocfire_isa::Op;

use super::modifiers::FP16_OVFL;
use super::word::Kind;
use crate::step::MicroOp;
use crate::wave::{LANES, Wave};

const INFINITY_F16: u32 = 0x7c00;
const LARGEST_F16: u32 = 0x7bff;

/// Lanes where an infinite result, or its high half, is no overflow. `src` are the staged sources.
pub(super) fn true_infinities(w: &Wave, st: &MicroOp, src: &[u16; 4], kinds: &[Kind]) -> [u64; 2] {
    let pole = st.inst.op.facts().has_pole;
    let mut infinite = [0u64; 2];
    for (i, kind) in kinds.iter().enumerate() {
        let register = src[i];
        for lane in 0..LANES {
            let bits = w.lane(register, lane);
            let half = |bits: u32| bits & 0x7fff == INFINITY_F16 || pole && bits & 0x7fff == 0;
            let halves = match kind {
                Kind::F16 => [half(bits), false],
                Kind::PkF16 => [half(bits), half(bits >> 16)],
                Kind::F32 | Kind::Mix => [bits & 0x7fff_ffff == 0x7f80_0000, false],
                Kind::F64 => [bits == 0 && w.lane(register + 1, lane) & 0x7fff_ffff == 0x7ff0_0000, false],
                Kind::PkF32 | Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => [false, false],
            };
            infinite[0] |= u64::from(halves[0]) << lane;
            infinite[1] |= u64::from(halves[1]) << lane;
        }
    }
    infinite
}

/// Puts the largest number where a half has become infinite by overflow.
pub(super) fn hold_halves(results: &mut [u32; LANES], infinite: [u64; 2], packed: bool) {
    for (lane, result) in results.iter_mut().enumerate() {
        for (half, infinite) in infinite.into_iter().enumerate().take(1 + usize::from(packed)) {
            let shift = 16 * half as u32;
            if *result >> shift & 0x7fff == INFINITY_F16 && infinite >> lane & 1 == 0 {
                *result ^= (INFINITY_F16 ^ LARGEST_F16) << shift;
            }
        }
    }
}

/// What the f32 source of a conversion to 8-bit floats is held to.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// The largest number of the format, which the source then becomes.
    largest: f32,
    /// Whether an infinite source is held too; in the FNUZ formats it becomes NaN.
    infinities: bool,
}

/// The bound of this instruction's f32 sources, if it converts and the wave's mode says so.
pub(super) fn bound_of_source(w: &Wave, arch: Arch, st: &MicroOp) -> Option<Bound> {
    if w.mode & FP16_OVFL == 0 {
        return None;
    }
    let (fp8, infinities) = match arch.info().fp8 {
        Fp8::None => return None,
        Fp8::Fnuz => (240.0, false),
        Fp8::Ocp => (448.0, true),
    };
    let largest = match st.inst.op {
        Op::VCvtPkFp8F32 | Op::VCvtSrFp8F32 => fp8,
        Op::VCvtPkBf8F32 | Op::VCvtSrBf8F32 => 57344.0,
        _ => return None,
    };
    Some(Bound { largest, infinities })
}

/// An f32 within a bound; NaN stays what it is.
pub(super) fn hold(bits: u32, bound: Bound) -> u32 {
    let value = f32::from_bits(bits);
    let held = value.is_finite() || value.is_infinite() && bound.infinities;
    if held { value.clamp(-bound.largest, bound.largest).to_bits() } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_overflow_is_held() {
        let mut results = [0x7c00_fc00; LANES];
        results[1] = 0x7bff_7c01;
        hold_halves(&mut results, [1 << 3, 1 << 2], true);
        assert_eq!(results[..4], [0x7bff_fbff, 0x7bff_7c01, 0x7c00_fbff, 0x7bff_fc00]);
        let mut results = [0x7c00_7c00; LANES];
        hold_halves(&mut results, [0; 2], false);
        assert_eq!(results[0], 0x7c00_7bff);
    }

    #[test]
    fn sources_are_held_to_the_largest_number() {
        let held = |x: f32, infinities| f32::from_bits(hold(x.to_bits(), Bound { largest: 448.0, infinities }));
        assert_eq!(held(449.0, false), 448.0);
        assert_eq!(held(-1e30, true), -448.0);
        assert_eq!(held(1.5, true), 1.5);
        assert_eq!((held(f32::INFINITY, false), held(f32::INFINITY, true)), (f32::INFINITY, 448.0));
        assert!(held(f32::NAN, true).is_nan());
    }
}
