//! Normalisations in one launch each.

use rocfire_fusion::{Binary, Reduce, Scalar, Unary};
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
        let x = g.input(dtype);
        let (x, epsilon) = (fused::to(g, x, wide), g.scalar(wide));
        let mean = g.reduce(Reduce::Mean, x);
        let centred = g.binary(Binary::Sub, x, mean);
        let square = g.binary(Binary::Mul, centred, centred);
        let variance = g.reduce(Reduce::Mean, square);
        let shifted = g.binary(Binary::Add, variance, epsilon);
        let deviation = g.unary(Unary::Sqrt, shifted);
        let normalised = g.binary(Binary::Div, centred, deviation);
        let gamma = g.input(dtype);
        let gamma = fused::to(g, gamma, wide);
        let mut y = g.binary(Binary::Mul, normalised, gamma);
        if beta.is_some() {
            let beta = g.input(dtype);
            let beta = fused::to(g, beta, wide);
            y = g.binary(Binary::Add, y, beta);
        }
        let y = fused::to(g, y, dtype);
        g.output(y);
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
        let inputs = [(); 5].map(|()| g.input(dtype));
        let [x, mean, variance, gamma, beta] = inputs.map(|value| fused::to(g, value, wide));
        let epsilon = g.scalar(wide);
        let shifted = g.binary(Binary::Add, variance, epsilon);
        let deviation = g.unary(Unary::Sqrt, shifted);
        let centred = g.binary(Binary::Sub, x, mean);
        let normalised = g.binary(Binary::Div, centred, deviation);
        let scaled = g.binary(Binary::Mul, normalised, gamma);
        let y = g.binary(Binary::Add, scaled, beta);
        let y = fused::to(g, y, dtype);
        g.output(y);
    });
    fused::elementwise(&graph, &inputs.each_ref(), &[Scalar::Float(epsilon)], dtype)
}
