//! `s_setvskip`: a mode in which vector instructions are skipped (GFX9).
//!
//! The mode is bit 28 of MODE. In a program that has the instruction every vector step asks for it before it runs; other
//! programs do not pay for that.

use rocfire_isa::{Format, Inst};

use crate::env::Env;
use crate::exec::index;
use crate::step::{Flow, Handler, MicroOp};
use crate::wave::Wave;

/// VSKIP of MODE.
const VSKIP: u32 = 1 << 28;

/// Bit `source 1` of source 0 becomes the mode.
pub(super) fn set(w: &mut Wave, s: &MicroOp) {
    let skips = s.s32(w, 0) >> (s.s32(w, 1) & 31) & 1 != 0;
    w.mode = w.mode & !VSKIP | if skips { VSKIP } else { 0 };
}

/// Whether the mode skips the instruction: all of VALU, LDS and vector memory.
pub(crate) fn applies(inst: &Inst) -> bool {
    !matches!(inst.format, Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc | Format::Sopp | Format::Smem)
}

/// Makes a step ask for the mode.
pub(crate) fn wrap(step: &mut MicroOp) {
    match step.indexed {
        // It runs through the register-index mode already.
        Some(_) => step.run = run_indexed,
        None => step.indexed = Some(std::mem::replace(&mut step.run, run as Handler)),
    }
}

fn run(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let Some(handler) = s.indexed else { unreachable!("only steps with a handler to skip run through this one") };
    if w.mode & VSKIP != 0 {
        return Flow::Next;
    }
    // SAFETY: the handler was selected for the level of this host, as this step's own would have been.
    unsafe { handler(w, env, s) }
}

fn run_indexed(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    if w.mode & VSKIP != 0 { Flow::Next } else { index::run(w, env, s) }
}
