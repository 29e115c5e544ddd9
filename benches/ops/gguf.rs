//! Products by experts whose matrices are in blocks of GGUF.

use half::f16;
use rocfire_hal::{DType, Device, Stream, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{Gguf, GgufMatrices, gguf_matmul_grouped};

use crate::launchers::Timed;
use crate::op::{Error, Make, Op, compare, elements, filled, shape_text, tolerance};

const EXPERTS: usize = 128;
const CHOSEN: usize = 8;
const K: usize = 2048;
const N: usize = 768;
const BLOCK: usize = Gguf::Q4K.bytes();
const IN_LINE: usize = K / Gguf::Q4K.weights();
/// Blocks that follow one another before the first comes again: a prime.
const DIFFERENT: usize = 1009;

/// A block of Q4_K of any bytes, with scales such that weights are of the order of one.
fn block(number: usize) -> [u8; BLOCK] {
    let mut block = std::array::from_fn(|at| ((number * 2_654_435_761 + at * 40_503 + number * at) >> 9) as u8);
    for (at, scale) in [(0, 1.0 / 512.0), (2, 1.0 / 64.0)] {
        block[at..at + 2].copy_from_slice(&f16::from_f64(scale * (1 + number % 5) as f64).to_le_bytes());
    }
    block
}

/// Weight `at` of a block, as ggml's `dequantize_row_q4_K` has it.
fn weight(block: &[u8; BLOCK], at: usize) -> f64 {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f64();
    let (group, scales) = (at / 32, &block[4..16]);
    let [scale, least] = match group {
        0..4 => [scales[group] & 63, scales[group + 4] & 63],
        _ => [scales[group + 4] & 15 | scales[group - 4] >> 6 << 4, scales[group + 4] >> 4 | scales[group] >> 6 << 4],
    };
    let byte = block[16 + 32 * (group / 2) + at % 32];
    let code = if group % 2 == 1 { byte >> 4 } else { byte & 15 };
    half(0) * f64::from(scale) * f64::from(code) - half(2) * f64::from(least)
}

/// Tokens of 2048 to 8 each of 128 experts of 768 in blocks of Q4_K, each of which has as many.
fn experts(device: &Device, name: &str, tokens: usize) -> Result<Op, Error> {
    let (bf16, choices) = (DType::BF16, tokens * CHOSEN);
    let start = move |expert: usize| expert * choices / EXPERTS;
    let row = move |place: usize| place * 13 % tokens;
    let blocks = [EXPERTS, N, IN_LINE * BLOCK];
    let tensors = vec![
        (vec![tokens, K], bf16),
        (blocks.to_vec(), DType::U8),
        (vec![EXPERTS + 1], DType::I32),
        (vec![choices], DType::I32),
        (vec![choices, N], bf16),
    ];
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let different: Vec<u8> = (0..DIFFERENT).flat_map(block).collect();
        let bytes: Vec<u8> = different.iter().copied().cycle().take(blocks.iter().product()).collect();
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
            let column = |n: usize| -> f64 {
                let first = (expert * N + n) * IN_LINE;
                let line: Vec<_> = (0..IN_LINE).map(|at| block((first + at) % DIFFERENT)).collect();
                (0..K).map(|k| x[k] * weight(&line[k / 256], k % 256)).sum()
            };
            let expected: Vec<f64> = (0..N).map(column).collect();
            compare(&elements(&c, bf16, place * N, N), &expected, tolerance(bf16))?;
        }
        Ok(())
    };
    let flops = 2.0 * (choices * K * N) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = format!("{tokens} to {CHOSEN} of {EXPERTS} of {}", shape_text(&[K, N]));
    Timed { shape, flops, tensors, make, launch, check }.op(device, name)
}

pub const OPS: &[Make] = &[
    ("product by experts Q4_K", |device, name| experts(device, name, 64)),
    ("product by experts Q4_K", |device, name| experts(device, name, 8)),
    ("product by experts Q4_K", |device, name| experts(device, name, 1024)),
];
