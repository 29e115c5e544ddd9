//! Products of codes with scales, by what the dispatch takes and by our own kernel: by tensor, by row, 1x128 by 128x128, and bytes by row;
//! the same by experts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rocfire_hal::{DType, Device, Layout, Stream, Tensor};
use rocfire_kernels::gemm::GemmGroups;
use rocfire_kernels::quant::{
    CodedRows, CodedStack, CodedWeight, EndActivation, Format, Granularity, Preshuffled, PreshuffledMatrices,
    PreshuffledRows, PreshuffledStack, RowCodes, ScaledEnd, q_matmul_preshuffled_grouped, q_matmul_scaled_grouped,
    q_matmul_scaled_to, quantise_activations,
};

use crate::launchers::Timed;
use crate::op::{CHECKED_ROWS, Error, Make, Op, compare, elements, filled, shape_text, tolerance};

/// What a code of 8 bits stands for.
fn value(format: Format, code: u8) -> f64 {
    if format == Format::I8 {
        return f64::from(code as i8);
    }
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let size = if exponent == 0 { fraction * 2f64.powi(-9) } else { (8.0 + fraction) * 2f64.powi(exponent - 10) };
    if code & 0x80 != 0 { -size } else { size }
}

/// M, N, K of products by a weight that is laid out.
const SQUARE: [usize; 3] = [4096; 3];
const THIN: [usize; 3] = [16, 14336, 4096];

const TENSOR: [Granularity; 2] = [Granularity::Tensor; 2];
const ROW: [Granularity; 2] = [Granularity::Token; 2];
const BLOCK: [Granularity; 2] = [Granularity::Group(128), Granularity::Block(128)];

/// What a product is besides its size, format and scales.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// By a weight in rows.
    Plain,
    /// The same, with a bias and gelu behind it.
    Ended,
    /// By a weight that is laid out.
    LaidOut,
}

/// As [`EndActivation::GeluTanh`].
fn gelu(x: f64) -> f64 {
    x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// Codes by codes, scaled so; the second side in rows or laid out.
fn codes(
    device: &Device,
    name: &str,
    [m, n, k]: [usize; 3],
    format: Format,
    granularities: [Granularity; 2],
    kind: Kind,
) -> Result<Op, Error> {
    let shapes = [[m, k], [n, k]];
    let grids = [0, 1].map(|side: usize| granularities[side].scales_shape(shapes[side]));
    let block = [0, 1].map(|side: usize| granularities[side].block(shapes[side]));
    let [a_codes, b_codes] = shapes.map(|shape| (shape.to_vec(), DType::U8));
    let [a_scales, b_scales] = grids.map(|grid| (grid.to_vec(), DType::F32));
    let mut tensors = vec![a_codes, a_scales, b_codes, b_scales, (vec![m, n], DType::BF16)];
    if kind == Kind::Ended {
        tensors.push((vec![n], DType::BF16));
    }
    // Weights laid out, by the address of their codes.
    let weights: Rc<RefCell<HashMap<u64, Preshuffled>>> = Rc::default();
    let to_make = weights.clone();
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let mut all = Vec::new();
        for side in 0..2 {
            let x = filled(device, &shapes[side], DType::BF16, set * 8 + side as u64)?;
            let mut codes = Tensor::empty(device, &shapes[side], DType::U8)?;
            let mut scales = Tensor::empty(device, &grids[side], DType::F32)?;
            let (stream, granularity) = (device.stream(), granularities[side]);
            quantise_activations(
                stream,
                x.view(),
                None,
                RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
            )?;
            if kind == Kind::LaidOut && side == 1 {
                let weight = Preshuffled::new(stream, format, &codes)?;
                to_make.borrow_mut().insert(codes.view().device_address(), weight);
            }
            all.extend([codes, scales]);
        }
        all.push(Tensor::empty(device, &[m, n], DType::BF16)?);
        if kind == Kind::Ended {
            all.push(filled(device, &[n], DType::BF16, set * 8 + 2)?);
        }
        Ok(all)
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, a_scales, b, b_scales, c, bias @ ..] = all else { return Err("five tensors".into()) };
        let end = match bias.first() {
            Some(bias) => {
                ScaledEnd { bias: Some(bias.view()), activation: EndActivation::GeluTanh, ..ScaledEnd::default() }
            }
            None => ScaledEnd::default(),
        };
        let kind = Granularity::Token.kind();
        let a = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block: block[0] };
        let (scales, block) = (b_scales.view(), block[1]);
        if let Some(weight) = weights.borrow().get(&b.view().device_address()) {
            let b = PreshuffledRows { weight, scales, kind, block };
            return Ok(q_matmul_scaled_to(stream, &a, &CodedWeight::LaidOut(b), &end, c.view_mut())?);
        }
        let b = CodedRows { format, codes: b.view(), scales, kind, block };
        Ok(q_matmul_scaled_to(stream, &a, &CodedWeight::Rows(b), &end, c.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let bytes = all.iter().map(Tensor::to_bytes).collect::<Result<Vec<_>, _>>()?;
        let scales = [1, 3].map(|slot| elements(&bytes[slot], DType::F32, 0, all[slot].shape().iter().product()));
        let decoded = |side: usize, row: usize, at: usize| {
            let scale = scales[side][row / block[side][0] * grids[side][1] + at / block[side][1]];
            value(format, bytes[2 * side][row * k + at]) * scale
        };
        for number in 0..CHECKED_ROWS.min(m) {
            let row = m / CHECKED_ROWS.min(m) * number;
            let a: Vec<f64> = (0..k).map(|at| decoded(0, row, at)).collect();
            let product = |col: usize| a.iter().enumerate().map(|(at, a)| a * decoded(1, col, at)).sum::<f64>();
            let expected: Vec<f64> = match bytes.get(5) {
                Some(bias) => {
                    let bias = elements(bias, DType::BF16, 0, 64);
                    (0..64).map(|col| gelu(product(col) + bias[col])).collect()
                }
                None => (0..64).map(product).collect(),
            };
            compare(&elements(&bytes[4], DType::BF16, row * n, 64), &expected, tolerance(DType::BF16))?;
        }
        Ok(())
    };
    let flops = 2.0 * (m * n * k) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    Timed { shape: shape_text(&[m, n, k]), flops, tensors, make, launch, check }.op(device, name)
}

/// Tokens of 7168 to 8 each of 256 experts of 2048, E4M3 by E4M3: each has 1, 2, 3 and 2 of every 64 tokens in turn.
fn experts(
    device: &Device,
    name: &str,
    tokens: usize,
    [of_a, of_b]: [Granularity; 2],
    is_laid_out: bool,
) -> Result<Op, Error> {
    const EXPERTS: usize = 256;
    const CHOSEN: usize = 8;
    const K: usize = 7168;
    const N: usize = 2048;
    let (format, kind, choices) = (Format::E4M3, Granularity::Token.kind(), tokens * CHOSEN);
    // Where an expert's rows begin: of few tokens the first experts have a row each.
    let starts = move |expert: usize| match tokens / 64 {
        0 => expert.min(choices),
        each => (expert / 4 * 8 + [0, 1, 3, 6][expert % 4]) * each,
    };
    let row = move |place: usize| place * 13 % tokens;
    let (grid, of_stack) = (of_a.scales_shape([tokens, K]), of_b.scales_shape([N, K]));
    let (block, of_matrix) = (of_a.block([tokens, K]), of_b.block([N, K]));
    let tensors = vec![
        (vec![tokens, K], DType::U8),
        (grid.to_vec(), DType::F32),
        // Of few tokens as many matrices are read as there are choices.
        (vec![EXPERTS.min(choices), N, K], DType::U8),
        (vec![EXPERTS.min(choices), of_stack[0], of_stack[1]], DType::F32),
        (vec![EXPERTS + 1], DType::I32),
        (vec![choices], DType::I32),
        (vec![choices, N], DType::BF16),
    ];
    // Matrices laid out, by the address of their codes.
    let weights: Rc<RefCell<HashMap<u64, PreshuffledStack>>> = Rc::default();
    let to_make = weights.clone();
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let coded = |seed: u64, shape: [usize; 2], granularity, [codes, scales]: [&mut Tensor; 2]| {
            let x = filled(device, &shape, DType::BF16, seed)?;
            let to = RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() };
            Ok::<(), Error>(quantise_activations(device.stream(), x.view(), None, to)?)
        };
        let u8s = |shape: &[usize]| Tensor::empty(device, shape, DType::U8);
        let f32s = |shape: &[usize]| Tensor::empty(device, shape, DType::F32);
        let (mut a, mut a_scales) = (u8s(&[tokens, K])?, f32s(&grid)?);
        coded(set + 1, [tokens, K], of_a, [&mut a, &mut a_scales])?;
        let (w, w_scales) = (u8s(&[EXPERTS, N, K])?, f32s(&[EXPERTS, of_stack[0], of_stack[1]])?);
        for expert in 0..EXPERTS {
            let one = |all: &Tensor, shape: [usize; 2]| -> Result<Tensor, Error> {
                let [rows, cols] = shape.map(|extent| extent as i64);
                let lies = Layout::strided(&shape, &[cols, 1], expert as i64 * rows * cols)?;
                Ok(all.clone().with_layout(lies)?)
            };
            let to = [&mut one(&w, [N, K])?, &mut one(&w_scales, of_stack)?];
            coded(set * 1000 + expert as u64, [N, K], of_b, to)?;
        }
        if is_laid_out {
            let stack = PreshuffledStack::new(device.stream(), format, &w)?;
            to_make.borrow_mut().insert(w.view().device_address(), stack);
        }
        let i32s = |values: &mut dyn Iterator<Item = usize>| -> Result<Tensor, Error> {
            let bytes: Vec<u8> = values.flat_map(|x| (x as i32).to_le_bytes()).collect();
            Ok(Tensor::from_bytes(device, &[bytes.len() / 4], DType::I32, &bytes)?)
        };
        let bounds = i32s(&mut (0..=EXPERTS).map(starts))?;
        let order = i32s(&mut (0..choices).map(|place| row(place) * CHOSEN))?;
        let c = Tensor::empty(device, &[choices, N], DType::BF16)?;
        Ok(vec![a, a_scales, w, w_scales, bounds, order, c])
    };
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, a_scales, w, w_scales, offsets, order, c] = all else { return Err("seven tensors".into()) };
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: CHOSEN };
        let a = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block };
        let (scales, block) = (w_scales.view(), of_matrix);
        if let Some(weight) = weights.borrow().get(&w.view().device_address()) {
            let b = PreshuffledMatrices { weight, scales, kind, block };
            return Ok(q_matmul_preshuffled_grouped(stream, &a, &b, &groups, c.view_mut())?);
        }
        let b = CodedStack { format, codes: w.view(), scales, kind, block };
        Ok(q_matmul_scaled_grouped(stream, &a, &b, &groups, c.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let bytes = all.iter().map(Tensor::to_bytes).collect::<Result<Vec<_>, _>>()?;
        let scales = [1, 3].map(|slot| elements(&bytes[slot], DType::F32, 0, all[slot].shape().iter().product()));
        for expert in [0, 7, EXPERTS - 1].into_iter().filter(|&expert| starts(expert) < starts(expert + 1)) {
            let place = starts(expert + 1) - 1;
            let of_a = |at: usize| {
                let scale = scales[0][row(place) / block[0] * grid[1] + at / block[1]];
                value(format, bytes[0][row(place) * K + at]) * scale
            };
            let of_w = |col: usize, at: usize| {
                let cell = (expert * of_stack[0] + col / of_matrix[0]) * of_stack[1] + at / of_matrix[1];
                value(format, bytes[2][(expert * N + col) * K + at]) * scales[1][cell]
            };
            let expected: Vec<f64> = (0..64).map(|col| (0..K).map(|at| of_a(at) * of_w(col, at)).sum()).collect();
            compare(&elements(&bytes[6], DType::BF16, place * N, 64), &expected, tolerance(DType::BF16))?;
        }
        Ok(())
    };
    let flops = 2.0 * (choices * K * N) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = format!("{tokens} to 8 of {EXPERTS} of {}", shape_text(&[K, N]));
    Timed { shape, flops, tensors, make, launch, check }.op(device, name)
}

/// A row for each size, cubes and few rows, of a format and a way of scaling.
macro_rules! sizes {
    ($name:literal, $format:ident, $scales:ident) => {
        [
            ($name, |device, name| codes(device, name, [1024; 3], Format::$format, $scales, Kind::Plain)),
            ($name, |device, name| codes(device, name, [2048; 3], Format::$format, $scales, Kind::Plain)),
            ($name, |device, name| codes(device, name, [4096; 3], Format::$format, $scales, Kind::Plain)),
            ($name, |device, name| codes(device, name, [8192; 3], Format::$format, $scales, Kind::Plain)),
            ($name, |device, name| codes(device, name, [1, 14336, 4096], Format::$format, $scales, Kind::Plain)),
            ($name, |device, name| codes(device, name, [16, 14336, 4096], Format::$format, $scales, Kind::Plain)),
            ($name, |device, name| codes(device, name, [64, 14336, 4096], Format::$format, $scales, Kind::Plain)),
        ]
    };
}

/// A product with a bias and gelu behind it.
macro_rules! ended {
    ($name:literal, $scales:ident) => {
        [
            ($name, |device, name| codes(device, name, SQUARE, Format::E4M3, $scales, Kind::Ended)),
            ($name, |device, name| codes(device, name, [64, 14336, 4096], Format::E4M3, $scales, Kind::Ended)),
        ]
    };
}

/// Each way by what the dispatch takes, and by our own kernel: [`crate::OURS`].
const WAYS: &[[Make; 7]] = &[
    sizes!("a8w8 e4m3 tensor", E4M3, TENSOR),
    sizes!("a8w8 e4m3 tensor, ours", E4M3, TENSOR),
    sizes!("a8w8 e4m3 token", E4M3, ROW),
    sizes!("a8w8 e4m3 token, ours", E4M3, ROW),
    sizes!("a8w8 e4m3 blocks", E4M3, BLOCK),
    sizes!("a8w8 e4m3 blocks, ours", E4M3, BLOCK),
    sizes!("a8w8 i8 token", I8, ROW),
    sizes!("a8w8 i8 token, ours", I8, ROW),
];

const ENDED: &[[Make; 2]] = &[
    ended!("a8w8 e4m3 tensor + bias, gelu", TENSOR),
    ended!("a8w8 e4m3 token + bias, gelu", ROW),
    ended!("a8w8 e4m3 token + bias, gelu, ours", ROW),
];

const LAID_OUT: &[Make] = &[
    ("a8w8 i8 token, laid out", |device, name| codes(device, name, SQUARE, Format::I8, ROW, Kind::LaidOut)),
    ("a8w8 e4m3 token, laid out", |device, name| codes(device, name, SQUARE, Format::E4M3, ROW, Kind::LaidOut)),
    ("a8w8 e4m3 blocks, laid out", |device, name| codes(device, name, SQUARE, Format::E4M3, BLOCK, Kind::LaidOut)),
    ("a8w8 e4m3 token, laid out", |device, name| codes(device, name, THIN, Format::E4M3, ROW, Kind::LaidOut)),
];

const BY_EXPERTS: &[Make] = &[
    ("product by experts a8w8 e4m3 blocks", |device, name| experts(device, name, 1, BLOCK, false)),
    ("product by experts a8w8 e4m3 blocks", |device, name| experts(device, name, 64, BLOCK, false)),
    ("product by experts a8w8 e4m3 blocks", |device, name| experts(device, name, 8192, BLOCK, false)),
    ("product by experts a8w8 e4m3 token", |device, name| experts(device, name, 64, ROW, false)),
    ("product by experts a8w8 e4m3 blocks, laid out", |device, name| experts(device, name, 64, BLOCK, true)),
];

/// All of them.
pub fn ops() -> Vec<Make> {
    [WAYS.as_flattened(), LAID_OUT, BY_EXPERTS, ENDED.as_flattened()].concat()
}
