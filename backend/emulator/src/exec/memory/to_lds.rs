//! Loads from device memory or scratch straight into LDS.
//!
//! Lane `i`'s dword goes to `M0 + offset + 4 * i`; bytes and shorts are extended to the dword. Three and four dwords
//! (CDNA 4) go to `M0 + offset + 16 * i`. M0 has as many bits here as it takes to number the bytes of LDS.

use rocfire_isa::Op;

use super::space::{Attempt, Buffer, Device, Lds, Scratch, Space, deny, lds_lane_ptr, record};
use crate::env::Env;
use crate::error::Access;
use crate::instrument::EventKind;
use crate::step::{Flow, Handlers, Step};
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

fn run<S: Space, const BYTES: usize, const SIGNED: bool>(w: &mut Wave, env: &mut Env, s: &Step) -> Flow {
    const { assert!(BYTES <= 16) };
    let exec = w.exec();
    let addresses = S::addresses(w, s, s.imm);
    let stored = BYTES.next_multiple_of(4);
    let stride = if stored > 4 { 16 } else { 4 };
    let m0 = w.s32(scalar::M0) & (env.program.arch.info().lds_bytes.next_power_of_two() - 1);
    let target = u64::from(m0).wrapping_add(s.imm as u64);
    S::count(env, u64::from(exec.count_ones()) * BYTES as u64, Access::Read);
    let targets = std::array::from_fn(|lane| target + stride * lane as u64);
    if env.observed && exec != 0 {
        record::<S>(env, exec, &addresses, (BYTES as u32, 0), EventKind::ToLds);
        record::<Lds>(env, exec, &targets, (stored as u32, 0), EventKind::ToLds);
    }
    env.lds_changes += u64::from(exec != 0);
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let mut bytes = [0u8; 16];
        match S::lane_ptr(w, env, s, lane, addresses[lane], BYTES as u64, Access::Read) {
            // SAFETY: `lane_ptr` gave a pointer to `BYTES` readable bytes, and `bytes` has room for them.
            Ok(Some(host)) => unsafe { std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), BYTES) },
            Ok(None) => {}
            Err(cause) => {
                let attempt = Attempt { addresses: &addresses, bytes: BYTES as u64, access: Access::Read };
                return deny::<S>(w, env, s, &attempt, lane, *cause);
            }
        }
        if SIGNED && bytes[BYTES - 1] & 0x80 != 0 {
            bytes[BYTES..4].fill(0xff);
        }
        match lds_lane_ptr(env, lane, targets[lane], stored as u64) {
            // SAFETY: `lds_lane_ptr` gave a pointer to `stored` bytes that no other thread reaches, and `bytes` has as many.
            Ok(host) => unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host, stored) },
            Err(cause) => {
                let attempt = Attempt { addresses: &targets, bytes: stored as u64, access: Access::Write };
                return deny::<Lds>(w, env, s, &attempt, lane, *cause);
            }
        }
    }
    Flow::Next
}
