//! Calls that are left out, each with the reason: what Candle's own code does wrong.
//!
//! Four more are in the rows' calls:
//!
//! - the CPU device casts f64 to 16 bits by `half`, which drops the low 32 bits before it rounds (half 2.7.1,
//!   `bfloat/convert.rs:25`) or rounds to f32 first, and integers by way of f32: -3.19531251 becomes -3.1875 in bf16, whose halfway
//!   point it is beyond. The rows round once;
//! - `conv1d` on a GPU copies weights that are not one block, and then multiplies by what it copied from, not by the copy
//!   (candle-core 0.11.1, `cuda_backend/mod.rs:1873`): the row takes one block;
//! - `index_add` on a GPU copies what it adds to, and then cuts the copy at the view's offset (`cuda_backend/mod.rs:594`): the row
//!   gives it a copy;
//! - products on a GPU refuse layouts that the CPU takes: `is_its_own_refusal`.

use crate::data::Data;
use crate::program::{Meta, Params};
use crate::table::Row;

/// The gradient of a broadcast is such a sum.
const NO_RESULTS: &str = "Candle divides by zero on a GPU where a sum has no results";

/// Why a gradient is left out.
pub(crate) fn of_gradient(
    row: &Row,
    params: &Params,
    operands: &[Meta],
    values: &dyn Fn() -> Vec<Data>,
) -> Option<&'static str> {
    let has_nothing = operands.iter().any(|x| x.shape.contains(&0));
    if has_nothing && row.call.contains("broadcast") {
        return Some(NO_RESULTS);
    }
    if row.name == "sort" && values().first().is_some_and(Data::has_equals) {
        return Some("either of two equals may come first, and get what arrives there");
    }
    if row.name != "conv1d" {
        return None;
    }
    // Weights' gradient takes what arrives as weights, with batches and channels exchanged: no block, where there are several of both.
    // And on the CPU the input's gradient is the transposed convolution whose batches are stacked.
    let several = operands[0].shape[0] > 1 && operands[1].shape[0] / params.window.groups > 1;
    several.then_some(
        "Candle's gradient of conv1d is by a convolution with weights that are no block, and by a transposed one",
    )
}

/// Why a call is left out.
pub(crate) fn reason(
    row: &Row,
    params: &Params,
    operands: &[Meta],
    values: &dyn Fn() -> Vec<Data>,
) -> Option<&'static str> {
    let window = &params.window;
    match row.name {
        // `sort.rs` of candle-core takes NaN as greater than a number, and any number as greater than NaN.
        "sort" if values().iter().any(Data::has_nan) => {
            Some("Candle's CPU has no order for NaN: each of two is the greater")
        }
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
            (!has_results).then_some(NO_RESULTS)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use crate::candle::paste::cast;

    #[test]
    fn casts_to_16_bits_round_once() {
        // Each a little beyond halfway between two numbers of bf16, by less than f32 shows.
        let float = Tensor::new(&[-3.195_312_510_532_769_3_f64, -0.0, f64::INFINITY], &Device::Cpu).unwrap();
        let int = Tensor::new(&[767_863_747_759_727_381_i64, 0, i64::MIN], &Device::Cpu).unwrap();
        let read = |x: Tensor| x.to_dtype(DType::F64).unwrap().to_vec1::<f64>().unwrap();
        assert_eq!(read(cast(&float, DType::BF16).unwrap()), [-3.203125, 0.0, f64::INFINITY]);
        let rounded = read(cast(&int, DType::BF16).unwrap());
        assert_eq!(rounded, [770_115_536_280_354_816.0, 0.0, -(2.0_f64.powi(63))]);
        // As soon as this fails, the rows can cast as they are.
        assert_eq!(read(float.to_dtype(DType::BF16).unwrap())[0], -3.1875);
    }
}
