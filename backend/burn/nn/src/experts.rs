//! Products of groups of rows, and the feed-forward blocks of a mixture of experts around them.

use burn::module::{Module, Param};
use burn::tensor::activation::{gelu, gelu_approximate, sigmoid, silu};
use burn::tensor::{Int, Tensor};
use rocfire_burn::custom::operators::{self, Activation, GroupedEpilogue};

use crate::tokens::whole;
use crate::{one, run};

/// Groups of rows, each by a matrix of its own, in one launch; `None` off rocfire's devices. Without an epilogue `a` and `b` have
/// gradients, a launch each.
///
/// # Shapes
/// `a`: `[rows, K]`; `b`: `[groups, K, N]`; `offsets`: `[groups + 1]`, the first row of each group, and the end;
/// `factor` as the epilogue says. The result is `[rows, N]`, rows of no group zeros.
///
/// # Panics
/// If shapes or types do not fit, with the argument's name, told by whoever reads the result; for tensors with a
/// gradient behind an epilogue, at once.
pub fn grouped_matmul(
    a: Tensor<2>,
    b: Tensor<3>,
    offsets: Tensor<1, Int>,
    epilogue: GroupedEpilogue,
    factor: Option<Tensor<2>>,
) -> Option<Tensor<2>> {
    let inputs = [a.into_dispatch(), b.into_dispatch(), offsets.into_dispatch()];
    let inputs = inputs.into_iter().chain(factor.map(Tensor::into_dispatch));
    one(run(operators::grouped_matmul(epilogue), inputs.collect()))
}

/// Choices of experts in the order of experts.
#[derive(Clone, Debug)]
pub struct ByExpert {
    /// Choices, `row * chosen + slot`, by place.
    pub order: Tensor<1, Int>,
    /// Where each expert's places begin, and the end, `[experts + 1]`: what [`grouped_matmul`] takes.
    pub offsets: Tensor<1, Int>,
    /// The place of each choice; those of no expert are behind the last one's.
    pub places: Tensor<1, Int>,
}

impl ByExpert {
    /// Sorts what rows have chosen, `[rows, chosen]`, in one launch for few rows and two for many; `None` off rocfire's devices.
    pub fn new(chosen: Tensor<2, Int>, experts: usize) -> Option<ByExpert> {
        let mut sorted = run(operators::sort_by_expert(experts, None, None), vec![chosen.into_dispatch()])?.into_iter();
        Some(ByExpert { order: whole(&mut sorted)?, offsets: whole(&mut sorted)?, places: whole(&mut sorted)? })
    }

    /// Rows of `a` by the matrices `b`, `[experts, K, N]`, of the experts that they have chosen: `[places, N]`. A row lies in memory
    /// once, however many experts it has. Without an epilogue `a` and `b` have gradients.
    ///
    /// # Panics
    /// As [`grouped_matmul`].
    pub fn matmul(
        &self,
        a: Tensor<2>,
        b: Tensor<3>,
        epilogue: GroupedEpilogue,
        factor: Option<Tensor<2>>,
    ) -> Option<Tensor<2>> {
        let by = [&self.offsets, &self.order, &self.places].map(|of| of.clone().into_dispatch());
        let inputs = [a.into_dispatch(), b.into_dispatch()].into_iter().chain(by);
        one(run(operators::expert_matmul(epilogue), inputs.chain(factor.map(Tensor::into_dispatch)).collect()))
    }

    /// `Σ share · (row + bias)` over what each row has chosen, `[rows, N]`, of rows by place, `[places, N]`, and shares
    /// `[rows, chosen]`, f32; the bias, if there is one, is its expert's, `[experts, N]`. The same bits on every run. Rows and shares
    /// have gradients.
    ///
    /// # Panics
    /// As [`grouped_matmul`].
    pub fn combine(&self, rows: Tensor<2>, shares: Tensor<2>, bias: Option<Tensor<2>>) -> Option<Tensor<2>> {
        let by = [&self.places, &self.offsets].map(|of| of.clone().into_dispatch());
        let operator = operators::combine(bias.is_some());
        let inputs = [rows.into_dispatch(), shares.into_dispatch()].into_iter().chain(by);
        one(run(operator, inputs.chain(bias.map(Tensor::into_dispatch)).collect()))
    }
}

/// Gated feed-forward blocks, of which each row goes through a few.
///
/// On rocfire's devices rows are sorted by expert, each of the three products is one launch over the rows where they lie, the gate
/// part of it unless gradients are asked for, and one more launch weights and adds what a row was given. Elsewhere every row goes
/// through every expert and what was not chosen counts nothing.
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
    /// their numbers and shares are `[rows, chosen]`. Rows, weights and shares have gradients.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Tensor<2> {
        let sorted = self.sorted(x.clone(), chosen.clone(), shares.clone());
        sorted.unwrap_or_else(|| self.written_out(x, chosen, shares))
    }

    fn sorted(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Option<Tensor<2>> {
        let [experts, ..] = self.gate.dims();
        let learns = x.device().is_autodiff();
        let by = ByExpert::new(chosen, experts)?;
        let up = by.matmul(x.clone(), self.up.val(), GroupedEpilogue::None, None)?;
        let hidden = match learns {
            true => {
                let gates = by.matmul(x, self.gate.val(), GroupedEpilogue::None, None)?;
                activated(self.activation, gates) * up
            }
            false => by.matmul(x, self.gate.val(), GroupedEpilogue::Gate(self.activation), Some(up))?,
        };
        let y = grouped_matmul(hidden, self.down.val(), by.offsets.clone(), GroupedEpilogue::None, None)?;
        by.combine(y, shares, None)
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
