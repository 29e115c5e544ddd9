//! DS with two addresses in one instruction: `ds_read2`, `ds_write2`, their `st64` forms, and the exchange of two.

use rocfire_isa::Op;

use super::interleave::Interleave;
use super::space::{Attempt, Lds, deny, lds_lane_ptr, observe};
use super::{by_cpu, load, store};
use crate::env::Env;
use crate::error::Access;
use crate::step::{Flow, Handlers, Step};
use crate::wave::{LANES, Wave};

/// Byte offset of the first or second address: 8 bits each, in units of the access or of 64 of them.
#[inline(always)]
fn offset_bytes(s: &Step, second: bool, unit_bytes: i64) -> i64 {
    (s.imm >> if second { 8 } else { 0 } & 0xff) * unit_bytes
}

#[inline(always)]
fn read<C: Interleave, const N: usize, const BYTES: usize, const UNITS: i64>(
    w: &mut Wave,
    env: &mut Env,
    s: &Step,
) -> Flow {
    let unit_bytes = BYTES as i64 * UNITS;
    let [first, second] = [false, true].map(|second| offset_bytes(s, second, unit_bytes));
    let results = s.dst[0]..s.dst[0] + N as u16;
    if !results.contains(&s.src[0]) {
        let flow = load::dwords::<C, Lds, N, BYTES>(w, env, s, s.dst[0], first);
        return match flow {
            Flow::Next => load::dwords::<C, Lds, N, BYTES>(w, env, s, s.dst[0] + N as u16, second),
            other => other,
        };
    }
    // The first result lands on the address register: keep it for the second.
    let address = w.v[s.src[0] as usize];
    let flow = load::dwords::<C, Lds, N, BYTES>(w, env, s, s.dst[0], first);
    if flow != Flow::Next {
        return flow;
    }
    let loaded = std::mem::replace(&mut w.v[s.src[0] as usize], address);
    let flow = load::dwords::<C, Lds, N, BYTES>(w, env, s, s.dst[0] + N as u16, second);
    w.v[s.src[0] as usize] = loaded;
    flow
}

#[inline(always)]
fn write<C: Interleave, const N: usize, const BYTES: usize, const UNITS: i64>(
    w: &mut Wave,
    env: &mut Env,
    s: &Step,
) -> Flow {
    let unit_bytes = BYTES as i64 * UNITS;
    match store::dwords::<C, Lds, N, BYTES>(w, env, s, s.src[1], offset_bytes(s, false, unit_bytes)) {
        Flow::Next => store::dwords::<C, Lds, N, BYTES>(w, env, s, s.src[2], offset_bytes(s, true, unit_bytes)),
        other => other,
    }
}

/// Each lane stores both words and gets what was there.
fn exchange<const N: usize, const BYTES: usize, const UNITS: i64>(w: &mut Wave, env: &mut Env, s: &Step) -> Flow {
    let unit_bytes = BYTES as i64 * UNITS;
    let exec = w.exec();
    let addresses = w.v[s.src[0] as usize];
    for half in 0..2u16 {
        let offset = offset_bytes(s, half == 1, unit_bytes);
        observe::<Lds>(w, env, s, (offset, BYTES, s.src[1 + usize::from(half)]), Access::Atomic);
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        for half in 0..2u16 {
            let offset = offset_bytes(s, half == 1, unit_bytes);
            let address = u64::from(addresses.0[lane].wrapping_add(offset as u32));
            let host = match lds_lane_ptr(env, lane, address, BYTES as u64) {
                Ok(host) => host,
                Err(cause) => {
                    let addresses = addresses.0.map(|address| u64::from(address.wrapping_add(offset as u32)));
                    let attempt = Attempt { addresses: &addresses, bytes: BYTES as u64, access: Access::Atomic };
                    return deny::<Lds>(w, env, s, &attempt, lane, *cause);
                }
            };
            for d in 0..N {
                let new = w.lane(s.src[1 + usize::from(half)] + d as u16, lane);
                // SAFETY: `lds_lane_ptr` gave a pointer to `BYTES` bytes that no other thread reaches.
                let old = unsafe { host.cast::<u32>().add(d).read_unaligned() };
                // SAFETY: as above.
                unsafe { host.cast::<u32>().add(d).write_unaligned(new) };
                w.set_lane(s.dst[0] + half * N as u16 + d as u16, lane, old);
            }
        }
    }
    Flow::Next
}

/// The handler of a two-address instruction.
pub(super) fn select(op: Op) -> Option<Handlers> {
    Some(match op {
        Op::DsRead2B32 => by_cpu!(C => read::<C, 1, 4, 1>),
        Op::DsRead2B64 => by_cpu!(C => read::<C, 2, 8, 1>),
        Op::DsRead2st64B32 => by_cpu!(C => read::<C, 1, 4, 64>),
        Op::DsRead2st64B64 => by_cpu!(C => read::<C, 2, 8, 64>),
        Op::DsWrite2B32 => by_cpu!(C => write::<C, 1, 4, 1>),
        Op::DsWrite2B64 => by_cpu!(C => write::<C, 2, 8, 1>),
        Op::DsWrite2st64B32 => by_cpu!(C => write::<C, 1, 4, 64>),
        Op::DsWrite2st64B64 => by_cpu!(C => write::<C, 2, 8, 64>),
        Op::DsWrxchg2RtnB32 => Handlers::same(exchange::<1, 4, 1>),
        Op::DsWrxchg2RtnB64 => Handlers::same(exchange::<2, 8, 1>),
        Op::DsWrxchg2st64RtnB32 => Handlers::same(exchange::<1, 4, 64>),
        Op::DsWrxchg2st64RtnB64 => Handlers::same(exchange::<2, 8, 64>),
        _ => return None,
    })
}
