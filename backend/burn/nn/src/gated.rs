//! Gates of rows, and the feed-forward block of language models around them.

use burn::module::Module;
use burn::nn::{Linear, SwiGlu};
use burn::tensor::activation::{log_softmax as burn_log_softmax, softmax as burn_softmax};
use burn::tensor::{Device, Tensor};
use rocfire_burn::custom::operators::{self, Activation, GateLayout, GateParams};

use crate::experts::activated;
use crate::{one, run};

/// `activation(gate) · (up + offset) · scale`, gate and up being the halves of each row, in one launch; its gradient in one.
///
/// # Shapes
/// `x`: `[.., 2 n]`; the result is `[.., n]`.
/// # Panics
/// For an odd number of columns; for a bias in `params`.
pub fn gate<const D: usize>(x: Tensor<D>, params: GateParams<'static>) -> Tensor<D> {
    assert!(params.bias.is_none(), "gate: params.bias must be none: it is added before");
    one(run(operators::gate(params), vec![x.clone().into_dispatch()])).unwrap_or_else(|| {
        let mut shape = x.dims();
        let cols = shape[D - 1];
        assert!(cols.is_multiple_of(2), "gate: x must have an even number of columns, got {cols}");
        shape[D - 1] = cols / 2;
        let rows = x.shape().num_elements() / cols.max(1);
        let [outer, inner, axis] = match params.layout {
            GateLayout::Halves => [2, cols / 2, 1],
            GateLayout::Interleaved => [cols / 2, 2, 2],
        };
        let mut halves = x.reshape([rows, outer, inner]).chunk(2, axis).into_iter().map(|half| half.reshape(shape));
        let (Some(mut gate), Some(mut up)) = (halves.next(), halves.next()) else {
            unreachable!("there are two halves")
        };
        if let Some(limit) = params.limit {
            (gate, up) = (gate.clamp_max(limit), up.clamp(-limit, limit));
        }
        (activated(params.activation, gate) * up.add_scalar(params.offset)).mul_scalar(params.scale.unwrap_or(1.0))
    })
}

/// A softmax along `dim`, in one launch; its gradient in one, from the result.
///
/// # Panics
/// If there is no such axis.
pub fn softmax<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    one(run(operators::softmax(dim, false), vec![x.clone().into_dispatch()])).unwrap_or_else(|| burn_softmax(x, dim))
}

/// The logarithm of [`softmax`], as it.
///
/// # Panics
/// As there.
pub fn log_softmax<const D: usize>(x: Tensor<D>, dim: usize) -> Tensor<D> {
    one(run(operators::softmax(dim, true), vec![x.clone().into_dispatch()])).unwrap_or_else(|| burn_log_softmax(x, dim))
}

/// A gated feed-forward block: one product for gates and ups, the gate, the product back.
///
/// Its first layer is both of [`SwiGlu`]'s side by side: [`GatedMlp::from_swiglu`] takes them, [`GatedMlp::to_swiglu`] gives them
/// back, so that a record of Burn's module comes in and goes out.
#[derive(Module, Debug)]
pub struct GatedMlp {
    /// `[d_model, 2 d_hidden]`, gates first.
    pub gate_up: Linear,
    /// `[d_hidden, d_model]`.
    pub down: Linear,
    /// What the gates go through.
    #[module(skip)]
    pub activation: Activation,
}

impl GatedMlp {
    /// From Burn's module, which lacks the way back.
    pub fn from_swiglu(module: SwiGlu, down: Linear) -> GatedMlp {
        let SwiGlu { linear_inner, linear_outer } = module;
        let weight = linear_inner.weight.map(|gates| Tensor::cat(vec![gates, linear_outer.weight.val()], 1));
        let bias = linear_inner.bias.zip(linear_outer.bias);
        let bias = bias.map(|(gates, ups)| gates.map(|gates| Tensor::cat(vec![gates, ups.val()], 0)));
        GatedMlp { gate_up: Linear { weight, bias }, down, activation: Activation::Silu }
    }

    /// The first layer as Burn's module has it, on a device.
    pub fn to_swiglu(&self, device: &Device) -> SwiGlu {
        let [d_model, columns] = self.gate_up.weight.dims();
        let config = burn::nn::SwiGluConfig::new(d_model, columns / 2).with_bias(self.gate_up.bias.is_some());
        let SwiGlu { linear_inner, linear_outer } = config.init(device);
        let half = |linear: Linear, at: usize| Linear {
            weight: linear.weight.map(|_| self.gate_up.weight.val().narrow(1, at * columns / 2, columns / 2)),
            bias: linear
                .bias
                .zip(self.gate_up.bias.as_ref())
                .map(|(own, bias)| own.map(|_| bias.val().narrow(0, at * columns / 2, columns / 2))),
        };
        SwiGlu { linear_inner: half(linear_inner, 0), linear_outer: half(linear_outer, 1) }
    }

    /// `down(activation(gate) · up)` of rows `[.., d_model]`.
    ///
    /// # Panics
    /// If there are not `d_model` columns.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.down.forward(gate(self.gate_up.forward(x), GateParams::new(self.activation)))
    }
}
