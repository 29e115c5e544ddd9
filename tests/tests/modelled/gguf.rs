//! Experts whose matrices are in blocks of GGUF, and weights written out.

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{
    CodeLayout, Format, Gguf, GgufMatrices, ScaleKind, Scales, dequantise, gguf_dequantise, gguf_matmul_grouped,
};

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

/// Weights of 4096 x 14336 in blocks, as bf16.
pub fn decoded(device: &Device, kind: Gguf) -> Outcome {
    let [n, k] = [14336, 4096];
    let blocks = zeros(device, &[1, n, k / kind.weights() * kind.bytes()], DType::U8)?;
    let mut x = zeros(device, &[1, n, k], DType::BF16)?;
    Ok(gguf_dequantise(device.stream(), &GgufMatrices { blocks: blocks.view(), kind }, x.view_mut())?)
}

/// Weights of 4096 x 14336 in words of 4 bits along N, with a scale of 128 along K, as bf16.
pub fn decoded_words(device: &Device) -> Outcome {
    let ([k, n], block) = ([4096, 14336], [128, 1]);
    let layout = CodeLayout::packed(Format::I4, 1, n);
    let words = zeros(device, &layout.words_shape(&[k, n], DType::U32), DType::U32)?;
    let (scales, mut x) = (zeros(device, &[k / block[0], n], DType::F16)?, zeros(device, &[k, n], DType::BF16)?);
    let scales = Scales { view: scales.view(), kind: ScaleKind::F16, block: &block, global: None };
    Ok(dequantise(device.stream(), words.view(), &layout, Some(&scales), x.view_mut())?)
}
