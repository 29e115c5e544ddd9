//! Layers whose sequences leave a state behind: causal convolutions, selective scans and the gated delta rule, over states in a pool.
//!
//! A pool is changed where it lies, so that whoever else has it sees it; there are no gradients. Whole numbers are u32, i32 or i64.

use candle_core::{DType, Error, Result, Tensor};
pub use rocfire_kernels::delta::DeltaParams;
use rocfire_kernels::operators::{self as kernels, CausalConvForm, DeltaForm, Operator, ScanForm, WindowForm};

use crate::record::{constant, run};

/// Sequences of a forward: their tokens, one sequence after the other, and their states, in device memory.
#[derive(Clone, Copy, Debug)]
pub struct StateSequences<'a> {
    /// The first token of each, and the end, `[sequences + 1]`.
    pub starts: &'a Tensor,
    /// The slot of each state, `[sequences]`; a sequence of a negative one gives zeros, and leaves nothing behind.
    pub slots: &'a Tensor,
    /// Not 0 for one that begins, whatever its slot holds, `[sequences]`; `None`: all go on.
    pub fresh: Option<&'a Tensor>,
    /// Of speculative decoding, how many tokens of each one's last forward were accepted, from 1 on, `[sequences]`: it goes on behind
    /// them. A sequence of any other number gives zeros, and leaves nothing behind, unless it begins.
    pub accepted: Option<&'a Tensor>,
    /// Slots for the state after each token, `[sequences, places]`, in place of `slots` for layers other than convolutions: they go on
    /// with the one at the place that `accepted` counts to, with the first if it is not given. A slot that is none keeps nothing; of a
    /// sequence with more tokens than places the last state alone is kept, at the first.
    pub kept: Option<&'a Tensor>,
    /// How many tokens each has had, `[sequences]`: states of a causal convolution are circles then. Not with `accepted`; others do not
    /// read it.
    pub lengths: Option<&'a Tensor>,
    /// A number of a slot that stands for none, as negative ones do.
    pub pad: Option<i32>,
}

impl<'a> StateSequences<'a> {
    /// Sequences that all go on, each behind its last token.
    pub fn new(starts: &'a Tensor, slots: &'a Tensor) -> StateSequences<'a> {
        StateSequences { starts, slots, fresh: None, accepted: None, kept: None, lengths: None, pad: None }
    }

    /// Refuses what a layer does not take.
    fn without(&self, layer: &str, told: &[(&str, bool)]) -> Result<()> {
        match told.iter().find(|(_, is_there)| *is_there) {
            Some((arg, _)) => candle_core::bail!("{layer}: {arg} must not be given"),
            None => Ok(()),
        }
    }
}

/// What a selective scan reads.
#[derive(Clone, Copy, Debug)]
pub struct ScanInputs<'a> {
    /// `[tokens, dim]`.
    pub x: &'a Tensor,
    /// Steps, `[tokens, dim]`.
    pub dt: &'a Tensor,
    /// f32, `[dim, N]`.
    pub a: &'a Tensor,
    /// `[tokens, groups, N]`.
    pub b: &'a Tensor,
    /// `[tokens, groups, N]`.
    pub c: &'a Tensor,
    /// The share of `x` that goes past the state, `[dim]`.
    pub d: Option<&'a Tensor>,
    /// A gate: the result is multiplied by `z · sigmoid(z)`, `[tokens, dim]`.
    pub z: Option<&'a Tensor>,
    /// What is added to steps, `[dim]`.
    pub dt_bias: Option<&'a Tensor>,
    /// Whether steps are `log(1 + e^dt)`.
    pub is_softplus: bool,
}

/// Decays and strengths of a delta rule.
#[derive(Clone, Copy, Debug)]
pub enum DeltaGates<'a> {
    /// The logarithm of decays, f32, `[tokens, heads]`, or of each row of a state, `[tokens, heads, key channels]`; and strengths, f32,
    /// `[tokens, heads]`.
    Given(&'a Tensor, &'a Tensor),
    /// `a` and `b` of a layer's products, `[tokens, heads]`, `a_log` and `dt_bias`, f32, `[heads]`: decays are
    /// `-exp(a_log) · softplus(a + dt_bias)`, strengths `sigmoid(b)`.
    Made([&'a Tensor; 2], [&'a Tensor; 2]),
}

/// Each channel of `x`, `[tokens, dim]`, along its sequence: the sum of the last `w` tokens times the weight, `[dim, w]`, w from 2 to 4,
/// and a bias, `[dim]`. States are the last `w - 1` tokens, `[slots, dim, places]`, of the type of `x` or f32: as many places, or more, of
/// which the first are used. Tokens of no sequence are zeros.
///
/// Where it is told how many tokens of the last call were accepted, a state is `w - 2` tokens and those of a call behind them, as many
/// as have places: of a call with more only the last `w - 1` are kept, and one token is to be accepted after it. A circle holds the last
/// tokens, each at the place that its number has in it.
///
/// # Errors
/// Shapes or types that do not fit; another device than rocfire's. A slot behind the last is told of by the next read.
pub fn causal_conv(
    states: &Tensor,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    of: &StateSequences<'_>,
    is_silu: bool,
) -> Result<Tensor> {
    of.without("causal_conv", &[("lengths beside accepted", of.accepted.is_some() && of.lengths.is_some())])?;
    let window = match (of.accepted, of.lengths) {
        (Some(_), _) => WindowForm::Accepted,
        (None, Some(_)) => WindowForm::Circular,
        (None, None) => WindowForm::First,
    };
    let form = CausalConvForm { has_bias: bias.is_some(), has_fresh: of.fresh.is_some(), window, pad: of.pad, is_silu };
    let told = of.accepted.or(of.lengths);
    let others = [x, weight, of.starts, of.slots].into_iter().chain(bias).chain(of.fresh).chain(told);
    change(&kernels::causal_conv(form), states, others)
}

/// Mamba's scan of channels along their sequences, `[tokens, dim]`; states are `[slots, dim, N]`, f32 or the type of `x`. Tokens of no
/// sequence are zeros. Where states are kept after each token, what comes of them is the bits of a call for each.
///
/// # Errors
/// As [`causal_conv`].
pub fn selective_scan(states: &Tensor, inputs: &ScanInputs<'_>, of: &StateSequences<'_>) -> Result<Tensor> {
    let ScanInputs { x, dt, a, b, c, d, z, dt_bias, is_softplus } = *inputs;
    of.without("selective_scan", &[("accepted without kept", of.accepted.is_some() && of.kept.is_none())])?;
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
    let read = [x, dt, a, b, c, of.starts, of.kept.unwrap_or(of.slots)];
    let others = read.into_iter().chain(d).chain(z).chain(dt_bias).chain(of.fresh).chain(of.accepted);
    change(&kernels::selective_scan(form), states, others)
}

/// The gated delta rule, token after token or, where a sequence may have more than 64 (`longest` is at least the tokens of the longest),
/// in chunks: `S = e^g S`, `S = S + k (beta (v - Sᵀ k))ᵀ`, and each token reads `Sᵀ (scale q)`, `[tokens, heads, channels]`. States are
/// `[slots, heads, key channels, channels]`, f32 or bf16. Tokens of no sequence are zeros. Where states are kept after each token, it is
/// one token after the other, and what comes of them is the bits of a call for each.
///
/// # Shapes
/// `q`, `k`: `[tokens, key heads, key channels]`; `v`: `[tokens, heads, channels]`, of as many heads or a multiple.
/// # Errors
/// Shapes or types that do not fit; another device than rocfire's. A slot behind the last counts as a negative one.
pub fn delta_rule(
    states: &Tensor,
    qkv: [&Tensor; 3],
    gates: DeltaGates<'_>,
    of: &StateSequences<'_>,
    longest: usize,
    params: DeltaParams,
) -> Result<Tensor> {
    of.without("delta_rule", &[("accepted without kept", of.accepted.is_some() && of.kept.is_none())])?;
    let makes_gates = matches!(gates, DeltaGates::Made(..));
    let gates = match gates {
        DeltaGates::Given(g, beta) => vec![g, beta],
        DeltaGates::Made(made, with) => made.into_iter().chain(with).collect(),
    };
    let continues = of.fresh.map(|fresh| fresh.eq(0_u32)?.to_dtype(DType::U32)).transpose()?;
    let form = DeltaForm {
        makes_gates,
        has_continues: continues.is_some(),
        has_accepted: of.accepted.is_some(),
        pad: of.pad,
        ..DeltaForm::default()
    };
    let slots = of.kept.unwrap_or(of.slots);
    let others = qkv.into_iter().chain(gates).chain([of.starts, slots]).chain(&continues).chain(of.accepted);
    change(&kernels::delta_rule(form, params, longest), states, others)
}

/// Runs an operator that changes states, and gives its other output.
fn change<'a>(operator: &Operator, states: &'a Tensor, others: impl Iterator<Item = &'a Tensor>) -> Result<Tensor> {
    let inputs: Vec<&Tensor> = std::iter::once(states).chain(others).collect();
    for (arg, x) in operator.inputs().iter().zip(&inputs) {
        if x.track_op() {
            candle_core::bail!("{}: {arg} has no gradient, and comes from a variable: detach it", operator.name());
        }
    }
    let out = run(operator, &inputs)?.into_iter().next();
    out.map(constant).ok_or_else(|| Error::msg("an operator has an output"))
}
