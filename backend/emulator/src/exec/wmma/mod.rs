//! The matrix unit of the RDNA line: every dense `v_wmma_*` of gfx11 and gfx12, for wave32 and wave64. The sparse
//! `v_swmmac_*` are not here and stay unknown instructions, which a fault names.
//!
//! D (16 × 16) = A (16 × K) · B (K × 16) + C. Which family and which wave size it is shows in how many registers an operand
//! has, so that an instruction says all that is needed. [`layout`] says where elements lie.
//!
//! # What is computed, exactly
//! - f32 from f16, bf16, FP8 and BF8 (both OCP): as MFMA, from the lowest `k` up, one fused multiply-add in f32 for each,
//!   rounded to nearest even, C first. Denormals are kept.
//! - f16 and bf16 results: the same in f32, C widened, and one rounding to 16 bits (nearest even) at the end.
//! - i32: the exact sum, wrapped to 32 bits, or saturated with `clamp`.
//!
//! A NaN is the default NaN. EXEC and MODE are ignored. Hardware may add in another order and round in between: AMD does not
//! publish it, so last bits may differ from a card's; ours are the same on every host.
//!
//! # Modifiers
//! - 16-bit sources: `neg_lo` negates the elements of even `k` of A (bit 0) and B (bit 1), `neg_hi` those of odd `k`.
//! - Float C: `neg_hi` bit 2 takes the absolute value, then `neg_lo` bit 2 negates.
//! - Integers: `neg_lo` bits 0 and 1 say that A and B are signed.
//! - gfx11, C and D of 16 bits: they are in one half of each register, the upper with `op_sel` bit 2. The other half of D is kept.
//! - Bits without a meaning make an instruction unknown.
//!
//! On gfx11 lanes 16 and up (of A and B) must hold what lanes 0 to 15 hold; only those are read.

mod layout;
#[cfg(test)]
mod tests;

use layout::Layout;
use rocfire_isa::{Inst, Op, OperandKind};

use crate::env::Env;
use crate::exec::mfma::element::Number;
#[cfg(target_arch = "x86_64")]
use crate::numeric::Avx2;
use crate::numeric::{Baseline, Cpu, Float8, NAN_F32, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, float8_to_f32};
use crate::step::{Constant, Flow, Handlers, MicroOp, Role, Selected};
use crate::wave::Wave;

/// Type of A or B.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    F16,
    Bf16,
    Fp8,
    Bf8,
    Int8,
    Int4,
}

impl Source {
    fn bits(self) -> usize {
        match self {
            Source::F16 | Source::Bf16 => 16,
            Source::Fp8 | Source::Bf8 | Source::Int8 => 8,
            Source::Int4 => 4,
        }
    }
}

/// Type of C and D.
#[derive(Clone, Copy, PartialEq)]
enum Sum {
    F32,
    F16,
    Bf16,
    I32,
}

/// What an instruction multiplies.
struct Form {
    a: Source,
    b: Source,
    d: Sum,
    k: usize,
}

fn form(op: Op) -> Option<Form> {
    let (a, b, d, k) = match op {
        Op::VWmmaF3216x16x16F16 => (Source::F16, Source::F16, Sum::F32, 16),
        Op::VWmmaF3216x16x16Bf16 => (Source::Bf16, Source::Bf16, Sum::F32, 16),
        Op::VWmmaF1616x16x16F16 => (Source::F16, Source::F16, Sum::F16, 16),
        Op::VWmmaBf1616x16x16Bf16 => (Source::Bf16, Source::Bf16, Sum::Bf16, 16),
        Op::VWmmaF3216x16x16Fp8Fp8 => (Source::Fp8, Source::Fp8, Sum::F32, 16),
        Op::VWmmaF3216x16x16Fp8Bf8 => (Source::Fp8, Source::Bf8, Sum::F32, 16),
        Op::VWmmaF3216x16x16Bf8Fp8 => (Source::Bf8, Source::Fp8, Sum::F32, 16),
        Op::VWmmaF3216x16x16Bf8Bf8 => (Source::Bf8, Source::Bf8, Sum::F32, 16),
        Op::VWmmaI3216x16x16Iu8 => (Source::Int8, Source::Int8, Sum::I32, 16),
        Op::VWmmaI3216x16x16Iu4 => (Source::Int4, Source::Int4, Sum::I32, 16),
        Op::VWmmaI3216x16x32Iu4 => (Source::Int4, Source::Int4, Sum::I32, 32),
        _ => return None,
    };
    Some(Form { a, b, d, k })
}

/// The handler of a WMMA instruction.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let form = form(inst.op)?;
    let mods = &inst.mods;
    let layout = Layout::of(inst, form.a.bits(), form.k)?;
    // Negations and absolute values that have a meaning.
    let (neg_lo, neg_hi) = match (form.a, form.d) {
        (_, Sum::I32) => (0b011, 0),
        (Source::Fp8 | Source::Bf8, _) => (0b100, 0b100),
        _ => (0b111, 0b111),
    };
    let halves = layout.halves_of_registers && matches!(form.d, Sum::F16 | Sum::Bf16);
    if mods.neg & !neg_lo != 0 || mods.abs & !neg_hi != 0 || mods.op_sel & !(if halves { 0b100 } else { 0 }) != 0 {
        return None;
    }
    let handlers = match form.d {
        Sum::I32 => whole(),
        Sum::F32 | Sum::F16 | Sum::Bf16 => float(),
    };
    Some(Selected::lanes(handlers).with_roles([Role::Block(Constant::F64); 4]).with_imm(layout.to_imm()))
}

/// Most `k` that an instruction has.
const MOST_K: usize = 32;

/// A or B, widened: `[k][row or column]`.
type Operand<T> = [[T; 16]; MOST_K];

/// Widens an operand by `widen(bits)`, which gets the element in the low bits with others above.
#[inline(always)]
fn decode<T: Copy + Default>(
    w: &Wave,
    register: u16,
    layout: &Layout,
    bits: usize,
    k: usize,
    widen: impl Fn(u32) -> T,
) -> Operand<T> {
    let mut out = [[T::default(); 16]; MOST_K];
    for (k, out) in out.iter_mut().enumerate().take(k) {
        let (offset, shift, lane) = layout.source(bits, k);
        let lanes = &w.v[register as usize + offset].0[lane..lane + 16];
        for i in 0..16 {
            out[i] = widen(lanes[i] >> shift);
        }
    }
    out
}

#[inline(always)]
fn decode_float(w: &Wave, st: &MicroOp, layout: &Layout, source: usize, ty: Source, k: usize) -> Operand<f32> {
    let register = st.src[source];
    let mut out = match ty {
        Source::F16 => decode(w, register, layout, 16, k, |x| f16_to_f32(x as u16)),
        Source::Bf16 => decode(w, register, layout, 16, k, |x| bf16_to_f32(x as u16)),
        Source::Fp8 => decode(w, register, layout, 8, k, |x| float8_to_f32(Float8::OcpE4M3, x as u8)),
        _ => decode(w, register, layout, 8, k, |x| float8_to_f32(Float8::OcpE5M2, x as u8)),
    };
    let mods = &st.inst.mods;
    for (parity, field) in [mods.neg, mods.abs].into_iter().enumerate() {
        if field >> source & 1 != 0 {
            out.iter_mut().skip(parity).step_by(2).flatten().for_each(|x| *x = -*x);
        }
    }
    out
}

/// C, where it is a constant.
fn constant(st: &MicroOp, d: Sum) -> Option<f32> {
    let float = matches!(st.inst.src[2].kind, OperandKind::Float(_));
    st.is_constant(2).then(|| match (d, float) {
        (_, true) => f64::from_bits(st.k[2]) as f32,
        (Sum::F16, false) => f16_to_f32(st.k[2] as u16),
        (Sum::Bf16, false) => bf16_to_f32(st.k[2] as u16),
        (_, false) => f32::from_bits(st.k[2] as u32),
    })
}

#[inline(always)]
fn multiply_float<C: Cpu>(w: &mut Wave, st: &MicroOp) -> Flow {
    let layout = Layout::from_imm(st.imm);
    let Some(form) = form(st.inst.op) else { unreachable!("`select` knew the instruction") };
    let a = decode_float(w, st, &layout, 0, form.a, form.k);
    let b = decode_float(w, st, &layout, 1, form.b, form.k);
    let (a, b) = (&a[..form.k], &b[..form.k]);
    let (absolute, negative) = (st.inst.mods.abs & 4 != 0, st.inst.mods.neg & 4 != 0);
    let upper = st.inst.mods.op_sel & 4 != 0;
    // Products of bf16 leave f32's range, those of the others are exact.
    let exact = form.a != Source::Bf16;
    let constant = constant(st, form.d);
    let mut sums = [[constant.unwrap_or_default(); 16]; 16];
    for (i, sums) in sums.iter_mut().enumerate() {
        if constant.is_none() {
            let (offset, shift, lane) = layout.result(i, form.d != Sum::F32, upper);
            let lanes = &w.v[st.src[2] as usize + offset].0[lane..lane + 16];
            for j in 0..16 {
                let bits = lanes[j] >> shift;
                sums[j] = match form.d {
                    Sum::F16 => f16_to_f32(bits as u16),
                    Sum::Bf16 => bf16_to_f32(bits as u16),
                    _ => f32::from_bits(bits),
                };
            }
        }
        for c in sums.iter_mut() {
            *c = if absolute { c.abs() } else { *c };
            *c = if negative { -*c } else { *c };
        }
    }
    for (tile, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        f32::accumulate::<C, 16>(sums, a, 4 * tile, b, 0, exact);
    }
    for (i, sums) in sums.iter().enumerate() {
        let (offset, shift, lane) = layout.result(i, form.d != Sum::F32, upper);
        let lanes = &mut w.v[st.dst[0] as usize + offset].0[lane..lane + 16];
        for j in 0..16 {
            let sum = if sums[j].is_nan() { f32::from_bits(NAN_F32) } else { sums[j] };
            lanes[j] = match form.d {
                Sum::F16 => lanes[j] & !(0xffff << shift) | u32::from(f32_to_f16(sum)) << shift,
                Sum::Bf16 => lanes[j] & !(0xffff << shift) | u32::from(f32_to_bf16(sum)) << shift,
                _ => sum.to_bits(),
            };
        }
    }
    Flow::Next
}

#[inline(always)]
fn decode_whole(w: &Wave, st: &MicroOp, layout: &Layout, source: usize, ty: Source, k: usize) -> Operand<i32> {
    let register = st.src[source];
    let signed = st.inst.mods.neg >> source & 1 != 0;
    match (ty, signed) {
        (Source::Int8, true) => decode(w, register, layout, 8, k, |x| i32::from(x as i8)),
        (Source::Int8, false) => decode(w, register, layout, 8, k, |x| i32::from(x as u8)),
        (_, true) => decode(w, register, layout, 4, k, |x| (x as i32) << 28 >> 28),
        (_, false) => decode(w, register, layout, 4, k, |x| x as i32 & 15),
    }
}

#[inline(always)]
fn multiply_whole<C: Cpu>(w: &mut Wave, st: &MicroOp) -> Flow {
    let layout = Layout::from_imm(st.imm);
    let Some(form) = form(st.inst.op) else { unreachable!("`select` knew the instruction") };
    let a = decode_whole(w, st, &layout, 0, form.a, form.k);
    let b = decode_whole(w, st, &layout, 1, form.b, form.k);
    let mut sums = [[0; 16]; 16];
    // At most 32 products below 2^16: they do not wrap.
    for (tile, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        i32::accumulate::<C, 16>(sums, &a[..form.k], 4 * tile, &b[..form.k], 0, true);
    }
    let clamp = st.inst.mods.clamp;
    let add = |c: i32, dot: i32| if clamp { c.saturating_add(dot) } else { c.wrapping_add(dot) };
    if st.is_constant(2) {
        let float = matches!(st.inst.src[2].kind, OperandKind::Float(_));
        let c = i32::constant(st.k[2], float);
        sums.iter_mut().flatten().for_each(|sum| *sum = add(c, *sum));
    } else {
        for (i, sums) in sums.iter_mut().enumerate() {
            let (offset, _, lane) = layout.result(i, false, false);
            let lanes = &w.v[st.src[2] as usize + offset].0[lane..lane + 16];
            for j in 0..16 {
                sums[j] = add(lanes[j] as i32, sums[j]);
            }
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        let (offset, _, lane) = layout.result(i, false, false);
        let lanes = &mut w.v[st.dst[0] as usize + offset].0[lane..lane + 16];
        for j in 0..16 {
            lanes[j] = sums[j] as u32;
        }
    }
    Flow::Next
}

/// Handlers with the AVX2 form for AVX-512 hosts too.
macro_rules! handlers {
    ($name:ident, $multiply:ident) => {
        fn $name() -> Handlers {
            fn baseline(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
                $multiply::<Baseline>(w, st)
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                fn avx2(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
                    $multiply::<Avx2>(w, st)
                }
                Handlers { baseline, avx2, avx512: avx2 }
            }
            #[cfg(not(target_arch = "x86_64"))]
            Handlers::same(baseline)
        }
    };
}
handlers!(float, multiply_float);
handlers!(whole, multiply_whole);
