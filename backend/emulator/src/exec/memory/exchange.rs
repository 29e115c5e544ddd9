//! DS instructions that move data between lanes without touching LDS, and the two that count lanes into it.

use rocfire_arch::{Arch, Family};
use rocfire_isa::Op;

use super::space::{Lds, lds_lane_ptr, record};
use crate::env::Env;
use crate::instrument::EventKind;
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Lanes, Wave, scalar};

/// The handler of a lane exchange.
pub(super) fn select(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::DsSwizzleB32 => swizzle,
        Op::DsPermuteB32 => permute,
        Op::DsBpermuteB32 => bpermute,
        Op::DsBpermuteFiB32 => bpermute_inactive,
        Op::DsAppend => append,
        Op::DsConsume => consume,
        _ => return None,
    }))
}

/// Writes the lanes that are on.
fn write(w: &mut Wave, s: &MicroOp, values: &Lanes) {
    let exec = w.exec();
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        w.set_lane(s.dst[0], lane, values.0[lane]);
    }
}

/// Each lane gets the value of the lane that a pattern in the offset names; from a lane that is off it gets zero.
///
/// The ISA's two modes: bit 15 set, a permutation within each four lanes (two bits for each); clear, within each 32 lanes
/// `((lane & and) | or) ^ xor`, five bits each. From GFX9 on there are two more where both upper bits are set: with bit 13
/// the order of a fast Fourier transform, without it a rotation of each 32 lanes.
fn swizzle(w: &mut Wave, _: &mut Env, s: &MicroOp) -> Flow {
    let (exec, pattern, data) = (w.exec(), s.imm as u32, w.v[s.src[0] as usize]);
    let mut values = Lanes::ZERO;
    for lane in 0..LANES {
        let from = if pattern & 0xc000 == 0xc000 {
            rotated(pattern, lane)
        } else if pattern & 0x8000 != 0 {
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

/// The lane that `lane` reads under a pattern with both upper bits set: "FFT" is the reverse of the lane's five bits, less
/// as many as the mask has, with the bits under the mask put back; "rotate" adds bits 9..5, or subtracts them with bit 10,
/// to the bits that are not under the mask.
fn rotated(pattern: u32, lane: usize) -> usize {
    let (in_group, mask, by) = (lane as u32 & 31, pattern & 31, pattern >> 5 & 31);
    let from = if pattern & 0x2000 != 0 {
        let reversed = in_group.reverse_bits() >> 27 >> mask.count_ones();
        if mask == 31 { in_group } else { reversed | in_group & mask }
    } else {
        let by = if pattern & 0x400 != 0 { by.wrapping_neg() } else { by };
        in_group & mask | in_group.wrapping_add(by) & 31 & !mask
    };
    lane & !31 | from as usize
}

/// A lane's number from its byte address. A wave64 of RDNA 2 and 3 runs in two halves, which do not reach each other.
pub(crate) fn lane_at(w: &Wave, arch: Arch, s: &MicroOp, lane: usize, address: u32) -> usize {
    let number = (address.wrapping_add(s.imm as u32) / 4) as usize;
    match arch.info().family {
        Family::Rdna1 | Family::Rdna2 | Family::Rdna3 | Family::Rdna35 => lane & !31 | number & 31,
        _ => number % w.lanes,
    }
}

/// Each lane sends its value to the lane that its address names; who gets none has zero, and of two senders the higher
/// lane wins.
fn permute(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let (exec, address, data) = (w.exec(), w.v[s.src[0] as usize], w.v[s.src[1] as usize]);
    let mut values = Lanes::ZERO;
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        values.0[lane_at(w, env.program.arch, s, lane, address.0[lane])] = data.0[lane];
    }
    write(w, s, &values);
    Flow::Next
}

/// Each lane gets the value of the lane that its address names; from a lane that is off it gets zero.
fn bpermute(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let readable = w.exec();
    fetch(w, env, s, readable)
}

/// The same, and lanes that are off may be read.
fn bpermute_inactive(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    fetch(w, env, s, !0)
}

fn fetch(w: &mut Wave, env: &Env, s: &MicroOp, readable: u64) -> Flow {
    let (address, data) = (w.v[s.src[0] as usize], w.v[s.src[1] as usize]);
    let mut values = Lanes::ZERO;
    for lane in 0..LANES {
        let from = lane_at(w, env.program.arch, s, lane, address.0[lane]);
        values.0[lane] = if readable >> from & 1 != 0 { data.0[from] } else { 0 };
    }
    write(w, s, &values);
    Flow::Next
}

fn append(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    count_lanes(w, env, s, |old, lanes| old.wrapping_add(lanes))
}

fn consume(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    count_lanes(w, env, s, |old, lanes| old.wrapping_sub(lanes))
}

/// Adds or subtracts the number of lanes that are on to the dword at M0's low half plus the offset; all get what was there.
fn count_lanes(w: &mut Wave, env: &mut Env, s: &MicroOp, change: fn(u32, u32) -> u32) -> Flow {
    let lanes = w.exec().count_ones();
    let address = u64::from(w.s32(scalar::M0) & 0xffff) + (s.imm as u64 & 0xffff);
    if env.observed && lanes > 0 {
        record::<Lds>(env, 1, &[address; LANES], (4, 0), EventKind::Atomic);
    }
    env.lds_changes += u64::from(lanes > 0);
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
