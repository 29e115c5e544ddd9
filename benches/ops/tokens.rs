//! Sampling, and routing to experts, where models that serve call them.

use rocfire_hal::{DType, Device, Stream, Tensor};
use rocfire_kernels::experts::{ByExpert, GroupScore, Groups, RouteParams, Score, SortParams, route, sort_by_expert};
use rocfire_kernels::sample::{Bounds, Draw, LogProbabilities, SampleParams, TopK, log_probabilities, sample, top_k};
use rocfire_kernels::sort::Order;

use crate::launchers::Timed;
use crate::op::{Error, Make, Op, elements, filled, shape_text};

/// Sequences of a step, and a vocabulary.
const ROWS: usize = 64;
const VOCABULARY: usize = 128_256;

/// What is left of each row.
#[derive(Clone, Copy)]
struct Left {
    temperature: f32,
    top_k: i32,
    top_p: f32,
    draws: bool,
}

fn words<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

/// Whole numbers of a tensor of i32.
fn whole(tensor: &Tensor) -> Result<Vec<i32>, Error> {
    let bytes = tensor.to_bytes()?;
    Ok(bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().expect("four bytes"))).collect())
}

fn samples(device: &Device, name: &str, dtype: DType, left: Left) -> Result<Op, Error> {
    let tensors = vec![
        (vec![ROWS, VOCABULARY], dtype),
        (vec![ROWS], DType::F32),
        (vec![ROWS], DType::I32),
        (vec![ROWS], DType::F32),
        (vec![ROWS], DType::I64),
        (vec![ROWS], DType::I64),
        (vec![ROWS], DType::I32),
    ];
    let of_make = tensors.clone();
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let offsets: Vec<i64> = (0..ROWS as i64).collect();
        let bytes = [
            words(&[left.temperature; ROWS], f32::to_le_bytes),
            words(&[left.top_k; ROWS], i32::to_le_bytes),
            words(&[left.top_p; ROWS], f32::to_le_bytes),
            words(&[set as i64; ROWS], i64::to_le_bytes),
            words(&offsets, i64::to_le_bytes),
            words(&[0_i32; ROWS], i32::to_le_bytes),
        ];
        let told = of_make[1..].iter().zip(&bytes);
        let told = told.map(|((shape, dtype), bytes)| Ok(Tensor::from_bytes(device, shape, *dtype, bytes)?));
        std::iter::once(filled(device, &of_make[0].0, dtype, set)).chain(told).collect()
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, temperature, k, p, seeds, offsets, tokens] = all else { return Err("seven tensors".into()) };
        let mut params = SampleParams::default();
        (params.temperature, params.top_k, params.top_p) = (Some(temperature.view()), Some(k.view()), Some(p.view()));
        if left.draws {
            params.draw = Draw::Seeds { seeds: seeds.view(), offsets: offsets.view() };
        }
        Ok(sample(stream, x.view(), &params, tokens.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (bytes, tokens) = (all[0].to_bytes()?, whole(&all[6])?);
        for row in (0..ROWS).step_by(ROWS / 8) {
            let x = elements(&bytes, dtype, row * VOCABULARY, VOCABULARY);
            let token = usize::try_from(tokens[row])?;
            let weight = |x: f64| (x / f64::from(left.temperature)).exp();
            let larger = x.iter().filter(|&&other| other > x[token]);
            let (count, mass) = larger.fold((0, 0.0), |(count, mass), &x| (count + 1, mass + weight(x)));
            let whole: f64 = x.iter().map(|&x| weight(x)).sum();
            let by_k = left.top_k <= 0 || count < left.top_k;
            let by_p = left.top_p >= 1.0 || mass < (f64::from(left.top_p) + 1e-5) * whole;
            if !(by_k && by_p && (left.draws || count == 0)) {
                return Err(format!("row {row}: token {token} has {count} likelier ones").into());
            }
        }
        Ok(())
    };
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = shape_text(&[ROWS, VOCABULARY]);
    Timed { shape, flops: (2 * ROWS * VOCABULARY) as f64, tensors, make, launch, check }.op(device, name)
}

const HOT: Left = Left { temperature: 0.8, top_k: 0, top_p: 1.0, draws: true };

/// The largest of long rows, as an indexer's keys.
fn largest(device: &Device, name: &str, columns: usize, k: usize, sorted: bool) -> Result<Op, Error> {
    let tensors = vec![(vec![ROWS, columns], DType::F32), (vec![ROWS, k], DType::I32)];
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, places] = all else { return Err("two tensors".into()) };
        let mut params = TopK::new(Order::Descending);
        (params.sorted, params.bounds) = (sorted, Bounds::All);
        Ok(top_k(stream, x.view(), &params, places.view_mut(), None)?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (bytes, places) = (all[0].to_bytes()?, whole(&all[1])?);
        for row in (0..ROWS).step_by(ROWS / 8) {
            let x = elements(&bytes, DType::F32, row * columns, columns);
            let mut order: Vec<usize> = (0..columns).collect();
            order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
            order.truncate(k);
            if !sorted {
                order.sort_unstable();
            }
            if !order.iter().zip(&places[row * k..]).all(|(&want, &got)| want as i32 == got) {
                return Err(format!("row {row} has other places").into());
            }
        }
        Ok(())
    };
    Timed::floats(&[ROWS, columns], 1.0, tensors, launch, check).op(device, name)
}

/// The token 0 and the twenty likeliest.
fn logs(device: &Device, name: &str) -> Result<Op, Error> {
    const BEST: usize = 20;
    let tensors = vec![
        (vec![ROWS, VOCABULARY], DType::F32),
        (vec![ROWS], DType::I32),
        (vec![ROWS], DType::F32),
        (vec![ROWS, BEST], DType::I32),
        (vec![ROWS, BEST], DType::F32),
    ];
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, tokens, chosen, best, logs] = all else { return Err("five tensors".into()) };
        let mut asked = LogProbabilities::default();
        asked.chosen = Some((tokens.view(), chosen.view_mut()));
        asked.best = Some((best.view_mut(), logs.view_mut()));
        Ok(log_probabilities(stream, x.view(), asked)?)
    };
    let check = |all: &[Tensor]| -> Result<(), Error> {
        let (bytes, got) = (all[0].to_bytes()?, elements(&all[2].to_bytes()?, DType::F32, 0, ROWS));
        for row in (0..ROWS).step_by(ROWS / 8) {
            let x = elements(&bytes, DType::F32, row * VOCABULARY, VOCABULARY);
            let want = x[0] - x.iter().map(|x| x.exp()).sum::<f64>().ln();
            if (got[row] - want).abs() > 1e-4 {
                return Err(format!("row {row}: {} and not {want}", got[row]).into());
            }
        }
        Ok(())
    };
    Timed::floats(&[ROWS, VOCABULARY], 2.0, tensors, launch, check).op(device, name)
}

const EXPERTS: usize = 256;
const CHOSEN: usize = 8;

/// What of routing is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Route,
    Sort,
    Both,
}

/// Choices by sigmoid and bias in 4 of 8 groups, as DeepSeek-V3 has them, and their order.
fn routes(device: &Device, name: &str, tokens: usize, part: Part) -> Result<Op, Error> {
    let choices = tokens * CHOSEN;
    let tensors = vec![
        (vec![tokens, EXPERTS], DType::F32),
        (vec![EXPERTS], DType::F32),
        (vec![tokens, CHOSEN], DType::F32),
        (vec![tokens, CHOSEN], DType::I32),
        (vec![choices], DType::I32),
        (vec![choices], DType::I32),
        (vec![EXPERTS + 1], DType::I32),
    ];
    let run_route = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, bias, shares, ids, ..] = all else { return Err("seven tensors".into()) };
        let mut params = RouteParams::new(EXPERTS, Score::Sigmoid);
        params.bias = Some(bias.view());
        params.groups = Some(Groups { count: 8, kept: 4, score: GroupScore::TwoLargest });
        (params.renormalises, params.factor) = (true, 2.5);
        Ok(route(stream, x.view(), &params, shares.view_mut(), ids.view_mut())?)
    };
    let of_make = tensors.clone();
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let make = |(at, (shape, dtype)): (usize, &(Vec<usize>, DType))| match dtype {
            DType::F32 => filled(device, shape, *dtype, set * 8 + at as u64),
            _ => Ok(Tensor::empty(device, shape, *dtype)?),
        };
        let mut all = of_make.iter().enumerate().map(make).collect::<Result<Vec<_>, Error>>()?;
        run_route(device.stream(), &mut all)?;
        Ok(all)
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        if part != Part::Sort {
            run_route(stream, all)?;
        }
        if part == Part::Route {
            return Ok(());
        }
        let [.., ids, order, inverse, offsets] = all else { return Err("seven tensors".into()) };
        let mut to = ByExpert::new(order.view_mut(), offsets.view_mut());
        to.inverse = Some(inverse.view_mut());
        Ok(sort_by_expert(stream, ids.view(), &SortParams::new(EXPERTS), to)?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let [ids, order, offsets] = [whole(&all[3])?, whole(&all[4])?, whole(&all[6])?];
        if ids.iter().any(|id| !(0..EXPERTS as i32).contains(id)) {
            return Err("an expert that there is not".into());
        }
        if part == Part::Route {
            return Ok(());
        }
        let mut want: Vec<i32> = (0..choices as i32).collect();
        want.sort_by_key(|&n| ids[n as usize]);
        if order != want || offsets[EXPERTS] != choices as i32 {
            return Err("choices are in another order".into());
        }
        Ok(())
    };
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = shape_text(&[tokens, EXPERTS]);
    Timed { shape, flops: (8 * tokens * EXPERTS) as f64, tensors, make, launch, check }.op(device, name)
}

pub const OPS: &[Make] = &[
    ("sample top-k top-p f32", |device, name| samples(device, name, DType::F32, Left { top_k: 50, top_p: 0.9, ..HOT })),
    ("sample top-p f32", |device, name| samples(device, name, DType::F32, Left { top_p: 0.9, ..HOT })),
    ("sample top-k top-p bf16", |device, name| {
        samples(device, name, DType::BF16, Left { top_k: 50, top_p: 0.9, ..HOT })
    }),
    ("sample f32", |device, name| samples(device, name, DType::F32, HOT)),
    ("sample greedy f32", |device, name| samples(device, name, DType::F32, Left { draws: false, ..HOT })),
    ("log-probabilities f32", logs),
    ("largest 50 f32", |device, name| largest(device, name, VOCABULARY, 50, true)),
    ("largest 2048 f32", |device, name| largest(device, name, 65_536, 2048, false)),
    ("route and sort f32", |device, name| routes(device, name, 8192, Part::Both)),
    ("route and sort f32", |device, name| routes(device, name, 1, Part::Both)),
    ("route f32", |device, name| routes(device, name, 8192, Part::Route)),
    ("sort by expert", |device, name| routes(device, name, 8192, Part::Sort)),
    ("sort by expert", |device, name| routes(device, name, 1, Part::Sort)),
];
