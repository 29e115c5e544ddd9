//! DS with two addresses in one instruction: `ds_read2`, `ds_write2`, their `st64` forms, and the exchange of two.

use rocfire_isa::Op;

use super::interleave::Interleave;
use super::space::{Attempt, Lds, deny, lds_lane_ptr, observe};
use super::{by_cpu, load, store};
use crate::env::Env;
use crate::error::Access;
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Wave};

/// Byte offsets of both addresses: 8 bits each, in units of the access or of 64 of them.
#[inline(always)]
fn offsets_bytes(s: &MicroOp, access_bytes: usize) -> [i64; 2] {
    let is_strided = matches!(
        s.inst.op,
        Op::DsRead2st64B32
            | Op::DsRead2st64B64
            | Op::DsWrite2st64B32
            | Op::DsWrite2st64B64
            | Op::DsWrxchg2st64RtnB32
            | Op::DsWrxchg2st64RtnB64
    );
    let unit_bytes = access_bytes as i64 * if is_strided { 64 } else { 1 };
    [s.imm & 0xff, s.imm >> 8 & 0xff].map(|offset| offset * unit_bytes)
}

#[inline(always)]
fn read<C: Interleave, const N: usize, const BYTES: usize>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    // Where the first result lands on the address register, that is kept for the second.
    let lands = (s.dst[0]..s.dst[0] + N as u16).contains(&s.src[0]);
    let address = lands.then(|| w.v[s.src[0] as usize]);
    let mut dst = s.dst[0];
    for (second, offset_bytes) in offsets_bytes(s, BYTES).into_iter().enumerate() {
        let kept = address.filter(|_| second == 1);
        let loaded = kept.map(|address| std::mem::replace(&mut w.v[s.src[0] as usize], address));
        let flow = load::dwords::<C, Lds, N, BYTES>(w, env, s, dst, offset_bytes);
        if let Some(loaded) = loaded {
            w.v[s.src[0] as usize] = loaded;
        }
        if flow != Flow::Next {
            return flow;
        }
        dst += N as u16;
    }
    Flow::Next
}

#[inline(always)]
fn write<C: Interleave, const N: usize, const BYTES: usize>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    for (data, offset_bytes) in s.src[1..3].iter().zip(offsets_bytes(s, BYTES)) {
        match store::dwords::<C, Lds, N, BYTES>(w, env, s, *data, offset_bytes) {
            Flow::Next => {}
            other => return other,
        }
    }
    Flow::Next
}

/// Each lane stores both words and gets what was there.
fn exchange<const N: usize, const BYTES: usize>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let offsets_bytes = offsets_bytes(s, BYTES);
    let exec = w.exec();
    let addresses = w.v[s.src[0] as usize];
    for half in 0..2u16 {
        let offset = offsets_bytes[usize::from(half)];
        observe::<Lds>(w, env, s, (offset, BYTES, s.src[1 + usize::from(half)]), Access::Atomic);
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        for half in 0..2u16 {
            let offset = offsets_bytes[usize::from(half)];
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
        Op::DsRead2B32 | Op::DsRead2st64B32 => by_cpu!(C => read::<C, 1, 4>),
        Op::DsRead2B64 | Op::DsRead2st64B64 => by_cpu!(C => read::<C, 2, 8>),
        Op::DsWrite2B32 | Op::DsWrite2st64B32 => by_cpu!(C => write::<C, 1, 4>),
        Op::DsWrite2B64 | Op::DsWrite2st64B64 => by_cpu!(C => write::<C, 2, 8>),
        Op::DsWrxchg2RtnB32 | Op::DsWrxchg2st64RtnB32 => Handlers::same(exchange::<1, 4>),
        Op::DsWrxchg2RtnB64 | Op::DsWrxchg2st64RtnB64 => Handlers::same(exchange::<2, 8>),
        _ => return None,
    })
}
