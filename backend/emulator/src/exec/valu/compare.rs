//! Comparisons: `v_cmp_*` writes a lane mask, `v_cmpx_*` also EXEC. Lanes that are switched off compare as false.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::driver::{Choice, Compare};
use super::modifiers::flag;
use super::word::{Half, Word};
use crate::numeric::{class_f16, class_f32, class_f64, f16_to_f32};
use rocfire_isa::{Inst, Op};

/// A value with an order.
pub(crate) trait Ordered: Word + 'static {
    /// The order, `None` with a NaN.
    fn order(self, other: Self) -> Option<Ordering>;
}

macro_rules! ordered {
    ($($type:ty)*) => {
        $(impl Ordered for $type {
            #[inline(always)]
            fn order(self, other: Self) -> Option<Ordering> {
                self.partial_cmp(&other)
            }
        })*
    };
}
ordered!(f32 f64 i16 u16 i32 u32 i64 u64);

impl Ordered for Half {
    #[inline(always)]
    fn order(self, other: Self) -> Option<Ordering> {
        f16_to_f32(self.0).partial_cmp(&f16_to_f32(other.0))
    }
}

/// `S0 < S1`
pub(super) struct Less<T>(PhantomData<T>);
/// `S0 == S1`
pub(super) struct Equal<T>(PhantomData<T>);
/// `S0 <= S1`
pub(super) struct LessOrEqual<T>(PhantomData<T>);
/// Neither is NaN, and `S0 != S1`.
pub(super) struct LessOrGreater<T>(PhantomData<T>);
/// Neither is NaN.
pub(super) struct IsOrdered<T>(PhantomData<T>);

macro_rules! compare {
    ($($name:ident |$order:ident| $body:expr;)*) => {
        $(impl<T: Ordered> Compare for $name<T> {
            type S = (T, T);
            #[inline(always)]
            fn lane((a, b): (T, T)) -> bool {
                let $order = a.order(b);
                $body
            }
        })*
    };
}
compare! {
    Less |order| order == Some(Ordering::Less);
    Equal |order| order == Some(Ordering::Equal);
    LessOrEqual |order| matches!(order, Some(Ordering::Less | Ordering::Equal));
    LessOrGreater |order| matches!(order, Some(Ordering::Less | Ordering::Greater));
    IsOrdered |order| order.is_some();
}

/// `S0 > S1`
pub(super) struct Greater<T>(PhantomData<T>);
/// `S0 >= S1`
pub(super) struct GreaterOrEqual<T>(PhantomData<T>);

macro_rules! swapped {
    ($($name:ident $other:ident;)*) => {
        $(impl<T: Ordered> Compare for $name<T> {
            type S = (T, T);
            #[inline(always)]
            fn lane((a, b): (T, T)) -> bool {
                <$other<T> as Compare>::lane((b, a))
            }
        })*
    };
}
swapped! {
    Greater Less;
    GreaterOrEqual LessOrEqual;
}

/// `D = S1 has the bit of S0's class`
struct ClassF32;
impl Compare for ClassF32 {
    type S = (u32, u32);
    #[inline(always)]
    fn lane((a, mask): Self::S) -> bool {
        class_f32(a) & mask != 0
    }
}

/// `D = S1 has the bit of S0's class`
struct ClassF64;
impl Compare for ClassF64 {
    type S = (u64, u32);
    #[inline(always)]
    fn lane((a, mask): Self::S) -> bool {
        class_f64(a) & mask != 0
    }
}

/// `D = S1 has the bit of S0's class`
struct ClassF16;
impl Compare for ClassF16 {
    type S = (u16, u16);
    #[inline(always)]
    fn lane((a, mask): Self::S) -> bool {
        class_f16(a) & u32::from(mask) != 0
    }
}

/// The choice for every type and condition of a table: the comparison to make, and the flags for its result.
macro_rules! comparisons {
    ($op:expr, $($compare:ident $type:ty { $($variant:ident $x:ident $comparison:ident $flags:expr;)* })*) => {
        match $op {
            $($(
                Op::$variant => Choice::$compare::<$comparison<$type>>($flags),
                Op::$x => Choice::$compare::<$comparison<$type>>($flags | flag::EXEC),
            )*)*
            Op::VCmpClassF32 => Choice::compare::<ClassF32>(0),
            Op::VCmpxClassF32 => Choice::compare::<ClassF32>(flag::EXEC),
            Op::VCmpClassF64 => Choice::compare::<ClassF64>(0),
            Op::VCmpxClassF64 => Choice::compare::<ClassF64>(flag::EXEC),
            Op::VCmpClassF16 => Choice::compare::<ClassF16>(0),
            Op::VCmpxClassF16 => Choice::compare::<ClassF16>(flag::EXEC),
            _ => return None,
        }
    };
}

/// The operation of a comparison. A NaN makes the negated ones of floats true.
pub(crate) fn choose(inst: &Inst) -> Option<Choice> {
    Some(comparisons!(inst.op,
        hot_compare f32 {
            VCmpFF32 VCmpxFF32 IsOrdered flag::NEVER;
            VCmpLtF32 VCmpxLtF32 Less 0;
            VCmpEqF32 VCmpxEqF32 Equal 0;
            VCmpLeF32 VCmpxLeF32 LessOrEqual 0;
            VCmpGtF32 VCmpxGtF32 Greater 0;
            VCmpLgF32 VCmpxLgF32 LessOrGreater 0;
            VCmpGeF32 VCmpxGeF32 GreaterOrEqual 0;
            VCmpOF32 VCmpxOF32 IsOrdered 0;
            VCmpUF32 VCmpxUF32 IsOrdered flag::NOT;
            VCmpNgeF32 VCmpxNgeF32 GreaterOrEqual flag::NOT;
            VCmpNlgF32 VCmpxNlgF32 LessOrGreater flag::NOT;
            VCmpNgtF32 VCmpxNgtF32 Greater flag::NOT;
            VCmpNleF32 VCmpxNleF32 LessOrEqual flag::NOT;
            VCmpNeqF32 VCmpxNeqF32 Equal flag::NOT;
            VCmpNltF32 VCmpxNltF32 Less flag::NOT;
            VCmpTruF32 VCmpxTruF32 IsOrdered flag::NEVER | flag::NOT;
        }
        hot_compare i32 {
            VCmpFI32 VCmpxFI32 Equal flag::NEVER;
            VCmpLtI32 VCmpxLtI32 Less 0;
            VCmpEqI32 VCmpxEqI32 Equal 0;
            VCmpLeI32 VCmpxLeI32 Greater flag::NOT;
            VCmpGtI32 VCmpxGtI32 Greater 0;
            VCmpNeI32 VCmpxNeI32 Equal flag::NOT;
            VCmpGeI32 VCmpxGeI32 Less flag::NOT;
            VCmpTI32 VCmpxTI32 Equal flag::NEVER | flag::NOT;
        }
        hot_compare u32 {
            VCmpFU32 VCmpxFU32 Equal flag::NEVER;
            VCmpLtU32 VCmpxLtU32 Less 0;
            VCmpEqU32 VCmpxEqU32 Equal 0;
            VCmpLeU32 VCmpxLeU32 Greater flag::NOT;
            VCmpGtU32 VCmpxGtU32 Greater 0;
            VCmpNeU32 VCmpxNeU32 Equal flag::NOT;
            VCmpGeU32 VCmpxGeU32 Less flag::NOT;
            VCmpTU32 VCmpxTU32 Equal flag::NEVER | flag::NOT;
        }
        compare Half {
            VCmpFF16 VCmpxFF16 IsOrdered flag::NEVER;
            VCmpLtF16 VCmpxLtF16 Less 0;
            VCmpEqF16 VCmpxEqF16 Equal 0;
            VCmpLeF16 VCmpxLeF16 LessOrEqual 0;
            VCmpGtF16 VCmpxGtF16 Greater 0;
            VCmpLgF16 VCmpxLgF16 LessOrGreater 0;
            VCmpGeF16 VCmpxGeF16 GreaterOrEqual 0;
            VCmpOF16 VCmpxOF16 IsOrdered 0;
            VCmpUF16 VCmpxUF16 IsOrdered flag::NOT;
            VCmpNgeF16 VCmpxNgeF16 GreaterOrEqual flag::NOT;
            VCmpNlgF16 VCmpxNlgF16 LessOrGreater flag::NOT;
            VCmpNgtF16 VCmpxNgtF16 Greater flag::NOT;
            VCmpNleF16 VCmpxNleF16 LessOrEqual flag::NOT;
            VCmpNeqF16 VCmpxNeqF16 Equal flag::NOT;
            VCmpNltF16 VCmpxNltF16 Less flag::NOT;
            VCmpTruF16 VCmpxTruF16 IsOrdered flag::NEVER | flag::NOT;
        }
        compare f64 {
            VCmpFF64 VCmpxFF64 IsOrdered flag::NEVER;
            VCmpLtF64 VCmpxLtF64 Less 0;
            VCmpEqF64 VCmpxEqF64 Equal 0;
            VCmpLeF64 VCmpxLeF64 LessOrEqual 0;
            VCmpGtF64 VCmpxGtF64 Greater 0;
            VCmpLgF64 VCmpxLgF64 LessOrGreater 0;
            VCmpGeF64 VCmpxGeF64 GreaterOrEqual 0;
            VCmpOF64 VCmpxOF64 IsOrdered 0;
            VCmpUF64 VCmpxUF64 IsOrdered flag::NOT;
            VCmpNgeF64 VCmpxNgeF64 GreaterOrEqual flag::NOT;
            VCmpNlgF64 VCmpxNlgF64 LessOrGreater flag::NOT;
            VCmpNgtF64 VCmpxNgtF64 Greater flag::NOT;
            VCmpNleF64 VCmpxNleF64 LessOrEqual flag::NOT;
            VCmpNeqF64 VCmpxNeqF64 Equal flag::NOT;
            VCmpNltF64 VCmpxNltF64 Less flag::NOT;
            VCmpTruF64 VCmpxTruF64 IsOrdered flag::NEVER | flag::NOT;
        }
        compare i16 {
            VCmpFI16 VCmpxFI16 Equal flag::NEVER;
            VCmpLtI16 VCmpxLtI16 Less 0;
            VCmpEqI16 VCmpxEqI16 Equal 0;
            VCmpLeI16 VCmpxLeI16 Greater flag::NOT;
            VCmpGtI16 VCmpxGtI16 Greater 0;
            VCmpNeI16 VCmpxNeI16 Equal flag::NOT;
            VCmpGeI16 VCmpxGeI16 Less flag::NOT;
            VCmpTI16 VCmpxTI16 Equal flag::NEVER | flag::NOT;
        }
        compare u16 {
            VCmpFU16 VCmpxFU16 Equal flag::NEVER;
            VCmpLtU16 VCmpxLtU16 Less 0;
            VCmpEqU16 VCmpxEqU16 Equal 0;
            VCmpLeU16 VCmpxLeU16 Greater flag::NOT;
            VCmpGtU16 VCmpxGtU16 Greater 0;
            VCmpNeU16 VCmpxNeU16 Equal flag::NOT;
            VCmpGeU16 VCmpxGeU16 Less flag::NOT;
            VCmpTU16 VCmpxTU16 Equal flag::NEVER | flag::NOT;
        }
        compare i64 {
            VCmpFI64 VCmpxFI64 Equal flag::NEVER;
            VCmpLtI64 VCmpxLtI64 Less 0;
            VCmpEqI64 VCmpxEqI64 Equal 0;
            VCmpLeI64 VCmpxLeI64 Greater flag::NOT;
            VCmpGtI64 VCmpxGtI64 Greater 0;
            VCmpNeI64 VCmpxNeI64 Equal flag::NOT;
            VCmpGeI64 VCmpxGeI64 Less flag::NOT;
            VCmpTI64 VCmpxTI64 Equal flag::NEVER | flag::NOT;
        }
        compare u64 {
            VCmpFU64 VCmpxFU64 Equal flag::NEVER;
            VCmpLtU64 VCmpxLtU64 Less 0;
            VCmpEqU64 VCmpxEqU64 Equal 0;
            VCmpLeU64 VCmpxLeU64 Greater flag::NOT;
            VCmpGtU64 VCmpxGtU64 Greater 0;
            VCmpNeU64 VCmpxNeU64 Equal flag::NOT;
            VCmpGeU64 VCmpxGeU64 Less flag::NOT;
            VCmpTU64 VCmpxTU64 Equal flag::NEVER | flag::NOT;
        }
    ))
}
