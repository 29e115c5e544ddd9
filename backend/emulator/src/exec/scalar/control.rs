//! SOPP: branches, barriers, the end; and the register-index mode of `s_set_gpr_idx_*`.

use rocfire_isa::{Inst, Op, OperandKind};

use super::handler;
use crate::error::FaultKind;
use crate::step::{Flow, Selected};
use crate::wave::scalar;

/// A jump to the linked target if the condition holds.
macro_rules! branch_if {
    (|$w:ident| $condition:expr) => {
        handler!(|$w, env, s| if $condition { env.jump($w, s.imm as usize) } else { Flow::Next })
    };
}

pub(super) fn select(inst: &Inst) -> Option<Selected> {
    let imm = inst.src.iter().find_map(|operand| match operand.kind {
        OperandKind::Imm(value) => Some(i64::from(value)),
        _ => None,
    });
    let handlers = match inst.op {
        Op::SBranch => branch_if!(|w| true),
        Op::SCbranchScc0 => branch_if!(|w| !w.scc),
        Op::SCbranchScc1 => branch_if!(|w| w.scc),
        Op::SCbranchVccz => branch_if!(|w| w.vcc() == 0),
        Op::SCbranchVccnz => branch_if!(|w| w.vcc() != 0),
        Op::SCbranchExecz => branch_if!(|w| w.exec() == 0),
        Op::SCbranchExecnz => branch_if!(|w| w.exec() != 0),
        Op::SBarrier | Op::SBarrierWait => handler!(|_, _, _| Flow::Barrier),
        Op::SRoundMode => handler!(|w, _, s| {
            w.mode = w.mode & !0xf | s.imm as u32 & 0xf;
            Flow::Next
        }),
        Op::SDenormMode => handler!(|w, _, s| {
            w.mode = w.mode & !0xf0 | (s.imm as u32 & 0xf) << 4;
            Flow::Next
        }),
        Op::SEndpgm | Op::SEndpgmSaved => handler!(|_, _, _| Flow::End),
        Op::STrap => handler!(|_, env, s| env.fail(FaultKind::Trap(s.imm as u32))),
        // No receiver of messages is modelled.
        Op::SSendmsg => handler!(|_, _, _| Flow::Next),
        Op::SSetGprIdxOff | Op::SSetGprIdxMode => {
            return select_gpr_index(inst.op).map(|s| s.with_imm(imm.unwrap_or(0)));
        }
        _ => return None,
    };
    Some(Selected::scalars(handlers).with_imm(imm.unwrap_or(0)))
}

/// The instructions that switch the register-index mode. While it is on, the register numbers of vector ALU instructions are
/// moved by M0; `program` finds them, and they run through [`index`](crate::exec::index).
pub(super) fn select_gpr_index(op: Op) -> Option<Selected> {
    Some(Selected::scalars(match op {
        // M0 = { mode in 15..12, index in 7..0 }, as the ISA defines it.
        Op::SSetGprIdxOn => handler!(|w, _, s| {
            let value = s.s32(w, 0) & 0xff | (s.s32(w, 1) & 0xf) << 12;
            w.set_s32(scalar::M0, w.s32(scalar::M0) & !0xf0ff | value);
            Flow::Next
        }),
        Op::SSetGprIdxIdx => handler!(|w, _, s| {
            let value = s.s32(w, 0) & 0xff;
            w.set_s32(scalar::M0, w.s32(scalar::M0) & !0xff | value);
            Flow::Next
        }),
        Op::SSetGprIdxMode => handler!(|w, _, s| {
            w.set_s32(scalar::M0, w.s32(scalar::M0) & !0xf000 | (s.imm as u32 & 0xf) << 12);
            Flow::Next
        }),
        Op::SSetGprIdxOff => handler!(|_, _, _| Flow::Next),
        _ => return None,
    }))
}
