//! Products by codes: of both sides, by packed weights, by experts.

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{
    CodeLayout, CodedMatrix, CodedRows, CodedStack, Format, Granularity, Preshuffled, PreshuffledMatrices,
    PreshuffledRows, PreshuffledStack, ScaleKind, Scales, q_matmul, q_matmul_grouped, q_matmul_preshuffled,
    q_matmul_preshuffled_grouped, q_matmul_scaled, q_matmul_scaled_grouped,
};

use super::{Outcome, fp8, zeros};

pub const TOKENS: [Granularity; 2] = [Granularity::Token; 2];
pub const BLOCKS: [Granularity; 2] = [Granularity::Group(128), Granularity::Block(128)];

pub fn coded(device: &Device, [m, n, k]: [usize; 3], [of_a, of_b]: [Granularity; 2], laid_out: bool) -> Outcome {
    // Scales lie with rows innermost, as the quantiser writes them where it is asked to.
    let side = |rows: usize, granularity: Granularity| -> rocfire_hal::Result<[Tensor; 2]> {
        let [down, along] = granularity.scales_shape([rows, k]);
        let scales = zeros(device, &[along, down], DType::F32)?;
        Ok([zeros(device, &[rows, k], DType::U8)?, scales.with_layout(scales.layout().swap(0, 1)?)?])
    };
    let block = |granularity| match granularity {
        Granularity::Group(group) => [1, group],
        Granularity::Block(side) => [side, side],
        _ => [1, k],
    };
    let ([a, a_scales], [b, b_scales]) = (side(m, of_a)?, side(n, of_b)?);
    let mut c = zeros(device, &[m, n], DType::BF16)?;
    let (format, kind) = (fp8(device), ScaleKind::F32);
    let a = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block: block(of_a) };
    if laid_out {
        let weight = Preshuffled::new(device.stream(), format, &b)?;
        let b = PreshuffledRows { weight: &weight, scales: b_scales.view(), kind, block: block(of_b) };
        return Ok(q_matmul_preshuffled(device.stream(), &a, &b, c.view_mut())?);
    }
    let b = CodedRows { format, codes: b.view(), scales: b_scales.view(), kind, block: block(of_b) };
    Ok(q_matmul_scaled(device.stream(), &a, &b, c.view_mut())?)
}

pub fn packed(device: &Device, [m, n, k]: [usize; 3]) -> Outcome {
    let layout = CodeLayout::packed(Format::I4, 1, n);
    let (a, words) = (zeros(device, &[m, k], DType::BF16)?, zeros(device, &[k, n / 8], DType::U32)?);
    let (scales, block) = (zeros(device, &[k / 128, n], DType::F16)?, [128, 1]);
    let mut c = zeros(device, &[m, n], DType::BF16)?;
    let scales = Scales { view: scales.view(), kind: ScaleKind::F16, block: &block, global: None };
    Ok(q_matmul(
        device.stream(),
        a.view(),
        &CodedMatrix { words: words.view(), layout: &layout, scales: Some(&scales) },
        c.view_mut(),
    )?)
}

/// Where the rows of experts begin, and the choices in a turn that meets all.
fn chosen_by(
    device: &Device,
    first: impl Fn(usize) -> usize,
    [experts, choices]: [usize; 2],
) -> rocfire_hal::Result<[Tensor; 2]> {
    let i32s = |values: Vec<usize>| {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as i32).to_le_bytes()).collect();
        Tensor::from_bytes(device, &[values.len()], DType::I32, &bytes)
    };
    let order = (0..choices).map(|place| place * 13 % choices).collect();
    Ok([i32s((0..=experts).map(first).collect())?, i32s(order)?])
}

/// Tokens to four each of 32 experts, fp8 by fp8: sixteen, of which each expert has one or three, or one.
pub fn scaled_experts(device: &Device, tokens: usize, [of_a, of_b]: [Granularity; 2], is_laid_out: bool) -> Outcome {
    let (chosen, experts, [k, n]) = (4, 32, [2048, 1024]);
    let (format, kind) = (fp8(device), ScaleKind::F32);
    let codes = zeros(device, &[tokens, k], DType::U8)?;
    let scales = zeros(device, &of_a.scales_shape([tokens, k]), DType::F32)?;
    let [down, along] = of_b.scales_shape([n, k]);
    let (w, w_scales) =
        (zeros(device, &[experts, n, k], DType::U8)?, zeros(device, &[experts, down, along], DType::F32)?);
    let mut c = zeros(device, &[tokens * chosen, n], DType::BF16)?;
    let first = |expert: usize| if tokens == 1 { expert / 8 } else { expert / 2 * 4 + expert % 2 };
    let [offsets, order] = chosen_by(device, first, [experts, tokens * chosen])?;
    let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: chosen };
    let a = CodedRows { format, codes: codes.view(), scales: scales.view(), kind, block: of_a.block([tokens, k]) };
    let (scales, block) = (w_scales.view(), of_b.block([n, k]));
    if is_laid_out {
        let weight = PreshuffledStack::new(device.stream(), format, &w)?;
        let b = PreshuffledMatrices { weight: &weight, scales, kind, block };
        return Ok(q_matmul_preshuffled_grouped(device.stream(), &a, &b, &groups, c.view_mut())?);
    }
    let b = CodedStack { format, codes: w.view(), scales, kind, block };
    Ok(q_matmul_scaled_grouped(device.stream(), &a, &b, &groups, c.view_mut())?)
}

/// Sixteen tokens to four each of 32 experts, whose weights are E4M3 by blocks of 128 x 128, or E2M1 by 32 of K: each expert has one or
/// three.
pub fn experts(device: &Device, format: Format, along_k: bool) -> Outcome {
    let (tokens, chosen, experts, [k, n]) = (16, 4, 32, [2048, 1024]);
    let a = zeros(device, &[tokens, k], DType::BF16)?;
    let of_four = format.bits() == 4;
    let layout = if of_four { CodeLayout::packed(format, 1, k) } else { CodeLayout::bytes(format) };
    let (block, kind) = if of_four { ([1, 32, 1], ScaleKind::E8M0) } else { ([1, 128, 128], ScaleKind::F32) };
    let turned =
        |shape: [usize; 3], dtype| zeros(device, &if along_k { [shape[0], shape[2], shape[1]] } else { shape }, dtype);
    let words = turned([experts, k * format.bits() / 8, n], DType::U8)?;
    let scales = turned([experts, k / block[1], n / block[2]], kind.dtype())?;
    let lies = |tensor: &Tensor| match along_k {
        true => tensor.layout().swap(1, 2),
        false => Ok(*tensor.layout()),
    };
    let (words_lie, scales_lie) = (lies(&words)?, lies(&scales)?);
    let mut c = zeros(device, &[tokens * chosen, n], DType::BF16)?;
    let [offsets, order] = chosen_by(device, |expert| expert / 2 * 4 + expert % 2, [experts, tokens * chosen])?;
    let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: chosen };
    let scales = Scales { view: scales.view().with_layout(scales_lie)?, kind, block: &block, global: None };
    let w = CodedMatrix { words: words.view().with_layout(words_lie)?, layout: &layout, scales: Some(&scales) };
    Ok(q_matmul_grouped(device.stream(), a.view(), &w, &groups, c.view_mut())?)
}
