//! From logits to tokens, and from tokens to experts, a launch each; nothing here has a gradient.
//!
//! Whole numbers may be u32, i32 or i64, and what has one element for each row is told by a tensor: it stays on the device.

use candle_core::{DType, Result, Tensor, bail};
use rocfire_kernels::operators as kernels;
pub use rocfire_kernels::operators::RouteForm;
pub use rocfire_kernels::sort::Order;

use crate::record::{apply, one};

/// What is left of each row to sample from: what is not given keeps all.
///
/// A token stays if fewer than `top_k` are strictly likelier, if those that are have less than `top_p` of the sum of all that the
/// mask leaves, and if it is at least `min_p` times as likely as the likeliest.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// What logits are divided by, `[rows]`, f32; a row is greedy where it is not above 0.
    pub temperature: Option<Tensor>,
    /// `[rows]`; what is not above 0 keeps all.
    pub top_k: Option<Tensor>,
    /// `[rows]`, f32; what is not below 1 keeps all.
    pub top_p: Option<Tensor>,
    /// `[rows]`, f32; what is not above 0 keeps all.
    pub min_p: Option<Tensor>,
    /// Bits, 1 for a token that may be taken, `[rows, tokens / 32 rounded up]`, u32 or i32.
    pub mask: Option<Tensor>,
    /// Whether rows hold probabilities, f32, instead of logits.
    pub of_probabilities: bool,
}

impl Sampling {
    fn form(&self, draws: bool) -> kernels::SampleForm {
        kernels::SampleForm {
            form: if self.of_probabilities { kernels::Form::Probabilities } else { kernels::Form::Logits },
            has_temperature: self.temperature.is_some(),
            has_top_k: self.top_k.is_some(),
            has_top_p: self.top_p.is_some(),
            has_min_p: self.min_p.is_some(),
            has_mask: self.mask.is_some(),
            draws,
        }
    }

    fn inputs<'a>(&'a self, x: &'a Tensor, draw: Option<[&'a Tensor; 2]>) -> Vec<&'a Tensor> {
        let told = [&self.temperature, &self.top_k, &self.top_p, &self.min_p, &self.mask];
        let told = told.into_iter().filter_map(Option::as_ref);
        std::iter::once(x).chain(told).chain(draw.into_iter().flatten()).collect()
    }
}

/// A token of each row, `[rows]`, u32, i32 or i64: drawn by Philox under a seed and an offset of each row, or without them the
/// likeliest. It depends on the row, its seed and its offset alone, and is inside the vocabulary whatever the row holds.
///
/// # Shapes
/// `x`: `[rows, vocabulary]`, f32, f16 or bf16; seeds and offsets `[rows]`.
///
/// # Errors
/// Shapes or types that do not fit; another device than rocfire's.
pub fn sample(x: &Tensor, sampling: &Sampling, draw: Option<[&Tensor; 2]>, to: DType) -> Result<Tensor> {
    let to = match to {
        DType::U32 => rocfire_hal::DType::U32,
        DType::I32 => rocfire_hal::DType::I32,
        DType::I64 => rocfire_hal::DType::I64,
        other => bail!("sample: tokens must be u32, i32 or i64, got {other:?}"),
    };
    one(&kernels::sample(sampling.form(draw.is_some()), to), &sampling.inputs(x, draw))
}

/// The distribution that is left of each row, `[rows, vocabulary]`, f32.
///
/// # Errors
/// As [`sample`].
pub fn probabilities(x: &Tensor, sampling: &Sampling) -> Result<Tensor> {
    one(&kernels::probabilities(sampling.form(false)), &sampling.inputs(x, None))
}

/// Tokens of each row whose logits change, and by what.
#[derive(Clone, Debug)]
pub struct Penalties {
    /// `[rows, listed]`, a token once in a row; what is outside the vocabulary is passed over.
    pub tokens: Tensor,
    /// How often each was written, `[rows, listed]`; 0 if not given, for what was only read.
    pub counts: Option<Tensor>,
    /// What is added to each, `[rows, listed]`, f32.
    pub biases: Option<Tensor>,
    /// What a logit above 0 is divided by, and another multiplied by, `[rows]`, f32.
    pub repetition: Option<Tensor>,
    /// What is taken off for each time that a token was written, `[rows]`, f32.
    pub frequency: Option<Tensor>,
    /// What is taken off for a token that was written, `[rows]`, f32.
    pub presence: Option<Tensor>,
}

/// Logits `[rows, vocabulary]` with those of listed tokens changed.
///
/// # Errors
/// As [`sample`].
pub fn penalise(x: &Tensor, penalties: &Penalties) -> Result<Tensor> {
    let Penalties { tokens, counts, biases, repetition, frequency, presence } = penalties;
    let form = kernels::PenaltyForm {
        has_counts: counts.is_some(),
        has_biases: biases.is_some(),
        has_repetition: repetition.is_some(),
        has_frequency: frequency.is_some(),
        has_presence: presence.is_some(),
    };
    let told = [counts, biases, repetition, frequency, presence].into_iter().filter_map(Option::as_ref);
    one(&kernels::penalise(form), &[x, tokens].into_iter().chain(told).collect::<Vec<_>>())
}

/// Logarithms of probabilities.
#[derive(Clone, Debug)]
pub struct LogProbabilities {
    /// Of each row's token, `[rows]`, f32.
    pub chosen: Tensor,
    /// One more than the tokens that are likelier, `[rows]`, i32.
    pub ranks: Tensor,
    /// The likeliest tokens, `[rows, n]`, i32, the best first, and their logarithms, f32.
    pub best: Option<[Tensor; 2]>,
}

/// Logarithms of the softmax of logits `[rows, vocabulary]` at a token of each row, and of the `best` likeliest, up to 2048.
///
/// # Errors
/// As [`sample`].
pub fn log_probabilities(x: &Tensor, tokens: &Tensor, best: usize) -> Result<LogProbabilities> {
    let mut outputs = apply(&kernels::log_probabilities(best), &[x, tokens])?.into_iter();
    let (Some(chosen), Some(ranks)) = (outputs.next(), outputs.next()) else { unreachable!("two were described") };
    let best = outputs.next().zip(outputs.next()).map(|(tokens, logs)| [tokens, logs]);
    Ok(LogProbabilities { chosen, ranks, best })
}

/// The places of the `k` largest, or smallest, of each row, up to 2048, i32, and these numbers; the best first if `sorted`, else by
/// place. `bounds` are the first column that counts of each row and the one behind its last, `[rows]` each: places behind those that
/// there are are -1.
///
/// # Errors
/// As [`sample`].
pub fn top_k(x: &Tensor, k: usize, order: Order, sorted: bool, bounds: Option<[&Tensor; 2]>) -> Result<[Tensor; 2]> {
    let inputs: Vec<_> = std::iter::once(x).chain(bounds.into_iter().flatten()).collect();
    pair(apply(&kernels::top_k(order, k, sorted, bounds.is_some()), &inputs)?)
}

/// Speculative sampling: the drafts of each row that are kept, the token behind them, and -1, `[rows, n + 1]`, i32; and how many
/// were kept. `draft` are the draft's distributions, `[rows, n, vocabulary]`, f32; without them its tokens were certain.
///
/// # Shapes
/// `tokens`: `[rows, n]`; `target`: `[rows, n + 1, vocabulary]`, f32; seeds and offsets `[rows]`.
///
/// # Errors
/// As [`sample`].
pub fn accept(tokens: &Tensor, target: &Tensor, draft: Option<&Tensor>, draw: [&Tensor; 2]) -> Result<[Tensor; 2]> {
    let inputs: Vec<_> = [tokens, target].into_iter().chain(draft).chain(draw).collect();
    pair(apply(&kernels::accept(draft.is_some()), &inputs)?)
}

/// The same where nothing is drawn: drafts are kept while they are the target's tokens, `[rows, n + 1]`.
///
/// # Errors
/// As [`sample`].
pub fn accept_greedy(tokens: &Tensor, targets: &Tensor) -> Result<[Tensor; 2]> {
    pair(apply(&kernels::accept_greedy(), &[tokens, targets])?)
}

/// Shares, f32, and numbers, i32, of the experts of each token, the best first.
///
/// # Shapes
/// `x`: `[tokens, columns]`, f32, f16 or bf16; `bias`: `[experts]`, f32.
///
/// # Errors
/// As [`sample`]; a bias where the form has none, and none where it has one.
pub fn route(x: &Tensor, form: RouteForm, bias: Option<&Tensor>) -> Result<[Tensor; 2]> {
    pair(apply(&kernels::route(form), &[x].into_iter().chain(bias).collect::<Vec<_>>())?)
}

/// Choices of experts in the order of experts, i32.
#[derive(Clone, Debug)]
pub struct ByExpert {
    /// Choices, `token * k + slot`, by place.
    pub order: Tensor,
    /// Where each group begins, and the end: what [`grouped_matmul`](crate::grouped_matmul) takes.
    pub offsets: Tensor,
    /// The place of each choice; those left out are behind the last group, or with blocks at -1.
    pub inverse: Tensor,
    /// The group of each block, -1 behind the last.
    pub blocks: Option<Tensor>,
}

/// Puts choices `[tokens, k]` in the order of their experts. `map` gives the group of each expert, and how many there are: an expert
/// outside them is left out. With `block` each group's share is rounded up to so many places.
///
/// # Errors
/// As [`sample`].
pub fn sort_by_expert(
    ids: &Tensor,
    experts: usize,
    map: Option<(&Tensor, usize)>,
    block: Option<usize>,
) -> Result<ByExpert> {
    let (map, groups) = map.unzip();
    let inputs: Vec<_> = std::iter::once(ids).chain(map).collect();
    let mut outputs = apply(&kernels::sort_by_expert(experts, groups, block), &inputs)?.into_iter();
    let (Some(order), Some(offsets), Some(inverse)) = (outputs.next(), outputs.next(), outputs.next()) else {
        unreachable!("three were described")
    };
    Ok(ByExpert { order, offsets, inverse, blocks: outputs.next() })
}

fn pair(outputs: Vec<Tensor>) -> Result<[Tensor; 2]> {
    let Ok(outputs) = <[_; 2]>::try_from(outputs) else { unreachable!("two were described") };
    Ok(outputs)
}
