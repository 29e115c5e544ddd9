//! The operators of the IR: which there are, how each is spelled, and which dtypes it takes.
//!
//! One table per enum. The printer and the parser read the names, the verifier reads the dtype classes, tests walk `ALL`.
//! What an operator computes is described here in words, and in `render` in device code. An operator that equals a
//! composition of others bit for bit (relu is a maximum with zero) is not one of them.

use rocfire_hal::DType;

/// Defines an operator enum with its spelling and its list of members.
macro_rules! operators {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every member, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The spelling in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// The member spelled `text`, if there is one.
            pub fn named(text: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|op| op.name() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

operators! {
    /// An operator that follows indices. Reports of an index outside its axis name it.
    IndexOp {
        /// It reads elements, each by an index.
        Gather = "gather",
        /// It reads slices, each by an index, as an embedding does.
        Select = "select",
        /// The same by Candle's name.
        IndexSelect = "index_select",
        /// It writes elements, each to an index.
        Scatter = "scatter",
        /// It reads slices, each by a tuple of indices.
        GatherNd = "gather_nd",
        /// It writes slices, each to a tuple of indices.
        ScatterNd = "scatter_nd",
        /// A loss, whose indices are class numbers.
        CrossEntropy = "cross_entropy",
        /// The gradient of such a loss.
        CrossEntropyBackward = "cross_entropy_backward",
    }
}

operators! {
    /// An operator of one value. The result has the operand's dtype, except that `is_nan` and `is_inf` give `bool`.
    Unary {
        /// `-x`; integers wrap.
        Neg = "neg",
        /// `|x|`; the least integer stays itself.
        Abs = "abs",
        /// `-1`, `0` or `1` with the sign of `x`; NaN and either zero give `+0`, as in Burn.
        Sign = "sign",
        /// `e^x`.
        Exp = "exp",
        /// `e^x` in f32 with a relative error of at most 2⁻¹⁶, by the device's own power of two, for values that are rounded to 16 bits
        /// before they are stored. [`Unary::Exp`] in every other type.
        ExpNear = "exp_near",
        /// `e^x` in f32 for an `x` of at most 0, for terms of a sum of which one is 1. The error is at most 4 units in the last place, at
        /// most 2 for results above e⁻¹²; results below 2⁻¹²⁶ are 0. [`Unary::Exp`] in every other type.
        ExpBelow = "exp_below",
        /// `1 / x` in f32 with a relative error of at most 2⁻²¹, for values that are rounded to 16 bits before they are stored.
        /// [`Unary::Recip`] in every other type.
        RecipNear = "recip_near",
        /// Natural logarithm.
        Log = "log",
        /// `log(1 + x)`, precise for small `x` too.
        Log1p = "log1p",
        /// Square root, correctly rounded.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`, rounded once and not after each of its two steps.
        Rsqrt = "rsqrt",
        /// `1 / x`, correctly rounded.
        Recip = "recip",
        /// Sine of radians.
        Sin = "sin",
        /// Cosine of radians.
        Cos = "cos",
        /// Tangent of radians.
        Tan = "tan",
        /// Hyperbolic sine.
        Sinh = "sinh",
        /// Hyperbolic cosine.
        Cosh = "cosh",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Arc sine.
        Asin = "asin",
        /// Arc cosine.
        Acos = "acos",
        /// Arc tangent.
        Atan = "atan",
        /// Inverse hyperbolic sine.
        Asinh = "asinh",
        /// Inverse hyperbolic cosine.
        Acosh = "acosh",
        /// Inverse hyperbolic tangent.
        Atanh = "atanh",
        /// The error function.
        Erf = "erf",
        /// Largest integer not above `x`.
        Floor = "floor",
        /// Smallest integer not below `x`.
        Ceil = "ceil",
        /// Nearest integer, ties to the even one.
        Round = "round",
        /// `x` without its fraction.
        Trunc = "trunc",
        /// Logical not of a bool, every bit of an integer flipped.
        Not = "not",
        /// Whether `x` is a NaN.
        IsNan = "is_nan",
        /// Whether `x` is an infinity.
        IsInf = "is_inf",
    }
}

operators! {
    /// An operator of two values of one dtype, which is also the result's.
    Binary {
        /// `a + b`; integers wrap.
        Add = "add",
        /// `a - b`; integers wrap.
        Sub = "sub",
        /// `a * b`; integers wrap.
        Mul = "mul",
        /// `a / b`. Integers truncate towards zero; a zero divisor gives 0, the least integer over -1 gives itself.
        Div = "div",
        /// Remainder with the sign of the divisor (`a - floor(a / b) * b`); an integer by zero gives 0.
        Rem = "rem",
        /// `a` to the power `b`. Integers wrap; with a negative exponent the quotient is truncated.
        Pow = "pow",
        /// The smaller; NaN if either is.
        Min = "min",
        /// The larger; NaN if either is.
        Max = "max",
        /// The angle of the point `(b, a)`, that is `atan2(a, b)`.
        Atan2 = "atan2",
        /// `sqrt(a² + b²)` without overflow on the way.
        Hypot = "hypot",
        /// The magnitude of `a` with the sign of `b`, of a zero or a NaN too.
        CopySign = "copysign",
        /// And: of bools, or bit by bit of integers.
        And = "and",
        /// Or: of bools, or bit by bit of integers.
        Or = "or",
        /// Exclusive or: of bools, or bit by bit of integers.
        Xor = "xor",
        /// `a << b`; the count is taken modulo the width.
        Shl = "shl",
        /// `a >> b`, arithmetic for signed integers; the count is taken modulo the width.
        Shr = "shr",
    }
}

operators! {
    /// A comparison of two values of one dtype; the result is `bool`. With a NaN all but `ne` are false.
    Compare {
        /// `a == b`.
        Eq = "eq",
        /// `a != b`.
        Ne = "ne",
        /// `a < b`.
        Lt = "lt",
        /// `a <= b`.
        Le = "le",
        /// `a > b`.
        Gt = "gt",
        /// `a >= b`.
        Ge = "ge",
    }
}

operators! {
    /// A reduction over the last axis of the iteration space.
    ///
    /// f16, bf16 and f32 accumulate in f32, f64 in f64, integers in 64 bits; the result is rounded once, to the operand's dtype.
    /// The order of the operations depends on the extent alone: see `order.rs`.
    Reduce {
        /// The sum; 0 for no elements.
        Sum = "sum",
        /// The sum divided by the extent; an integer mean truncates. For no elements NaN, for integers 0.
        Mean = "mean",
        /// The largest element, NaN if there is one; the dtype's least value for no elements.
        Max = "max",
        /// The smallest element, NaN if there is one; the dtype's largest value for no elements.
        Min = "min",
        /// The product; 1 for no elements.
        Prod = "prod",
        /// Whether any element is true (bool); false for no elements.
        Any = "any",
        /// Whether all elements are true (bool); true for no elements.
        All = "all",
    }
}

/// Which dtypes an operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Float,
    Numeric,
    Logical,
    Integer,
    Bool,
    Any,
}

impl Class {
    pub(crate) fn takes(self, dtype: DType) -> bool {
        let bool = dtype == DType::Bool;
        match self {
            Class::Float => dtype.is_float(),
            Class::Numeric => !bool,
            Class::Logical => !dtype.is_float(),
            Class::Integer => !dtype.is_float() && !bool,
            Class::Bool => bool,
            Class::Any => true,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Class::Float => "a float",
            Class::Numeric => "a float or an integer",
            Class::Logical => "an integer or bool",
            Class::Integer => "an integer",
            Class::Bool => "bool",
            Class::Any => "any dtype",
        }
    }
}

impl Unary {
    /// The dtype of the result for an operand of `operand`.
    pub fn result(self, operand: DType) -> DType {
        if matches!(self, Unary::IsNan | Unary::IsInf) { DType::Bool } else { operand }
    }

    pub(crate) fn class(self) -> Class {
        use Unary::*;
        match self {
            Neg | Abs | Sign => Class::Numeric,
            Not => Class::Logical,
            Exp | ExpNear | ExpBelow | RecipNear | Recip | Floor | Ceil | Round | Trunc | IsNan | IsInf => Class::Float,
            op => {
                debug_assert!(op.rounds(), "{op} takes no dtype");
                Class::Float
            }
        }
    }

    /// Whether it is rendered as the prelude's function of the same name, whose result is rounded to the dtype.
    pub(crate) fn rounds(self) -> bool {
        use Unary::*;
        match self {
            Log | Log1p | Sqrt | Rsqrt | Sin | Cos | Tan | Sinh | Cosh | Tanh | Asin | Acos | Atan | Asinh | Acosh
            | Atanh | Erf => true,
            Neg | Abs | Sign | Not | Recip | RecipNear | Floor | Ceil | Round | Trunc | IsNan | IsInf | Exp
            | ExpNear | ExpBelow => false,
        }
    }
}

impl Binary {
    pub(crate) fn class(self) -> Class {
        use Binary::*;
        match self {
            Add | Sub | Mul | Div | Rem | Pow | Min | Max => Class::Numeric,
            Atan2 | Hypot | CopySign => Class::Float,
            And | Or | Xor => Class::Logical,
            Shl | Shr => Class::Integer,
        }
    }
}

impl Compare {
    /// Bools can be compared for equality, but have no order.
    pub(crate) fn class(self) -> Class {
        match self {
            Compare::Eq | Compare::Ne => Class::Any,
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge => Class::Numeric,
        }
    }
}

impl Reduce {
    pub(crate) fn class(self) -> Class {
        match self {
            Reduce::Sum | Reduce::Mean | Reduce::Max | Reduce::Min | Reduce::Prod => Class::Numeric,
            Reduce::Any | Reduce::All => Class::Bool,
        }
    }
}
