//! What a source or result of a lane operation is: its Rust type, its registers, and how modifiers act on it.

use crate::numeric::{is_nan_f32, is_nan_f64};
use crate::step::Constant;
use crate::wave::{CHUNK, Wave};

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
    /// The bits if it is an f32 NaN, else bits that are none.
    #[inline(always)]
    fn nan_f32(self) -> u32 {
        0
    }
    /// The bits if it is an f64 NaN, else bits that are none.
    #[inline(always)]
    fn nan_f64(self) -> u64 {
        0
    }

    /// A chunk of the operand in register `register` and, if there are two, the next.
    #[inline(always)]
    fn load(w: &Wave, register: u16, chunk: usize) -> [Self; CHUNK] {
        let low = dwords(w, register, chunk);
        let mut out = [Self::from_bits(0, 0); CHUNK];
        if Self::KIND.dwords() == 2 {
            let high = dwords(w, register + 1, chunk);
            let mut both = [0u64; CHUNK];
            for i in 0..CHUNK {
                both[i] = u64::from(low[i]);
            }
            for i in 0..CHUNK {
                both[i] |= u64::from(high[i]) << 32;
            }
            for i in 0..CHUNK {
                out[i] = Self::from_bits(both[i] as u32, (both[i] >> 32) as u32);
            }
        } else {
            for i in 0..CHUNK {
                out[i] = Self::from_bits(low[i], 0);
            }
        }
        out
    }

    /// Stores a chunk in the lanes of `exec`.
    #[inline(always)]
    fn store(w: &mut Wave, register: u16, chunk: usize, values: [Self; CHUNK], exec: u64) {
        let mut low = [0; CHUNK];
        for i in 0..CHUNK {
            low[i] = values[i].to_bits().0;
        }
        store_dwords(w, register, chunk, low, exec);
        if Self::KIND.dwords() == 2 {
            let mut high = [0; CHUNK];
            for i in 0..CHUNK {
                high[i] = values[i].to_bits().1;
            }
            store_dwords(w, register + 1, chunk, high, exec);
        }
    }
}

/// A chunk of a register.
#[inline(always)]
fn dwords(w: &Wave, register: u16, chunk: usize) -> [u32; CHUNK] {
    w.v[register as usize].0.as_chunks().0[chunk]
}

/// Writes a chunk of a register in the lanes of `exec`.
#[inline(always)]
fn store_dwords(w: &mut Wave, register: u16, chunk: usize, values: [u32; CHUNK], exec: u64) {
    let lanes: &mut [u32; CHUNK] = &mut w.v[register as usize].0.as_chunks_mut().0[chunk];
    let mask = (exec >> (chunk * CHUNK)) as u16;
    if mask == u16::MAX {
        *lanes = values;
    } else {
        let mut blended = *lanes;
        for i in 0..CHUNK {
            // Bitwise, because a choice between two places in memory becomes 16 scalar choices.
            let written = 0u32.wrapping_sub(u32::from(mask >> i & 1));
            blended[i] = values[i] & written | blended[i] & !written;
        }
        *lanes = blended;
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
        self != self
    }
    #[inline(always)]
    fn nan_f32(self) -> u32 {
        let bits = f32::to_bits(self);
        if is_nan_f32(bits) { bits } else { 0 }
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
        self != self
    }
    #[inline(always)]
    fn nan_f64(self) -> u64 {
        let bits = f64::to_bits(self);
        if is_nan_f64(bits) { bits } else { 0 }
    }
}

/// The sources of an operation, as a tuple of [`Word`]s.
pub(crate) trait Sources: Copy {
    /// One kind for each source.
    const KINDS: &'static [Kind];
    /// The sources of a chunk of lanes.
    type Chunk;
    /// Loads a chunk of all sources.
    fn load(w: &Wave, registers: &[u16; 4], chunk: usize) -> Self::Chunk;
    /// The sources of one lane of a chunk.
    fn lane(chunk: &Self::Chunk, i: usize) -> Self;
    /// What an f32 operation on these returns as NaN.
    fn first_nan_f32(self) -> u32;
    /// What an f64 operation on these returns as NaN.
    fn first_nan_f64(self) -> u64;
}

macro_rules! sources {
    ($($type:ident $index:tt),*) => {
        impl<$($type: Word),*> Sources for ($($type,)*) {
            const KINDS: &'static [Kind] = &[$($type::KIND),*];
            type Chunk = ($([$type; CHUNK],)*);
            #[inline(always)]
            fn load(w: &Wave, registers: &[u16; 4], chunk: usize) -> Self::Chunk {
                ($($type::load(w, registers[$index], chunk),)*)
            }
            #[inline(always)]
            fn lane(chunk: &Self::Chunk, i: usize) -> Self {
                ($(chunk.$index[i],)*)
            }
            #[inline(always)]
            fn first_nan_f32(self) -> u32 {
                crate::numeric::nan_f32(&[$(self.$index.nan_f32()),*])
            }
            #[inline(always)]
            fn first_nan_f64(self) -> u64 {
                crate::numeric::nan_f64(&[$(self.$index.nan_f64()),*])
            }
        }
    };
}

sources!(A 0);
sources!(A 0, B 1);
sources!(A 0, B 1, D 2);
