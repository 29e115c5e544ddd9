//! Row patterns through `fusion`: softmax and LayerNorm as Burn hands them over, one launch each.

use rocfire_fusion::{Draft, Reduce, Unary, run};
use rocfire_hal::{DType, Stream, Tensor};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::{dot, sum};

/// Rows and columns: one, primes, around a wave, around a workgroup, beyond what registers hold, none.
const SHAPES: [[usize; 2]; 9] = [[1, 1], [3, 7], [5, 63], [2, 64], [7, 65], [2, 1023], [3, 1025], [1, 9001], [0, 5]];
const EPSILON: f64 = 1e-5;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, shape) in SHAPES.into_iter().flat_map(|shape| FLOATS.map(|dtype| (shape, dtype))).enumerate() {
        let placement = Placement::ALL[turn / 4 % 4];
        cases.push(softmax(shape.1, shape.0, placement));
        cases.push(layer_norm(shape.1, shape.0, placement));
    }
    cases
}

/// Softmax or LayerNorm of rows of any width.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let shape = [draw.extent(65), 2 + draw.extent(1025)];
    let (dtype, placement) = (draw.float(), draw.placement());
    if draw.flag() { layer_norm(dtype, shape, placement) } else { softmax(dtype, shape, placement) }
}

fn size([rows, columns]: [usize; 2], placement: Placement) -> String {
    format!("{rows}x{columns} {placement:?}")
}

fn by_row(values: &[f64], columns: usize, row: impl Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    vec![values.chunks(columns).flat_map(row).collect()]
}

fn softmax(dtype: DType, shape: [usize; 2], placement: Placement) -> Case {
    let graph = Draft::graph("softmax", |g| {
        let x = g.input(dtype);
        let exp = (x - x.reduce(Reduce::Max)).unary(Unary::Exp);
        exp / exp.reduce(Reduce::Sum)
    });
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(run(stream, &graph, &shape, &[inputs[0].view()], &[], &mut [outputs[0].view_mut()])?)
    };
    let oracle = move |inputs: &[Array]| {
        by_row(&inputs[0].values, shape[1], |row| {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exp: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
            let sum = sum(&exp);
            exp.iter().map(|exp| exp / sum).collect()
        })
    };
    let inputs = vec![(Array::random(&shape, dtype, 1), placement)];
    let flops = 5.0 * (shape[0] * shape[1]) as f64;
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    Case::new("softmax", dtype, size(shape, placement), flops, call)
}

fn layer_norm(dtype: DType, shape: [usize; 2], placement: Placement) -> Case {
    let graph = Draft::graph("layer_norm", |g| {
        let (x, gamma, beta) = (g.input(dtype), g.input(dtype), g.input(dtype));
        // 16-bit rows are widened first, as Burn's module does.
        let wide = if dtype == DType::F64 { x } else { x.cast(DType::F32) };
        let centred = wide - wide.reduce(Reduce::Mean);
        let deviation = ((centred * centred).reduce(Reduce::Mean) + EPSILON).unary(Unary::Sqrt);
        (centred / deviation).cast(dtype) * gamma + beta
    });
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let views = [inputs[0].view(), inputs[1].view(), inputs[2].view()];
        Ok(run(stream, &graph, &shape, &views, &[], &mut [outputs[0].view_mut()])?)
    };
    let oracle = move |inputs: &[Array]| {
        by_row(&inputs[0].values, shape[1], |row| {
            let count = row.len() as f64;
            let mean = sum(row) / count;
            let variance = dot(row.iter().map(|x| (x - mean, x - mean))) / count;
            let scaled =
                |(x, (gamma, beta)): (&f64, (&f64, &f64))| (x - mean) / (variance + EPSILON).sqrt() * gamma + beta;
            row.iter().zip(inputs[1].values.iter().zip(&inputs[2].values)).map(scaled).collect()
        })
    };
    let inputs = vec![
        (Array::random(&shape, dtype, 1), placement),
        (Array::random(&[shape[1]], dtype, 2), Placement::Contiguous),
        (Array::random(&[shape[1]], dtype, 3), Placement::Contiguous),
    ];
    let flops = 8.0 * (shape[0] * shape[1]) as f64;
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    Case::new("layer_norm", dtype, size(shape, placement), flops, call)
}
