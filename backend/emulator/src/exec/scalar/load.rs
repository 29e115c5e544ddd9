//! SMEM: scalar loads, and the clocks.

use rocfire_isa::{Inst, Op};

use super::handler;
use crate::env::{BadAccess, Cause, Env};
use crate::error::Access;
use crate::instrument::{Event, EventKind, MemorySpace};
use crate::step::{Flow, Handlers, MicroOp, Selected};
use crate::wave::{LANES, Wave};

pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let handlers = match inst.op {
        Op::SLoadDword => load_handler::<1>(),
        Op::SLoadDwordx2 => load_handler::<2>(),
        Op::SLoadB96 => load_handler::<3>(),
        Op::SLoadDwordx4 => load_handler::<4>(),
        Op::SLoadDwordx8 => load_handler::<8>(),
        Op::SLoadDwordx16 => load_handler::<16>(),
        Op::SBufferLoadDword => buffer_handler::<1>(),
        Op::SBufferLoadDwordx2 => buffer_handler::<2>(),
        Op::SBufferLoadB96 => buffer_handler::<3>(),
        Op::SBufferLoadDwordx4 => buffer_handler::<4>(),
        Op::SBufferLoadDwordx8 => buffer_handler::<8>(),
        Op::SBufferLoadDwordx16 => buffer_handler::<16>(),
        Op::SLoadI8 => handler!(|w, env, s| narrow(w, env, s, 1, |word| word as i8 as u32)),
        Op::SLoadU8 => handler!(|w, env, s| narrow(w, env, s, 1, |word| word & 0xff)),
        Op::SLoadI16 => handler!(|w, env, s| narrow(w, env, s, 2, |word| word as i16 as u32)),
        Op::SLoadU16 => handler!(|w, env, s| narrow(w, env, s, 2, |word| word & 0xffff)),
        Op::SBufferLoadI8 => handler!(|w, env, s| narrow_buffer(w, env, s, 1, |word| word as i8 as u32)),
        Op::SBufferLoadU8 => handler!(|w, env, s| narrow_buffer(w, env, s, 1, |word| word & 0xff)),
        Op::SBufferLoadI16 => handler!(|w, env, s| narrow_buffer(w, env, s, 2, |word| word as i16 as u32)),
        Op::SBufferLoadU16 => handler!(|w, env, s| narrow_buffer(w, env, s, 2, |word| word & 0xffff)),
        Op::SMemtime | Op::SMemrealtime => handler!(|w, _, s| {
            let now = super::clock(w);
            w.set_s64(s.dst[0], now);
            Flow::Next
        }),
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
pub(super) fn offset(w: &Wave, s: &MicroOp) -> u64 {
    let register = if s.inst.src[1].is_some() { u64::from(s.s32(w, 1)) } else { 0 };
    register.wrapping_add(i64::from(s.inst.mods.offset) as u64)
}

fn load<const N: usize>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let address = w.s64(s.src[0]).wrapping_add(offset(w, s)) & !3;
    read::<N>(w, env, s, address)
}

/// A byte or short, extended to the whole register.
fn narrow(w: &mut Wave, env: &mut Env, s: &MicroOp, bytes: u64, extend: fn(u32) -> u32) -> Flow {
    let address = w.s64(s.src[0]).wrapping_add(offset(w, s)) & !(bytes - 1);
    read_narrow(w, env, s, address, bytes, extend)
}

/// The same through a resource descriptor.
fn narrow_buffer(w: &mut Wave, env: &mut Env, s: &MicroOp, bytes: u64, extend: fn(u32) -> u32) -> Flow {
    let (base, size) = descriptor(w, s);
    let offset = offset(w, s) & !(bytes - 1);
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        w.set_s32(s.dst[0], 0);
        return Flow::Next;
    }
    read_narrow(w, env, s, base.wrapping_add(offset), bytes, extend)
}

fn read_narrow(w: &mut Wave, env: &mut Env, s: &MicroOp, address: u64, bytes: u64, extend: fn(u32) -> u32) -> Flow {
    env.bytes.scalar_read += bytes;
    if env.observed {
        record(env, s, address, bytes as u32);
    }
    match env.device_ptr(s.site, address, bytes, Access::Read) {
        Ok(host) => {
            let mut word = [0u8; 4];
            // SAFETY: `device_ptr` gave a pointer to `bytes` readable bytes, which are at most four.
            unsafe { std::ptr::copy_nonoverlapping(host, word.as_mut_ptr(), bytes as usize) };
            w.set_s32(s.dst[0], extend(u32::from_le_bytes(word)));
            Flow::Next
        }
        Err(bad) => denied(env, *bad, bytes as u32),
    }
}

pub(super) fn denied(env: &mut Env, bad: BadAccess, bytes: u32) -> Flow {
    let BadAccess { denied, address } = bad;
    env.fail_with(Cause { kind: denied.kind, lane: None, address: Some(address), bytes, nearest: denied.nearest })
}

/// Base and size of the bytes that a resource descriptor shows: base in bits 47..0, stride in 61..48, records in 95..64. Out
/// of range a buffer reads as zero: that is what the descriptor is for.
pub(super) fn descriptor(w: &Wave, s: &MicroOp) -> (u64, u64) {
    let (low, records) = (w.s64(s.src[0]), u64::from(w.s32(s.src[0] + 2)));
    let stride = low >> 48 & 0x3fff;
    (low & 0xffff_ffff_ffff, if stride == 0 { records } else { records * stride })
}

fn buffer_load<const N: usize>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let (base, bytes) = descriptor(w, s);
    let offset = offset(w, s) & !3;
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
fn record(env: &mut Env, s: &MicroOp, address: u64, bytes: u32) {
    let (kind, space) = (EventKind::ScalarLoad, MemorySpace::Global);
    env.events.push(Event::new(kind, space, 1, (bytes, s.dst[0]), &[address; LANES]));
}

#[inline(always)]
fn read<const N: usize>(w: &mut Wave, env: &mut Env, s: &MicroOp, address: u64) -> Flow {
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
        Err(bad) => denied(env, *bad, 4 * N as u32),
    }
}
