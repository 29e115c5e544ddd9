//! Calls that are left out, each with the reason.

use rocfire_hal::DType;

use crate::data::Data;
use crate::program::{Meta, Number, Params};
use crate::table::{Row, Rule};

/// Why a call is left out.
pub(crate) fn reason(row: &Row, params: &Params, operands: &[Meta]) -> Option<&'static str> {
    let rank = |least: usize| operands.first().is_some_and(|x| x.shape.len() >= least);
    if row.name.ends_with("_transpose") && !rank(2) {
        return Some("Burn's own transpose takes no vectors, where Flex has one of its own that does");
    }
    if row.name.starts_with("q_") && operands[0].shape.contains(&0) {
        return Some("Burn's own range of nothing, which quantising takes under Fusion, is refused");
    }
    if row.rule == Rule::Matmul && operands[0].dtype == DType::F16 && operands.iter().any(|x| x.shape.contains(&0)) {
        return Some("the crate by which Flex multiplies f16 reads behind empty matrices, and the process ends");
    }
    if ["float_atanh", "float_acosh"].contains(&row.name) && operands[0].dtype == DType::F64 {
        return Some("Rust's atanh beside -1 and acosh beside 1 lose digits that f64 has");
    }
    let bound_is_nan = matches!(params.scalar, Number::Float(bound) if bound.is_nan());
    if row.name.starts_with("float_clamp_m") && bound_is_nan {
        return Some("Burn's own clamp_min and clamp_max, which Fusion takes, know no bound that is NaN");
    }
    if TYPED_AS_ELEMENTS.contains(&row.name) && operands[0].shape[params.axis] > places_of(operands[0].dtype) {
        return Some("Burn gives places in the type of the elements, which may be too narrow; Flex's are i64");
    }
    let window = &params.window;
    let skips = window.groups > 1 && window.stride.iter().any(|stride| *stride > 1);
    if row.name.starts_with("conv") && row.name.ends_with("d_weight_backward") && skips {
        return Some("Burn's own gradient of grouped weights is wrong where the last stride reaches over the end");
    }
    None
}

/// Operators whose places have the type of the elements.
const TYPED_AS_ELEMENTS: [&str; 8] = [
    "int_argmax",
    "int_argmin",
    "int_max_dim_with_indices",
    "int_min_dim_with_indices",
    "int_argtopk",
    "int_topk_with_indices",
    "int_sort_with_indices",
    "int_argsort",
];

/// How many places an integer of this type can tell apart.
fn places_of(dtype: DType) -> usize {
    match dtype.size_bytes() {
        1 if dtype.is_signed_int() => 1 << 7,
        1 => 1 << 8,
        2 if dtype.is_signed_int() => 1 << 15,
        2 => 1 << 16,
        _ => usize::MAX,
    }
}

/// Operators that `Fusion` writes out in others, with a rounding at each, where the backend has a kernel of its own.
pub(crate) fn is_written_out(row: &Row) -> bool {
    let is_weight_gradient = row.name.starts_with("conv_transpose") && row.name.ends_with("weight_backward");
    is_weight_gradient || WRITTEN_OUT.iter().any(|name| row.name.starts_with(name))
}

/// Whether what `Fusion` writes out is coarser than an operator: Burn's own gradient of gelu is that of the approximation by
/// tanh, and in 16 bits each of its steps is rounded.
pub(crate) fn is_coarser(is_gelu_backward: bool, operands: &[Data]) -> bool {
    is_gelu_backward || operands.iter().any(|data| data.dtype.is_float() && data.dtype.size_bytes() == 2)
}

/// Of sorts, `Fusion` takes Burn's own on the host, where equal elements come in another order.
/// And clamps at one end keep -0 at a bound of +0.
const WRITTEN_OUT: [&str; 21] = [
    "float_clamp_m",
    "float_sort",
    "float_argsort",
    "int_sort",
    "int_argsort",
    "batch_norm",
    "layer_norm",
    "linear",
    "embedding",
    "softmax",
    "log_softmax",
    "softmin",
    "gelu",
    "sigmoid",
    "log_sigmoid",
    "hard_sigmoid",
    "leaky_relu",
    "prelu",
    "unfold4d",
    "fold4d",
    "attention",
];
