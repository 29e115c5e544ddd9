//! Elementwise chains through `fusion`: the eager operators, and chains as Burn hands them over.
//!
//! Every operator of the IR in every dtype is judged in `fusion`'s own tests; here are the shapes and layouts that decide
//! the schedule.

use rocfire_fusion::{Draft, Graph, Unary, run};
use rocfire_hal::{DType, Stream, Tensor};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};

/// Empty, one, primes, one more and one less than a wave of 64, more than a workgroup, several axes.
const SHAPES: [&[usize]; 8] = [&[0], &[1], &[31], &[63], &[65], &[1031], &[7, 13, 5], &[3, 257]];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, dtype) in FLOATS.into_iter().cycle().take(4 * SHAPES.len()).enumerate() {
        let shape = SHAPES[turn / FLOATS.len()];
        let placement = Placement::ALL[turn % Placement::ALL.len()];
        cases.push(gelu(dtype, shape, placement));
        cases.push(add(dtype, shape, placement));
        cases.push(copy(dtype, shape, placement));
    }
    cases.extend(
        [DType::I64, DType::I32, DType::I8, DType::U8].map(|dtype| add(dtype, &[3, 65], Placement::Transposed)),
    );
    cases.push(broadcast_add(DType::F32));
    cases
}

/// A chain, a sum or a copy of any extents.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let shape = [draw.extent(17), draw.extent(33), draw.extent(65)];
    let (dtype, placement) = (draw.float(), draw.placement());
    match draw.below(3) {
        0 => add(dtype, &shape, placement),
        1 => gelu(dtype, &shape, placement),
        _ => copy(dtype, &shape, placement),
    }
}

fn size(shape: &[usize], placement: Placement) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("{} {placement:?}", extents.join("x"))
}

/// `x/2 · (1 + erf(x/√2))`, five operators in one launch.
fn gelu(dtype: DType, shape: &[usize], placement: Placement) -> Case {
    let graph = Draft::graph("gelu", |g| {
        let x = g.input(dtype);
        let gate = (x * std::f64::consts::FRAC_1_SQRT_2).unary(Unary::Erf) + 1.0;
        x * 0.5 * gate
    });
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(run(stream, &graph, inputs[0].shape(), &[inputs[0].view()], &[], &mut [outputs[0].view_mut()])?)
    };
    let oracle = |inputs: &[Array]| {
        let gelu = |&x: &f64| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2));
        vec![inputs[0].values.iter().map(gelu).collect()]
    };
    let inputs = vec![(Array::random(shape, dtype, 1), placement)];
    let flops = 5.0 * shape.iter().product::<usize>() as f64;
    Case::new(
        "gelu",
        dtype,
        size(shape, placement),
        flops,
        Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle },
    )
}

fn add_graph(dtype: DType) -> Graph {
    Draft::graph("add", |g| g.input(dtype) + g.input(dtype))
}

fn add(dtype: DType, shape: &[usize], placement: Placement) -> Case {
    let graph = add_graph(dtype);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let views = [inputs[0].view(), inputs[1].view()];
        Ok(run(stream, &graph, inputs[0].shape(), &views, &[], &mut [outputs[0].view_mut()])?)
    };
    let oracle = |inputs: &[Array]| vec![inputs[0].values.iter().zip(&inputs[1].values).map(|(a, b)| a + b).collect()];
    let array = |seed| Array::random(shape, dtype, seed);
    let inputs = vec![(array(1), placement), (array(2), Placement::Contiguous)];
    let flops = shape.iter().product::<usize>() as f64;
    Case::new(
        "add",
        dtype,
        size(shape, placement),
        flops,
        Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle },
    )
}

fn broadcast_add(dtype: DType) -> Case {
    let (graph, shape) = (add_graph(dtype), [5, 1, 33]);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let views = [inputs[0].view(), inputs[1].view()];
        Ok(run(stream, &graph, &[5, 7, 33], &views, &[], &mut [outputs[0].view_mut()])?)
    };
    let oracle = |inputs: &[Array]| {
        let (a, b) = (&inputs[0].values, &inputs[1].values);
        let at = |i: usize| a[i / (7 * 33) * 33 + i % 33] + b[i / 33 % 7];
        vec![(0..5 * 7 * 33).map(at).collect()]
    };
    let inputs = vec![
        (Array::random(&shape, dtype, 1), Placement::Contiguous),
        (Array::random(&[7, 1], dtype, 2), Placement::Contiguous),
    ];
    let call = Call { inputs, outputs: vec![(vec![5, 7, 33], dtype)], launch, oracle };
    Case::new("add", dtype, "5x1x33 + 7x1".to_owned(), 5.0 * 7.0 * 33.0, call)
}

fn copy(dtype: DType, shape: &[usize], placement: Placement) -> Case {
    let launch = |_: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(rocfire_fusion::eager::copy_into(inputs[0].view(), outputs[0].view_mut())?)
    };
    let oracle = |inputs: &[Array]| vec![inputs[0].values.to_vec()];
    let inputs = vec![(Array::random(shape, dtype, 1), placement)];
    Case::new(
        "copy",
        dtype,
        size(shape, placement),
        0.0,
        Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle },
    )
}
