//! DS instructions that move data between lanes without touching LDS, and the two that count lanes into it.

use rocfire_isa::Op;

use super::space::{Lds, lds_lane_ptr, record};
use crate::env::Env;
use crate::instrument::EventKind;
use crate::step::{Flow, Handlers, Step};
use crate::wave::{LANES, Lanes, Wave, scalar};

/// The handler of a lane exchange.
pub(super) fn select(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::DsSwizzleB32 => swizzle,
        Op::DsPermuteB32 => permute,
        Op::DsBpermuteB32 => bpermute,
        Op::DsAppend => append,
        Op::DsConsume => consume,
        _ => return None,
    }))
}

/// Writes the lanes that are on.
fn write(w: &mut Wave, s: &Step, values: &Lanes) {
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        w.set_lane(s.dst[0], lane, values.0[lane]);
    }
}

/// Each lane gets the value of the lane that a pattern in the offset names; from a lane that is off it gets zero.
///
/// The ISA's two modes: bit 15 set, a permutation within each four lanes (two bits for each); clear, within each 32 lanes
/// `((lane & and) | or) ^ xor`, five bits each. The rotation and FFT modes of bits 15–14 belong to later families.
fn swizzle(w: &mut Wave, _: &mut Env, s: &Step) -> Flow {
    let (exec, pattern, data) = (w.exec(), s.imm as u32, w.v[s.src[0] as usize]);
    let mut values = Lanes::ZERO;
    for lane in 0..LANES {
        let from = if pattern & 0x8000 != 0 {
            lane & !3 | (pattern >> (2 * (lane & 3)) & 3) as usize
        } else {
            let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
            lane & !31 | (lane & 31 & and as usize | or as usize) ^ xor as usize
        };
        values.0[lane] = if exec >> from & 1 != 0 { data.0[from] } else { 0 };
    }
    write(w, s, &values);
    Flow::Next
}

/// A lane's number from its byte address.
fn lane_at(address: u32, s: &Step) -> usize {
    (address.wrapping_add(s.imm as u32) / 4) as usize % LANES
}

/// Each lane sends its value to the lane that its address names; who gets none has zero, and of two senders the higher
/// lane wins.
fn permute(w: &mut Wave, _: &mut Env, s: &Step) -> Flow {
    let (exec, address, data) = (w.exec(), w.v[s.src[0] as usize], w.v[s.src[1] as usize]);
    let mut values = Lanes::ZERO;
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        values.0[lane_at(address.0[lane], s)] = data.0[lane];
    }
    write(w, s, &values);
    Flow::Next
}

/// Each lane gets the value of the lane that its address names; from a lane that is off it gets zero.
fn bpermute(w: &mut Wave, _: &mut Env, s: &Step) -> Flow {
    let (exec, address, data) = (w.exec(), w.v[s.src[0] as usize], w.v[s.src[1] as usize]);
    let mut values = Lanes::ZERO;
    for lane in 0..LANES {
        let from = lane_at(address.0[lane], s);
        values.0[lane] = if exec >> from & 1 != 0 { data.0[from] } else { 0 };
    }
    write(w, s, &values);
    Flow::Next
}

fn append(w: &mut Wave, env: &mut Env, s: &Step) -> Flow {
    count_lanes(w, env, s, |old, lanes| old.wrapping_add(lanes))
}

fn consume(w: &mut Wave, env: &mut Env, s: &Step) -> Flow {
    count_lanes(w, env, s, |old, lanes| old.wrapping_sub(lanes))
}

/// Adds or subtracts the number of lanes that are on to the dword at M0's low half plus the offset; all get what was there.
fn count_lanes(w: &mut Wave, env: &mut Env, s: &Step, change: fn(u32, u32) -> u32) -> Flow {
    let lanes = w.exec().count_ones();
    let address = u64::from(w.s32(scalar::M0) & 0xffff) + (s.imm as u64 & 0xffff);
    if env.observed && lanes > 0 {
        record::<Lds>(env, 1, &[address; LANES], (4, 0), EventKind::Atomic);
    }
    match lds_lane_ptr(env, 0, address, 4) {
        Ok(host) => {
            // SAFETY: `lds_lane_ptr` gave a pointer to four bytes that no other thread reaches.
            let old = unsafe { host.cast::<u32>().read_unaligned() };
            // SAFETY: as above.
            unsafe { host.cast::<u32>().write_unaligned(change(old, lanes)) };
            write(w, s, &Lanes([old; LANES]));
            Flow::Next
        }
        Err(cause) => env.fail_with(*cause),
    }
}
