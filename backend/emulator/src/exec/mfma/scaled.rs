//! gfx950's `v_mfma_f32_{16x16x128,32x32x64}_f8f6f4` and `v_mfma_scale_f32_…`: sources of 8, 6 or 4 bits, each operand in
//! the format that its field names, and with `scale` a power of two for every 32 consecutive `k` of a row of A, of a
//! column of B.
//!
//! `cbsz` is the format of A, `blgp` that of B: 0 FP8 (E4M3), 1 BF8 (E5M2), 2 FP6 (E2M3), 3 BF6 (E3M2), 4 FP4 (E2M1), all
//! of OCP. A lane has 32 elements of one row, packed from bit 0 of its first register on.
//!
//! | | element `e` of lane `M·g + i` is `k =` |
//! | --- | --- |
//! | 6 and 4 bits | `32·g + e` |
//! | 8 bits | `16·g + e` for the first sixteen, `16·g + e - 16 + K/2` for the others |
//!
//! So a lane's elements of 8 bits belong to two scales, of which neither need be its own: the scale of row `i` and of the
//! `k` from `32·g` on is in lane `M·g + i`, in the byte that bit 0 of `op_sel` plus twice that of `op_sel_hi` numbers (bits
//! 1 for B). It is E8M0: 2^(byte - 127), and NaN for 255.
//!
//! `D[i][j]` is `C[i][j]` plus, from the lowest `k` up, the exact products `scale · A[i][k] · scale · B[k][j]`, with one
//! rounding to f32 (nearest even) after each. Neither a scaled element nor a product ever overflows or underflows by
//! itself. Denormals are kept.

use rocfire_isa::{Inst, Op, Operand, OperandKind};

use super::element::Number;
use crate::env::Env;
use crate::exec::mfma::layout::row_32;
#[cfg(target_arch = "x86_64")]
use crate::numeric::Avx2;
use crate::numeric::{Baseline, Cpu, Float8, e8m0_to_f32, float8_to_f32};
use crate::step::{Constant, Flow, Handlers, MicroOp, Role, Selected};
use crate::wave::{AGPR, LANES, Wave, scalar};

/// Elements that share a scale, and elements in a lane.
const GROUP: usize = 32;

/// The handler of an instruction of this module.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let handlers = match inst.op {
        Op::VMfmaF3216x16x128F8f6f4 | Op::VMfmaScaleF3216x16x128F8f6f4 => handlers::<16, 128>(),
        Op::VMfmaF3232x32x64F8f6f4 | Op::VMfmaScaleF3232x32x64F8f6f4 => handlers::<32, 64>(),
        _ => return None,
    };
    format(inst.mods.cbsz)?;
    format(inst.mods.blgp)?;
    if let Some(scale) = inst.mods.scale {
        [scale.a, scale.b].iter().all(|operand| word(operand).is_some()).then_some(())?;
    } else if inst.mods.abid != 0 {
        return None;
    }
    Some(Selected::lanes(handlers).with_roles([Role::Block(Constant::F64); 4]))
}

fn format(field: u8) -> Option<Float8> {
    Some(match field {
        0 => Float8::OcpE4M3,
        1 => Float8::OcpE5M2,
        2 => Float8::E2M3,
        3 => Float8::E3M2,
        4 => Float8::E2M1,
        _ => return None,
    })
}

/// Where the dword with a lane's scales is.
enum Word {
    Vector(u16),
    Scalar(u16),
    Constant(u32),
}

fn word(operand: &Operand) -> Option<Word> {
    Some(match operand.kind {
        OperandKind::Vgpr(n) => Word::Vector(n),
        OperandKind::Agpr(n) => Word::Vector(AGPR + n),
        OperandKind::Sgpr(n) => Word::Scalar(n),
        OperandKind::Vcc(half) => Word::Scalar(scalar::VCC + u16::from(half)),
        OperandKind::M0 => Word::Scalar(scalar::M0),
        OperandKind::Ttmp(n) => Word::Scalar(scalar::TTMP + u16::from(n)),
        OperandKind::Int(n) => Word::Constant(n as u32),
        _ => return None,
    })
}

/// The scales of all lanes.
fn scales(w: &Wave, operand: &Operand, byte: u32) -> [f32; LANES] {
    let bytes = |word: u32| e8m0_to_f32((word >> (8 * byte)) as u8);
    match word(operand).expect("`select` lets no other operand pass") {
        Word::Vector(n) => w.v[n as usize].0.map(bytes),
        Word::Scalar(n) => [bytes(w.s32(n)); LANES],
        Word::Constant(word) => [bytes(word); LANES],
    }
}

/// A or B, widened: `[k][row or column]`.
type Operands<const M: usize, const K: usize> = [[f32; M]; K];

/// Widens the operand whose registers start at `register`.
#[inline(always)]
fn decode<const M: usize, const K: usize>(w: &Wave, register: u16, format: Float8, out: &mut Operands<M, K>) {
    let bits = format.bits() as usize;
    let mask = (1u32 << bits) - 1;
    for e in 0..GROUP {
        let (first, shift) = (register as usize + e * bits / 32, e * bits % 32);
        // An element of 6 bits may lie across two registers.
        let second = first + usize::from(shift + bits > 32);
        for g in 0..K / GROUP {
            let k = match (bits, e < GROUP / 2) {
                (8, true) => GROUP / 2 * g + e,
                (8, false) => GROUP / 2 * g + e - GROUP / 2 + K / 2,
                _ => GROUP * g + e,
            };
            for i in 0..M {
                let lane = M * g + i;
                let wide = u64::from(w.v[second].0[lane]) << 32 | u64::from(w.v[first].0[lane]);
                out[k][i] = float8_to_f32(format, ((wide >> shift) as u32 & mask) as u8);
            }
        }
    }
}

/// Multiplies by the scales; gives whether all products are exact.
#[inline(always)]
fn scale<const M: usize, const K: usize>(x: &mut Operands<M, K>, scales: &[f32; LANES]) -> bool {
    let mut exact = true;
    for (k, row) in x.iter_mut().enumerate() {
        for (x, scale) in row.iter_mut().zip(&scales[k / GROUP * M..]) {
            let product = *x * scale;
            exact &= f64::from(product) == f64::from(*x) * f64::from(*scale) || product.is_nan();
            *x = product;
        }
    }
    exact
}

#[inline(always)]
fn multiply<C: Cpu, const M: usize, const K: usize>(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    let mods = &st.inst.mods;
    let mut a: Operands<M, K> = [[0.0; M]; K];
    let mut b: Operands<M, K> = [[0.0; M]; K];
    // One copy of the loops for each format: in them it is a constant.
    for (register, field, out) in [(st.src[0], mods.cbsz, &mut a), (st.src[1], mods.blgp, &mut b)] {
        match field {
            0 => decode(w, register, Float8::OcpE4M3, out),
            1 => decode(w, register, Float8::OcpE5M2, out),
            2 => decode(w, register, Float8::E2M3, out),
            3 => decode(w, register, Float8::E3M2, out),
            _ => decode(w, register, Float8::E2M1, out),
        }
    }
    // Products of two elements are exact in f32; of two scaled ones perhaps not.
    let mut exact = true;
    if let Some(operands) = &mods.scale {
        let byte = |bit: u32| u32::from(mods.op_sel >> bit & 1) + 2 * u32::from(mods.op_sel_hi >> bit & 1);
        let (scales_a, scales_b) = (scales(w, &operands.a, byte(0)), scales(w, &operands.b, byte(1)));
        let (plain_a, plain_b) = (a, b);
        exact = false;
        if !(scale(&mut a, &scales_a) & scale(&mut b, &scales_b)) {
            return multiply_wide(w, st, (&plain_a, &scales_a), (&plain_b, &scales_b));
        }
    }
    let constant = constant(st);
    for first in (0..M).step_by(4) {
        for column in (0..M).step_by(16) {
            let mut acc = [[constant.unwrap_or_default(); 16]; 4];
            if constant.is_none() {
                for r in 0..4 {
                    let row = row_32(M, 0, first + r);
                    acc[r] = f32::load(w, st.src[2] as usize + row.register, row.lane + column);
                }
            }
            f32::accumulate::<C, M>(&mut acc, &a, first, &b, column, exact);
            for r in 0..4 {
                let row = row_32(M, 0, first + r);
                f32::store(w, st.dst[0] as usize + row.register, row.lane + column, acc[r]);
            }
        }
    }
    Flow::Next
}

/// C, where it is a constant.
fn constant(st: &MicroOp) -> Option<f32> {
    let float = matches!(st.inst.src[2].kind, OperandKind::Float(_));
    st.is_constant(2).then(|| f32::constant(st.k[2], float))
}

/// The same where scaled elements leave f32's range: exact products in f64, each added with one rounding to f32.
#[cold]
fn multiply_wide<const M: usize, const K: usize>(
    w: &mut Wave,
    st: &MicroOp,
    (a, scales_a): (&Operands<M, K>, &[f32; LANES]),
    (b, scales_b): (&Operands<M, K>, &[f32; LANES]),
) -> Flow {
    let wide = |x: &Operands<M, K>, scales: &[f32; LANES], k: usize, i: usize| {
        f64::from(x[k][i]) * f64::from(scales[k / GROUP * M + i])
    };
    let constant = constant(st);
    for i in 0..M {
        let row = row_32(M, 0, i);
        let mut sums = match constant {
            Some(c) => [c; M],
            None => f32::load(w, st.src[2] as usize + row.register, row.lane),
        };
        for k in 0..K {
            let x = wide(a, scales_a, k, i);
            for j in 0..M {
                sums[j] = add_rounded_once(sums[j], x * wide(b, scales_b, k, j));
            }
        }
        f32::store(w, st.dst[0] as usize + row.register, row.lane, sums);
    }
    Flow::Next
}

/// `a + b`, rounded once to f32: rounding to odd in f64 keeps what the rounding to f32 must know.
fn add_rounded_once(a: f32, b: f64) -> f32 {
    let a = f64::from(a);
    let sum = a + b;
    if !sum.is_finite() || sum == 0.0 {
        return sum as f32;
    }
    // Knuth's two-sum: `error` is exactly what the sum lost.
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    let bits = sum.to_bits();
    let odd = if error == 0.0 || bits & 1 == 1 {
        bits
    } else if (error > 0.0) == (sum > 0.0) {
        bits + 1
    } else {
        bits - 1
    };
    f64::from_bits(odd) as f32
}

fn handlers<const M: usize, const K: usize>() -> Handlers {
    fn baseline<const M: usize, const K: usize>(w: &mut Wave, env: &mut Env, st: &MicroOp) -> Flow {
        multiply::<Baseline, M, K>(w, env, st)
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn avx2<const M: usize, const K: usize>(w: &mut Wave, env: &mut Env, st: &MicroOp) -> Flow {
            multiply::<Avx2, M, K>(w, env, st)
        }
        Handlers { baseline: baseline::<M, K>, avx2: avx2::<M, K>, avx512: avx2::<M, K> }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Handlers::same(baseline::<M, K>)
}

#[cfg(test)]
mod tests {
    use super::add_rounded_once;

    #[test]
    fn a_sum_is_rounded_once() {
        // 1 + 2^-24 lies half way between 1 and the next f32; a little more or less decides.
        let half = 2f64.powi(-24);
        assert_eq!(add_rounded_once(1.0, half), 1.0);
        assert_eq!(add_rounded_once(1.0, half + 2f64.powi(-76)), 1.0 + f32::EPSILON);
        assert_eq!(add_rounded_once(1.0 + f32::EPSILON, half - 2f64.powi(-76)), 1.0 + f32::EPSILON);
        assert_eq!(add_rounded_once(1.0 + f32::EPSILON, half), 1.0 + 2.0 * f32::EPSILON);
        // f64 alone would give -(1 + 2^-24) first and then -1.
        assert_eq!(add_rounded_once(-1.0, -(half + 2f64.powi(-76))), -(1.0 + f32::EPSILON));
        assert_eq!(add_rounded_once(f32::MAX, 2f64.powi(103)), f32::INFINITY);
        assert_eq!(add_rounded_once(0.0, 2f64.powi(-149) * 0.75), f32::from_bits(1));
    }
}
