//! Norms of rows and of groups of channels, with what they take in, and their gradients.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gate::Activation;
use rocfire_kernels::norm::{
    GroupNormGradients, GroupNormParams, NormGradients, NormKind, NormParams, group_norm as launch_group_norm,
    group_norm_backward as launch_group_norm_backward, norm as launch_norm, norm_backward as launch_norm_backward,
};

use super::drawn::Draw;
use super::gate::activation;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::{dot, sum};

const EPSILON: f64 = 1e-5;

/// What a norm takes in besides `x`.
#[derive(Clone, Copy, Debug)]
struct Spec {
    kind: NormKind,
    weight: bool,
    one_plus: bool,
    bias: bool,
    residual: bool,
    gate: Option<Activation>,
}

const PLAIN: Spec =
    Spec { kind: NormKind::Rms, weight: false, one_plus: false, bias: false, residual: false, gate: None };
const SPECS: [Spec; 6] = [
    Spec { weight: true, ..PLAIN },
    Spec { kind: NormKind::Layer, weight: true, bias: true, ..PLAIN },
    Spec { weight: true, one_plus: true, residual: true, ..PLAIN },
    Spec { kind: NormKind::Layer, weight: true, bias: true, residual: true, ..PLAIN },
    Spec { weight: true, bias: true, gate: Some(Activation::Silu), ..PLAIN },
    PLAIN,
];
/// Rows and columns: one, primes, around a wave, beyond a wave's registers, beyond a workgroup's, none.
const SHAPES: [[usize; 2]; 8] = [[1, 1], [3, 7], [5, 63], [7, 65], [2, 1024], [3, 1025], [1, 9001], [0, 5]];
/// The third has more rows than one part of a sum over rows, the last the most columns.
const BACK_SHAPES: [[usize; 2]; 6] = [[1, 1], [3, 7], [512, 5], [9, 65], [2, 1025], [4, 130]];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, shape) in SHAPES.into_iter().enumerate() {
        for step in 0..3 {
            let spec = SPECS[(turn + 2 * step + turn / 6) % SPECS.len()];
            cases.push(norm(FLOATS[(turn + step) % 4], shape, spec, Placement::ALL[(turn + step) % 4]));
        }
    }
    cases.push(norm(DType::BF16, [1, 131_072], SPECS[0], Placement::Contiguous));
    for (turn, shape) in BACK_SHAPES.into_iter().enumerate() {
        for step in 0..2 {
            let spec = SPECS[(turn + 3 * step) % SPECS.len()];
            cases.push(norm_backward(FLOATS[(turn + 2 * step) % 4], shape, spec, Placement::ALL[(turn + step) % 4]));
        }
    }
    // Rows that are read once, in each of the kernel's tiles: of one part and of several, the last of them shorter.
    for (shape, spec, dtype) in [
        ([3, 1032], 0, DType::BF16),
        ([3, 1032], 3, DType::F32),
        ([9, 2048], 1, DType::F16),
        ([9, 2048], 2, DType::BF16),
        ([6, 2056], 1, DType::F32),
        ([6, 2056], 3, DType::BF16),
        ([5, 4104], 1, DType::BF16),
        ([5, 4104], 2, DType::F16),
    ] {
        cases.push(norm_backward(dtype, shape, SPECS[spec], Placement::Contiguous));
    }
    let shapes: [(&[usize], usize); 5] =
        [(&[1, 1], 1), (&[2, 6, 7], 3), (&[3, 4, 5, 3], 1), (&[2, 4, 17, 17], 4), (&[1, 6, 2, 3, 40], 2)];
    for (turn, (shape, groups)) in shapes.into_iter().enumerate() {
        let placement = Placement::ALL[turn % 4];
        cases.push(group_norm(FLOATS[turn % 4], shape, groups, turn % 3 != 2, placement));
        cases.push(group_norm_backward(FLOATS[(turn + 1) % 4], shape, groups, turn % 3 != 2, placement));
    }
    cases
}

/// A norm of rows of any width, or its gradients.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    // Two columns or fewer are nothing but rounding.
    let shape = [draw.extent(65), 2 + draw.extent(1025)];
    let (spec, dtype, placement) = (draw.pick(&SPECS), draw.float(), draw.placement());
    if draw.flag() { norm_backward(dtype, shape, spec, placement) } else { norm(dtype, shape, spec, placement) }
}

/// A row less its mean, over its size, and one over that size.
fn normal(kind: NormKind, row: &[f64]) -> (Vec<f64>, f64) {
    let count = row.len() as f64;
    let mean = if kind == NormKind::Layer { sum(row) / count } else { 0.0 };
    let square = dot(row.iter().map(|x| (x - mean, x - mean))) / count;
    let inverse = 1.0 / (square + EPSILON).sqrt();
    (row.iter().map(|x| (x - mean) * inverse).collect(), inverse)
}

impl Spec {
    fn factor(&self, weight: &Array, column: usize) -> f64 {
        match self.weight {
            true => weight.values[column] + f64::from(u8::from(self.one_plus)),
            false => 1.0,
        }
    }

    fn shift(&self, bias: &Array, column: usize) -> f64 {
        if self.bias { bias.values[column] } else { 0.0 }
    }

    fn params<'a>(&self, [weight, bias, gate]: [&'a Tensor; 3]) -> NormParams<'a> {
        let mut params = NormParams::new(self.kind, EPSILON);
        params.weight = self.weight.then(|| weight.view());
        params.one_plus = self.one_plus;
        params.bias = self.bias.then(|| bias.view());
        params.gate = self.gate.map(|activation| (activation, gate.view()));
        params
    }

    fn name(&self, [rows, columns]: [usize; 2], placement: Placement) -> String {
        let Spec { kind, weight, one_plus, bias, residual, gate } = *self;
        let mut name = format!("{rows}x{columns} {kind:?}");
        let parts =
            [(weight && !one_plus, " weight"), (one_plus, " 1+weight"), (bias, " bias"), (residual, " residual")];
        parts.into_iter().filter(|(there, _)| *there).for_each(|(_, part)| name.push_str(part));
        if let Some(gate) = gate {
            name.push_str(&format!(" gate {gate:?}"));
        }
        format!("{name} {placement:?}")
    }
}

/// `x`, weight, bias, gate, and what else is of `x`'s shape. Weights are f32 beside 16-bit rows in every second case.
fn inputs(dtype: DType, shape: [usize; 2], placement: Placement) -> Vec<(Array, Placement)> {
    let apart = placement == Placement::Strided || shape[1] % 16 == 8;
    let weights = if dtype.size_bytes() == 2 && apart { DType::F32 } else { dtype };
    let full = |seed| (Array::random(&shape, dtype, seed), placement);
    let row = |seed| (Array::random(&[shape[1]], weights, seed), Placement::Contiguous);
    vec![full(1), row(2), row(3), full(4), full(5), full(6)]
}

fn norm(dtype: DType, shape: [usize; 2], spec: Spec, placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [x, weight, bias, gate, residual, _] = inputs else { return Err("six inputs".into()) };
        let [y, sum] = outputs else { return Err("two outputs".into()) };
        let mut params = spec.params([weight, bias, gate]);
        params.residual = spec.residual.then(|| residual.view());
        Ok(launch_norm(stream, x.view(), &params, y.view_mut(), Some(sum.view_mut()))?)
    };
    let oracle = move |inputs: &[Array]| {
        let [x, weight, bias, gate, residual, _] = inputs else { return Vec::new() };
        let added = x.values.iter().zip(&residual.values).map(|(x, r)| if spec.residual { x + r } else { *x });
        let total = Array::new(&shape, dtype, added.collect());
        let mut y = Vec::new();
        for (row, values) in total.values.chunks(shape[1]).enumerate() {
            for (column, n) in normal(spec.kind, values).0.into_iter().enumerate() {
                let z = gate.values[row * shape[1] + column];
                let by = spec.gate.map_or(1.0, |gate| activation(gate, z).0);
                y.push((n * spec.factor(weight, column) + spec.shift(bias, column)) * by);
            }
        }
        vec![y, total.values.to_vec()]
    };
    let inputs = inputs(dtype, shape, placement);
    let flops = 6.0 * (shape[0] * shape[1]) as f64;
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype); 2], launch, oracle };
    Case::new("norm", dtype, spec.name(shape, placement), flops, call)
}

fn norm_backward(dtype: DType, shape: [usize; 2], spec: Spec, placement: Placement) -> Case {
    let [rows, cols] = shape;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [x, weight, bias, gate, dy, d_sum] = inputs else { return Err("six inputs".into()) };
        let params = spec.params([weight, bias, gate]);
        let mut outputs = outputs.iter_mut().map(Tensor::view_mut);
        let gradients = NormGradients {
            x: outputs.next().ok_or("an output")?,
            weight: if spec.weight { outputs.next() } else { None },
            bias: if spec.bias { outputs.next() } else { None },
            gate: if spec.gate.is_some() { outputs.next() } else { None },
        };
        let d_sum = spec.residual.then(|| d_sum.view());
        Ok(launch_norm_backward(stream, x.view(), &params, dy.view(), d_sum, gradients)?)
    };
    let oracle = move |inputs: &[Array]| {
        let [x, weight, bias, gate, dy, d_sum] = inputs else { return Vec::new() };
        let (mut dx, mut d_gate) = (Vec::new(), Vec::new());
        let (mut d_weight, mut d_bias) = (vec![0.0; cols], vec![0.0; cols]);
        for row in 0..rows {
            let at = row * cols..(row + 1) * cols;
            let (n, inverse) = normal(spec.kind, &x.values[at.clone()]);
            let mut g = Vec::new();
            for column in 0..cols {
                let factor = spec.factor(weight, column);
                let (value, slope) = spec.gate.map_or((1.0, 0.0), |a| activation(a, gate.values[row * cols + column]));
                let dy = dy.values[row * cols + column];
                d_gate.push(dy * slope * (n[column] * factor + spec.shift(bias, column)));
                d_weight[column] += dy * value * n[column];
                d_bias[column] += dy * value;
                g.push(dy * value * factor);
            }
            let along = dot(g.iter().copied().zip(n.iter().copied())) / cols as f64;
            let level = if spec.kind == NormKind::Layer { sum(&g) / cols as f64 } else { 0.0 };
            let back = if spec.residual { &d_sum.values[at] } else { &[][..] };
            dx.extend((0..cols).map(|c| inverse * (g[c] - level - n[c] * along) + back.get(c).copied().unwrap_or(0.0)));
        }
        let mut all = vec![dx];
        all.extend(spec.weight.then_some(d_weight));
        all.extend(spec.bias.then_some(d_bias));
        all.extend(spec.gate.map(|_| d_gate));
        all
    };
    let inputs = inputs(dtype, shape, placement);
    let weights = inputs[1].0.dtype;
    let mut outputs = vec![(shape.to_vec(), dtype)];
    for _ in [spec.weight, spec.bias].into_iter().filter(|there| *there) {
        outputs.push((vec![cols], weights));
    }
    outputs.extend(spec.gate.map(|_| (shape.to_vec(), dtype)));
    let flops = 12.0 * (rows * cols) as f64;
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("norm_backward", dtype, spec.name(shape, placement), flops, call).summing(rows)
}

/// Extents of batch, channels, and what is behind them.
fn extents(shape: &[usize]) -> [usize; 3] {
    [shape[0], shape[1], shape[2..].iter().product()]
}

fn group_norm(dtype: DType, shape: &'static [usize], groups: usize, weighted: bool, placement: Placement) -> Case {
    let [_, channels, spatial] = extents(shape);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let mut params = GroupNormParams::new(groups, EPSILON);
        params.weight = weighted.then(|| inputs[1].view());
        params.bias = weighted.then(|| inputs[2].view());
        Ok(launch_group_norm(stream, inputs[0].view(), &params, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut y = Vec::new();
        for (number, group) in inputs[0].values.chunks(channels / groups * spatial).enumerate() {
            for (at, n) in normal(NormKind::Layer, group).0.into_iter().enumerate() {
                let channel = number % groups * (channels / groups) + at / spatial;
                let [weight, bias] = [1, 2].map(|input| inputs[input].values[channel]);
                y.push(if weighted { n * weight + bias } else { n });
            }
        }
        vec![y]
    };
    let row = |seed| (Array::random(&[channels], dtype, seed), Placement::Contiguous);
    let inputs = vec![(Array::random(shape, dtype, 1), placement), row(2), row(3)];
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    let flops = 8.0 * shape.iter().product::<usize>() as f64;
    Case::new("group_norm", dtype, format!("{shape:?} in {groups} {placement:?}"), flops, call)
}

fn group_norm_backward(
    dtype: DType,
    shape: &'static [usize],
    groups: usize,
    weighted: bool,
    placement: Placement,
) -> Case {
    let [batch, channels, spatial] = extents(shape);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let mut params = GroupNormParams::new(groups, EPSILON);
        params.weight = weighted.then(|| inputs[1].view());
        params.bias = weighted.then(|| inputs[2].view());
        let mut outputs = outputs.iter_mut().map(Tensor::view_mut);
        let gradients = GroupNormGradients {
            x: outputs.next().ok_or("an output")?,
            weight: if weighted { outputs.next() } else { None },
            bias: if weighted { outputs.next() } else { None },
        };
        Ok(launch_group_norm_backward(stream, inputs[0].view(), &params, inputs[3].view(), gradients)?)
    };
    let oracle = move |inputs: &[Array]| {
        let [x, weight, _, dy] = inputs else { return Vec::new() };
        let mut dx = Vec::new();
        let (mut d_weight, mut d_bias) = (vec![0.0; channels], vec![0.0; channels]);
        let len = channels / groups * spatial;
        for (number, (x, dy)) in x.values.chunks(len).zip(dy.values.chunks(len)).enumerate() {
            let (n, inverse) = normal(NormKind::Layer, x);
            let channel = |at: usize| number % groups * (channels / groups) + at / spatial;
            let mut g = Vec::new();
            for at in 0..len {
                d_weight[channel(at)] += dy[at] * n[at];
                d_bias[channel(at)] += dy[at];
                g.push(if weighted { dy[at] * weight.values[channel(at)] } else { dy[at] });
            }
            let along = dot(g.iter().copied().zip(n.iter().copied())) / len as f64;
            let level = sum(&g) / len as f64;
            dx.extend((0..len).map(|at| inverse * (g[at] - level - n[at] * along)));
        }
        if weighted { vec![dx, d_weight, d_bias] } else { vec![dx] }
    };
    let row = |seed| (Array::random(&[channels], dtype, seed), Placement::Contiguous);
    let full = |seed| (Array::random(shape, dtype, seed), placement);
    let mut outputs = vec![(shape.to_vec(), dtype)];
    if weighted {
        outputs.extend([(vec![channels], dtype), (vec![channels], dtype)]);
    }
    let call = Call { inputs: vec![full(1), row(2), row(3), full(4)], outputs, launch, oracle };
    let flops = 16.0 * shape.iter().product::<usize>() as f64;
    let name = format!("{shape:?} in {groups} {placement:?}");
    Case::new("group_norm_backward", dtype, name, flops, call).summing(batch * spatial)
}
