//! The Hadamard transform: every extent, along every axis, in place, of rows that an outlier stands out from.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::hadamard::hadamard as launch_hadamard;

use super::drawn::Draw;
use super::scan::lines;
use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};

/// Shapes and the axis. Rows of 4096 and 8192 take workgroups of their own size; of f64 4096 is the longest.
const SHAPES: [(&[usize], usize); 16] = [
    (&[1], 0),
    (&[1, 1], 1),
    (&[5, 2], 1),
    (&[67, 4], 1),
    (&[3, 8], 1),
    (&[257, 16], 1),
    (&[2, 32, 5], 1),
    (&[63, 64], 1),
    (&[3, 65, 128], 2),
    (&[128, 33], 0),
    (&[2, 256, 3], 1),
    (&[7, 512], 1),
    (&[2, 1024], 1),
    (&[3, 2048], 1),
    (&[2, 4096], 1),
    (&[0, 128], 1),
];

pub fn cases() -> Vec<Case> {
    let of_shape =
        |(turn, (shape, axis))| hadamard(FLOATS[turn % 4], shape, axis, Placement::ALL[turn % 4], turn % 3 == 1);
    let mut cases: Vec<Case> = SHAPES.into_iter().enumerate().map(of_shape).collect();
    cases.push(hadamard(DType::F64, &[2, 4096], 1, Placement::Contiguous, false));
    cases.push(hadamard(DType::F16, &[2, 8192], 1, Placement::Contiguous, true));
    cases.push(hadamard(DType::BF16, &[33, 128], 1, Placement::Contiguous, false));
    cases.push(hadamard(DType::F32, &[8192, 3], 0, Placement::Contiguous, false));
    cases.push(not_finite(&[5, 64]));
    cases
}

/// A transform of any extents.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let extent = draw.pick(&[16, 1, 2, 8, 64, 128, 256, 1024]);
    let (outer, inner) = (draw.extent(8), draw.pick(&[1, 1, 3]));
    let shape = super::drawn::forever(&[outer, extent, inner]);
    hadamard(draw.float(), shape, 1, draw.placement(), draw.flag())
}

fn oracle(x: &Array, shape: &[usize], axis: usize, scale: f64) -> Vec<f64> {
    let mut y = x.values.to_vec();
    lines(shape, axis, |places| {
        let transformed: Vec<f64> = (0..places.len())
            .map(|i| {
                let sign = |j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                scale * places.iter().enumerate().map(|(j, &place)| sign(j) * x.values[place]).sum::<f64>()
            })
            .collect();
        for (&place, value) in places.iter().zip(transformed) {
            y[place] = value;
        }
    });
    y
}

fn hadamard(dtype: DType, shape: &'static [usize], axis: usize, placement: Placement, in_place: bool) -> Case {
    let mut x = Array::random(shape, dtype, 1);
    // An outlier in the first row, which no other row hears of.
    if let Some(first) = x.values.first_mut() {
        *first = 32.0;
    }
    case(x, shape, axis, placement, in_place, "")
}

/// An infinity, infinities of both signs and a NaN, in rows of their own between finite ones.
fn not_finite(shape: &'static [usize]) -> Case {
    let mut x = Array::random(shape, DType::F32, 2);
    let extent = shape[1];
    x.values[extent + 3] = f64::INFINITY;
    (x.values[3 * extent + 1], x.values[3 * extent + 7]) = (f64::INFINITY, f64::NEG_INFINITY);
    x.values[4 * extent + 63] = f64::NAN;
    case(x, shape, 1, Placement::Contiguous, false, " not finite")
}

fn case(x: Array, shape: &'static [usize], axis: usize, placement: Placement, in_place: bool, what: &str) -> Case {
    let (extent, dtype) = (shape[axis], x.dtype);
    let scale = 1.0 / (extent as f64).sqrt();
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        if in_place {
            copy_into(inputs[0].view(), outputs[0].view_mut())?;
            let same = outputs[0].clone();
            return Ok(launch_hadamard(stream, same.view(), axis, scale, outputs[0].view_mut())?);
        }
        Ok(launch_hadamard(stream, inputs[0].view(), axis, scale, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| vec![oracle(&inputs[0], shape, axis, scale)];
    let flops = x.values.len() as f64 * (extent.ilog2() as f64 + 1.0);
    let size = format!("{shape:?} axis {axis} {placement:?}{}{what}", if in_place { " in place" } else { "" });
    let call = Call { inputs: vec![(x, placement)], outputs: vec![(shape.to_vec(), dtype)], launch, oracle };
    Case::new("hadamard", dtype, size, flops, call).summing(extent)
}
