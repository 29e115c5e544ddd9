//! Calls that are left out, each with the reason.

use crate::program::{Meta, Params};
use crate::table::Row;

/// Why a call is left out.
pub(crate) fn reason(row: &Row, params: &Params, _operands: &[Meta]) -> Option<&'static str> {
    let window = &params.window;
    let skips = window.groups > 1 && window.stride.iter().any(|stride| *stride > 1);
    if row.name.starts_with("conv") && row.name.ends_with("d_weight_backward") && skips {
        return Some("Burn's own gradient of grouped weights is wrong where the last stride reaches over the end");
    }
    None
}

/// Operators that `Fusion` writes out in others, with a rounding at each, where the backend has a kernel of its own.
pub(crate) fn is_written_out(row: &Row) -> bool {
    WRITTEN_OUT.iter().any(|name| row.name.starts_with(name))
}

/// Of sorts, `Fusion` takes Burn's own on the host, where equal elements come in another order.
const WRITTEN_OUT: [&str; 20] = [
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
