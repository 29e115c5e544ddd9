//! Matrix products, convolution, attention.

use rocfire_hal::{DType, Layout, Tensor};
use rocfire_kernels::attention::{AttentionInputs, AttentionParams, AttentionSaved, attention, attention_backward};
use rocfire_kernels::conv::{ConvParams, conv};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm, gemm_grouped};
use rocfire_kernels::random::Seed;
use rocfire_tests::Array;

use crate::{Operator, Outcome, Space, row, same};

pub const OPERATORS: &[Operator] = &[
    ("product f16, large A", |space| product_a(space, DType::F16)),
    ("product i8, large A", |space| product_a(space, DType::I8)),
    ("product f32, large A", |space| product_a(space, DType::F32)),
    ("product f16, large B as [N, K], few rows", product_b),
    ("product f16, large C", product_c),
    ("product bf16, large batch", product_batch),
    ("product by experts, large A", grouped),
    ("convolution, many images", convolved),
    ("attention, long keys, with gradients", long_keys),
    ("attention, many batches", many_batches),
];

const COLS: usize = 4096;

fn dot(a: &[f64], b: impl Iterator<Item = f64>) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The most that a result of each type may be off, of the largest of a row.
fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-5,
        DType::F16 => 2e-3,
        DType::I8 => 0.0,
        _ => 1e-2,
    }
}

fn product_a(space: &Space, dtype: DType) -> Outcome {
    const N: usize = 24;
    let rows = space.rows(COLS);
    let operand = |shape: &[usize], seed: u64| {
        if dtype != DType::I8 {
            return space.random(shape, dtype, seed);
        }
        // Whole numbers have no uniform draw from -1 to 1.
        space.between([-8.0, 8.0], shape, DType::I8, Seed { seed, offset: 0 })
    };
    let (a, b) = (operand(&[rows, COLS], 1)?, operand(&[COLS, N], 2)?);
    let mut c = space.empty(&[rows, N], if dtype == DType::I8 { DType::I32 } else { dtype })?;
    gemm(space.device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default())?;
    let b = Array::read(&b)?.values;
    for at in space.marks(COLS) {
        let a = row(&a, at)?;
        let expected: Vec<f64> = (0..N).map(|n| dot(&a, b.iter().skip(n).step_by(N).copied())).collect();
        same(&format!("row {at}"), &row(&c, at)?, &expected, allowed(dtype))?;
    }
    Ok(())
}

fn product_b(space: &Space) -> Outcome {
    let columns = space.rows(COLS);
    let b = space.random(&[columns, COLS], DType::F16, 2)?;
    // Few rows go by kernels of their own, more of them by tiles.
    for m in [1, 5, 40] {
        let a = space.random(&[m, COLS], DType::F16, 1)?;
        let mut c = space.empty(&[m, columns], DType::F16)?;
        let by_columns = b.view().with_layout(b.layout().swap(0, 1)?)?;
        gemm(space.device.stream(), a.view(), by_columns, c.view_mut(), &GemmParams::default())?;
        let last = row(&a, m - 1)?;
        let of_row = c.with_layout(c.layout().slice(0, m - 1, m, 1)?.reshape(&[columns]).expect("one row"))?;
        for at in space.marks(COLS) {
            let expected = dot(&last, row(&b, at)?.into_iter());
            // Of one number the largest is itself: sums of 4096 products are about 20 in size.
            same(&format!("m {m}, column {at}"), &row(&of_row, at)?, &[expected], 0.05_f64.max(0.05 / expected.abs()))?;
        }
    }
    Ok(())
}

fn product_c(space: &Space) -> Outcome {
    const K: usize = 64;
    let rows = space.rows(COLS);
    let (a, b) = (space.random(&[rows, K], DType::F16, 1)?, space.random(&[K, COLS], DType::F16, 2)?);
    let mut c = space.empty(&[rows, COLS], DType::F16)?;
    gemm(space.device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default())?;
    let b = Array::read(&b)?.values;
    for at in space.marks(COLS) {
        let a = row(&a, at)?;
        let expected: Vec<f64> = (0..COLS).map(|n| dot(&a, b.iter().skip(n).step_by(COLS).copied())).collect();
        same(&format!("row {at}"), &row(&c, at)?, &expected, allowed(DType::F16))?;
    }
    Ok(())
}

fn product_batch(space: &Space) -> Outcome {
    const SIDE: usize = 288;
    const N: usize = 32;
    let batches = space.rows(SIDE * SIDE);
    let a = space.random(&[batches, SIDE, SIDE], DType::BF16, 1)?;
    let b = space.random(&[SIDE, N], DType::BF16, 2)?;
    let mut c = space.empty(&[batches, SIDE, N], DType::BF16)?;
    gemm(space.device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default())?;
    let b = Array::read(&b)?.values;
    for at in space.marks(SIDE * SIDE) {
        let (a, c) = (row(&a, at)?, row(&c, at)?);
        let last = &a[(SIDE - 1) * SIDE..];
        let expected: Vec<f64> = (0..N).map(|n| dot(last, b.iter().skip(n).step_by(N).copied())).collect();
        same(&format!("batch {at}"), &c[(SIDE - 1) * N..], &expected, allowed(DType::BF16))?;
    }
    Ok(())
}

fn grouped(space: &Space) -> Outcome {
    const N: usize = 16;
    let rows = space.rows(COLS);
    let a = space.random(&[rows, COLS], DType::F16, 1)?;
    let b = space.random(&[3, COLS, N], DType::F16, 2)?;
    let bounds = [0, rows / 3, rows / 3, rows].map(|at| at as f64);
    let starts = space.upload(&[4], DType::I32, bounds.to_vec())?;
    let mut c = space.empty(&[rows, N], DType::F16)?;
    let groups = GemmGroups::Offsets(starts.view());
    gemm_grouped(space.device.stream(), a.view(), b.view(), &groups, c.view_mut(), &GemmParams::default())?;
    let b = Array::read(&b)?.values;
    for at in space.marks(COLS) {
        let (a, expert) = (row(&a, at)?, if at < rows / 3 { 0 } else { 2 });
        let own = &b[expert * COLS * N..(expert + 1) * COLS * N];
        let expected: Vec<f64> = (0..N).map(|n| dot(&a, own.iter().skip(n).step_by(N).copied())).collect();
        same(&format!("row {at}"), &row(&c, at)?, &expected, allowed(DType::F16))?;
    }
    Ok(())
}

fn convolved(space: &Space) -> Outcome {
    const SIDE: usize = 64;
    const CHANNELS: usize = 16;
    const IMAGE: usize = CHANNELS * SIDE * SIDE;
    let images = space.rows(IMAGE);
    let x = space.random(&[images, CHANNELS, SIDE, SIDE], DType::F16, 1)?;
    let weight = space.random(&[8, CHANNELS, 3, 3], DType::F16, 2)?;
    let mut y = space.empty(&[images, 8, SIDE, SIDE], DType::F16)?;
    let (one, padding) = ([1, 1], [(1, 1), (1, 1)]);
    let params = ConvParams { stride: &one, padding: &padding, dilation: &one, groups: 1 };
    conv(space.device.stream(), x.view(), weight.view(), None, y.view_mut(), &params)?;
    let weight = Array::read(&weight)?.values;
    for at in space.marks(IMAGE) {
        let (x, y) = (row(&x, at)?, row(&y, at)?);
        // Of the last channel two lines, the last one with zeros beyond it.
        for line in [5, SIDE - 1] {
            let pixel = |col: usize| {
                let mut sum = 0.0;
                for (n, weight) in weight[7 * CHANNELS * 9..].iter().enumerate() {
                    let (channel, down, along) = (n / 9, line + n / 3 % 3, col + n % 3);
                    if (1..=SIDE).contains(&down) && (1..=SIDE).contains(&along) {
                        sum += weight * x[(channel * SIDE + down - 1) * SIDE + along - 1];
                    }
                }
                sum
            };
            let expected: Vec<f64> = (0..SIDE).map(pixel).collect();
            let first = (7 * SIDE + line) * SIDE;
            same(&format!("image {at}, line {line}"), &y[first..first + SIDE], &expected, allowed(DType::F16))?;
        }
    }
    Ok(())
}

/// Queries that are three times a key each find that key's value: 3 |key|² / √128 is 11 and more above the others' scores.
fn long_keys(space: &Space) -> Outcome {
    const HEADS: usize = 8;
    const DEPTH: usize = 128;
    let keys = space.rows(HEADS * DEPTH) * if space.large { 1 } else { 8 };
    let shape = [1, HEADS, keys, DEPTH];
    let [k, v] = [1, 2].map(|seed| space.random(&shape, DType::F16, seed));
    let (k, v) = (k?, v?);
    let chosen: Vec<usize> = (0..16).map(|query| (query + 1) * (keys / 16) - 1).collect();
    let all = Layout::contiguous(&[HEADS * keys, DEPTH])?;
    let (k_rows, v_rows) = (k.with_layout(all)?, v.with_layout(all)?);
    let mut queries = Vec::new();
    for head in 0..HEADS {
        for &key in &chosen {
            queries.extend(row(&k_rows, head * keys + key)?.into_iter().map(|k| 24.0 * k));
        }
    }
    let q_shape = [1, HEADS, chosen.len(), DEPTH];
    let q = space.upload(&q_shape, DType::F16, queries)?;
    let mut out = space.empty(&q_shape, DType::F16)?;
    let mut lse = space.empty(&q_shape[..3], DType::F32)?;
    let (q_view, k_view, v_view) = (q.view(), k.view(), v.view());
    let inputs = AttentionInputs {
        q: q_view,
        k: k_view,
        v: v_view,
        mask: None,
        bias: None,
        starts: None,
        slopes: None,
        sinks: None,
    };
    let (stream, params) = (space.device.stream(), AttentionParams::default());
    attention(stream, &inputs, &params, out.view_mut(), Some(lse.view_mut()))?;
    let found = out.with_layout(Layout::contiguous(&[HEADS * chosen.len(), DEPTH])?)?;
    for head in 0..HEADS {
        for (query, &key) in chosen.iter().enumerate() {
            let expected = row(&v_rows, head * keys + key)?;
            same(&format!("head {head}, key {key}"), &row(&found, head * chosen.len() + query)?, &expected, 2e-3)?;
        }
    }
    let d_out = space.random(&q_shape, DType::F16, 3)?;
    let mut dq = space.empty(&q_shape, DType::F16)?;
    let [dk, dv] = [DType::F16; 2].map(|dtype| space.empty(&shape, dtype));
    let (mut dk, mut dv) = (dk?, dv?);
    let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: d_out.view() };
    let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
    attention_backward(stream, &inputs, &saved, &params, gradients)?;
    // A key's value gets the gradient of the query that found it, the value before it nothing.
    let (dv_rows, d_out) =
        (dv.with_layout(all)?, d_out.with_layout(Layout::contiguous(&[HEADS * chosen.len(), DEPTH])?)?);
    for head in [0, HEADS / 2, HEADS - 1] {
        for (query, &key) in chosen.iter().enumerate() {
            let expected = row(&d_out, head * chosen.len() + query)?;
            same(
                &format!("gradient of value {key}, head {head}"),
                &row(&dv_rows, head * keys + key)?,
                &expected,
                2e-3,
            )?;
            let other = row(&dv_rows, head * keys + key - 1)?;
            if other.iter().any(|value| value.abs() > 1e-3) {
                return Err(format!("gradient of value {}, head {head}: {other:?}", key - 1).into());
            }
        }
    }
    Ok(())
}

fn many_batches(space: &Space) -> Outcome {
    const HEADS: usize = 8;
    const ROWS: usize = 24;
    const DEPTH: usize = 64;
    const BATCH: usize = HEADS * ROWS * DEPTH;
    let batches = space.rows(BATCH);
    let shape = [batches, HEADS, ROWS, DEPTH];
    let tensors: Vec<Tensor> = (1..4).map(|seed| space.random(&shape, DType::F16, seed)).collect::<Result<_, _>>()?;
    let mut out = space.empty(&shape, DType::F16)?;
    let inputs = AttentionInputs {
        q: tensors[0].view(),
        k: tensors[1].view(),
        v: tensors[2].view(),
        mask: None,
        bias: None,
        starts: None,
        slopes: None,
        sinks: None,
    };
    attention(space.device.stream(), &inputs, &AttentionParams::default(), out.view_mut(), None)?;
    for at in space.marks(BATCH) {
        let [q, k, v] = [0, 1, 2].map(|n: usize| row(&tensors[n], at));
        let (q, k, v) = (q?, k?, v?);
        // The last query of the last head.
        let head = (HEADS - 1) * ROWS * DEPTH;
        let query = &q[BATCH - DEPTH..];
        let scores: Vec<f64> = (0..ROWS)
            .map(|n| (dot(query, k[head + n * DEPTH..].iter().copied()) / (DEPTH as f64).sqrt()).exp())
            .collect();
        let sum: f64 = scores.iter().sum();
        let expected: Vec<f64> =
            (0..DEPTH).map(|place| dot(&scores, v[head + place..].iter().step_by(DEPTH).copied()) / sum).collect();
        same(&format!("batch {at}"), &row(&out, at)?[BATCH - DEPTH..], &expected, 4e-3)?;
    }
    Ok(())
}
