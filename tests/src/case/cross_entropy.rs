//! Softmax along any axis, its logarithm, cross-entropy by the numbers of classes, and the gradients of all.

use rocfire_hal::{DType, Stream, Tensor, View, ViewMut};
use rocfire_kernels::loss::{
    CrossEntropy, cross_entropy as launch_cross_entropy, cross_entropy_backward as launch_cross_entropy_backward,
};
use rocfire_kernels::softmax;

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::sum;

/// Rows and classes: one, primes, around a wave, beyond a workgroup's registers, none, two chunks that are held.
const SHAPES: [[usize; 2]; 8] = [[1, 1], [3, 7], [5, 64], [7, 65], [2, 1025], [1, 9001], [0, 3], [2, 9008]];
const IGNORED: i64 = -100;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, shape) in SHAPES.into_iter().enumerate() {
        for step in 0..2 {
            let (dtype, placement) = (FLOATS[(turn + step) % 4], Placement::ALL[(turn + step) % 4]);
            let index = if (turn + step) % 2 == 0 { DType::I64 } else { DType::I32 };
            let smoothing = [0.0, 0.1][(turn / 2 + step) % 2];
            let loss = Loss { index, smoothing, weights: None };
            cases.push(cross_entropy(dtype, shape, loss, placement));
            // With one class there is nothing but rounding.
            let several = [shape[0], shape[1].max(2)];
            cases.push(cross_entropy_backward(dtype, several, loss, placement));
            let kinds = [Kind::Log, Kind::LogBackward, Kind::Backward];
            for (number, kind) in kinds.into_iter().enumerate() {
                cases.push(along(kind, FLOATS[(turn + step + number) % 4], shape, (turn + step) % 2, placement));
            }
        }
    }
    for (dtype, weights, smoothing) in
        [(DType::F32, DType::F32, 0.0), (DType::BF16, DType::F32, 0.1), (DType::F16, DType::F16, 0.1)]
    {
        let loss = Loss { index: DType::I64, smoothing, weights: Some(weights) };
        cases.push(cross_entropy(dtype, [9, 67], loss, Placement::Contiguous));
        cases.push(cross_entropy_backward(dtype, [6, 130], loss, Placement::Transposed));
    }
    cases.push(along(Kind::Plain, DType::F32, [70, 3], 0, Placement::Contiguous));
    cases.push(along(Kind::Plain, DType::BF16, [3, 1300], 1, Placement::Contiguous));
    cases
}

/// A loss over any number of classes, or its gradient.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    // With one class there is nothing but rounding.
    let shape = [draw.extent(65), 1 + draw.extent(1025)];
    let loss = Loss {
        index: draw.pick(&[DType::I64, DType::I32]),
        smoothing: draw.pick(&[0.0, 0.1]),
        weights: draw.pick(&[None, None, Some(DType::F32)]),
    };
    let (dtype, placement) = (draw.float(), draw.placement());
    if draw.flag() {
        cross_entropy_backward(dtype, shape, loss, placement)
    } else {
        cross_entropy(dtype, shape, loss, placement)
    }
}

fn size([rows, classes]: [usize; 2], placement: Placement) -> String {
    format!("{rows}x{classes} {placement:?}")
}

/// The logarithm of the sum of exponentials.
fn log_sum(row: &[f64]) -> f64 {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
    most + sum(&exp).ln()
}

/// Classes in an order of no pattern; every fourth row is ignored.
fn targets([rows, classes]: [usize; 2], index: DType) -> Array {
    let target = |row: usize| if row % 4 == 3 { IGNORED as f64 } else { ((row * 37 + 11) % classes) as f64 };
    Array::new(&[rows], index, (0..rows).map(target).collect())
}

/// What is asked for besides logits: types of targets and of weights, where there are.
#[derive(Clone, Copy)]
struct Loss {
    index: DType,
    smoothing: f64,
    weights: Option<DType>,
}

impl Loss {
    fn call<'a>(self, logits: &'a Tensor, targets: &'a Tensor, weights: &'a Tensor) -> CrossEntropy<'a> {
        let mut call = CrossEntropy::new(logits.view(), targets.view());
        (call.ignored, call.smoothing) = (Some(IGNORED), self.smoothing);
        call.weights = self.weights.map(|_| weights.view());
        call
    }

    /// Weights of the classes, from a half up; not looked at where there are none.
    fn weights(self, classes: usize) -> Array {
        let weight = |class: usize| if self.weights.is_some() { 0.5 + (class * 5 % 8) as f64 / 8.0 } else { 1.0 };
        Array::new(&[classes], self.weights.unwrap_or(DType::F32), (0..classes).map(weight).collect())
    }

    fn name(self, shape: [usize; 2], placement: Placement) -> String {
        let smoothed = if self.smoothing > 0.0 { " smoothed" } else { "" };
        let weighted = self.weights.map_or(String::new(), |dtype| format!(" weighted {}", dtype.name()));
        format!("{} {}{smoothed}{weighted}", size(shape, placement), self.index.name())
    }
}

fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn cross_entropy(dtype: DType, shape: [usize; 2], asked: Loss, placement: Placement) -> Case {
    let ([rows, classes], Loss { index, smoothing, .. }) = (shape, asked);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [loss, lse] = outputs else { return Err("two outputs".into()) };
        let call = asked.call(&inputs[0], &inputs[1], &inputs[2]);
        Ok(launch_cross_entropy(stream, &call, loss.view_mut(), lse.view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let (mut losses, mut all) = (Vec::new(), Vec::new());
        let weights = &inputs[2].values;
        for (row, &target) in inputs[0].values.chunks(classes).zip(&inputs[1].values) {
            let lse = log_sum(row);
            let own = |target: f64| weights[target as usize] * (lse - row[target as usize]);
            let each: Vec<f64> = row.iter().zip(weights).map(|(x, weight)| weight * (lse - x)).collect();
            let spread = sum(&each) / classes as f64;
            let counts = target != IGNORED as f64;
            losses.push(if counts { (1.0 - smoothing) * own(target) + smoothing * spread } else { 0.0 });
            all.push(lse);
        }
        vec![losses, all]
    };
    let inputs = vec![
        (Array::random(&shape, dtype, 1), placement),
        (targets(shape, index), Placement::Contiguous),
        (asked.weights(classes), Placement::Contiguous),
    ];
    let outputs = vec![(vec![rows], wide(dtype)); 2];
    let call = Call { inputs, outputs, launch, oracle };
    let name = asked.name(shape, placement);
    Case::new("cross_entropy", dtype, name, 5.0 * (rows * classes) as f64, call)
}

fn cross_entropy_backward(dtype: DType, shape: [usize; 2], asked: Loss, placement: Placement) -> Case {
    let ([rows, classes], Loss { index, smoothing, .. }) = (shape, asked);
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [logits, targets, weights, lse, d_loss] = inputs else { return Err("five inputs".into()) };
        let call = asked.call(logits, targets, weights);
        Ok(launch_cross_entropy_backward(stream, &call, lse.view(), d_loss.view(), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let [logits, targets, weights, lse, d_loss] = inputs else { return Vec::new() };
        let (weights, mut dx) = (&weights.values, Vec::new());
        let mean = sum(weights) / classes as f64;
        for (row, logits) in logits.values.chunks(classes).enumerate() {
            for (class, x) in logits.iter().enumerate() {
                let target = targets.values[row];
                // Of an ignored row nothing is kept.
                let of_target = (1.0 - smoothing) * weights.get(target as usize).copied().unwrap_or(0.0);
                let own = if class as f64 == target { of_target } else { 0.0 };
                let every = smoothing * weights[class] / classes as f64;
                let slope = (of_target + smoothing * mean) * (x - lse.values[row]).exp() - own - every;
                dx.push(if target == IGNORED as f64 { 0.0 } else { slope * d_loss.values[row] });
            }
        }
        vec![dx]
    };
    let logits = Array::random(&shape, dtype, 1);
    let sums = logits.values.chunks(classes).map(log_sum).collect();
    let inputs = vec![
        (logits, placement),
        (targets(shape, index), Placement::Contiguous),
        (asked.weights(classes), Placement::Contiguous),
        (Array::new(&[rows], wide(dtype), sums), Placement::Contiguous),
        (Array::random(&[rows], wide(dtype), 2), placement),
    ];
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    let name = asked.name(shape, placement);
    Case::new("cross_entropy_backward", dtype, name, 4.0 * (rows * classes) as f64, call)
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Log,
    Backward,
    LogBackward,
}

impl Kind {
    fn launch(
        self,
        stream: &Stream,
        [x, dy]: [View<'_>; 2],
        dim: usize,
        y: ViewMut<'_>,
    ) -> rocfire_kernels::Result<()> {
        match self {
            Kind::Plain => softmax::softmax(stream, x, dim, y),
            Kind::Log => softmax::log_softmax(stream, x, dim, y),
            Kind::Backward => softmax::softmax_backward(stream, x, dy, dim, y),
            Kind::LogBackward => softmax::log_softmax_backward(stream, x, dy, dim, y),
        }
    }

    /// Of a row and what else is given for it.
    fn row(self, x: &[f64], dy: &[f64]) -> Vec<f64> {
        let each = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(dy).map(|(&x, &dy)| f(x, dy)).collect::<Vec<f64>>();
        match self {
            Kind::Plain => {
                let lse = log_sum(x);
                each(&|x, _| (x - lse).exp())
            }
            Kind::Log => {
                let lse = log_sum(x);
                each(&|x, _| x - lse)
            }
            Kind::Backward => {
                let products = each(&|x, dy| x * dy);
                let along = sum(&products);
                each(&|x, dy| x * (dy - along))
            }
            Kind::LogBackward => {
                let along = sum(dy);
                each(&|x, dy| dy - x.exp() * along)
            }
        }
    }
}

/// Along axis `dim` of a matrix.
fn along(kind: Kind, dtype: DType, shape: [usize; 2], dim: usize, placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(kind.launch(stream, [inputs[0].view(), inputs[1].view()], dim, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let [rows, columns] = shape;
        let (count, len) = if dim == 1 { (rows, columns) } else { (columns, rows) };
        let place = |row: usize, at: usize| if dim == 1 { row * columns + at } else { at * columns + row };
        let mut y = vec![0.0; rows * columns];
        for row in 0..count {
            let [x, dy] =
                [0, 1].map(|n: usize| -> Vec<f64> { (0..len).map(|at| inputs[n].values[place(row, at)]).collect() });
            kind.row(&x, &dy).into_iter().enumerate().for_each(|(at, value)| y[place(row, at)] = value);
        }
        vec![y]
    };
    // What a softmax gives is positive and small, what its logarithm gives is negative.
    let mut first = Array::random(&shape, dtype, 1);
    match kind {
        Kind::Plain | Kind::Log => {}
        Kind::Backward => first = Array::new(&shape, dtype, first.values.iter().map(|x| x.abs() / 8.0).collect()),
        Kind::LogBackward => first = Array::new(&shape, dtype, first.values.iter().map(|x| -4.0 - x.abs()).collect()),
    }
    let inputs = vec![(first, placement), (Array::random(&shape, dtype, 2), placement)];
    let call = Call { inputs, outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    let operator = match kind {
        Kind::Plain => "softmax",
        Kind::Log => "log_softmax",
        Kind::Backward => "softmax_backward",
        Kind::LogBackward => "log_softmax_backward",
    };
    let flops = 5.0 * (shape[0] * shape[1]) as f64;
    Case::new(operator, dtype, format!("{} along {dim}", size(shape, placement)), flops, call).summing(shape[dim])
}
