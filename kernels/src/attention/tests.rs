use rocfire_hal::{DType, Layout, Tensor, View};

use super::{AttentionInputs, AttentionParams, attention};
use crate::testing::{Lie, Numbers, device, tensor};

/// The bytes of attention by keys and values.
fn bytes(q: &Tensor, k: &Tensor, v: View<'_>) -> Vec<u8> {
    let device = q.device();
    let mut out = Tensor::empty(device, q.shape(), q.dtype()).unwrap();
    let (q, k) = (q.view(), k.view());
    let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
    attention(device.stream(), &inputs, &AttentionParams::default(), out.view_mut(), None).unwrap();
    out.to_bytes().unwrap()
}

/// Tiles are read up to their last byte, by numbers of 31 bits: neither holds for rows that overlap or lie far apart. The last value of all
/// is infinite, so that a row of weight zero that has it would show.
#[test]
fn rows_that_overlap_or_lie_far_apart_are_those_of_a_copy() {
    let device = device();
    let (depth, dtype) = (32, DType::F16);
    let mut numbers = Numbers::new(7);
    let mut made =
        |rows: usize| tensor(&device, &[1, 1, rows, depth], dtype, &numbers.values(rows * depth, dtype), Lie::Plain);
    for (rows, stride) in [(70, 8_usize), (70, 0), (70, 40), (2, 1 << 22)] {
        let (q, k) = (made(20), made(rows));
        let count = (rows - 1) * stride + depth;
        let mut values: Vec<f64> = (0..count).map(|at| (at * 37 % 101) as f64 / 64.0 - 0.75).collect();
        values[count - 1] = f64::INFINITY;
        let memory = tensor(&device, &[count], dtype, &values, Lie::Plain);
        let apart = Layout::strided(&[1, 1, rows, depth], &[0, 0, stride as i64, 1], 0).unwrap();
        let whole: Vec<f64> = (0..rows * depth).map(|at| values[at / depth * stride + at % depth]).collect();
        let whole = tensor(&device, &[1, 1, rows, depth], dtype, &whole, Lie::Plain);
        let got = bytes(&q, &k, memory.view().with_layout(apart).unwrap());
        assert_eq!(got, bytes(&q, &k, whole.view()), "{rows} rows, {stride} apart");
    }
}
