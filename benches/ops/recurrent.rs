//! Layers that leave states behind, decoding and over prompts, and what a mixture of experts runs around its products.
//!
//! Bytes count a state twice: it is read and written. Of drafts the state after each token is, and one of those is read.

use rocfire_hal::{DType, Device, Stream, Tensor};
use rocfire_kernels::causal_conv::{CausalConv, Sequences, Window, causal_conv};
use rocfire_kernels::delta::{DeltaGates, DeltaInputs, DeltaParams, DeltaStates, delta_rule};
use rocfire_kernels::experts::{CombineParams, combine};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped};
use rocfire_kernels::selective_scan::{ScanKept, SelectiveScan, selective_scan};

use crate::launchers::Timed;
use crate::op::{CHECKED_ROWS, Error, Make, Op, compare, elements, filled, shape_text, tolerance};

const BF16: DType = DType::BF16;
/// Sequences that decode, drafts and prompts, with their tokens.
const DECODED: [usize; 2] = [64, 1];
const DRAFTS: [usize; 2] = [64, 4];
const PROMPTS: [usize; 2] = [8, 4096];

pub const OPS: &[Make] = &[
    ("combine experts bf16", combined),
    ("product by choices bf16", chosen),
    ("causal conv decode bf16", |device, name| convolved(device, name, DECODED, 8192)),
    ("causal conv drafts bf16", |device, name| convolved(device, name, DRAFTS, 8192)),
    ("causal conv prefill bf16", |device, name| convolved(device, name, PROMPTS, 4096)),
    ("selective scan decode bf16", |device, name| scanned(device, name, DECODED)),
    ("selective scan drafts bf16", |device, name| scanned(device, name, DRAFTS)),
    ("selective scan prefill bf16", |device, name| scanned(device, name, PROMPTS)),
    ("delta rule decode bf16", |device, name| delta(device, name, DECODED, false)),
    ("delta rule drafts bf16", |device, name| delta(device, name, DRAFTS, false)),
    ("delta rule prefill bf16", |device, name| delta(device, name, PROMPTS, false)),
    ("delta rule by row decode bf16", |device, name| delta(device, name, DECODED, true)),
    ("delta rule by row drafts bf16", |device, name| delta(device, name, DRAFTS, true)),
    ("delta rule by row prefill bf16", |device, name| delta(device, name, PROMPTS, true)),
];

fn integers(device: &Device, shape: &[usize], values: impl Iterator<Item = usize>) -> Result<Tensor, Error> {
    let bytes: Vec<u8> = values.flat_map(|value| (value as i32).to_le_bytes()).collect();
    Ok(Tensor::from_bytes(device, shape, DType::I32, &bytes)?)
}

/// What fills a tensor.
#[derive(Clone, Copy)]
enum Fill {
    Normal,
    Integers(fn(usize, usize) -> usize),
    /// -1 to -16, one number of a state after the other.
    Falling,
}

/// Tensors of an operator: shapes, types, what is in them.
type Tensors = Vec<(Vec<usize>, DType, Fill)>;

/// What an operator's tensor held before the launch. Random numbers are the same for the same seed.
fn made(device: &Device, tensors: &Tensors, at: usize, set: u64) -> Result<Tensor, Error> {
    let (shape, dtype, fill) = &tensors[at];
    let count = shape.iter().product();
    match fill {
        Fill::Normal => filled(device, shape, *dtype, set * 16 + at as u64),
        Fill::Integers(of) => integers(device, shape, (0..count).map(|n| of(n, count))),
        Fill::Falling => {
            let bytes: Vec<u8> = (0..count).flat_map(|n| (-((n % NUMBERS + 1) as f32)).to_le_bytes()).collect();
            Ok(Tensor::from_bytes(device, shape, *dtype, &bytes)?)
        }
    }
}

/// An operator that changes the tensor `states`, if there is one, and reads one of so many states in it: its bytes count once more.
fn op(
    device: &Device,
    name: &str,
    (shape, flops): (String, usize),
    tensors: Tensors,
    states: Option<(usize, usize)>,
    launch: impl Fn(&Stream, &mut [Tensor]) -> Result<(), Error> + 'static,
    check: impl Fn(&[Tensor]) -> Result<(), Error> + 'static,
) -> Result<Op, Error> {
    let plain: Vec<_> = tensors.iter().map(|(shape, dtype, _)| (shape.clone(), *dtype)).collect();
    let bytes = |at: usize| plain[at].0.iter().product::<usize>() * plain[at].1.size_bytes();
    let again = states.map_or(0, |(at, among)| bytes(at) / among);
    let make = move |device: &Device, set: u64| (0..tensors.len()).map(|at| made(device, &tensors, at, set)).collect();
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let timed = Timed { shape, flops: flops as f64, tensors: plain, make, launch, check };
    let mut op = timed.op(device, name)?;
    op.bytes += again as f64;
    Ok(op)
}

/// All bytes of tensors.
fn all_bytes<const N: usize>(tensors: [&Tensor; N]) -> Result<[Vec<u8>; N], Error> {
    let mut all = [const { Vec::new() }; N];
    for (bytes, tensor) in all.iter_mut().zip(tensors) {
        *bytes = tensor.to_bytes()?;
    }
    Ok(all)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 { x } else { x.exp().ln_1p() }
}

/// Eight experts of each token, whose rows lie a whole batch apart.
fn combined(device: &Device, name: &str) -> Result<Op, Error> {
    const TOKENS: usize = 8192;
    const K: usize = 8;
    const N: usize = 4096;
    fn place(choice: usize, _: usize) -> usize {
        choice % K * TOKENS + choice / K
    }
    let tensors = vec![
        (vec![TOKENS * K, N], BF16, Fill::Normal),
        (vec![TOKENS, K], DType::I32, Fill::Integers(place)),
        (vec![TOKENS, K], DType::F32, Fill::Normal),
        (vec![TOKENS, N], BF16, Fill::Normal),
    ];
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [rows, places, weights, y] = all else { return Err("four tensors".into()) };
        let mut params = CombineParams::default();
        params.weights = Some(weights.view());
        Ok(combine(stream, rows.view(), places.view(), &params, y.view_mut())?)
    };
    let check = |all: &[Tensor]| -> Result<(), Error> {
        let [rows, weights, y] = all_bytes([&all[0], &all[2], &all[3]])?;
        for token in (0..CHECKED_ROWS).map(|n| n * (TOKENS - 1) / (CHECKED_ROWS - 1)) {
            let weights = elements(&weights, DType::F32, token * K, K);
            let mut expected = vec![0.0; N];
            for (slot, weight) in weights.into_iter().enumerate() {
                let row = elements(&rows, BF16, place(token * K + slot, 0) * N, N);
                expected.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * x);
            }
            compare(&elements(&y, BF16, token * N, N), &expected, tolerance(BF16))?;
        }
        Ok(())
    };
    op(device, name, (shape_text(&[TOKENS, K, N]), 2 * TOKENS * K * N), tensors, None, launch, check)
}

/// As the product by experts, of half as many rows that two experts take each.
fn chosen(device: &Device, name: &str) -> Result<Op, Error> {
    const EXPERTS: usize = 8;
    const OF_EACH: usize = 512;
    const SIDE: usize = 4096;
    let choices = EXPERTS * OF_EACH;
    let tensors = vec![
        (vec![choices / 2, SIDE], BF16, Fill::Normal),
        (vec![EXPERTS, SIDE, SIDE], BF16, Fill::Normal),
        (vec![EXPERTS + 1], DType::I32, Fill::Integers(|n, _| n * OF_EACH)),
        (vec![choices], DType::I32, Fill::Integers(|place, _| place % OF_EACH * EXPERTS + place / OF_EACH)),
        (vec![choices, SIDE], BF16, Fill::Normal),
    ];
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, b, offsets, order, c] = all else { return Err("five tensors".into()) };
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: 2 };
        // Weights as a checkpoint has them, [N, K].
        let b = b.view().with_layout(b.layout().swap(1, 2)?)?;
        Ok(gemm_grouped(stream, a.view(), b, &groups, c.view_mut(), &GemmParams::default())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let [a, b, c] = all_bytes([&all[0], &all[1], &all[4]])?;
        for expert in 0..EXPERTS {
            let place = expert * OF_EACH + 61 * expert;
            let row = (place % OF_EACH * EXPERTS + expert) / 2;
            let a = elements(&a, BF16, row * SIDE, SIDE);
            let column = |col: usize| elements(&b, BF16, (expert * SIDE + col) * SIDE, SIDE);
            let expected: Vec<f64> = (0..64).map(|col| a.iter().zip(column(col)).map(|(a, b)| a * b).sum()).collect();
            compare(&elements(&c, BF16, place * SIDE, 64), &expected, tolerance(BF16))?;
        }
        Ok(())
    };
    let shape = format!("{EXPERTS} of {}", shape_text(&[OF_EACH, SIDE, SIDE]));
    op(device, name, (shape, 2 * choices * SIDE * SIDE), tensors, None, launch, check)
}

/// Where sequences of one length begin, and a slot for each, of drafts a row; places to go on at, which drafts are told.
fn sequences(of: [usize; 2]) -> [(Vec<usize>, DType, Fill); 3] {
    let [count, each] = of;
    // A bound is a share of all tokens, and the number of bounds is all that is known of it here.
    let bounds: fn(usize, usize) -> usize = match each {
        1 => |n, _| n,
        _ if of == DRAFTS => |n, _| n * DRAFTS[1],
        _ => |n, _| n * PROMPTS[1],
    };
    let slots: fn(usize, usize) -> usize = |n, count| count - 1 - n;
    let places: fn(usize, usize) -> usize = |n, _| 1 + n % DRAFTS[1];
    let row = if of == DRAFTS { vec![count, each] } else { vec![count] };
    [(vec![count + 1], bounds), (row, slots), (vec![count], places)]
        .map(|(shape, of)| (shape, DType::I32, Fill::Integers(of)))
}

/// States that there are of each sequence.
fn kept(of: [usize; 2]) -> usize {
    if of == DRAFTS { DRAFTS[1] } else { 1 }
}

/// The slots of a sequence's first state and of its last.
fn first_and_last(of: [usize; 2], sequence: usize) -> [usize; 2] {
    let (each, last) = (kept(of), of[0] * kept(of) - 1);
    [sequence % each, each - 1].map(|place| last - (sequence * each + place))
}

/// Sequences, channels or heads to check: from the first to the last.
fn some(of: usize) -> impl Iterator<Item = usize> {
    [0, of / 3, of - 1].into_iter()
}

/// Four taps, as Mamba and Qwen3-Next have them.
fn convolved(device: &Device, name: &str, of: [usize; 2], dim: usize) -> Result<Op, Error> {
    const W: usize = 4;
    let ([count, each], tokens) = (of, of[0] * of[1]);
    let [starts, mut slots, accepted] = sequences(of);
    // Of drafts a line holds what is before a call's tokens, and them.
    let is_draft = of == DRAFTS;
    let places = if is_draft { W - 2 + each } else { W - 1 };
    slots.0 = vec![count];
    let tensors = vec![
        (vec![count, dim, places], BF16, Fill::Normal),
        (vec![tokens, dim], BF16, Fill::Normal),
        (vec![dim, W], BF16, Fill::Normal),
        (vec![dim], BF16, Fill::Normal),
        starts,
        slots,
        (vec![tokens, dim], BF16, Fill::Normal),
        accepted,
    ];
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [state, x, weight, bias, starts, slots, out, accepted] = all else { return Err("eight tensors".into()) };
        let inputs = CausalConv {
            x: x.view(),
            weight: weight.view(),
            bias: Some(bias.view()),
            sequences: Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: None },
            window: if is_draft { Window::Accepted(accepted.view()) } else { Window::First },
            is_silu: true,
        };
        Ok(causal_conv(stream, &inputs, state.view_mut(), out.view_mut())?)
    };
    let (before, on) = (tensors.clone(), device.clone());
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let [after, x, weight, bias, out] = all_bytes([&all[0], &all[1], &all[2], &all[3], &all[6]])?;
        let old = made(&on, &before, 0, 0)?.to_bytes()?;
        for sequence in some(count) {
            let state = (count - 1 - sequence) * dim * places;
            let first = if is_draft { sequence % DRAFTS[1] } else { 0 };
            let [mut got, mut expected] = [const { Vec::new() }; 2];
            for channel in some(dim) {
                let at = state + channel * places;
                let mut window = elements(&old, BF16, at + first, W - 1);
                let own = |token: usize| elements(&x, BF16, (sequence * each + token) * dim + channel, 1)[0];
                window.extend((0..each).map(own));
                let (weight, bias) = (elements(&weight, BF16, channel * W, W), elements(&bias, BF16, channel, 1)[0]);
                for token in 0..each {
                    let taps = weight.iter().zip(&window[token..]);
                    let sum = bias + taps.map(|(weight, x)| weight * x).sum::<f64>();
                    expected.push(sum * sigmoid(sum));
                    got.push(elements(&out, BF16, (sequence * each + token) * dim + channel, 1)[0]);
                }
                let left = if is_draft { 1 } else { each };
                compare(&elements(&after, BF16, at, places), &window[left..], 0.0)?;
            }
            compare(&got, &expected, tolerance(BF16))?;
        }
        Ok(())
    };
    let shape = format!("{count}x{each}, {dim}");
    op(device, name, (shape, 2 * W * tokens * dim), tensors, Some((0, places / (W - 1))), launch, check)
}

/// Numbers of a channel's state.
const NUMBERS: usize = 16;

/// As Mamba has it: states in f32, one group, every extra.
fn scanned(device: &Device, name: &str, of: [usize; 2]) -> Result<Op, Error> {
    const DIM: usize = 4096;
    let ([count, each], tokens) = (of, of[0] * of[1]);
    let [starts, slots, accepted] = sequences(of);
    let is_draft = of == DRAFTS;
    let by_token = (vec![tokens, DIM], BF16, Fill::Normal);
    let tensors = vec![
        (vec![count * kept(of), DIM, NUMBERS], DType::F32, Fill::Normal),
        by_token.clone(),
        by_token.clone(),
        (vec![DIM, NUMBERS], DType::F32, Fill::Falling),
        (vec![tokens, 1, NUMBERS], BF16, Fill::Normal),
        (vec![tokens, 1, NUMBERS], BF16, Fill::Normal),
        (vec![DIM], DType::F32, Fill::Normal),
        by_token.clone(),
        (vec![DIM], DType::F32, Fill::Normal),
        starts,
        slots,
        by_token,
        accepted,
    ];
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [state, x, dt, a, b, c, d, z, dt_bias, starts, slots, out, accepted] = all else {
            return Err("thirteen tensors".into());
        };
        let inputs = SelectiveScan {
            x: x.view(),
            dt: dt.view(),
            a: a.view(),
            b: b.view(),
            c: c.view(),
            d: Some(d.view()),
            z: Some(z.view()),
            dt_bias: Some(dt_bias.view()),
            is_softplus: true,
            sequences: Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: None },
            kept: is_draft.then(|| ScanKept { to: slots.view(), accepted: Some(accepted.view()) }),
        };
        Ok(selective_scan(stream, &inputs, state.view_mut(), out.view_mut())?)
    };
    let (before, on) = (tensors.clone(), device.clone());
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let [after, x, dt, a, b, c, d] = all_bytes([&all[0], &all[1], &all[2], &all[3], &all[4], &all[5], &all[6]])?;
        let [z, dt_bias, out] = all_bytes([&all[7], &all[8], &all[11]])?;
        let old = made(&on, &before, 0, 0)?.to_bytes()?;
        for (sequence, channel) in some(count).zip(some(DIM)) {
            let [first, at] = first_and_last(of, sequence).map(|slot| (slot * DIM + channel) * NUMBERS);
            let (mut state, a) =
                (elements(&old, DType::F32, first, NUMBERS), elements(&a, DType::F32, channel * NUMBERS, NUMBERS));
            let of_channel = |bytes: &[u8]| elements(bytes, DType::F32, channel, 1)[0];
            let (d, dt_bias) = (of_channel(&d), of_channel(&dt_bias));
            let [mut got, mut expected] = [const { Vec::new() }; 2];
            for token in sequence * each..(sequence + 1) * each {
                let own = |bytes: &[u8]| elements(bytes, BF16, token * DIM + channel, 1)[0];
                let (x, step, z) = (own(&x), softplus(own(&dt) + dt_bias), own(&z));
                let [b, c] = [&b, &c].map(|bytes| elements(bytes, BF16, token * NUMBERS, NUMBERS));
                let mut sum = d * x;
                for number in 0..NUMBERS {
                    state[number] = (step * a[number]).exp() * state[number] + step * b[number] * x;
                    sum += c[number] * state[number];
                }
                expected.push(sum * z * sigmoid(z));
                got.push(own(&out));
            }
            compare(&got, &expected, tolerance(BF16))?;
            compare(&elements(&after, DType::F32, at, NUMBERS), &state, 1e-3)?;
        }
        Ok(())
    };
    let shape = format!("{count}x{each}, {DIM}x{NUMBERS}");
    op(device, name, (shape, 7 * tokens * DIM * NUMBERS), tensors, Some((0, kept(of))), launch, check)
}

/// Heads of 128 with states in f32, gates made from a layer's products, of each row of a state or of all, queries and keys normalised.
fn delta(device: &Device, name: &str, of: [usize; 2], by_row: bool) -> Result<Op, Error> {
    const HEADS: usize = 32;
    const DEPTH: usize = 128;
    let ([count, each], tokens) = (of, of[0] * of[1]);
    let [starts, slots, accepted] = sequences(of);
    let is_draft = of == DRAFTS;
    let (rows, by_head) = ((vec![tokens, HEADS, DEPTH], BF16, Fill::Normal), (vec![tokens, HEADS], BF16, Fill::Normal));
    let with = (vec![HEADS], DType::F32, Fill::Normal);
    let bias = (if by_row { vec![HEADS, DEPTH] } else { vec![HEADS] }, DType::F32, Fill::Normal);
    let decays = if by_row { rows.clone() } else { by_head.clone() };
    let tensors = vec![
        (vec![count * kept(of), HEADS, DEPTH, DEPTH], DType::F32, Fill::Normal),
        rows.clone(),
        rows.clone(),
        rows.clone(),
        decays,
        by_head,
        with,
        bias,
        starts,
        slots,
        rows,
        accepted,
    ];
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [pool, q, k, v, a, b, a_log, dt_bias, starts, slots, out, accepted] = all else {
            return Err("twelve tensors".into());
        };
        let (a, b, a_log, dt_bias) = (a.view(), b.view(), a_log.view(), dt_bias.view());
        let gates = DeltaGates::Made { a, b, a_log, dt_bias, bound: None };
        let (q, k, v) = (q.view(), k.view(), v.view());
        let inputs = DeltaInputs { q, k, v, gates, starts: starts.view(), longest: each };
        let (pool, slots) = (pool.view_mut(), slots.view());
        let accepted = is_draft.then(|| accepted.view());
        let states = DeltaStates { pool, from: slots, to: slots, continues: None, accepted, pad: None };
        let mut params = DeltaParams::default();
        params.normalises = true;
        Ok(delta_rule(stream, &inputs, &params, states, out.view_mut(), None)?)
    };
    let (before, on) = (tensors.clone(), device.clone());
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let [after, q, k, v, a, b, a_log] = all_bytes([&all[0], &all[1], &all[2], &all[3], &all[4], &all[5], &all[6]])?;
        let [dt_bias, out] = all_bytes([&all[7], &all[10]])?;
        let old = made(&on, &before, 0, 0)?.to_bytes()?;
        for (sequence, head) in some(count).zip(some(HEADS)) {
            let [first, at] = first_and_last(of, sequence).map(|slot| (slot * HEADS + head) * DEPTH * DEPTH);
            let mut state = elements(&old, DType::F32, first, DEPTH * DEPTH);
            let rate = elements(&a_log, DType::F32, head, 1)[0].exp();
            // A head's decay counts for each row.
            let each_row = |bytes: &[u8], dtype: DType, line: usize| match by_row {
                true => elements(bytes, dtype, line * DEPTH, DEPTH),
                false => vec![elements(bytes, dtype, line, 1)[0]; DEPTH],
            };
            let bias = each_row(&dt_bias, DType::F32, head);
            let [mut got, mut expected] = [const { Vec::new() }; 2];
            for line in (sequence * each..(sequence + 1) * each).map(|token| token * HEADS + head) {
                let row = |bytes: &[u8]| elements(bytes, BF16, line * DEPTH, DEPTH);
                let unit = |x: Vec<f64>| {
                    let norm = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
                    x.into_iter().map(|x| x / norm).collect::<Vec<f64>>()
                };
                let (q, k, v) = (unit(row(&q)), unit(row(&k)), row(&v));
                let (a, beta) = (each_row(&a, BF16, line), sigmoid(elements(&b, BF16, line, 1)[0]));
                let decays = a.iter().zip(&bias).map(|(a, bias)| (-rate * softplus(a + bias)).exp());
                let mut u = v;
                for ((row, k), decay) in state.chunks_mut(DEPTH).zip(&k).zip(decays) {
                    row.iter_mut().for_each(|s| *s *= decay);
                    u.iter_mut().zip(row).for_each(|(u, s)| *u -= k * *s);
                }
                let mut read = vec![0.0; DEPTH];
                for ((row, k), q) in state.chunks_mut(DEPTH).zip(&k).zip(&q) {
                    row.iter_mut().zip(&u).for_each(|(s, u)| *s += k * beta * u);
                    read.iter_mut().zip(row).for_each(|(read, s)| *read += q * *s / (DEPTH as f64).sqrt());
                }
                expected.extend(read);
                got.extend(row(&out));
            }
            compare(&got, &expected, tolerance(BF16))?;
            // Chunks round what they multiply.
            let allowed = if each < 64 { 1e-5 } else { tolerance(BF16) };
            compare(&elements(&after, DType::F32, at, DEPTH * DEPTH), &state, allowed)?;
        }
        Ok(())
    };
    let shape = format!("{count}x{each}, {HEADS}x{DEPTH}");
    op(device, name, (shape, 8 * tokens * HEADS * DEPTH * DEPTH), tensors, Some((0, kept(of))), launch, check)
}
