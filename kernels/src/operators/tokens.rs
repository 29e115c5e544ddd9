//! Operators from logits to tokens and from tokens to experts, as values: nothing here has a gradient.
//!
//! Whole numbers may be of any type: they are cast where a launcher has one alone.

use rocfire_hal::{DType, Stream, Tensor, View, ViewMut};

use super::{Operator, Spec, packed, with_rows};
use crate::Result;
use crate::experts::{
    self, Blocks, ByExpert, Groups, RouteParams, Score, Shared, SortParams, sort_by_expert as launch_sort,
};
use crate::family;
use crate::sample::{self, Drafts, Draw, Form, LogProbabilities, Penalties, SampleParams, TopK};
use crate::sort::Order;

/// Which of the inputs of a sampling there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SampleForm {
    /// What rows hold.
    pub form: Form,
    /// Whether temperatures are given.
    pub has_temperature: bool,
    /// Whether numbers of tokens are.
    pub has_top_k: bool,
    /// Whether shares are.
    pub has_top_p: bool,
    /// Whether least probabilities are.
    pub has_min_p: bool,
    /// Whether masks are.
    pub has_mask: bool,
    /// Whether seeds and offsets are; else the likeliest token is taken.
    pub draws: bool,
}

impl SampleForm {
    /// Names of inputs behind the first, and the types that launchers want.
    fn extras(&self) -> impl Iterator<Item = (&'static str, DType)> {
        let all = [
            (self.has_temperature, "temperature", DType::F32),
            (self.has_top_k, "top_k", DType::I32),
            (self.has_top_p, "top_p", DType::F32),
            (self.has_min_p, "min_p", DType::F32),
            (self.has_mask, "mask", DType::I32),
            (self.draws, "seeds", DType::I64),
            (self.draws, "offsets", DType::I64),
        ];
        all.into_iter().filter_map(|(is_there, name, dtype)| is_there.then_some((name, dtype)))
    }

    fn names(&self) -> Vec<&'static str> {
        std::iter::once("x").chain(self.extras().map(|(name, _)| name)).collect()
    }

    /// Runs with what the inputs say.
    fn with<T>(
        &self,
        stream: &Stream,
        inputs: &[Tensor],
        run: impl FnOnce(View<'_>, &SampleParams<'_>) -> Result<T>,
    ) -> Result<T> {
        let x = with_rows(&inputs[0])?;
        let told = self.extras().zip(&inputs[1..]).map(|((_, dtype), input)| of_type(stream, input, dtype));
        let told = told.collect::<Result<Vec<_>>>()?;
        let mut rest = told.iter().map(Tensor::view);
        let mut next = |is_there: bool| if is_there { rest.next() } else { None };
        let mut params = SampleParams {
            form: self.form,
            temperature: next(self.has_temperature),
            top_k: next(self.has_top_k),
            top_p: next(self.has_top_p),
            min_p: next(self.has_min_p),
            mask: next(self.has_mask),
            ..SampleParams::default()
        };
        if let (Some(seeds), Some(offsets)) = (next(self.draws), next(self.draws)) {
            params.draw = Draw::Seeds { seeds, offsets };
        }
        run(x.view(), &params)
    }
}

/// A tensor of a type, its elements side by side: itself or a copy.
pub(super) fn of_type(stream: &Stream, x: &Tensor, dtype: DType) -> Result<Tensor> {
    let same_bits = x.dtype().size_bytes() == dtype.size_bytes() && x.dtype().is_int() && dtype.is_int();
    if x.dtype() == dtype || same_bits {
        let x = packed(x)?;
        return Ok(Tensor::from_buffer(x.buffer().clone(), *x.layout(), dtype)?);
    }
    family::cast(stream, x.view(), dtype)
}

/// A token of each row, as [`sample::sample`].
///
/// # Inputs
/// `x` `[rows, vocabulary]`, f32, f16 or bf16; then what the form has, in its order: `[rows]` each, the mask `[rows, words]`. The
/// output is `[rows]` of `to`: i32, i64 or u32.
pub fn sample(form: SampleForm, to: DType) -> Operator {
    let output = move |inputs: &[Spec]| vec![Spec::new([inputs[0].extent(0)], to)];
    Operator::new("sample", &form.names(), output, move |stream, inputs, outputs| {
        form.with(stream, inputs, |x, params| sample::sample(stream, x, params, outputs[0].view_mut()))
    })
}

/// The distribution that is left of each row, as [`sample::probabilities`].
///
/// # Inputs
/// As [`sample()`], without seeds and offsets. The output is like `x`, f32.
pub fn probabilities(form: SampleForm) -> Operator {
    let form = SampleForm { draws: false, ..form };
    let output = |inputs: &[Spec]| vec![Spec::new(inputs[0].shape.clone(), DType::F32)];
    Operator::new("probabilities", &form.names(), output, move |stream, inputs, outputs| {
        form.with(stream, inputs, |x, params| sample::probabilities(stream, x, params, outputs[0].view_mut()))
    })
}

/// Which penalties there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PenaltyForm {
    /// Whether it is told how often tokens were written.
    pub has_counts: bool,
    /// Whether there are biases.
    pub has_biases: bool,
    /// Whether repetition is penalised.
    pub has_repetition: bool,
    /// Whether frequency is.
    pub has_frequency: bool,
    /// Whether presence is.
    pub has_presence: bool,
}

/// Logits with those of listed tokens changed, as [`sample::penalise`].
///
/// # Inputs
/// `x` `[rows, vocabulary]`, f32, f16 or bf16; tokens `[rows, listed]`; then what the form has, in its order: counts and biases
/// `[rows, listed]`, factors `[rows]`. The output is like `x`.
pub fn penalise(form: PenaltyForm) -> Operator {
    let extras = [
        (form.has_counts, "counts", DType::I32),
        (form.has_biases, "biases", DType::F32),
        (form.has_repetition, "repetition", DType::F32),
        (form.has_frequency, "frequency", DType::F32),
        (form.has_presence, "presence", DType::F32),
    ];
    let extras: Vec<_> = extras.into_iter().filter(|(is_there, ..)| *is_there).collect();
    let names: Vec<_> = ["x", "tokens"].into_iter().chain(extras.iter().map(|(_, name, _)| *name)).collect();
    Operator::new("penalise", &names, super::like_first, move |stream, inputs, outputs| {
        let tokens = of_type(stream, &inputs[1], DType::I32)?;
        let told = extras.iter().zip(&inputs[2..]).map(|((_, _, dtype), input)| of_type(stream, input, *dtype));
        let told = told.collect::<Result<Vec<_>>>()?;
        let mut rest = told.iter().map(Tensor::view);
        let mut next = |is_there: bool| if is_there { rest.next() } else { None };
        let mut penalties = Penalties::new(tokens.view());
        penalties.counts = next(form.has_counts);
        penalties.biases = next(form.has_biases);
        penalties.repetition = next(form.has_repetition);
        penalties.frequency = next(form.has_frequency);
        penalties.presence = next(form.has_presence);
        family::copy_into(stream, inputs[0].view(), outputs[0].view_mut())?;
        sample::penalise(stream, outputs[0].view_mut(), &penalties)
    })
}

/// Logarithms of the softmax of each row at a token, how many tokens are likelier, and the likeliest, as
/// [`sample::log_probabilities`].
///
/// # Inputs
/// `x` `[rows, vocabulary]`, f32, f16 or bf16; tokens `[rows]`. The outputs are logarithms `[rows]`, f32, and ranks `[rows]`, i32;
/// with `best` above 0 the likeliest tokens `[rows, best]`, i32, and their logarithms, f32.
pub fn log_probabilities(best: usize) -> Operator {
    let outputs = move |inputs: &[Spec]| {
        let rows = inputs[0].extent(0);
        let chosen = [Spec::new([rows], DType::F32), Spec::new([rows], DType::I32)];
        let likeliest = [Spec::new([rows, best], DType::I32), Spec::new([rows, best], DType::F32)];
        chosen.into_iter().chain(likeliest.into_iter().filter(|_| best > 0)).collect()
    };
    Operator::new("log_probabilities", &["x", "tokens"], outputs, |stream, inputs, outputs| {
        let (x, tokens) = (with_rows(&inputs[0])?, of_type(stream, &inputs[1], DType::I32)?);
        let [logs, ranks, best @ ..] = outputs else { unreachable!("two outputs were described at least") };
        let best = if let [tokens, logs] = best { Some((tokens.view_mut(), logs.view_mut())) } else { None };
        let chosen = Some((tokens.view(), logs.view_mut()));
        let asked = LogProbabilities { chosen, ranks: Some(ranks.view_mut()), best };
        sample::log_probabilities(stream, x.view(), asked)
    })
}

/// The places of the `k` largest or smallest of each row and these numbers, as [`sample::top_k`].
///
/// # Inputs
/// `x` `[rows, columns]`, f32, f16 or bf16; with `has_bounds` the first column of each row and the one behind its last, `[rows]`.
/// The outputs are places `[rows, k]`, i32, and numbers of the type of `x`.
pub fn top_k(order: Order, k: usize, sorted: bool, has_bounds: bool) -> Operator {
    let outputs = move |inputs: &[Spec]| {
        let shape = [inputs[0].extent(0), k];
        vec![Spec::new(shape, DType::I32), Spec::new(shape, inputs[0].dtype)]
    };
    let names = &["x", "starts", "ends"][..if has_bounds { 3 } else { 1 }];
    Operator::new("top_k", names, outputs, move |stream, inputs, outputs| {
        let x = with_rows(&inputs[0])?;
        let bounds = inputs[1..].iter().map(|bound| of_type(stream, bound, DType::I32)).collect::<Result<Vec<_>>>()?;
        let mut params = TopK::new(order);
        params.sorted = sorted;
        if let [starts, ends] = &bounds[..] {
            params.bounds = sample::Bounds::Between { starts: starts.view(), ends: ends.view() };
        }
        let [places, values] = outputs else { unreachable!("two outputs were described") };
        sample::top_k(stream, x.view(), &params, places.view_mut(), Some(values.view_mut()))
    })
}

/// Tokens of a draft that are kept and the token behind them, as [`sample::accept`].
///
/// # Inputs
/// Tokens `[rows, n]`; distributions of the target `[rows, n + 1, vocabulary]`, f32; with `has_draft` those of the draft `[rows, n,
/// vocabulary]`; seeds and offsets `[rows]`. The outputs are tokens `[rows, n + 1]`, i32, and how many were kept `[rows]`, i32.
pub fn accept(has_draft: bool) -> Operator {
    let names: &[&str] = if has_draft {
        &["tokens", "target", "draft", "seeds", "offsets"]
    } else {
        &["tokens", "target", "seeds", "offsets"]
    };
    Operator::new("accept", names, kept_tokens, move |stream, inputs, outputs| {
        let tokens = of_type(stream, &inputs[0], DType::I32)?;
        let target = with_rows(&inputs[1])?;
        let draft = has_draft.then(|| with_rows(&inputs[2])).transpose()?;
        let words = &inputs[inputs.len() - 2..];
        let [seeds, offsets] = [of_type(stream, &words[0], DType::I64)?, of_type(stream, &words[1], DType::I64)?];
        let draft = draft.as_ref().map(Tensor::view);
        let drafts = Drafts { tokens: tokens.view(), target: target.view(), draft };
        let [to, counts] = two(outputs);
        sample::accept(stream, &drafts, seeds.view(), offsets.view(), to, counts)
    })
}

/// The same where nothing is drawn, as [`sample::accept_greedy`].
///
/// # Inputs
/// Tokens `[rows, n]`; the target's own `[rows, n + 1]`. The outputs are those of [`accept`].
pub fn accept_greedy() -> Operator {
    Operator::new("accept_greedy", &["tokens", "targets"], kept_tokens, |stream, inputs, outputs| {
        let [tokens, targets] = [of_type(stream, &inputs[0], DType::I32)?, of_type(stream, &inputs[1], DType::I32)?];
        let [to, counts] = two(outputs);
        sample::accept_greedy(stream, tokens.view(), targets.view(), to, counts)
    })
}

fn kept_tokens(inputs: &[Spec]) -> Vec<Spec> {
    let (rows, n) = (inputs[0].extent(0), inputs[0].extent(1));
    vec![Spec::new([rows, n + 1], DType::I32), Spec::new([rows], DType::I32)]
}

/// Both outputs.
fn two(outputs: &mut [Tensor]) -> [ViewMut<'_>; 2] {
    let [first, second] = outputs else { unreachable!("two outputs were described") };
    [first.view_mut(), second.view_mut()]
}

/// How experts are chosen.
#[derive(Clone, Copy, Debug)]
pub struct RouteForm {
    /// How many of the columns are experts'.
    pub experts: usize,
    /// How many are chosen.
    pub chosen: usize,
    /// What a logit is worth.
    pub score: Score,
    /// Whether there is a bias to choose by.
    pub has_bias: bool,
    /// Groups.
    pub groups: Option<Groups>,
    /// Whether shares are divided by their sum.
    pub renormalises: bool,
    /// What shares are multiplied by.
    pub factor: f64,
    /// Experts of every token.
    pub shared: Option<Shared>,
}

impl RouteForm {
    /// By the score alone.
    pub fn new(experts: usize, chosen: usize, score: Score) -> RouteForm {
        RouteForm {
            experts,
            chosen,
            score,
            has_bias: false,
            groups: None,
            renormalises: false,
            factor: 1.0,
            shared: None,
        }
    }

    fn slots(&self) -> usize {
        self.chosen + self.shared.map_or(0, |shared| shared.count)
    }
}

/// The experts of each token and their shares, as [`experts::route()`].
///
/// # Inputs
/// `x` `[tokens, columns]`, f32, f16 or bf16; with `has_bias` the bias `[experts]`, f32. The outputs are shares `[tokens, chosen and
/// shared]`, f32, and numbers of experts, i32.
pub fn route(form: RouteForm) -> Operator {
    let outputs = move |inputs: &[Spec]| {
        let shape = [inputs[0].extent(0), form.slots()];
        vec![Spec::new(shape, DType::F32), Spec::new(shape, DType::I32)]
    };
    let names = &["x", "bias"][..1 + usize::from(form.has_bias)];
    Operator::new("route", names, outputs, move |stream, inputs, outputs| {
        let x = with_rows(&inputs[0])?;
        let bias = form.has_bias.then(|| of_type(stream, &inputs[1], DType::F32)).transpose()?;
        let mut params = RouteParams::new(form.experts, form.score);
        params.bias = bias.as_ref().map(Tensor::view);
        (params.groups, params.shared) = (form.groups, form.shared);
        (params.renormalises, params.factor) = (form.renormalises, form.factor);
        let [shares, ids] = two(outputs);
        experts::route(stream, x.view(), &params, shares, ids)
    })
}

/// Choices in the order of experts, as [`sort_by_expert`](experts::sort_by_expert()), in blocks of `block` places if it is given.
///
/// # Inputs
/// Numbers of experts `[tokens, k]`; with `groups` the group of each expert `[experts]`, of which there are so many. The outputs are
/// i32: the order, offsets `[groups + 1]`, the place of each choice `[tokens * k]`; with blocks the group of each.
pub fn sort_by_expert(experts: usize, groups: Option<usize>, block: Option<usize>) -> Operator {
    let count = groups.unwrap_or(experts);
    let outputs = move |inputs: &[Spec]| {
        let choices = inputs[0].extent(0) * inputs[0].extent(1);
        let places = block.map_or(choices, |block| ByExpert::places(choices, count, block));
        let blocks = block.map(|block| places.div_ceil(block.max(1)));
        let extents = [Some(places), Some(count + 1), Some(choices), blocks];
        extents.into_iter().flatten().map(|extent| Spec::new([extent], DType::I32)).collect()
    };
    let names = &["ids", "map"][..1 + usize::from(groups.is_some())];
    Operator::new("sort_by_expert", names, outputs, move |stream, inputs, outputs| {
        let ids = of_type(stream, &inputs[0], DType::I32)?;
        let map = groups.map(|_| of_type(stream, &inputs[1], DType::I32)).transpose()?;
        let mut params = SortParams::new(experts);
        params.map = map.as_ref().map(Tensor::view);
        let [order, offsets, inverse, blocks @ ..] = outputs else { unreachable!("three were described at least") };
        let mut total = Tensor::empty(ids.device(), &[1], DType::I32)?;
        let mut to = ByExpert::new(order.view_mut(), offsets.view_mut());
        to.inverse = Some(inverse.view_mut());
        if let (Some(places), [groups]) = (block, blocks) {
            to.blocks = Some(Blocks { places, groups: groups.view_mut(), total: total.view_mut() });
        }
        launch_sort(stream, ids.view(), &params, to)
    })
}
