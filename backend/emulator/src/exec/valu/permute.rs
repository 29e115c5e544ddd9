//! Vector instructions of RDNA that move values between lanes, or between registers that M0 names; and the dot products
//! whose signs are modifiers.

use rocfire_isa::{Format, Inst, Op};

use crate::env::Env;
use crate::error::FaultKind;
use crate::numeric::{dot_signed_by, saturate_i32};
use crate::step::{Constant, Flow, Handlers, MicroOp, Role, Selected};
use crate::wave::{AGPR, LANES, Lanes, Wave, scalar};

const ROW: usize = 16;

/// The handler of such an instruction.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let scalar = Role::Scalar(Constant::B32);
    let register = Role::Block(Constant::B32);
    Some(match inst.op {
        Op::VPermlane16B32 => rows(|w, _, s| by_scalars(w, s, 0)).with_role(1, scalar).with_role(2, scalar),
        Op::VPermlanex16B32 => rows(|w, _, s| by_scalars(w, s, ROW)).with_role(1, scalar).with_role(2, scalar),
        Op::VPermlane16VarB32 => rows(|w, _, s| by_lanes(w, s, 0)).with_role(1, register),
        Op::VPermlanex16VarB32 => rows(|w, _, s| by_lanes(w, s, ROW)).with_role(1, register),
        Op::VPermlane64B32 => rows(|w, _, s| swap_halves(w, s)),
        Op::VMovreldB32 => Selected::lanes(Handlers::same(|w, env, s| {
            let m0 = w.s32(scalar::M0);
            move_relative(w, env, s, 0, m0)
        })),
        Op::VMovrelsB32 => rows(|w, env, s| {
            let m0 = w.s32(scalar::M0);
            move_relative(w, env, s, m0, 0)
        }),
        Op::VMovrelsdB32 => rows(|w, env, s| {
            let m0 = w.s32(scalar::M0);
            move_relative(w, env, s, m0, m0)
        }),
        Op::VMovrelsd2B32 => rows(|w, env, s| {
            let m0 = w.s32(scalar::M0);
            move_relative(w, env, s, m0 & 0x3ff, m0 >> 16 & 0x3ff)
        }),
        Op::VSwaprelB32 => rows(swap_relative),
        Op::VSwapB16 => rows(|w, _, s| swap_halves_of_registers(w, s)),
        Op::VDot4I32Iu8 => Selected::lanes(Handlers::same(|w, _, s| dot::<8>(w, s))),
        Op::VDot8I32Iu4 => Selected::lanes(Handlers::same(|w, _, s| dot::<4>(w, s))),
        _ => return None,
    })
}

/// A handler that reads its first source as a register.
fn rows(handler: fn(&mut Wave, &mut Env, &MicroOp) -> Flow) -> Selected {
    Selected::lanes(Handlers::same(handler)).with_role(0, Role::Block(Constant::B32))
}

/// Writes to each lane that is on the value of the lane that `from` names. "If the lane is switched off: with FI
/// (`op_sel[0]`) it is read all the same, else with BOUND_CTRL (`op_sel[1]`) the result is 0, else the destination stays."
fn fetch(w: &mut Wave, s: &MicroOp, from: impl Fn(usize) -> usize) -> Flow {
    let (inactive, zero) = (s.inst.mods.op_sel & 1 != 0, s.inst.mods.op_sel & 2 != 0);
    let (exec, data) = (w.exec(), w.v[s.src[0] as usize]);
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let source = from(lane);
        if inactive || exec >> source & 1 != 0 {
            w.set_lane(s.dst[0], lane, data.0[source]);
        } else if zero {
            w.set_lane(s.dst[0], lane, 0);
        }
    }
    Flow::Next
}

/// Lane i of a row reads the lane that the i-th four bits of `{S2, S1}` name, of its own row or, with `other` 16, of the
/// other row of the pair.
fn by_scalars(w: &mut Wave, s: &MicroOp, other: usize) -> Flow {
    let select = u64::from(s.s32(w, 1)) | u64::from(s.s32(w, 2)) << 32;
    fetch(w, s, |lane| (lane & !(ROW - 1)) ^ other | (select >> (4 * (lane % ROW)) & 15) as usize)
}

/// The same, by the low four bits of each lane's own S1.
fn by_lanes(w: &mut Wave, s: &MicroOp, other: usize) -> Flow {
    let select = w.v[s.src[1] as usize];
    fetch(w, s, |lane| (lane & !(ROW - 1)) ^ other | (select.0[lane] & 15) as usize)
}

/// The halves of a wave64 exchange their values, switched off or not; a wave32 has no halves, and nothing happens but the
/// move.
fn swap_halves(w: &mut Wave, s: &MicroOp) -> Flow {
    let (exec, data, half) = (w.exec(), w.v[s.src[0] as usize], w.lanes / 2);
    let distance = if w.lanes == LANES { half } else { 0 };
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        w.set_lane(s.dst[0], lane, data.0[lane ^ distance]);
    }
    Flow::Next
}

/// A vector register moved, `None` past the last one.
fn moved(register: u16, distance: u32) -> Option<u16> {
    let moved = u32::from(register).checked_add(distance)?;
    (moved < u32::from(AGPR)).then_some(moved as u16)
}

/// `VGPR[D + to] = VGPR[S0 + from]`
fn move_relative(w: &mut Wave, env: &mut Env, s: &MicroOp, from: u32, to: u32) -> Flow {
    s.spread(w);
    let from = if from == 0 { Some(s.src[0]) } else { moved(s.src[0], from) };
    let (Some(from), Some(to)) = (from, moved(s.dst[0], to)) else {
        return env.fail(FaultKind::Unsupported("a register index past the last VGPR"));
    };
    let (exec, data) = (w.exec(), w.v[from as usize]);
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        w.set_lane(to, lane, data.0[lane]);
    }
    Flow::Next
}

/// `VGPR[D + M0[25:16]], VGPR[S0 + M0[9:0]]` exchanged.
fn swap_relative(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let m0 = w.s32(scalar::M0);
    let (Some(a), Some(b)) = (moved(s.dst[0], m0 >> 16 & 0x3ff), moved(s.src[0], m0 & 0x3ff)) else {
        return env.fail(FaultKind::Unsupported("a register index past the last VGPR"));
    };
    let (exec, x, y): (u64, Lanes, Lanes) = (w.exec(), w.v[a as usize], w.v[b as usize]);
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        w.set_lane(a, lane, y.0[lane]);
        w.set_lane(b, lane, x.0[lane]);
    }
    Flow::Next
}

/// `D.b16, S0.b16 = S0.b16, D.b16`, each the half that `op_sel` names.
fn swap_halves_of_registers(w: &mut Wave, s: &MicroOp) -> Flow {
    let shift = |bit: u8| if s.inst.mods.op_sel >> bit & 1 != 0 { 16 } else { 0 };
    let (to, from) = (shift(3), shift(0));
    let put = |old: u32, shift: u32, half: u32| old & !(0xffff << shift) | (half & 0xffff) << shift;
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let (a, b) = (w.lane(s.dst[0], lane) >> to, w.lane(s.src[0], lane) >> from);
        // One after the other: they may be the halves of one register.
        let old = w.lane(s.dst[0], lane);
        w.set_lane(s.dst[0], lane, put(old, to, b));
        let old = w.lane(s.src[0], lane);
        w.set_lane(s.src[0], lane, put(old, from, a));
    }
    Flow::Next
}

/// `D = S2 + sum of S0 * S1`, where bits 0 and 1 of `neg` say whether the parts of S0 and of S1 are signed.
fn dot<const BITS: u32>(w: &mut Wave, s: &MicroOp) -> Flow {
    debug_assert_eq!(s.inst.format, Format::Vop3p, "the negation bits are free in this format only");
    s.spread(w);
    let signed = [s.inst.mods.neg & 1 != 0, s.inst.mods.neg & 2 != 0];
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let (a, b, c) = (w.lane(s.src[0], lane), w.lane(s.src[1], lane), w.lane(s.src[2], lane) as i32);
        let sum = i64::from(c) + dot_signed_by::<BITS>(a, b, signed);
        let result = if s.inst.mods.clamp { saturate_i32(sum) } else { sum as i32 };
        w.set_lane(s.dst[0], lane, result as u32);
    }
    Flow::Next
}
