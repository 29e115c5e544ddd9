//! Quantisation: codes there and back in every format and packing, activations by token, group and block, products by codes.

use std::collections::HashMap;
use std::sync::LazyLock;

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::quant::{
    CodeLayout, CodedMatrix, Coding, Format, Granularity, MxRounding, Rounding, RowCodes, ScaleKind, Scales,
    dequantise, q_matmul, quantise, quantise_activations,
};

use super::drawn::Draw;
use super::grouped_codes::numbers;
use super::row_codes::block;
use super::{Call, Case, FLOATS, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// The scale of codes that are given one: a power of two, so that products with it are exact.
const SCALE: f64 = 1.0 / 16.0;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes: [&[usize]; 6] = [&[1], &[67], &[33, 65], &[5, 64], &[2, 3, 32], &[0, 8]];
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        for step in 0..2 {
            let (shape, dtype) = (shapes[(turn + 3 * step) % 6], FLOATS[(turn + step) % 4]);
            cases.push(round_trip(dtype, shape, format, step == 0, Placement::ALL[(turn + step) % 4]));
        }
    }
    let activations = [
        ([1, 1], Format::I8, Granularity::Token),
        ([3, 65], Format::E4M3, Granularity::Token),
        ([2, 1024], Format::I8, Granularity::Token),
        ([5, 300], Format::E4M3, Granularity::Group(128)),
        ([4, 64], Format::I4, Granularity::Group(32)),
        ([33, 24], Format::I8, Granularity::Block(16)),
        ([3, 70], Format::E4M3Fnuz, Granularity::Mx(MxRounding::Up)),
        ([2, 64], Format::E2M1, Granularity::Mx(MxRounding::Down)),
        ([7, 129], Format::I8, Granularity::Tensor),
        ([0, 64], Format::I8, Granularity::Token),
        // Whose groups of four lanes a wave has all in one row, and one whose row ends in the middle of them.
        ([2, 2048], Format::E2M1, Granularity::Mx(MxRounding::Up)),
        ([3, 2048], Format::E4M3Fnuz, Granularity::Mx(MxRounding::Up)),
        ([2, 2080], Format::E2M1, Granularity::Mx(MxRounding::Down)),
    ];
    for (turn, (shape, format, granularity)) in activations.into_iter().enumerate() {
        cases.push(activation(FLOATS[turn % 3], shape, format, granularity));
    }
    let products = [
        ([1, 1, 1], Format::I8, 1),
        ([1, 96, 65], Format::I4, 1),
        ([3, 33, 600], Format::I8, 1),
        ([16, 64, 31], Format::E2M1, 1),
        ([17, 67, 64], Format::I8, 0),
        ([65, 40, 130], Format::I4, 0),
        ([33, 129, 33], Format::E4M3, 1),
        ([5, 17, 31], Format::I8, 1),
    ];
    for (turn, (size, format, axis)) in products.into_iter().enumerate() {
        cases.push(product(FLOATS[turn % 3], size, format, axis, turn % 2 == 0));
    }
    cases.push(strips(DType::BF16, [1, 127 * 512 + 32, 40], Format::I4, 32));
    // Rows that few.hip has in one workgroup, in several, and those that are staged; those of Hopper's products, of one tile and of several
    // workgroups that cut K.
    let few = [
        ([9, 160, 96], 32),
        ([17, 288, 160], 32),
        ([33, 160, 224], 32),
        ([64, 288, 352], 32),
        ([3, 96, 192], 64),
        ([64, 544, 1024], 128),
        ([21, 288, 2112], 64),
    ];
    for (turn, (size, block)) in few.into_iter().enumerate() {
        cases.push(strips([DType::F16, DType::BF16][turn % 2], size, Format::I4, block));
    }
    // Words as they lie along K, of one row, of slices of K, of a slab that is cut off, and of tiles of rows.
    let along = [
        ([1, 96, 4096], Format::E4M3, [128, 128]),
        ([1, 33, 64], Format::I4, [32, 1]),
        ([9, 64, 2080], Format::E2M1, [32, 1]),
        ([5, 67, 1040], Format::I8, [1040, 1]),
        ([64, 65, 512], Format::I4, [128, 1]),
        ([17, 31, 256], Format::E5M2, [16, 3]),
        ([2, 40, 48], Format::E4M3Fnuz, [8, 40]),
    ];
    for (turn, (size, format, block)) in along.into_iter().enumerate() {
        cases.push(lines([DType::BF16, DType::F16][turn % 2], size, format, block));
    }
    cases
}

/// Codes there and back, of activations, and products by codes.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    // Of f64 the scale's rounding to f32 would decide.
    let narrow = draw.pick(&[DType::F32, DType::F16, DType::BF16]);
    let (m, n, k) = (draw.extent(65), draw.extent(129), draw.extent(257));
    match draw.below(3) {
        0 => {
            let ((shape, _), format) = (draw.shape(), draw.pick(&Format::ALL));
            round_trip(draw.float(), shape, format, draw.flag(), draw.placement())
        }
        1 => {
            let format = draw.pick(&[Format::I8, Format::E4M3, Format::I4, Format::E4M3Fnuz, Format::E2M1]);
            let by_32 = [Granularity::Mx(MxRounding::Up), Granularity::Mx(MxRounding::Down)];
            let granularity = match format {
                Format::E4M3Fnuz | Format::E2M1 => draw.pick(&by_32),
                _ => draw.pick(&[
                    Granularity::Token,
                    Granularity::Group(32),
                    Granularity::Block(16),
                    Granularity::Tensor,
                    Granularity::Group(128),
                ]),
            };
            // Codes of 4 bits come in pairs.
            let columns = if format.bits() < 8 { 2 * k } else { k };
            activation(narrow, [m, columns], format, granularity)
        }
        _ => {
            let format = draw.pick(&[Format::I8, Format::I4, Format::E4M3, Format::E2M1]);
            product(narrow, [m, n, k], format, draw.below(2), draw.flag())
        }
    }
}

/// The finite numbers of a format that are not negative, smallest first.
pub(super) fn sizes(format: Format) -> &'static [f64] {
    static SIZES: LazyLock<HashMap<Format, Vec<f64>>> =
        LazyLock::new(|| Format::ALL.map(|format| (format, sizes_of(format))).into());
    &SIZES[&format]
}

fn sizes_of(format: Format) -> Vec<f64> {
    let (mantissa, bias, count) = match format {
        Format::I8 | Format::I4 | Format::I2 => return (0..=format.largest() as i32).map(f64::from).collect(),
        Format::E4M3 => (3, 7, 0x7f),
        Format::E5M2 => (2, 15, 0x7c),
        Format::E2M1 => (1, 1, 8),
        Format::E4M3Fnuz => (3, 8, 0x80),
        Format::E5M2Fnuz => (2, 16, 0x80),
    };
    let value = |code: i32| {
        let (exponent, fraction) = (code >> mantissa, f64::from(code & ((1 << mantissa) - 1)));
        let steps = if exponent == 0 { fraction } else { fraction + 2f64.powi(mantissa) };
        steps * 2f64.powi(exponent.max(1) - bias - mantissa)
    };
    (0..count).map(value).collect()
}

/// The number of the format that is nearest: of two the one whose code is even, for whole numbers by rule.
pub(super) fn nearest(format: Format, x: f64, away: bool) -> f64 {
    if format.is_int() {
        let largest = f64::from(format.largest());
        let whole = if away { x.round() } else { x.round_ties_even() };
        return whole.clamp(if away { -largest - 1.0 } else { -largest }, largest);
    }
    let sizes = sizes(format);
    let last = sizes.len() - 1;
    // What is no number is as the largest.
    let above = if x.is_nan() { last } else { sizes.partition_point(|&size| size < x.abs()).min(last) };
    let below = above.saturating_sub(1);
    let [to_below, to_above] = [below, above].map(|n| (x.abs() - sizes[n]).abs());
    let code = if to_below < to_above || (to_below == to_above && below % 2 == 0) { below } else { above };
    sizes[code].copysign(x)
}

/// Values of a format's range under [`SCALE`].
fn spread(shape: &[usize], dtype: DType, format: Format, seed: u64) -> Array {
    let mut array = Array::random(shape, dtype, seed);
    let reach = (f64::from(format.largest()) * SCALE).min(100.0);
    array.values.iter_mut().for_each(|value| *value *= reach);
    Array::new(shape, dtype, array.values.to_vec())
}

fn layout_of(format: Format, shape: &[usize], axis: usize, packed: bool) -> (CodeLayout, DType) {
    if packed {
        (CodeLayout::packed(format, axis, shape[axis]), DType::U32)
    } else {
        (CodeLayout::bytes(format), DType::U8)
    }
}

fn round_trip(dtype: DType, shape: &'static [usize], format: Format, packed: bool, placement: Placement) -> Case {
    let (layout, word) = layout_of(format, shape, shape.len() - 1, packed);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let scales = Scales { view: inputs[1].view(), kind: ScaleKind::F32, block: &[], global: None };
        let (x, mut words) = (inputs[0].view(), temporary(inputs[0].device(), &layout.words_shape(shape, word), word)?);
        quantise(
            stream,
            x,
            &Coding { layout: &layout, scales: Some(&scales), rounding: Rounding::Away, symmetric: false },
            words.view_mut(),
        )?;
        Ok(dequantise(stream, words.view(), &layout, Some(&scales), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        vec![inputs[0].values.iter().map(|x| nearest(format, x / SCALE, true) * SCALE).collect()]
    };
    let scale = (Array::new(&[1], DType::F32, vec![SCALE]), Placement::Contiguous);
    let inputs = vec![(spread(shape, dtype, format, 1), placement), scale];
    let size = format!("{shape:?} {format:?}{} {placement:?}", if packed { " packed" } else { "" });
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    Case::new("quantise", dtype, size, 0.0, call)
}

/// What [`activation`] writes: numbers that codes and scales stand for, so that a code to either side of a tie, which the
/// rounding of a scale decides, is as far away as it is.
fn activation(dtype: DType, shape: [usize; 2], format: Format, granularity: Granularity) -> Case {
    let grid = granularity.scales_shape(shape);
    let [rows, cols] = shape;
    let block = block(shape, granularity);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let device = inputs[0].device();
        let mut codes = temporary(device, &[rows, (cols * format.bits()).div_ceil(8)], DType::U8)?;
        let mut scales = temporary(device, &grid, granularity.kind().dtype())?;
        let x = inputs[0].view();
        quantise_activations(
            stream,
            x,
            None,
            RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
        )?;
        let layout = CodeLayout::of_rows(format, cols);
        let scales = Scales { view: scales.view(), kind: granularity.kind(), block: &block, global: None };
        Ok(dequantise(stream, codes.view(), &layout, Some(&scales), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let values = &inputs[0].values;
        let cell = |n: usize| n / cols / block[0] * grid[1] + n % cols / block[1];
        let mut peaks = vec![0f64; grid[0] * grid[1]];
        values.iter().enumerate().for_each(|(n, x)| peaks[cell(n)] = peaks[cell(n)].max(x.abs()));
        let largest = format.largest();
        let exponent = f64::from(largest).log2().floor();
        let scale = |peak: f64| match granularity {
            Granularity::Mx(MxRounding::Down) => (peak.log2().floor() - exponent).exp2(),
            Granularity::Mx(_) => f64::from(peak as f32 / largest).log2().ceil().exp2(),
            _ => f64::from(peak as f32 / largest),
        };
        let value = |(n, &x): (usize, &f64)| {
            let scale = scale(peaks[cell(n)]);
            let code = nearest(format, f64::from(x as f32 * (1.0 / scale as f32)), false);
            f64::from(scale as f32 * code as f32)
        };
        vec![values.iter().enumerate().map(value).collect()]
    };
    let inputs = vec![(Array::random(&shape, dtype, 3), Placement::Contiguous)];
    let call = Call { inputs, outputs: vec![(shape.to_vec(), DType::F32)], launch, oracle };
    Case::new("quantise_activations", dtype, format!("{shape:?} {format:?} {granularity:?}"), 0.0, call)
}

/// Weights quantised, then multiplied by: with one scale, or one for each 32 of K.
fn product(dtype: DType, [m, n, k]: [usize; 3], format: Format, axis: usize, grouped: bool) -> Case {
    let block = [if grouped { 32 } else { k }, n];
    let groups = k.div_ceil(block[0]);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let scales = Scales { view: inputs[2].view(), kind: ScaleKind::F32, block: &block, global: None };
        let (layout, word) = layout_of(format, &[k, n], axis, true);
        let mut words = temporary(inputs[0].device(), &layout.words_shape(&[k, n], word), word)?;
        quantise(
            stream,
            inputs[1].view(),
            &Coding { layout: &layout, scales: Some(&scales), rounding: Rounding::Away, symmetric: false },
            words.view_mut(),
        )?;
        Ok(q_matmul(
            stream,
            inputs[0].view(),
            &CodedMatrix { words: words.view(), layout: &layout, scales: Some(&scales) },
            outputs[0].view_mut(),
        )?)
    };
    let scale = move |row: usize| SCALE / (1 + row / block[0] % 2) as f64;
    let oracle = move |inputs: &[Array]| {
        let weight = |row: usize, column: usize| {
            nearest(format, inputs[1].values[row * n + column] / scale(row), true) * scale(row)
        };
        let cell = |at: usize| dot((0..k).map(|i| (inputs[0].values[at / n * k + i], weight(i, at % n))));
        vec![(0..m * n).map(cell).collect()]
    };
    let scales = Array::new(&[groups, 1], DType::F32, (0..groups).map(|group| scale(group * block[0])).collect());
    let inputs = vec![
        (Array::random(&[m, k], dtype, 1), Placement::ALL[m % 4]),
        (spread(&[k, n], dtype, format, 2), Placement::Contiguous),
        (scales, Placement::Contiguous),
    ];
    let flops = 2.0 * (m * n * k) as f64;
    let size = format!("{m}x{n}x{k} {format:?} along {}{}", ["K", "N"][axis], if grouped { " in groups" } else { "" });
    let call = Call { inputs, outputs: vec![(vec![m, n], dtype)], launch, oracle };
    Case::new("q_matmul", dtype, size, flops, call).summing(k)
}

/// Rows by words that lie along K in memory, `[n, k]`, with an f32 scale of every block.
pub(super) fn lines(dtype: DType, [m, n, k]: [usize; 3], format: Format, block: [usize; 2]) -> Case {
    let grid = [k.div_ceil(block[0]), n.div_ceil(block[1])];
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let scales = Scales { view: inputs[2].view(), kind: ScaleKind::F32, block: &block, global: None };
        let layout = CodeLayout::packed(format, 0, k);
        let words = inputs[1].view().with_layout(inputs[1].layout().swap(0, 1)?)?;
        Ok(q_matmul(
            stream,
            inputs[0].view(),
            &CodedMatrix { words, layout: &layout, scales: Some(&scales) },
            outputs[0].view_mut(),
        )?)
    };
    let all = numbers(format);
    let pick = move |row: usize, column: usize| all[(row * 5 + column * 3 + row * column % 11 + row / 64) % all.len()];
    let scale = move |at: usize| (1 + at * 7 % 13) as f64 / 16.0;
    let of = pick.clone();
    let oracle = move |inputs: &[Array]| {
        let weight =
            |row: usize, column: usize| of(row, column).1 * scale(row / block[0] * grid[1] + column / block[1]);
        let cell = |at: usize| dot((0..k).map(|row| (inputs[0].values[at / n * k + row], weight(row, at % n))));
        vec![(0..m * n).map(cell).collect()]
    };
    let (per, bits) = (32 / format.bits(), format.bits());
    let word = |at: usize| {
        let (column, first) = (at / (k / per), at % (k / per) * per);
        f64::from((0..per).map(|i| pick(first + i, column).0 << (bits * i)).sum::<u32>())
    };
    let inputs = vec![
        (Array::random(&[m, k], dtype, 1), Placement::Contiguous),
        (Array::new(&[n, k / per], DType::U32, (0..n * k / per).map(word).collect()), Placement::Contiguous),
        (Array::new(&grid, DType::F32, (0..grid[0] * grid[1]).map(scale).collect()), Placement::Contiguous),
    ];
    let call = Call { inputs, outputs: vec![(vec![m, n], dtype)], launch, oracle };
    let size = format!("{m}x{n}x{k} {format:?} along K by {block:?}, as it lies");
    Case::new("q_matmul", dtype, size, 2.0 * (m * n * k) as f64, call).summing(k)
}

/// Rows by packed words that lie in memory, with an f16 scale for every column and `block_k` of K: of one row columns so many that strips are of
/// the widest, the last lane without a neighbour.
pub(super) fn strips(dtype: DType, [m, n, k]: [usize; 3], format: Format, block_k: usize) -> Case {
    let block = [block_k, 1];
    let groups = k.div_ceil(block[0]);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let scales = Scales { view: inputs[2].view(), kind: ScaleKind::F16, block: &block, global: None };
        let layout = CodeLayout::packed(format, 1, n);
        Ok(q_matmul(
            stream,
            inputs[0].view(),
            &CodedMatrix { words: inputs[1].view(), layout: &layout, scales: Some(&scales) },
            outputs[0].view_mut(),
        )?)
    };
    let (bits, per) = (format.bits(), 32 / format.bits());
    let code = move |row: usize, column: usize| (row * 5 + column * 3 + column / 64) as u32 % (1 << bits);
    let scale = |group: usize, column: usize| (1 + (column + column / 32 + group * 7) % 13) as f64 / 16.0;
    let oracle = move |inputs: &[Array]| {
        let a = &inputs[0].values;
        let weight = |row: usize, column: usize| {
            // Two's complement.
            let value = (code(row, column) << (32 - bits)) as i32 >> (32 - bits);
            f64::from(value) * scale(row / block[0], column)
        };
        let cell = |at: usize| dot((0..k).map(|row| (a[at / n * k + row], weight(row, at % n))));
        vec![(0..m * n).map(cell).collect()]
    };
    let word = |at: usize| {
        let (row, first) = (at / (n / per), at % (n / per) * per);
        f64::from((0..per).map(|i| code(row, first + i) << (bits * i)).sum::<u32>())
    };
    let scales = (0..groups * n).map(|at| scale(at / n, at % n)).collect();
    let inputs = vec![
        (Array::random(&[m, k], dtype, 1), Placement::Contiguous),
        (Array::new(&[k, n / per], DType::U32, (0..k * n / per).map(word).collect()), Placement::Contiguous),
        (Array::new(&[groups, n], DType::F16, scales), Placement::Contiguous),
    ];
    let call = Call { inputs, outputs: vec![(vec![m, n], dtype)], launch, oracle };
    let size = format!("{m}x{n}x{k} {format:?} along N, scales of columns");
    Case::new("q_matmul", dtype, size, 2.0 * (m * n * k) as f64, call).summing(k)
}
