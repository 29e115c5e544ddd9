//! Experts of tokens, and choices in the order of experts.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::experts::{
    Blocks, ByExpert, GroupScore, Groups, RouteParams, Score, Shared, SharedScore, SortParams, route, sort_by_expert,
};

use super::drawn::Draw;
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};

/// Tokens, experts, choices.
type Size = [usize; 3];

/// Groups, kept ones, whether by their two largest; shared experts; whether there is a bias.
#[derive(Clone, Copy, Debug)]
struct Form(Score, Option<(usize, usize, bool)>, usize, bool);

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const SCORES: [Score; 3] = [Score::Softmax, Score::Sigmoid, Score::SqrtSoftplus];
const ROUTES: [(Size, Form); 9] = [
    ([1, 1, 1], Form(Score::Softmax, None, 0, false)),
    ([5, 64, 8], Form(Score::Softmax, None, 0, false)),
    ([3, 128, 6], Form(Score::Sigmoid, None, 2, true)),
    ([9, 256, 8], Form(Score::Sigmoid, Some((8, 4, true)), 0, true)),
    ([2, 384, 8], Form(Score::SqrtSoftplus, None, 1, true)),
    ([4, 640, 4], Form(Score::Softmax, None, 0, false)),
    ([6, 160, 6], Form(Score::Softmax, Some((8, 3, false)), 2, false)),
    ([0, 16, 2], Form(Score::Sigmoid, None, 0, false)),
    ([33, 8, 1], Form(Score::Sigmoid, None, 0, false)),
];
/// Few choices of few experts by their logits alone: lists of every length, and experts that are no whole number of fours.
const LISTS: [(Size, Form); 6] = [
    ([10, 128, 8], Form(Score::Softmax, None, 0, false)),
    ([7, 61, 7], Form(Score::SqrtSoftplus, None, 0, false)),
    ([5, 254, 8], Form(Score::Sigmoid, None, 0, false)),
    ([3, 97, 6], Form(Score::Softmax, None, 0, false)),
    ([66, 256, 8], Form(Score::Softmax, None, 0, false)),
    ([4, 257, 8], Form(Score::Softmax, None, 0, false)),
];
/// Tokens, experts, choices; places of a block, 0 for none.
const SORTS: [(Size, usize); 8] = [
    ([1, 1, 1], 0),
    ([1, 256, 8], 0),
    ([63, 32, 5], 16),
    ([129, 385, 8], 0),
    ([300, 256, 8], 128),
    ([1500, 256, 8], 0),
    ([1031, 40, 7], 32),
    ([0, 8, 2], 0),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, (size, form)) in ROUTES.into_iter().enumerate() {
        for step in 0..2 {
            cases.push(routed(FLOATS[(turn + step) % 3], size, form, (turn + step) % 2 == 0));
        }
    }
    for (size, block) in SORTS {
        cases.push(sorted(size, block, false));
        cases.push(sorted(size, block, true));
    }
    for (turn, (size, form)) in LISTS.into_iter().enumerate() {
        cases.push(routed(FLOATS[turn % 3], size, form, turn % 2 == 0));
    }
    cases
}

/// Experts of any number.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let experts = draw.extent(1024);
    let size = [draw.extent(65), experts, 1 + draw.below(experts.min(16))];
    if draw.flag() {
        return sorted(size, [0, 1, 16, 33][draw.below(4)], draw.flag());
    }
    let form = Form(SCORES[draw.below(3)], None, draw.below(3), draw.flag());
    routed(FLOATS[draw.below(3)], size, form, draw.flag())
}

fn params(size: Size, form: Form, renormalises: bool) -> RouteParams<'static> {
    let mut params = RouteParams::new(size[1], form.0);
    let groups = form.1.map(|(count, kept, by_two)| Groups {
        count,
        kept,
        score: if by_two { GroupScore::TwoLargest } else { GroupScore::Largest },
    });
    params.groups = groups;
    params.shared = (form.2 > 0).then_some(Shared { count: form.2, score: SharedScore::Sigmoid });
    (params.renormalises, params.factor) = (renormalises, 2.5);
    params
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A token's shares and experts.
fn chosen(x: &[f64], bias: Option<&[f64]>, [_, experts, k]: Size, form: Form, renormalises: bool) -> [Vec<f64>; 2] {
    let Form(score, groups, shared, _) = form;
    let own = &x[..experts];
    let top = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let whole: f64 = own.iter().map(|x| (x - top).exp()).sum();
    let score = |x: f64| match score {
        Score::Softmax => (x - top).exp() / whole,
        Score::Sigmoid => sigmoid(x),
        Score::SqrtSoftplus => x.exp().ln_1p().sqrt(),
    };
    let choice = |n: usize| bias.map_or(own[n], |bias| score(own[n]) + bias[n]);
    let (count, kept, by_two) = groups.unwrap_or((1, 1, false));
    let size = experts / count;
    let worth = |group: usize| {
        let value = |n: usize| if by_two && bias.is_none() { score(own[n]) } else { choice(n) };
        let mut values: Vec<f64> = (group * size..(group + 1) * size).map(value).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        if by_two { values[0] + values[1] } else { values[0] }
    };
    let mut best: Vec<usize> = (0..count).collect();
    best.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
    best.truncate(kept);
    let mut order: Vec<usize> = (0..experts).filter(|n| best.contains(&(n / size))).collect();
    order.sort_by(|&a, &b| choice(b).total_cmp(&choice(a)));
    order.truncate(k);
    let sum = if renormalises { order.iter().map(|&n| score(own[n])).sum() } else { 1.0 };
    let shares = order.iter().map(|&n| 2.5 * score(own[n]) / sum);
    let shares = shares.chain(x[experts..].iter().map(|&x| sigmoid(x))).collect();
    [shares, order.iter().map(|&n| n as f64).chain((0..shared).map(|n| (experts + n) as f64)).collect()]
}

fn routed(dtype: DType, size: Size, form: Form, renormalises: bool) -> Case {
    let [tokens, experts, k] = size;
    let (columns, slots) = (experts + form.2, k + form.2);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [shares, ids] = outputs else { return Err("two outputs".into()) };
        let mut params = params(size, form, renormalises);
        params.bias = form.3.then(|| inputs[1].view());
        // One column more than is looked at.
        let x = inputs[0].view().with_layout(inputs[0].layout().slice(1, 1, columns + 1, 1)?)?;
        Ok(route(stream, x, &params, shares.view_mut(), ids.view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let bias = form.3.then_some(&inputs[1].values[..]);
        let row = |token: usize| &inputs[0].values[token * (columns + 1) + 1..][..columns];
        let found: Vec<_> = (0..tokens).map(|token| chosen(row(token), bias, size, form, renormalises)).collect();
        [0, 1].map(|at| found.iter().flat_map(|of| of[at].iter().copied()).collect()).to_vec()
    };
    let inputs = [Array::random(&[tokens, columns + 1], dtype, 1), Array::random(&[experts], DType::F32, 2)];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = vec![(vec![tokens, slots], DType::F32), (vec![tokens, slots], DType::I32)];
    let name = format!("{size:?} {form:?} renormalises {renormalises}");
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("route", dtype, name, (8 * tokens * experts) as f64, call).summing(experts)
}

/// `halved`: half of the experts are somebody else's, and one choice in nine nobody's.
fn sorted([tokens, experts, k]: Size, block: usize, halved: bool) -> Case {
    let choices = tokens * k;
    let groups = if halved { experts.div_ceil(2) } else { experts };
    let places = if block == 0 { choices } else { ByExpert::places(choices, groups, block) };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [ids, map, weights] = inputs else { return Err("three inputs".into()) };
        let [order, offsets, inverse, sorted, of_blocks, total] = outputs else { return Err("six outputs".into()) };
        let mut params = SortParams::new(experts);
        params.map = halved.then(|| map.view());
        // Without blocks these are not written.
        rocfire_fusion::eager::fill(of_blocks.view_mut(), rocfire_fusion::Scalar::Int(-1))?;
        rocfire_fusion::eager::fill(total.view_mut(), rocfire_fusion::Scalar::Int(-1))?;
        let mut to = ByExpert::new(order.view_mut(), offsets.view_mut());
        to.inverse = Some(inverse.view_mut());
        to.weights = Some((weights.view(), sorted.view_mut()));
        to.blocks =
            (block > 0).then(|| Blocks { places: block, groups: of_blocks.view_mut(), total: total.view_mut() });
        Ok(sort_by_expert(stream, ids.view(), &params, to)?)
    };
    let oracle = move |inputs: &[Array]| {
        let [ids, map, weights] = [&inputs[0].values, &inputs[1].values, &inputs[2].values];
        let group = |n: usize| -> Option<usize> {
            let own = usize::try_from(ids[n] as i64).ok().filter(|&id| id < experts)?;
            if halved { usize::try_from(map[own] as i64).ok() } else { Some(own) }
        };
        let step = block.max(1);
        let (mut order, mut inverse) = (vec![choices as f64; places], vec![-1.0; choices]);
        let (mut sorted, mut of_blocks) = (vec![0.0; places], vec![-1.0; places.div_ceil(step)]);
        let (mut offsets, mut at) = (vec![0.0], 0);
        let mut put = |at: usize, n: usize, weight: f64| {
            (order[at], inverse[n], sorted[at]) = (n as f64, at as f64, weight);
        };
        for own in 0..groups {
            let first = at;
            for n in (0..choices).filter(|&n| group(n) == Some(own)) {
                put(at, n, weights[n]);
                at += 1;
            }
            at = at.next_multiple_of(step);
            if block > 0 {
                of_blocks[first / step..at / step].fill(own as f64);
            }
            offsets.push(at as f64);
        }
        let total = if block > 0 { at as f64 } else { -1.0 };
        for n in (0..choices).filter(|&n| block == 0 && group(n).is_none()) {
            put(at, n, 0.0);
            at += 1;
        }
        vec![order, offsets, inverse, sorted, of_blocks, vec![total]]
    };
    let id = |n: usize| match n % 9 {
        5 if halved => -1.0,
        _ => ((n / k * 7 + n % k * (n % k)) % experts) as f64,
    };
    let map = (0..experts).map(|n| if n % 2 == 0 { (n / 2) as f64 } else { -1.0 }).collect();
    let inputs = [
        Array::new(&[tokens, k], DType::I32, (0..choices).map(id).collect()),
        Array::new(&[experts], DType::I32, map),
        Array::random(&[tokens, k], DType::F32, 4),
    ];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = [places, groups + 1, choices, places, places.div_ceil(block.max(1)), 1];
    let dtype = |at: usize| if at == 3 { DType::F32 } else { DType::I32 };
    let outputs = outputs.into_iter().enumerate().map(|(at, extent)| (vec![extent], dtype(at))).collect();
    let size = format!("{tokens} x {k} of {experts} by {block} halved {halved}");
    Case::new("sort_by_expert", DType::I32, size, choices as f64, Call { inputs, outputs, launch, oracle })
}
