//! Quantisers, and products by codes.

use rocfire_hal::{DType, Tensor};
use rocfire_kernels::quant::{
    CodeLayout, CodedMatrix, CodedRows, Coding, Format, Granularity, MxRounding, PeakRule, Rounding, RowCodes,
    ScaleKind, Scales, block_peaks, dequantise, q_matmul, q_matmul_scaled, quantise, quantise_activations,
};
use rocfire_kernels::random::Seed;
use rocfire_tests::Array;

use crate::{Operator, Outcome, Space, row, same};

pub const OPERATORS: &[Operator] = &[
    ("quantise_activations by token", |space| activations(space, Format::E4M3, Granularity::Token)),
    ("quantise_activations of everything", |space| activations(space, Format::I8, Granularity::Tensor)),
    ("quantise_activations by block", |space| activations(space, Format::I8, Granularity::Block(128))),
    ("quantise_activations mxfp4", |space| activations(space, Format::E2M1, Granularity::Mx(MxRounding::Up))),
    ("quantise and dequantise of words", words),
    ("product by packed weights", packed),
    ("product of codes by codes", coded),
];

const COLS: usize = 4096;

/// The codes of a row and its scale stand for the row.
fn activations(space: &Space, format: Format, granularity: Granularity) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = space.random(&shape, DType::F16, 1)?;
    let grid = granularity.scales_shape(shape);
    let mut codes = space.empty(&[shape[0], COLS * format.bits() / 8], DType::U8)?;
    let mut scales = space.empty(&grid, granularity.kind().dtype())?;
    let stream = space.device.stream();
    quantise_activations(
        stream,
        x.view(),
        None,
        RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
    )?;
    let block = [shape[0].div_ceil(grid[0]), COLS / grid[1]];
    // Codes of 4 bits have two bits of fraction at most; the largest of E4M3 are 1/16 apart.
    let allowed = if format.bits() == 4 { 0.2 } else { 0.04 };
    for at in space.marks(COLS) {
        let one = codes.with_layout(codes.layout().slice(0, at, at + 1, 1)?)?;
        let its = if grid[0] == 1 { 0 } else { at / block[0] };
        let scale = scales.with_layout(scales.layout().slice(0, its, its + 1, 1)?)?;
        let layout = CodeLayout::of_rows(format, COLS);
        let mut back = space.empty(&[1, COLS], DType::F32)?;
        let scale = Scales { view: scale.view(), kind: granularity.kind(), block: &[1, block[1]], global: None };
        dequantise(stream, one.view(), &layout, Some(&scale), back.view_mut())?;
        same(&format!("row {at}"), &row(&back, 0)?, &row(&x, at)?, allowed)?;
    }
    Ok(())
}

/// With one scale for all, peaks by row.
fn words(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let (stream, layout) = (space.device.stream(), CodeLayout::bytes(Format::I8));
    let x = space.random(&shape, DType::F16, 1)?;
    let mut peaks = space.empty(&[shape[0], 1], DType::F32)?;
    block_peaks(stream, x.view(), &[1, COLS], PeakRule::scale(127.0), peaks.view_mut())?;
    let scale = space.upload(&[1, 1], DType::F32, vec![1.0 / 127.0])?;
    let scales = || Scales { view: scale.view(), kind: ScaleKind::F32, block: &[], global: None };
    let mut codes = space.empty(&shape, DType::I8)?;
    quantise(
        stream,
        x.view(),
        &Coding { layout: &layout, scales: Some(&scales()), rounding: Rounding::Even, symmetric: true },
        codes.view_mut(),
    )?;
    let mut back = space.empty(&shape, DType::F16)?;
    dequantise(stream, codes.view(), &layout, Some(&scales()), back.view_mut())?;
    for at in space.marks(COLS) {
        let x = row(&x, at)?;
        let peak = x.iter().fold(0f64, |peak, x| peak.max(x.abs()));
        same(&format!("peak of row {at}"), &row(&peaks, at)?, &[peak / 127.0], 1e-6)?;
        same(&format!("row {at}"), &row(&back, at)?, &x, 0.005)?;
    }
    Ok(())
}

/// Weights of 4 bits: more codes than 32 bits can number.
fn packed(space: &Space) -> Outcome {
    const GROUP: usize = 128;
    let columns = space.rows(COLS).next_multiple_of(8);
    let (stream, layout) = (space.device.stream(), CodeLayout::packed(Format::I4, 1, columns));
    let (range, seed) = ([0.0, f64::from(u32::MAX)], Seed { seed: 5, offset: 0 });
    let words = space.between(range, &[COLS, columns / 8], DType::U32, seed)?;
    let (block, seed) = ([GROUP, 1], Seed { seed: 6, offset: 1 });
    let scales = space.between([0.25, 0.5], &[COLS / GROUP, columns], DType::F16, seed)?;
    for m in [1, 40] {
        let a = space.random(&[m, COLS], DType::F16, 7)?;
        let mut c = space.empty(&[m, columns], DType::F16)?;
        let given = Scales { view: scales.view(), kind: ScaleKind::F16, block: &block, global: None };
        q_matmul(
            stream,
            a.view(),
            &CodedMatrix { words: words.view(), layout: &layout, scales: Some(&given) },
            c.view_mut(),
        )?;
        let last = row(&a, m - 1)?;
        for first in [0, columns / 2 / 8 * 8, columns - 16] {
            let narrow = |tensor: &Tensor, from: usize, count: usize| -> rocfire_hal::Result<Vec<f64>> {
                let part = tensor.layout().slice(1, from, from + count, 1)?;
                let part = tensor.with_layout(part)?;
                Ok(Array::read(&rocfire_fusion::eager::copy(&part).expect("a copy"))?.values.to_vec())
            };
            let (codes, scale) = (narrow(&words, first / 8, 2)?, narrow(&scales, first, 16)?);
            let column = |n: usize| {
                let term = |k: usize| {
                    let code = (codes[k * 2 + n / 8] as u32 >> (n % 8 * 4)) & 15;
                    let code = f64::from(((code << 28) as i32) >> 28);
                    last[k] * code * scale[k / GROUP * 16 + n]
                };
                (0..COLS).map(term).sum::<f64>()
            };
            let expected: Vec<f64> = (0..16).map(column).collect();
            let got = c.with_layout(c.layout().slice(0, m - 1, m, 1)?)?;
            same(&format!("m {m}, column {first}"), &narrow(&got, first, 16)?, &expected, 4e-3)?;
        }
    }
    Ok(())
}

fn coded(space: &Space) -> Outcome {
    const N: usize = 40;
    let rows = space.rows(COLS);
    let stream = space.device.stream();
    let side = |rows: usize, seed: u64| -> Result<(Tensor, Tensor), Box<dyn std::error::Error + Send + Sync>> {
        let codes = space.between([-127.0, 128.0], &[rows, COLS], DType::I8, Seed { seed, offset: 0 })?;
        let scales = space.between([0.5, 1.0], &[rows, 1], DType::F32, Seed { seed, offset: 1 })?;
        Ok((codes, scales))
    };
    let ((a, a_scales), (b, b_scales)) = (side(rows, 1)?, side(N, 2)?);
    let mut c = space.empty(&[rows, N], DType::F32)?;
    let bytes = |codes: &Tensor| Tensor::from_buffer(codes.buffer().clone(), *codes.layout(), DType::U8);
    let (a_codes, b_codes) = (bytes(&a)?, bytes(&b)?);
    let of = |codes, scales| CodedRows { format: Format::I8, codes, scales, kind: ScaleKind::F32, block: [1, COLS] };
    let (left, right) = (of(a_codes.view(), a_scales.view()), of(b_codes.view(), b_scales.view()));
    q_matmul_scaled(stream, &left, &right, c.view_mut())?;
    for at in space.marks(COLS) {
        let (a, scale) = (row(&a, at)?, row(&a_scales, at)?[0]);
        let mut expected = Vec::new();
        for n in 0..N {
            let sum: f64 = a.iter().zip(row(&b, n)?).map(|(a, b)| a * b).sum();
            expected.push(sum * scale * row(&b_scales, n)?[0]);
        }
        same(&format!("row {at}"), &row(&c, at)?, &expected, 1e-5)?;
    }
    Ok(())
}
