//! Reading and writing by index: gather, select, scatter-add, select-add; and by a mask.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::index::{Chosen, Update, gather, scatter, select, select_update};

use super::drawn::Draw;
use super::{Call, Case, Failure, NUMBERS, wrapped};
use crate::data::{Array, Placement, ravel, unravel};

/// Extents of `x`; the axis that is indexed; how many indices there are along it.
const SHAPES: [(&[usize], usize, usize); 7] = [
    (&[1], 0, 1),
    (&[5], 0, 67),
    (&[13, 31], 0, 7),
    (&[31, 65], 0, 129),
    (&[7, 33], 1, 5),
    (&[3, 11, 17], 1, 13),
    (&[4, 6], 0, 0),
];
/// As many indices as are sorted before they are followed: few rows for scatter, many for select.
const MANY: [(&[usize], usize, usize); 3] = [(&[40, 3], 0, 700), (&[2, 1500], 1, 500), (&[1801, 5], 0, 300)];
/// Shapes of masks.
const MASKS: [&[usize]; 6] = [&[1], &[67], &[13, 31], &[3, 11, 17], &[4099], &[0, 3]];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, (shape, axis, count)) in SHAPES.into_iter().enumerate() {
        for shift in 0..2 {
            let dtype = NUMBERS[(2 * turn + shift) % NUMBERS.len()];
            let placement = Placement::ALL[(turn + shift) % 4];
            cases.push(read(Reader::Gather, dtype, shape, axis, count, placement));
            cases.push(read(Reader::Select, dtype, shape, axis, count, placement));
            cases.push(add(Reader::Gather, dtype, shape, axis, count, placement));
            cases.push(add(Reader::Select, dtype, shape, axis, count, placement));
        }
    }
    for (turn, (shape, axis, count)) in MANY.into_iter().enumerate() {
        for (dtype, placement) in [(NUMBERS[2 * turn], Placement::Contiguous), (NUMBERS[turn + 7], Placement::Strided)]
        {
            cases.push(add(Reader::Gather, dtype, shape, axis, count, placement));
            cases.push(add(Reader::Select, dtype, shape, axis, count, placement));
        }
    }
    for (turn, shape) in MASKS.into_iter().enumerate() {
        for shift in 0..2 {
            let (dtype, placement) = (NUMBERS[2 * turn + shift], Placement::ALL[(turn + shift) % 4]);
            cases.push(masked(dtype, shape, placement));
        }
        cases.push(places([DType::I32, DType::I64][turn % 2], shape, Placement::ALL[(turn + 2) % 4]));
    }
    cases
}

/// Few indices or many. Sums of 16-bit floats are by slices, which are kept in f32: those of elements are rounded each time.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let ((shape, axis), dtype, placement) = (draw.shape(), draw.number(), draw.placement());
    let room = (9000 * shape[axis] / shape.iter().product::<usize>()).max(1);
    let most = if draw.flag() { room } else { room.min(17) };
    let count = draw.extent(most);
    let reader = if draw.flag() { Reader::Gather } else { Reader::Select };
    let sums = if matches!(dtype, DType::F16 | DType::BF16) { Reader::Select } else { reader };
    match draw.below(4) {
        0 | 1 => read(reader, dtype, shape, axis, count, placement),
        2 => add(sums, dtype, shape, axis, count, placement),
        _ if draw.flag() => masked(dtype, shape, placement),
        _ => places(draw.pick(&[DType::I32, DType::I64]), shape, placement),
    }
}

/// A mask that holds in about a third of its places, the first among them.
fn mask(shape: &[usize]) -> Array {
    let len = shape.iter().product::<usize>();
    let holds = |n: usize| f64::from(u8::from((n * 7919 + n / 5).is_multiple_of(3)));
    Array::new(shape, DType::Bool, (0..len).map(holds).collect())
}

/// The elements where a mask holds.
fn masked(dtype: DType, shape: &'static [usize], placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(Chosen::of(stream, &inputs[1])?.values(stream, inputs[0].view(), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let held = inputs[0].values.iter().zip(&inputs[1].values).filter(|(_, holds)| **holds != 0.0);
        vec![held.map(|(value, _)| *value).collect()]
    };
    let mask = mask(shape);
    let count = mask.values.iter().filter(|&&holds| holds != 0.0).count();
    let inputs = vec![(Array::random(shape, dtype, 1), placement), (mask, placement)];
    let call = Call { inputs, outputs: vec![(vec![count], dtype)], launch, oracle };
    Case::new("mask_select", dtype, format!("{shape:?} {placement:?}"), 0.0, call)
}

/// The coordinates where a mask holds.
fn places(dtype: DType, shape: &'static [usize], placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        Ok(Chosen::of(stream, &inputs[0])?.places(stream, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let mut at = vec![0; shape.len()];
        let held = (0..inputs[0].values.len()).filter(|&n| inputs[0].values[n] != 0.0);
        let coordinates = held.flat_map(|n| {
            unravel(n, shape, &mut at);
            at.iter().map(|&c| c as f64).collect::<Vec<_>>()
        });
        vec![coordinates.collect()]
    };
    let mask = mask(shape);
    let count = mask.values.iter().filter(|&&holds| holds != 0.0).count();
    let outputs = vec![(vec![count, shape.len()], dtype)];
    let call = Call { inputs: vec![(mask, placement)], outputs, launch, oracle };
    Case::new("argwhere", dtype, format!("{shape:?} {placement:?}"), 0.0, call)
}

/// Whether each element has an index of its own, or each slice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Gather,
    Select,
}

/// The shape with `count` along the axis.
fn indexed(shape: &[usize], axis: usize, count: usize) -> Vec<usize> {
    let mut indexed = shape.to_vec();
    indexed[axis] = count;
    indexed
}

/// Indices below `extent`, many of them twice.
fn indices(reader: Reader, shape: &[usize], axis: usize, count: usize) -> Array {
    let own = if reader == Reader::Gather { indexed(shape, axis, count) } else { vec![count] };
    let len = own.iter().product::<usize>();
    let value = |i: usize| ((i * 7919 + i / 3) % shape[axis]) as f64;
    Array::new(&own, DType::I64, (0..len).map(value).collect())
}

/// For each element of the indexed shape, its place in the array that the indices point into.
fn targets(reader: Reader, indices: &Array, shape: &[usize], axis: usize, count: usize) -> Vec<usize> {
    let own = indexed(shape, axis, count);
    let mut at = vec![0; own.len()];
    (0..own.iter().product())
        .map(|index| {
            unravel(index, &own, &mut at);
            let chosen = if reader == Reader::Gather { index } else { at[axis] };
            let mut from = at.clone();
            from[axis] = indices.values[chosen] as usize;
            ravel(&from, shape)
        })
        .collect()
}

fn size(shape: &[usize], axis: usize, count: usize, placement: Placement) -> String {
    format!("{shape:?} axis {axis} by {count} {placement:?}")
}

fn read(
    reader: Reader,
    dtype: DType,
    shape: &'static [usize],
    axis: usize,
    count: usize,
    placement: Placement,
) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let (x, by, out) = (inputs[0].view(), inputs[1].view(), outputs[0].view_mut());
        match reader {
            Reader::Gather => gather(stream, axis, x, by, out)?,
            Reader::Select => select(stream, axis, x, by, out)?,
        }
        Ok(())
    };
    let oracle = move |inputs: &[Array]| {
        let targets = targets(reader, &inputs[1], shape, axis, count);
        vec![targets.into_iter().map(|target| inputs[0].values[target]).collect()]
    };
    let by = indices(reader, shape, axis, count);
    let inputs = vec![(Array::random(shape, dtype, 1), placement), (by, Placement::Contiguous)];
    let outputs = vec![(indexed(shape, axis, count), dtype)];
    let operator = if reader == Reader::Gather { "gather" } else { "select" };
    Case::new(operator, dtype, size(shape, axis, count, placement), 0.0, Call { inputs, outputs, launch, oracle })
}

/// Adds values into a copy of `x` at the places that the indices name; repeated places add up.
fn add(reader: Reader, dtype: DType, shape: &'static [usize], axis: usize, count: usize, placement: Placement) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        rocfire_fusion::eager::copy_into(inputs[0].view(), outputs[0].view_mut())?;
        let (by, value, out) = (inputs[1].view(), inputs[2].view(), outputs[0].view_mut());
        match reader {
            Reader::Gather => scatter(stream, Update::Add, axis, out, by, value)?,
            Reader::Select => select_update(stream, Update::Add, axis, out, by, value)?,
        }
        Ok(())
    };
    let oracle = move |inputs: &[Array]| {
        let mut out = inputs[0].values.to_vec();
        for (index, target) in targets(reader, &inputs[1], shape, axis, count).into_iter().enumerate() {
            out[target] += inputs[2].values[index];
        }
        out.iter_mut().for_each(|value| *value = wrapped(dtype, *value));
        vec![out]
    };
    let own = indexed(shape, axis, count);
    let flops = own.iter().product::<usize>() as f64;
    let by = indices(reader, shape, axis, count);
    let inputs = vec![
        (Array::random(shape, dtype, 1), Placement::Contiguous),
        (by, Placement::Contiguous),
        (Array::random(&own, dtype, 2), placement),
    ];
    let outputs = vec![(shape.to_vec(), dtype)];
    let operator = if reader == Reader::Gather { "scatter_add" } else { "select_add" };
    Case::new(operator, dtype, size(shape, axis, count, placement), flops, Call { inputs, outputs, launch, oracle })
        .summing(count)
}
