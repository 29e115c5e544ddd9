//! Operators that Candle lacks or composes of several, a launch each; gradients in as few as the kernels have.
//!
//! Tensors are on a device of rocfire's, views of any strides. What does not fit (a shape, a type, another device) is
//! an error that names the operator and the argument. Sums are in f32 (f64 for f64), with one rounding at the end.

use candle_core::shape::Dim;
use candle_core::{D, Device, Result, Tensor};
pub use rocfire_kernels::gate::{Activation, GateLayout, GateParams};
use rocfire_kernels::norm::NormKind;
use rocfire_kernels::operators as kernels;
pub use rocfire_kernels::operators::GroupedEpilogue;
pub use rocfire_kernels::rope::{RopeFrequencies, RopeScaling, RopeStyle};

use crate::record::{self, Back, apply, one};

/// Root-mean-square norm of the last axis, `x / √(mean(x²) + ε) · weight`. All have gradients.
///
/// # Shapes
/// `x`: `[.., columns]`; `weight`: `[columns]`.
///
/// # Errors
/// As the module says.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    one(&kernels::norm(NormKind::Rms, epsilon, false), &[x, weight])
}

/// Norm of the last axis, `(x - mean) / √(variance + ε) · weight + bias`. All have gradients.
///
/// # Shapes
/// `x`: `[.., columns]`; `weight`, `bias`: `[columns]`.
///
/// # Errors
/// As the module says.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, epsilon: f64) -> Result<Tensor> {
    let inputs: Vec<_> = [x, weight].into_iter().chain(bias).collect();
    one(&kernels::norm(NormKind::Layer, epsilon, bias.is_some()), &inputs)
}

/// [`rms_norm`] of `x + residual`, and that sum, in one launch. All have gradients.
///
/// # Errors
/// As there; a residual of another shape or type.
pub fn add_rms_norm(x: &Tensor, residual: &Tensor, weight: &Tensor, epsilon: f64) -> Result<[Tensor; 2]> {
    add_norm(NormKind::Rms, [x, residual], &[weight], epsilon)
}

/// [`layer_norm`] of `x + residual`, and that sum, in one launch. All have gradients.
///
/// # Errors
/// As there; a residual of another shape or type.
pub fn add_layer_norm(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<[Tensor; 2]> {
    let factors: Vec<_> = std::iter::once(weight).chain(bias).collect();
    add_norm(NormKind::Layer, [x, residual], &factors, epsilon)
}

/// Recorded as a sum and its norm.
fn add_norm(kind: NormKind, terms: [&Tensor; 2], factors: &[&Tensor], epsilon: f64) -> Result<[Tensor; 2]> {
    let has_bias = factors.len() == 2;
    let (both, norm) = (kernels::add_norm(kind, epsilon, has_bias), kernels::norm(kind, epsilon, has_bias));
    let outputs = record::run(&both, &[&terms, factors].concat())?;
    let Ok([y, sum]) = <[_; 2]>::try_from(outputs) else { unreachable!("a norm and a sum were described") };
    let back = |gradient| Back { gradient, constants: vec![], others: vec![] };
    let sum = record::record(both.name(), sum, &terms, back(None))?;
    let learned: Vec<_> = std::iter::once(&sum).chain(factors.iter().copied()).collect();
    let y = record::record(norm.name(), y, &learned, back(norm.gradient().cloned()))?;
    Ok([y, sum])
}

/// Norm of each group of `channels / groups` neighbouring channels with all that is behind them. All have gradients.
///
/// # Shapes
/// `x`: `[batch, channels, ..]`; `weight`, `bias`: `[channels]`.
///
/// # Errors
/// As the module says; groups that do not divide the channels.
pub fn group_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, groups: usize, epsilon: f64) -> Result<Tensor> {
    one(&kernels::group_norm(groups, epsilon, true), &[x, weight, bias])
}

/// `activation(gate) · (up + offset) · scale`, gate and up being the halves of each row. It has a gradient.
///
/// # Shapes
/// `x`: `[.., 2 n]`; the result is `[.., n]`.
///
/// # Errors
/// As the module says; an odd number of columns.
pub fn gate(x: &Tensor, params: GateParams<'static>) -> Result<Tensor> {
    one(&kernels::gate(params), &[x])
}

/// A gated feed-forward block: one product for gates and ups, [`gate()`], the product back.
///
/// # Shapes
/// `x`: `[.., d]`; `gate_up`: `[2 hidden, d]`, gates first; `down`: `[d, hidden]`: weights as `candle_nn::Linear` has
/// them.
///
/// # Errors
/// As [`gate()`] and Candle's products.
pub fn gated_mlp(x: &Tensor, gate_up: &Tensor, down: &Tensor, activation: Activation) -> Result<Tensor> {
    let rows = x.reshape(((), x.dim(D::Minus1)?))?;
    let hidden = gate(&rows.matmul(&gate_up.t()?)?, GateParams::new(activation))?;
    let y = hidden.matmul(&down.t()?)?;
    y.reshape([&x.dims()[..x.rank() - 1], &[down.dim(0)?]].concat())
}

/// A softmax along an axis. It has a gradient.
///
/// # Errors
/// As the module says; no such axis.
pub fn softmax(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    one(&kernels::softmax(dim.to_index(x.shape(), "softmax")?, false), &[x])
}

/// The Hadamard transform along an axis, in Sylvester's order, times `scale`: with `1 / sqrt(extent)` its own inverse. It has a
/// gradient.
///
/// # Errors
/// An extent that is no power of two, or above 8192 (4096 of f64); a type that is no float; another device than rocfire's.
pub fn hadamard(x: &Tensor, dim: impl Dim, scale: f64) -> Result<Tensor> {
    one(&kernels::hadamard(dim.to_index(x.shape(), "hadamard")?, scale), &[x])
}

/// The logarithm of [`softmax`]. It has a gradient.
///
/// # Errors
/// As there.
pub fn log_softmax(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    one(&kernels::softmax(dim.to_index(x.shape(), "log_softmax")?, true), &[x])
}

/// The loss of each row of logits, which have a gradient; nothing of their size is written but that. Its mean is the
/// loss that `candle_nn` has.
///
/// # Shapes
/// `logits`: `[.., classes]`; `targets`: `[..]`, u32, i32 or i64; `weights` of the classes: `[classes]`. Losses are
/// `[..]`, f32 (f64 for f64): 0 for the target `ignored`, and not divided by what the weights add up to. `smoothing` is
/// the share that is spread over all classes alike.
///
/// # Errors
/// As the module says. A target that is no class makes its loss NaN, and the next read fails.
pub fn cross_entropy(
    logits: &Tensor,
    targets: &Tensor,
    weights: Option<&Tensor>,
    ignored: Option<i64>,
    smoothing: f64,
) -> Result<Tensor> {
    let inputs: Vec<_> = [logits, targets].into_iter().chain(weights).collect();
    one(&kernels::cross_entropy(ignored, smoothing, weights.is_some()), &inputs)
}

/// Cosines and sines of the positions from 0 on, `[positions, rot / 2]`, f32, computed in f64.
///
/// # Errors
/// Another device than rocfire's; out of memory.
pub fn rope_tables(frequencies: &RopeFrequencies, positions: usize, device: &Device) -> Result<[Tensor; 2]> {
    let inverse = Tensor::new(frequencies.inverse.as_slice(), device)?;
    let tables = apply(&kernels::rope_table(frequencies.magnitude, 0, positions), &[&inverse])?;
    let Ok(tables) = <[_; 2]>::try_from(tables) else { unreachable!("two tables were described") };
    Ok(tables)
}

/// Turns pairs of elements by their row's position, of which the first is `first`. `x` has a gradient.
///
/// # Shapes
/// `x`: `[batches, heads, rows, depth]`; `cosines`, `sines`: `[positions, rot / 2]`, f32 (f64 for f64): the first `rot`
/// elements of a head are turned. A position behind the last takes the last.
///
/// # Errors
/// As the module says.
pub fn rope(x: &Tensor, [cosines, sines]: [&Tensor; 2], style: RopeStyle, first: usize) -> Result<Tensor> {
    one(&kernels::rope(style, first as i64, false), &[x, cosines, sines])
}

/// [`rope`] of rows at positions of their own, `[batches, rows]`, u32, i32 or i64.
///
/// # Errors
/// As there.
pub fn rope_at(x: &Tensor, [cosines, sines]: [&Tensor; 2], style: RopeStyle, positions: &Tensor) -> Result<Tensor> {
    one(&kernels::rope(style, 0, true), &[x, cosines, sines, positions])
}

/// Groups of rows, each by a matrix of its own, in one launch: what a mixture's experts compute. Without an epilogue `a` and `b` have
/// gradients.
///
/// # Shapes
/// `a`: `[rows, K]`; `b`: `[groups, K, N]`; `offsets`: u32 or i32 `[groups + 1]`, the first row of each group, and the
/// end; `factor` as the epilogue says. The result is `[rows, N]`, rows of no group zeros.
///
/// # Errors
/// As the module says; a factor where the epilogue has none, and none where it has one.
pub fn grouped_matmul(
    a: &Tensor,
    b: &Tensor,
    offsets: &Tensor,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
) -> Result<Tensor> {
    let inputs: Vec<_> = [a, b, offsets].into_iter().chain(factor).collect();
    one(&kernels::grouped_matmul(epilogue), &inputs)
}
