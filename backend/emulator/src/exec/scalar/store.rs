//! SMEM: scalar stores and atomics.
//!
//! A wave acts once, whatever EXEC. The data stands in source 2; an atomic with GLC returns the old value there. Hardware
//! keeps what is stored in its scalar cache until `s_dcache_wb`; here it is in memory at once, which is one of the orders
//! that hardware may take.

use rocfire_isa::{Inst, Op};

use super::load::{denied, descriptor, offset};
use crate::env::{Cause, Env};
use crate::error::{Access, FaultKind, Nearest};
use crate::exec::memory::{Atomic, scalar_atomic};
use crate::instrument::{Event, EventKind, MemorySpace};
use crate::step::{Flow, Handlers, MicroOp, Selected};
use crate::wave::{LANES, Wave};

pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let handlers = match inst.op {
        Op::SStoreDword => Handlers::same(store::<1, false>),
        Op::SStoreDwordx2 => Handlers::same(store::<2, false>),
        Op::SStoreDwordx4 => Handlers::same(store::<4, false>),
        Op::SBufferStoreDword => Handlers::same(store::<1, true>),
        Op::SBufferStoreDwordx2 => Handlers::same(store::<2, true>),
        Op::SBufferStoreDwordx4 => Handlers::same(store::<4, true>),
        _ => return None,
    };
    Some(Selected::scalars(handlers))
}

/// The handler of a scalar atomic.
pub(crate) fn select_atomic() -> Selected {
    Selected::scalars(Handlers::same(atomic))
}

/// Where `bytes` bytes go; `None` if a descriptor's range check leaves them out.
fn address(w: &Wave, s: &MicroOp, bytes: u64, buffer: bool) -> Option<u64> {
    if !buffer {
        return Some(w.s64(s.src[0]).wrapping_add(offset(w, s)) & !3);
    }
    let (base, size) = descriptor(w, s);
    let offset = offset(w, s) & !3;
    offset.checked_add(bytes).is_some_and(|end| end <= size).then(|| base.wrapping_add(offset))
}

/// Tells who watches the launch.
fn observe(env: &mut Env, kind: EventKind, address: u64, bytes: u32, register: u16) {
    if env.observed {
        let addresses = [address; LANES];
        env.events.push(Event::new(kind, MemorySpace::Global, 1, (bytes, register), &addresses));
    }
}

fn store<const N: usize, const BUFFER: bool>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let bytes = 4 * N as u64;
    let Some(address) = address(w, s, bytes, BUFFER) else { return Flow::Next };
    env.bytes.global_written += bytes;
    observe(env, EventKind::Store, address, bytes as u32, s.src[2]);
    match env.device_ptr(s.site, address, bytes, Access::Write) {
        Ok(host) => {
            let values: [u32; N] = std::array::from_fn(|i| w.s32(s.src[2] + i as u16));
            // SAFETY: `device_ptr` gave a pointer to `4 * N` writable bytes.
            unsafe { host.cast::<[u32; N]>().write_unaligned(values) };
            Flow::Next
        }
        Err(bad) => denied(env, *bad, bytes as u32),
    }
}

fn atomic(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    let Some((Atomic { apply, dwords, two }, buffer)) = scalar_atomic(s.inst.op) else {
        unreachable!("only atomics have this handler")
    };
    let bytes = 4 * u64::from(dwords);
    let Some(address) = address(w, s, bytes, buffer) else { return Flow::Next };
    env.bytes.global_read += bytes;
    env.bytes.global_written += bytes;
    observe(env, EventKind::Atomic, address, bytes as u32, s.src[2]);
    let word = |first: u16| if dwords == 2 { w.s64(first) } else { u64::from(w.s32(first)) };
    let data = word(s.src[2]);
    let compare = if two { word(s.src[2] + u16::from(dwords)) } else { data };
    let host = match env.device_ptr(s.site, address, bytes, Access::Atomic) {
        Ok(host) => host,
        Err(bad) => return denied(env, *bad, bytes as u32),
    };
    if !(host as u64).is_multiple_of(bytes) {
        let (address, bytes, nearest) = (Some(address), bytes as u32, Nearest::Unknown);
        return env.fail_with(Cause { kind: FaultKind::Misaligned, lane: None, address, bytes, nearest });
    }
    // SAFETY: `device_ptr` gave a pointer that is valid for `bytes` bytes, and its alignment has been checked.
    let (old, _) = unsafe { apply(host, data, compare) };
    if s.inst.dst[0].is_some() {
        if dwords == 2 {
            w.set_s64(s.dst[0], old);
        } else {
            w.set_s32(s.dst[0], old as u32);
        }
    }
    Flow::Next
}
