//! The source types of the matrix unit, and the arithmetic of its accumulators.

use std::marker::PhantomData;

use super::layout::{Row, row_32, row_64};
use crate::numeric::{Cpu, Float8, NAN_F32, NAN_F64, bf16_to_f32, f16_to_f32, float8_to_f32};
use crate::wave::{LANES, Wave};

/// The first `N` values.
#[inline(always)]
pub(crate) fn first_of<const N: usize, T>(values: &[T]) -> &[T; N] {
    values.first_chunk().expect("a row lies within the lanes")
}

/// An accumulator type.
pub(crate) trait Number: Copy + Default + 'static {
    /// Registers of an element.
    const DWORDS: usize;
    /// `a * b + c`, one rounding; `exact` promises that `a * b` is representable.
    fn fma<C: Cpu>(a: Self, b: Self, c: Self, exact: bool) -> Self;
    /// Adds to four rows of sixteen columns, in order of `e`, the products of the four values `a[e][at..]` with the sixteen
    /// `b[e][from..]`.
    #[inline(always)]
    fn accumulate<C: Cpu, const N: usize>(
        acc: &mut [[Self; 16]; 4],
        a: &[[Self; N]],
        at: usize,
        b: &[[Self; N]],
        from: usize,
        exact: bool,
    ) {
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (first_of::<4, _>(&a[at..]), first_of::<16, _>(&b[from..]));
            for r in 0..4 {
                for c in 0..16 {
                    acc[r][c] = Self::fma::<C>(a[r], b[c], acc[r][c], exact);
                }
            }
        }
    }
    /// `-a` (f64's `blgp`).
    fn negate(self) -> Self;
    /// With every NaN the same.
    fn settle(self) -> Self;
    /// A denormal as zero, positive or `signed`.
    fn flush(self, signed: bool) -> Self;
    /// Where a row lies.
    fn row(m: usize, block: usize, i: usize) -> Row;
    /// `W` columns of a row from `lane` on.
    fn load<const W: usize>(w: &Wave, register: usize, lane: usize) -> [Self; W];
    /// Stores them, every NaN the same.
    fn store<const W: usize>(w: &mut Wave, register: usize, lane: usize, values: [Self; W]);
    /// A constant: `bits` of an f64 if `float`, else an integer's.
    fn constant(bits: u64, float: bool) -> Self;
    /// Whether `blgp` negates instead of moving lanes.
    const BLGP_NEGATES: bool;
}

macro_rules! number_32 {
    ($type:ty, $fma:expr, $negate:expr, $settle:expr, $flush:expr, $from:expr, $to:expr, {$($accumulate:tt)*}) => {
        impl Number for $type {
            const DWORDS: usize = 1;
            const BLGP_NEGATES: bool = false;
            $($accumulate)*
            #[inline(always)]
            fn fma<C: Cpu>(a: Self, b: Self, c: Self, exact: bool) -> Self {
                let f: fn(fn(f32, f32, f32) -> f32, Self, Self, Self, bool) -> Self = $fma;
                f(C::fma_f32, a, b, c, exact)
            }
            #[inline(always)]
            fn negate(self) -> Self {
                $negate(self)
            }
            #[inline(always)]
            fn settle(self) -> Self {
                $settle(self)
            }
            #[inline(always)]
            fn flush(self, signed: bool) -> Self {
                $flush(self, signed)
            }
            #[inline(always)]
            fn row(m: usize, block: usize, i: usize) -> Row {
                row_32(m, block, i)
            }
            #[inline(always)]
            fn load<const W: usize>(w: &Wave, register: usize, lane: usize) -> [Self; W] {
                let lanes = &w.v[register].0[lane..lane + W];
                let mut out = [Self::default(); W];
                for c in 0..W {
                    out[c] = $from(lanes[c]);
                }
                out
            }
            #[inline(always)]
            fn store<const W: usize>(w: &mut Wave, register: usize, lane: usize, values: [Self; W]) {
                let lanes = &mut w.v[register].0[lane..lane + W];
                for c in 0..W {
                    lanes[c] = $to(values[c].settle());
                }
            }
            #[inline(always)]
            fn constant(bits: u64, float: bool) -> Self {
                $from(if float { (f64::from_bits(bits) as f32).to_bits() } else { bits as u32 })
            }
        }
    };
}

number_32!(
    f32,
    |fma, a, b, c, exact| if exact { a * b + c } else { fma(a, b, c) },
    |x: f32| -x,
    |x: f32| if x.is_nan() { f32::from_bits(NAN_F32) } else { x },
    |x: f32, signed| match (x.abs() < f32::MIN_POSITIVE, signed) {
        (false, _) => x,
        (true, false) => 0.0,
        (true, true) => 0f32.copysign(x),
    },
    f32::from_bits,
    f32::to_bits,
    {
        #[inline(always)]
        fn accumulate<C: Cpu, const N: usize>(
            acc: &mut [[f32; 16]; 4],
            a: &[[f32; N]],
            at: usize,
            b: &[[f32; N]],
            from: usize,
            exact: bool,
        ) {
            let [mut r0, mut r1, mut r2, mut r3] =
                [C::load(&acc[0]), C::load(&acc[1]), C::load(&acc[2]), C::load(&acc[3])];
            for (a, b) in a.iter().zip(b) {
                let (a, b) = (first_of::<4, _>(&a[at..]), C::load(first_of(&b[from..])));
                r0 = C::fma_f32x16(a[0], b, r0, exact);
                r1 = C::fma_f32x16(a[1], b, r1, exact);
                r2 = C::fma_f32x16(a[2], b, r2, exact);
                r3 = C::fma_f32x16(a[3], b, r3, exact);
            }
            *acc = [C::store(r0), C::store(r1), C::store(r2), C::store(r3)];
        }
    }
);
number_32!(
    i32,
    |_, a, b, c, _| a.wrapping_mul(b).wrapping_add(c),
    i32::wrapping_neg,
    |x: i32| x,
    |x: i32, _| x,
    |bits: u32| bits as i32,
    |x: i32| x as u32,
    {}
);

impl Number for f64 {
    const DWORDS: usize = 2;
    const BLGP_NEGATES: bool = true;
    #[inline(always)]
    fn fma<C: Cpu>(a: f64, b: f64, c: f64, _: bool) -> f64 {
        C::fma_f64(a, b, c)
    }
    #[inline(always)]
    fn negate(self) -> f64 {
        -self
    }
    #[inline(always)]
    fn settle(self) -> f64 {
        if self.is_nan() { f64::from_bits(NAN_F64) } else { self }
    }
    #[inline(always)]
    fn flush(self, _: bool) -> f64 {
        self
    }
    #[inline(always)]
    fn row(m: usize, block: usize, i: usize) -> Row {
        row_64(m, block, i)
    }
    #[inline(always)]
    fn load<const W: usize>(w: &Wave, register: usize, lane: usize) -> [f64; W] {
        let mut out = [0.0; W];
        for c in 0..W {
            out[c] = pair(w, register, lane + c);
        }
        out
    }
    #[inline(always)]
    fn store<const W: usize>(w: &mut Wave, register: usize, lane: usize, values: [f64; W]) {
        for (c, value) in values.into_iter().enumerate() {
            let bits = value.settle().to_bits();
            w.v[register].0[lane + c] = bits as u32;
            w.v[register + 1].0[lane + c] = (bits >> 32) as u32;
        }
    }
    #[inline(always)]
    fn constant(bits: u64, _: bool) -> f64 {
        f64::from_bits(bits)
    }
}

#[inline(always)]
fn pair(w: &Wave, register: usize, lane: usize) -> f64 {
    f64::from_bits(u64::from(w.v[register + 1].0[lane]) << 32 | u64::from(w.v[register].0[lane]))
}

/// A source type.
pub(crate) trait Element: 'static {
    /// What it is widened to: the accumulator's type.
    type Wide: Number;
    /// Bits of an element.
    const BITS: usize;
    /// Whether the product of two of them is always representable in `Wide`, so that a product and a sum round as the
    /// fused operation does.
    const EXACT_PRODUCT: bool;
    /// Whether denormal sources, addends and results become zero.
    const FLUSHES: bool = false;
    /// Widens the low bits.
    fn widen(bits: u32) -> Self::Wide;
    /// Widens element `e` of each lane of the operand at `register`.
    #[inline(always)]
    fn decode(w: &Wave, register: usize, e: usize, out: &mut [Self::Wide; LANES]) {
        let lanes = &w.v[register + e * Self::BITS / 32].0;
        let shift = (e * Self::BITS % 32) as u32;
        for (out, &bits) in out.iter_mut().zip(lanes) {
            *out = Self::widen(bits >> shift);
        }
    }
    /// Widens the first `N` elements of each lane.
    #[inline(always)]
    fn decode_all<C: Cpu, const N: usize>(w: &Wave, register: usize, out: &mut [[Self::Wide; LANES]; N]) {
        for (e, out) in out.iter_mut().enumerate() {
            Self::decode(w, register, e, out);
        }
    }
}

/// f16: 22-bit products between 2^-48 and 2^32.
pub(crate) struct F16;
impl Element for F16 {
    type Wide = f32;
    const BITS: usize = 16;
    const EXACT_PRODUCT: bool = true;
    #[inline(always)]
    fn widen(bits: u32) -> f32 {
        f16_to_f32(bits as u16)
    }
    #[inline(always)]
    fn decode_all<C: Cpu, const N: usize>(w: &Wave, register: usize, out: &mut [[f32; LANES]; N]) {
        for (r, pair) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let [low, high] = pair;
            C::widen_f16(&w.v[register + r].0, low, high);
        }
    }
}

macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident -> $wide:ty, $bits:literal bits, exact $exact:literal, |$x:ident| $widen:expr;)*) => {
        $($(#[$doc])*
        pub(crate) struct $name;
        impl Element for $name {
            type Wide = $wide;
            const BITS: usize = $bits;
            const EXACT_PRODUCT: bool = $exact;
            #[inline(always)]
            fn widen($x: u32) -> $wide {
                $widen
            }
        })*
    };
}

elements! {
    /// f32.
    F32 -> f32, 32 bits, exact false, |x| f32::from_bits(x);
    /// XF32: f32 with 10 mantissa bits; their products have 22 bits but f32's range, so they may still round.
    Xf32 -> f32, 32 bits, exact false, |x| truncate_xf32(x);
    /// bf16: products leave f32's range.
    Bf16 -> f32, 16 bits, exact false, |x| bf16_to_f32(x as u16);
    /// FP8 (E4M3 FNUZ).
    Fp8 -> f32, 8 bits, exact true, |x| float8_to_f32(Float8::E4M3, x as u8);
    /// BF8 (E5M2 FNUZ).
    Bf8 -> f32, 8 bits, exact true, |x| float8_to_f32(Float8::E5M2, x as u8);
    /// FP8 (E4M3 of OCP).
    Fp8Ocp -> f32, 8 bits, exact true, |x| float8_to_f32(Float8::OcpE4M3, x as u8);
    /// BF8 (E5M2 of OCP).
    Bf8Ocp -> f32, 8 bits, exact true, |x| float8_to_f32(Float8::OcpE5M2, x as u8);
    /// i8.
    I8 -> i32, 8 bits, exact true, |x| (x as i8).into();
}

/// f64.
pub(crate) struct F64;
impl Element for F64 {
    type Wide = f64;
    const BITS: usize = 64;
    const EXACT_PRODUCT: bool = false;
    #[inline(always)]
    fn widen(_: u32) -> f64 {
        unreachable!("`decode` reads both registers")
    }
    #[inline(always)]
    fn decode(w: &Wave, register: usize, e: usize, out: &mut [f64; LANES]) {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = pair(w, register + 2 * e, lane);
        }
    }
}

/// To 10 mantissa bits, towards zero; a NaN stays one.
#[inline(always)]
pub(crate) fn truncate_xf32(bits: u32) -> f32 {
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if is_nan { NAN_F32 } else { bits & !0x1fff })
}

/// A source type whose denormals are taken as zero.
pub(crate) struct Flushed<E>(PhantomData<E>);
macro_rules! flushed {
    ($($type:ident below $least:expr;)*) => {
        $(impl Element for Flushed<$type> {
            type Wide = f32;
            const BITS: usize = $type::BITS;
            const EXACT_PRODUCT: bool = $type::EXACT_PRODUCT;
            const FLUSHES: bool = true;
            #[inline(always)]
            fn widen(bits: u32) -> f32 {
                let x = $type::widen(bits);
                if x.abs() < $least { 0.0 } else { x }
            }
            #[inline(always)]
            fn decode_all<C: Cpu, const N: usize>(w: &Wave, register: usize, out: &mut [[f32; LANES]; N]) {
                $type::decode_all::<C, N>(w, register, out);
                out.iter_mut().flatten().for_each(|x| *x = if x.abs() < $least { 0.0 } else { *x });
            }
        })*
    };
}
flushed! {
    F16 below 6.103_515_6e-5;
    Bf16 below f32::MIN_POSITIVE;
}
