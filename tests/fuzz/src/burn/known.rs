//! Calls that are left out, each with the reason.

use rocfire_hal::{DType, MAX_RANK};

use crate::data::Data;
use crate::program::{Meta, Number, Params, SCHEMES};
use crate::table::{Row, Rule};

/// Why a call is left out.
pub(crate) fn reason(row: &Row, params: &Params, operands: &[Meta]) -> Option<&'static str> {
    let rank = |least: usize| operands.first().is_some_and(|x| x.shape.len() >= least);
    if row.name.ends_with("_transpose") && !rank(2) {
        return Some("Burn's own transpose takes no vectors, where Flex has one of its own that does");
    }
    if row.name.starts_with("q_") && operands.iter().any(|x| x.shape.contains(&0)) {
        return Some("Burn's own range of nothing, which quantising takes fused, is refused");
    }
    if row.rule == Rule::Matmul && repeats_nothing(&operands[0].shape, &operands[1].shape) {
        // Its `broadcast_batch_dims` takes the larger extent: that ends the process, by SIGSEGV in the crate `gemm`.
        return Some(
            "Flex multiplies no matrices by one as if they were one, and reads behind those that are not there",
        );
    }
    let has_blocks =
        row.name.starts_with("q_") && BLOCKS.contains(&params.scheme) && !row.call.contains("p.scheme % 6");
    if has_blocks && operands.iter().any(|x| 2 * x.shape.len() > MAX_RANK) {
        return Some(
            "Burn's own range of blocks, which is recorded in its place, has two axes for each, and ours have eight at most",
        );
    }
    if ["float_atanh", "float_acosh"].contains(&row.name) && operands[0].dtype == DType::F64 {
        return Some("Rust's atanh beside -1 and acosh beside 1 lose digits that f64 has");
    }
    let bound_is_nan = matches!(params.scalar, Number::Float(bound) if bound.is_nan());
    if row.name.starts_with("float_clamp_m") && bound_is_nan {
        return Some("Burn's own clamp_min and clamp_max, which is recorded in its place, know no bound that is NaN");
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

/// Whether a batch has no matrices along an axis where the other has one.
fn repeats_nothing(a: &[usize], b: &[usize]) -> bool {
    let batches = |shape: &[usize]| shape.iter().rev().skip(2).copied().collect::<Vec<usize>>();
    let (a, b) = (batches(a), batches(b));
    let extent = |of: &[usize], axis: usize| of.get(axis).copied().unwrap_or(1);
    (0..a.len().max(b.len()))
        .any(|axis| extent(&a, axis).min(extent(&b, axis)) == 0 && extent(&a, axis) != extent(&b, axis))
}

/// Numbers of [`super::paste::scheme`]'s that have a scale for each block.
const BLOCKS: std::ops::Range<usize> = 6..SCHEMES;

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

/// Operators that `Fused` writes out in others, with a rounding at each, where the backend has a kernel of its own.
pub(crate) fn is_written_out(row: &Row) -> bool {
    let is_weight_gradient = row.name.starts_with("conv_transpose") && row.name.ends_with("weight_backward");
    is_weight_gradient || WRITTEN_OUT.iter().any(|name| row.name.starts_with(name))
}

/// Whether what `Fused` writes out is coarser than an operator, and how far off the formula is itself: in 16 bits each step is
/// rounded; Burn's own sigmoids go by way of f32, and one by a logarithm; its gradient of gelu is that of the approximation by tanh,
/// which differs from the one by erf by 8.7e-4 at most.
pub(crate) fn coarser(name: &str, is_gelu_backward: bool, operands: &[Data]) -> Option<f64> {
    let is_narrow = operands.iter().any(|data| data.dtype.is_float() && data.dtype.size_bytes() == 2);
    match () {
        () if is_gelu_backward => Some(1e-3),
        () if is_narrow || ["sigmoid", "hard_sigmoid"].contains(&name) => Some(0.0),
        () => None,
    }
}

/// Of sorts, `Fused` takes Burn's own on the host, where equal elements come in another order.
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

#[cfg(test)]
mod tests {
    use super::repeats_nothing;

    #[test]
    fn no_matrices_are_not_repeated() {
        assert!(repeats_nothing(&[0, 2, 2], &[1, 2, 3]));
        assert!(repeats_nothing(&[2, 2], &[4, 0, 2, 3]));
        assert!(!repeats_nothing(&[0, 2, 2], &[0, 2, 3]));
        assert!(!repeats_nothing(&[1, 0, 3], &[4, 3, 0]));
    }
}
