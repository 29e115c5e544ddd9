//! Stores: whole dwords, and bytes and shorts from either half of a register.

use rocfire_isa::Op;

use super::by_cpu;
use super::interleave::Interleave;
use super::space::{AccessPattern, Attempt, Device, Lds, Space, Spacing, deny, observe, pieces};
use crate::env::Env;
use crate::error::Access;
use crate::numeric::Baseline;
use crate::step::{Flow, Handlers, MicroOp, levels};
use crate::wave::{LANES, Lanes, Wave};

/// Stores `N` dwords a lane, from the registers at `data`.
#[inline(always)]
pub(super) fn dwords<C: Interleave, S: Space, const N: usize, const BYTES: usize>(
    w: &mut Wave,
    env: &mut Env,
    s: &MicroOp,
    data: u16,
    offset_bytes: i64,
) -> Flow {
    const { assert!(BYTES == 4 * N) };
    let exec = w.exec();
    if exec == 0 {
        return Flow::Next;
    }
    S::count(env, u64::from(exec.count_ones()) * BYTES as u64, Access::Write);
    observe::<S>(w, env, s, (offset_bytes, BYTES, data), Access::Write);
    let registers: &[Lanes; N] =
        w.v[data as usize..].first_chunk().expect("staging registers stand behind all that an operand can name");
    match S::line::<BYTES>(w, env, s, offset_bytes, Access::Write) {
        Some(Spacing::Consecutive(host)) => {
            // SAFETY: `line` gave a pointer to `BYTES` writable bytes for each lane of the wave.
            unsafe { C::join::<N>(registers, w.lanes, host) };
            return Flow::Next;
        }
        Some(Spacing::Same(host)) => {
            // The last lane wins.
            let value: [u32; N] = std::array::from_fn(|d| registers[d].0[w.lanes - 1]);
            // SAFETY: `line` gave a pointer to `BYTES` writable bytes.
            unsafe { host.cast::<[u32; N]>().write_unaligned(value) };
            return Flow::Next;
        }
        None => {}
    }
    match S::resolve::<BYTES>(w, env, s, offset_bytes, Access::Write) {
        AccessPattern::Linear(host) => {
            // SAFETY: `resolve` gave a pointer to `BYTES` writable bytes for each lane of the wave.
            unsafe { C::join::<N>(registers, w.lanes, host) };
            Flow::Next
        }
        AccessPattern::Span(host, offsets) => {
            let rows: [usize; N] = std::array::from_fn(|d| data as usize + d);
            let mut left = exec;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                let value: [u32; N] = std::array::from_fn(|d| w.v[rows[d]].0[lane]);
                // SAFETY: `resolve` checked `BYTES` writable bytes at each offset.
                unsafe { host.add(offsets.0[lane] as usize).cast::<[u32; N]>().write_unaligned(value) };
            }
            Flow::Next
        }
        AccessPattern::Scattered => scattered::<S>(w, env, s, BYTES, offset_bytes, &|w, lane| {
            let mut bytes = [0; 16];
            for d in 0..N {
                bytes[4 * d..4 * d + 4].copy_from_slice(&w.lane(data + d as u16, lane).to_le_bytes());
            }
            bytes
        }),
    }
}

/// Stores lane by lane what `get` gives, in the first `bytes` of 16.
#[cold]
#[inline(never)]
fn scattered<S: Space>(
    w: &mut Wave,
    env: &mut Env,
    s: &MicroOp,
    bytes: usize,
    offset_bytes: i64,
    get: &dyn Fn(&Wave, usize) -> [u8; 16],
) -> Flow {
    assert!(bytes <= 16, "the widest store of a lane is 16 bytes");
    let exec = w.exec();
    for (at, bytes) in pieces::<S>(w, s, offset_bytes, bytes) {
        let addresses = S::addresses(w, s, offset_bytes + at as i64);
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let value = get(w, lane);
            match S::lane_ptr(w, env, s, lane, addresses[lane], bytes as u64, Access::Write) {
                // SAFETY: `lane_ptr` gave a pointer to `bytes` writable bytes, and `value` has as many from `at` on.
                Ok(Some(host)) => unsafe {
                    std::ptr::copy_nonoverlapping(value[at..at + bytes].as_ptr(), host, bytes);
                },
                Ok(None) => {}
                Err(cause) => {
                    let attempt = Attempt { addresses: &addresses, bytes: bytes as u64, access: Access::Write };
                    return deny::<S>(w, env, s, &attempt, lane, *cause);
                }
            }
        }
    }
    Flow::Next
}

/// Stores the low `BYTES` bytes of the data register moved right by `SHIFT` bits.
#[inline(always)]
fn narrow<S: Space, const BYTES: usize, const SHIFT: u32>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    const { assert!(BYTES == 1 || BYTES == 2) };
    let exec = w.exec();
    if exec == 0 {
        return Flow::Next;
    }
    S::count(env, u64::from(exec.count_ones()) * BYTES as u64, Access::Write);
    observe::<S>(w, env, s, (s.imm, BYTES, s.src[1]), Access::Write);
    let data = &w.v[s.src[1] as usize].0;
    let offset_of = |pattern: &AccessPattern, lane: usize| match pattern {
        AccessPattern::Linear(_) => lane * BYTES,
        AccessPattern::Span(_, offsets) => offsets.0[lane] as usize,
        AccessPattern::Scattered => 0,
    };
    match S::resolve::<BYTES>(w, env, s, s.imm, Access::Write) {
        pattern @ (AccessPattern::Linear(host) | AccessPattern::Span(host, _)) => {
            for lane in 0..LANES {
                if exec >> lane & 1 != 0 {
                    let value = data[lane] >> SHIFT;
                    // SAFETY: `resolve` checked `BYTES` writable bytes for each lane that is on.
                    unsafe {
                        let host = host.add(offset_of(&pattern, lane));
                        if BYTES == 1 {
                            host.write(value as u8);
                        } else {
                            host.cast::<u16>().write_unaligned(value as u16);
                        }
                    }
                }
            }
            Flow::Next
        }
        AccessPattern::Scattered => scattered::<S>(w, env, s, BYTES, s.imm, &|w, lane| {
            let value = (w.lane(s.src[1], lane) >> SHIFT).to_le_bytes();
            std::array::from_fn(|i| if i < 4 { value[i] } else { 0 })
        }),
    }
}

/// Stores `N` dwords from the instruction's data operand.
#[inline(always)]
fn plain<C: Interleave, S: Space, const N: usize, const BYTES: usize>(
    w: &mut Wave,
    env: &mut Env,
    s: &MicroOp,
) -> Flow {
    dwords::<C, S, N, BYTES>(w, env, s, s.src[1], s.imm)
}

/// Stores of GLOBAL.
pub(super) fn global(op: Op) -> Option<Handlers> {
    Some(match op {
        Op::GlobalStoreDword => by_cpu!(C => plain::<C, Device, 1, 4>),
        Op::GlobalStoreDwordx2 => by_cpu!(C => plain::<C, Device, 2, 8>),
        Op::GlobalStoreDwordx3 => by_cpu!(C => plain::<C, Device, 3, 12>),
        Op::GlobalStoreDwordx4 => by_cpu!(C => plain::<C, Device, 4, 16>),
        Op::GlobalStoreShort => levels!(narrow::<Device, 2, 0>),
        Op::GlobalStoreShortD16Hi => levels!(narrow::<Device, 2, 16>),
        _ => return rare::<Device>(op),
    })
}

/// Stores of DS, but for the two-address ones.
pub(super) fn lds(op: Op) -> Option<Handlers> {
    Some(match op {
        Op::DsWriteB32 => by_cpu!(C => plain::<C, Lds, 1, 4>),
        Op::DsWriteB64 => by_cpu!(C => plain::<C, Lds, 2, 8>),
        Op::DsWriteB96 => by_cpu!(C => plain::<C, Lds, 3, 12>),
        Op::DsWriteB128 => by_cpu!(C => plain::<C, Lds, 4, 16>),
        Op::DsWriteB16 => levels!(narrow::<Lds, 2, 0>),
        Op::DsWriteB16D16Hi => levels!(narrow::<Lds, 2, 16>),
        Op::DsWriteB8 => Handlers::same(narrow::<Lds, 1, 0>),
        Op::DsWriteB8D16Hi => Handlers::same(narrow::<Lds, 1, 16>),
        _ => return None,
    })
}

/// Stores of any space, in one body for every host.
pub(super) fn rare<S: Space>(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::FlatStoreDword | Op::ScratchStoreDword | Op::BufferStoreDword => plain::<Baseline, S, 1, 4>,
        Op::FlatStoreDwordx2 | Op::ScratchStoreDwordx2 | Op::BufferStoreDwordx2 => plain::<Baseline, S, 2, 8>,
        Op::FlatStoreDwordx3 | Op::ScratchStoreDwordx3 | Op::BufferStoreDwordx3 => plain::<Baseline, S, 3, 12>,
        Op::FlatStoreDwordx4 | Op::ScratchStoreDwordx4 | Op::BufferStoreDwordx4 => plain::<Baseline, S, 4, 16>,
        Op::FlatStoreShort | Op::ScratchStoreShort | Op::BufferStoreShort => narrow::<S, 2, 0>,
        Op::FlatStoreShortD16Hi | Op::ScratchStoreShortD16Hi | Op::BufferStoreShortD16Hi => narrow::<S, 2, 16>,
        Op::GlobalStoreByte | Op::FlatStoreByte | Op::ScratchStoreByte | Op::BufferStoreByte => narrow::<S, 1, 0>,
        Op::GlobalStoreByteD16Hi | Op::FlatStoreByteD16Hi | Op::ScratchStoreByteD16Hi | Op::BufferStoreByteD16Hi => {
            narrow::<S, 1, 16>
        }
        _ => return None,
    }))
}
