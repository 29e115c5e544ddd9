//! Experts whose matrices are in blocks of GGUF.

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{Gguf, GgufMatrices, gguf_matmul_grouped};

use super::{Outcome, zeros};

/// Tokens to eight each of 128 experts, whose matrices are in blocks of Q4_K: each expert has as many.
pub fn experts(device: &Device, tokens: usize) -> Outcome {
    const EXPERTS: usize = 128;
    const CHOSEN: usize = 8;
    let [k, n] = [2048, 768];
    let line_bytes = k / Gguf::Q4K.weights() * Gguf::Q4K.bytes();
    let (a, blocks) = (zeros(device, &[tokens, k], DType::BF16)?, zeros(device, &[EXPERTS, n, line_bytes], DType::U8)?);
    let (choices, mut c) = (tokens * CHOSEN, zeros(device, &[tokens * CHOSEN, n], DType::BF16)?);
    let i32s = |values: Vec<usize>| {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as i32).to_le_bytes()).collect();
        Tensor::from_bytes(device, &[values.len()], DType::I32, &bytes)
    };
    let offsets = i32s((0..=EXPERTS).map(|expert| expert * choices / EXPERTS).collect())?;
    let order = i32s((0..choices).map(|place| place * 13 % choices).collect())?;
    let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: CHOSEN };
    let w = GgufMatrices { blocks: blocks.view(), kind: Gguf::Q4K };
    Ok(gguf_matmul_grouped(device.stream(), a.view(), &w, &groups, c.view_mut())?)
}
