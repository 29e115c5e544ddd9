//! SOPK: a 16-bit immediate; short moves and comparisons, hardware registers, direct calls.

use rocfire_isa::{Inst, Op, OperandKind};

use super::{handler, hwreg};
use crate::step::{Flow, Selected};

/// SCC from the register, which is source 0, and the immediate, sign-extended.
macro_rules! signed {
    (|$a:pat_param, $imm:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $imm) = (s.s32(w, 0) as i32, s.imm as i32);
            w.scc = $result;
            Flow::Next
        })
    };
}

/// SCC from the register, which is source 0, and the immediate, zero-extended.
macro_rules! unsigned {
    (|$a:pat_param, $imm:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $imm) = (s.s32(w, 0), u32::from(s.imm as u16));
            w.scc = $result;
            Flow::Next
        })
    };
}

pub(super) fn select(inst: &Inst) -> Option<Selected> {
    // `s_setreg` names its hardware register where others have their destination.
    let imm = inst.src.iter().chain(&inst.dst).find_map(|operand| match operand.kind {
        OperandKind::Imm(value) => Some(value as i16),
        _ => None,
    })?;
    let handlers = match inst.op {
        Op::SCmpkEqI32 => signed!(|a, imm| a == imm),
        Op::SCmpkLgI32 => signed!(|a, imm| a != imm),
        Op::SCmpkGtI32 => signed!(|a, imm| a > imm),
        Op::SCmpkGeI32 => signed!(|a, imm| a >= imm),
        Op::SCmpkLtI32 => signed!(|a, imm| a < imm),
        Op::SCmpkLeI32 => signed!(|a, imm| a <= imm),
        Op::SCmpkEqU32 => unsigned!(|a, imm| a == imm),
        Op::SCmpkLgU32 => unsigned!(|a, imm| a != imm),
        Op::SCmpkGtU32 => unsigned!(|a, imm| a > imm),
        Op::SCmpkGeU32 => unsigned!(|a, imm| a >= imm),
        Op::SCmpkLtU32 => unsigned!(|a, imm| a < imm),
        Op::SCmpkLeU32 => unsigned!(|a, imm| a <= imm),
        Op::SMovkI32 => handler!(|w, _, s| {
            w.set_s32(s.dst[0], s.imm as u32);
            Flow::Next
        }),
        Op::SCmovkI32 => handler!(|w, _, s| {
            if w.scc {
                w.set_s32(s.dst[0], s.imm as u32);
            }
            Flow::Next
        }),
        Op::SAddkI32 => handler!(|w, _, s| {
            let (sum, overflow) = (w.s32(s.dst[0]) as i32).overflowing_add(s.imm as i32);
            w.set_s32(s.dst[0], sum as u32);
            w.scc = overflow;
            Flow::Next
        }),
        Op::SMulkI32 => handler!(|w, _, s| {
            let product = w.s32(s.dst[0]).wrapping_mul(s.imm as u32);
            w.set_s32(s.dst[0], product);
            Flow::Next
        }),
        Op::SGetregB32 => handler!(|w, env, s| hwreg::get(w, env, s)),
        Op::SSetregB32 | Op::SSetregImm32B32 => handler!(|w, env, s| hwreg::set(w, env, s)),
        Op::SCallB64 => handler!(|w, env, s| {
            let next = env.program.address_after(s);
            w.set_s64(s.dst[0], next);
            // The linker has put the target's step in place of the displacement.
            env.jump(w, s.imm as usize)
        }),
        _ => return None,
    };
    Some(Selected::scalars(handlers).with_imm(i64::from(imm)))
}
