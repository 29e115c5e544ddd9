//! `quantise_activations` against its definition.

use super::*;

/// The power of two that an OCP group has, from the definition of each mode.
fn mx_exponent(rounding: MxRounding, format: Format, peak: f32) -> i32 {
    let (largest_exponent, mantissa) = match format {
        Format::E4M3 => (8, 3),
        Format::E5M2 | Format::E5M2Fnuz => (15, 2),
        Format::E4M3Fnuz => (7, 3),
        _ => (2, 1),
    };
    let peak64 = f64::from(peak);
    let exponent = match rounding {
        MxRounding::Down => peak64.log2().floor() as i32 - largest_exponent,
        MxRounding::Ceil => peak64.log2().ceil() as i32 - largest_exponent,
        MxRounding::Up => f64::from(peak / format.largest()).log2().ceil() as i32,
        MxRounding::Even => {
            let step = 2f64.powi(peak64.log2().floor() as i32 - mantissa);
            let rounded = (peak64 / step + 0.5).floor() * step;
            rounded.log2().floor() as i32 - largest_exponent
        }
    };
    exponent.clamp(-127, 127)
}

/// Scales and codes as the definition has them.
fn oracle(
    values: &[f32],
    [rows, cols]: [usize; 2],
    format: Format,
    granularity: Granularity,
    given: f32,
) -> (Vec<f32>, Vec<u32>) {
    let grid = granularity.scales_shape([rows, cols]);
    let (tall, wide) = match granularity {
        Granularity::Static | Granularity::Tensor => (rows, cols),
        Granularity::Token => (1, cols),
        Granularity::Group(group) => (1, group),
        Granularity::Block(side) => (side, side),
        Granularity::Mx(_) => (1, 32),
    };
    let cell = |n: usize| n / cols / tall * grid[1] + n % cols / wide;
    let mut peaks = vec![0f32; grid[0] * grid[1]];
    for (n, value) in values.iter().enumerate() {
        let peak = &mut peaks[cell(n)];
        *peak = if value.is_nan() || peak.is_nan() { f32::NAN } else { peak.max(value.abs()) };
    }
    let scale = |peak: f32| match granularity {
        Granularity::Static => given,
        Granularity::Mx(_) if peak == 0.0 => 2f32.powi(-127),
        Granularity::Mx(rounding) => 2f32.powi(mx_exponent(rounding, format, peak)),
        _ if peak == 0.0 => 1.0,
        _ => peak / format.largest(),
    };
    let scales: Vec<f32> = peaks.iter().map(|&peak| scale(peak)).collect();
    let code = |(n, &x): (usize, &f32)| {
        let scaled = x * (1.0 / scales[cell(n)]);
        if format.is_int() && scaled.is_nan() { 0 } else { encode(format, scaled, Rounding::Even, true) }
    };
    let codes = values.iter().enumerate().map(code).collect();
    (scales, codes)
}

fn check(device: &Device, turn: usize, shape: [usize; 2], format: Format, granularity: Granularity, smooth: bool) {
    let [rows, cols] = shape;
    let dtype = [DType::BF16, DType::F32, DType::F16][turn % 3];
    let mut numbers = Numbers::new(turn as u64 + 1);
    let mut values = numbers.values(rows * cols, dtype);
    if let Some(zeros) = values.get_mut(..cols.min(40)) {
        zeros.fill(0.0);
    }
    let x = tensor(device, &shape, dtype, &values, Lie::Plain);
    let factors: Vec<f64> = (0..cols).map(|col| 0.5 + (col % 5) as f64 / 4.0).collect();
    let factor = tensor(device, &[cols], DType::F32, &factors, Lie::Plain);
    let grid = granularity.scales_shape(shape);
    let kind = granularity.kind();
    let given = 0.125;
    let mut scales = match granularity {
        Granularity::Static => upload(device, &[1, 1], DType::F32, &[given]),
        _ => Tensor::empty(device, &grid, kind.dtype()).unwrap(),
    };
    let byte_cols = (cols * format.bits()).div_ceil(8);
    let mut codes = Tensor::empty(device, &[rows, byte_cols], DType::U8).unwrap();
    let smoothing = smooth.then(|| factor.view());
    let stream = device.stream();
    quantise_activations(
        stream,
        x.view(),
        smoothing,
        RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
    )
    .unwrap();
    let factor = |n: usize| if smooth { factors[n % cols] as f32 } else { 1.0 };
    let values: Vec<f32> = values.iter().enumerate().map(|(n, &value)| value as f32 * factor(n)).collect();
    let (want_scales, want_codes) = oracle(&values, shape, format, granularity, given);
    let what = format!("{dtype} {shape:?} {format:?} {granularity:?} smooth {smooth}");
    let bytes = scales.to_bytes().unwrap();
    let got_scales: Vec<f32> = match kind {
        ScaleKind::E8M0 => bytes.iter().map(|&code| 2f32.powi(i32::from(code) - 127)).collect(),
        _ => read(&scales).into_iter().map(|scale| scale as f32).collect(),
    };
    assert_eq!(got_scales, want_scales, "{what}");
    let layout = CodeLayout::of_rows(format, cols);
    assert_eq!(unpack(&codes, &layout, &shape), want_codes, "{what}");
}

#[test]
fn codes_and_scales_are_the_oracles() {
    use Granularity::{Block, Group, Mx, Static, Tensor, Token};
    let device = device();
    let cases: [([usize; 2], Format, Granularity, bool); 18] = [
        ([3, 64], Format::I8, Static, false),
        ([5, 37], Format::E4M3, Static, false),
        ([7, 640], Format::I8, Tensor, false),
        ([3, 33], Format::E5M2, Tensor, true),
        ([4, 256], Format::E4M3, Token, false),
        ([3, 1000], Format::I8, Token, true),
        ([2, 2051], Format::E4M3Fnuz, Token, false),
        ([2, 16400], Format::I8, Token, true),
        ([3, 300], Format::I8, Group(128), false),
        ([2, 128], Format::I4, Group(32), false),
        ([1, 65], Format::E2M1, Group(24), false),
        ([130, 140], Format::E4M3, Block(128), false),
        ([9, 24], Format::E5M2Fnuz, Block(8), false),
        ([3, 100], Format::E2M1, Mx(MxRounding::Up), false),
        ([3, 2048], Format::E2M1, Mx(MxRounding::Up), false),
        ([2, 2048], Format::E5M2, Mx(MxRounding::Even), false),
        ([2, 2048], Format::E4M3, Mx(MxRounding::Ceil), true),
        ([0, 8], Format::I8, Token, false),
    ];
    for (turn, (shape, format, granularity, smooth)) in cases.into_iter().enumerate() {
        check(&device, turn, shape, format, granularity, smooth);
    }
}

#[test]
fn every_mx_rounding_is_its_definition() {
    let device = device();
    for (turn, rounding) in MxRounding::ALL.into_iter().enumerate() {
        for format in [Format::E2M1, Format::E4M3] {
            check(&device, turn, [5, 96], format, Granularity::Mx(rounding), false);
        }
    }
}

#[test]
fn a_nan_spoils_its_own_scale_only() {
    let device = device();
    let mx = Granularity::Mx(MxRounding::Up);
    for (cols, granularity) in [(64, Granularity::Token), (64, mx), (2048, mx)] {
        let mut x = vec![1.0f32; 3 * cols];
        x[cols + 5] = f32::NAN;
        let x = upload(&device, &[3, cols], DType::F32, &x);
        let mut codes = Tensor::empty(&device, &[3, cols], DType::U8).unwrap();
        let kind = granularity.kind();
        let mut scales = Tensor::empty(&device, &granularity.scales_shape([3, cols]), kind.dtype()).unwrap();
        let (stream, format) = (device.stream(), Format::E4M3);
        quantise_activations(
            stream,
            x.view(),
            None,
            RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
        )
        .unwrap();
        let codes = codes.to_bytes().unwrap();
        let others = codes[..cols].iter().chain(&codes[2 * cols..]);
        assert!(others.copied().all(|code| code != 0x7f && code != 0), "{cols} {granularity:?}");
        assert_eq!(codes[cols + 5], 0x7f, "{cols} {granularity:?}");
    }
}

#[test]
fn scales_may_be_written_transposed() {
    let device = device();
    let values: Vec<f32> = (0..4 * 64).map(|n| n as f32).collect();
    let x = upload(&device, &[4, 64], DType::F32, &values);
    let mut codes = Tensor::empty(&device, &[4, 64], DType::U8).unwrap();
    let stored = Tensor::empty(&device, &[2, 4], DType::F32).unwrap();
    let mut scales = stored.with_layout(stored.layout().swap(0, 1).unwrap()).unwrap();
    let group = Granularity::Group(32);
    let stream = device.stream();
    quantise_activations(
        stream,
        x.view(),
        None,
        RowCodes { format: Format::I8, granularity: group, codes: codes.view_mut(), scales: scales.view_mut() },
    )
    .unwrap();
    let want: Vec<f64> =
        [31f32, 95.0, 159.0, 223.0, 63.0, 127.0, 191.0, 255.0].iter().map(|peak| f64::from(peak / 127.0)).collect();
    assert_eq!(read(&stored), want);
}

#[test]
fn wrong_activations_are_named() {
    let device = device();
    let quantised = |cols: usize, code_cols: usize, format: Format, granularity: Granularity| {
        let x = Tensor::empty(&device, &[2, cols], DType::F32).unwrap();
        let mut codes = Tensor::empty(&device, &[2, code_cols], DType::U8).unwrap();
        let grid = granularity.scales_shape([2, cols]);
        let mut scales = Tensor::empty(&device, &grid, granularity.kind().dtype()).unwrap();
        let (codes, scales) = (codes.view_mut(), scales.view_mut());
        quantise_activations(device.stream(), x.view(), None, RowCodes { format, granularity, codes, scales })
            .unwrap_err()
            .to_string()
    };
    for (error, expected) in [
        (quantised(16, 16, Format::I4, Granularity::Token), "codes must be contiguous u8 [2, 8]"),
        (quantised(16, 16, Format::I8, Granularity::Group(12)), "granularity must be"),
        (quantised(16, 16, Format::I8, Granularity::Mx(MxRounding::Up)), "format must be a small float"),
        (quantised(16, 4, Format::I2, Granularity::Token), "format must be 4 or 8 bits"),
    ] {
        assert!(error.contains(expected), "{error:?} says not {expected:?}");
    }
}
