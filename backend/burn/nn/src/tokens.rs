//! From logits to tokens, and from tokens to experts, a launch each; nothing here has a gradient.
//!
//! What has one element for each row is told by a tensor: it stays on the device. Off rocfire's devices there is nothing: results are
//! `None`.

use burn::backend::DispatchTensor;
use burn::tensor::{DType, Int, Tensor};
use rocfire_burn::custom::operators::{self, Form, Order, PenaltyForm, RouteForm, SampleForm};

use crate::{one, run};

/// What is left of each row to sample from: what is not given keeps all.
///
/// A token stays if fewer than `top_k` are strictly likelier, if those that are have less than `top_p` of the sum of all that the
/// mask leaves, and if it is at least `min_p` times as likely as the likeliest.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// What logits are divided by, `[rows]`; a row is greedy where it is not above 0.
    pub temperature: Option<Tensor<1>>,
    /// `[rows]`; what is not above 0 keeps all.
    pub top_k: Option<Tensor<1, Int>>,
    /// `[rows]`; what is not below 1 keeps all.
    pub top_p: Option<Tensor<1>>,
    /// `[rows]`; what is not above 0 keeps all.
    pub min_p: Option<Tensor<1>>,
    /// Bits, 1 for a token that may be taken, `[rows, tokens / 32 rounded up]`: token `n` is bit `n % 32` of word `n / 32`.
    pub mask: Option<Tensor<2, Int>>,
    /// Whether rows hold probabilities, f32, instead of logits.
    pub of_probabilities: bool,
}

impl Sampling {
    fn form(&self, draws: bool) -> SampleForm {
        SampleForm {
            form: if self.of_probabilities { Form::Probabilities } else { Form::Logits },
            has_temperature: self.temperature.is_some(),
            has_top_k: self.top_k.is_some(),
            has_top_p: self.top_p.is_some(),
            has_min_p: self.min_p.is_some(),
            has_mask: self.mask.is_some(),
            draws,
        }
    }

    fn inputs(&self, x: Tensor<2>, draw: Option<[Tensor<1, Int>; 2]>) -> Vec<DispatchTensor> {
        let of = |x: &Option<Tensor<1>>| x.clone().map(Tensor::into_dispatch);
        let told = [
            of(&self.temperature),
            self.top_k.clone().map(Tensor::into_dispatch),
            of(&self.top_p),
            of(&self.min_p),
            self.mask.clone().map(Tensor::into_dispatch),
        ];
        let draw = draw.into_iter().flatten().map(Tensor::into_dispatch);
        std::iter::once(x.into_dispatch()).chain(told.into_iter().flatten()).chain(draw).collect()
    }
}

/// A token of each row, `[rows]`, i32: drawn by Philox under a seed and an offset of each row, or without them the likeliest. It
/// depends on the row, its seed and its offset alone, and is inside the vocabulary whatever the row holds. `None` off rocfire's
/// devices.
///
/// # Shapes
/// `x`: `[rows, vocabulary]`; seeds and offsets `[rows]`.
/// # Panics
/// If shapes or types do not fit, with the argument's name, told by whoever reads the result.
pub fn sample(x: Tensor<2>, sampling: &Sampling, draw: Option<[Tensor<1, Int>; 2]>) -> Option<Tensor<1, Int>> {
    let kernel = operators::sample(sampling.form(draw.is_some()), DType::I32);
    whole(&mut run(kernel, sampling.inputs(x, draw))?.into_iter())
}

/// The distribution that is left of each row, `[rows, vocabulary]`, f32. `None` off rocfire's devices.
///
/// # Panics
/// As [`sample`].
pub fn probabilities(x: Tensor<2>, sampling: &Sampling) -> Option<Tensor<2>> {
    one(run(operators::probabilities(sampling.form(false)), sampling.inputs(x, None)))
}

/// Tokens of each row whose logits change, and by what.
#[derive(Clone, Debug)]
pub struct Penalties {
    /// `[rows, listed]`, a token once in a row; what is outside the vocabulary is passed over.
    pub tokens: Tensor<2, Int>,
    /// How often each was written, `[rows, listed]`; 0 if not given, for what was only read.
    pub counts: Option<Tensor<2, Int>>,
    /// What is added to each, `[rows, listed]`.
    pub biases: Option<Tensor<2>>,
    /// What a logit above 0 is divided by, and another multiplied by, `[rows]`.
    pub repetition: Option<Tensor<1>>,
    /// What is taken off for each time that a token was written, `[rows]`.
    pub frequency: Option<Tensor<1>>,
    /// What is taken off for a token that was written, `[rows]`.
    pub presence: Option<Tensor<1>>,
}

/// Logits `[rows, vocabulary]` with those of listed tokens changed. `None` off rocfire's devices.
///
/// # Panics
/// As [`sample`].
pub fn penalise(x: Tensor<2>, penalties: Penalties) -> Option<Tensor<2>> {
    let Penalties { tokens, counts, biases, repetition, frequency, presence } = penalties;
    let form = PenaltyForm {
        has_counts: counts.is_some(),
        has_biases: biases.is_some(),
        has_repetition: repetition.is_some(),
        has_frequency: frequency.is_some(),
        has_presence: presence.is_some(),
    };
    let factors = [repetition, frequency, presence].map(|factor| factor.map(Tensor::into_dispatch));
    let listed = [counts.map(Tensor::into_dispatch), biases.map(Tensor::into_dispatch)];
    let told = listed.into_iter().chain(factors).flatten();
    one(run(operators::penalise(form), [x.into_dispatch(), tokens.into_dispatch()].into_iter().chain(told).collect()))
}

/// Logarithms of probabilities.
#[derive(Clone, Debug)]
pub struct LogProbabilities {
    /// Of each row's token, `[rows]`.
    pub chosen: Tensor<1>,
    /// One more than the tokens that are likelier, `[rows]`.
    pub ranks: Tensor<1, Int>,
    /// The likeliest tokens, `[rows, n]`, the best first, and their logarithms.
    pub best: Option<(Tensor<2, Int>, Tensor<2>)>,
}

/// Logarithms of the softmax of logits `[rows, vocabulary]` at a token of each row, and of the `best` likeliest, up to 2048. `None`
/// off rocfire's devices.
///
/// # Panics
/// As [`sample`].
pub fn log_probabilities(x: Tensor<2>, tokens: Tensor<1, Int>, best: usize) -> Option<LogProbabilities> {
    let inputs = vec![x.into_dispatch(), tokens.into_dispatch()];
    let mut outputs = run(operators::log_probabilities(best), inputs)?.into_iter();
    Some(LogProbabilities {
        chosen: outputs.next().map(Tensor::from_dispatch)?,
        ranks: whole(&mut outputs)?,
        best: whole(&mut outputs).zip(outputs.next().map(Tensor::from_dispatch)),
    })
}

/// The places of the `k` largest, or smallest, of each row, up to 2048, and these numbers; the best first if `sorted`, else by place.
/// `bounds` are the first column that counts of each row and the one behind its last: places behind those that there are are -1.
/// `None` off rocfire's devices.
///
/// # Panics
/// As [`sample`].
pub fn top_k(
    x: Tensor<2>,
    k: usize,
    order: Order,
    sorted: bool,
    bounds: Option<[Tensor<1, Int>; 2]>,
) -> Option<(Tensor<2, Int>, Tensor<2>)> {
    let kernel = operators::top_k(order, k, sorted, bounds.is_some());
    let bounds = bounds.into_iter().flatten().map(Tensor::into_dispatch);
    let mut outputs = run(kernel, std::iter::once(x.into_dispatch()).chain(bounds).collect())?.into_iter();
    Some((whole(&mut outputs)?, outputs.next().map(Tensor::from_dispatch)?))
}

/// Speculative sampling: the drafts of each row that are kept, the token behind them, and -1, `[rows, n + 1]`; and how many were
/// kept. `draft` are the draft's distributions, `[rows, n, vocabulary]`, f32; without them its tokens were certain. `None` off
/// rocfire's devices.
///
/// # Shapes
/// `tokens`: `[rows, n]`; `target`: `[rows, n + 1, vocabulary]`, f32; seeds and offsets `[rows]`.
/// # Panics
/// As [`sample`].
pub fn accept(
    tokens: Tensor<2, Int>,
    target: Tensor<3>,
    draft: Option<Tensor<3>>,
    draw: [Tensor<1, Int>; 2],
) -> Option<(Tensor<2, Int>, Tensor<1, Int>)> {
    let kernel = operators::accept(draft.is_some());
    let inputs = [tokens.into_dispatch(), target.into_dispatch()].into_iter();
    let inputs = inputs.chain(draft.map(Tensor::into_dispatch)).chain(draw.map(Tensor::into_dispatch));
    kept(run(kernel, inputs.collect())?)
}

/// The same where nothing is drawn: drafts are kept while they are the target's tokens, `[rows, n + 1]`. `None` off rocfire's
/// devices.
///
/// # Panics
/// As [`sample`].
pub fn accept_greedy(tokens: Tensor<2, Int>, targets: Tensor<2, Int>) -> Option<(Tensor<2, Int>, Tensor<1, Int>)> {
    kept(run(operators::accept_greedy(), vec![tokens.into_dispatch(), targets.into_dispatch()])?)
}

/// Shares and numbers of the experts of each token, the best first, `[tokens, chosen and shared]`: what [`Experts`](crate::Experts)
/// take. `None` off rocfire's devices.
///
/// # Shapes
/// `x`: `[tokens, columns]`; `bias`: `[experts]`, f32.
/// # Panics
/// As [`sample`].
pub fn route(x: Tensor<2>, form: RouteForm, bias: Option<Tensor<1>>) -> Option<(Tensor<2>, Tensor<2, Int>)> {
    let inputs = std::iter::once(x.into_dispatch()).chain(bias.map(Tensor::into_dispatch)).collect();
    let mut outputs = run(operators::route(form), inputs)?.into_iter();
    Some((outputs.next().map(Tensor::from_dispatch)?, whole(&mut outputs)?))
}

/// Tokens and counts.
fn kept(outputs: Vec<DispatchTensor>) -> Option<(Tensor<2, Int>, Tensor<1, Int>)> {
    let mut outputs = outputs.into_iter();
    Some((whole(&mut outputs)?, whole(&mut outputs)?))
}

/// The next output, which is of whole numbers.
pub(crate) fn whole<const D: usize>(outputs: &mut impl Iterator<Item = DispatchTensor>) -> Option<Tensor<D, Int>> {
    outputs.next().map(Tensor::from_dispatch)
}
