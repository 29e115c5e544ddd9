//! SMEM: scalar loads, and the clocks.

use rocfire_isa::{Inst, Op};

use super::handler;
use crate::env::{Cause, Env};
use crate::error::Access;
use crate::instrument::{Event, EventKind, MemorySpace};
use crate::step::{Flow, Handlers, Selected, Step};
use crate::wave::{LANES, Wave};

pub(super) fn select(inst: &Inst) -> Option<Selected> {
    let handlers = match inst.op {
        Op::SLoadDword => load_handler::<1>(),
        Op::SLoadDwordx2 => load_handler::<2>(),
        Op::SLoadDwordx4 => load_handler::<4>(),
        Op::SLoadDwordx8 => load_handler::<8>(),
        Op::SLoadDwordx16 => load_handler::<16>(),
        Op::SBufferLoadDword => buffer_handler::<1>(),
        Op::SBufferLoadDwordx2 => buffer_handler::<2>(),
        Op::SBufferLoadDwordx4 => buffer_handler::<4>(),
        Op::SBufferLoadDwordx8 => buffer_handler::<8>(),
        Op::SBufferLoadDwordx16 => buffer_handler::<16>(),
        // A clock must show the same on every host: it counts the wave's instructions.
        Op::SMemtime | Op::SMemrealtime => handler!(|w, _, s| {
            let now = w.executed.wrapping_add(w.pc as u64);
            w.set_s64(s.dst[0], now);
            Flow::Next
        }),
        Op::SDcacheInv | Op::SDcacheInvVol | Op::SDcacheWb | Op::SDcacheWbVol => handler!(|_, _, _| Flow::Next),
        _ => return None,
    };
    Some(Selected::scalars(handlers))
}

fn load_handler<const N: usize>() -> Handlers {
    Handlers::same(load::<N>)
}

fn buffer_handler<const N: usize>() -> Handlers {
    Handlers::same(buffer_load::<N>)
}

/// The immediate and the register offset together.
fn offset(w: &Wave, s: &Step) -> u64 {
    let register = if s.inst.src[1].is_some() { u64::from(s.s32(w, 1)) } else { 0 };
    register.wrapping_add(i64::from(s.inst.mods.offset) as u64)
}

fn load<const N: usize>(w: &mut Wave, env: &mut Env, s: &Step) -> Flow {
    let address = w.s64(s.src[0]).wrapping_add(offset(w, s)) & !3;
    read::<N>(w, env, s, address)
}

/// Through a resource descriptor: base in bits 47..0, stride in 61..48, records in 95..64.
fn buffer_load<const N: usize>(w: &mut Wave, env: &mut Env, s: &Step) -> Flow {
    let base = w.s64(s.src[0]) & 0xffff_ffff_ffff;
    let stride = w.s64(s.src[0]) >> 48 & 0x3fff;
    let records = u64::from(w.s32(s.src[0] + 2));
    let bytes = if stride == 0 { records } else { records * stride };
    let offset = offset(w, s) & !3;
    // Out of range of the descriptor, a buffer reads as zero: that is what the descriptor is for.
    if offset.checked_add(4 * N as u64).is_none_or(|end| end > bytes) {
        let first = s.dst[0] as usize;
        if let Some(registers) = w.s.get_mut(first..first + N) {
            registers.fill(0);
        }
        return Flow::Next;
    }
    read::<N>(w, env, s, base.wrapping_add(offset))
}

/// Tells who watches the launch.
#[cold]
fn record(env: &mut Env, s: &Step, address: u64, bytes: u32) {
    let (kind, space) = (EventKind::ScalarLoad, MemorySpace::Global);
    env.events.push(Event { kind, space, lanes: 1, bytes, register: s.dst[0], addresses: [address; LANES] });
}

#[inline(always)]
fn read<const N: usize>(w: &mut Wave, env: &mut Env, s: &Step, address: u64) -> Flow {
    env.bytes.scalar_read += 4 * N as u64;
    if env.observed {
        record(env, s, address, 4 * N as u32);
    }
    match env.device_ptr(s.site, address, 4 * N as u64, Access::Read) {
        Ok(host) => {
            // SAFETY: `device_ptr` gave a pointer to `4 * N` readable bytes.
            let values = unsafe { host.cast::<[u32; N]>().read_unaligned() };
            let first = s.dst[0] as usize;
            // `get_mut`: a decoder may accept a destination that runs out of the file.
            if let Some(registers) = w.s.get_mut(first..first + N) {
                registers.copy_from_slice(&values);
            }
            Flow::Next
        }
        Err(bad) => env.fail_with(Cause {
            kind: bad.denied.kind,
            lane: None,
            address: Some(bad.address),
            bytes: 4 * N as u32,
            nearest: bad.denied.nearest,
        }),
    }
}
