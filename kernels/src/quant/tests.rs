use half::{bf16, f16};
use rocfire_hal::{DType, Device, Tensor, ViewMut};

use super::*;
use crate::gemm::GemmGroups;
use crate::testing::{Lie, Numbers, coordinates, device, read, tensor};

mod activations;
mod gguf;
mod grouped;
mod products;
mod scaled;
mod scaled_grouped;

/// What a code is, from the definition of its format.
fn decode(format: Format, code: u32) -> f64 {
    let (mantissa, bias, fnuz) = match format {
        Format::I8 | Format::I4 | Format::I2 => {
            let half = 1i64 << (format.bits() - 1);
            return ((i64::from(code) + half) % (2 * half) - half) as f64;
        }
        Format::E4M3 => (3, 7, false),
        Format::E5M2 => (2, 15, false),
        Format::E2M1 => (1, 1, false),
        Format::E4M3Fnuz => (3, 8, true),
        Format::E5M2Fnuz => (2, 16, true),
    };
    let sign_bit = 1u32 << (format.bits() - 1);
    let (negative, magnitude) = (code & sign_bit != 0, code & (sign_bit - 1));
    let special = match format {
        Format::E4M3 => (magnitude == 0x7f).then_some(f64::NAN),
        Format::E5M2 if magnitude >= 0x7c => Some(if magnitude == 0x7c { f64::INFINITY } else { f64::NAN }),
        _ if fnuz => (code == sign_bit).then_some(f64::NAN),
        _ => None,
    };
    let (exponent, fraction) = (magnitude >> mantissa, f64::from(magnitude & ((1 << mantissa) - 1)));
    let scale = 2f64.powi(mantissa);
    let value = match exponent {
        0 => fraction / scale * 2f64.powi(1 - bias),
        e => (1.0 + fraction / scale) * 2f64.powi(e as i32 - bias),
    };
    let value = special.unwrap_or(value);
    if negative { -value } else { value }
}

/// The code of a number: of all finite ones the nearest, of two the one with an even last bit, or for whole numbers by rule.
fn encode(format: Format, x: f32, rounding: Rounding, symmetric: bool) -> u32 {
    let mask = (1u32 << format.bits()) - 1;
    if format.is_int() {
        let [least, most] = format.range(symmetric);
        let whole = match rounding {
            Rounding::Away => x.round(),
            Rounding::Even | Rounding::EvenQuotient => x.round_ties_even(),
        };
        return whole.clamp(least, most) as i32 as u32 & mask;
    }
    if x.is_nan() {
        return match format {
            Format::E2M1 => 0,
            Format::E4M3Fnuz | Format::E5M2Fnuz => 0x80,
            _ => 0x7f,
        };
    }
    let sign_bit = 1u32 << (format.bits() - 1);
    let size = f64::from(x.abs());
    let (mut best, mut distance) = (0, f64::INFINITY);
    for code in (0..sign_bit).filter(|&code| decode(format, code).is_finite()) {
        let away = (decode(format, code) - size).abs();
        let closer = away < distance || (away == distance && code % 2 == 0);
        // Beyond the largest everything is equally far: it is the nearest, and an infinity saturates.
        if closer || (size >= decode(format, code)) {
            (best, distance) = (code, away);
        }
    }
    let fnuz = matches!(format, Format::E4M3Fnuz | Format::E5M2Fnuz);
    if x.is_sign_negative() && !(fnuz && best == 0) { best | sign_bit } else { best }
}

fn upload<T: bytemuck::Pod>(device: &Device, shape: &[usize], dtype: DType, values: &[T]) -> Tensor {
    Tensor::from_bytes(device, shape, dtype, bytemuck::cast_slice(values)).unwrap()
}

/// Codes of a contiguous tensor of words, in the order of the shape.
fn unpack(words: &Tensor, layout: &CodeLayout, shape: &[usize]) -> Vec<u32> {
    let bytes = words.to_bytes().unwrap();
    let size = words.dtype().size_bytes();
    let per = layout.per_word(words.dtype());
    let bits = layout.format.bits();
    coordinates(shape)
        .map(|mut at| {
            let inside = match layout.packed {
                Some(Packed { axis, .. }) => {
                    let inside = at[axis] % per;
                    at[axis] /= per;
                    inside
                }
                None => 0,
            };
            let n = at.iter().zip(words.shape()).fold(0, |n, (at, extent)| n * extent + at);
            let mut word = [0; 4];
            word[..size].copy_from_slice(&bytes[n * size..][..size]);
            u32::from_le_bytes(word) >> (inside * bits) & ((1 << bits) - 1)
        })
        .collect()
}

/// Every value that a code has, the middles between neighbours, their neighbours in f32, and what no code reaches.
fn probes(format: Format) -> Vec<f32> {
    let mut values: Vec<f32> = (0..1u32 << format.bits()).map(|code| decode(format, code) as f32).collect();
    values.retain(|value| value.is_finite());
    values.sort_by(f32::total_cmp);
    let middles: Vec<f32> = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
    let near = |x: f32| [x, x.next_up(), x.next_down()];
    let mut probes: Vec<f32> = values.iter().chain(&middles).flat_map(|&x| near(x)).collect();
    probes.extend([0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]);
    probes
}

#[test]
fn every_code_is_what_its_definition_says() {
    let device = device();
    for format in Format::ALL {
        let codes: Vec<u8> = (0..=255u8).map(|code| code & ((1u16 << format.bits()) - 1) as u8).collect();
        let words = upload(&device, &[256], DType::U8, &codes);
        let mut x = Tensor::empty(&device, &[256], DType::F32).unwrap();
        dequantise(device.stream(), words.view(), &CodeLayout::bytes(format), None, x.view_mut()).unwrap();
        for (code, got) in codes.iter().zip(read(&x)) {
            let want = decode(format, (*code).into());
            assert!(got == want || got.is_nan() && want.is_nan(), "{format:?} {code:#x}: {got}, not {want}");
        }
    }
}

#[test]
fn encoding_takes_the_nearest_code() {
    let device = device();
    for (format, rounding) in Format::ALL.into_iter().flat_map(|f| [(f, Rounding::Away), (f, Rounding::Even)]) {
        let probes = probes(format);
        let x = upload(&device, &[probes.len()], DType::F32, &probes);
        let mut words = Tensor::empty(&device, &[probes.len()], DType::U8).unwrap();
        let layout = CodeLayout::bytes(format);
        let symmetric = rounding == Rounding::Even;
        quantise(
            device.stream(),
            x.view(),
            &Coding { layout: &layout, scales: None, rounding, symmetric },
            words.view_mut(),
        )
        .unwrap();
        for (&x, got) in probes.iter().zip(words.to_bytes().unwrap()) {
            let want = encode(format, x, rounding, symmetric);
            // Whole numbers of fewer bits are sign-extended to the byte.
            let value = decode(format, want);
            let want = if format.is_int() { value as i8 as u8 } else { want as u8 };
            assert_eq!(got, want, "{format:?} {rounding:?} of {x:e}");
        }
    }
}

/// A tensor of a shape, how its codes are stored, and the block of its scales.
type Shaped = (&'static [usize], Option<usize>, DType, &'static [usize]);
const SHAPED: [Shaped; 9] = [
    (&[1], None, DType::U8, &[]),
    (&[67], Some(0), DType::U32, &[]),
    (&[6, 64], Some(1), DType::U32, &[1, 32]),
    (&[8, 24], Some(0), DType::U32, &[4, 8]),
    (&[5, 16], None, DType::U8, &[1, 4]),
    (&[3, 10], Some(1), DType::U8, &[1, 5]),
    (&[2, 6, 32], Some(2), DType::U32, &[1, 3, 16]),
    (&[4, 2, 3, 2, 6], None, DType::U8, &[2, 1, 3, 2, 2]),
    (&[0, 8], Some(1), DType::U32, &[]),
];

#[test]
fn codes_are_the_oracles_for_blocks_packings_scales_and_strides() {
    let device = device();
    let mut numbers = Numbers::new(7);
    for (turn, (shape, axis, word, block)) in SHAPED.into_iter().enumerate() {
        for step in 0..2 {
            let format = Format::ALL[(turn + 5 * step) % Format::ALL.len()];
            let kind = ScaleKind::ALL[(turn + step) % 5];
            let dtype = [DType::F32, DType::BF16, DType::F16, DType::F64][(turn + step) % 4];
            let lie = Lie::ALL[(turn + step) % 3];
            let layout = match axis {
                Some(axis) => CodeLayout::packed(format, axis, shape[axis]),
                None => CodeLayout::bytes(format),
            };
            let what = format!("{format:?} {kind:?} {dtype} {lie:?} {shape:?} {layout:?} {block:?}");
            let values: Vec<f64> = numbers.values(shape.iter().product(), dtype);
            let x = tensor(&device, shape, dtype, &values, lie);
            let whole = block.is_empty();
            let grid: Vec<usize> = if whole { vec![1] } else { shape.iter().zip(block).map(|(e, b)| e / b).collect() };
            // Scales that every type holds: powers of two.
            let scales: Vec<f64> =
                (0..grid.iter().product()).map(|n: usize| 2f64.powi(-(n as i32 % 3)) / 4.0).collect();
            let scale_tensor = scale_values(&device, &grid, kind, &scales);
            let global = upload(&device, &[1], DType::F32, &[1.5f32]);
            let two_level = step % 2 == 1;
            let own = Scales { view: scale_tensor.view(), kind, block, global: two_level.then(|| global.view()) };
            let mut words = Tensor::empty(&device, &layout.words_shape(shape, word), word).unwrap();
            let rounding = [Rounding::Away, Rounding::EvenQuotient][step];
            quantise(
                device.stream(),
                x.view(),
                &Coding { layout: &layout, scales: Some(&own), rounding, symmetric: false },
                words.view_mut(),
            )
            .unwrap();
            let codes = unpack(&words, &layout, shape);
            let mut back = tensor(&device, shape, dtype, &values, lie);
            dequantise(device.stream(), words.view(), &layout, Some(&own), back.view_mut()).unwrap();
            for (n, (at, back)) in coordinates(shape).zip(read(&back)).enumerate() {
                let cell = at.iter().zip(block).zip(&grid).fold(0, |cell, ((at, b), g)| cell * g + at / b);
                let scale = (if two_level { 1.5 } else { 1.0f32 }) * scales[if whole { 0 } else { cell }] as f32;
                let x = values[n] as f32;
                let scaled = if rounding == Rounding::EvenQuotient { x / scale } else { x * (1.0 / scale) };
                let want = encode(format, scaled, rounding, false);
                assert_eq!(codes[n], want, "{what} at {at:?}");
                let value = f64::from(scale * decode(format, want) as f32);
                let value = match dtype {
                    DType::F16 => f16::from_f64(value).into(),
                    DType::BF16 => bf16::from_f64(value).into(),
                    _ => value,
                };
                assert_eq!(back, value, "{what} back at {at:?}");
            }
        }
    }
}

fn scale_values(device: &Device, grid: &[usize], kind: ScaleKind, scales: &[f64]) -> Tensor {
    match kind {
        ScaleKind::F32 | ScaleKind::F16 | ScaleKind::BF16 => tensor(device, grid, kind.dtype(), scales, Lie::Plain),
        ScaleKind::E8M0 => {
            let codes: Vec<u8> = scales.iter().map(|scale| (scale.log2() + 127.0) as u8).collect();
            upload(device, grid, DType::U8, &codes)
        }
        ScaleKind::E4M3 => {
            let code = |scale: f64| (0..=255u32).find(|&code| decode(Format::E4M3, code) == scale).unwrap() as u8;
            let codes: Vec<u8> = scales.iter().map(|&scale| code(scale)).collect();
            upload(device, grid, DType::U8, &codes)
        }
    }
}

#[test]
fn words_hold_zeros_behind_the_axis() {
    let device = device();
    let x = upload(&device, &[3], DType::F32, &[1.0f32, -1.0, 2.0]);
    let mut words = upload(&device, &[1], DType::U32, &[u32::MAX]);
    let layout = CodeLayout::packed(Format::I4, 0, 3);
    quantise(
        device.stream(),
        x.view(),
        &Coding { layout: &layout, scales: None, rounding: Rounding::Even, symmetric: false },
        words.view_mut(),
    )
    .unwrap();
    assert_eq!(words.to_bytes().unwrap(), 0x02f1_u32.to_le_bytes());
}

#[test]
fn peaks_are_the_largest_magnitudes() {
    let device = device();
    let mut numbers = Numbers::new(3);
    let cases: [(&[usize], &[usize]); 7] = [
        (&[5], &[]),
        (&[3, 4099], &[]),
        (&[6, 64], &[1, 32]),
        (&[6, 300], &[2, 150]),
        (&[7, 10], &[2, 4]),
        (&[2, 3, 8], &[1, 3, 2]),
        (&[0, 4], &[]),
    ];
    for ((shape, block), lie) in cases.into_iter().zip(Lie::ALL.into_iter().cycle()) {
        let mut values = numbers.values(shape.iter().product(), DType::F32);
        if let Some(value) = values.get_mut(2) {
            *value = f64::NAN;
        }
        let x = tensor(&device, shape, DType::F32, &values, lie);
        let whole = block.is_empty();
        let grid: Vec<usize> =
            if whole { vec![] } else { shape.iter().zip(block).map(|(e, b)| e.div_ceil(*b)).collect() };
        let mut peaks = Tensor::empty(&device, &grid, DType::F32).unwrap();
        block_peaks(device.stream(), x.view(), block, PeakRule::ratio(2.0, 254.0), peaks.view_mut()).unwrap();
        let mut want = vec![0f32; grid.iter().product()];
        for (at, value) in coordinates(shape).zip(&values) {
            let cell = at.iter().zip(block).zip(&grid).fold(0, |cell, ((at, b), g)| cell * g + at / b);
            want[cell] = want[cell].max(value.abs() as f32);
        }
        let want: Vec<f64> = want.iter().map(|peak| f64::from(2.0 * peak / 254.0)).collect();
        assert_eq!(read(&peaks), want, "{shape:?} by {block:?}");
    }
}

#[test]
fn scales_are_rounded_up_to_their_type() {
    let device = device();
    let raw = [0.0f32, 1.0, 1.0 + 1e-6, 0.3, 1e-9, 1e-42, 1e30, 500.0, f32::INFINITY, f32::NAN, 0.001, 3.0];
    let peaks = upload(&device, &[raw.len()], DType::F32, &raw);
    for kind in ScaleKind::ALL {
        let mut scales = Tensor::empty(&device, &[raw.len()], kind.dtype()).unwrap();
        store_scales(device.stream(), peaks.view(), 1.0, None, kind, scales.view_mut()).unwrap();
        let bytes = scales.to_bytes().unwrap();
        let all: Vec<f64> = match kind {
            ScaleKind::F32 => Vec::new(),
            ScaleKind::F16 => (0..0x7c00u16).map(|bits| f16::from_bits(bits).into()).collect(),
            ScaleKind::BF16 => (0..0x7f80u16).map(|bits| bf16::from_bits(bits).into()).collect(),
            ScaleKind::E8M0 => (0..255).map(|code| 2f64.powi(code - 127)).collect(),
            ScaleKind::E4M3 => (0..0x7f).map(|code| decode(Format::E4M3, code)).collect(),
        };
        // The least value of the type that is not below, the largest if there is none.
        let up = |x: f32| match kind {
            ScaleKind::F32 => f64::from(x),
            _ => all.iter().copied().find(|&value| value >= x.into()).unwrap_or(*all.last().unwrap()),
        };
        for (n, &x) in raw.iter().enumerate() {
            let got = match kind {
                ScaleKind::F32 => f32::from_le_bytes(bytes[4 * n..][..4].try_into().unwrap()).into(),
                ScaleKind::F16 => f16::from_le_bytes(bytes[2 * n..][..2].try_into().unwrap()).into(),
                ScaleKind::BF16 => bf16::from_le_bytes(bytes[2 * n..][..2].try_into().unwrap()).into(),
                ScaleKind::E8M0 => 2f64.powi(i32::from(bytes[n]) - 127),
                ScaleKind::E4M3 => decode(Format::E4M3, bytes[n].into()),
            };
            let replaced = x.is_nan() || up(x) <= 0.0 || !up(x).is_finite();
            let want = up(if replaced { f32::MIN_POSITIVE } else { x });
            assert_eq!(got, want, "{kind:?} of {x:e}");
        }
    }
}

#[test]
fn a_second_level_divides_the_first() {
    let device = device();
    let peaks = upload(&device, &[2], DType::F32, &[3.0f32, 0.7]);
    let global = upload(&device, &[1], DType::F32, &[0.1f32]);
    let mut scales = Tensor::empty(&device, &[2], DType::F32).unwrap();
    let (stream, divisor) = (device.stream(), Some(global.view()));
    store_scales(stream, peaks.view(), 1.0, divisor, ScaleKind::F32, scales.view_mut()).unwrap();
    assert_eq!(read(&scales), [f64::from(3.0f32 / 0.1), f64::from(0.7f32 / 0.1)]);
}

#[test]
fn what_does_not_fit_is_named() {
    let device = device();
    let stream = device.stream();
    let x = upload(&device, &[2, 8], DType::F32, &[0f32; 16]);
    let scales = upload(&device, &[2, 2], DType::F32, &[1f32; 4]);
    let mut words = Tensor::empty(&device, &[2, 1], DType::U32).unwrap();
    let layout = CodeLayout::packed(Format::I4, 1, 8);
    let quantised = |x: &Tensor, words: &mut Tensor, layout: &CodeLayout, scales: Option<&Scales<'_>>| {
        quantise(
            stream,
            x.view(),
            &Coding { layout, scales, rounding: Rounding::Away, symmetric: false },
            words.view_mut(),
        )
        .unwrap_err()
        .to_string()
    };
    let own = Scales { view: scales.view(), kind: ScaleKind::F32, block: &[1, 8], global: None };
    let errors = [
        (quantised(&x, &mut words, &layout, Some(&own)), "scales must be [2, 1]"),
        (quantised(&x, &mut words, &layout, Some(&Scales { block: &[], ..own })), "scales must be one element"),
        (quantised(&x, &mut words, &layout, Some(&Scales { block: &[8], ..own })), "block must be"),
        (quantised(&x, &mut words, &layout, Some(&Scales { kind: ScaleKind::F16, ..own })), "scales must be f16"),
        (quantised(&x, &mut words, &CodeLayout::packed(Format::I4, 1, 9), None), "words must be packed"),
        (quantised(&x, &mut words, &CodeLayout::packed(Format::I8, 1, 8), None), "words must be [2, 2]"),
        (quantised(&x, &mut words, &CodeLayout::bytes(Format::I8), None), "words must be u8"),
    ];
    for (error, expected) in errors {
        assert!(error.contains(expected), "{error:?} says not {expected:?}");
    }
    let mut whole = upload(&device, &[2, 8], DType::I32, &[0i32; 16]);
    let words = upload(&device, &[2, 8], DType::U8, &[0u8; 16]);
    let error = dequantise(stream, words.view(), &CodeLayout::bytes(Format::I8), None, whole.view_mut()).unwrap_err();
    assert!(error.to_string().contains("i32"), "{error}");
}

fn counted(device: &Device, values: &[i32]) -> Tensor {
    upload(device, &[values.len()], DType::I32, values)
}

fn values(rows: usize, k: usize) -> Vec<f64> {
    (0..rows * k).map(|at| ((at * 37 % 101) as f64 - 50.0) / 64.0).collect()
}

/// Grouped products of three rows of ones by two matrices, columns of which add up to `one` and to twice that: bounds and choices
/// outside of what there is.
fn assert_held_inside(
    device: &Device,
    n: usize,
    one: f64,
    multiply: impl Fn(&GemmGroups<'_>, ViewMut<'_>) -> crate::Result<()>,
) {
    let product = |bounds: &[i32], order: Option<&[i32]>| {
        let mut c = tensor(device, &[3, n], DType::F16, &vec![-1.0; 3 * n], Lie::Plain);
        let (bounds, order) = (counted(device, bounds), order.map(|order| counted(device, order)));
        let groups = match &order {
            Some(order) => GemmGroups::Choices { offsets: bounds.view(), order: order.view(), each: 2 },
            None => GemmGroups::Offsets(bounds.view()),
        };
        multiply(&groups, c.view_mut()).unwrap();
        read(&c).chunks(n).map(|row| row[0]).collect::<Vec<_>>()
    };
    assert_eq!(product(&[0, 1, i32::MAX], None), [one, 2.0 * one, 2.0 * one]);
    assert_eq!(product(&[0, 2, -7], None), [one, one, 2.0 * one], "an end of 2^32 - 7 is the last row's");
    assert_eq!(product(&[2, 1, 2], None), [-1.0, 2.0 * one, -1.0], "rows of no group are left as they are");
    assert_eq!(product(&[0, 1, 3], Some(&[-1, 0, i32::MAX])), [one, 2.0 * one, 2.0 * one]);
}
