//! What a source or result of a lane operation is: its Rust type, its registers, and how modifiers act on it.

use crate::numeric::{Cpu, NAN_F32, NAN_F64, is_nan_f32, is_nan_f64};
use crate::step::Constant;
use crate::wave::{LANES, Wave};

/// How modifiers, denormal modes and constants act on an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 32 bits, not touched by float modes. Its sign for `neg` and `abs` is that of an f32 (`v_cndmask`, `v_mov`).
    B32,
    /// An f32.
    F32,
    /// The low 16 bits.
    B16,
    /// An f16 in the low 16 bits.
    F16,
    /// 64 bits.
    B64,
    /// An f64.
    F64,
    /// Two 16-bit integers.
    PkB16,
    /// Two f16.
    PkF16,
    /// Two f32 in two registers.
    PkF32,
    /// A source of `v_fma_mix`: an f32, or half a register as f16, as `op_sel_hi` says.
    Mix,
}

impl Kind {
    /// Whether float modes act on it.
    pub(crate) const fn is_float(self) -> bool {
        match self {
            Kind::F32 | Kind::F16 | Kind::F64 | Kind::PkF16 | Kind::PkF32 | Kind::Mix => true,
            Kind::B32 | Kind::B16 | Kind::B64 | Kind::PkB16 => false,
        }
    }

    /// Registers.
    pub(crate) const fn dwords(self) -> u16 {
        match self {
            Kind::B64 | Kind::F64 | Kind::PkF32 => 2,
            Kind::B32 | Kind::F32 | Kind::B16 | Kind::F16 | Kind::PkB16 | Kind::PkF16 | Kind::Mix => 1,
        }
    }

    /// The type that a constant takes.
    pub(crate) const fn constant(self) -> Constant {
        match self {
            Kind::B32 | Kind::F32 | Kind::Mix => Constant::B32,
            Kind::B16 | Kind::F16 | Kind::PkB16 | Kind::PkF16 => Constant::B16,
            Kind::B64 => Constant::B64,
            Kind::F64 | Kind::PkF32 => Constant::F64,
        }
    }
}

/// A value in one or two registers of a lane.
pub(crate) trait Word: Copy {
    /// How modifiers act on it.
    const KIND: Kind;
    /// From the registers' bits; `high` is that of the second register, or zero.
    fn from_bits(low: u32, high: u32) -> Self;
    /// To the registers' bits.
    fn to_bits(self) -> (u32, u32);
    /// Whether it is a NaN of f32 or f64.
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }

    /// Stores the values of the wave's lanes, 32 or 64, in the lanes of `exec`.
    #[inline(always)]
    fn store<C: Cpu>(w: &mut Wave, register: u16, values: &[Self], exec: u64) {
        put::<Self, C>(w, register, values, exec, |value| value.to_bits().0);
        if Self::KIND.dwords() == 2 {
            put::<Self, C>(w, register + 1, values, exec, |value| value.to_bits().1);
        }
    }
}

#[inline(always)]
fn put<T: Word, C: Cpu>(w: &mut Wave, register: u16, values: &[T], exec: u64, bits: impl Fn(T) -> u32) {
    let to = &mut w.v[register as usize].0;
    if exec == u64::MAX >> (LANES - values.len()) {
        copy(to, values, bits);
    } else {
        let mut all = [0; LANES];
        copy(&mut all, values, bits);
        C::blend(to, &all, exec);
    }
}

/// The bits of the values of a wave's lanes. Each number of lanes has a loop of its own, which is a copy of so many bytes.
#[inline(always)]
fn copy<T: Word>(to: &mut [u32; LANES], from: &[T], bits: impl Fn(T) -> u32) {
    if let Some(from) = from.first_chunk::<LANES>() {
        for i in 0..LANES {
            to[i] = bits(from[i]);
        }
    } else if let Some(from) = from.first_chunk::<{ LANES / 2 }>() {
        for i in 0..LANES / 2 {
            to[i] = bits(from[i]);
        }
    }
}

/// The registers of an operand: the low one, and the high one, which is the low one again if there is no other.
#[derive(Clone, Copy)]
pub(crate) struct Registers<'a> {
    low: &'a [u32; LANES],
    high: &'a [u32; LANES],
}

impl<'a> Registers<'a> {
    #[inline(always)]
    fn new<T: Word>(w: &'a Wave, register: u16) -> Registers<'a> {
        let high = register + T::KIND.dwords() - 1;
        Registers { low: &w.v[register as usize].0, high: &w.v[high as usize].0 }
    }

    #[inline(always)]
    fn lane<T: Word>(&self, i: usize) -> T {
        T::from_bits(self.low[i], if T::KIND.dwords() == 2 { self.high[i] } else { 0 })
    }
}

macro_rules! word {
    ($($type:ty: $kind:ident, |$low:ident, $high:ident| $from:expr, |$x:ident| $to:expr;)*) => {
        $(impl Word for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_bits($low: u32, $high: u32) -> Self {
                $from
            }
            #[inline(always)]
            fn to_bits(self) -> (u32, u32) {
                let $x = self;
                $to
            }
        })*
    };
}

/// An f16, as bits.
#[derive(Clone, Copy)]
pub(crate) struct Half(pub(crate) u16);
/// Two f16 or 16-bit integers, as bits.
#[derive(Clone, Copy)]
pub(crate) struct Halves(pub(crate) u32);
/// Two 16-bit integers, as bits.
#[derive(Clone, Copy)]
pub(crate) struct Shorts(pub(crate) u32);
/// Two f32.
#[derive(Clone, Copy)]
pub(crate) struct Pair(pub(crate) f32, pub(crate) f32);
/// A source of `v_fma_mix`, widened to f32 by the time an operation sees it.
#[derive(Clone, Copy)]
pub(crate) struct Mixed(pub(crate) f32);

word! {
    u32: B32, |low, _h| low, |x| (x, 0);
    i32: B32, |low, _h| low as i32, |x| (x as u32, 0);
    u16: B16, |low, _h| low as u16, |x| (x.into(), 0);
    i16: B16, |low, _h| low as i16, |x| (u32::from(x as u16), 0);
    Half: F16, |low, _h| Half(low as u16), |x| (x.0.into(), 0);
    u64: B64, |low, high| u64::from(high) << 32 | u64::from(low), |x| (x as u32, (x >> 32) as u32);
    i64: B64, |low, high| (u64::from(high) << 32 | u64::from(low)) as i64, |x| (x as u32, (x >> 32) as u32);
    Halves: PkF16, |low, _h| Halves(low), |x| (x.0, 0);
    Shorts: PkB16, |low, _h| Shorts(low), |x| (x.0, 0);
    Pair: PkF32, |low, high| Pair(f32::from_bits(low), f32::from_bits(high)), |x| (x.0.to_bits(), x.1.to_bits());
    Mixed: Mix, |low, _h| Mixed(f32::from_bits(low)), |x| (x.0.to_bits(), 0);
}

impl Word for f32 {
    const KIND: Kind = Kind::F32;
    #[inline(always)]
    fn from_bits(low: u32, _: u32) -> Self {
        f32::from_bits(low)
    }
    #[inline(always)]
    fn to_bits(self) -> (u32, u32) {
        (f32::to_bits(self), 0)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        Self::is_nan(self)
    }
}

impl Word for f64 {
    const KIND: Kind = Kind::F64;
    #[inline(always)]
    fn from_bits(low: u32, high: u32) -> Self {
        f64::from_bits(u64::from(high) << 32 | u64::from(low))
    }
    #[inline(always)]
    fn to_bits(self) -> (u32, u32) {
        let bits = f64::to_bits(self);
        (bits as u32, (bits >> 32) as u32)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        Self::is_nan(self)
    }
}

/// The bits of the NaN that an operation returns in lane `i`, f64 if `double`: the first NaN of that type among its sources,
/// made quiet, or the default one.
#[cold]
#[inline(never)]
pub(crate) fn nan_of_sources(kinds: &[Kind], registers: &[Registers<'_>], i: usize, double: bool) -> (u32, u32) {
    for (kind, registers) in kinds.iter().zip(registers) {
        let (low, high) = (registers.low[i], registers.high[i]);
        if !double && *kind == Kind::F32 && is_nan_f32(low) {
            return (low | 1 << 22, 0);
        }
        if double && *kind == Kind::F64 && is_nan_f64(u64::from(high) << 32 | u64::from(low)) {
            return (low, high | 1 << 19);
        }
    }
    if double { (NAN_F64 as u32, (NAN_F64 >> 32) as u32) } else { (NAN_F32, 0) }
}

/// The sources of an operation, as a tuple of [`Word`]s.
pub(crate) trait Sources: Copy {
    /// One kind for each source.
    const KINDS: &'static [Kind];
    /// The registers of all sources.
    type Registers<'a>: Copy + AsRef<[Registers<'a>]>;
    /// Looks up the registers.
    fn registers<'a>(w: &'a Wave, registers: &[u16; 4]) -> Self::Registers<'a>;
    /// The sources of one lane.
    fn lane(registers: &Self::Registers<'_>, i: usize) -> Self;
}

macro_rules! sources {
    ($($type:ident $index:tt),*) => {
        impl<$($type: Word),*> Sources for ($($type,)*) {
            const KINDS: &'static [Kind] = &[$($type::KIND),*];
            type Registers<'a> = [Registers<'a>; [$($index),*].len()];
            #[inline(always)]
            fn registers<'a>(w: &'a Wave, registers: &[u16; 4]) -> Self::Registers<'a> {
                [$(Registers::new::<$type>(w, registers[$index])),*]
            }
            #[inline(always)]
            fn lane(registers: &Self::Registers<'_>, i: usize) -> Self {
                ($(registers[$index].lane::<$type>(i),)*)
            }
        }
    };
}

sources!(A 0);
sources!(A 0, B 1);
sources!(A 0, B 1, D 2);
