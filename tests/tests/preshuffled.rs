//! Where a weight lies and whether K is cut into slices changes no bit of a product by it; what is not finite, and what is refused.
//!
//! `cargo test --test preshuffled`: codes by codes in rows and laid out, `ROCFIRE_PRESHUFFLE` on and off, on each kind of matrix unit and
//! without one.

use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};
use rocfire_kernels::quant::{
    CodedRows, Format, Preshuffled, PreshuffledRows, PreshuffledStack, ScaleKind, q_matmul_preshuffled, q_matmul_scaled,
};
use rocfire_tests::{Distance, most_nmse};

/// What a code is, from the definition of its format.
fn decode(format: Format, code: u32) -> f64 {
    let (mantissa, bias, fnuz) = match format {
        Format::I8 => return f64::from(code as u8 as i8),
        Format::E4M3 => (3, 7, false),
        Format::E4M3Fnuz => (3, 8, true),
        Format::E2M1 => (1, 1, false),
        other => panic!("{other:?} is not in these tests"),
    };
    let sign_bit = 1u32 << (format.bits() - 1);
    let (negative, magnitude) = (code & sign_bit != 0, code & (sign_bit - 1));
    if (fnuz && code == sign_bit) || (format == Format::E4M3 && magnitude == 0x7f) {
        return f64::NAN;
    }
    let (exponent, fraction) = ((magnitude >> mantissa) as i32, f64::from(magnitude & ((1 << mantissa) - 1)));
    let unit = 2f64.powi(exponent.max(1) - bias - mantissa);
    let value = if exponent == 0 { fraction } else { 2f64.powi(mantissa) + fraction } * unit;
    if negative { -value } else { value }
}

fn upload(device: &Device, shape: &[usize], dtype: DType, bytes: &[u8]) -> Tensor {
    Tensor::from_bytes(device, shape, dtype, bytes).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()).into()).collect()
}

fn on(arch: &str, preshuffle: bool) -> Device {
    let config = Config::from_env().unwrap().with_preshuffle(preshuffle);
    Device::open(DeviceId::emulated(arch).unwrap(), config).unwrap()
}

/// A side: codes, a byte each before they are packed, and exponents or floats as scales.
struct Side {
    format: Format,
    shape: [usize; 2],
    codes: Vec<u32>,
    block: [usize; 2],
    kind: ScaleKind,
    scales: Vec<f64>,
    bytes: Tensor,
    scale_tensor: Tensor,
}

impl Side {
    /// Every code there is, numbers or not, if `all`.
    fn new(
        device: &Device,
        seed: u64,
        format: Format,
        shape: [usize; 2],
        along: usize,
        kind: ScaleKind,
        all: bool,
    ) -> Side {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut code = || loop {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let code = (state >> 24) as u32 & ((1 << format.bits()) - 1);
            if all || decode(format, code).is_finite() {
                break code;
            }
        };
        let codes: Vec<u32> = (0..shape[0] * shape[1]).map(|_| code()).collect();
        let per = 8 / format.bits();
        let word =
            |codes: &[u32]| codes.iter().enumerate().map(|(n, code)| code << (n * format.bits())).sum::<u32>() as u8;
        let bytes: Vec<u8> = codes.chunks(per).map(word).collect();
        let bytes = upload(device, &[shape[0], shape[1] / per], DType::U8, &bytes);
        let grid = [shape[0], shape[1].div_ceil(along)];
        let exponents: Vec<u8> = (0..grid[0] * grid[1]).map(|n| 120 + (n * 5 % 11) as u8).collect();
        let scales: Vec<f64> = exponents.iter().map(|&e| 2f64.powi(i32::from(e) - 127)).collect();
        let scale_tensor = match kind {
            ScaleKind::E8M0 => upload(device, &grid, DType::U8, &exponents),
            _ => upload(
                device,
                &grid,
                DType::F32,
                &scales.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect::<Vec<_>>(),
            ),
        };
        Side { format, shape, codes, block: [1, along], kind, scales, bytes, scale_tensor }
    }

    fn rows(&self) -> CodedRows<'_> {
        let (codes, scales) = (self.bytes.view(), self.scale_tensor.view());
        CodedRows { format: self.format, codes, scales, kind: self.kind, block: self.block }
    }

    fn value(&self, row: usize, k: usize) -> f64 {
        let cell = row * self.shape[1].div_ceil(self.block[1]) + k / self.block[1];
        decode(self.format, self.codes[row * self.shape[1] + k]) * self.scales[cell]
    }
}

/// In rows, and laid out: the bytes of both.
fn products(device: &Device, a: &Side, b: &Side) -> [Vec<u8>; 2] {
    let stream = device.stream();
    let shape = [a.shape[0], b.shape[0]];
    let [mut plain, mut tiled] = [(); 2].map(|()| Tensor::empty(device, &shape, DType::F32).unwrap());
    q_matmul_scaled(stream, &a.rows(), &b.rows(), plain.view_mut()).unwrap();
    let weight = Preshuffled::new(stream, b.format, &b.bytes).unwrap();
    let gains = !["gfx1030", "gfx1100"].contains(&device.arch().name());
    assert_eq!(weight.is_laid_out(), device.config().preshuffle && gains);
    let rows = PreshuffledRows { weight: &weight, scales: b.scale_tensor.view(), kind: b.kind, block: b.block };
    q_matmul_preshuffled(stream, &a.rows(), &rows, tiled.view_mut()).unwrap();
    [plain, tiled].map(|c| c.to_bytes().unwrap())
}

#[test]
fn a_weight_laid_out_gives_the_bits_of_one_in_rows() {
    use Format::{E2M1, E4M3, E4M3Fnuz, I8};
    let cases = [
        ("gfx942", [I8, I8], 96, ScaleKind::F32),
        ("gfx942", [E4M3Fnuz, E4M3Fnuz], 320, ScaleKind::F32),
        ("gfx942", [E4M3Fnuz, E4M3Fnuz], 32, ScaleKind::F32),
        ("gfx950", [E4M3, E4M3], 32, ScaleKind::E8M0),
        ("gfx950", [E4M3, E2M1], 32, ScaleKind::E8M0),
        ("gfx950", [E2M1, E2M1], 32, ScaleKind::E8M0),
        ("gfx950", [E2M1, E4M3], 320, ScaleKind::F32),
        ("gfx1100", [I8, I8], 320, ScaleKind::F32),
        ("gfx1201", [E4M3, E4M3], 64, ScaleKind::F32),
        ("gfx1030", [E4M3, E2M1], 64, ScaleKind::F32),
    ];
    for (number, (arch, formats, along, kind)) in cases.into_iter().enumerate() {
        let m = [7, 20, 50][number % 3];
        let sides = |device: &Device| {
            let side = |side: usize, rows| {
                Side::new(device, (2 * number + side) as u64, formats[side], [rows, 320], along, kind, false)
            };
            [side(0, m), side(1, 70)]
        };
        let (with, without) = (on(arch, true), on(arch, false));
        let [a, b] = sides(&with);
        let [plain, tiled] = products(&with, &a, &b);
        assert!(plain == tiled, "{arch} {formats:?} {along}");
        let [a_off, b_off] = sides(&without);
        assert!(
            products(&without, &a_off, &b_off) == [plain.clone(), tiled],
            "{arch} {formats:?} {along}, switched off"
        );
        let cell = |n: usize| (0..320).map(|k| a.value(n / 70, k) * b.value(n % 70, k)).sum();
        let distance = Distance::between(&floats(&plain), &(0..m * 70).map(cell).collect::<Vec<f64>>());
        assert!(
            distance.unlike == 0 && distance.nmse < most_nmse(DType::F32, 320),
            "{arch} {formats:?} {along}: {distance:?}"
        );
    }
}

#[test]
fn slices_of_k_change_no_bit() {
    // One tile's chunks of K are workgroups of their own, those of many tiles are not: the first rows must be the same.
    for (arch, format, kind) in [
        ("gfx942", Format::I8, ScaleKind::F32),
        ("gfx942", Format::E4M3Fnuz, ScaleKind::F32),
        ("gfx942", Format::E4M3, ScaleKind::F32),
        ("gfx950", Format::E2M1, ScaleKind::E8M0),
        ("gfx1030", Format::E4M3, ScaleKind::F32),
    ] {
        let device = on(arch, true);
        let along = if kind == ScaleKind::E8M0 { 32 } else { 1300 };
        let b = Side::new(&device, 7, format, [40, 1300], along, kind, false);
        let of = |rows| Side::new(&device, 8, format, [rows, 1300], along, kind, false);
        let launches = device.launches();
        let few = products(&device, &of(5), &b);
        let few_launches = device.launches() - launches;
        let many = products(&device, &of(330), &b);
        // Both products of few rows are cut, those of many are not; the weight is laid out both times.
        assert_eq!(few_launches, device.launches() - launches - few_launches + 2, "{arch} {format:?}");
        for (few, many) in few.iter().zip(&many) {
            assert!(few[..] == many[..few.len()], "{arch} {format:?}");
        }
    }
}

#[test]
fn laid_out_and_back_are_the_same_codes() {
    let device = on("gfx942", true);
    for (number, (format, shape)) in
        [(Format::I8, [1, 1]), (Format::E4M3, [16, 128]), (Format::I8, [33, 131]), (Format::E2M1, [50, 70])]
            .into_iter()
            .enumerate()
    {
        let side = Side::new(&device, number as u64, format, shape, 4096, ScaleKind::F32, true);
        let weight = Preshuffled::new(device.stream(), format, &side.bytes).unwrap();
        assert!(weight.is_laid_out());
        assert_eq!((weight.format(), weight.shape()), (format, shape));
        // The formula of its documentation, byte by byte.
        let row_bytes = shape[1] * format.bits() / 8;
        let chunks = row_bytes.div_ceil(128) * 8;
        let (rows, laid) = (side.bytes.to_bytes().unwrap(), weight.memory().to_bytes().unwrap());
        let mut want = vec![0; shape[0].div_ceil(16) * chunks * 256];
        for (n, &byte) in rows.iter().enumerate() {
            let (r, b) = (n / row_bytes, n % row_bytes);
            want[((r / 16 * chunks + b / 16) * 16 + r % 16) * 16 + b % 16] = byte;
        }
        assert!(laid == want, "{format:?} {shape:?}");
        assert_eq!(weight.to_rows(device.stream()).unwrap().to_bytes().unwrap(), rows, "{format:?} {shape:?}");
    }
}

#[test]
fn matrices_are_laid_out_one_after_the_other() {
    let device = on("gfx942", true);
    for (format, [count, rows, k]) in
        [(Format::I8, [3, 1, 1]), (Format::E4M3, [2, 16, 128]), (Format::I8, [3, 33, 131]), (Format::E2M1, [2, 17, 70])]
    {
        let bytes = k * format.bits() / 8;
        // From a larger tensor, whose matrices and rows are further apart than they are long.
        let codes: Vec<u8> = (0..count * (rows + 1) * bytes).map(|at| (at * 7 % 120) as u8).collect();
        let all = upload(&device, &[count, rows + 1, bytes], DType::U8, &codes);
        let part = all.layout().slice(1, 1, rows + 1, 1).unwrap();
        let stack = all.clone().with_layout(part).unwrap();
        let weight = PreshuffledStack::new(device.stream(), format, &stack).unwrap();
        assert!(weight.is_laid_out());
        assert_eq!((weight.format(), weight.shape()), (format, [count, rows, k]));
        let laid = weight.memory().to_bytes().unwrap();
        let each = laid.len() / count;
        for matrix in 0..count {
            let own = &codes[(matrix * (rows + 1) + 1) * bytes..][..rows * bytes];
            let one = upload(&device, &[rows, bytes], DType::U8, own);
            let one = Preshuffled::new(device.stream(), format, &one).unwrap();
            assert!(laid[matrix * each..][..each] == one.memory().to_bytes().unwrap(), "{format:?}, matrix {matrix}");
        }
        let back = weight.to_rows(device.stream()).unwrap();
        let layout = back.layout().slice(0, count - 1, count, 1).unwrap().reshape(&[rows, bytes]).unwrap();
        let last = back.clone().with_layout(layout).unwrap();
        let want = codes[((count - 1) * (rows + 1) + 1) * bytes..].to_vec();
        assert_eq!((back.shape(), last.to_bytes().unwrap()), (&[count, rows, bytes][..], want));
    }
    let refused = |codes: &Tensor, format: Format, told: &str| {
        let error = PreshuffledStack::new(device.stream(), format, codes).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    };
    let of = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
    refused(&of(&[4, 64], DType::U8), Format::I8, "codes must be three axes");
    refused(&of(&[2, 4, 64], DType::F32), Format::I8, "u8");
    refused(&of(&[2, 4, 64], DType::U8), Format::I2, "8 or 4 bits");
    refused(&of(&[65536, 1, 1], DType::U8), Format::I8, "at most 65535 matrices");
    let nothing = PreshuffledStack::new(device.stream(), Format::I8, &of(&[0, 4, 64], DType::U8)).unwrap();
    assert!(!nothing.is_laid_out());
    let off = on("gfx942", false);
    let codes = Tensor::empty(&off, &[2, 4, 64], DType::U8).unwrap();
    assert!(!PreshuffledStack::new(off.stream(), Format::I8, &codes).unwrap().is_laid_out());
}

#[test]
fn what_is_no_number_stays_in_its_row_and_column() {
    // NaN as a code in one row of A, as an exponent in one column of B; gfx950 multiplies both in the matrix unit, gfx942 decodes.
    for arch in ["gfx942", "gfx950"] {
        let device = on(arch, true);
        let kind = ScaleKind::E8M0;
        let mut a = Side::new(&device, 3, Format::E4M3, [18, 160], 32, kind, false);
        let mut b = Side::new(&device, 4, Format::E2M1, [20, 160], 32, kind, false);
        a.codes[5 * 160 + 33] = 0x7f;
        let bytes: Vec<u8> = a.codes.iter().map(|&code| code as u8).collect();
        a.bytes = upload(&device, &[18, 160], DType::U8, &bytes);
        let mut exponents = b.scale_tensor.to_bytes().unwrap();
        exponents[7 * 5 + 4] = 255;
        b.scale_tensor = upload(&device, &[20, 5], DType::U8, &exponents);
        for bytes in products(&device, &a, &b) {
            for (n, x) in floats(&bytes).iter().enumerate() {
                assert_eq!(x.is_nan(), n / 20 == 5 || n % 20 == 7, "{arch}: element {n} is {x}");
            }
        }
    }
}

#[test]
fn wrong_weights_are_refused() {
    let device = on("gfx942", true);
    let stream = device.stream();
    let a = Side::new(&device, 1, Format::I8, [4, 64], 64, ScaleKind::F32, true);
    let b = Side::new(&device, 2, Format::I8, [6, 96], 96, ScaleKind::F32, true);
    let weight = Preshuffled::new(stream, Format::I8, &b.bytes).unwrap();
    let mut c = Tensor::empty(&device, &[4, 6], DType::F32).unwrap();
    let rows = |scales: &'static str| PreshuffledRows {
        weight: &weight,
        scales: if scales == "right" { b.scale_tensor.view() } else { a.scale_tensor.view() },
        kind: b.kind,
        block: b.block,
    };
    let refused = |rows: &PreshuffledRows<'_>, c: &mut Tensor| {
        q_matmul_preshuffled(stream, &a.rows(), rows, c.view_mut()).unwrap_err().to_string()
    };
    let text = refused(&rows("right"), &mut c);
    assert!(text.contains("b.weight") && text.contains("64 codes to a row"), "{text}");
    let text = refused(&rows("wrong"), &mut c);
    assert!(text.contains("b.scales") && text.contains("[6, 1]"), "{text}");
    let floats = Tensor::empty(&device, &[4, 64], DType::F32).unwrap();
    let text = Preshuffled::new(stream, Format::I8, &floats).unwrap_err().to_string();
    assert!(text.contains("codes") && text.contains("u8"), "{text}");
    let text = Preshuffled::new(stream, Format::I2, &a.bytes).unwrap_err().to_string();
    assert!(text.contains("8 or 4 bits"), "{text}");
    let elsewhere = on("gfx1100", true);
    let text = Preshuffled::new(elsewhere.stream(), Format::I8, &a.bytes).unwrap_err().to_string();
    assert!(text.contains("codes"), "{text}");
}
