//! Products of groups of rows, and the feed-forward blocks of a mixture of experts around them.

use burn::module::{Module, Param};
use burn::tensor::activation::{gelu, gelu_approximate, sigmoid, silu};
use burn::tensor::{DType, Int, Tensor};
use rocfire_burn::custom::operators::{self, Activation, GroupedEpilogue};

use crate::tokens::whole;
use crate::{one, run};

/// Groups of rows, each by a matrix of its own, in one launch; `None` off rocfire's devices. There is no gradient.
///
/// # Shapes
/// `a`: `[rows, K]`; `b`: `[groups, K, N]`; `offsets`: `[groups + 1]`, the first row of each group, and the end;
/// `factor` as the epilogue says. The result is `[rows, N]`, rows of no group zeros.
///
/// # Panics
/// If shapes or types do not fit, with the argument's name, told by whoever reads the result; for tensors with a
/// gradient, at once.
pub fn grouped_matmul(
    a: Tensor<2>,
    b: Tensor<3>,
    offsets: Tensor<1, Int>,
    epilogue: GroupedEpilogue,
    factor: Option<Tensor<2>>,
) -> Option<Tensor<2>> {
    let offsets = offsets.cast(DType::I32).into_dispatch();
    let inputs = [a.into_dispatch(), b.into_dispatch(), offsets].into_iter().chain(factor.map(Tensor::into_dispatch));
    one(run(operators::grouped_matmul(epilogue), inputs.collect()))
}

/// Gated feed-forward blocks, of which each row goes through a few.
///
/// On rocfire's devices rows are sorted by expert, and each of the three products is one launch, the gate and the
/// experts' shares part of it. Where gradients are asked for, and elsewhere, every row goes through every expert and
/// what was not chosen counts nothing.
#[derive(Module, Debug)]
pub struct Experts {
    /// `[experts, d_model, d_hidden]`.
    pub gate: Param<Tensor<3>>,
    /// `[experts, d_model, d_hidden]`.
    pub up: Param<Tensor<3>>,
    /// `[experts, d_hidden, d_model]`.
    pub down: Param<Tensor<3>>,
    /// What the gates go through.
    #[module(skip)]
    pub activation: Activation,
}

impl Experts {
    /// `Σ share · down(activation(gate(x)) · up(x))` over the experts that a row of `x`, `[rows, d_model]`, has chosen:
    /// their numbers and shares are `[rows, chosen]`.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Tensor<2> {
        let sorted = match x.device().is_autodiff() {
            true => None,
            false => self.sorted(x.clone(), chosen.clone(), shares.clone()),
        };
        sorted.unwrap_or_else(|| self.written_out(x, chosen, shares))
    }

    fn sorted(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Option<Tensor<2>> {
        let ([rows, each], [experts, ..]) = (chosen.dims(), self.gate.dims());
        let mut sorted = run(operators::sort_by_expert(experts, None, None), vec![chosen.into_dispatch()])?.into_iter();
        let (order, offsets, back) = (whole(&mut sorted)?, whole::<1>(&mut sorted)?, whole(&mut sorted)?);
        let order: Tensor<1, Int> = order;
        let product = |a: Tensor<2>, weight: &Param<Tensor<3>>, epilogue, factor| {
            grouped_matmul(a, weight.val(), offsets.clone(), epilogue, factor)
        };
        let own = x.select(0, order.clone().div_scalar(each as i64));
        let up = product(own.clone(), &self.up, GroupedEpilogue::None, None)?;
        let hidden = product(own, &self.gate, GroupedEpilogue::Gate(self.activation), Some(up))?;
        let shares = shares.reshape([rows * each]).select(0, order.clone()).unsqueeze_dim::<2>(1);
        let y = product(hidden, &self.down, GroupedEpilogue::Scale, Some(shares))?;
        let [_, d_model] = y.dims();
        Some(y.select(0, back).reshape([rows, each, d_model]).sum_dim(1).reshape([rows, d_model]))
    }

    fn written_out(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Tensor<2> {
        let ([rows, each], [experts, ..], device) = (chosen.dims(), self.gate.dims(), x.device());
        let x = x.unsqueeze_dim::<3>(0).repeat_dim(0, experts);
        let gates = x.clone().matmul(self.gate.val());
        let y = (activated(self.activation, gates) * x.matmul(self.up.val())).matmul(self.down.val());
        let numbers = Tensor::<1, Int>::arange(0..experts as i64, &device).reshape([experts, 1, 1]);
        let is_chosen = chosen.unsqueeze_dim::<3>(0).equal(numbers.expand([experts, rows, each]));
        let shares = shares.unsqueeze_dim::<3>(0).expand([experts, rows, each]).mask_fill(is_chosen.bool_not(), 0);
        let [_, _, d_model] = y.dims();
        (y * shares.sum_dim(2)).sum_dim(0).reshape([rows, d_model])
    }
}

/// An activation by Burn's operators.
pub(crate) fn activated<const D: usize>(activation: Activation, x: Tensor<D>) -> Tensor<D> {
    /// The factor within the sigmoid of [`Activation::QuickGelu`].
    const QUICK: f64 = 1.702;
    match activation {
        Activation::Silu => silu(x),
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => gelu_approximate(x),
        Activation::QuickGelu => x.clone() * sigmoid(x.mul_scalar(QUICK)),
        Activation::Sigmoid => sigmoid(x),
    }
}
