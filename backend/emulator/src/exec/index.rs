//! Vector instructions under `s_set_gpr_idx_on`: register numbers moved by M0.
//!
//! Compilers use the mode around single moves, to index an array that lives in registers, and switch it off right after.
//! So it is resolved statically: each vector ALU instruction between on and off, with no branch between, becomes an
//! indexed step, which makes a copy of itself with the registers moved and runs that.

use rocfire_isa::{Format, Inst, OperandKind};

use crate::env::Env;
use crate::error::FaultKind;
use crate::step::{Flow, MicroOp};
use crate::wave::{AGPR, Wave, scalar};

/// Whether the mode applies to the instruction.
pub(crate) fn applies(inst: &Inst) -> bool {
    matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p)
}

/// Runs a step whose own handler is in `indexed`.
pub(crate) fn run(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let Some(handler) = s.indexed else { unreachable!("only steps with a handler to index run through this one") };
    let Some(moved) = moved(w, s) else {
        return env.fail(FaultKind::Unsupported("a register index past the last VGPR"));
    };
    // SAFETY: the handler was selected for the level of this host, as this step's own would have been.
    unsafe { handler(w, env, &moved) }
}

/// The step with its registers moved by M0, which holds the index in bits 7..0, and what it applies to in bits 15..12:
/// sources 0, 1 and 2, and the destination. `None` if a register is past the last.
pub(crate) fn moved(w: &Wave, s: &MicroOp) -> Option<MicroOp> {
    let m0 = w.s32(scalar::M0);
    let index = (m0 & 0xff) as u16;
    let mut moved = s.clone();
    let mut outside = false;
    let mut shift = |kind: &mut OperandKind, place: &mut u16, bit: u32| {
        if let OperandKind::Vgpr(number) = kind
            && m0 >> bit & 1 != 0
        {
            *number += index;
            *place += index;
            outside |= *number >= AGPR;
        }
    };
    for source in 0..3 {
        shift(&mut moved.inst.src[source].kind, &mut moved.src[source], 12 + source as u32);
    }
    shift(&mut moved.inst.dst[0].kind, &mut moved.dst[0], 15);
    (!outside).then_some(moved)
}
