//! Gated activations and their gradients.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gate::{
    Activation, GateLayout, GateParams, gate as launch_gate, gate_backward as launch_gate_backward,
};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};

/// Rows, and columns of the result: one, primes, around a wave, beyond a workgroup, none.
const SHAPES: [[usize; 2]; 7] = [[1, 1], [3, 7], [5, 64], [2, 65], [3, 1025], [17, 128], [0, 4]];

#[derive(Clone, Copy, Debug)]
struct Spec {
    activation: Activation,
    layout: GateLayout,
    limit: Option<f64>,
    offset: f64,
    scale: Option<f64>,
    bias: bool,
}

const SPECS: [Spec; 6] = [
    plain(Activation::Silu),
    plain(Activation::Gelu),
    // GPT-OSS's.
    Spec { layout: GateLayout::Interleaved, limit: Some(0.5), offset: 1.0, ..plain(Activation::QuickGelu) },
    Spec { bias: true, ..plain(Activation::GeluTanh) },
    Spec { scale: Some(0.25), limit: Some(0.75), ..plain(Activation::Silu) },
    Spec { bias: true, layout: GateLayout::Interleaved, ..plain(Activation::Sigmoid) },
];

const fn plain(activation: Activation) -> Spec {
    Spec { activation, layout: GateLayout::Halves, limit: None, offset: 0.0, scale: None, bias: false }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, shape) in SHAPES.into_iter().enumerate() {
        for step in 0..2 {
            let (dtype, placement) = (FLOATS[(turn + step) % 4], Placement::ALL[(turn + 2 * step) % 4]);
            cases.push(gate(dtype, shape, SPECS[(turn + 3 * step) % 6], placement));
            cases.push(gate_backward(dtype, shape, SPECS[(turn + 2 + 3 * step) % 6], placement));
        }
    }
    cases
}

/// A gate of any width, or its gradient.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let shape = [draw.extent(65), draw.extent(1025)];
    let (spec, dtype, placement) = (draw.pick(&SPECS), draw.float(), draw.placement());
    if draw.flag() { gate_backward(dtype, shape, spec, placement) } else { gate(dtype, shape, spec, placement) }
}

/// Value and slope of an activation.
pub fn activation(activation: Activation, x: f64) -> (f64, f64) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let root = (2.0 / std::f64::consts::PI).sqrt();
    match activation {
        Activation::Silu => (x * sigmoid(x), sigmoid(x) * (1.0 + x * sigmoid(-x))),
        Activation::QuickGelu => (x * sigmoid(1.702 * x), sigmoid(1.702 * x) * (1.0 + 1.702 * x * sigmoid(-1.702 * x))),
        Activation::Sigmoid => (sigmoid(x), sigmoid(x) * sigmoid(-x)),
        Activation::Gelu => {
            let share = 0.5 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2));
            (x * share, share + x * (-0.5 * x * x).exp() * 0.5 * root)
        }
        Activation::GeluTanh => {
            let tanh = (root * (x + 0.044715 * x.powi(3))).tanh();
            let inner = root * (1.0 + 3.0 * 0.044715 * x * x);
            (0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner)
        }
    }
}

impl Spec {
    fn params<'a>(&self, bias: &'a Tensor) -> GateParams<'a> {
        let mut params = GateParams::new(self.activation);
        (params.layout, params.limit, params.offset) = (self.layout, self.limit, self.offset);
        params.scale = self.scale;
        params.bias = self.bias.then(|| bias.view());
        params
    }

    /// Where in a row of `2 n` gate and up of column `at` are.
    fn places(&self, at: usize, n: usize) -> [usize; 2] {
        match self.layout {
            GateLayout::Halves => [at, n + at],
            GateLayout::Interleaved => [2 * at, 2 * at + 1],
        }
    }

    /// Gate and up of column `at` of a row, and whether each is within the limit.
    fn read(&self, row: &[f64], bias: &Array, at: usize, n: usize) -> [(f64, bool); 2] {
        let place = self.places(at, n);
        let [gate, up] = place.map(|place| row[place] + if self.bias { bias.values[place] } else { 0.0 });
        let limit = self.limit.unwrap_or(f64::INFINITY);
        [(gate.min(limit), gate <= limit), (up.clamp(-limit, limit) + self.offset, up.abs() <= limit)]
    }

    fn name(&self, [rows, n]: [usize; 2], placement: Placement) -> String {
        let Spec { activation, layout, limit, scale, bias, .. } = *self;
        let mut name = format!("{rows}x{n} {activation:?} {layout:?}");
        let parts = [(limit.is_some(), " limit"), (scale.is_some(), " scale"), (bias, " bias")];
        parts.into_iter().filter(|(there, _)| *there).for_each(|(_, part)| name.push_str(part));
        format!("{name} {placement:?}")
    }
}

fn inputs(dtype: DType, [rows, n]: [usize; 2], placement: Placement) -> Vec<(Array, Placement)> {
    vec![
        (Array::random(&[rows, 2 * n], dtype, 1), placement),
        (Array::random(&[2 * n], dtype, 2), Placement::Contiguous),
        (Array::random(&[rows, n], dtype, 3), placement),
    ]
}

fn gate(dtype: DType, shape: [usize; 2], spec: Spec, placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(launch_gate(stream, inputs[0].view(), &spec.params(&inputs[1]), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut y = Vec::new();
        for row in inputs[0].values.chunks(2 * shape[1]) {
            for at in 0..shape[1] {
                let [(gate, _), (up, _)] = spec.read(row, &inputs[1], at, shape[1]);
                y.push(activation(spec.activation, gate).0 * up * spec.scale.unwrap_or(1.0));
            }
        }
        vec![y]
    };
    let flops = 8.0 * (shape[0] * shape[1]) as f64;
    let outputs = vec![(shape.to_vec(), dtype)];
    let call = Call { inputs: inputs(dtype, shape, placement), outputs, launch, oracle };
    Case::new("gate", dtype, spec.name(shape, placement), flops, call)
}

fn gate_backward(dtype: DType, shape: [usize; 2], spec: Spec, placement: Placement) -> Case {
    let [rows, n] = shape;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let params = spec.params(&inputs[1]);
        Ok(launch_gate_backward(stream, inputs[0].view(), &params, inputs[2].view(), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut dx = vec![0.0; rows * 2 * n];
        for (number, row) in inputs[0].values.chunks(2 * n).enumerate() {
            for at in 0..n {
                let [(gate, gate_free), (up, up_free)] = spec.read(row, &inputs[1], at, n);
                let dy = inputs[2].values[number * n + at] * spec.scale.unwrap_or(1.0);
                let (value, slope) = activation(spec.activation, gate);
                let [gate_at, up_at] = spec.places(at, n).map(|place| number * 2 * n + place);
                dx[gate_at] = if gate_free { dy * up * slope } else { 0.0 };
                dx[up_at] = if up_free { dy * value } else { 0.0 };
            }
        }
        vec![dx]
    };
    let flops = 14.0 * (rows * n) as f64;
    let outputs = vec![(vec![rows, 2 * n], dtype)];
    let call = Call { inputs: inputs(dtype, shape, placement), outputs, launch, oracle };
    Case::new("gate_backward", dtype, spec.name(shape, placement), flops, call)
}
