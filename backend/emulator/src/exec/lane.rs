//! Moves between one lane and a scalar register.

use rocfire_isa::{Inst, Op};

use super::scalar::handler;
use crate::step::{Constant, Flow, Role, Selected};

const REGISTER: Role = Role::Block(Constant::B32);
const SCALAR: Role = Role::Scalar(Constant::B32);

/// The handler of a lane move.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    Some(match inst.op {
        Op::VReadfirstlaneB32 => Selected::scalars(handler!(|w, _, s| {
            // With no lane on, lane 0 is read.
            let lane = w.exec().trailing_zeros() as usize % w.lanes;
            let value = if s.is_constant(0) { s.k[0] as u32 } else { w.lane(s.src[0], lane) };
            w.set_s32(s.dst[0], value);
            Flow::Next
        }))
        .with_role(0, REGISTER),
        // EXEC does not matter to the next two.
        Op::VReadlaneB32 => Selected::scalars(handler!(|w, _, s| {
            let lane = s.s32(w, 1) as usize % w.lanes;
            let value = if s.is_constant(0) { s.k[0] as u32 } else { w.lane(s.src[0], lane) };
            w.set_s32(s.dst[0], value);
            Flow::Next
        }))
        .with_role(0, REGISTER)
        .with_role(1, SCALAR),
        Op::VWritelaneB32 => Selected::scalars(handler!(|w, _, s| {
            let (value, lane) = (s.s32(w, 0), s.s32(w, 1) as usize % w.lanes);
            w.set_lane(s.dst[0], lane, value);
            Flow::Next
        })),
        _ => return None,
    })
}
