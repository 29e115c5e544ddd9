//! SOP1: one source; moves, bit counts, the exec-mask operations, indirect jumps.

use rocfire_isa::{Inst, Op, OperandKind};

use super::handler;
use crate::env::Env;
use crate::error::FaultKind;
use crate::step::{Flow, Selected};
use crate::wave::{Wave, scalar};

/// 32-bit result from a 32-bit source; SCC stays.
macro_rules! plain32 {
    (|$a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let $a = s.s32(w, 0);
            w.set_s32(s.dst[0], $result);
            Flow::Next
        })
    };
}

/// 32-bit result from a 64-bit source; SCC stays.
macro_rules! narrow {
    (|$a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let $a = s.s64(w, 0);
            w.set_s32(s.dst[0], $result);
            Flow::Next
        })
    };
}

/// 64-bit result from a 64-bit source; SCC stays.
macro_rules! plain64 {
    (|$a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let $a = s.s64(w, 0);
            w.set_s64(s.dst[0], $result);
            Flow::Next
        })
    };
}

/// As the first macro, then SCC says whether the result is not zero.
macro_rules! with_scc {
    ($read:ident, $write:ident, |$a:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let $a = s.$read(w, 0);
            let result = $result;
            w.$write(s.dst[0], result);
            w.scc = result != 0;
            Flow::Next
        })
    };
}

/// `sdst = EXEC; EXEC = f(source, EXEC); SCC = EXEC != 0`.
macro_rules! save_exec {
    (|$a:pat_param, $exec:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $exec) = (s.s64(w, 0), w.exec());
            let (old, new): (u64, u64) = (w.exec(), $result);
            w.set_s64(s.dst[0], old);
            w.set_s64(scalar::EXEC, new);
            w.scc = new != 0;
            Flow::Next
        })
    };
}

/// `EXEC = f(source, EXEC); sdst = EXEC; SCC = EXEC != 0`.
macro_rules! write_exec {
    (|$a:pat_param, $exec:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $exec) = (s.s64(w, 0), w.exec());
            let new: u64 = $result;
            w.set_s64(scalar::EXEC, new);
            w.set_s64(s.dst[0], new);
            w.scc = new != 0;
            Flow::Next
        })
    };
}

/// As `save_exec`, of the 32 lanes of a wave32.
macro_rules! save_exec32 {
    (|$a:pat_param, $exec:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $exec) = (s.s32(w, 0), w.s32(scalar::EXEC));
            let (old, new): (u32, u32) = (w.s32(scalar::EXEC), $result);
            w.set_s32(s.dst[0], old);
            w.set_s32(scalar::EXEC, new);
            w.scc = new != 0;
            Flow::Next
        })
    };
}

/// As `write_exec`, of the 32 lanes of a wave32.
macro_rules! write_exec32 {
    (|$a:pat_param, $exec:pat_param| $result:expr) => {
        handler!(|w, _, s| {
            let ($a, $exec) = (s.s32(w, 0), w.s32(scalar::EXEC));
            let new: u32 = $result;
            w.set_s32(scalar::EXEC, new);
            w.set_s32(s.dst[0], new);
            w.scc = new != 0;
            Flow::Next
        })
    };
}

/// Of the messages that return something only the clock is known; what else the hardware could tell about itself reads as
/// zero.
pub(super) fn select(inst: &Inst) -> Option<Selected> {
    let message = inst.src.iter().find_map(|operand| match operand.kind {
        OperandKind::Imm(value) => Some(i64::from(value)),
        _ => None,
    });
    let handlers = match inst.op {
        Op::SMovB32 => plain32!(|a| a),
        Op::SMovB64 => plain64!(|a| a),
        Op::SCmovB32 => handler!(|w, _, s| {
            if w.scc {
                let value = s.s32(w, 0);
                w.set_s32(s.dst[0], value);
            }
            Flow::Next
        }),
        Op::SCmovB64 => handler!(|w, _, s| {
            if w.scc {
                let value = s.s64(w, 0);
                w.set_s64(s.dst[0], value);
            }
            Flow::Next
        }),
        // M0 is an index that the guest computes: it wraps inside the file instead of leaving it.
        Op::SMovrelsB32 => handler!(|w, _, s| {
            let value = w.s32(relative(w, s.src[0]));
            w.set_s32(s.dst[0], value);
            Flow::Next
        }),
        Op::SMovrelsB64 => handler!(|w, _, s| {
            let value = w.s64(relative(w, s.src[0]));
            w.set_s64(s.dst[0], value);
            Flow::Next
        }),
        Op::SMovreldB32 => handler!(|w, _, s| {
            let value = s.s32(w, 0);
            w.set_s32(relative(w, s.dst[0]), value);
            Flow::Next
        }),
        Op::SMovreldB64 => handler!(|w, _, s| {
            let value = s.s64(w, 0);
            w.set_s64(relative(w, s.dst[0]), value);
            Flow::Next
        }),
        // M0 holds the source's distance in bits 9..0, the destination's in 25..16.
        Op::SMovrelsd2B32 => handler!(|w, _, s| {
            let m0 = w.s32(scalar::M0);
            let value = w.s32(moved(s.src[0], m0 & 0x3ff));
            w.set_s32(moved(s.dst[0], m0 >> 16 & 0x3ff), value);
            Flow::Next
        }),
        Op::SSextI32I8 => plain32!(|a| a as i8 as u32),
        Op::SSextI32I16 => plain32!(|a| a as i16 as u32),
        Op::SBitset0B32 => handler!(|w, _, s| {
            let value = w.s32(s.dst[0]) & !(1 << (s.s32(w, 0) & 31));
            w.set_s32(s.dst[0], value);
            Flow::Next
        }),
        Op::SBitset1B32 => handler!(|w, _, s| {
            let value = w.s32(s.dst[0]) | 1 << (s.s32(w, 0) & 31);
            w.set_s32(s.dst[0], value);
            Flow::Next
        }),
        Op::SBitset0B64 => handler!(|w, _, s| {
            let value = w.s64(s.dst[0]) & !(1 << (s.s32(w, 0) & 63));
            w.set_s64(s.dst[0], value);
            Flow::Next
        }),
        Op::SBitset1B64 => handler!(|w, _, s| {
            let value = w.s64(s.dst[0]) | 1 << (s.s32(w, 0) & 63);
            w.set_s64(s.dst[0], value);
            Flow::Next
        }),
        Op::SBitreplicateB64B32 => handler!(|w, _, s| {
            let source = s.s32(w, 0);
            let value = (0..32).filter(|bit| source >> bit & 1 != 0).fold(0u64, |bits, bit| bits | 3 << (2 * bit));
            w.set_s64(s.dst[0], value);
            Flow::Next
        }),
        Op::SNotB32 => with_scc!(s32, set_s32, |a| !a),
        Op::SNotB64 => with_scc!(s64, set_s64, |a| !a),
        Op::SAbsI32 => with_scc!(s32, set_s32, |a| (a as i32).unsigned_abs()),
        Op::SWqmB32 => with_scc!(s32, set_s32, |a| whole_quads(u64::from(a)) as u32),
        Op::SWqmB64 => with_scc!(s64, set_s64, |a| whole_quads(a)),
        Op::SQuadmaskB32 => with_scc!(s32, set_s32, |a| quads(u64::from(a)) as u32),
        Op::SQuadmaskB64 => with_scc!(s64, set_s64, |a| quads(a)),
        Op::SBcnt0I32B32 => with_scc!(s32, set_s32, |a| a.count_zeros()),
        Op::SBcnt1I32B32 => with_scc!(s32, set_s32, |a| a.count_ones()),
        Op::SBcnt0I32B64 => with_scc!(s64, set_s32, |a| a.count_zeros()),
        Op::SBcnt1I32B64 => with_scc!(s64, set_s32, |a| a.count_ones()),
        Op::SBrevB32 => plain32!(|a| a.reverse_bits()),
        Op::SBrevB64 => plain64!(|a| a.reverse_bits()),
        Op::SFf0I32B32 => plain32!(|a| or_none(a.trailing_ones(), 32)),
        Op::SFf0I32B64 => narrow!(|a| or_none(a.trailing_ones(), 64)),
        Op::SFf1I32B32 => plain32!(|a| or_none(a.trailing_zeros(), 32)),
        Op::SFf1I32B64 => narrow!(|a| or_none(a.trailing_zeros(), 64)),
        Op::SFlbitI32B32 => plain32!(|a| or_none(a.leading_zeros(), 32)),
        Op::SFlbitI32B64 => narrow!(|a| or_none(a.leading_zeros(), 64)),
        Op::SFlbitI32 => plain32!(|a| or_none((a ^ (a as i32 >> 31) as u32).leading_zeros(), 32)),
        Op::SFlbitI32I64 => narrow!(|a| or_none((a ^ (a as i64 >> 63) as u64).leading_zeros(), 64)),
        Op::SAndSaveexecB64 => save_exec!(|a, exec| a & exec),
        Op::SOrSaveexecB64 => save_exec!(|a, exec| a | exec),
        Op::SXorSaveexecB64 => save_exec!(|a, exec| a ^ exec),
        Op::SAndn2SaveexecB64 => save_exec!(|a, exec| a & !exec),
        Op::SOrn2SaveexecB64 => save_exec!(|a, exec| a | !exec),
        Op::SNandSaveexecB64 => save_exec!(|a, exec| !(a & exec)),
        Op::SNorSaveexecB64 => save_exec!(|a, exec| !(a | exec)),
        Op::SXnorSaveexecB64 => save_exec!(|a, exec| !(a ^ exec)),
        Op::SAndn1SaveexecB64 => save_exec!(|a, exec| !a & exec),
        Op::SOrn1SaveexecB64 => save_exec!(|a, exec| !a | exec),
        Op::SAndSaveexecB32 => save_exec32!(|a, exec| a & exec),
        Op::SOrSaveexecB32 => save_exec32!(|a, exec| a | exec),
        Op::SXorSaveexecB32 => save_exec32!(|a, exec| a ^ exec),
        Op::SAndn2SaveexecB32 => save_exec32!(|a, exec| a & !exec),
        Op::SOrn2SaveexecB32 => save_exec32!(|a, exec| a | !exec),
        Op::SNandSaveexecB32 => save_exec32!(|a, exec| !(a & exec)),
        Op::SNorSaveexecB32 => save_exec32!(|a, exec| !(a | exec)),
        Op::SXnorSaveexecB32 => save_exec32!(|a, exec| !(a ^ exec)),
        Op::SAndn1SaveexecB32 => save_exec32!(|a, exec| !a & exec),
        Op::SOrn1SaveexecB32 => save_exec32!(|a, exec| !a | exec),
        Op::SAndn1WrexecB32 => write_exec32!(|a, exec| !a & exec),
        Op::SAndn2WrexecB32 => write_exec32!(|a, exec| a & !exec),
        Op::SAndn1WrexecB64 => write_exec!(|a, exec| !a & exec),
        Op::SAndn2WrexecB64 => write_exec!(|a, exec| a & !exec),
        Op::SGetpcB64 => handler!(|w, env, s| {
            let next = env.program.address_after(s);
            w.set_s64(s.dst[0], next);
            Flow::Next
        }),
        Op::SSetpcB64 => handler!(|w, env, s| {
            let target = s.s64(w, 0);
            jump_to_address(w, env, target)
        }),
        Op::SSwappcB64 => handler!(|w, env, s| {
            let target = s.s64(w, 0);
            let next = env.program.address_after(s);
            w.set_s64(s.dst[0], next);
            jump_to_address(w, env, target)
        }),
        Op::SSendmsgRtnB32 => handler!(|w, _, s| {
            let value = returned(w, s.imm);
            w.set_s32(s.dst[0], value as u32);
            Flow::Next
        }),
        Op::SSendmsgRtnB64 => handler!(|w, _, s| {
            let value = returned(w, s.imm);
            w.set_s64(s.dst[0], value);
            Flow::Next
        }),
        // A workgroup's waves all arrive before any goes on, so that arriving alone shows nowhere.
        Op::SBarrierSignal => handler!(|_, _, _| Flow::Next),
        // SCC = whether no other wave has arrived before.
        Op::SBarrierSignalIsfirst => handler!(|w, env, _| {
            w.scc = !std::mem::replace(&mut env.barrier_signalled, true);
            Flow::Next
        }),
        // Registers are not handed out while a kernel runs: it has those that it asked for, and that always works.
        Op::SAllocVgpr => handler!(|w, _, _| {
            w.scc = true;
            Flow::Next
        }),
        Op::SSetGprIdxIdx => return super::control::select_gpr_index(inst.op),
        _ => return None,
    };
    Some(Selected::scalars(handlers).with_imm(message.unwrap_or(0)))
}

/// A register number moved by M0.
fn relative(w: &Wave, index: u16) -> u16 {
    moved(index, w.s32(scalar::M0))
}

/// A register number moved, inside the file.
fn moved(index: u16, distance: u32) -> u16 {
    (u32::from(index).wrapping_add(distance) % (scalar::FILE as u32 - 1)) as u16
}

/// `MSG_RTN_GET_REALTIME`.
const GET_REALTIME: i64 = 131;

fn returned(w: &Wave, message: i64) -> u64 {
    if message & 0xff == GET_REALTIME { super::clock(w) } else { 0 }
}

/// A bit number, or -1 where no bit was found.
fn or_none(bit: u32, none: u32) -> u32 {
    if bit == none { u32::MAX } else { bit }
}

/// One bit for each group of four that is not zero.
fn quads(mask: u64) -> u64 {
    (0..16).filter(|quad| mask >> (4 * quad) & 0xf != 0).fold(0, |bits, quad| bits | 1 << quad)
}

/// Four bits for each group of four that is not zero.
fn whole_quads(mask: u64) -> u64 {
    (0..16).filter(|quad| mask >> (4 * quad) & 0xf != 0).fold(0, |bits, quad| bits | 0xf << (4 * quad))
}

fn jump_to_address(w: &mut Wave, env: &mut Env, address: u64) -> Flow {
    match env.program.step_at_address(address) {
        Some(step) => env.jump(w, step),
        None => env.fail_with(crate::env::Cause {
            kind: FaultKind::BadJump,
            lane: None,
            address: Some(address),
            bytes: 4,
            nearest: env.memory.nearest(address),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{quads, whole_quads};

    #[test]
    fn quads_of_a_mask() {
        assert_eq!(quads(0x0000_0000_0000_8010), 0b1010);
        assert_eq!(quads(1 << 63), 1 << 15);
        assert_eq!(whole_quads(0x8010), 0xf0f0);
        assert_eq!(whole_quads(0), 0);
    }
}
