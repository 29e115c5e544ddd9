//! Normalisations in one launch each.

use rocfire_fusion::{Reduce, Scalar, Unary};
use rocfire_hal::{Error as HalError, Tensor};

use crate::error::Result;
use crate::ops::{fused, view};

/// The last axis with its mean and variance taken out, times `gamma`, plus `beta` (both `[width]`). Computed in f32 (f64 for
/// f64) and rounded once.
pub(crate) fn layer_norm(x: &Tensor, gamma: &Tensor, beta: Option<&Tensor>, epsilon: f64) -> Result<Tensor> {
    let (dtype, wide) = (x.dtype(), fused::wide(x.dtype()));
    let width = x.shape().last().copied().unwrap_or(0);
    for (name, parameter) in [("gamma", Some(gamma)), ("beta", beta)] {
        if let Some(parameter) = parameter.filter(|parameter| parameter.shape() != [width]) {
            return Err(
                HalError::shape("layer_norm", name, format!("[{width}]"), format!("{:?}", parameter.shape())).into()
            );
        }
    }
    let name = if beta.is_some() { "layer_norm" } else { "layer_norm_unshifted" };
    let graph = fused::graph(name, &[dtype], |g| {
        let (x, epsilon) = (g.input(dtype).cast(wide), g.scalar(wide));
        let centred = x - x.reduce(Reduce::Mean);
        let variance = (centred * centred).reduce(Reduce::Mean);
        let y = centred / (variance + epsilon).unary(Unary::Sqrt) * g.input(dtype).cast(wide);
        if beta.is_some() { y + g.input(dtype).cast(wide) } else { y }.cast(dtype)
    });
    let mut inputs = vec![x, gamma];
    inputs.extend(beta);
    fused::elementwise(&graph, &inputs, &[Scalar::Float(epsilon)], dtype)
}

/// `(x - mean) / √(variance + ε) · gamma + beta` with one of each per channel, axis 1.
pub(crate) fn batch_norm(x: &Tensor, [gamma, beta, mean, variance]: [&Tensor; 4], epsilon: f64) -> Result<Tensor> {
    let (dtype, wide) = (x.dtype(), fused::wide(x.dtype()));
    let mut shape = vec![1; x.shape().len()];
    shape[1] = x.shape()[1];
    let parameters = [mean, variance, gamma, beta].map(|parameter| view::reshape(parameter, &shape));
    let [mean, variance, gamma, beta] = parameters;
    let inputs = [x.clone(), mean?, variance?, gamma?, beta?];
    let graph = fused::graph("batch_norm", &[dtype], |g| {
        let [x, mean, variance, gamma, beta] = [(); 5].map(|()| g.input(dtype).cast(wide));
        let deviation = (variance + g.scalar(wide)).unary(Unary::Sqrt);
        ((x - mean) / deviation * gamma + beta).cast(dtype)
    });
    fused::elementwise(&graph, &inputs.each_ref(), &[Scalar::Float(epsilon)], dtype)
}
