//! Quantisers of activations, and products by packed weights.

use rocfire_hal::{DType, Device, Layout, Stream, Tensor};
use rocfire_kernels::quant::{
    CodeLayout, CodedMatrix, Coding, Format, Granularity, MxRounding, PeakRule, Rounding, RowCodes, ScaleKind, Scales,
    block_peaks, dequantise, q_matmul, quantise, quantise_activations,
};

use crate::launchers::Timed;
use crate::op::{CHECKED_ROWS, Error, Make, Op, ROTATION_BYTES, compare, elements, filled, shape_text, tolerance};
use crate::product::product;

const ROWS: usize = 8192;
/// Tokens of a large prompt: what a launch takes to fill and to empty the card is a quarter of the share that it is of `ROWS`.
const MANY_ROWS: usize = 4 * ROWS;
const COLS: usize = 4096;

/// Activations of bf16 to codes and scales; checked by turning them back.
fn activations(
    device: &Device,
    name: &str,
    rows: usize,
    format: Format,
    granularity: Granularity,
) -> Result<Op, Error> {
    let grid = granularity.scales_shape([rows, COLS]);
    let code_cols = COLS * format.bits() / 8;
    let kind = granularity.kind();
    let scale_bytes = grid[0] * grid[1] * kind.dtype().size_bytes();
    // One scale for all is known when all has been read, and then it is read again: no card holds it in between.
    let reads = if granularity == Granularity::Tensor { 2 } else { 1 };
    let bytes = rows * (COLS * 2 * reads + code_cols) + scale_bytes;
    let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
    let mut tensors = Vec::new();
    for set in 0..sets {
        let mut scales = Tensor::empty(device, &grid, kind.dtype())?;
        let x = filled(device, &[rows, COLS], DType::BF16, set as u64)?;
        if granularity == Granularity::Static {
            block_peaks(device.stream(), x.view(), &[], PeakRule::scale(format.largest()), {
                let layout = Layout::contiguous(&[1])?;
                scales.view_mut().with_layout(layout)?
            })?;
        }
        tensors.push((x, Tensor::empty(device, &[rows, code_cols], DType::U8)?, scales));
    }
    let tensors = std::rc::Rc::new(std::cell::RefCell::new(tensors));
    let (of_check, stream_device) = (tensors.clone(), device.clone());
    let launch = move |n: usize| -> Result<(), Error> {
        let mut tensors = tensors.borrow_mut();
        let (x, codes, scales) = &mut tensors[n % sets];
        let stream = stream_device.stream();
        Ok(quantise_activations(
            stream,
            x.view(),
            None,
            RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
        )?)
    };
    let check = move || -> Result<(), Error> {
        let tensors = of_check.borrow();
        let (x, codes, scales) = &tensors[0];
        let block = granularity.block([rows, COLS]);
        let layout = CodeLayout::of_rows(format, COLS);
        let mut back = Tensor::empty(x.device(), &[rows, COLS], DType::F32)?;
        let scales = Scales { view: scales.view(), kind, block: &block, global: None };
        dequantise(x.device().stream(), codes.view(), &layout, Some(&scales), back.view_mut())?;
        let (x, back) = (x.to_bytes()?, back.to_bytes()?);
        for number in 0..CHECKED_ROWS {
            let first = rows / CHECKED_ROWS * number * COLS;
            // Four bits of mantissa, or eight of a whole number whose largest is some five times its mean; four bits less.
            let allowed = if format.bits() == 8 { 0.04 } else { 0.15 };
            compare(&elements(&back, DType::F32, first, COLS), &elements(&x, DType::BF16, first, COLS), allowed)?;
        }
        Ok(())
    };
    Ok(Op {
        name: name.to_owned(),
        shape: shape_text(&[rows, COLS]),
        bytes: bytes as f64,
        flops: (2 * rows * COLS) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

/// bf16 activations by weights of 4096 x 14336 packed along K or N, axis 0 or 1, which lies in memory so.
fn weights(device: &Device, name: &str, format: Format, m: usize, group: usize, axis: usize) -> Result<Op, Error> {
    let (k, n) = (4096, 14336);
    let layout = CodeLayout::packed(format, axis, [k, n][axis]);
    let in_words = layout.words_shape(&[k, n], DType::U32);
    let strides = if axis == 0 { [1, in_words[0] as i64] } else { [in_words[1] as i64, 1] };
    let lies = Layout::strided(&in_words, &strides, 0)?;
    let word_bytes = k * n * format.bits() / 8;
    let block = [group, 1];
    let groups = k / group;
    let bytes = word_bytes + groups * n * 2 + (m * k + m * n) * 2;
    let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
    let mut tensors = Vec::new();
    let w = filled(device, &[k, n], DType::BF16, 1)?;
    let scales = Tensor::from_bytes(
        device,
        &[groups, n],
        DType::F16,
        &half::f16::from_f32(0.25).to_le_bytes().repeat(groups * n),
    )?;
    for set in 0..sets {
        let mut words = Tensor::empty(device, &in_words, DType::U32)?;
        let own = Scales { view: scales.view(), kind: ScaleKind::F16, block: &block, global: None };
        quantise(
            device.stream(),
            w.view(),
            &Coding { layout: &layout, scales: Some(&own), rounding: Rounding::Even, symmetric: true },
            words.view_mut().with_layout(lies)?,
        )?;
        let a = filled(device, &[m, k], DType::BF16, set as u64 + 2)?;
        tensors.push((a, words, Tensor::empty(device, &[m, n], DType::BF16)?));
    }
    let tensors = std::rc::Rc::new(std::cell::RefCell::new(tensors));
    let (of_check, stream_device, of_launch) = (tensors.clone(), device.clone(), scales.clone());
    let launch = move |number: usize| -> Result<(), Error> {
        let mut tensors = tensors.borrow_mut();
        let (a, words, c) = &mut tensors[number % sets];
        let own = Scales { view: of_launch.view(), kind: ScaleKind::F16, block: &block, global: None };
        Ok(q_matmul(
            stream_device.stream(),
            a.view(),
            &CodedMatrix { words: words.view().with_layout(lies)?, layout: &layout, scales: Some(&own) },
            c.view_mut(),
        )?)
    };
    let check = move || -> Result<(), Error> {
        let tensors = of_check.borrow();
        let (a, words, c) = &tensors[0];
        let mut w = Tensor::empty(a.device(), &[k, n], DType::F32)?;
        let own = Scales { view: scales.view(), kind: ScaleKind::F16, block: &block, global: None };
        dequantise(a.device().stream(), words.view().with_layout(lies)?, &layout, Some(&own), w.view_mut())?;
        let (a, w, c) = (a.to_bytes()?, elements(&w.to_bytes()?, DType::F32, 0, k * n), c.to_bytes()?);
        for row in [0, m - 1] {
            let mut expected = vec![0.0; n];
            for (i, a) in elements(&a, DType::BF16, row * k, k).into_iter().enumerate() {
                expected.iter_mut().zip(&w[i * n..(i + 1) * n]).for_each(|(sum, w)| *sum += a * w);
            }
            compare(&elements(&c, DType::BF16, row * n, n), &expected, tolerance(DType::BF16))?;
        }
        Ok(())
    };
    Ok(Op {
        name: name.to_owned(),
        shape: shape_text(&[m, k, n]),
        bytes: bytes as f64,
        flops: 2.0 * (m * k * n) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

/// Weights of 4096 x 14336 written out in bf16, packed as in [`weights`].
fn decoded(device: &Device, name: &str, format: Format, group: usize, axis: usize) -> Result<Op, Error> {
    let ([k, n], bf16) = ([4096, 14336], DType::BF16);
    let layout = CodeLayout::packed(format, axis, [k, n][axis]);
    let in_words = layout.words_shape(&[k, n], DType::U32);
    // Words of a line are neighbours, and so are their numbers.
    let (words_lie, lies) = if axis == 0 { ([1, in_words[0]], [1, k]) } else { ([in_words[1], 1], [n, 1]) };
    let [words_lie, lies] = [words_lie, lies].map(|strides| strides.map(|stride| stride as i64));
    let (block, groups) = ([group, 1], k / group);
    let tensors = vec![(in_words.to_vec(), DType::U32), (vec![groups, n], DType::F16), (vec![k, n], bf16)];
    // Bits of a hash, and scales of one to five sixteenths.
    let word = |at: usize| (at as u32).wrapping_mul(2_654_435_761) ^ (at as u32 >> 7);
    let scale = |at: usize| (1 + at % 5) as f32 / 16.0;
    let shape = in_words.to_vec();
    let make = move |device: &Device, _: u64| -> Result<Vec<Tensor>, Error> {
        let words: Vec<u8> = (0..shape.iter().product()).flat_map(|at| word(at).to_le_bytes()).collect();
        let scales: Vec<u8> = (0..groups * n).flat_map(|at| half::f16::from_f32(scale(at)).to_le_bytes()).collect();
        Ok(vec![
            Tensor::from_bytes(device, &shape, DType::U32, &words)?,
            Tensor::from_bytes(device, &[groups, n], DType::F16, &scales)?,
            Tensor::empty(device, &[k, n], bf16)?,
        ])
    };
    let shape = in_words.to_vec();
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [words, scales, x] = all else { return Err("three tensors".into()) };
        let own = Scales { view: scales.view(), kind: ScaleKind::F16, block: &block, global: None };
        let words = words.view().with_layout(Layout::strided(&shape, &words_lie, 0)?)?;
        let to = x.view_mut().with_layout(Layout::strided(&[k, n], &lies, 0)?)?;
        Ok(dequantise(stream, words, &layout, Some(&own), to)?)
    };
    let bits = format.bits();
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (x, per, count) = (all[2].to_bytes()?, 32 / bits, 100_000);
        let number = |at: usize| {
            let code = (word(at / per) << (32 - bits - at % per * bits)) as i32 >> (32 - bits);
            let [row, column] = if axis == 0 { [at % k, at / k] } else { [at / n, at % n] };
            f64::from(code) * f64::from(scale(row / group * n + column))
        };
        for first in [0, n * k - count] {
            let expected: Vec<f64> = (first..first + count).map(number).collect();
            compare(&elements(&x, bf16, first, count), &expected, tolerance(bf16))?;
        }
        Ok(())
    };
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    Timed { shape: shape_text(&[k, n]), flops: (2 * k * n) as f64, tensors, make, launch, check }.op(device, name)
}

pub const OPS: &[Make] = &[
    ("weights of w4a16", |device, name| decoded(device, name, Format::I4, 128, 1)),
    ("weights of w8a16", |device, name| decoded(device, name, Format::I8, 128, 1)),
    ("weights of w4a16, codes along K", |device, name| decoded(device, name, Format::I4, 128, 0)),
    ("quantise e4m3 token", |device, name| activations(device, name, ROWS, Format::E4M3, Granularity::Token)),
    ("quantise i8 token", |device, name| activations(device, name, ROWS, Format::I8, Granularity::Token)),
    ("quantise e4m3 static", |device, name| activations(device, name, ROWS, Format::E4M3, Granularity::Static)),
    ("quantise i8 tensor", |device, name| activations(device, name, ROWS, Format::I8, Granularity::Tensor)),
    ("quantise e4m3 1x128", |device, name| activations(device, name, ROWS, Format::E4M3, Granularity::Group(128))),
    ("quantise e4m3 128x128", |device, name| activations(device, name, ROWS, Format::E4M3, Granularity::Block(128))),
    ("quantise mxfp8", |device, name| activations(device, name, ROWS, Format::E4M3, Granularity::Mx(MxRounding::Up))),
    ("quantise mxfp4", |device, name| activations(device, name, ROWS, Format::E2M1, Granularity::Mx(MxRounding::Up))),
    ("quantise i8 tensor", |device, name| activations(device, name, MANY_ROWS, Format::I8, Granularity::Tensor)),
    ("quantise e4m3 token", |device, name| activations(device, name, MANY_ROWS, Format::E4M3, Granularity::Token)),
    ("quantise mxfp4", |device, name| {
        activations(device, name, MANY_ROWS, Format::E2M1, Granularity::Mx(MxRounding::Up))
    }),
    // Beside each other: `cargo bench-ops a16`.
    ("w4a16 bf16", |device, name| weights(device, name, Format::I4, 1, 128, 1)),
    ("w4a16 bf16", |device, name| weights(device, name, Format::I4, 4, 128, 1)),
    ("w4a16 bf16", |device, name| weights(device, name, Format::I4, 16, 128, 1)),
    ("w4a16 bf16", |device, name| weights(device, name, Format::I4, 32, 128, 1)),
    ("w4a16 bf16", |device, name| weights(device, name, Format::I4, 64, 128, 1)),
    ("w4a16 bf16", |device, name| weights(device, name, Format::I4, 512, 128, 1)),
    ("w8a16 bf16", |device, name| weights(device, name, Format::I8, 1, 128, 1)),
    ("w8a16 bf16", |device, name| weights(device, name, Format::I8, 4, 128, 1)),
    ("w8a16 bf16", |device, name| weights(device, name, Format::I8, 16, 128, 1)),
    ("w8a16 bf16", |device, name| weights(device, name, Format::I8, 32, 128, 1)),
    ("w8a16 bf16", |device, name| weights(device, name, Format::I8, 64, 128, 1)),
    ("w8a16 bf16", |device, name| weights(device, name, Format::I8, 512, 128, 1)),
    ("w4a16 bf16, codes along K", |device, name| weights(device, name, Format::I4, 1, 128, 0)),
    ("w4a16 bf16, codes along K", |device, name| weights(device, name, Format::I4, 16, 128, 0)),
    ("w4a16 bf16, codes along K", |device, name| weights(device, name, Format::I4, 64, 128, 0)),
    ("w4a16 bf16, codes along K", |device, name| weights(device, name, Format::I4, 512, 128, 0)),
    ("w8a16 bf16, codes along K", |device, name| weights(device, name, Format::I8, 1, 128, 0)),
    ("w8a16 bf16, codes along K", |device, name| weights(device, name, Format::I8, 16, 128, 0)),
    ("w8a16 bf16, codes along K", |device, name| weights(device, name, Format::I8, 64, 128, 0)),
    ("w8a16 bf16, codes along K", |device, name| weights(device, name, Format::I8, 512, 128, 0)),
    ("w16a16 bf16", |device, name| product(device, name, DType::BF16, [1, 14336, 4096], false)),
    ("w16a16 bf16", |device, name| product(device, name, DType::BF16, [64, 14336, 4096], false)),
    ("w16a16 bf16", |device, name| product(device, name, DType::BF16, [512, 14336, 4096], false)),
];
