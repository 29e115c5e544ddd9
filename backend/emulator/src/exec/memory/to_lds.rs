//! Loads from device memory or scratch straight into LDS.
//!
//! Lane `i`'s dword goes to `M0 + offset + 4 * i`; bytes and shorts are extended to the dword. Three and four dwords
//! (CDNA 4) go to `M0 + offset + 16 * i`. M0 has as many bits here as it takes to number the bytes of LDS.

use rocfire_isa::Op;

use super::space::{Addresses, Attempt, Buffer, Device, Lds, Scratch, Space, deny, lds_lane_ptr, pieces, record};
use crate::env::Env;
use crate::error::Access;
use crate::instrument::EventKind;
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Wave, scalar};

/// The handler of a load to LDS by GLOBAL.
pub(super) fn global(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::GlobalLoadLdsDword => run::<Device, 4, false>,
        Op::GlobalLoadLdsDwordx3 => run::<Device, 12, false>,
        Op::GlobalLoadLdsDwordx4 => run::<Device, 16, false>,
        Op::GlobalLoadLdsUbyte => run::<Device, 1, false>,
        Op::GlobalLoadLdsSbyte => run::<Device, 1, true>,
        Op::GlobalLoadLdsUshort => run::<Device, 2, false>,
        Op::GlobalLoadLdsSshort => run::<Device, 2, true>,
        _ => return None,
    }))
}

/// The handler of a load to LDS by SCRATCH.
pub(super) fn scratch(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::ScratchLoadLdsDword => run::<Scratch, 4, false>,
        Op::ScratchLoadLdsUbyte => run::<Scratch, 1, false>,
        Op::ScratchLoadLdsSbyte => run::<Scratch, 1, true>,
        Op::ScratchLoadLdsUshort => run::<Scratch, 2, false>,
        Op::ScratchLoadLdsSshort => run::<Scratch, 2, true>,
        _ => return None,
    }))
}

/// The handler of a load of MUBUF whose `lds` bit is set.
pub(super) fn buffer(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::BufferLoadDword => run::<Buffer, 4, false>,
        Op::BufferLoadDwordx3 => run::<Buffer, 12, false>,
        Op::BufferLoadDwordx4 => run::<Buffer, 16, false>,
        Op::BufferLoadUbyte => run::<Buffer, 1, false>,
        Op::BufferLoadSbyte => run::<Buffer, 1, true>,
        Op::BufferLoadUshort => run::<Buffer, 2, false>,
        Op::BufferLoadSshort => run::<Buffer, 2, true>,
        _ => return None,
    }))
}

fn run<S: Space, const BYTES: usize, const SIGNED: bool>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    const { assert!(BYTES <= 16) };
    load::<S>(w, env, s, BYTES, SIGNED)
}

#[inline(never)]
fn load<S: Space>(w: &mut Wave, env: &mut Env, s: &MicroOp, bytes: usize, signed: bool) -> Flow {
    let exec = w.exec();
    let stride = if bytes > 4 { 16 } else { 4 };
    let m0 = w.s32(scalar::M0) & (env.program.arch.info().lds_bytes.next_power_of_two() - 1);
    let target = u64::from(m0).wrapping_add(s.imm as u64);
    S::count(env, u64::from(exec.count_ones()) * bytes as u64, Access::Read);
    env.lds_changes += u64::from(exec != 0);
    for (at, bytes) in pieces::<S>(w, s, s.imm, bytes) {
        let addresses = S::addresses(w, s, s.imm + at as i64);
        let stored = bytes.next_multiple_of(4);
        let targets = std::array::from_fn(|lane| target + at as u64 + stride * lane as u64);
        if env.observed && exec != 0 {
            record::<S>(env, exec, &addresses, (bytes as u32, 0), EventKind::ToLds);
            record::<Lds>(env, exec, &targets, (stored as u32, 0), EventKind::ToLds);
        }
        let piece = Piece { addresses, targets, bytes, stored, signed };
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            if let Err(flow) = move_lane::<S>(w, env, s, &piece, lane) {
                return flow;
            }
        }
    }
    Flow::Next
}

/// A part of each lane's bytes.
struct Piece {
    addresses: Addresses,
    targets: Addresses,
    bytes: usize,
    /// Bytes that arrive in LDS.
    stored: usize,
    /// Whether they are the sign's where memory has none.
    signed: bool,
}

/// Moves one lane's bytes.
fn move_lane<S: Space>(w: &Wave, env: &mut Env, s: &MicroOp, piece: &Piece, lane: usize) -> Result<(), Flow> {
    let &Piece { ref addresses, ref targets, bytes, stored, signed } = piece;
    let mut loaded = [0u8; 16];
    match S::lane_ptr(w, env, s, lane, addresses[lane], bytes as u64, Access::Read) {
        // SAFETY: `lane_ptr` gave a pointer to `bytes` readable bytes, which are at most 16, and `loaded` has room for them.
        Ok(Some(host)) => unsafe { std::ptr::copy_nonoverlapping(host, loaded.as_mut_ptr(), bytes) },
        Ok(None) => {}
        Err(cause) => {
            let attempt = Attempt { addresses, bytes: bytes as u64, access: Access::Read };
            return Err(deny::<S>(w, env, s, &attempt, lane, *cause));
        }
    }
    if signed && loaded[bytes - 1] & 0x80 != 0 {
        loaded[bytes..4].fill(0xff);
    }
    match lds_lane_ptr(env, lane, targets[lane], stored as u64) {
        Ok(host) => {
            // SAFETY: `lds_lane_ptr` gave a pointer to `stored` bytes that no other thread reaches; `loaded` has as many.
            unsafe { std::ptr::copy_nonoverlapping(loaded.as_ptr(), host, stored) };
            Ok(())
        }
        Err(cause) => {
            let attempt = Attempt { addresses: targets, bytes: stored as u64, access: Access::Write };
            Err(deny::<Lds>(w, env, s, &attempt, lane, *cause))
        }
    }
}
