//! Loads from device memory straight into LDS.
//!
//! Lane `i`'s dword goes to `M0[15:0] + offset + 4 * i`; bytes and shorts are extended to the dword.

use rocfire_isa::Op;

use super::space::{Device, Lds, Space, lds_lane_ptr, record};
use crate::env::Env;
use crate::error::Access;
use crate::instrument::EventKind;
use crate::step::{Flow, Handlers, Step};
use crate::wave::{LANES, Wave, scalar};

/// The handler of a load to LDS.
pub(super) fn global(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::GlobalLoadLdsDword => |w, env, s| run::<4>(w, env, s, u32::from_le_bytes),
        Op::GlobalLoadLdsUbyte => |w, env, s| run::<1>(w, env, s, |bytes| u32::from(bytes[0])),
        Op::GlobalLoadLdsSbyte => |w, env, s| run::<1>(w, env, s, |bytes| bytes[0] as i8 as u32),
        Op::GlobalLoadLdsUshort => |w, env, s| run::<2>(w, env, s, |b| u32::from(u16::from_le_bytes([b[0], b[1]]))),
        Op::GlobalLoadLdsSshort => |w, env, s| run::<2>(w, env, s, |b| i16::from_le_bytes([b[0], b[1]]) as u32),
        _ => return None,
    }))
}

fn run<const BYTES: usize>(w: &mut Wave, env: &mut Env, s: &Step, extend: fn([u8; 4]) -> u32) -> Flow {
    const { assert!(BYTES <= 4) };
    let exec = w.exec();
    let addresses = Device::addresses(w, s, s.imm);
    let target = u64::from(w.s32(scalar::M0) & 0xffff).wrapping_add(s.imm as u64);
    Device::count(env, u64::from(exec.count_ones()) * BYTES as u64, Access::Read);
    if env.observed {
        record::<Device>(env, exec, &addresses, (BYTES as u32, 0), EventKind::ToLds);
        let targets = std::array::from_fn(|lane| target + 4 * lane as u64);
        record::<Lds>(env, exec, &targets, (4, 0), EventKind::ToLds);
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let mut bytes = [0; 4];
        match Device::lane_ptr(w, env, s, lane, addresses[lane], BYTES as u64, Access::Read) {
            // SAFETY: `lane_ptr` gave a pointer to `BYTES` readable bytes, and `bytes` has room for them.
            Ok(Some(host)) => unsafe { std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), BYTES) },
            Ok(None) => {}
            Err(cause) => return env.fail_with(*cause),
        }
        match lds_lane_ptr(env, lane, target + 4 * lane as u64, 4) {
            // SAFETY: `lds_lane_ptr` gave a pointer to four bytes that no other thread reaches.
            Ok(host) => unsafe { host.cast::<u32>().write_unaligned(extend(bytes)) },
            Err(cause) => return env.fail_with(*cause),
        }
    }
    Flow::Next
}
