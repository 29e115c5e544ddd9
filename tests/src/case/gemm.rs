//! Matrix products: sizes around every tile, the four operand layouts, batches that broadcast.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm as launch_gemm};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// M, N, K: one, primes, one around 32 and 128, long and thin each way, empty.
const SIZES: [[usize; 3]; 12] = [
    [1, 1, 1],
    [1, 67, 33],
    [31, 33, 32],
    [32, 32, 31],
    [33, 31, 65],
    [127, 129, 64],
    [129, 17, 127],
    [7, 5, 2053],
    [16, 128, 96],
    [0, 5, 7],
    [5, 0, 7],
    [5, 7, 0],
];
/// NN, TN, NT, TT.
const LAYOUTS: [[Placement; 2]; 4] = [
    [Placement::Contiguous, Placement::Contiguous],
    [Placement::Transposed, Placement::Contiguous],
    [Placement::Contiguous, Placement::Transposed],
    [Placement::Transposed, Placement::Transposed],
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, [m, n, k]) in SIZES.into_iter().enumerate() {
        for (shift, dtype) in FLOATS.into_iter().enumerate() {
            cases.push(gemm(dtype, &[m, k], &[k, n], LAYOUTS[(turn + shift) % 4]));
        }
    }
    for layout in LAYOUTS {
        cases.push(gemm(DType::F32, &[65, 34], &[34, 66], layout));
    }
    for dtype in [DType::I32, DType::I64, DType::U8] {
        cases.push(gemm(dtype, &[19, 23], &[23, 29], LAYOUTS[0]));
    }
    // Bytes to sums of 32 bits: vectors along K, across it, and none.
    for (size, layout) in
        [([33, 80, 64], LAYOUTS[2]), ([48, 32, 80], LAYOUTS[0]), ([64, 96, 32], LAYOUTS[1]), ([17, 19, 23], LAYOUTS[3])]
    {
        let [m, n, k] = size;
        cases.push(gemm_into(DType::I8, DType::I32, &[m, k], &[k, n], layout));
    }
    cases.push(gemm(DType::F32, &[3, 2, 17, 33], &[3, 2, 33, 35], LAYOUTS[2]));
    cases.push(gemm(DType::F32, &[3, 1, 17, 33], &[2, 33, 35], LAYOUTS[0]));
    cases.push(gemm(DType::F16, &[1, 40, 16], &[5, 16, 40], LAYOUTS[1]));
    cases.push(gemm(DType::F32, &[40, 16], &[16, 40], [Placement::Strided, Placement::Flipped]));
    cases
}

/// A product of any extents, in any layout.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let (m, n, k) = (draw.extent(129), draw.extent(129), draw.extent(1025));
    let batch = draw.extent(3);
    let layout = [draw.placement(), draw.placement()];
    let dtype = draw.pick(&[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32]);
    match draw.below(3) {
        0 => gemm(dtype, &[m, k], &[k, n], layout),
        1 => gemm(dtype, &[batch, m, k], &[1, k, n], layout),
        _ => gemm(dtype, &[batch, m, k], &[batch, k, n], layout),
    }
}

fn gemm(dtype: DType, a: &[usize], b: &[usize], layout: [Placement; 2]) -> Case {
    gemm_into(dtype, dtype, a, b, layout)
}

fn gemm_into(dtype: DType, to: DType, a: &[usize], b: &[usize], layout: [Placement; 2]) -> Case {
    let output = rocfire_kernels::gemm::output_shape(a, b).expect("the shapes of a case fit");
    let launch = |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let (a, b) = (inputs[0].view(), inputs[1].view());
        Ok(launch_gemm(stream, a, b, outputs[0].view_mut(), &GemmParams::default())?)
    };
    let shape = output.clone();
    let oracle = move |inputs: &[Array]| vec![product(&inputs[0], &inputs[1], &shape)];
    let name = |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let size = format!("{} · {} {:?} {:?}", name(a), name(b), layout[0], layout[1]);
    let flops = 2.0 * (output.iter().product::<usize>() * a[a.len() - 1]) as f64;
    let inputs = vec![(Array::random(a, dtype, 1), layout[0]), (Array::random(b, dtype, 2), layout[1])];
    let call = Call { inputs, outputs: vec![(output, to)], launch, oracle };
    Case::new("gemm", dtype, size, flops, call).summing(a[a.len() - 1])
}

/// The product by three loops, in f64; batches broadcast.
fn product(a: &Array, b: &Array, output: &[usize]) -> Vec<f64> {
    let rank = output.len();
    let (m, n) = (output[rank - 2], output[rank - 1]);
    let k = a.shape[a.shape.len() - 1];
    let batches = &output[..rank - 2];
    let mut values = Vec::new();
    for batch in 0..batches.iter().product() {
        let (a_start, b_start) = (start(batch, batches, &a.shape), start(batch, batches, &b.shape));
        for row in 0..m {
            for column in 0..n {
                let pair = |depth: usize| (a.values[a_start + row * k + depth], b.values[b_start + depth * n + column]);
                values.push(wrapped(a.dtype, dot((0..k).map(pair))));
            }
        }
    }
    values
}

/// Integers wrap around; the small ones of a case only ever leave the range of a byte.
fn wrapped(dtype: DType, value: f64) -> f64 {
    if dtype == DType::U8 { value.rem_euclid(256.0) } else { value }
}

/// Where the matrix of a batch begins in an operand whose batch axes broadcast, aligned at the last.
fn start(mut batch: usize, batches: &[usize], shape: &[usize]) -> usize {
    let matrix = shape[shape.len() - 2] * shape[shape.len() - 1];
    let own = &shape[..shape.len() - 2];
    let (mut start, mut stride) = (0, matrix);
    for axis in (0..batches.len()).rev() {
        let at = batch % batches[axis];
        batch /= batches[axis];
        if let Some(extent) = (axis + own.len()).checked_sub(batches.len()).map(|axis| own[axis]) {
            start += if extent == 1 { 0 } else { at * stride };
            stride *= extent;
        }
    }
    start
}
