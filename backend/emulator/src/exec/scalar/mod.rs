//! Scalar instructions: the scalar ALU, branches and program control, scalar loads.
//!
//! One module for each encoding. Sources are read through [`MicroOp::s32`](crate::step::MicroOp::s32) and
//! [`MicroOp::s64`](crate::step::MicroOp::s64), results written to the scalar file; SCC is set where the ISA says so and left
//! alone elsewhere.

use rocfire_isa::{Format, Inst, Op};

use crate::step::Selected;
use crate::wave::Wave;

mod control;
pub(super) mod float;
mod hwreg;
pub(super) mod load;
mod sop1;
mod sop2;
mod sopc;
mod sopk;
pub(super) mod store;
pub(crate) mod vskip;

/// A handler without a loop over lanes: one body for every level.
macro_rules! handler {
    (|$w:pat_param, $e:pat_param, $s:pat_param| $body:expr) => {{
        fn run(w: &mut $crate::wave::Wave, e: &mut $crate::env::Env, s: &$crate::step::MicroOp) -> $crate::step::Flow {
            let ($w, $e, $s) = (w, e, s);
            $body
        }
        $crate::step::Handlers::same(run)
    }};
}
pub(crate) use handler;

/// The handler of an instruction of the scalar ALU on integers and masks, or of a branch.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    match inst.format {
        Format::Sop1 => sop1::select(inst),
        Format::Sop2 => sop2::select(inst.op),
        Format::Sopc => sopc::select(inst.op),
        Format::Sopk => sopk::select(inst),
        Format::Sopp => control::select(inst),
        _ => None,
    }
}

/// A clock must show the same on every host: it counts the wave's instructions.
fn clock(w: &Wave) -> u64 {
    w.executed.wrapping_add(w.pc as u64)
}

/// Whether the instruction names its target by a displacement.
pub(crate) fn is_direct_branch(op: Op) -> bool {
    matches!(
        op,
        Op::SBranch
            | Op::SCbranchScc0
            | Op::SCbranchScc1
            | Op::SCbranchVccz
            | Op::SCbranchVccnz
            | Op::SCbranchExecz
            | Op::SCbranchExecnz
            | Op::SCallB64
    )
}
