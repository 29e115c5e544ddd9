//! Products by matrices in blocks of GGUF, and their weights written out.

use half::f16;
use rocfire_hal::{DType, Device, Stream, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{Gguf, GgufMatrices, gguf_dequantise, gguf_matmul, gguf_matmul_grouped};

use crate::launchers::Timed;
use crate::op::{Error, Make, Op, compare, elements, filled, shape_text, tolerance};

const EXPERTS: usize = 128;
const CHOSEN: usize = 8;
const K: usize = 2048;
const N: usize = 768;
const IN_LINE: usize = K / Gguf::Q4K.weights();
/// K and N of the products of one group.
const PLAIN: [usize; 2] = [4096, 14336];
/// Blocks that follow one another before the first comes again: a prime.
const DIFFERENT: usize = 1009;

/// A block of any bytes, with scales such that weights are of the order of one.
fn block(kind: Gguf, number: usize) -> Vec<u8> {
    let byte = |at: usize| ((number * 2_654_435_761 + at * 40_503 + number * at) >> 9) as u8;
    let mut block: Vec<u8> = (0..kind.bytes()).map(byte).collect();
    let scales: &[(usize, f64)] = match kind {
        Gguf::Q4K => &[(0, 1.0 / 512.0), (2, 1.0 / 64.0)],
        Gguf::Q6K => &[(208, 1.0 / 4096.0)],
        Gguf::Q8_0 => &[(0, 1.0 / 128.0)],
        _ => unreachable!("no row has {kind:?}"),
    };
    for &(at, scale) in scales {
        block[at..at + 2].copy_from_slice(&f16::from_f64(scale * (1 + number % 5) as f64).to_le_bytes());
    }
    block
}

/// Weight `at` of a block, as ggml's `dequantize_row` of the type has it.
fn weight(kind: Gguf, block: &[u8], at: usize) -> f64 {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f64();
    match kind {
        Gguf::Q4K => {
            let (group, scales) = (at / 32, &block[4..16]);
            let [scale, least] = match group {
                0..4 => [scales[group] & 63, scales[group + 4] & 63],
                _ => [
                    scales[group + 4] & 15 | scales[group - 4] >> 6 << 4,
                    scales[group + 4] >> 4 | scales[group] >> 6 << 4,
                ],
            };
            let byte = block[16 + 32 * (group / 2) + at % 32];
            let code = if group % 2 == 1 { byte >> 4 } else { byte & 15 };
            half(0) * f64::from(scale) * f64::from(code) - half(2) * f64::from(least)
        }
        Gguf::Q6K => {
            let (side, line, place) = (at / 128, at / 32 % 4, at % 32);
            let low = block[64 * side + 32 * (line % 2) + place] >> (line / 2 * 4) & 15;
            let high = block[128 + 32 * side + place] >> (2 * line) & 3;
            half(208) * f64::from(block[192 + at / 16] as i8) * (f64::from(low | high << 4) - 32.0)
        }
        Gguf::Q8_0 => half(0) * f64::from(block[2 + at] as i8),
        _ => unreachable!("no row has {kind:?}"),
    }
}

/// So many bytes of blocks.
fn bytes_of(kind: Gguf, count: usize) -> Vec<u8> {
    let different: Vec<u8> = (0..DIFFERENT).flat_map(|number| block(kind, number)).collect();
    different.iter().copied().cycle().take(count).collect()
}

/// What a column is whose line begins with block `first`.
fn column(kind: Gguf, first: usize, x: &[f64]) -> f64 {
    let line: Vec<_> = (0..x.len() / kind.weights()).map(|at| block(kind, (first + at) % DIFFERENT)).collect();
    x.iter().enumerate().map(|(k, x)| x * weight(kind, &line[k / kind.weights()], k % kind.weights())).sum()
}

/// Tokens of 2048 to 8 each of 128 experts of 768 in blocks of Q4_K, each of which has as many.
fn experts(device: &Device, name: &str, tokens: usize) -> Result<Op, Error> {
    let (bf16, choices) = (DType::BF16, tokens * CHOSEN);
    let start = move |expert: usize| expert * choices / EXPERTS;
    let row = move |place: usize| place * 13 % tokens;
    let blocks = [EXPERTS, N, IN_LINE * Gguf::Q4K.bytes()];
    let tensors = vec![
        (vec![tokens, K], bf16),
        (blocks.to_vec(), DType::U8),
        (vec![EXPERTS + 1], DType::I32),
        (vec![choices], DType::I32),
        (vec![choices, N], bf16),
    ];
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let bytes = bytes_of(Gguf::Q4K, blocks.iter().product());
        let i32s = |values: &mut dyn Iterator<Item = usize>| values.flat_map(|x| (x as i32).to_le_bytes()).collect();
        let starts: Vec<u8> = i32s(&mut (0..=EXPERTS).map(start));
        let order: Vec<u8> = i32s(&mut (0..choices).map(|place| row(place) * CHOSEN));
        Ok(vec![
            filled(device, &[tokens, K], bf16, set + 2)?,
            Tensor::from_bytes(device, &blocks, DType::U8, &bytes)?,
            Tensor::from_bytes(device, &[EXPERTS + 1], DType::I32, &starts)?,
            Tensor::from_bytes(device, &[choices], DType::I32, &order)?,
            Tensor::empty(device, &[choices, N], bf16)?,
        ])
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, blocks, offsets, order, c] = all else { return Err("five tensors".into()) };
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: CHOSEN };
        let w = GgufMatrices { blocks: blocks.view(), kind: Gguf::Q4K };
        Ok(gguf_matmul_grouped(stream, a.view(), &w, &groups, c.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (a, c) = (all[0].to_bytes()?, all[4].to_bytes()?);
        for place in [0, choices / 2, choices - 1] {
            let expert = (0..EXPERTS).rfind(|&expert| start(expert) <= place).expect("the first begins at 0");
            let x = elements(&a, bf16, row(place) * K, K);
            let expected: Vec<f64> = (0..N).map(|n| column(Gguf::Q4K, (expert * N + n) * IN_LINE, &x)).collect();
            compare(&elements(&c, bf16, place * N, N), &expected, tolerance(bf16))?;
        }
        Ok(())
    };
    let flops = 2.0 * (choices * K * N) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = format!("{tokens} to {CHOSEN} of {EXPERTS} of {}", shape_text(&[K, N]));
    Timed { shape, flops, tensors, make, launch, check }.op(device, name)
}

/// Rows of 4096 to 14336.
fn plain(device: &Device, name: &str, kind: Gguf, rows: usize) -> Result<Op, Error> {
    let ([k, n], bf16) = (PLAIN, DType::BF16);
    let in_line = k / kind.weights();
    let blocks = [1, n, in_line * kind.bytes()];
    let tensors = vec![(vec![rows, k], bf16), (blocks.to_vec(), DType::U8), (vec![rows, n], bf16)];
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        Ok(vec![
            filled(device, &[rows, k], bf16, set + 2)?,
            Tensor::from_bytes(device, &blocks, DType::U8, &bytes_of(kind, blocks.iter().product()))?,
            Tensor::empty(device, &[rows, n], bf16)?,
        ])
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, blocks, c] = all else { return Err("three tensors".into()) };
        Ok(gguf_matmul(stream, a.view(), &GgufMatrices { blocks: blocks.view(), kind }, c.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (a, c) = (all[0].to_bytes()?, all[2].to_bytes()?);
        // A prime number of columns apart.
        let columns: Vec<usize> = (0..n).step_by(61).collect();
        let x = elements(&a, bf16, (rows - 1) * k, k);
        let got = elements(&c, bf16, (rows - 1) * n, n);
        let got: Vec<f64> = columns.iter().map(|&at| got[at]).collect();
        let expected: Vec<f64> = columns.iter().map(|&at| column(kind, at * in_line, &x)).collect();
        compare(&got, &expected, tolerance(bf16))
    };
    let flops = 2.0 * (rows * k * n) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    Timed { shape: shape_text(&[rows, k, n]), flops, tensors, make, launch, check }.op(device, name)
}

/// Weights of 4096 x 14336 written out in bf16.
fn decoded(device: &Device, name: &str, kind: Gguf) -> Result<Op, Error> {
    let ([k, n], bf16) = (PLAIN, DType::BF16);
    let blocks = [1, n, k / kind.weights() * kind.bytes()];
    let tensors = vec![(blocks.to_vec(), DType::U8), (vec![1, n, k], bf16)];
    let make = move |device: &Device, _: u64| -> Result<Vec<Tensor>, Error> {
        Ok(vec![
            Tensor::from_bytes(device, &blocks, DType::U8, &bytes_of(kind, blocks.iter().product()))?,
            Tensor::empty(device, &[1, n, k], bf16)?,
        ])
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [blocks, x] = all else { return Err("two tensors".into()) };
        Ok(gguf_dequantise(stream, &GgufMatrices { blocks: blocks.view(), kind }, x.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (x, count) = (all[1].to_bytes()?, DIFFERENT * kind.weights());
        let number = |at: usize| weight(kind, &block(kind, at / kind.weights() % DIFFERENT), at % kind.weights());
        for first in [0, (n * k - count) / kind.weights() * kind.weights()] {
            let expected: Vec<f64> = (first..first + count).map(number).collect();
            compare(&elements(&x, bf16, first, count), &expected, tolerance(bf16))?;
        }
        Ok(())
    };
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    Timed { shape: shape_text(&[k, n]), flops: (2 * k * n) as f64, tensors, make, launch, check }.op(device, name)
}

pub const OPS: &[Make] = &[
    ("weights of Q4_K", |device, name| decoded(device, name, Gguf::Q4K)),
    ("weights of Q6_K", |device, name| decoded(device, name, Gguf::Q6K)),
    ("weights of Q8_0", |device, name| decoded(device, name, Gguf::Q8_0)),
    ("product by experts Q4_K", |device, name| experts(device, name, 64)),
    ("product by experts Q4_K", |device, name| experts(device, name, 8)),
    ("product by experts Q4_K", |device, name| experts(device, name, 1024)),
    ("product by experts Q4_K", |device, name| experts(device, name, 8192)),
    ("product Q4_K", |device, name| plain(device, name, Gguf::Q4K, 1)),
    ("product Q4_K", |device, name| plain(device, name, Gguf::Q4K, 4)),
    ("product Q4_K", |device, name| plain(device, name, Gguf::Q4K, 16)),
    ("product Q4_K", |device, name| plain(device, name, Gguf::Q4K, 32)),
    ("product Q4_K", |device, name| plain(device, name, Gguf::Q4K, 64)),
    ("product Q4_K", |device, name| plain(device, name, Gguf::Q4K, 512)),
    ("product Q6_K", |device, name| plain(device, name, Gguf::Q6K, 1)),
    ("product Q6_K", |device, name| plain(device, name, Gguf::Q6K, 4)),
    ("product Q6_K", |device, name| plain(device, name, Gguf::Q6K, 16)),
    ("product Q6_K", |device, name| plain(device, name, Gguf::Q6K, 32)),
    ("product Q6_K", |device, name| plain(device, name, Gguf::Q6K, 64)),
    ("product Q6_K", |device, name| plain(device, name, Gguf::Q6K, 512)),
    ("product Q8_0", |device, name| plain(device, name, Gguf::Q8_0, 1)),
    ("product Q8_0", |device, name| plain(device, name, Gguf::Q8_0, 4)),
    ("product Q8_0", |device, name| plain(device, name, Gguf::Q8_0, 16)),
    ("product Q8_0", |device, name| plain(device, name, Gguf::Q8_0, 32)),
    ("product Q8_0", |device, name| plain(device, name, Gguf::Q8_0, 64)),
    ("product Q8_0", |device, name| plain(device, name, Gguf::Q8_0, 512)),
];
