//! Layers whose sequences leave a state behind: causal convolutions, selective scans and the gated delta rule, over states in a pool.

use burn::backend::DispatchTensor;
use burn::tensor::{DType, Device, Int, Tensor};
use rocfire_burn::custom::operators::{self, CausalConvForm, DeltaForm, DeltaParams, Operator, ScanForm, WindowForm};

use crate::dispatch::is_ours;
use crate::run;

/// What sequences of a layer have left behind, a slot each: what a serving engine keeps beside caches of keys.
///
/// It is a value, as Burn's tensors are: a clone stays as it was when the other goes on. Without a clone it is changed in its place.
/// There are no gradients.
#[derive(Clone, Debug)]
pub struct States<const D: usize> {
    /// None only while it is written to.
    pool: Option<DispatchTensor>,
}

/// Sequences of a forward: their tokens, one sequence after the other, and their states, in device memory.
#[derive(Clone, Debug)]
pub struct StateSequences {
    /// The first token of each, and the end, `[sequences + 1]`.
    pub starts: Tensor<1, Int>,
    /// The slot of each state, `[sequences]`; a sequence of a negative one gives zeros, and leaves nothing behind.
    pub slots: Tensor<1, Int>,
    /// Not 0 for one that begins, whatever its slot holds, `[sequences]`; `None`: all go on.
    pub fresh: Option<Tensor<1, Int>>,
    /// Of speculative decoding, how many tokens of each one's last forward were accepted, from 1 on, `[sequences]`: it goes on behind
    /// them. A sequence of any other number gives zeros, and leaves nothing behind, unless it begins.
    pub accepted: Option<Tensor<1, Int>>,
    /// Slots for the state after each token, `[sequences, places]`, in place of `slots` for layers other than convolutions: they go on
    /// with the one at the place that `accepted` counts to, with the first if it is not given. A slot that is none keeps nothing; of a
    /// sequence with more tokens than places the last state alone is kept, at the first.
    pub kept: Option<Tensor<2, Int>>,
    /// How many tokens each has had, `[sequences]`: states of a causal convolution are circles then. Not with `accepted`; others do not
    /// read it.
    pub lengths: Option<Tensor<1, Int>>,
    /// A number of a slot that stands for none, as negative ones do.
    pub pad: Option<i32>,
}

impl StateSequences {
    /// Sequences that all go on, each behind its last token.
    pub fn new(starts: Tensor<1, Int>, slots: Tensor<1, Int>) -> StateSequences {
        StateSequences { starts, slots, fresh: None, accepted: None, kept: None, lengths: None, pad: None }
    }

    /// The slots of layers that may keep the state after each token.
    fn states(&self) -> DispatchTensor {
        match &self.kept {
            Some(kept) => kept.clone().into_dispatch(),
            None => self.slots.clone().into_dispatch(),
        }
    }

    fn told(&self) -> impl Iterator<Item = DispatchTensor> {
        [self.starts.clone(), self.slots.clone()].into_iter().map(Tensor::into_dispatch)
    }
}

/// Refuses what a layer does not take.
fn refused(layer: &str, what: &str) -> ! {
    panic!("{layer}: {what} must not be given")
}

/// What a selective scan reads.
#[derive(Clone, Debug)]
pub struct ScanInputs {
    /// `[tokens, dim]`.
    pub x: Tensor<2>,
    /// Steps, `[tokens, dim]`.
    pub dt: Tensor<2>,
    /// f32, `[dim, N]`.
    pub a: Tensor<2>,
    /// `[tokens, groups, N]`.
    pub b: Tensor<3>,
    /// `[tokens, groups, N]`.
    pub c: Tensor<3>,
    /// The share of `x` that goes past the state, `[dim]`.
    pub d: Option<Tensor<1>>,
    /// A gate: the result is multiplied by `z · sigmoid(z)`, `[tokens, dim]`.
    pub z: Option<Tensor<2>>,
    /// What is added to steps, `[dim]`.
    pub dt_bias: Option<Tensor<1>>,
    /// Whether steps are `log(1 + e^dt)`.
    pub is_softplus: bool,
}

/// Decays and strengths of a delta rule, one for each token and head.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // It lives for a call.
pub enum DeltaGates {
    /// The logarithm of decays, and strengths, f32, `[tokens, heads]`.
    Given(Tensor<2>, Tensor<2>),
    /// The logarithm of decays of each row of a state, f32, `[tokens, heads, key channels]`, and strengths.
    ByRow(Tensor<3>, Tensor<2>),
    /// `a` and `b` of a layer's products, `[tokens, heads]`, `a_log` and `dt_bias`, f32, `[heads]`: decays are
    /// `-exp(a_log) · softplus(a + dt_bias)`, strengths `sigmoid(b)`.
    Made([Tensor<2>; 2], [Tensor<1>; 2]),
}

impl<const D: usize> States<D> {
    /// Zeros of a shape, whose first axis are slots. `None` off rocfire's devices.
    pub fn new(shape: [usize; D], dtype: DType, device: &Device) -> Option<States<D>> {
        States::of(Tensor::zeros(shape, (device, dtype)))
    }

    /// These states. `None` off rocfire's devices.
    pub fn of(states: Tensor<D>) -> Option<States<D>> {
        let pool = states.into_dispatch();
        is_ours(&pool).then_some(States { pool: Some(pool) })
    }

    /// What they are now.
    pub fn tensor(&self) -> Tensor<D> {
        Tensor::from_dispatch(self.pool.clone().expect("states are there between calls"))
    }

    fn change(&mut self, operator: Operator, others: impl Iterator<Item = DispatchTensor>) -> DispatchTensor {
        let name = operator.name();
        let pool = self.pool.take().expect("states are there between calls");
        // What is not held here any more is changed in place.
        let outputs = run(operator, std::iter::once(pool).chain(others).collect());
        let outputs = outputs.unwrap_or_else(|| panic!("{name}: every tensor must be on the states' device"));
        let Ok([pool, out]) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        self.pool = Some(pool);
        out
    }
}

impl States<3> {
    /// Each channel of `x`, `[tokens, dim]`, along its sequence: the sum of the last `w` tokens times the weight, `[dim, w]`, w from 2
    /// to 4, and a bias, `[dim]`. These states are the last `w - 1` tokens, `[slots, dim, places]`, of the type of `x` or f32: as many
    /// places, or more, of which the first are used. Tokens of no sequence are zeros.
    ///
    /// Where it is told how many tokens of the last call were accepted, a state is `w - 2` tokens and those of a call behind them, as
    /// many as have places: of a call with more only the last `w - 1` are kept, and one token is to be accepted after it. A circle holds
    /// the last tokens, each at the place that its number has in it.
    ///
    /// # Panics
    /// Of `accepted` and `lengths` both. If shapes or types do not fit, with the argument's name, told by whoever reads what comes of it; for tensors of another device,
    /// at once.
    pub fn causal_conv(
        &mut self,
        x: Tensor<2>,
        weight: Tensor<2>,
        bias: Option<Tensor<1>>,
        of: &StateSequences,
        is_silu: bool,
    ) -> Tensor<2> {
        let (window, told) = match (&of.accepted, &of.lengths) {
            (Some(_), Some(_)) => refused("causal_conv", "lengths beside accepted"),
            (Some(accepted), None) => (WindowForm::Accepted, Some(accepted.clone())),
            (None, Some(lengths)) => (WindowForm::Circular, Some(lengths.clone())),
            (None, None) => (WindowForm::First, None),
        };
        let (has_bias, has_fresh) = (bias.is_some(), of.fresh.is_some());
        let form = CausalConvForm { has_bias, has_fresh, window, pad: of.pad, is_silu };
        let told = [of.fresh.clone(), told].map(|told| told.map(Tensor::into_dispatch));
        let extras = std::iter::once(bias.map(Tensor::into_dispatch)).chain(told);
        let others = [x.into_dispatch(), weight.into_dispatch()].into_iter().chain(of.told());
        Tensor::from_dispatch(self.change(operators::causal_conv(form), others.chain(extras.flatten())))
    }

    /// Mamba's scan of channels along their sequences, `[tokens, dim]`; these states are `[slots, dim, N]`, f32 or the type of `x`.
    /// Tokens of no sequence are zeros. Where states are kept after each token, what comes of them is the bits of a call for each.
    ///
    /// # Panics
    /// As [`States::causal_conv`]; of `accepted` without `kept`.
    pub fn selective_scan(&mut self, inputs: ScanInputs, of: &StateSequences) -> Tensor<2> {
        if of.accepted.is_some() && of.kept.is_none() {
            refused("selective_scan", "accepted without kept");
        }
        let ScanInputs { x, dt, a, b, c, d, z, dt_bias, is_softplus } = inputs;
        let form = ScanForm {
            has_d: d.is_some(),
            has_z: z.is_some(),
            has_dt_bias: dt_bias.is_some(),
            has_fresh: of.fresh.is_some(),
            keeps: of.kept.is_some(),
            has_accepted: of.accepted.is_some(),
            pad: of.pad,
            is_softplus,
            ..ScanForm::default()
        };
        let extras = [
            d.map(Tensor::into_dispatch),
            z.map(Tensor::into_dispatch),
            dt_bias.map(Tensor::into_dispatch),
            of.fresh.clone().map(Tensor::into_dispatch),
            of.accepted.clone().map(Tensor::into_dispatch),
        ];
        let read = [x.into_dispatch(), dt.into_dispatch(), a.into_dispatch(), b.into_dispatch(), c.into_dispatch()];
        let told = [of.starts.clone().into_dispatch(), of.states()];
        let others = read.into_iter().chain(told).chain(extras.into_iter().flatten());
        Tensor::from_dispatch(self.change(operators::selective_scan(form), others))
    }
}

impl States<4> {
    /// The gated delta rule, token after token or, where a sequence may have more than 64 (`longest` is at least the tokens of the
    /// longest), in chunks: `S = e^g S`, `S = S + k (beta (v - Sᵀ k))ᵀ`, and each token reads `Sᵀ (scale q)`, `[tokens, heads,
    /// channels]`. These states are `[slots, heads, key channels, channels]`, f32 or bf16. Tokens of no sequence are zeros. Where states
    /// are kept after each token, it is one token after the other, and what comes of them is the bits of a call for each.
    ///
    /// # Shapes
    /// `q`, `k`: `[tokens, key heads, key channels]`; `v`: `[tokens, heads, channels]`, of as many heads or a multiple.
    /// # Panics
    /// As [`States::causal_conv`]; of `accepted` without `kept`.
    pub fn delta_rule(
        &mut self,
        [q, k, v]: [Tensor<3>; 3],
        gates: DeltaGates,
        of: &StateSequences,
        longest: usize,
        params: DeltaParams,
    ) -> Tensor<3> {
        if of.accepted.is_some() && of.kept.is_none() {
            refused("delta_rule", "accepted without kept");
        }
        let makes_gates = matches!(gates, DeltaGates::Made(..));
        let gates = match gates {
            DeltaGates::Given(g, beta) => vec![g.into_dispatch(), beta.into_dispatch()],
            DeltaGates::ByRow(g, beta) => vec![g.into_dispatch(), beta.into_dispatch()],
            DeltaGates::Made(made, with) => {
                made.map(Tensor::into_dispatch).into_iter().chain(with.map(Tensor::into_dispatch)).collect()
            }
        };
        let continues = of.fresh.clone().map(|fresh| fresh.equal_elem(0).int().into_dispatch());
        let form = DeltaForm {
            makes_gates,
            has_continues: continues.is_some(),
            has_accepted: of.accepted.is_some(),
            pad: of.pad,
            ..DeltaForm::default()
        };
        let told = [of.starts.clone().into_dispatch(), of.states()].into_iter().chain(continues);
        let told = told.chain(of.accepted.clone().map(Tensor::into_dispatch));
        let others = [q, k, v].into_iter().map(Tensor::into_dispatch).chain(gates).chain(told);
        Tensor::from_dispatch(self.change(operators::delta_rule(form, params, longest), others))
    }
}
