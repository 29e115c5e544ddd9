//! Layers that leave states behind, and what a mixture of experts runs around its products.

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::causal_conv::{CausalConv, Sequences, Window, causal_conv};
use rocfire_kernels::delta::{DeltaGates, DeltaInputs, DeltaParams, DeltaStates, delta_rule};
use rocfire_kernels::experts::{CombineParams, combine};
use rocfire_kernels::gemm::{GemmGroups, gemm_grouped};
use rocfire_kernels::selective_scan::{SelectiveScan, selective_scan};

use super::{Known, Limit, Outcome, Subject, large_tile, sampled, zeros};

pub const SUBJECTS: &[Subject] = &[
    sampled("combine bf16 2048x8x4096", combined),
    sampled("product by choices bf16 4096x4 of 16, 1024x2048", chosen),
    Subject {
        name: "causal convolution bf16, a token of 64x8192",
        // Inputs, results, states read and written; the weight and the bias.
        compulsory: Some((2 * ONE * CHANNELS + 6 * ONE * CHANNELS + 5 * CHANNELS) as u64 * 2),
        always: false,
        run: |d| convolve(d, [ONE, 1]),
    },
    sampled("causal convolution bf16 8x1024x8192", |d| convolve(d, [8, 1024])),
    Subject {
        name: "selective scan bf16, a token of 64x4096",
        // Inputs, steps, gates and results in 16 bits; states read and written; the matrix, shares and biases.
        compulsory: Some(
            (2 * 4 * ONE * SCANNED + 4 * (2 * ONE * SCANNED * NUMBERS + SCANNED * NUMBERS + 2 * SCANNED)) as u64,
        ),
        always: false,
        run: |d| scan(d, [ONE, 1]),
    },
    sampled("selective scan bf16 8x256x4096", |d| scan(d, [8, 256])),
    Subject {
        name: "delta rule bf16, a token of 64, H32 D128",
        // States read and written; queries, keys, values, results; decays and strengths.
        compulsory: Some((4 * 2 * ONE * 32 * DEPTH * DEPTH + 2 * 4 * ONE * 32 * DEPTH + 8 * ONE * 32) as u64),
        always: false,
        run: |d| delta(d, [ONE, 1], 32, false),
    },
    sampled("delta rule bf16 4x512, H4 D128", |d| delta(d, [4, 512], 4, false)),
    sampled("delta rule by row bf16 4x512, H4 D128", |d| delta(d, [4, 512], 4, true)),
];

pub const KNOWN: &[Known] = &[
    (
        "causal_conv",
        "causal convolution",
        "",
        Limit::Segments,
        "a lane has 24 bytes of states and 32 of the weight on end, in two accesses each, whose segments it meets twice",
    ),
    (
        "delta_",
        "delta rule bf16 4x512",
        "gfx1100",
        Limit::Segments,
        "an operand of its matrix unit is 32 bytes of a row, in two accesses, and both halves of a wave read it",
    ),
    (
        "delta_walk",
        "delta rule by row bf16 4x512",
        "gfx1100",
        Limit::Segments,
        "as without: an operand is 32 bytes of a row, in two accesses, and both halves of a wave read it",
    ),
    (
        "delta_chunks",
        "delta rule by row bf16 4x512",
        "gfx9",
        Limit::Conflicts,
        "none with lanes in order; taken out of order, decays of rows four apart and of the channels beside meet",
    ),
];

/// Sequences that decode.
const ONE: usize = 64;
/// Channels of a convolution, and of a scan, whose states have so many numbers each.
const CHANNELS: usize = 8192;
const SCANNED: usize = 4096;
const NUMBERS: usize = 16;
/// Channels of a head's keys and values.
const DEPTH: usize = 128;

fn integers(device: &Device, values: impl Iterator<Item = usize>) -> rocfire_hal::Result<Tensor> {
    let bytes: Vec<u8> = values.flat_map(|value| (value as i32).to_le_bytes()).collect();
    Tensor::from_bytes(device, &[bytes.len() / 4], DType::I32, &bytes)
}

/// Where sequences of so many tokens begin, and their slots.
fn sequences(device: &Device, [count, each]: [usize; 2]) -> rocfire_hal::Result<[Tensor; 2]> {
    Ok([integers(device, (0..=count).map(|n| n * each))?, integers(device, 0..count)?])
}

fn combined(device: &Device) -> Outcome {
    let [tokens, k, n] = [2048, 8, 4096];
    let rows = zeros(device, &[tokens * k, n], DType::BF16)?;
    let places = integers(device, (0..tokens * k).map(|choice| choice % k * tokens + choice / k))?;
    let places = places.with_layout(rocfire_hal::Layout::contiguous(&[tokens, k])?)?;
    let (weights, mut y) = (zeros(device, &[tokens, k], DType::F32)?, zeros(device, &[tokens, n], DType::BF16)?);
    let mut params = CombineParams::default();
    params.weights = Some(weights.view());
    Ok(combine(device.stream(), rows.view(), places.view(), &params, y.view_mut())?)
}

/// Rows that four of the experts take each, in the order of experts.
fn chosen(device: &Device) -> Outcome {
    let ([tokens, each, experts], [n, k]) = ([4096, 4, 16], [1024, 2048]);
    let choices = tokens * each;
    let (a, b) = (zeros(device, &[tokens, k], DType::BF16)?, zeros(device, &[experts, n, k], DType::BF16)?);
    let b = b.view().with_layout(b.layout().swap(1, 2)?)?;
    let of = choices / experts;
    let order = integers(device, (0..choices).map(|place| place % of * experts + place / of))?;
    let offsets = integers(device, (0..=experts).map(|expert| expert * of))?;
    let mut c = zeros(device, &[choices, n], DType::BF16)?;
    let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each };
    Ok(gemm_grouped(device.stream(), a.view(), b, &groups, c.view_mut(), &large_tile(device))?)
}

fn convolve(device: &Device, of: [usize; 2]) -> Outcome {
    let [starts, slots] = sequences(device, of)?;
    let shape = [of[0] * of[1], CHANNELS];
    let (x, mut out) = (zeros(device, &shape, DType::BF16)?, zeros(device, &shape, DType::BF16)?);
    let (weight, bias) = (zeros(device, &[CHANNELS, 4], DType::BF16)?, zeros(device, &[CHANNELS], DType::BF16)?);
    let mut state = zeros(device, &[of[0], CHANNELS, 3], DType::BF16)?;
    let inputs = CausalConv {
        x: x.view(),
        weight: weight.view(),
        bias: Some(bias.view()),
        sequences: Sequences { starts: starts.view(), slots: slots.view(), fresh: None, pad: None },
        window: Window::First,
        is_silu: true,
    };
    Ok(causal_conv(device.stream(), &inputs, state.view_mut(), out.view_mut())?)
}

fn scan(device: &Device, of: [usize; 2]) -> Outcome {
    let [starts, slots] = sequences(device, of)?;
    let tokens = of[0] * of[1];
    let by_channel = |dtype| zeros(device, &[SCANNED], dtype);
    let [x, dt, z, mut out] = [(); 4].map(|()| zeros(device, &[tokens, SCANNED], DType::BF16));
    let (x, dt, z) = (x?, dt?, z?);
    let [b, c] = [(); 2].map(|()| zeros(device, &[tokens, 1, NUMBERS], DType::BF16));
    let (a, b, c) = (zeros(device, &[SCANNED, NUMBERS], DType::F32)?, b?, c?);
    let (d, dt_bias) = (by_channel(DType::F32)?, by_channel(DType::F32)?);
    let mut state = zeros(device, &[of[0], SCANNED, NUMBERS], DType::F32)?;
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
        kept: None,
    };
    let out = out.as_mut().map_err(|error| error.to_string())?;
    Ok(selective_scan(device.stream(), &inputs, state.view_mut(), out.view_mut())?)
}

/// `by_row`: each row of a state has a decay.
fn delta(device: &Device, of: [usize; 2], heads: usize, by_row: bool) -> Outcome {
    let [starts, slots] = sequences(device, of)?;
    let tokens = of[0] * of[1];
    let rows = || zeros(device, &[tokens, heads, DEPTH], DType::BF16);
    let (q, k, v, mut out) = (rows()?, rows()?, rows()?, rows()?);
    let decays: &[usize] = if by_row { &[tokens, heads, DEPTH] } else { &[tokens, heads] };
    let (g, beta) = (zeros(device, decays, DType::F32)?, zeros(device, &[tokens, heads], DType::F32)?);
    let mut pool = zeros(device, &[of[0], heads, DEPTH, DEPTH], DType::F32)?;
    let inputs = DeltaInputs {
        q: q.view(),
        k: k.view(),
        v: v.view(),
        gates: DeltaGates::Given { g: g.view(), beta: beta.view() },
        starts: starts.view(),
        longest: of[1],
    };
    let (pool, slots) = (pool.view_mut(), slots.view());
    let states = DeltaStates { pool, from: slots, to: slots, continues: None, accepted: None, pad: None };
    let mut params = DeltaParams::default();
    params.normalises = true;
    Ok(delta_rule(device.stream(), &inputs, &params, states, out.view_mut(), None)?)
}
