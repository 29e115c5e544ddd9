//! What ends refuse, and where they write: results of other strides, next to what is not theirs.

use rocfire_hal::{Device, Layout};

use super::*;
use crate::quant::{CodedRows, CodedWeight, q_matmul_scaled_to};
use crate::testing::device;

const SIZE: [usize; 3] = [5, 7, 32];

/// Codes of I8 by one scale each: row r of A is r + 1 throughout, row r of B is 3 - r.
struct Sides([Tensor; 4]);

impl Sides {
    fn new(device: &Device) -> Sides {
        let [m, n, k] = SIZE;
        let codes = |rows: usize, of: &dyn Fn(usize) -> i32| {
            let bytes: Vec<u8> = (0..rows * k).map(|at| of(at / k) as u8).collect();
            Tensor::from_bytes(device, &[rows, k], DType::U8, &bytes).unwrap()
        };
        let one = |scale: f32| Tensor::from_bytes(device, &[1, 1], DType::F32, &scale.to_le_bytes()).unwrap();
        Sides([codes(m, &|row| row as i32 + 1), one(0.25), codes(n, &|row| 3 - row as i32), one(0.125)])
    }

    fn run(&self, end: &ScaledEnd<'_>, c: rocfire_hal::ViewMut<'_>) -> Result<()> {
        let [a, a_scale, b, b_scale] = &self.0;
        let side = |codes, scales, rows| CodedRows {
            format: Format::I8,
            codes,
            scales,
            kind: ScaleKind::F32,
            block: [rows, SIZE[2]],
        };
        let a = side(a.view(), a_scale.view(), SIZE[0]);
        let b = side(b.view(), b_scale.view(), SIZE[1]);
        q_matmul_scaled_to(self.0[0].device().stream(), &a, &CodedWeight::Rows(b), end, c)
    }
}

fn codes(format: Format, scale: View<'_>) -> Option<EndCodes<'_>> {
    Some(EndCodes { format, scale })
}

/// Row and column of the product: 32 sums of (row + 1) * (3 - column) / 32.
fn product(row: usize, col: usize) -> f32 {
    (row as f32 + 1.0) * (3.0 - col as f32)
}

#[test]
fn an_end_is_done_where_a_result_has_strides_and_nowhere_else() {
    let device = device();
    let (sides, [m, n, _]) = (Sides::new(&device), SIZE);
    // Every other bias of twice as many.
    let all: Vec<u8> = (0..2 * n).flat_map(|at| (at as f32 * 0.5).to_le_bytes()).collect();
    let bias = Tensor::from_bytes(&device, &[2 * n], DType::F32, &all).unwrap();
    let bias = bias.with_layout(Layout::strided(&[n], &[2], 1).unwrap()).unwrap();
    let end = ScaledEnd { bias: Some(bias.view()), activation: EndActivation::Relu, codes: None };
    // By columns, 6 apart.
    let mut c = Tensor::from_bytes(&device, &[6 * n], DType::F32, &[0xa5; 6 * 7 * 4]).unwrap();
    c = c.with_layout(Layout::strided(&[m, n], &[1, 6], 0).unwrap()).unwrap();
    sides.run(&end, c.view_mut()).unwrap();
    let bytes = c.with_layout(Layout::contiguous(&[6 * n]).unwrap()).unwrap().to_bytes().unwrap();
    for (col, row) in (0..n).flat_map(|col| (0..6).map(move |row| (col, row))) {
        let word: [u8; 4] = bytes[(col * 6 + row) * 4..][..4].try_into().unwrap();
        match row < m {
            true => {
                assert_eq!(f32::from_le_bytes(word), (product(row, col) + col as f32 + 0.5).max(0.0), "{row} {col}")
            }
            false => assert_eq!(word, [0xa5; 4], "behind column {col}"),
        }
    }
    // Codes.
    let scale = Tensor::from_bytes(&device, &[1], DType::F32, &0.125f32.to_le_bytes()).unwrap();
    let codes = Some(EndCodes { format: Format::I8, scale: scale.view() });
    let mut c = Tensor::empty(&device, &[m, n], DType::U8).unwrap();
    sides.run(&ScaledEnd { codes, ..ScaledEnd::default() }, c.view_mut()).unwrap();
    let expected = |at: usize| (product(at / n, at % n) * 8.0).clamp(-127.0, 127.0) as i8 as u8;
    assert_eq!(c.to_bytes().unwrap(), (0..m * n).map(expected).collect::<Vec<u8>>());
}

#[test]
fn ends_that_do_not_fit_are_told_by_name() {
    let device = device();
    let (sides, [m, n, _]) = (Sides::new(&device), SIZE);
    let tensor = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
    let mut floats = tensor(&[m, n], DType::BF16);
    let mut bytes = tensor(&[m, n], DType::U8);
    let (one, two, half) = (tensor(&[1], DType::F32), tensor(&[2], DType::F32), tensor(&[1], DType::F16));
    let (short, wide, double) = (tensor(&[n - 1], DType::F32), tensor(&[1, n], DType::F32), tensor(&[n], DType::F64));
    let mut told = |bias, codes: Option<EndCodes<'_>>, into_codes: bool, expected: &str| {
        let end = ScaledEnd { bias, activation: EndActivation::None, codes };
        let c = if into_codes { bytes.view_mut() } else { floats.view_mut() };
        let error = sides.run(&end, c).unwrap_err().to_string();
        assert!(error.contains("q_matmul_scaled") && error.contains(expected), "{error}, not {expected}");
    };
    told(Some(short.view()), None, false, "end.bias must be [7], got [6]");
    told(Some(wide.view()), None, false, "end.bias must be [7], got [1, 7]");
    told(Some(double.view()), None, false, "f64");
    told(None, codes(Format::I4, one.view()), true, "end.codes.format must be codes of 8 bits");
    told(None, codes(Format::E4M3, two.view()), true, "end.codes.scale must be one element");
    told(None, codes(Format::E4M3, half.view()), true, "end.codes.scale");
    told(None, codes(Format::E4M3, one.view()), false, "c must be u8");
    told(None, None, true, "u8");
    // What lies in C.
    let own = |tensor: &Tensor, shape: &[usize], dtype| {
        Tensor::from_buffer(tensor.buffer().clone(), Layout::contiguous(shape).unwrap(), dtype).unwrap()
    };
    let (row, first) = (own(&floats, &[n], DType::BF16), own(&bytes, &[1], DType::F32));
    let told = |end: ScaledEnd<'_>, c: &mut Tensor, expected: &str| {
        let error = sides.run(&end, c.view_mut()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    };
    told(ScaledEnd { bias: Some(row.view()), ..ScaledEnd::default() }, &mut floats, "end.bias");
    told(ScaledEnd { codes: codes(Format::E4M3, first.view()), ..ScaledEnd::default() }, &mut bytes, "end.codes.scale");
}
