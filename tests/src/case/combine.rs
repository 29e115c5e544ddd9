//! Rows of experts weighted and added by token, and the gradients: choices that are nobody's, biases of groups, rows at a distance.

use rocfire_hal::{DType, Stream, Tensor, View};
use rocfire_kernels::experts::{CombineGradients, CombineParams, combine, combine_backward};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// What is told besides rows and places.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Nothing,
    Weights,
    /// Weights and offsets: a choice in seven is nobody's.
    Offsets,
    /// These and biases.
    Bias,
}

const TOLD: [Told; 4] = [Told::Nothing, Told::Weights, Told::Offsets, Told::Bias];
/// Groups of rows.
const GROUPS: usize = 5;

/// Tokens, choices of each, columns.
const SIZES: [[usize; 3]; 8] =
    [[1, 1, 1], [1, 8, 64], [5, 3, 33], [64, 2, 257], [3, 9, 2048], [0, 4, 16], [130, 5, 8], [2, 6, 7168]];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, size) in SIZES.into_iter().enumerate() {
        for step in 0..2 {
            let (dtype, told) = (FLOATS[(turn + 2 * step) % 4], TOLD[(turn + step) % 4]);
            cases.push(combined(dtype, dtype, size, told, step == 1));
            cases.push(backward(dtype, dtype, size, told, step == 0));
        }
    }
    cases.push(combined(DType::F32, DType::BF16, [7, 4, 96], Told::Bias, false));
    cases.push(backward(DType::F32, DType::F16, [7, 4, 96], Told::Offsets, false));
    cases.push(combined(DType::BF16, DType::BF16, [9, 8, 512], Told::Bias, false));
    cases
}

/// Any number of tokens, choices and columns.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let size = [draw.extent(65), 1 + draw.below(9), draw.extent(1024)];
    let (dtype, told, strided) = (draw.float(), TOLD[draw.below(4)], draw.flag());
    if draw.flag() { combined(dtype, dtype, size, told, strided) } else { backward(dtype, dtype, size, told, strided) }
}

/// The rows of a tensor without its last columns, where it has more than there are.
fn narrow(tensor: &Tensor, n: usize) -> Result<View<'_>, Failure> {
    Ok(tensor.view().with_layout(tensor.layout().slice(1, 0, n, 1)?)?)
}

/// What both directions are told.
#[derive(Clone, Copy)]
struct Setting {
    size: [usize; 3],
    told: Told,
    /// Columns of the rows in memory.
    columns: usize,
}

impl Setting {
    fn new(size: [usize; 3], told: Told, strided: bool) -> Setting {
        Setting { size, told, columns: size[2] + if strided { 5 } else { 0 } }
    }

    /// The place of each choice: a permutation.
    fn place(&self, choice: usize) -> usize {
        let choices = self.size[0] * self.size[1];
        let step = (choices / 2 + 1..).find(|step| gcd(*step, choices.max(1)) == 1).unwrap_or(1);
        choice * step % choices
    }

    fn offsets(&self) -> Vec<f64> {
        let choices = self.size[0] * self.size[1];
        // The second group has no row, and the rows behind the last are nobody's.
        let end = choices - choices / 7;
        let parts = [0, end / 3, end / 3, end / 2, end * 3 / 4, end];
        parts.map(|part| part as f64).to_vec()
    }

    /// Rows, places, weights, offsets, biases.
    fn inputs(&self, dtype: DType) -> Vec<Array> {
        let [tokens, k, n] = self.size;
        // A choice of the first token is nowhere, as places of padded blocks are.
        let nowhere = |choice: usize| choice == 2 && self.told != Told::Nothing;
        let place = |choice: usize| if nowhere(choice) { -1.0 } else { self.place(choice) as f64 };
        vec![
            Array::random(&[tokens * k, self.columns], dtype, 1),
            Array::new(&[tokens, k], DType::I32, (0..tokens * k).map(place).collect()),
            Array::random(&[tokens, k], wide(dtype), 2),
            Array::new(&[GROUPS + 1], DType::I32, self.offsets()),
            Array::random(&[GROUPS, n], dtype, 3),
        ]
    }

    fn params<'a>(&self, inputs: &'a [Tensor]) -> CombineParams<'a> {
        let mut params = CombineParams::default();
        params.weights = (self.told != Told::Nothing).then(|| inputs[2].view());
        params.offsets = matches!(self.told, Told::Offsets | Told::Bias).then(|| inputs[3].view());
        params.bias = (self.told == Told::Bias).then(|| inputs[4].view());
        params
    }

    /// The place of a choice that counts.
    fn counts(&self, choice: usize, inputs: &[Array]) -> Option<usize> {
        let place = usize::try_from(inputs[1].values[choice] as i64).ok()?;
        let all = matches!(self.told, Told::Nothing | Told::Weights);
        (all || (place as f64) < inputs[3].values[GROUPS]).then_some(place)
    }

    fn weight(&self, choice: usize, inputs: &[Array]) -> f64 {
        if self.told == Told::Nothing { 1.0 } else { inputs[2].values[choice] }
    }

    /// An element of the row at a place, with its bias.
    fn element(&self, place: usize, col: usize, inputs: &[Array]) -> f64 {
        let group = (0..GROUPS).find(|&group| inputs[3].values[group + 1] > place as f64);
        let bias =
            group.filter(|_| self.told == Told::Bias).map_or(0.0, |group| inputs[4].values[group * self.size[2] + col]);
        inputs[0].values[place * self.columns + col] + bias
    }

    fn name(&self) -> String {
        format!("{:?} {:?} of {} columns", self.size, self.told, self.columns)
    }
}

/// The type of weights.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn contiguous(inputs: Vec<Array>) -> Vec<(Array, Placement)> {
    inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect()
}

fn combined(dtype: DType, output: DType, size: [usize; 3], told: Told, strided: bool) -> Case {
    let ([tokens, k, n], setting) = (size, Setting::new(size, told, strided));
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let rows = narrow(&inputs[0], n)?;
        Ok(combine(stream, rows, inputs[1].view(), &setting.params(inputs), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let element = |at: usize| {
            let slots = (0..k).map(|slot| at / n * k + slot);
            let counting = slots.filter_map(|choice| Some((choice, setting.counts(choice, inputs)?)));
            dot(counting
                .map(|(choice, place)| (setting.weight(choice, inputs), setting.element(place, at % n, inputs))))
        };
        vec![(0..tokens * n).map(element).collect()]
    };
    let call =
        Call { inputs: contiguous(setting.inputs(dtype)), outputs: vec![(vec![tokens, n], output)], launch, oracle };
    let size = format!("{} from {dtype}", setting.name());
    Case::new("combine", output, size, (2 * tokens * k * n) as f64, call).summing(k)
}

fn backward(dtype: DType, output: DType, size: [usize; 3], told: Told, strided: bool) -> Case {
    let ([tokens, k, n], setting) = (size, Setting::new(size, told, strided));
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let rows = narrow(&inputs[0], n)?;
        let [rows_grad, weights_grad] = outputs else { return Err("two outputs".into()) };
        // The row of the choice that is nowhere is not written.
        rocfire_fusion::eager::fill(rows_grad.view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let to = CombineGradients { rows: Some(rows_grad.view_mut()), weights: Some(weights_grad.view_mut()) };
        Ok(combine_backward(stream, inputs[5].view(), rows, inputs[1].view(), &setting.params(inputs), to)?)
    };
    let oracle = move |inputs: &[Array]| {
        let (mut rows, mut weights) = (vec![0.0; tokens * k * n], vec![0.0; tokens * k]);
        for (choice, weight) in weights.iter_mut().enumerate() {
            let Some(place) = setting.counts(choice, inputs) else { continue };
            let grad = |col: usize| inputs[5].values[choice / k * n + col];
            *weight = dot((0..n).map(|col| (grad(col), setting.element(place, col, inputs))));
            for col in 0..n {
                rows[place * n + col] = setting.weight(choice, inputs) * grad(col);
            }
        }
        vec![rows, weights]
    };
    let inputs = [setting.inputs(dtype), vec![Array::random(&[tokens, n], output, 4)]].concat();
    let outputs = vec![(vec![tokens * k, n], dtype), (vec![tokens, k], wide(dtype))];
    let call = Call { inputs: contiguous(inputs), outputs, launch, oracle };
    let size = format!("{} from {output}", setting.name());
    Case::new("combine_backward", dtype, size, (4 * tokens * k * n) as f64, call).summing(n)
}
