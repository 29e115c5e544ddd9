use rocfire_hal::{DType, Layout, Tensor, View};

use super::{AttentionInputs, AttentionParams, AttentionSaved, attention, attention_backward};
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

/// Heads are computed one by one with tiles of fewer rows than all together: every row has the same bits. Keys end in the middle of a
/// tile; few of them have large scores, to which sums are brought.
#[test]
fn a_row_has_the_same_bits_in_a_tile_of_more_rows() {
    let device = device();
    let (heads, q_rows, k_rows, depth, dtype) = (64, 150, 229, 128, DType::BF16);
    let mut numbers = Numbers::new(5);
    let mut made = |rows: usize| {
        let mut values = numbers.values(heads * rows * depth, dtype);
        values.iter_mut().enumerate().for_each(|(at, value)| *value *= if at / depth % 61 == 60 { 1.0 } else { 0.125 });
        values
    };
    let (q, k, v) = (made(q_rows), made(k_rows), made(k_rows));
    let of = |values: &[f64], heads: std::ops::Range<usize>, rows: usize| {
        let values = &values[heads.start * rows * depth..heads.end * rows * depth];
        tensor(&device, &[1, heads.len(), rows, depth], dtype, values, Lie::Plain)
    };
    let of_heads = |heads: std::ops::Range<usize>| {
        let (q, k, v) = (of(&q, heads.clone(), q_rows), of(&k, heads.clone(), k_rows), of(&v, heads, k_rows));
        bytes(&q, &k, v.view())
    };
    let all = of_heads(0..heads);
    for head in [0, 7, heads - 1] {
        let own = of_heads(head..head + 1);
        assert!(own == all[head * own.len()..][..own.len()], "head {head}");
    }
}

/// What is rounded for the products of sums has NaN as one, though numbers alone take a shorter way: that of a query is in its own
/// gradient and in those of all keys that it sees, and in no other query's.
#[test]
fn a_query_that_is_no_number_shows_in_its_gradient_and_in_those_of_its_keys() {
    let device = device();
    const ROWS: usize = 70;
    let (rows, depth, spoilt) = (ROWS, 64, 41);
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        let mut numbers = Numbers::new(11);
        let shape = [1, 1, rows, depth];
        let mut values = || numbers.values(rows * depth, dtype);
        let (mut queries, keys, of_keys, gradient) = (values(), values(), values(), values());
        queries[spoilt * depth + 5] = f64::NAN;
        let of = |values: &[f64]| tensor(&device, &shape, dtype, values, Lie::Plain);
        let (q, k, v, dout) = (of(&queries), of(&keys), of(&of_keys), of(&gradient));
        let (mut out, mut lse) = (of(&keys), tensor(&device, &shape[..3], DType::F32, &[0.0; ROWS], Lie::Plain));
        let (mut dq, mut dk, mut dv) = (of(&keys), of(&keys), of(&keys));
        let (q, k, v) = (q.view(), k.view(), v.view());
        let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        let params = AttentionParams { causal: true, ..AttentionParams::default() };
        attention(device.stream(), &inputs, &params, out.view_mut(), Some(lse.view_mut())).unwrap();
        let saved = AttentionSaved { out: out.view(), lse: lse.view(), dout: dout.view() };
        let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
        attention_backward(device.stream(), &inputs, &saved, &params, gradients).unwrap();
        let spoilt_rows = |tensor: &Tensor| -> Vec<usize> {
            let bytes = tensor.to_bytes().unwrap();
            let is_nan = |at: usize| match dtype {
                DType::F32 => f32::from_le_bytes(bytes[at * 4..][..4].try_into().unwrap()).is_nan(),
                DType::F16 => u16::from_le_bytes([bytes[at * 2], bytes[at * 2 + 1]]) & 0x7fff > 0x7c00,
                _ => u16::from_le_bytes([bytes[at * 2], bytes[at * 2 + 1]]) & 0x7fff > 0x7f80,
            };
            (0..rows).filter(|row| (0..depth).all(|column| is_nan(row * depth + column))).collect()
        };
        assert_eq!(spoilt_rows(&dq), [spoilt], "{dtype}");
        // Keys of the same tile that it does not see may have it too: nothing times no number.
        for gradient in [&dk, &dv] {
            let rows = spoilt_rows(gradient);
            assert!((0..=spoilt).all(|row| rows.contains(&row)), "{dtype}: {rows:?}");
        }
    }
}
