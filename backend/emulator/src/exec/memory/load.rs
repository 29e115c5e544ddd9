//! Loads: whole dwords, and bytes and shorts in all their extensions.

use rocfire_isa::Op;

use super::by_cpu;
use super::interleave::Interleave;
use super::space::{AccessPattern, Attempt, Device, Lds, Space, Spacing, deny, observe, pieces};
use crate::env::Env;
use crate::error::Access;
use crate::numeric::Baseline;
use crate::step::{Flow, Handlers, MicroOp, levels};
use crate::wave::{CHUNK, LANES, Lanes, Wave};

/// Loads `N` dwords a lane.
#[inline(always)]
pub(super) fn dwords<C: Interleave, S: Space, const N: usize, const BYTES: usize>(
    w: &mut Wave,
    env: &mut Env,
    s: &MicroOp,
    dst: u16,
    offset_bytes: i64,
) -> Flow {
    const { assert!(BYTES == 4 * N) };
    let exec = w.exec();
    if exec == 0 {
        return Flow::Next;
    }
    S::count(env, u64::from(exec.count_ones()) * BYTES as u64, Access::Read);
    observe::<S>(w, env, s, (offset_bytes, BYTES, dst), Access::Read);
    match S::line::<BYTES>(w, env, s, offset_bytes, Access::Read) {
        Some(Spacing::Consecutive(host)) => {
            // SAFETY: `line` gave a pointer to `BYTES` readable bytes for each lane of the wave.
            unsafe { C::split::<N>(host, w.lanes, registers_mut(w, dst)) };
            return Flow::Next;
        }
        Some(Spacing::Same(host)) => {
            // SAFETY: `line` gave a pointer to `BYTES` readable bytes.
            let values = unsafe { host.cast::<[u32; N]>().read_unaligned() };
            let lanes = w.lanes;
            for (register, value) in registers_mut::<N>(w, dst).iter_mut().zip(values) {
                // Those behind a wave32's are nobody's.
                register.0[..LANES / 2].fill(value);
                if lanes == LANES {
                    register.0[LANES / 2..].fill(value);
                }
            }
            return Flow::Next;
        }
        None => {}
    }
    match S::resolve::<BYTES>(w, env, s, offset_bytes, Access::Read) {
        AccessPattern::Linear(host) => {
            // SAFETY: `resolve` gave a pointer to `BYTES` readable bytes for each lane of the wave.
            unsafe { C::split::<N>(host, w.lanes, registers_mut(w, dst)) };
            Flow::Next
        }
        AccessPattern::Span(host, offsets) => {
            let lanes = (w.lanes, exec);
            // SAFETY: `resolve` checked `BYTES` readable bytes at each offset, and no two are 2^31 apart.
            unsafe { C::gather::<N>(host, &offsets, lanes, registers_mut(w, dst)) };
            Flow::Next
        }
        AccessPattern::Scattered => scattered::<S>(w, env, s, BYTES, offset_bytes, &|w, lane, bytes| {
            for d in 0..N {
                let value = u32::from_le_bytes([bytes[4 * d], bytes[4 * d + 1], bytes[4 * d + 2], bytes[4 * d + 3]]);
                w.set_lane(dst + d as u16, lane, value);
            }
        }),
    }
}

/// `N` registers from `first` on.
#[inline(always)]
fn registers_mut<const N: usize>(w: &mut Wave, first: u16) -> &mut [Lanes; N] {
    w.v[first as usize..].first_chunk_mut().expect("staging registers stand behind all that an operand can name")
}

/// Loads lane by lane; `put` gets the bytes, in the first `BYTES` of 16.
#[cold]
#[inline(never)]
pub(super) fn scattered<S: Space>(
    w: &mut Wave,
    env: &mut Env,
    s: &MicroOp,
    bytes: usize,
    offset_bytes: i64,
    put: &dyn Fn(&mut Wave, usize, [u8; 16]),
) -> Flow {
    assert!(bytes <= 16, "the widest load of a lane is 16 bytes");
    let exec = w.exec();
    let mut loaded = [[0; 16]; LANES];
    for (at, bytes) in pieces::<S>(w, s, offset_bytes, bytes) {
        let addresses = S::addresses(w, s, offset_bytes + at as i64);
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            match S::lane_ptr(w, env, s, lane, addresses[lane], bytes as u64, Access::Read) {
                // SAFETY: `lane_ptr` gave a pointer to `bytes` readable bytes, and `loaded` has as many from `at` on.
                Ok(Some(host)) => unsafe {
                    std::ptr::copy_nonoverlapping(host, loaded[lane][at..at + bytes].as_mut_ptr(), bytes);
                },
                Ok(None) => {}
                Err(cause) => {
                    let attempt = Attempt { addresses: &addresses, bytes: bytes as u64, access: Access::Read };
                    return deny::<S>(w, env, s, &attempt, lane, *cause);
                }
            }
        }
    }
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        put(w, lane, loaded[lane]);
    }
    Flow::Next
}

/// A value narrower than a dword in memory.
pub(super) trait Narrow: Copy {
    /// As a dword.
    fn widen(self) -> u32;
    /// From the first bytes of what was loaded.
    fn from_bytes(bytes: [u8; 16]) -> Self;
}

macro_rules! narrow {
    ($($type:ty)*) => { $(
        impl Narrow for $type {
            #[inline(always)]
            fn widen(self) -> u32 {
                self as u32
            }
            fn from_bytes(bytes: [u8; 16]) -> Self {
                <$type>::from_le_bytes(std::array::from_fn(|i| bytes[i]))
            }
        }
    )* };
}
narrow!(u8 i8 u16 i16);

/// The destination's whole register.
const WHOLE: u8 = 0;
/// Its low half; the high half stays.
const LOW: u8 = 1;
/// Its high half; the low half stays.
const HIGH: u8 = 2;

/// What a register holds after a half of it was loaded.
#[inline(always)]
fn merge<const HALF: u8>(old: u32, value: u32) -> u32 {
    match HALF {
        LOW => old & 0xffff_0000 | value & 0xffff,
        HIGH => old & 0xffff | value << 16,
        _ => value,
    }
}

/// Loads a byte or short a lane.
#[inline(always)]
fn narrow<S: Space, T: Narrow, const BYTES: usize, const HALF: u8>(w: &mut Wave, env: &mut Env, s: &MicroOp) -> Flow {
    const { assert!(BYTES == size_of::<T>()) };
    let exec = w.exec();
    if exec == 0 {
        return Flow::Next;
    }
    S::count(env, u64::from(exec.count_ones()) * BYTES as u64, Access::Read);
    observe::<S>(w, env, s, (s.imm, BYTES, s.dst[0]), Access::Read);
    let dst = s.dst[0];
    match S::resolve::<BYTES>(w, env, s, s.imm, Access::Read) {
        AccessPattern::Linear(host) => {
            for c in 0..w.lanes / CHUNK {
                // SAFETY: `resolve` gave a pointer to `BYTES` readable bytes for each lane of the wave.
                let chunk = unsafe { host.cast::<[T; CHUNK]>().add(c).read_unaligned() };
                let old = w.chunk(dst, c);
                w.set_chunk(dst, c, std::array::from_fn(|i| merge::<HALF>(old[i], chunk[i].widen())));
            }
            Flow::Next
        }
        AccessPattern::Span(host, offsets) => {
            for c in 0..w.lanes / CHUNK {
                let old = w.chunk(dst, c);
                let values = std::array::from_fn(|i| {
                    let offset = offsets.0[c * CHUNK + i] as usize;
                    // SAFETY: `resolve` checked `BYTES` readable bytes at each offset.
                    merge::<HALF>(old[i], unsafe { host.add(offset).cast::<T>().read_unaligned() }.widen())
                });
                w.set_chunk_masked(dst, c, values, exec);
            }
            Flow::Next
        }
        AccessPattern::Scattered => scattered::<S>(w, env, s, BYTES, s.imm, &|w, lane, bytes| {
            let value = merge::<HALF>(w.lane(dst, lane), T::from_bytes(bytes).widen());
            w.set_lane(dst, lane, value);
        }),
    }
}

/// Loads `N` dwords into the instruction's destination.
#[inline(always)]
fn plain<C: Interleave, S: Space, const N: usize, const BYTES: usize>(
    w: &mut Wave,
    env: &mut Env,
    s: &MicroOp,
) -> Flow {
    dwords::<C, S, N, BYTES>(w, env, s, s.dst[0], s.imm)
}

/// Loads of GLOBAL.
pub(super) fn global(op: Op) -> Option<Handlers> {
    Some(match op {
        Op::GlobalLoadDword => by_cpu!(C => plain::<C, Device, 1, 4>),
        Op::GlobalLoadDwordx2 => by_cpu!(C => plain::<C, Device, 2, 8>),
        Op::GlobalLoadDwordx3 => by_cpu!(C => plain::<C, Device, 3, 12>),
        Op::GlobalLoadDwordx4 => by_cpu!(C => plain::<C, Device, 4, 16>),
        Op::GlobalLoadUshort => levels!(narrow::<Device, u16, 2, WHOLE>),
        Op::GlobalLoadShortD16 => levels!(narrow::<Device, u16, 2, LOW>),
        Op::GlobalLoadShortD16Hi => levels!(narrow::<Device, u16, 2, HIGH>),
        _ => return rare::<Device>(op),
    })
}

/// Loads of DS, but for the two-address ones.
pub(super) fn lds(op: Op) -> Option<Handlers> {
    Some(match op {
        Op::DsReadB32 => by_cpu!(C => plain::<C, Lds, 1, 4>),
        Op::DsReadB64 => by_cpu!(C => plain::<C, Lds, 2, 8>),
        Op::DsReadB96 => by_cpu!(C => plain::<C, Lds, 3, 12>),
        Op::DsReadB128 => by_cpu!(C => plain::<C, Lds, 4, 16>),
        Op::DsReadU16 => levels!(narrow::<Lds, u16, 2, WHOLE>),
        Op::DsReadU16D16 => levels!(narrow::<Lds, u16, 2, LOW>),
        Op::DsReadU16D16Hi => levels!(narrow::<Lds, u16, 2, HIGH>),
        Op::DsReadU8 => Handlers::same(narrow::<Lds, u8, 1, WHOLE>),
        Op::DsReadI8 => Handlers::same(narrow::<Lds, i8, 1, WHOLE>),
        Op::DsReadI16 => Handlers::same(narrow::<Lds, i16, 2, WHOLE>),
        Op::DsReadU8D16 => Handlers::same(narrow::<Lds, u8, 1, LOW>),
        Op::DsReadU8D16Hi => Handlers::same(narrow::<Lds, u8, 1, HIGH>),
        Op::DsReadI8D16 => Handlers::same(narrow::<Lds, i8, 1, LOW>),
        Op::DsReadI8D16Hi => Handlers::same(narrow::<Lds, i8, 1, HIGH>),
        _ => return None,
    })
}

/// Loads of any space, in one body for every host.
pub(super) fn rare<S: Space>(op: Op) -> Option<Handlers> {
    Some(Handlers::same(match op {
        Op::FlatLoadDword | Op::ScratchLoadDword | Op::BufferLoadDword => plain::<Baseline, S, 1, 4>,
        Op::FlatLoadDwordx2 | Op::ScratchLoadDwordx2 | Op::BufferLoadDwordx2 => plain::<Baseline, S, 2, 8>,
        Op::FlatLoadDwordx3 | Op::ScratchLoadDwordx3 | Op::BufferLoadDwordx3 => plain::<Baseline, S, 3, 12>,
        Op::FlatLoadDwordx4 | Op::ScratchLoadDwordx4 | Op::BufferLoadDwordx4 => plain::<Baseline, S, 4, 16>,
        Op::GlobalLoadUbyte | Op::FlatLoadUbyte | Op::ScratchLoadUbyte | Op::BufferLoadUbyte => {
            narrow::<S, u8, 1, WHOLE>
        }
        Op::GlobalLoadSbyte | Op::FlatLoadSbyte | Op::ScratchLoadSbyte | Op::BufferLoadSbyte => {
            narrow::<S, i8, 1, WHOLE>
        }
        Op::FlatLoadUshort | Op::ScratchLoadUshort | Op::BufferLoadUshort => narrow::<S, u16, 2, WHOLE>,
        Op::GlobalLoadSshort | Op::FlatLoadSshort | Op::ScratchLoadSshort | Op::BufferLoadSshort => {
            narrow::<S, i16, 2, WHOLE>
        }
        Op::FlatLoadShortD16 | Op::ScratchLoadShortD16 | Op::BufferLoadShortD16 => narrow::<S, u16, 2, LOW>,
        Op::FlatLoadShortD16Hi | Op::ScratchLoadShortD16Hi | Op::BufferLoadShortD16Hi => narrow::<S, u16, 2, HIGH>,
        Op::GlobalLoadUbyteD16 | Op::FlatLoadUbyteD16 | Op::ScratchLoadUbyteD16 | Op::BufferLoadUbyteD16 => {
            narrow::<S, u8, 1, LOW>
        }
        Op::GlobalLoadUbyteD16Hi | Op::FlatLoadUbyteD16Hi | Op::ScratchLoadUbyteD16Hi | Op::BufferLoadUbyteD16Hi => {
            narrow::<S, u8, 1, HIGH>
        }
        Op::GlobalLoadSbyteD16 | Op::FlatLoadSbyteD16 | Op::ScratchLoadSbyteD16 | Op::BufferLoadSbyteD16 => {
            narrow::<S, i8, 1, LOW>
        }
        Op::GlobalLoadSbyteD16Hi | Op::FlatLoadSbyteD16Hi | Op::ScratchLoadSbyteD16Hi | Op::BufferLoadSbyteD16Hi => {
            narrow::<S, i8, 1, HIGH>
        }
        _ => return None,
    }))
}
