//! From logits to tokens: what is left of rows, who wins, the largest few, logarithms, penalties, drafts.

use rocfire_hal::{DType, Stream, Tensor, View};
use rocfire_kernels::sample::{
    Bounds, Drafts, Draw, LogProbabilities, Penalties, SampleParams, TopK, accept, accept_greedy, log_probabilities,
    penalise, probabilities, sample, top_k,
};
use rocfire_kernels::sort::Order;

use super::drawn::Draw as Choice;
use super::random::philox;
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};

/// What all rows of a case are told: temperature, top-k, top-p, min-p, whether there is a mask.
#[derive(Clone, Copy, Debug)]
struct Left(f64, i32, f64, f64, bool);

/// Rows, tokens, columns behind them that are not theirs.
type Size = [usize; 3];

const SIZES: [(Size, Left); 8] = [
    ([1, 1, 0], Left(1.0, 0, 1.0, 0.0, false)),
    ([3, 111, 0], Left(0.7, 20, 0.9, 0.0, false)),
    ([2, 1000, 3], Left(1.0, 0, 0.8, 0.0, true)),
    ([2, 257, 1], Left(1.3, 40, 1.0, 0.1, true)),
    ([4, 2500, 0], Left(1.0, 50, 0.9, 0.01, false)),
    ([1, 5003, 0], Left(2.0, 3000, 0.95, 0.0, false)),
    ([2, 33, 0], Left(0.0, 5, 1.0, 0.0, true)),
    ([0, 8, 0], Left(1.0, 0, 1.0, 0.0, false)),
];
const SEED: u64 = 0x0123_4567_89ab;
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, (size, left)) in SIZES.into_iter().enumerate() {
        for step in 0..2 {
            let dtype = FLOATS[(turn + step) % 3];
            cases.push(sampled(dtype, size, left));
            cases.push(distribution(dtype, size, left));
        }
        cases.push(logs(FLOATS[turn % 3], size));
        cases.push(penalised(FLOATS[(turn + 1) % 3], size));
    }
    for (turn, (size, k)) in
        [([1, 1, 0], 1), ([3, 65, 2], 7), ([2, 2500, 0], 50), ([2, 3001, 1], 2048), ([5, 40, 0], 64)]
            .into_iter()
            .enumerate()
    {
        cases.push(largest(FLOATS[turn % 3], size, k, turn % 2 == 0, turn % 3 == 1));
        cases.push(largest(FLOATS[(turn + 1) % 3], size, k, turn % 2 == 1, turn % 3 == 0));
    }
    for (turn, shape) in [[1, 1, 1], [4, 3, 111], [2, 4, 1000], [3, 0, 64]].into_iter().enumerate() {
        cases.push(accepted(shape, turn % 2 == 0));
        cases.push(accepted(shape, turn % 2 == 1));
        cases.push(accepted_greedy(shape[0], shape[1]));
    }
    cases.push(accepted_greedy(401, 3));
    cases
}

/// Rows of any size by rules that each keep some or all.
pub fn drawn(choice: &mut Choice<'_>) -> Case {
    let dtype = FLOATS[choice.below(3)];
    let size = [choice.extent(5), choice.extent(1025), choice.below(4)];
    let left = Left(
        [1.0, 0.5, 2.0, 0.0][choice.below(4)],
        choice.below(40) as i32,
        [1.0, 0.9, 0.5, 0.1][choice.below(4)],
        [0.0, 0.05, 0.5][choice.below(3)],
        choice.flag(),
    );
    match choice.below(5) {
        0 => sampled(dtype, size, left),
        1 => distribution(dtype, size, left),
        2 => logs(dtype, size),
        3 => penalised(dtype, size),
        _ => {
            let k = choice.extent(257);
            largest(dtype, size, k, choice.flag(), choice.flag())
        }
    }
}

/// The tokens' columns of rows.
fn tokens_of(x: &Tensor, [_, count, _]: Size) -> Result<View<'_>, Failure> {
    Ok(x.view().with_layout(x.layout().slice(1, 0, count, 1)?)?)
}

/// Bits of a mask, about two of three: never all of a word.
fn mask([rows, count, _]: Size) -> Array {
    let word = |n: usize| f64::from((n as u32).wrapping_mul(0x9e37_79b9) | 0x2492_4925);
    Array::new(&[rows, count.div_ceil(32)], DType::U32, (0..rows * count.div_ceil(32)).map(word).collect())
}

/// Logits, what rows are told, seeds and offsets.
fn inputs(dtype: DType, size: Size, left: Left) -> Vec<(Array, Placement)> {
    let [rows, count, behind] = size;
    let x = Array::random(&[rows, count + behind], dtype, count as u64);
    let spread = Array::new(&x.shape, dtype, x.values.iter().map(|x| 3.0 * x).collect());
    let told = |dtype, value: f64| Array::new(&[rows], dtype, vec![value; rows]);
    let words =
        |first: u64| Array::new(&[rows], DType::I64, (0..rows as u64).map(|row| (first + row) as f64).collect());
    let all = [
        spread,
        told(DType::F32, left.0),
        told(DType::I32, f64::from(left.1)),
        told(DType::F32, left.2),
        told(DType::F32, left.3),
        mask(size),
        words(SEED),
        words(40),
    ];
    all.into_iter().map(|array| (array, Placement::Contiguous)).collect()
}

fn params<'a>(inputs: &'a [Tensor], left: Left) -> SampleParams<'a> {
    let mut params = SampleParams::default();
    params.temperature = Some(inputs[1].view());
    params.top_k = Some(inputs[2].view());
    params.top_p = Some(inputs[3].view());
    params.min_p = Some(inputs[4].view());
    params.mask = left.4.then(|| inputs[5].view());
    params.draw = Draw::Seeds { seeds: inputs[6].view(), offsets: inputs[7].view() };
    params
}

/// What is left of each row, by sorting it.
fn left_of(inputs: &[Array], [rows, count, behind]: Size, left: Left) -> Vec<Vec<f64>> {
    let Left(temperature, top_k, top_p, min_p, has_mask) = left;
    let words = count.div_ceil(32);
    let row = |row: usize| {
        let x = &inputs[0].values[row * (count + behind)..][..count];
        let bits = &inputs[5].values[row * words..][..words];
        let there = |n: usize| !has_mask || (bits[n / 32] as u64 >> (n % 32)) & 1 == 1;
        let mut order: Vec<usize> = (0..count).filter(|&n| there(n)).collect();
        order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
        let mut kept = vec![0.0; count];
        let Some(&first) = order.first() else { return kept };
        if temperature <= 0.0 {
            kept[first] = 1.0;
            return kept;
        }
        let weight = |n: usize| ((x[n] - x[first]) / temperature).exp();
        let whole: f64 = order.iter().map(|&n| weight(n)).sum();
        // How many are strictly larger, and what they have.
        let (mut larger, mut mass) = (0, 0.0);
        for (at, &n) in order.iter().enumerate() {
            if at > 0 && x[n] < x[order[at - 1]] {
                (larger, mass) = (at, order[..at].iter().map(|&m| weight(m)).sum());
            }
            let stays = (top_k <= 0 || larger < top_k as usize) && (top_p >= 1.0 || mass < top_p * whole);
            if larger == 0 || (stays && weight(n) >= min_p) {
                kept[n] = weight(n);
            }
        }
        let sum: f64 = kept.iter().sum();
        kept.iter().map(|weight| weight / sum).collect()
    };
    (0..rows).map(row).collect()
}

/// The place with the largest chance over a number of the exponential distribution.
fn winner(chances: &[f64], seed: u64, offset: u64) -> Option<usize> {
    let score = |n: usize| {
        let word = philox(n as u64 / 4, offset, seed)[n % 4];
        chances[n] / -(-(f64::from(word) + 0.5) * 2f64.powi(-32)).ln_1p()
    };
    let best = |best: usize, n: usize| if score(n) > score(best) { n } else { best };
    (0..chances.len()).filter(|&n| chances[n] > 0.0).reduce(best)
}

fn sampled(dtype: DType, size: Size, left: Left) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let x = tokens_of(&inputs[0], size)?;
        Ok(sample(stream, x, &params(inputs, left), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let left = left_of(inputs, size, left);
        let token = |(row, chances): (usize, &Vec<f64>)| {
            let words = [6, 7].map(|input| inputs[input].values[row] as u64);
            winner(chances, words[0], words[1]).unwrap_or(0) as f64
        };
        vec![left.iter().enumerate().map(token).collect()]
    };
    let call = Call { inputs: inputs(dtype, size, left), outputs: vec![(vec![size[0]], DType::I32)], launch, oracle };
    Case::new("sample", dtype, format!("{size:?} {left:?}"), (size[0] * size[1]) as f64, call)
}

fn distribution(dtype: DType, size: Size, left: Left) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let x = tokens_of(&inputs[0], size)?;
        Ok(probabilities(stream, x, &params(inputs, left), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| vec![left_of(inputs, size, left).concat()];
    let outputs = vec![(vec![size[0], size[1]], DType::F32)];
    let call = Call { inputs: inputs(dtype, size, left), outputs, launch, oracle };
    let flops = (size[0] * size[1]) as f64;
    Case::new("probabilities", dtype, format!("{size:?} {left:?}"), flops, call).summing(size[1])
}

/// A token of each row, and the three likeliest.
fn logs(dtype: DType, size: Size) -> Case {
    let [rows, count, behind] = size;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [chosen, ranks, best, best_logs] = outputs else { return Err("four outputs".into()) };
        let mut asked = LogProbabilities::default();
        asked.chosen = Some((inputs[1].view(), chosen.view_mut()));
        asked.ranks = Some(ranks.view_mut());
        asked.best = Some((best.view_mut(), best_logs.view_mut()));
        Ok(log_probabilities(stream, tokens_of(&inputs[0], size)?, asked)?)
    };
    let most = count.min(3);
    let oracle = move |inputs: &[Array]| {
        let mut found = vec![Vec::new(); 4];
        for row in 0..rows {
            let (x, token) = (&inputs[0].values[row * (count + behind)..][..count], inputs[1].values[row] as usize);
            let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let lost = x.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
            found[0].push(x[token] - top - lost);
            found[1].push(1.0 + x.iter().filter(|&&other| other > x[token]).count() as f64);
            found[2].extend(order[..most].iter().map(|&n| n as f64));
            found[3].extend(order[..most].iter().map(|&n| x[n] - top - lost));
        }
        found
    };
    let tokens = (0..rows).map(|row| (row * 37 % count) as f64).collect();
    let inputs = [
        Array::random(&[rows, count + behind], dtype, 3),
        Array::new(&[rows], [DType::I32, DType::I64][count % 2], tokens),
    ];
    let outputs = [(1, DType::F32), (1, DType::I32), (most, DType::I32), (most, DType::F32)];
    let shape = |each: usize, at: usize| if at < 2 { vec![rows] } else { vec![rows, each] };
    let outputs = outputs.into_iter().enumerate().map(|(at, (each, dtype))| (shape(each, at), dtype)).collect();
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("log_probabilities", dtype, format!("{size:?}"), (2 * rows * count) as f64, call).summing(count)
}

/// Every third token is listed.
fn penalised(dtype: DType, size: Size) -> Case {
    let [rows, count, behind] = size;
    let listed = count.div_ceil(3);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [x, tokens, counts, biases, repetition, frequency, presence] = inputs else {
            return Err("seven inputs".into());
        };
        rocfire_fusion::eager::copy_into(x.view(), outputs[0].view_mut())?;
        let mut penalties = Penalties::new(tokens.view());
        (penalties.counts, penalties.biases) = (Some(counts.view()), Some(biases.view()));
        penalties.repetition = Some(repetition.view());
        (penalties.frequency, penalties.presence) = (Some(frequency.view()), Some(presence.view()));
        let layout = *outputs[0].layout();
        let to = outputs[0].view_mut().with_layout(layout.slice(1, 0, count, 1)?)?;
        Ok(penalise(stream, to, &penalties)?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut x = inputs[0].values.to_vec();
        for n in 0..rows * listed {
            let (row, token, times) = (n / listed, inputs[1].values[n], inputs[2].values[n]);
            let told = |input: usize| inputs[input].values[row];
            if token < 0.0 {
                continue;
            }
            let x = &mut x[row * (count + behind) + token as usize];
            *x = if *x > 0.0 { *x / told(4) } else { *x * told(4) };
            if times > 0.0 {
                *x = *x - told(5) * times - told(6);
            }
            *x += inputs[3].values[n];
        }
        vec![x]
    };
    let tokens = (0..rows * listed).map(|n| if n % 7 == 6 { -1.0 } else { (n % listed * 3) as f64 }).collect();
    let factors = |value: f64| (0..rows).map(|row| value + row as f64 / 4.0).collect();
    let inputs = [
        Array::random(&[rows, count + behind], dtype, 5),
        Array::new(&[rows, listed], DType::I32, tokens),
        Array::new(&[rows, listed], DType::I32, (0..rows * listed).map(|n| (n % 3) as f64).collect()),
        Array::random(&[rows, listed], DType::F32, 6),
        Array::new(&[rows], DType::F32, factors(1.25)),
        Array::new(&[rows], DType::F32, factors(0.5)),
        Array::new(&[rows], DType::F32, factors(-0.25)),
    ];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let call = Call { inputs, outputs: vec![(vec![rows, count + behind], dtype)], launch, oracle };
    Case::new("penalise", dtype, format!("{size:?}"), (4 * rows * listed) as f64, call).summing(4)
}

/// The largest, or smallest, of whole rows or of a part of each.
fn largest(dtype: DType, size: Size, k: usize, is_sorted: bool, is_part: bool) -> Case {
    let [rows, count, behind] = size;
    let order = if is_sorted == is_part { Order::Descending } else { Order::Ascending };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [places, values] = outputs else { return Err("two outputs".into()) };
        let mut params = TopK::new(order);
        params.sorted = is_sorted;
        if is_part {
            params.bounds = Bounds::Between { starts: inputs[1].view(), ends: inputs[2].view() };
        }
        let x = tokens_of(&inputs[0], size)?;
        Ok(top_k(stream, x, &params, places.view_mut(), Some(values.view_mut()))?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut found = vec![Vec::new(); 2];
        for row in 0..rows {
            let x = &inputs[0].values[row * (count + behind)..][..count];
            let part = if is_part { inputs[1].values[row] as usize..inputs[2].values[row] as usize } else { 0..count };
            let mut best: Vec<usize> = part.collect();
            best.sort_by(
                |&a, &b| if order == Order::Descending { x[b].total_cmp(&x[a]) } else { x[a].total_cmp(&x[b]) },
            );
            best.truncate(k);
            if !is_sorted {
                best.sort_unstable();
            }
            let worst = if order == Order::Descending { f64::NEG_INFINITY } else { f64::INFINITY };
            for slot in 0..k {
                let (place, value) = best.get(slot).map_or((-1.0, worst), |&n| (n as f64, x[n]));
                found[0].push(place);
                found[1].push(value);
            }
        }
        found
    };
    let bound = |of: &dyn Fn(usize) -> usize| (0..rows).map(|row| of(row) as f64).collect();
    let inputs = [
        Array::random(&[rows, count + behind], dtype, 8),
        Array::new(&[rows], DType::I32, bound(&|row| (3 * row).min(count))),
        Array::new(&[rows], DType::I32, bound(&|row| count.saturating_sub(5 * row).max((3 * row).min(count)))),
    ];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = vec![(vec![rows, k], DType::I32), (vec![rows, k], dtype)];
    let size = format!("{k} of {size:?} {order:?} sorted {is_sorted} part {is_part}");
    Case::new("top_k_rows", dtype, size, (rows * count) as f64, Call { inputs, outputs, launch, oracle })
}

/// Drafts whose distributions are multiples of 2⁻¹⁰, so that differences are exact.
fn accepted([rows, n, count]: [usize; 3], is_certain: bool) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [tokens, target, draft, seeds, offsets] = inputs else { return Err("five inputs".into()) };
        let draft = (!is_certain).then(|| draft.view());
        let drafts = Drafts { tokens: tokens.view(), target: target.view(), draft };
        let [to, counts] = outputs else { return Err("two outputs".into()) };
        Ok(accept(stream, &drafts, seeds.view(), offsets.view(), to.view_mut(), counts.view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut found = vec![Vec::new(); 2];
        for row in 0..rows {
            let words = [3, 4].map(|input| inputs[input].values[row] as u64);
            let tokens = &inputs[0].values[row * n..(row + 1) * n];
            let p = |i: usize| &inputs[1].values[(row * (n + 1) + i) * count..][..count];
            let q = |i: usize, token: usize| match is_certain {
                true => f64::from(u8::from(tokens[i] == token as f64)),
                false => inputs[2].values[(row * n + i) * count + token],
            };
            let u =
                |i: usize| f64::from(philox((1 << 40) + i as u64 / 4, words[1], words[0])[i % 4] >> 8) * 2f64.powi(-24);
            let is_kept = |i: usize| {
                let token = tokens[i] as usize;
                u(i) * q(i, token) < p(i)[token]
            };
            let kept = (0..n).find(|&i| !is_kept(i)).unwrap_or(n);
            let rest: Vec<f64> = match kept < n {
                true => (0..count).map(|token| (p(kept)[token] - q(kept, token)).max(0.0)).collect(),
                false => p(n).to_vec(),
            };
            let next = winner(&rest, words[0], words[1]).or_else(|| winner(p(kept), words[0], words[1])).unwrap_or(0);
            found[0].extend(&tokens[..kept]);
            found[0].push(next as f64);
            found[0].extend(vec![-1.0; n - kept]);
            found[1].push(kept as f64);
        }
        found
    };
    let tokens = (0..rows * n).map(|at| (at * 29 % count) as f64).collect();
    // The draft's own tokens are likely, and a little less so by the target.
    let shares = |rows_each: usize, step: usize| -> Vec<f64> {
        let share = |at: usize| {
            let (row, token) = (at / count, at % count);
            let own = row / rows_each * n + row % rows_each;
            let is_own = row % rows_each < n && own * 29 % count == token;
            if is_own {
                (700 - 200 * step) as f64 / 1024.0
            } else {
                ((at * 31 + step) % 23).saturating_sub(7) as f64 / 1024.0
            }
        };
        (0..rows * rows_each * count).map(share).collect()
    };
    let words = |first: u64| (0..rows as u64).map(|row| (first + row) as f64).collect();
    let inputs = [
        Array::new(&[rows, n], DType::I32, tokens),
        Array::new(&[rows, n + 1, count], DType::F32, shares(n + 1, 1)),
        Array::new(&[rows, n, count], DType::F32, shares(n.max(1), 0)[..rows * n * count].to_vec()),
        Array::new(&[rows], DType::I64, words(SEED)),
        Array::new(&[rows], DType::I64, words(7)),
    ];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = vec![(vec![rows, n + 1], DType::I32), (vec![rows], DType::I32)];
    let size = format!("{rows} x {n} of {count} certain {is_certain}");
    Case::new("accept", DType::F32, size, (rows * count) as f64, Call { inputs, outputs, launch, oracle })
}

fn accepted_greedy(rows: usize, n: usize) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [to, counts] = outputs else { return Err("two outputs".into()) };
        Ok(accept_greedy(stream, inputs[0].view(), inputs[1].view(), to.view_mut(), counts.view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut found = vec![Vec::new(); 2];
        for row in 0..rows {
            let (drafts, own) = (&inputs[0].values[row * n..][..n], &inputs[1].values[row * (n + 1)..][..n + 1]);
            let kept = drafts.iter().zip(own).take_while(|(draft, own)| draft == own).count();
            found[0].extend(drafts[..kept].iter().chain([&own[kept]]));
            found[0].extend(vec![-1.0; n - kept]);
            found[1].push(kept as f64);
        }
        found
    };
    // Row by row one more draft is right.
    let drafts = (0..rows * n).map(|at| (at % n + usize::from(at % n >= at / n)) as f64).collect();
    let own = (0..rows * (n + 1)).map(|at| (at % (n + 1)) as f64).collect();
    let inputs = [Array::new(&[rows, n], DType::I32, drafts), Array::new(&[rows, n + 1], DType::I32, own)];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = vec![(vec![rows, n + 1], DType::I32), (vec![rows], DType::I32)];
    Case::new("accept_greedy", DType::I32, format!("{rows} x {n}"), 0.0, Call { inputs, outputs, launch, oracle })
}
