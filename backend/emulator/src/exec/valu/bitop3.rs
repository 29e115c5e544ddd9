//! `v_bitop3_b32` and `v_bitop3_b16`: any function of three bits, from a truth table in the instruction.

use rocfire_isa::{Inst, Op};

use crate::env::Env;
use crate::step::{Flow, MicroOp, Selected, levels};
use crate::wave::{CHUNK, CHUNKS, Wave};

/// The handler of such an instruction. The fields that are modifiers elsewhere hold the table here.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let m = &inst.mods;
    let table = i64::from(m.omod) << 6 | i64::from(m.abs) << 3 | i64::from(m.neg);
    match inst.op {
        Op::VBitop3B32 => Some(Selected::lanes(levels!(whole)).with_imm(table)),
        Op::VBitop3B16 => Some(Selected::lanes(levels!(half)).with_imm(table)),
        _ => None,
    }
}

/// `D[i] = table[{S0[i], S1[i], S2[i]}]`, three choices deep.
#[inline(always)]
fn look_up(table: &[u32; 8], a: u32, b: u32, c: u32) -> u32 {
    let by_c = |i: usize| c & table[2 * i + 1] | !c & table[2 * i];
    let by_b = |i: usize| b & by_c(2 * i + 1) | !b & by_c(2 * i);
    a & by_b(1) | !a & by_b(0)
}

#[inline(always)]
fn run(w: &mut Wave, st: &MicroOp, combine: impl Fn(&[u32; 8], [u32; 3], u32) -> u32) -> Flow {
    st.spread(w);
    let table = std::array::from_fn(|i| 0u32.wrapping_sub((st.imm >> i & 1) as u32));
    let exec = w.exec();
    for chunk in 0..CHUNKS {
        let sources: [[u32; CHUNK]; 3] = std::array::from_fn(|i| w.chunk(st.src[i], chunk));
        let old = w.chunk(st.dst[0], chunk);
        let values = std::array::from_fn(|i| combine(&table, [sources[0][i], sources[1][i], sources[2][i]], old[i]));
        w.set_chunk_masked(st.dst[0], chunk, values, exec);
    }
    Flow::Next
}

#[inline(always)]
fn whole(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    run(w, st, |table, [a, b, c], _| look_up(table, a, b, c))
}

/// On halves of registers, as `op_sel` names them; the other half of the destination stays.
#[inline(always)]
fn half(w: &mut Wave, _: &mut Env, st: &MicroOp) -> Flow {
    let op_sel = u32::from(st.inst.mods.op_sel);
    let shift = |i: u32| 16 * (op_sel >> i & 1);
    let [s0, s1, s2, d] = [shift(0), shift(1), shift(2), shift(3)];
    run(w, st, |table, [a, b, c], old| {
        let value = look_up(table, a >> s0, b >> s1, c >> s2) & 0xffff;
        old & !(0xffff << d) | value << d
    })
}
