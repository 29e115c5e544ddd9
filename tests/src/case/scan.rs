//! Cumulative operators and extrema with their places, along any axis.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::reduce::{arg_max, arg_min};
use rocfire_kernels::scan::{Cumulative, cumulative};

use super::drawn::Draw;
use super::{Call, Case, FLOATS, Failure, INTEGERS, wrapped};
use crate::data::{Array, Placement, ravel, unravel};

/// The last two: a line that workgroups share, and many short ones that share a workgroup.
const SHAPES: [(&[usize], usize); 9] = [
    (&[1], 0),
    (&[67], 0),
    (&[3, 65], 1),
    (&[65, 3], 0),
    (&[2, 31, 5], 1),
    (&[1, 4099], 1),
    (&[0, 3], 1),
    (&[2, 9001], 1),
    (&[259, 13], 1),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, (shape, axis)) in SHAPES.into_iter().enumerate() {
        for (shift, op) in [Cumulative::Sum, Cumulative::Prod, Cumulative::Min, Cumulative::Max].into_iter().enumerate()
        {
            let placement = Placement::ALL[(turn + shift) % 4];
            cases.push(scan(op, FLOATS[(turn + shift) % 4], shape, axis, placement));
        }
        let integer = INTEGERS[turn % INTEGERS.len()];
        cases.push(scan(Cumulative::Max, integer, shape, axis, Placement::Contiguous));
        cases.push(scan(Cumulative::Sum, integer, shape, axis, Placement::Contiguous));
        cases.push(extremum(true, FLOATS[turn % 4], shape, axis, Placement::ALL[turn % 4]));
        cases.push(extremum(false, FLOATS[(turn + 1) % 4], shape, axis, Placement::ALL[(turn + 1) % 4]));
        cases.push(extremum(true, integer, shape, axis, Placement::Transposed));
    }
    // At the ends of lines, and of the chunks that several waves have of long ones.
    for (turn, place) in [0, 4095, 4096, 9000].into_iter().enumerate() {
        cases.push(extreme_at(place, turn % 2 == 0, FLOATS[turn % 4], &[2, 9001], 1, Placement::Contiguous));
    }
    cases.push(extreme_at(64, false, DType::F32, &[7, 65], 1, Placement::Contiguous));
    cases
}

/// Products of floats only: those of integers leave their type.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let ((shape, axis), placement) = (draw.shape(), draw.placement());
    if draw.flag() {
        return extremum(draw.flag(), draw.number(), shape, axis, placement);
    }
    let op = draw.pick(&[Cumulative::Sum, Cumulative::Max, Cumulative::Min, Cumulative::Prod]);
    let dtype = if op == Cumulative::Prod { draw.float() } else { draw.number() };
    scan(op, dtype, shape, axis, placement)
}

fn size(shape: &[usize], axis: usize, placement: Placement) -> String {
    format!("{shape:?} axis {axis} {placement:?}")
}

/// Calls `visit` with the places of each line along the axis, in order.
pub(super) fn lines(shape: &[usize], axis: usize, mut visit: impl FnMut(&[usize])) {
    let mut across = shape.to_vec();
    across[axis] = 1;
    let mut at = vec![0; shape.len()];
    for line in 0..across.iter().product() {
        unravel(line, &across, &mut at);
        let places: Vec<usize> = (0..shape[axis])
            .map(|step| {
                at[axis] = step;
                ravel(&at, shape)
            })
            .collect();
        visit(&places);
    }
}

fn scan(op: Cumulative, dtype: DType, shape: &'static [usize], axis: usize, placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(cumulative(stream, op, axis, inputs[0].view(), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut out = inputs[0].values.to_vec();
        lines(shape, axis, |places| {
            for pair in places.windows(2) {
                let (before, here) = (out[pair[0]], out[pair[1]]);
                let next = match op {
                    Cumulative::Sum => before + here,
                    Cumulative::Prod => before * here,
                    Cumulative::Min => before.min(here),
                    Cumulative::Max => before.max(here),
                };
                out[pair[1]] = wrapped(dtype, next);
            }
        });
        vec![out]
    };
    // Products of a long line of random numbers vanish: those near one do not.
    let mut array = Array::random(shape, dtype, 1);
    if op == Cumulative::Prod {
        array = Array::new(shape, dtype, array.values.iter().map(|value| 1.0 + value / 64.0).collect());
    }
    let flops = shape.iter().product::<usize>() as f64;
    let call = Call { inputs: vec![(array, placement)], outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    let name = format!("{op:?} {}", size(shape, axis, placement));
    // What one sum is off by goes on in those behind it.
    let lines = shape.iter().product::<usize>() / shape[axis].max(1);
    Case::new("cumulative", dtype, name, flops, call).summing(shape[axis]).with_numbers(lines)
}

fn extremum(max: bool, dtype: DType, shape: &'static [usize], axis: usize, placement: Placement) -> Case {
    extremum_of(Array::random(shape, dtype, 1), max, shape, axis, placement, String::new())
}

/// The same where the extreme of every line is at one place.
fn extreme_at(
    place: usize,
    max: bool,
    dtype: DType,
    shape: &'static [usize],
    axis: usize,
    placement: Placement,
) -> Case {
    let mut x = Array::random(shape, dtype, 1);
    lines(shape, axis, |places| x.values[places[place]] = if max { 100.0 } else { -100.0 });
    extremum_of(x, max, shape, axis, placement, format!(" extreme at {place}"))
}

fn extremum_of(x: Array, max: bool, shape: &'static [usize], axis: usize, placement: Placement, what: String) -> Case {
    let dtype = x.dtype;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [indices, values] = outputs else { return Err("two outputs".into()) };
        let find = if max { arg_max } else { arg_min };
        Ok(find(stream, axis, inputs[0].view(), indices.view_mut(), Some(values.view_mut()))?)
    };
    let oracle = move |inputs: &[Array]| {
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        lines(shape, axis, |places| {
            let value = |step: usize| inputs[0].values[places[step]];
            let better = |a: f64, b: f64| if max { a > b } else { a < b };
            let best =
                (1..places.len()).fold(0, |best, step| if better(value(step), value(best)) { step } else { best });
            indices.push(best as f64);
            values.push(value(best));
        });
        vec![indices, values]
    };
    let mut reduced = shape.to_vec();
    reduced[axis] = 1;
    let inputs = vec![(x, placement)];
    let outputs = vec![(reduced.clone(), DType::I64), (reduced, dtype)];
    let flops = shape.iter().product::<usize>() as f64;
    let operator = if max { "arg_max" } else { "arg_min" };
    Case::new(operator, dtype, size(shape, axis, placement) + &what, flops, Call { inputs, outputs, launch, oracle })
}
