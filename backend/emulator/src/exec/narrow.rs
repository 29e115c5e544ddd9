//! Instructions of a wave32 that name the upper half of EXEC.
//!
//! In a wave32 "the upper half of EXEC is ignored" (ISA, "Wave32 and wave64"), and everything here relies on its being
//! zero. No compiler writes it, but a program may; such an instruction runs, and what it wrote there is dropped.

use rocfire_isa::{Inst, OperandKind};

use crate::env::Env;
use crate::step::{Flow, MicroOp};
use crate::wave::{Wave, scalar};

/// Whether the instruction writes the upper half of EXEC: by name, or as half of a pair.
pub(crate) fn applies(inst: &Inst) -> bool {
    inst.dst.iter().any(|operand| match operand.kind {
        OperandKind::Exec(half) => half == 1 || operand.dwords > 1,
        _ => false,
    }) || inst.op.facts().writes_exec && inst.dst[0].dwords > 1
}

/// Runs a step whose own handler is in `indexed`.
pub(crate) fn run(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let Some(handler) = s.indexed else { unreachable!("only steps with a handler of their own run through this one") };
    // SAFETY: the handler was selected for the level of this host, as this step's own would have been.
    let flow = unsafe { handler(w, env, s) };
    w.set_s32(scalar::EXEC + 1, 0);
    flow
}
