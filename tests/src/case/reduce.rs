//! Row reductions through `fusion`, over contiguous rows and over rows that lie across memory.

use rocfire_fusion::{Graph, Reduce, run};
use rocfire_hal::{DType, Stream, Tensor};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::sum;

/// Rows and columns; the long rows take two launches.
const SHAPES: [[usize; 2]; 7] = [[1, 1], [5, 31], [64, 65], [65, 64], [2, 1031], [1, 70_001], [3, 0]];
const OPERATORS: [Reduce; 4] = [Reduce::Sum, Reduce::Mean, Reduce::Max, Reduce::Min];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, shape) in SHAPES.into_iter().enumerate() {
        for (shift, operator) in OPERATORS.into_iter().enumerate() {
            let dtype = FLOATS[(turn + shift) % FLOATS.len()];
            // The least of nothing has no value.
            if shape[1] > 0 || operator == Reduce::Sum {
                cases.push(reduce(operator, dtype, shape, Placement::Contiguous));
                cases.push(reduce(operator, dtype, shape, Placement::Transposed));
            }
        }
        if shape[1] > 0 {
            cases.push(reduce(Reduce::Sum, DType::I32, shape, Placement::Transposed));
            cases.push(reduce(Reduce::Any, DType::Bool, shape, Placement::Contiguous));
            cases.push(reduce(Reduce::All, DType::Bool, shape, Placement::Transposed));
        }
    }
    cases
}

/// A reduction of rows of any width.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let shape = [draw.extent(257), draw.extent(1025)];
    reduce(draw.pick(&OPERATORS), draw.float(), shape, draw.placement())
}

fn fold(operator: Reduce, row: &[f64]) -> f64 {
    match operator {
        Reduce::Mean => sum(row) / row.len() as f64,
        Reduce::Max => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reduce::Min => row.iter().copied().fold(f64::INFINITY, f64::min),
        Reduce::Any => f64::from(u8::from(row.iter().any(|&x| x != 0.0))),
        Reduce::All => f64::from(u8::from(row.iter().all(|&x| x != 0.0))),
        Reduce::Prod => row.iter().product(),
        _ => sum(row),
    }
}

fn reduce(operator: Reduce, dtype: DType, shape: [usize; 2], placement: Placement) -> Case {
    let mut graph = Graph::new("reduce");
    let x = graph.input(dtype);
    let y = graph.reduce(operator, x);
    graph.output(y);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(run(stream, &graph, &shape, &[inputs[0].view()], &[], &mut [outputs[0].view_mut()])?)
    };
    let oracle = move |inputs: &[Array]| {
        let row = |row: usize| fold(operator, &inputs[0].values[row * shape[1]..(row + 1) * shape[1]]);
        vec![(0..shape[0]).map(row).collect()]
    };
    let inputs = vec![(Array::random(&shape, dtype, 1), placement)];
    let call = Call { inputs, outputs: vec![(vec![shape[0], 1], dtype)], launch, oracle };
    let size = format!("{}x{} {placement:?}", shape[0], shape[1]);
    Case::new(operator.name(), dtype, size, (shape[0] * shape[1]) as f64, call).summing(shape[1])
}
