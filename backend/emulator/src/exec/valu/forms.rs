//! The forms on host vectors of the most frequent operations; see [`vector`](super::vector). Each says what the function
//! of one lane says, eight lanes at a time.

use super::compare::{Equal, Greater, GreaterOrEqual, IsOrdered, Less, LessOrEqual, LessOrGreater};
use super::float32::*;
use super::int32::*;
use super::int64::{LshlAddU64, LshlrevB64, MadU64U32, MovB64};
use super::mask::{AddCo, AddcCo, Cndmask, SubCo, SubbCo};
use super::vector::{HotCompare, HotWide, Outcome, V, add_wide, hot, multiply};

hot! {
    AddF32: |a, b, _| V::add_f32(a, b);
    SubF32: |a, b, _| V::sub_f32(a, b);
    SubrevF32: |a, b, _| V::sub_f32(b, a);
    MulF32: |a, b, _| V::mul_f32(a, b);
    FmaF32: |a, b, c| V::fma_f32(a, b, c);
    FmacF32: |a, b, c| V::fma_f32(a, b, c);
    CvtF32I32: |a, _, _| V::to_f32(a);

    Mov: |a, _, _| a;
    AddU32: |a, b, _| V::add(a, b);
    SubU32: |a, b, _| V::sub(a, b);
    SubrevU32: |a, b, _| V::sub(b, a);
    And: |a, b, _| V::and(a, b);
    Or: |a, b, _| V::or(a, b);
    Xor: |a, b, _| V::xor(a, b);
    Lshlrev: |a, b, _| V::shl(b, a.count());
    Lshrrev: |a, b, _| V::shr(b, a.count());
    Ashrrev: |a, b, _| V::sar(b, a.count());
    MulLo: |a, b, _| V::mul_lo(a, b);
    MulHiU32: |a, b, _| multiply(a, b)[1];
    MulU24: |a, b, _| V::mul_lo(low_24(a), low_24(b));
    MadU24: |a, b, c| V::add(V::mul_lo(low_24(a), low_24(b)), c);
    LshlAdd: |a, b, c| V::add(V::shl(a, b.count()), c);
    AddLshl: |a, b, c| V::shl(V::add(a, b), c.count());
    LshlOr: |a, b, c| V::or(V::shl(a, b.count()), c);
    Add3: |a, b, c| V::add(V::add(a, b), c);
    AndOr: |a, b, c| V::or(V::and(a, b), c);
    Or3: |a, b, c| V::or(V::or(a, b), c);
    BfeU32: |a, b, c| {
        let ones = V::sub(V::shl(V::splat(1), c.count()), V::splat(1));
        V::and(V::shr(a, b.count()), ones)
    };
    Bfi: |a, b, c| V::or(V::and(a, b), V::and_not(c, a));
}

#[inline(always)]
fn low_24(a: V) -> V {
    V::and(a, V::splat(0xff_ffff))
}

/// A type with comparisons on vectors.
pub(crate) trait Comparable: super::compare::Ordered {
    /// Ones where `a < b`.
    fn less(a: V, b: V) -> V;
    /// Ones where `a == b`.
    fn equal(a: V, b: V) -> V;
    /// Ones where `a <= b`.
    fn less_or_equal(a: V, b: V) -> V;
    /// Ones where `a < b` or `a > b`.
    fn less_or_greater(a: V, b: V) -> V;
    /// Ones where there is an order.
    fn ordered(a: V, b: V) -> V;
}

impl Comparable for f32 {
    #[inline(always)]
    fn less(a: V, b: V) -> V {
        V::less_f32(a, b)
    }
    #[inline(always)]
    fn equal(a: V, b: V) -> V {
        V::equal_f32(a, b)
    }
    #[inline(always)]
    fn less_or_equal(a: V, b: V) -> V {
        V::less_or_equal_f32(a, b)
    }
    #[inline(always)]
    fn less_or_greater(a: V, b: V) -> V {
        V::unequal_f32(a, b)
    }
    #[inline(always)]
    fn ordered(a: V, b: V) -> V {
        V::ordered_f32(a, b)
    }
}

macro_rules! integers {
    ($($type:ty, $less:expr;)*) => {
        $(impl Comparable for $type {
            #[inline(always)]
            fn less(a: V, b: V) -> V {
                $less(a, b)
            }
            #[inline(always)]
            fn equal(a: V, b: V) -> V {
                V::equal(a, b)
            }
            #[inline(always)]
            fn less_or_equal(a: V, b: V) -> V {
                V::xor($less(b, a), V::splat(u32::MAX))
            }
            #[inline(always)]
            fn less_or_greater(a: V, b: V) -> V {
                V::xor(V::equal(a, b), V::splat(u32::MAX))
            }
            #[inline(always)]
            fn ordered(_: V, _: V) -> V {
                V::splat(u32::MAX)
            }
        })*
    };
}
integers! {
    i32, |a: V, b: V| V::greater(b, a);
    u32, |a: V, b: V| b.above(a);
}

macro_rules! comparisons {
    ($($name:ident: |$a:ident, $b:ident| $body:expr;)*) => {
        $(impl<T: Comparable> HotCompare for $name<T> {
            #[inline(always)]
            fn vector($a: V, $b: V) -> V {
                $body
            }
        })*
    };
}
comparisons! {
    Less: |a, b| T::less(a, b);
    Equal: |a, b| T::equal(a, b);
    LessOrEqual: |a, b| T::less_or_equal(a, b);
    LessOrGreater: |a, b| T::less_or_greater(a, b);
    IsOrdered: |a, b| T::ordered(a, b);
    Greater: |a, b| T::less(b, a);
    GreaterOrEqual: |a, b| T::less_or_equal(b, a);
}

/// `a + b + carry`, where a carry is ones, and the carry.
#[inline(always)]
fn add(a: V, b: V, carry: V) -> Outcome {
    let sum = V::add(a, b);
    let first = a.above(sum);
    let total = V::sub(sum, carry);
    let second = V::and(carry, V::equal(total, V::splat(0)));
    Outcome { results: [total, total], mask: V::or(first, second) }
}

/// `a - b - borrow`, where a borrow is ones, and the borrow.
#[inline(always)]
fn sub(a: V, b: V, borrow: V) -> Outcome {
    let difference = V::sub(a, b);
    let first = b.above(a);
    let total = V::add(difference, borrow);
    let second = V::and(borrow, V::equal(difference, V::splat(0)));
    Outcome { results: [total, total], mask: V::or(first, second) }
}

macro_rules! carries {
    ($($name:ident $mask:expr, |$a:ident, $b:ident, $m:pat_param| $body:expr;)*) => {
        $(impl HotWide for $name {
            const SOURCES: [u16; 3] = [1, 1, 0];
            const MASK: Option<usize> = $mask;
            const WRITES_MASK: bool = true;
            const RESULTS: usize = 1;
            #[inline(always)]
            fn vector([$a, _]: [V; 2], [$b, _]: [V; 2], _: [V; 2], $m: V) -> Outcome {
                $body
            }
        })*
    };
}
carries! {
    AddCo None, |a, b, _| add(a, b, V::splat(0));
    SubCo None, |a, b, _| sub(a, b, V::splat(0));
    AddcCo Some(2), |a, b, m| add(a, b, m);
    SubbCo Some(2), |a, b, m| sub(a, b, m);
}

impl HotWide for Cndmask {
    const SOURCES: [u16; 3] = [1, 1, 0];
    const MASK: Option<usize> = Some(2);
    const RESULTS: usize = 1;
    #[inline(always)]
    fn vector([a, _]: [V; 2], [b, _]: [V; 2], _: [V; 2], mask: V) -> Outcome {
        let chosen = V::choose(a, b, mask);
        Outcome { results: [chosen, chosen], mask }
    }
}

impl HotWide for MadU64U32 {
    const SOURCES: [u16; 3] = [1, 1, 2];
    const WRITES_MASK: bool = true;
    const RESULTS: usize = 2;
    #[inline(always)]
    fn vector([a, _]: [V; 2], [b, _]: [V; 2], c: [V; 2], _: V) -> Outcome {
        let (results, mask) = add_wide(multiply(a, b), c);
        Outcome { results, mask }
    }
}

macro_rules! pairs {
    ($($name:ident $sources:expr, |$a:pat_param, $b:pat_param, $c:pat_param| $body:expr;)*) => {
        $(impl HotWide for $name {
            const SOURCES: [u16; 3] = $sources;
            const RESULTS: usize = 2;
            #[inline(always)]
            fn vector($a: [V; 2], $b: [V; 2], $c: [V; 2], mask: V) -> Outcome {
                Outcome { results: $body, mask }
            }
        })*
    };
}
pairs! {
    MovB64 [2, 0, 0], |a, _, _| a;
    LshlAddU64 [2, 1, 2], |a, [b, _], c| add_wide(shift_left(a, V::and(b, V::splat(7))), c).0;
    LshlrevB64 [1, 2, 0], |[a, _], b, _| shift_left(b, V::and(a, V::splat(63)));
}

/// A 64-bit number in halves, shifted by less than 64. Host shifts by 32 and more, and by counts below zero, give zero.
#[inline(always)]
fn shift_left([low, high]: [V; 2], count: V) -> [V; 2] {
    let word = V::splat(32);
    let across = V::or(V::shr(low, V::sub(word, count)), V::shl(low, V::sub(count, word)));
    [V::shl(low, count), V::or(V::shl(high, count), across)]
}
