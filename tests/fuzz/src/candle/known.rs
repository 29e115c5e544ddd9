//! Calls that are left out, each with the reason: what Candle's own code does wrong.
//!
//! Three more are in the rows' calls. `conv1d` on a GPU copies weights that are not one block, and then multiplies by what it
//! copied from, not by the copy (candle-core 0.11.1, `cuda_backend/mod.rs:1873`): the row takes one block. `index_add` on a GPU copies what it adds
//! to, and then cuts the copy at the view's offset (`cuda_backend/mod.rs:594`): the row gives it a copy. Products on a GPU refuse
//! layouts that the CPU takes: `is_its_own_refusal`.

use crate::program::{Meta, Params};
use crate::table::Row;

/// Why a call is left out.
pub(crate) fn reason(
    row: &Row,
    params: &Params,
    operands: &[Meta],
    has_nan: &dyn Fn() -> bool,
) -> Option<&'static str> {
    let window = &params.window;
    match row.name {
        // `sort.rs` of candle-core takes NaN as greater than a number, and any number as greater than NaN.
        "sort" if has_nan() => Some("Candle's CPU has no order for NaN: each of two is the greater"),
        // `cpu_backend/mod.rs:1488`: batches are taken for more rows, a row's stride apart, whenever one ends where the next
        // begins. Its own transposed input, [batch, length, channels] of strides [length · channels, 1, length], has other rows.
        "conv_transpose1d" => {
            let [batch, channels, _] = operands[0].shape[..] else { return None };
            let is_product = window.padding[0] == 0 && window.extra[0] == 0 && window.dilation[0] == 1;
            (is_product && batch > 1 && channels / window.groups > 1)
                .then_some("Candle's CPU stacks the batches of a transposed input, whose rows lie otherwise")
        }
        // `cuda_backend/mod.rs:356` divides by the number of results.
        "sum_of_axes" => {
            let shape = operands[0].shape.iter().enumerate();
            let has_results = shape.filter(|(axis, _)| !params.axes.contains(axis)).all(|(_, extent)| *extent > 0);
            (!has_results).then_some("Candle divides by zero on a GPU where a sum has no results")
        }
        _ => None,
    }
}
