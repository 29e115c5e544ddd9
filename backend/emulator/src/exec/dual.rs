//! VOPD: two vector operations in one instruction, executed as one step.
//!
//! The halves are the VOP1 and VOP2 steps that they would be alone, in [`MicroOp::pair`].
//!
//! "Both operations read their sources before either writes its result" (ISA, "Dual issue"), and they write different registers. So
//! one after the other differs only where a source of the second is the destination of the first. Then the second reads a copy of
//! that register as it was.

use rocfire_arch::Arch;
use rocfire_isa::{Inst, OperandKind};

use crate::env::Env;
use crate::step::{Constant, Flow, Handlers, Level, MicroOp, Role, Selected};
use crate::wave::{BEFORE, Wave};

/// [`MicroOp::imm`] of a pair whose second half reads what the first writes.
const OVERLAPS: i64 = 1;

/// The step of a pair; `None` if the emulator does not have one of the operations.
pub(crate) fn step(arch: Arch, halves: [&Inst; 2], level: Level, offset_bytes: u32) -> Option<MicroOp> {
    let [first, second] = halves;
    let half = |inst: &Inst| MicroOp::new(*inst, &super::select(arch, inst)?, level, offset_bytes);
    let (x, mut y) = (half(first)?, half(second)?);
    let mut overlaps = 0;
    for (i, operand) in second.src.iter().enumerate() {
        if operand.kind == first.dst[0].kind && matches!(operand.kind, OperandKind::Vgpr(_)) {
            y.src[i] = BEFORE;
            overlaps = OVERLAPS;
        }
    }
    // The operands belong to the halves; as those of the whole they would be spread for nothing.
    let selected = Selected::lanes(Handlers::same(run)).with_roles([Role::Block(Constant::B32); 4]).with_imm(overlaps);
    let mut step = MicroOp::new(Inst { src: MicroOp::NO_INST.src, ..*first }, &selected, level, offset_bytes)?;
    step.inst = *first;
    step.pair = Some(Box::new([x, y]));
    Some(step)
}

fn run(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let Some(pair) = &s.pair else { unreachable!("only steps made above run through this handler") };
    let [x, y] = &**pair;
    if s.imm == OVERLAPS {
        w.v[BEFORE as usize] = w.v[x.dst[0] as usize];
    }
    // SAFETY: both handlers were selected for the level of this host, as a step's own is.
    match unsafe { (x.run)(w, env, x) } {
        // SAFETY: as above.
        Flow::Next => unsafe { (y.run)(w, env, y) },
        other => other,
    }
}
