//! Atomic operations, on device memory and on LDS.
//!
//! Lanes act in ascending order. On device memory each is a host atomic, since other workgroups may run at the same time. A kernel
//! where their order could show does not run its workgroups in parallel ([`is_order_dependent`](super::is_order_dependent)).
//!
//! Float atomics add in the order of the lanes, keep denormals, and give the canonical NaN: the bits do not depend on the host.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};
use rocfire_isa::Op;

use super::space::{Attempt, Space, deny, observe};
use crate::env::{Cause, Env};
use crate::error::{Access, FaultKind, Nearest};
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Wave};

/// What is in memory: 32 or 64 bits.
trait Word: Copy {
    const DWORDS: u8;
    /// The low bits.
    fn from_bits(bits: u64) -> Self;
    fn to_bits(self) -> u64;
    /// Replaces what is at `host` by `f` of it, atomically, and returns what was there.
    ///
    /// # Safety
    /// `host` is valid for reads and writes of the word, and aligned to its size.
    unsafe fn modify(host: *mut u8, f: impl Fn(Self) -> Self) -> Self;
}

macro_rules! word {
    ($($type:ty: $atomic:ty, $dwords:literal;)*) => { $(
        impl Word for $type {
            const DWORDS: u8 = $dwords;
            fn from_bits(bits: u64) -> $type {
                bits as $type
            }
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
            unsafe fn modify(host: *mut u8, f: impl Fn($type) -> $type) -> $type {
                // SAFETY: valid and aligned by this function's contract; all concurrent atomics on it are of this kind.
                let word = unsafe { <$atomic>::from_ptr(host.cast()) };
                let update = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(f(old)));
                update.unwrap_or_else(|old| old)
            }
        }
    )* };
}
word! {
    u32: AtomicU32, 1;
    u64: AtomicU64, 2;
}

/// One operation: the new value from the old, the first and the second data word.
trait Modify {
    type Word: Word;
    /// Whether there is a second data word.
    const TWO: bool = false;
    fn apply(old: Self::Word, data: Self::Word, second: Self::Word) -> Self::Word;
}

macro_rules! operations {
    ($($name:ident $word:ty, $two:literal, |$old:pat_param, $data:pat_param, $second:pat_param| $new:expr;)*) => { $(
        struct $name;
        impl Modify for $name {
            type Word = $word;
            const TWO: bool = $two;
            #[inline(always)]
            fn apply($old: $word, $data: $word, $second: $word) -> $word {
                $new
            }
        }
    )* };
}

operations! {
    Swap32 u32, false, |_, data, _| data;
    Swap64 u64, false, |_, data, _| data;
    Add32 u32, false, |old, data, _| old.wrapping_add(data);
    Add64 u64, false, |old, data, _| old.wrapping_add(data);
    Sub32 u32, false, |old, data, _| old.wrapping_sub(data);
    Sub64 u64, false, |old, data, _| old.wrapping_sub(data);
    Rsub32 u32, false, |old, data, _| data.wrapping_sub(old);
    Rsub64 u64, false, |old, data, _| data.wrapping_sub(old);
    Smin32 u32, false, |old, data, _| (old as i32).min(data as i32) as u32;
    Smin64 u64, false, |old, data, _| (old as i64).min(data as i64) as u64;
    Smax32 u32, false, |old, data, _| (old as i32).max(data as i32) as u32;
    Smax64 u64, false, |old, data, _| (old as i64).max(data as i64) as u64;
    Umin32 u32, false, |old, data, _| old.min(data);
    Umin64 u64, false, |old, data, _| old.min(data);
    Umax32 u32, false, |old, data, _| old.max(data);
    Umax64 u64, false, |old, data, _| old.max(data);
    And32 u32, false, |old, data, _| old & data;
    And64 u64, false, |old, data, _| old & data;
    Or32 u32, false, |old, data, _| old | data;
    Or64 u64, false, |old, data, _| old | data;
    Xor32 u32, false, |old, data, _| old ^ data;
    Xor64 u64, false, |old, data, _| old ^ data;
    Inc32 u32, false, |old, data, _| if old >= data { 0 } else { old + 1 };
    Inc64 u64, false, |old, data, _| if old >= data { 0 } else { old + 1 };
    Dec32 u32, false, |old, data, _| if old == 0 || old > data { data } else { old - 1 };
    Dec64 u64, false, |old, data, _| if old == 0 || old > data { data } else { old - 1 };
    AddF32 u32, false, |old, data, _| canonical32(f32::from_bits(old) + f32::from_bits(data));
    AddF64 u64, false, |old, data, _| canonical64(f64::from_bits(old) + f64::from_bits(data));
    MinF32 u32, false, |old, data, _| canonical32(minimum32(f32::from_bits(old), f32::from_bits(data)));
    MaxF32 u32, false, |old, data, _| canonical32(-minimum32(-f32::from_bits(old), -f32::from_bits(data)));
    MinF64 u64, false, |old, data, _| canonical64(minimum64(f64::from_bits(old), f64::from_bits(data)));
    MaxF64 u64, false, |old, data, _| canonical64(-minimum64(-f64::from_bits(old), -f64::from_bits(data)));
    PackedAddF16 u32, false, |old, data, _| add_f16(old, data) | add_f16(old >> 16, data >> 16) << 16;
    PackedAddBf16 u32, false, |old, data, _| add_bf16(old, data) | add_bf16(old >> 16, data >> 16) << 16;
    // Global: the new value first, then what it is compared with. DS: the other way round.
    Cmpswap32 u32, true, |old, new, compare| if old == compare { new } else { old };
    Cmpswap64 u64, true, |old, new, compare| if old == compare { new } else { old };
    Cmpst32 u32, true, |old, compare, new| if old == compare { new } else { old };
    Cmpst64 u64, true, |old, compare, new| if old == compare { new } else { old };
    CmpstF32 u32, true, |old, compare, new| if f32::from_bits(old) == f32::from_bits(compare) { new } else { old };
    CmpstF64 u64, true, |old, compare, new| if f64::from_bits(old) == f64::from_bits(compare) { new } else { old };
    CmpswapF32 u32, true, |old, new, compare| if f32::from_bits(old) == f32::from_bits(compare) { new } else { old };
    CmpswapF64 u64, true, |old, new, compare| if f64::from_bits(old) == f64::from_bits(compare) { new } else { old };
    // The difference, or zero.
    SubClamp32 u32, false, |old, data, _| old.saturating_sub(data);
    // The difference, if it is not negative.
    CondSub32 u32, false, |old, data, _| if old >= data { old - data } else { old };
    Mskor32 u32, true, |old, mask, data| old & !mask | data;
    Mskor64 u64, true, |old, mask, data| old & !mask | data;
    Wrap32 u32, true, |old, limit, step| if old >= limit { old - limit } else { old.wrapping_add(step) };
}

fn canonical32(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

fn canonical64(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() }
}

/// The smaller one; a number wins over a NaN, and -0 over +0.
fn minimum32(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => f32::from_bits(a.to_bits() | b.to_bits()),
        _ => a.min(b),
    }
}

fn minimum64(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => f64::from_bits(a.to_bits() | b.to_bits()),
        _ => a.min(b),
    }
}

/// Sum of the low halves. An f32 has more than twice the bits of an f16, so that rounding twice changes nothing.
fn add_f16(a: u32, b: u32) -> u32 {
    let sum = f16::from_bits(a as u16).to_f32() + f16::from_bits(b as u16).to_f32();
    u32::from(if sum.is_nan() { 0x7e00 } else { f16::from_f32(sum).to_bits() })
}

/// The same for bf16.
fn add_bf16(a: u32, b: u32) -> u32 {
    let sum = bf16::from_bits(a as u16).to_f32() + bf16::from_bits(b as u16).to_f32();
    u32::from(if sum.is_nan() { 0x7fc0 } else { bf16::from_f32(sum).to_bits() })
}

/// An operation on memory, whatever it is.
pub(crate) struct Atomic {
    /// Replaces the word at a pointer by what the operation makes of it and of the data words; gives the old one and the new.
    ///
    /// # Safety
    /// The pointer is valid for reads and writes of the word, and aligned to its size.
    pub(crate) apply: unsafe fn(*mut u8, u64, u64) -> (u64, u64),
    /// The word's width.
    pub(crate) dwords: u8,
    /// Whether there is a second data word.
    pub(crate) two: bool,
}

impl Atomic {
    const fn of<M: Modify>() -> Atomic {
        Atomic { apply: apply::<M>, dwords: M::Word::DWORDS, two: M::TWO }
    }
}

unsafe fn apply<M: Modify>(host: *mut u8, data: u64, second: u64) -> (u64, u64) {
    let new = |old| M::apply(old, M::Word::from_bits(data), M::Word::from_bits(second));
    // SAFETY: by the contract of `Atomic::apply`.
    let old = unsafe { M::Word::modify(host, new) };
    (old.to_bits(), new(old).to_bits())
}

/// Runs an operation for each lane that is on. It is called through [`Atomic`], because a copy of this loop for each of the
/// 47 operations on each kind of memory was a tenth of the crate's code.
#[inline(never)]
fn run<S: Space>(w: &mut Wave, env: &mut Env, s: &MicroOp, atomic: &Atomic) -> Flow {
    let exec = w.exec();
    let dwords = u16::from(atomic.dwords);
    let bytes = 4 * u64::from(dwords);
    let addresses = S::addresses(w, s, s.imm);
    S::count(env, u64::from(exec.count_ones()) * bytes, Access::Atomic);
    observe::<S>(w, env, s, (s.imm, bytes as usize, s.src[1]), Access::Atomic);
    let returns = s.inst.dst[0].is_some();
    // DS has its second word in an operand of its own, the others behind the first.
    let second = if s.inst.format == rocfire_isa::Format::Ds { s.src[2] } else { s.src[1] + dwords };
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let address = addresses[lane];
        let host = match S::lane_ptr(w, env, s, lane, address, bytes, Access::Atomic) {
            Ok(Some(host)) => host,
            Ok(None) => continue,
            Err(cause) => {
                let attempt = Attempt { addresses: &addresses, bytes, access: Access::Atomic };
                return deny::<S>(w, env, s, &attempt, lane, *cause);
            }
        };
        if !(host as u64).is_multiple_of(bytes) {
            let lane = Some(lane as u32);
            let (address, bytes, nearest) = (Some(address), bytes as u32, Nearest::Unknown);
            return env.fail_with(Cause { kind: FaultKind::Misaligned, lane, address, bytes, nearest });
        }
        let word = |register: u16| {
            let high = if dwords == 2 { w.lane(register + 1, lane) } else { 0 };
            u64::from(w.lane(register, lane)) | u64::from(high) << 32
        };
        let data = word(s.src[1]);
        let other = if atomic.two { word(second) } else { data };
        // SAFETY: `lane_ptr` gave a pointer that is valid for `bytes` bytes, and its alignment has been checked.
        let (old, new) = unsafe { (atomic.apply)(host, data, other) };
        if old == new {
            env.idle_bytes += bytes;
        }
        if returns {
            w.set_lane(s.dst[0], lane, old as u32);
            if dwords == 2 {
                w.set_lane(s.dst[0] + 1, lane, (old >> 32) as u32);
            }
        }
    }
    Flow::Next
}

/// The scalar atomic of an operation, and whether it goes through a resource descriptor.
pub(crate) fn scalar(op: Op) -> Option<(Atomic, bool)> {
    macro_rules! rows {
        ($($word:ident $wide:ident: $plain:ident $plain2:ident $buffer:ident $buffer2:ident;)*) => {
            match op {
                $(
                    Op::$plain => (Atomic::of::<$word>(), false),
                    Op::$buffer => (Atomic::of::<$word>(), true),
                    Op::$plain2 => (Atomic::of::<$wide>(), false),
                    Op::$buffer2 => (Atomic::of::<$wide>(), true),
                )*
                _ => return None,
            }
        };
    }
    Some(rows! {
        Swap32 Swap64: SAtomicSwap SAtomicSwapX2 SBufferAtomicSwap SBufferAtomicSwapX2;
        Cmpswap32 Cmpswap64: SAtomicCmpswap SAtomicCmpswapX2 SBufferAtomicCmpswap SBufferAtomicCmpswapX2;
        Add32 Add64: SAtomicAdd SAtomicAddX2 SBufferAtomicAdd SBufferAtomicAddX2;
        Sub32 Sub64: SAtomicSub SAtomicSubX2 SBufferAtomicSub SBufferAtomicSubX2;
        Smin32 Smin64: SAtomicSmin SAtomicSminX2 SBufferAtomicSmin SBufferAtomicSminX2;
        Umin32 Umin64: SAtomicUmin SAtomicUminX2 SBufferAtomicUmin SBufferAtomicUminX2;
        Smax32 Smax64: SAtomicSmax SAtomicSmaxX2 SBufferAtomicSmax SBufferAtomicSmaxX2;
        Umax32 Umax64: SAtomicUmax SAtomicUmaxX2 SBufferAtomicUmax SBufferAtomicUmaxX2;
        And32 And64: SAtomicAnd SAtomicAndX2 SBufferAtomicAnd SBufferAtomicAndX2;
        Or32 Or64: SAtomicOr SAtomicOrX2 SBufferAtomicOr SBufferAtomicOrX2;
        Xor32 Xor64: SAtomicXor SAtomicXorX2 SBufferAtomicXor SBufferAtomicXorX2;
        Inc32 Inc64: SAtomicInc SAtomicIncX2 SBufferAtomicInc SBufferAtomicIncX2;
        Dec32 Dec64: SAtomicDec SAtomicDecX2 SBufferAtomicDec SBufferAtomicDecX2;
    })
}

/// Calls back with the operations of each kind. Each row: the type, the operations on device memory, those on LDS.
macro_rules! table {
    ($op:expr, $space:ty, $($modify:ident: $($name:ident)|+;)*) => {
        match $op {
            $($(Op::$name)|+ => Some(Handlers::same(|w, env, s| run::<$space>(w, env, s, const { &Atomic::of::<$modify>() }))),)*
            _ => None,
        }
    };
}

/// The handler of an atomic operation.
pub(super) fn select<S: Space>(op: Op) -> Option<Handlers> {
    table!(op, S,
        Swap32: GlobalAtomicSwap | FlatAtomicSwap | BufferAtomicSwap | DsWrxchgRtnB32;
        Add32: GlobalAtomicAdd | FlatAtomicAdd | BufferAtomicAdd | DsAddU32 | DsAddRtnU32;
        Sub32: GlobalAtomicSub | FlatAtomicSub | BufferAtomicSub | DsSubU32 | DsSubRtnU32;
        Rsub32: DsRsubU32 | DsRsubRtnU32;
        Smin32: GlobalAtomicSmin | FlatAtomicSmin | BufferAtomicSmin | DsMinI32 | DsMinRtnI32;
        Smax32: GlobalAtomicSmax | FlatAtomicSmax | BufferAtomicSmax | DsMaxI32 | DsMaxRtnI32;
        Umin32: GlobalAtomicUmin | FlatAtomicUmin | BufferAtomicUmin | DsMinU32 | DsMinRtnU32;
        Umax32: GlobalAtomicUmax | FlatAtomicUmax | BufferAtomicUmax | DsMaxU32 | DsMaxRtnU32;
        And32: GlobalAtomicAnd | FlatAtomicAnd | BufferAtomicAnd | DsAndB32 | DsAndRtnB32;
        Or32: GlobalAtomicOr | FlatAtomicOr | BufferAtomicOr | DsOrB32 | DsOrRtnB32;
        Xor32: GlobalAtomicXor | FlatAtomicXor | BufferAtomicXor | DsXorB32 | DsXorRtnB32;
        Inc32: GlobalAtomicInc | FlatAtomicInc | BufferAtomicInc | DsIncU32 | DsIncRtnU32;
        Dec32: GlobalAtomicDec | FlatAtomicDec | BufferAtomicDec | DsDecU32 | DsDecRtnU32;
        // The DS operation of RDNA 3 and later has its data in the order of the global one.
        Cmpswap32: GlobalAtomicCmpswap | FlatAtomicCmpswap | BufferAtomicCmpswap | DsCmpstoreB32 | DsCmpstoreRtnB32;
        SubClamp32: GlobalAtomicCsub | BufferAtomicCsub | GlobalAtomicSubClampU32 | FlatAtomicSubClampU32
            | BufferAtomicSubClampU32 | DsSubClampU32 | DsSubClampRtnU32;
        CondSub32: GlobalAtomicCondSubU32 | FlatAtomicCondSubU32 | BufferAtomicCondSubU32 | DsCondSubU32
            | DsCondSubRtnU32;
        Cmpst32: DsCmpstB32 | DsCmpstRtnB32;
        Mskor32: DsMskorB32 | DsMskorRtnB32;
        Wrap32: DsWrapRtnB32;
        Swap64: GlobalAtomicSwapX2 | FlatAtomicSwapX2 | BufferAtomicSwapX2 | DsWrxchgRtnB64;
        Add64: GlobalAtomicAddX2 | FlatAtomicAddX2 | BufferAtomicAddX2 | DsAddU64 | DsAddRtnU64;
        Sub64: GlobalAtomicSubX2 | FlatAtomicSubX2 | BufferAtomicSubX2 | DsSubU64 | DsSubRtnU64;
        Rsub64: DsRsubU64 | DsRsubRtnU64;
        Smin64: GlobalAtomicSminX2 | FlatAtomicSminX2 | BufferAtomicSminX2 | DsMinI64 | DsMinRtnI64;
        Smax64: GlobalAtomicSmaxX2 | FlatAtomicSmaxX2 | BufferAtomicSmaxX2 | DsMaxI64 | DsMaxRtnI64;
        Umin64: GlobalAtomicUminX2 | FlatAtomicUminX2 | BufferAtomicUminX2 | DsMinU64 | DsMinRtnU64;
        Umax64: GlobalAtomicUmaxX2 | FlatAtomicUmaxX2 | BufferAtomicUmaxX2 | DsMaxU64 | DsMaxRtnU64;
        And64: GlobalAtomicAndX2 | FlatAtomicAndX2 | BufferAtomicAndX2 | DsAndB64 | DsAndRtnB64;
        Or64: GlobalAtomicOrX2 | FlatAtomicOrX2 | BufferAtomicOrX2 | DsOrB64 | DsOrRtnB64;
        Xor64: GlobalAtomicXorX2 | FlatAtomicXorX2 | BufferAtomicXorX2 | DsXorB64 | DsXorRtnB64;
        Inc64: GlobalAtomicIncX2 | FlatAtomicIncX2 | BufferAtomicIncX2 | DsIncU64 | DsIncRtnU64;
        Dec64: GlobalAtomicDecX2 | FlatAtomicDecX2 | BufferAtomicDecX2 | DsDecU64 | DsDecRtnU64;
        Cmpswap64: GlobalAtomicCmpswapX2 | FlatAtomicCmpswapX2 | BufferAtomicCmpswapX2 | DsCmpstoreB64
            | DsCmpstoreRtnB64;
        Cmpst64: DsCmpstB64 | DsCmpstRtnB64;
        Mskor64: DsMskorB64 | DsMskorRtnB64;
        AddF32: GlobalAtomicAddF32 | FlatAtomicAddF32 | BufferAtomicAddF32 | DsAddF32 | DsAddRtnF32;
        AddF64: GlobalAtomicAddF64 | FlatAtomicAddF64 | BufferAtomicAddF64 | DsAddF64 | DsAddRtnF64;
        MinF32: GlobalAtomicFmin | FlatAtomicFmin | BufferAtomicFmin | GlobalAtomicMinF32 | FlatAtomicMinF32
            | BufferAtomicMinF32 | GlobalAtomicMinNumF32 | FlatAtomicMinNumF32 | BufferAtomicMinNumF32 | DsMinF32
            | DsMinRtnF32 | DsMinNumF32 | DsMinNumRtnF32;
        MaxF32: GlobalAtomicFmax | FlatAtomicFmax | BufferAtomicFmax | GlobalAtomicMaxF32 | FlatAtomicMaxF32
            | BufferAtomicMaxF32 | GlobalAtomicMaxNumF32 | FlatAtomicMaxNumF32 | BufferAtomicMaxNumF32 | DsMaxF32
            | DsMaxRtnF32 | DsMaxNumF32 | DsMaxNumRtnF32;
        MinF64: GlobalAtomicMinF64 | FlatAtomicMinF64 | BufferAtomicMinF64 | GlobalAtomicFminX2 | FlatAtomicFminX2
            | BufferAtomicFminX2 | DsMinF64 | DsMinRtnF64 | DsMinNumF64 | DsMinNumRtnF64;
        MaxF64: GlobalAtomicMaxF64 | FlatAtomicMaxF64 | BufferAtomicMaxF64 | GlobalAtomicFmaxX2 | FlatAtomicFmaxX2
            | BufferAtomicFmaxX2 | DsMaxF64 | DsMaxRtnF64 | DsMaxNumF64 | DsMaxNumRtnF64;
        PackedAddF16: GlobalAtomicPkAddF16 | FlatAtomicPkAddF16 | BufferAtomicPkAddF16 | DsPkAddF16 | DsPkAddRtnF16;
        PackedAddBf16: GlobalAtomicPkAddBf16 | FlatAtomicPkAddBf16 | BufferAtomicPkAddBf16 | DsPkAddBf16 | DsPkAddRtnBf16;
        CmpswapF32: GlobalAtomicFcmpswap | FlatAtomicFcmpswap | BufferAtomicFcmpswap | GlobalAtomicCmpswapF32
            | FlatAtomicCmpswapF32 | BufferAtomicCmpswapF32 | DsCmpstoreF32 | DsCmpstoreRtnF32;
        CmpswapF64: GlobalAtomicFcmpswapX2 | FlatAtomicFcmpswapX2 | BufferAtomicFcmpswapX2 | DsCmpstoreF64
            | DsCmpstoreRtnF64;
        CmpstF32: DsCmpstF32 | DsCmpstRtnF32;
        CmpstF64: DsCmpstF64 | DsCmpstRtnF64;
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_and_decrements_wrap_at_the_data() {
        assert_eq!(Inc32::apply(4, 5, 0), 5);
        assert_eq!(Inc32::apply(5, 5, 0), 0);
        assert_eq!(Dec32::apply(0, 5, 0), 5);
        assert_eq!(Dec32::apply(6, 5, 0), 5);
        assert_eq!(Dec32::apply(5, 5, 0), 4);
    }

    #[test]
    fn float_operations_prefer_numbers_and_give_one_nan() {
        let (one, nan) = (1f32.to_bits(), f32::NAN.to_bits() | 5);
        assert_eq!(MinF32::apply(nan, one, 0), one);
        assert_eq!(MaxF32::apply(one, nan, 0), one);
        assert_eq!(AddF32::apply(one, nan, 0), 0x7fc0_0000);
        assert_eq!(MinF32::apply(0, 0x8000_0000, 0), 0x8000_0000);
        assert_eq!(MaxF32::apply(0x8000_0000, 0, 0), 0);
        assert_eq!(PackedAddF16::apply(0x3c00_4000, 0x3c00_3c00, 0), 0x4000_4200);
        assert_eq!(PackedAddBf16::apply(0x3f80_4000, 0x3f80_3f80, 0), 0x4000_4040);
    }
}
