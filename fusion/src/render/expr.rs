//! Renders expressions: what one node computes, in device code, from the text of its operands.
//!
//! Values in registers are as `fuse.h` has them: a 16-bit float is a `float` of the same value, a bool a `bool`. A result that may not be
//! a value of the dtype is rounded to one by `fuse::fit`.

use rocfire_hal::DType;

use crate::graph::{Graph, Kind, Node, Value};
use crate::op::{Binary, Compare, IndexOp, Reduce, Unary};

/// The prelude's name for the type of an element in memory.
pub const fn storage(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::F16 => "rf::f16",
        DType::BF16 => "rf::bf16",
        DType::I64 => "rf::i64",
        DType::I32 => "rf::i32",
        DType::I16 => "rf::i16",
        DType::I8 => "rf::i8",
        DType::U64 => "rf::u64",
        DType::U32 => "rf::u32",
        DType::U16 => "rf::u16",
        DType::U8 => "rf::u8",
        DType::Bool => "rf::bool8",
    }
}

/// The type of a value in a register.
pub(crate) fn register(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 | DType::BF16 => "float",
        DType::Bool => "bool",
        _ => storage(dtype),
    }
}

/// Defines the function that [`Node::Draw`] calls. It gives the same word for an element as `random.hip`.
pub(crate) const DRAW: &str = "RF_FN rf::u32 draw(rf::u64 seed, rf::u64 offset, rf::u64 replay, rf::i64 index) {
    const rf::u64 at = replay ? offset + *(const rf::u64*)replay : offset;
    const rf::Philox block = rf::philox((rf::u64)index >> 2, at, seed);
    const rf::u32 low = index & 1 ? block.word[1] : block.word[0], high = index & 1 ? block.word[3] : block.word[2];
    return index & 2 ? high : low;
}
";

/// Defines the function that [`check`] calls. It returns the index, and reports one outside its axis.
pub(crate) const CHECK: &str = "RF_CHECKS_INDICES
template <rf::u64 A, rf::u64 B, rf::u64 C> RF_FN rf::i64 check_index(rf::i64 index, rf::i64 extent, bool there) {
    if (there && (rf::u64)index >= (rf::u64)extent) rf::tell_index<A, B, C>(rf_index_record, index, extent);
    return index;
}
";

/// Whether a node calls the function that [`BELOW`] defines.
pub(crate) fn is_below(node: Node, dtype: DType) -> bool {
    dtype == DType::F32 && matches!(node, Node::Unary(Unary::ExpBelow, _))
}

/// Defines [`Unary::ExpBelow`] for floats. The device's own power of two takes h = x log2(e), rounded. What the rounding left out is
/// r = x - h ln 2, which is below 2^-17, so that e^r is 1 + r. As ln 2 is rounded too, r is off by h 2^-29, which is 2 units in the last
/// place at the far end. The bound keeps h finite; the result for anything below it is zero.
pub(crate) const BELOW: &str = "RF_FN float exp_below(float x) {
    const float above = rf::max_of_either_zero(x, -105.0f);
    const float h = above * 0x1.715476p+0f;
    const float r = rf::fma(h, -0x1.62e430p-1f, above);
    const float power = rf::exp2_fast(h);
    return rf::fma(power, r, power);
}
";

/// Whether two values of a dtype lie in one register where they are kept.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The functor of a reduction in `reductions.h`.
pub(crate) fn reduction(op: Reduce, dtype: DType) -> String {
    let name = match op {
        Reduce::Sum => "SumOf",
        Reduce::Mean => "MeanOf",
        Reduce::Max => "MaxOf",
        Reduce::Min => "MinOf",
        Reduce::Prod => "ProdOf",
        Reduce::Any => "AnyOf",
        Reduce::All => "AllOf",
    };
    format!("fuse::{name}<{}>", storage(dtype))
}

/// The expression of an operator node. `name` gives the text of an operand, `kinds` the kind of each node.
///
/// # Panics
/// For inputs, indices and reductions: they are no expressions of their operands, and schedules render them.
pub(crate) fn expression(graph: &Graph, kinds: &[Kind], value: Value, name: impl Fn(Value) -> String) -> String {
    let (node, dtype) = graph.nodes[value.at()];
    match node {
        Node::Scalar(slot) => format!("fuse::from_bits<{}>(a.scalar[{slot}])", storage(dtype)),
        Node::Constant(bits) => format!("fuse::from_bits<{}>({bits:#x}ull)", storage(dtype)),
        Node::Unary(op, a) => unary(op, graph.dtype(a), &name(a)),
        Node::Binary(Binary::Div, a, b)
            if dtype.is_float() && kinds[a.at()] == Kind::Full && kinds[b.at()] < Kind::Full =>
        {
            format!("fuse::Number<{}>::div_by({}, {})", storage(dtype), name(a), name(b))
        }
        Node::Binary(op, a, b) => binary(op, dtype, &name(a), &name(b)),
        Node::Compare(op, a, b) => format!("({} {} {})", name(a), comparison(op), name(b)),
        Node::Select(c, a, b) => format!("({} ? {} : {})", name(c), name(a), name(b)),
        Node::Cast(a) => format!("fuse::convert<{}>({})", storage(dtype), name(a)),
        Node::Check(op, index, extent) => check(op, &name(index), &name(extent), "true"),
        Node::Draw([seed, offset, replay, index]) => {
            format!("draw({}, {}, {}, {})", name(seed), name(offset), name(replay), name(index))
        }
        Node::Input(_)
        | Node::RowInput(_)
        | Node::Lookup(..)
        | Node::RowLookup(..)
        | Node::Index(_)
        | Node::Reduce(..) => {
            unreachable!("{node:?} is placed by its schedule")
        }
    }
}

/// The expression of a checked index. It is reported if it is outside `extent` and the expression `there` holds.
pub(crate) fn check(op: IndexOp, index: &str, extent: &str, there: &str) -> String {
    format!("check_index<RF_LETTERS(\"{op}\")>({index}, {extent}, {there})")
}

/// The expression of a 16-bit float before it is rounded to 16 bits; `None` if its expression does not end with that rounding.
pub(crate) fn unrounded(graph: &Graph, kinds: &[Kind], value: Value, name: impl Fn(Value) -> String) -> Option<String> {
    let (node, dtype) = graph.nodes[value.at()];
    if !is_half(dtype) {
        return None;
    }
    let s = storage(dtype);
    match node {
        Node::Unary(Unary::Recip | Unary::RecipNear, a) => Some(format!("fuse::Quotient<{s}>::inverse({})", name(a))),
        Node::Unary(Unary::Exp | Unary::ExpNear | Unary::ExpBelow, a) => {
            Some(format!("fuse::Function<{s}>::exp({})", name(a)))
        }
        Node::Unary(op, a) if op.rounds() => Some(format!("rf::{}({})", op.name(), name(a))),
        Node::Binary(Binary::Div, a, b) => {
            let shared = kinds[a.at()] == Kind::Full && kinds[b.at()] < Kind::Full;
            let of = if shared { "by" } else { "of" };
            Some(format!("fuse::Quotient<{s}>::{of}({}, {})", name(a), name(b)))
        }
        Node::Binary(op @ (Binary::Pow | Binary::Atan2 | Binary::Hypot), a, b) => {
            Some(format!("rf::{op}({}, {})", name(a), name(b)))
        }
        Node::Cast(a) if register(graph.dtype(a)) == "float" => Some(name(a)),
        _ => None,
    }
}

/// Whether a node takes many registers while it is computed, as a function with a polynomial of its own and several ranges does.
pub(crate) fn is_heavy(node: Node) -> bool {
    match node {
        Node::Unary(op, _) => op.rounds() && !matches!(op, Unary::Log | Unary::Sqrt | Unary::Rsqrt),
        Node::Binary(op, ..) => matches!(op, Binary::Pow | Binary::Atan2 | Binary::Hypot),
        Node::Draw(_) => true,
        Node::Input(_)
        | Node::RowInput(_)
        | Node::Lookup(..)
        | Node::RowLookup(..)
        | Node::Scalar(_)
        | Node::Constant(_)
        | Node::Index(_)
        | Node::Check(..)
        | Node::Compare(..)
        | Node::Select(..)
        | Node::Cast(_)
        | Node::Reduce(..) => false,
    }
}

fn unary(op: Unary, dtype: DType, a: &str) -> String {
    let s = storage(dtype);
    let rounded = |function: &str| format!("fuse::fit<{s}>(rf::{function}({a}))");
    // An integer between values of a float dtype is a value of that dtype, so there is nothing to round.
    let exact = |function: &str| format!("rf::{function}({a})");
    match op {
        Unary::Neg => format!("fuse::Number<{s}>::neg({a})"),
        Unary::Abs => format!("fuse::Number<{s}>::abs({a})"),
        Unary::Sign => format!("fuse::Number<{s}>::sign({a})"),
        Unary::Not => format!("fuse::Number<{s}>::bits_not({a})"),
        Unary::ExpNear if dtype == DType::F32 => format!("fuse::HalfFunction::exp({a})"),
        Unary::RecipNear if dtype == DType::F32 => format!("fuse::Quotient<rf::bf16>::inverse({a})"),
        Unary::Recip | Unary::RecipNear => format!("fuse::Number<{s}>::inverse({a})"),
        Unary::Floor => exact("floor"),
        Unary::Ceil => exact("ceil"),
        Unary::Round => exact("round_even"),
        Unary::Trunc => exact("trunc"),
        Unary::IsNan => exact("is_nan"),
        Unary::IsInf => exact("is_inf"),
        Unary::ExpBelow if dtype == DType::F32 => format!("exp_below({a})"),
        Unary::Exp | Unary::ExpNear | Unary::ExpBelow => format!("fuse::fit<{s}>(fuse::Function<{s}>::exp({a}))"),
        op => {
            debug_assert!(op.rounds(), "{op:?} has no text");
            rounded(op.name())
        }
    }
}

fn binary(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    let s = storage(dtype);
    match op {
        Binary::Min | Binary::Max | Binary::CopySign => format!("rf::{op}({a}, {b})"),
        Binary::Atan2 | Binary::Hypot => format!("fuse::fit<{s}>(rf::{op}({a}, {b}))"),
        Binary::And | Binary::Or | Binary::Xor => format!("fuse::Number<{s}>::bits_{op}({a}, {b})"),
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::Pow
        | Binary::Shl
        | Binary::Shr => {
            format!("fuse::Number<{s}>::{op}({a}, {b})")
        }
    }
}

fn comparison(op: Compare) -> &'static str {
    match op {
        Compare::Eq => "==",
        Compare::Ne => "!=",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
    }
}
