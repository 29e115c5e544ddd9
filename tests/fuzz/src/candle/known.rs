//! Calls that are left out, each with the reason.

use crate::program::{Meta, Params};
use crate::table::Row;

/// Operators whose kernels drop a NaN that Candle's CPU device keeps.
const DROP_NAN: [&str; 12] = [
    "maximum",
    "minimum",
    "clamp",
    "max",
    "min",
    "max_keepdim",
    "min_keepdim",
    "max_all",
    "min_all",
    "argmax",
    "argmin",
    "relu",
];

/// Why a call is left out.
pub(crate) fn reason(
    row: &Row,
    _params: &Params,
    operands: &[Meta],
    has_nan: &dyn Fn() -> bool,
) -> Option<&'static str> {
    if DROP_NAN.contains(&row.name) && operands.iter().any(|meta| meta.dtype.is_float()) && has_nan() {
        return Some("a NaN in max, min and clamp");
    }
    None
}
