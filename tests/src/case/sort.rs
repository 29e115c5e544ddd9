//! Order along an axis: whole lines, ascending and descending, and the largest few.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::sort::{Order, sort};

use super::drawn::Draw;
use super::scan::lines;
use super::{Call, Case, Failure, NUMBERS};
use crate::data::{Array, Placement};

/// Extents and the axis that is sorted. The last needs merges.
const SHAPES: [(&[usize], usize); 8] = [
    (&[1], 0),
    (&[67], 0),
    (&[3, 65], 1),
    (&[65, 3], 0),
    (&[2, 31, 5], 1),
    (&[1023], 0),
    (&[0, 3], 1),
    (&[2, 2500], 1),
];
/// Extents, axis, and how many are taken.
const FEW: [(&[usize], usize, usize); 6] =
    [(&[1], 0, 1), (&[7, 11], 1, 3), (&[33, 2], 0, 1), (&[1, 64], 1, 64), (&[4099], 0, 5), (&[2, 2000], 1, 300)];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, (shape, axis)) in SHAPES.into_iter().enumerate() {
        for (shift, order) in [Order::Ascending, Order::Descending].into_iter().enumerate() {
            let dtype = NUMBERS[(turn + 6 * shift) % NUMBERS.len()];
            let placement = Placement::ALL[(turn + shift) % 4];
            cases.push(ordered("sort", order, dtype, (shape, axis), shape[axis], placement));
        }
    }
    for (turn, dtype) in NUMBERS.into_iter().enumerate() {
        // Twelve types and six sizes: two of each.
        let (shape, axis, kept) = FEW[(turn + turn / FEW.len()) % FEW.len()];
        cases.push(ordered("top_k", Order::Descending, dtype, (shape, axis), kept, Placement::ALL[turn % 4]));
    }
    cases
}

/// A whole line, or the largest few.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let ((shape, axis), dtype, placement) = (draw.shape(), draw.number(), draw.placement());
    match draw.below(3) {
        0 => ordered("sort", Order::Ascending, dtype, (shape, axis), shape[axis], placement),
        1 => ordered("sort", Order::Descending, dtype, (shape, axis), shape[axis], placement),
        _ => ordered("top_k", Order::Descending, dtype, (shape, axis), 1 + draw.below(shape[axis]), placement),
    }
}

fn ordered(
    operator: &'static str,
    order: Order,
    dtype: DType,
    (shape, axis): (&'static [usize], usize),
    kept: usize,
    placement: Placement,
) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [values, indices] = outputs else { return Err("two outputs".into()) };
        Ok(sort(stream, order, axis, inputs[0].view(), Some(values.view_mut()), Some(indices.view_mut()))?)
    };
    let mut short = shape.to_vec();
    short[axis] = kept;
    let own = short.clone();
    let oracle = move |inputs: &[Array]| {
        let x = &inputs[0].values;
        let mut picked = Vec::new();
        lines(shape, axis, |places| {
            let mut sorted: Vec<usize> = (0..places.len()).collect();
            sorted.sort_by(|&a, &b| {
                let (a, b) = (x[places[a]], x[places[b]]);
                if order == Order::Ascending { a.total_cmp(&b) } else { b.total_cmp(&a) }
            });
            picked.push((places.to_vec(), sorted));
        });
        let (mut values, mut indices) = (vec![0.0; own.iter().product()], vec![0.0; own.iter().product()]);
        let mut picked = picked.into_iter();
        lines(&own, axis, |targets| {
            let (places, sorted) = picked.next().expect("as many lines");
            for (&target, from) in targets.iter().zip(sorted) {
                values[target] = x[places[from]];
                indices[target] = from as f64;
            }
        });
        vec![values, indices]
    };
    let size = format!("{order:?} {kept} of {shape:?} axis {axis} {placement:?}");
    let inputs = vec![(Array::random(shape, dtype, 1), placement)];
    let outputs = vec![(short.clone(), dtype), (short, DType::I64)];
    let flops = shape.iter().product::<usize>() as f64;
    Case::new(operator, dtype, size, flops, Call { inputs, outputs, launch, oracle })
}
