//! The most frequent operations on the host's vector registers, by name.
//!
//! What the compiler makes of the loops of [`driver`](super::driver) goes through memory three times: results are gathered,
//! looked through for NaNs, then stored. Here the results of all 64 lanes stand in eight registers meanwhile. Scalar sources are
//! spread over one register instead of 64 lanes, and a mask is expanded where it is used.
//!
//! Every operation has its function of one lane too. Modifiers, unusual modes and NaNs go back to that, and the tests compare the two.

use std::arch::x86_64 as x86;

use super::driver::{
    Compare, MaskOp, Op, any_float, compare_narrow, end_compare, mask_narrow, op_narrow, pair_narrow, property, run,
    run_compare, run_mask, run_pairs, set_mask,
};
use super::modifiers::{MODE_MASK, USUAL_MODE, flag};
use super::word::{Sources, Word};
use crate::env::Env;
use crate::numeric::Avx2;
use crate::step::{Flow, Handlers, MicroOp};
use crate::wave::{LANES, Lanes, VECTOR_FILE, Wave};

/// Lanes of a vector.
const WIDTH: usize = 8;

/// Vectors of a register.
const PARTS: usize = LANES / WIDTH;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct V(x86::__m256i);

/// Functions of vectors by instructions of the host. `ps!` shows a vector as floats, `si!` floats as a vector.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($a:ident),*) = $body:expr;)*) => {
        impl V {
            $($(#[$doc])*
            #[inline(always)]
            pub(crate) fn $name($($a: V),*) -> V {
                $(let $a = $a.0;)*
                // SAFETY: handlers that use vectors run only where AVX2 and FMA were found.
                V(unsafe { $body })
            })*
        }
    };
}

macro_rules! ps {
    ($a:expr) => {
        x86::_mm256_castsi256_ps($a)
    };
}

macro_rules! si {
    ($a:expr) => {
        x86::_mm256_castps_si256($a)
    };
}

functions! {
    /// `a + b`
    add(a, b) = x86::_mm256_add_epi32(a, b);
    /// `a - b`
    sub(a, b) = x86::_mm256_sub_epi32(a, b);
    /// The low half of `a * b`
    mul_lo(a, b) = x86::_mm256_mullo_epi32(a, b);
    /// `a & b`
    and(a, b) = x86::_mm256_and_si256(a, b);
    /// `a | b`
    or(a, b) = x86::_mm256_or_si256(a, b);
    /// `a ^ b`
    xor(a, b) = x86::_mm256_xor_si256(a, b);
    /// `a & !b`
    and_not(a, b) = x86::_mm256_andnot_si256(b, a);
    /// `a << b`; zero from 32 on
    shl(a, b) = x86::_mm256_sllv_epi32(a, b);
    /// `a >> b`; zero from 32 on
    shr(a, b) = x86::_mm256_srlv_epi32(a, b);
    /// `a >> b` with the sign
    sar(a, b) = x86::_mm256_srav_epi32(a, b);
    /// Ones where `a == b`
    equal(a, b) = x86::_mm256_cmpeq_epi32(a, b);
    /// Ones where `a > b`, signed
    greater(a, b) = x86::_mm256_cmpgt_epi32(a, b);
    /// `a` where `mask` is zeros, `b` where it is ones
    choose(a, b, mask) = x86::_mm256_blendv_epi8(a, b, mask);
    /// Products of the even lanes, 64 bits each
    mul_even(a, b) = x86::_mm256_mul_epu32(a, b);
    /// The odd lanes in the place of the even ones, zeros in their own
    odd_down(a) = x86::_mm256_srli_epi64::<32>(a);
    /// The even lanes in the place of the odd ones, zeros in their own
    even_up(a) = x86::_mm256_slli_epi64::<32>(a);
    /// Even lanes of `a`, odd ones of `b`
    interleave(a, b) = x86::_mm256_blend_epi32::<0b1010_1010>(a, b);
    /// f32
    add_f32(a, b) = si!(x86::_mm256_add_ps(ps!(a), ps!(b)));
    /// f32
    sub_f32(a, b) = si!(x86::_mm256_sub_ps(ps!(a), ps!(b)));
    /// f32
    mul_f32(a, b) = si!(x86::_mm256_mul_ps(ps!(a), ps!(b)));
    /// f32, one rounding
    fma_f32(a, b, c) = si!(x86::_mm256_fmadd_ps(ps!(a), ps!(b), ps!(c)));
    /// Signed integers to f32
    to_f32(a) = si!(x86::_mm256_cvtepi32_ps(a));
    /// Ones where one is a NaN
    unordered_f32(a, b) = si!(x86::_mm256_cmp_ps::<{ x86::_CMP_UNORD_Q }>(ps!(a), ps!(b)));
    /// Ones where neither is
    ordered_f32(a, b) = si!(x86::_mm256_cmp_ps::<{ x86::_CMP_ORD_Q }>(ps!(a), ps!(b)));
    /// Ones where `a < b`
    less_f32(a, b) = si!(x86::_mm256_cmp_ps::<{ x86::_CMP_LT_OQ }>(ps!(a), ps!(b)));
    /// Ones where `a <= b`
    less_or_equal_f32(a, b) = si!(x86::_mm256_cmp_ps::<{ x86::_CMP_LE_OQ }>(ps!(a), ps!(b)));
    /// Ones where `a == b`
    equal_f32(a, b) = si!(x86::_mm256_cmp_ps::<{ x86::_CMP_EQ_OQ }>(ps!(a), ps!(b)));
    /// Ones where `a < b` or `a > b`
    unequal_f32(a, b) = si!(x86::_mm256_cmp_ps::<{ x86::_CMP_NEQ_OQ }>(ps!(a), ps!(b)));
}

impl V {
    /// The same in all lanes.
    #[inline(always)]
    pub(crate) fn splat(value: u32) -> V {
        // SAFETY: handlers that use vectors run only where AVX2 was found.
        V(unsafe { x86::_mm256_set1_epi32(value as i32) })
    }

    /// Ones where `a > b`, unsigned.
    #[inline(always)]
    pub(crate) fn above(self, b: V) -> V {
        let top = V::splat(1 << 31);
        V::greater(V::xor(self, top), V::xor(b, top))
    }

    /// A shift count's low five bits.
    #[inline(always)]
    pub(crate) fn count(self) -> V {
        V::and(self, V::splat(31))
    }

    /// The top bit of each lane.
    #[inline(always)]
    fn top_bits(self) -> u64 {
        // SAFETY: as above.
        unsafe { x86::_mm256_movemask_ps(ps!(self.0)) as u64 }
    }

    /// Ones in the lanes whose bit is set, of the eight lanes of a mask from `8 * part` on.
    #[inline(always)]
    fn of_mask(mask: u64, part: usize) -> V {
        // SAFETY: as above.
        let own = V(unsafe { x86::_mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128) });
        let bits = V::splat((mask >> (WIDTH * part)) as u32);
        V::equal(V::and(bits, own), own)
    }
}

/// The vector file, for loads and stores that alternate.
#[derive(Clone, Copy)]
struct File(*mut Lanes);

impl File {
    #[inline(always)]
    fn new(w: &mut Wave) -> File {
        File(w.v.as_mut_ptr())
    }

    /// The first vector of a register.
    #[inline(always)]
    fn register(self, register: u16) -> *mut x86::__m256i {
        assert!((register as usize) < VECTOR_FILE, "operands name registers of the file");
        // SAFETY: the file has `VECTOR_FILE` registers.
        unsafe { self.0.add(register as usize).cast() }
    }

    /// Stores a part of a register in the lanes of `exec`.
    #[inline(always)]
    fn store(self, register: u16, part: usize, value: V, exec: u64) {
        // SAFETY: a register is `PARTS` vectors, aligned to 64 bytes, and `part` is below that; nobody else holds the file.
        unsafe {
            let place = self.register(register).add(part);
            *place = if exec == !0 { value.0 } else { V::choose(V(*place), value, V::of_mask(exec, part)).0 };
        }
    }
}

/// Where a source's vectors are: one after the other, or always the same.
#[derive(Clone, Copy)]
struct Source {
    first: *const x86::__m256i,
    step: usize,
}

impl Source {
    /// Source `i`, `half` registers behind its first.
    #[inline(always)]
    fn new(file: File, st: &MicroOp, i: usize, half: u16) -> Source {
        Source::at(file, st.src[i] + half, st.uniform >> i & 1 == 0)
    }

    #[inline(always)]
    fn at(file: File, register: u16, differs: bool) -> Source {
        Source { first: file.register(register), step: usize::from(differs) }
    }

    #[inline(always)]
    fn load(self, part: usize) -> V {
        // SAFETY: `first` is a register of `PARTS` vectors, aligned to 64 bytes, and `part` is below that.
        V(unsafe { *self.first.add(part * self.step) })
    }

    /// Of a source that differs from lane to lane.
    #[inline(always)]
    fn next(self, part: usize) -> V {
        // SAFETY: as above.
        V(unsafe { *self.first.add(part) })
    }
}

/// Whether an operation can be done here.
#[inline(always)]
fn is_plain(w: &Wave, st: &MicroOp, float: bool) -> bool {
    st.imm & flag::MODIFIED == 0 && (!float || w.mode & MODE_MASK == USUAL_MODE)
}

/// Whether all sources are vector registers and all lanes are on, so that an operation is nothing but its vectors: the most
/// frequent case, and in a wave32 most of what an instruction costs otherwise is to find out which case it is.
#[inline(always)]
fn is_straight(w: &Wave, st: &MicroOp) -> bool {
    st.uniform == 0 && w.exec() == if w.lanes == LANES { !0 } else { u64::MAX >> (LANES / 2) }
}

/// Whether it can be where it has modifiers, because these are [signs](flag::SIGNS).
#[inline(always)]
fn has_signs(w: &Wave, st: &MicroOp) -> bool {
    st.imm & flag::SIGNS != 0 && w.mode & MODE_MASK == USUAL_MODE
}

/// What negation and absolute value make of a source.
#[derive(Clone, Copy)]
struct Signs {
    kept: V,
    flipped: V,
}

impl Signs {
    /// Of source `i`, by its bits of the two modifiers.
    #[inline(always)]
    fn new(i: usize, neg: u8, abs: u8) -> Signs {
        let kept = V::splat(if abs >> i & 1 != 0 { u32::MAX >> 1 } else { u32::MAX });
        Signs { kept, flipped: V::splat(u32::from(neg >> i & 1) << 31) }
    }

    #[inline(always)]
    fn apply(self, source: V) -> V {
        V::xor(V::and(source, self.kept), self.flipped)
    }
}

/// An operation on vectors; of the three sources those that it has.
pub(crate) trait Hot: Op {
    /// Eight lanes.
    fn vector(a: V, b: V, c: V) -> V;
}

/// Gives operations their form on vectors.
macro_rules! hot {
    ($($op:ty: |$a:pat_param, $b:pat_param, $c:pat_param| $body:expr;)*) => {
        $(impl $crate::exec::valu::vector::Hot for $op {
            #[inline(always)]
            fn vector($a: V, $b: V, $c: V) -> V {
                $body
            }
        })*
    };
}
pub(crate) use hot;

/// Source `i` of an operation with `count` sources; one that it does not have is never read.
#[inline(always)]
fn source<O: Op>(file: File, st: &MicroOp, i: usize, half: u16) -> Source {
    let count = const { O::S::KINDS.len() };
    if i + 1 == count && O::PROPERTIES & property::ACC != 0 {
        Source::at(file, st.dst[0] + half, true)
    } else {
        Source::new(file, st, if i < count { i } else { 0 }, half)
    }
}

/// The same where all sources are vector registers.
#[inline(always)]
fn straight<O: Op>(file: File, st: &MicroOp, i: usize) -> Source {
    let count = const { O::S::KINDS.len() };
    let is_result = i + 1 == count && O::PROPERTIES & property::ACC != 0;
    Source::at(file, if is_result { st.dst[0] } else { st.src[if i < count { i } else { 0 }] }, true)
}

/// An array of an expression of each part. Written out, because the compiler keeps a closure that holds vector code apart
/// from the function that has the features for it, and then calls each instruction.
macro_rules! parts {
    ($part:ident => $value:expr) => {{
        macro_rules! one {
            ($number:literal) => {{
                let $part = $number;
                $value
            }};
        }
        [one!(0), one!(1), one!(2), one!(3), one!(4), one!(5), one!(6), one!(7)]
    }};
    // Of a wave32's lanes only; the others are off.
    (half $part:ident => $value:expr) => {{
        macro_rules! one {
            ($number:literal) => {{
                let $part = $number;
                $value
            }};
        }
        [one!(0), one!(1), one!(2), one!(3)]
    }};
}

/// A statement for each part of the wave's registers. Two loops of fixed length are unrolled, and keep what is in
/// registers there.
macro_rules! each_part {
    ($part:ident of $parts:expr => $body:block) => {
        for $part in 0..PARTS / 2 $body
        if $parts == PARTS {
            for $part in PARTS / 2..PARTS $body
        }
    };
}

/// Vectors of a register that the wave's lanes are in.
#[inline(always)]
fn parts_of(w: &Wave) -> usize {
    if w.lanes == LANES { PARTS } else { PARTS / 2 }
}

/// The lanes behind a wave's own: what is stored in all of its own needs no mask.
#[inline(always)]
fn off(parts: usize) -> u64 {
    if parts == PARTS { 0 } else { !0 << (WIDTH * parts) }
}

/// A statement with the results of an operation, given as an array of an expression of each part, for the parts that the
/// wave has; gives whether it came to that, which it does not if a result is a NaN that is to be settled. Each number of
/// parts has code of its own.
macro_rules! with_results {
    ($op:ident, $parts:expr, |$part:ident| $value:expr, |$results:ident, $all:ident| $body:block) => {
        if $parts == PARTS {
            let $results = parts!($part => $value);
            let clean = !has_nan::<$op, PARTS>(&$results);
            if clean {
                let $all = !0u64;
                $body
            }
            clean
        } else {
            let $results = parts!(half $part => $value);
            let clean = !has_nan::<$op, { PARTS / 2 }>(&$results);
            if clean {
                let $all = u64::MAX >> (LANES / 2);
                $body
            }
            clean
        }
    };
}

/// Whether one of the results is a NaN that is to be settled.
#[inline(always)]
fn has_nan<O: Hot, const N: usize>(results: &[V; N]) -> bool {
    if O::PROPERTIES & property::NAN == 0 {
        return false;
    }
    let mut nans = V::splat(0);
    for &result in results {
        nans = V::or(nans, V::unordered_f32(result, result));
    }
    nans.top_bits() != 0
}

/// Stores results in the lanes of `exec`; `all` are those that the wave has.
#[inline(always)]
fn put<const N: usize>(file: File, register: u16, results: &[V; N], exec: u64, all: u64) {
    let exec = if exec == all { !0 } else { exec };
    for (part, &result) in results.iter().enumerate() {
        file.store(register, part, result, exec);
    }
}

/// Features that vectors and the loops beside them are compiled for.
macro_rules! with_avx2 {
    ($(#[$attribute:meta])* fn $name:ident<$o:ident: $bound:path>($w:ident, $e:ident, $st:ident) $body:block) => {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        $(#[$attribute])*
        fn $name<$o: $bound>($w: &mut Wave, $e: &mut Env, $st: &MicroOp) -> Flow $body
    };
}

with_avx2! {
    #[inline(never)]
    fn slow_op<O: Op>(w, e, st) { run::<O, Avx2>(w, e, st) }
}
with_avx2! {
    fn fast_op<O: Hot>(w, e, st) {
        if is_straight(w, st) && is_plain(w, st, const { any_float(O::S::KINDS) || O::R::KIND.is_float() }) {
            let file = File::new(w);
            let (a, b, c) = (straight::<O>(file, st, 0), straight::<O>(file, st, 1), straight::<O>(file, st, 2));
            let done = with_results!(O, parts_of(w), |k| O::vector(a.next(k), b.next(k), c.next(k)), |results, all| {
                put(file, st.dst[0], &results, all, all);
            });
            if done {
                return Flow::Next;
            }
        }
        mixed_op::<O>(w, e, st)
    }
}
with_avx2! {
    #[inline(never)]
    fn mixed_op<O: Hot>(w, e, st) {
        if is_plain(w, st, const { any_float(O::S::KINDS) || O::R::KIND.is_float() }) {
            st.spread_short(w);
            let (file, exec) = (File::new(w), w.exec());
            let (a, b, c) = (source::<O>(file, st, 0, 0), source::<O>(file, st, 1, 0), source::<O>(file, st, 2, 0));
            let done = with_results!(O, parts_of(w), |k| O::vector(a.load(k), b.load(k), c.load(k)), |results, all| {
                put(file, st.dst[0], &results, exec, all);
            });
            if done {
                return Flow::Next;
            }
        }
        signed_op::<O>(w, e, st)
    }
}
with_avx2! {
    #[inline(never)]
    fn signed_op<O: Hot>(w, e, st) {
        if const { any_float(O::S::KINDS) } && has_signs(w, st) {
            st.spread_short(w);
            let (file, exec) = (File::new(w), w.exec());
            let signed = Signed::new::<O>(file, st, 0, (st.inst.mods.neg, st.inst.mods.abs));
            let done = with_results!(O, parts_of(w), |k| signed.vector::<O>(k), |results, all| {
                put(file, st.dst[0], &results, exec, all);
            });
            if done {
                return Flow::Next;
            }
        }
        slow_op::<O>(w, e, st)
    }
}

/// Sources with signs.
#[derive(Clone, Copy)]
struct Signed {
    sources: [Source; 3],
    signs: [Signs; 3],
}

impl Signed {
    /// Bit `i` of `half` says which register source `i` is; the bits of the modifiers are for negation and absolute value.
    #[inline(always)]
    fn new<O: Op>(file: File, st: &MicroOp, half: u8, (neg, abs): (u8, u8)) -> Signed {
        let half = [u16::from(half & 1), u16::from(half >> 1 & 1), u16::from(half >> 2 & 1)];
        let a = source::<O>(file, st, 0, half[0]);
        let b = source::<O>(file, st, 1, half[1]);
        let c = source::<O>(file, st, 2, half[2]);
        Signed {
            sources: [a, b, c],
            signs: [Signs::new(0, neg, abs), Signs::new(1, neg, abs), Signs::new(2, neg, abs)],
        }
    }

    /// The operation on a part.
    #[inline(always)]
    fn vector<O: Hot>(&self, part: usize) -> V {
        let [a, b, c] = &self.sources;
        let [x, y, z] = &self.signs;
        O::vector(x.apply(a.load(part)), y.apply(b.load(part)), z.apply(c.load(part)))
    }
}
with_avx2! {
    #[inline(never)]
    fn slow_pairs<O: Op>(w, e, st) { run_pairs::<O, Avx2>(w, e, st) }
}
with_avx2! {
    fn fast_pairs<O: Hot>(w, e, st) {
        if is_plain(w, st, true) {
            st.spread_short(w);
            let (file, exec) = (File::new(w), w.exec());
            let (a, b, c) = (source::<O>(file, st, 0, 0), source::<O>(file, st, 1, 0), source::<O>(file, st, 2, 0));
            let (x, y, z) = (source::<O>(file, st, 0, 1), source::<O>(file, st, 1, 1), source::<O>(file, st, 2, 1));
            // The high results first, and the low ones stored first: they may be sources of the high ones.
            let mut low_done = false;
            let done = with_results!(O, parts_of(w), |k| O::vector(x.load(k), y.load(k), z.load(k)), |high, all| {
                low_done = with_results!(O, parts_of(w), |k| O::vector(a.load(k), b.load(k), c.load(k)), |low, all| {
                    put(file, st.dst[0], &low, exec, all);
                });
                if low_done {
                    put(file, st.dst[0] + 1, &high, exec, all);
                }
            });
            if done && low_done {
                return Flow::Next;
            }
        }
        signed_pairs::<O>(w, e, st)
    }
}
with_avx2! {
    #[inline(never)]
    fn signed_pairs<O: Hot>(w, e, st) {
        if has_signs(w, st) {
            st.spread_short(w);
            let (file, exec) = (File::new(w), w.exec());
            let m = &st.inst.mods;
            // The field of `abs` negates the sources of the high result.
            let low_sources = Signed::new::<O>(file, st, m.op_sel, (m.neg, 0));
            let high_sources = Signed::new::<O>(file, st, m.op_sel_hi, (m.abs, 0));
            let mut low_done = false;
            let done = with_results!(O, parts_of(w), |k| high_sources.vector::<O>(k), |high, all| {
                low_done = with_results!(O, parts_of(w), |k| low_sources.vector::<O>(k), |low, all| {
                    put(file, st.dst[0], &low, exec, all);
                });
                if low_done {
                    put(file, st.dst[0] + 1, &high, exec, all);
                }
            });
            if done && low_done {
                return Flow::Next;
            }
        }
        slow_pairs::<O>(w, e, st)
    }
}

/// The handlers of an operation with a vector form.
pub(crate) fn op_handlers<O: Hot>() -> Handlers {
    Handlers { avx2: fast_op::<O>, avx512: fast_op::<O>, ..op_narrow::<O>() }
}

/// The handlers of an operation on both registers of pairs.
pub(crate) fn pair_handlers<O: Hot<R = f32>>() -> Handlers {
    Handlers { avx2: fast_pairs::<O>, avx512: fast_pairs::<O>, ..pair_narrow::<O>() }
}

/// A comparison on vectors.
pub(crate) trait HotCompare: Compare {
    /// Ones where it holds.
    fn vector(a: V, b: V) -> V;
}

with_avx2! {
    #[inline(never)]
    fn slow_compare<O: Compare>(w, e, st) { run_compare::<O>(w, e, st) }
}
with_avx2! {
    fn fast_compare<O: HotCompare>(w, e, st) {
        if !is_plain(w, st, const { any_float(O::S::KINDS) }) {
            return slow_compare::<O>(w, e, st);
        }
        st.spread_short(w);
        let file = File::new(w);
        let (a, b) = (Source::new(file, st, 0, 0), Source::new(file, st, 1, 0));
        let mut mask = 0;
        each_part!(part of parts_of(w) => {
            mask |= O::vector(a.load(part), b.load(part)).top_bits() << (WIDTH * part);
        });
        end_compare(w, st, w.exec(), mask);
        Flow::Next
    }
}

/// The handlers of a comparison with a vector form.
pub(crate) fn compare_handlers<O: HotCompare>() -> Handlers {
    Handlers { avx2: fast_compare::<O>, avx512: fast_compare::<O>, ..compare_narrow::<O>() }
}

/// What an operation with two registers or masks makes of eight lanes.
pub(crate) struct Outcome {
    /// First and second result register.
    pub(crate) results: [V; 2],
    /// Ones for the lanes of the mask that is written.
    pub(crate) mask: V,
}

/// An operation that reads or writes a mask or a pair of registers, on vectors. Its lanes' sources and results may share
/// registers only lane by lane, so that parts can be stored one after the other.
pub(crate) trait HotWide {
    /// Registers of each source; 0 for none.
    const SOURCES: [u16; 3];
    /// The source that is a mask.
    const MASK: Option<usize> = None;
    /// Whether a mask is written.
    const WRITES_MASK: bool = false;
    /// Registers of the result.
    const RESULTS: usize;
    /// Eight lanes; `mask` is ones where the mask that is read has a bit.
    fn vector(a: [V; 2], b: [V; 2], c: [V; 2], mask: V) -> Outcome;
}

/// The registers of source `i`; one that there is not is never read.
#[inline(always)]
fn pair<O: HotWide>(file: File, st: &MicroOp, i: usize) -> [Source; 2] {
    let registers = O::SOURCES[i];
    let i = if registers == 0 { 0 } else { i };
    [Source::new(file, st, i, 0), Source::new(file, st, i, if registers == 2 { 1 } else { 0 })]
}

/// Runs it.
#[inline(always)]
fn wide<O: HotWide>(w: &mut Wave, st: &MicroOp) {
    // Before anything is spread: a mask may stand where the first scalar does.
    let read = O::MASK.map_or(0, |source| st.s64(w, source));
    st.spread_short(w);
    let (exec, parts) = (w.exec(), parts_of(w));
    let stored = exec | off(parts);
    let file = File::new(w);
    let (a, b, c) = (pair::<O>(file, st, 0), pair::<O>(file, st, 1), pair::<O>(file, st, 2));
    let mut written = 0;
    each_part!(part of parts => {
        let mask = if O::MASK.is_some() { V::of_mask(read, part) } else { V::splat(0) };
        let a = [a[0].load(part), a[1].load(part)];
        let b = [b[0].load(part), b[1].load(part)];
        let outcome = O::vector(a, b, [c[0].load(part), c[1].load(part)], mask);
        for half in 0..O::RESULTS {
            file.store(st.dst[0] + half as u16, part, outcome.results[half], stored);
        }
        if O::WRITES_MASK {
            written |= outcome.mask.top_bits() << (WIDTH * part);
        }
    });
    if O::WRITES_MASK {
        set_mask(w, st, st.dst[1], written & exec);
    }
}

/// A mask operation, and its form on vectors.
pub(crate) trait HotMask: MaskOp + HotWide {}
impl<O: MaskOp + HotWide> HotMask for O {}

with_avx2! {
    #[inline(never)]
    fn slow_mask<O: MaskOp>(w, e, st) { run_mask::<O, Avx2>(w, e, st) }
}
with_avx2! {
    fn fast_mask<O: HotMask>(w, e, st) {
        if !is_plain(w, st, false) {
            return slow_mask::<O>(w, e, st);
        }
        wide::<O>(w, st);
        Flow::Next
    }
}

/// The handlers of a mask operation of integers with a vector form.
pub(crate) fn mask_handlers<O: HotMask>() -> Handlers {
    Handlers { avx2: fast_mask::<O>, avx512: fast_mask::<O>, ..mask_narrow::<O>() }
}

/// An operation on integer pairs, and its form on vectors.
pub(crate) trait HotPair: Op + HotWide {}
impl<O: Op + HotWide> HotPair for O {}

with_avx2! {
    fn fast_wide<O: HotPair>(w, e, st) {
        if !is_plain(w, st, false) {
            return slow_op::<O>(w, e, st);
        }
        wide::<O>(w, st);
        Flow::Next
    }
}

/// The handlers of an operation on integer pairs with a vector form.
pub(crate) fn wide_handlers<O: HotPair>() -> Handlers {
    Handlers { avx2: fast_wide::<O>, avx512: fast_wide::<O>, ..op_narrow::<O>() }
}

/// The 64-bit products of all lanes, low and high halves.
#[inline(always)]
pub(crate) fn multiply(a: V, b: V) -> [V; 2] {
    let even = V::mul_even(a, b);
    let odd = V::mul_even(V::odd_down(a), V::odd_down(b));
    [V::interleave(even, V::even_up(odd)), V::interleave(V::odd_down(even), odd)]
}

/// The sum of 64-bit numbers in halves, and ones where it overflows.
#[inline(always)]
pub(crate) fn add_wide(a: [V; 2], b: [V; 2]) -> ([V; 2], V) {
    let low = V::add(a[0], b[0]);
    let carry = a[0].above(low);
    let high = V::add(a[1], b[1]);
    let over = a[1].above(high);
    // Ones are minus one: subtracting them adds the carry. It overflows where the sum was all ones.
    let sum = V::sub(high, carry);
    let over = V::or(over, V::and(carry, V::equal(sum, V::splat(0))));
    ([low, sum], over)
}
