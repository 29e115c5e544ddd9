//! Operations that round, under a rounding mode that is not to nearest: lane by lane, by their own functions. Operations
//! that never round, and those whose result AMD documents by an error bound, are the same in every mode and not here.
//!
//! MODE has one field for f32 and one for f16 and f64. A conversion from f64 to f32 goes by the latter, as the unit does
//! that makes it (LLVM sets that field for it).

use rocfire_isa::Op;

use super::modifiers::Frame;
use super::word::Kind;
use crate::numeric::*;
use crate::wave::{LANES, Wave};

/// The rounding modes of a wave.
#[derive(Clone, Copy)]
struct Modes {
    single: Rounding,
    double: Rounding,
}

/// The bits of a result from those of its sources; the mask bit is that of `v_div_fmas`.
type Lane = fn([u64; 3], bool, Modes) -> u64;

fn f32s(s: [u64; 3]) -> [f32; 3] {
    s.map(|bits| f32::from_bits(bits as u32))
}

fn f64s(s: [u64; 3]) -> [f64; 3] {
    s.map(f64::from_bits)
}

/// A half as f64.
fn half(bits: u64) -> f64 {
    f64::from(f16_to_f32(bits as u16))
}

/// An f32 result; a NaN is the one that the first `count` sources determine.
fn single(r: f32, s: [u64; 3], count: usize) -> u64 {
    if r.is_nan() { nan_f32(&s.map(|bits| bits as u32)[..count]).into() } else { r.to_bits().into() }
}

fn double(r: f64, s: [u64; 3], count: usize) -> u64 {
    let nan = s[..count].iter().copied().find(|&bits| is_nan_f64(bits)).map_or(NAN_F64, quiet_f64);
    if r.is_nan() { nan } else { r.to_bits() }
}

fn half_result(r: f64, s: [u64; 3], count: usize, rounding: Rounding) -> u64 {
    let sources = s.map(|bits| bits as u16);
    if r.is_nan() { nan_f16(&sources[..count]).into() } else { f64_to_f16_directed(r, rounding).into() }
}

/// Both halves of packed sources.
fn halves(s: [u64; 3], f: impl Fn([u64; 3]) -> u64) -> u64 {
    f(s.map(|bits| bits & 0xffff)) | f(s.map(|bits| bits >> 16 & 0xffff)) << 16
}

fn add_f16(s: [u64; 3], rounding: Rounding) -> u64 {
    half_result(sum_directed(half(s[0]), half(s[1]), rounding), s, 2, rounding)
}

fn mul_f16(s: [u64; 3], rounding: Rounding) -> u64 {
    half_result(half(s[0]) * half(s[1]), s, 2, rounding)
}

fn fma_f16(s: [u64; 3], rounding: Rounding) -> u64 {
    half_result(sum_directed(half(s[0]) * half(s[1]), half(s[2]), rounding), s, 3, rounding)
}

/// `a * b + c` with two roundings.
fn mad_f16(s: [u64; 3], rounding: Rounding) -> u64 {
    let product = f64_to_f16_directed(half(s[0]) * half(s[1]), rounding);
    half_result(sum_directed(half(product.into()), half(s[2]), rounding), s, 3, rounding)
}

/// Whether a source of a product is zero, which the legacy multiplies take for the whole of it.
fn zero_times(s: [u64; 3]) -> bool {
    s[0] << 33 == 0 || s[1] << 33 == 0
}

/// The same in f32, denormals flushed on the way.
fn mad_f32([a, b, c]: [f32; 3], rounding: Rounding) -> f32 {
    let flushed = |x: f32| f32::from_bits(flush_f32(x.to_bits()));
    let product = flushed(mul_f32_directed(flushed(a), flushed(b), rounding));
    flushed(add_f32_directed(product, flushed(c), rounding))
}

/// The f32 that `v_fma_mix` computes before it is narrowed or not.
fn mix(s: [u64; 3], modes: Modes) -> u64 {
    let [a, b, c] = f32s(s);
    single(fma_f32_directed(a, b, c, modes.single), s, 3)
}

/// The function of an operation that rounds.
fn function(op: Op) -> Option<Lane> {
    of_f32(op).or_else(|| of_f64(op)).or_else(|| of_f16(op))
}

fn of_f32(op: Op) -> Option<Lane> {
    Some(match op {
        Op::VAddF32 | Op::VPkAddF32 => |s, _, m| {
            let [a, b, _] = f32s(s);
            single(add_f32_directed(a, b, m.single), s, 2)
        },
        Op::VSubF32 => |s, _, m| {
            let [a, b, _] = f32s(s);
            single(add_f32_directed(a, -b, m.single), s, 2)
        },
        Op::VSubrevF32 => |s, _, m| {
            let [a, b, _] = f32s(s);
            single(add_f32_directed(b, -a, m.single), s, 2)
        },
        Op::VMulF32 | Op::VPkMulF32 => |s, _, m| {
            let [a, b, _] = f32s(s);
            single(mul_f32_directed(a, b, m.single), s, 2)
        },
        Op::VFmaF32 | Op::VFmacF32 | Op::VFmamkF32 | Op::VFmaakF32 | Op::VPkFmaF32 => |s, _, m| {
            let [a, b, c] = f32s(s);
            single(fma_f32_directed(a, b, c, m.single), s, 3)
        },
        Op::VMadF32 | Op::VMacF32 | Op::VMadmkF32 | Op::VMadakF32 => |s, _, m| single(mad_f32(f32s(s), m.single), s, 3),
        Op::VMulLegacyF32 => |s, _, m| match zero_times(s) {
            true => 0,
            false => {
                let [a, b, _] = f32s(s);
                single(mul_f32_directed(a, b, m.single), s, 2)
            }
        },
        Op::VFmaLegacyF32 | Op::VFmaDx9ZeroF32 | Op::VFmacLegacyF32 | Op::VFmacDx9ZeroF32 => |s, _, m| {
            let [a, b, c] = f32s(s);
            let sum =
                if zero_times(s) { add_f32_directed(0.0, c, m.single) } else { fma_f32_directed(a, b, c, m.single) };
            single(sum, s, 3)
        },
        Op::VDivFmasF32 => |s, mask, m| {
            let [a, b, c] = f32s(s);
            // As `div_fmas_f32`: the estimate tells which way the scaling went.
            let up = s[2] >> 23 & 0xff > 127;
            let scale = if !mask { 1.0 } else { 2f64.powi(if up { 64 } else { -64 }) };
            let sum = sum_directed(f64::from(a) * f64::from(b), c.into(), m.single);
            single(f64_to_f32_directed(sum * scale, m.single), s, 3)
        },
        Op::VLdexpF32 => |s, _, m| {
            let [a, _, _] = f32s(s);
            let factor = 2f64.powi((s[1] as u32 as i32).clamp(-300, 300));
            single(f64_to_f32_directed(f64::from(a) * factor, m.single), s, 1)
        },
        Op::VCvtF32I32 => |s, _, m| single(f64_to_f32_directed(f64::from(s[0] as u32 as i32), m.single), s, 0),
        Op::VCvtF32U32 => |s, _, m| single(f64_to_f32_directed(f64::from(s[0] as u32), m.single), s, 0),
        Op::VFmaMixF32 => |s, _, m| mix(s, m),
        Op::VFmaMixloF16 | Op::VFmaMixhiF16 => |s, _, m| {
            let wide = f32::from_bits(mix(s, m) as u32);
            if wide.is_nan() { f32_to_f16(wide).into() } else { f64_to_f16_directed(wide.into(), m.double).into() }
        },
        _ => return None,
    })
}

fn of_f64(op: Op) -> Option<Lane> {
    Some(match op {
        Op::VAddF64 => |s, _, m| {
            let [a, b, _] = f64s(s);
            double(add_f64_directed(a, b, m.double), s, 2)
        },
        Op::VMulF64 => |s, _, m| {
            let [a, b, _] = f64s(s);
            double(mul_f64_directed(a, b, m.double), s, 2)
        },
        Op::VFmaF64 | Op::VFmacF64 => |s, _, m| {
            let [a, b, c] = f64s(s);
            double(fma_f64_directed(a, b, c, 0, m.double), s, 3)
        },
        Op::VDivFmasF64 => |s, mask, m| {
            let [a, b, c] = f64s(s);
            let up = s[2] >> 52 & 0x7ff > 1023;
            let scale = if !mask {
                0
            } else if up {
                128
            } else {
                -128
            };
            double(fma_f64_directed(a, b, c, scale, m.double), s, 3)
        },
        Op::VLdexpF64 => |s, _, m| {
            let [a, _, _] = f64s(s);
            let zero = if a.is_sign_negative() { -0.0 } else { 0.0 };
            let exponent = (s[1] as u32 as i32).clamp(-2200, 2200);
            double(fma_f64_directed(a, 1.0, zero, exponent, m.double), s, 1)
        },
        // The NaN rule of the conversion does not depend on the mode.
        Op::VCvtF32F64 => |s, _, m| {
            let [a, _, _] = f64s(s);
            let nan = (s[0] >> 32) as u32 & 0x8000_0000 | NAN_F32 | (s[0] >> 29) as u32 & 0x7f_ffff;
            if a.is_nan() { nan.into() } else { f64_to_f32_directed(a, m.double).to_bits().into() }
        },
        _ => return None,
    })
}

fn of_f16(op: Op) -> Option<Lane> {
    Some(match op {
        Op::VAddF16 => |s, _, m| add_f16(s, m.double),
        Op::VSubF16 => |s, _, m| {
            let r = sum_directed(half(s[0]), -half(s[1]), m.double);
            half_result(r, s, 2, m.double)
        },
        Op::VSubrevF16 => |s, _, m| {
            let r = sum_directed(half(s[1]), -half(s[0]), m.double);
            half_result(r, s, 2, m.double)
        },
        Op::VMulF16 => |s, _, m| mul_f16(s, m.double),
        Op::VFmaF16 | Op::VFmaLegacyF16 | Op::VFmacF16 | Op::VFmamkF16 | Op::VFmaakF16 => {
            |s, _, m| fma_f16(s, m.double)
        }
        Op::VMadF16 | Op::VMadLegacyF16 | Op::VMacF16 | Op::VMadmkF16 | Op::VMadakF16 => |s, _, m| mad_f16(s, m.double),
        Op::VLdexpF16 => |s, _, m| {
            let factor = 2f64.powi((s[1] as u16 as i16).clamp(-60, 60).into());
            half_result(half(s[0]) * factor, s, 1, m.double)
        },
        Op::VCvtF16F32 => |s, _, m| {
            let [a, _, _] = f32s(s);
            if a.is_nan() { f32_to_f16(a).into() } else { f64_to_f16_directed(a.into(), m.double).into() }
        },
        Op::VCvtF16U16 => |s, _, m| f64_to_f16_directed(f64::from(s[0] as u16), m.double).into(),
        Op::VCvtF16I16 => |s, _, m| f64_to_f16_directed(f64::from(s[0] as u16 as i16), m.double).into(),
        Op::VPkAddF16 => |s, _, m| halves(s, |s| add_f16(s, m.double)),
        Op::VPkMulF16 => |s, _, m| halves(s, |s| mul_f16(s, m.double)),
        Op::VPkFmaF16 | Op::VPkFmacF16 => |s, _, m| halves(s, |s| fma_f16(s, m.double)),
        _ => return None,
    })
}

/// Does the operation on the frame's lanes, if it is one that rounds. `kinds` are those of its sources, `result` that of
/// its result, `mask` what `v_div_fmas` reads.
#[cold]
#[inline(never)]
pub(super) fn run(w: &mut Wave, op: Op, frame: &Frame, kinds: &[Kind], result: Kind, mask: u64) -> bool {
    let Some(lane_function) = function(op) else { return false };
    let modes = Modes { single: Rounding::from_bits(w.mode), double: Rounding::from_bits(w.mode >> 2) };
    for lane in (0..LANES).filter(|lane| frame.exec >> lane & 1 != 0) {
        let mut sources = [0; 3];
        for (i, kind) in kinds.iter().enumerate() {
            sources[i] = u64::from(w.lane(frame.src[i], lane));
            if kind.dwords() == 2 {
                sources[i] |= u64::from(w.lane(frame.src[i] + 1, lane)) << 32;
            }
        }
        let bits = lane_function(sources, mask >> lane & 1 != 0, modes);
        w.set_lane(frame.dst, lane, bits as u32);
        if result.dwords() == 2 {
            w.set_lane(frame.dst + 1, lane, (bits >> 32) as u32);
        }
    }
    true
}
