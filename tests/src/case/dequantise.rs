//! Numbers that codes stand for: words and bytes with a scale for each element, for some, or for all, of every type of scales, and blocks
//! of GGUF; products of so many rows that the numbers are written out.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::quant::{CodeLayout, Format, Gguf, GgufMatrices, ScaleKind, Scales, dequantise, gguf_dequantise};

use super::gguf::{block, coded, weight};
use super::grouped_codes::{By, numbers};
use super::quant::{lines, strips};
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement, ravel, unravel};

/// Shape, the axis that words are packed along or none of bytes, block of scales.
type Words = (&'static [usize], Option<usize>, &'static [usize]);

/// Lanes of one word and of several; scales beside each other, of all of a lane, and neither; words that end inside of a lane's.
const WORDS: [Words; 13] = [
    (&[6, 64], Some(1), &[4, 1]),
    (&[5, 80], Some(1), &[2, 1]),
    (&[7, 48], Some(1), &[1, 16]),
    (&[3, 67], Some(1), &[1, 5]),
    (&[64, 6], Some(0), &[32, 1]),
    (&[48, 5], Some(0), &[8, 2]),
    (&[2, 3, 32], Some(2), &[1, 1, 1]),
    (&[3, 32, 5], Some(1), &[1, 32, 5]),
    (&[9, 65], None, &[3, 1]),
    (&[1, 1], None, &[1, 1]),
    (&[130, 520], Some(1), &[128, 1]),
    (&[288, 233], Some(0), &[32, 1]),
    (&[3, 101, 256], None, &[1, 1, 64]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, format) in Format::ALL.into_iter().cycle().take(26).enumerate() {
        let (shape, axis, block) = WORDS[turn % WORDS.len()];
        let axis = axis.or((format.bits() < 8).then_some(shape.len() - 1));
        let (dtype, kind) = (FLOATS[turn / 3 % 4], ScaleKind::ALL[turn % 5]);
        cases.push(decoded(dtype, shape, format, axis, (kind, block)));
    }
    for (turn, kind) in Gguf::ALL.into_iter().cycle().take(20).enumerate() {
        let lines = [[1, 1], [2, 3], [1, 37], [3, 11], [1, 65]][turn % 5];
        let in_line = [1, 5, 9, 2][turn % 4];
        let placement = [Placement::Contiguous, Placement::Transposed][turn / 3 % 2];
        cases.push(of_blocks([DType::BF16, DType::F16, DType::F32][turn % 3], kind, (lines, in_line), placement));
    }
    let (bf16, f16) = (DType::BF16, DType::F16);
    cases.extend([
        strips(bf16, [260, 72, 256], Format::I4, 128),
        strips(f16, [257, 40, 192], Format::I8, 64),
        lines(bf16, [256, 33, 128], Format::E4M3, [128, 33]),
        lines(f16, [259, 65, 96], Format::I4, [32, 1]),
    ]);
    let lies = Placement::Contiguous;
    cases.extend([
        coded(([bf16, bf16], &[257], [40, 256], (Gguf::Q4K, 0), By::Offsets, lies)),
        coded(([f16, DType::F32], &[300, 0, 470], [33, 96], (Gguf::Q8_0, 1), By::Choices(2), lies)),
        coded(([bf16, bf16], &[256, 260], [17, 256], (Gguf::Q6K, 0), By::Counts, lies)),
        coded(([f16, f16], &[520, 1], [24, 64], (Gguf::Q4_0, 0), By::Offsets, Placement::Strided)),
    ]);
    cases
}

/// Codes that differ, by where they are; scales that differ.
fn decoded(
    dtype: DType,
    shape: &'static [usize],
    format: Format,
    packed: Option<usize>,
    (kind, block): (ScaleKind, &'static [usize]),
) -> Case {
    let (layout, word, axis) = match packed {
        Some(axis) => (CodeLayout::packed(format, axis, shape[axis]), DType::U32, axis),
        None => (CodeLayout::bytes(format), DType::U8, shape.len() - 1),
    };
    let in_words = layout.words_shape(shape, word);
    let grid: Vec<usize> = shape.iter().zip(block).map(|(extent, block)| extent.div_ceil(*block)).collect();
    let (all, per) = (numbers(format), if packed.is_some() { 32 / format.bits() } else { 1 });
    let pick = move |at: &[usize]| all[at.iter().fold(3, |sum, &x| sum * 7 + x * (x + 3)) % all.len()];
    let of = pick.clone();
    let words = coordinates(&in_words).map(|mut at| {
        let first = at[axis] * per;
        let code = |i: usize| {
            at[axis] = first + i;
            if at[axis] < shape[axis] { of(&at).0 << (i * format.bits()) } else { 0 }
        };
        f64::from((0..per).map(code).sum::<u32>())
    });
    // Exponents are bytes about that of 1, E4M3 codes of numbers.
    let scale = move |at: usize| match kind {
        ScaleKind::E8M0 => (f64::from(120 + (at * 5 % 13) as u8), (at as f64 * 5.0 % 13.0 - 7.0).exp2()),
        ScaleKind::E4M3 => (f64::from(0x38 + (at % 8) as u8), 1.0 + (at % 8) as f64 / 8.0),
        _ => ((1 + at * 7 % 13) as f64 / 16.0, (1 + at * 7 % 13) as f64 / 16.0),
    };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let global = Some(inputs[2].view());
        let scales = Scales { view: inputs[1].view(), kind, block, global };
        Ok(dequantise(stream, inputs[0].view(), &layout, Some(&scales), outputs[0].view_mut())?)
    };
    let scales = Array::new(&grid, kind.dtype(), (0..grid.iter().product()).map(|at| scale(at).0).collect());
    let inputs = vec![
        (Array::new(&in_words, word, words.collect()), Placement::Contiguous),
        (scales, Placement::Contiguous),
        (Array::new(&[1], DType::F32, vec![0.5]), Placement::Contiguous),
    ];
    let oracle = move |_: &[Array]| {
        let value = |at: Vec<usize>| {
            let block: Vec<usize> = at.iter().zip(block).map(|(x, block)| x / block).collect();
            0.5 * scale(ravel(&block, &grid)).1 * pick(&at).1
        };
        vec![coordinates(shape).map(value).collect()]
    };
    let how = if packed.is_some() { format!("along {axis}") } else { "bytes".to_owned() };
    let size = format!("{shape:?} {format:?} {how} {kind:?} of {block:?}");
    Case::new("dequantise", dtype, size, 0.0, Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle })
}

/// The coordinates of a shape's elements, the last fastest.
fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product::<usize>()).map(move |index| {
        let mut at = vec![0; shape.len()];
        unravel(index, &shape, &mut at);
        at
    })
}

/// Matrices of `lines`, `in_line` blocks each.
fn of_blocks(dtype: DType, kind: Gguf, ([count, n], in_line): ([usize; 2], usize), placement: Placement) -> Case {
    let k = in_line * kind.weights();
    let blocks: Vec<u8> = (0..count * n * in_line).flat_map(|seed| block(kind, seed)).collect();
    let bytes = Array::new(&[count, n, in_line * kind.bytes()], DType::U8, blocks.iter().map(|&x| x.into()).collect());
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let w = GgufMatrices { blocks: inputs[0].view(), kind };
        if placement == Placement::Contiguous {
            return Ok(gguf_dequantise(stream, &w, outputs[0].view_mut())?);
        }
        // To what lies otherwise.
        let mut other = Tensor::empty(outputs[0].device(), &[count, k, n], dtype)?;
        let lies = other.layout().swap(1, 2)?;
        gguf_dequantise(stream, &w, other.view_mut().with_layout(lies)?)?;
        Ok(rocfire_fusion::eager::copy_into(other.view().with_layout(lies)?, outputs[0].view_mut())?)
    };
    let oracle = move |_: &[Array]| {
        let value = |at: usize| {
            let number = at / kind.weights();
            weight(kind, &blocks[number * kind.bytes()..][..kind.bytes()], at % kind.weights())
        };
        vec![(0..count * n * k).map(value).collect()]
    };
    let call = Call {
        inputs: vec![(bytes, Placement::Contiguous)],
        outputs: vec![(vec![count, n, k], dtype)],
        launch,
        oracle,
    };
    Case::new("gguf_dequantise", dtype, format!("{count} of {n} x {k} {kind:?} {placement:?}"), 0.0, call)
}
