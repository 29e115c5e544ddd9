//! The Hadamard transform.

use burn::tensor::Tensor;
use rocfire_burn::custom::operators;

use crate::{one, run};

/// `scale · H x` along `dim`, H the Hadamard matrix in Sylvester's order, in one launch; its gradient in one. With a scale of
/// `1 / sqrt(extent)` it is its own inverse. A row with an outlier has none afterwards, which few bits hold better: a product
/// stays what it is if both sides are transformed along what is summed over.
///
/// # Panics
/// If there is no such axis, or its extent is no power of two; on rocfire's devices for one above 8192 (4096 of f64).
pub fn hadamard<const D: usize>(x: Tensor<D>, dim: usize, scale: f64) -> Tensor<D> {
    one(run(operators::hadamard(dim, scale), vec![x.clone().into_dispatch()]))
        .unwrap_or_else(|| written_out(x, dim).mul_scalar(scale))
}

/// A butterfly for each bit of the place along the axis.
fn written_out<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    let shape = x.dims();
    let extent = shape[dim];
    assert!(extent.is_power_of_two(), "hadamard: x must have an axis whose extent is a power of two, got {extent}");
    let inner: usize = shape[dim + 1..].iter().product();
    let len: usize = shape.iter().product();
    let steps = std::iter::successors(Some(1), |step| Some(step * 2)).take_while(|&step| step < extent);
    steps.fold(x, |x, step| {
        let behind = step * inner;
        let halves = x.reshape([len / (2 * behind).max(1), 2, behind]);
        let (a, b) = (halves.clone().narrow(1, 0, 1), halves.narrow(1, 1, 1));
        Tensor::cat(vec![a.clone() + b.clone(), a - b], 1).reshape(shape)
    })
}
