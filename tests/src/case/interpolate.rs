//! Resized images and their gradients: every mode, up, down, one way each, to one pixel and from one.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::interpolate::{Interpolation, interpolate, interpolate_gradient};

use super::{Call, Case, FLOATS, Failure};
use crate::data::{Array, Placement};

/// The taps of an output index by the modes' definitions: input index and weight.
fn taps(mode: Interpolation, corners: bool, output: usize, inputs: usize, outputs: usize) -> Vec<(usize, f64)> {
    let last = inputs as i64 - 1;
    let ratio = inputs as f64 / outputs as f64;
    let at = if corners {
        output as f64 * (last as f64 / (outputs.max(2) - 1) as f64)
    } else {
        (output as f64 + 0.5) * ratio - 0.5
    };
    let clamped = |index: i64| index.clamp(0, last) as usize;
    let base = at.floor() as i64;
    match mode {
        Interpolation::Nearest => vec![(clamped((output as f64 * ratio) as i64), 1.0)],
        Interpolation::NearestExact => vec![(clamped(((output as f64 + 0.5) * ratio) as i64), 1.0)],
        Interpolation::Bilinear => {
            let low = at.max(0.0).floor();
            let weight = at.max(0.0) - low;
            vec![(clamped(low as i64), 1.0 - weight), (clamped(low as i64 + 1), weight)]
        }
        Interpolation::Bicubic => {
            // By Horner, so that the oracle's own rounding is no larger than the kernel's.
            let cubic = |t: f64| {
                let (t, a) = (t.abs(), -0.75);
                match t {
                    t if t < 1.0 => ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
                    t if t < 2.0 => ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a,
                    _ => 0.0,
                }
            };
            (base - 1..=base + 2).map(|index| (clamped(index), cubic(at - index as f64))).collect()
        }
        Interpolation::Lanczos3 => {
            let sinc =
                |x: f64| if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) };
            let inside: Vec<i64> =
                (base - 2..=base + 3).filter(|&n| (0..=last).contains(&n) && (at - n as f64).abs() < 3.0).collect();
            let weight = |n: i64| sinc(at - n as f64) * sinc((at - n as f64) / 3.0);
            let total: f64 = inside.iter().map(|&n| weight(n)).sum();
            inside.iter().map(|&n| (n as usize, weight(n) / total)).collect()
        }
    }
}

#[derive(Clone, Copy)]
struct Shape {
    mode: Interpolation,
    corners: bool,
    images: usize,
    inputs: [usize; 2],
    outputs: [usize; 2],
}

impl Shape {
    /// Tells `each` every product: the numbers of the pixels of the result and of the image, and the weight.
    fn products(&self, mut each: impl FnMut(usize, usize, f64)) {
        let list = |axis: usize, n: usize| taps(self.mode, self.corners, n, self.inputs[axis], self.outputs[axis]);
        for image in 0..self.images {
            for (y, x) in (0..self.outputs[0]).flat_map(|y| (0..self.outputs[1]).map(move |x| (y, x))) {
                for (row, of_row) in list(0, y) {
                    for (column, of_column) in list(1, x) {
                        let out = (image * self.outputs[0] + y) * self.outputs[1] + x;
                        let from = (image * self.inputs[0] + row) * self.inputs[1] + column;
                        each(out, from, of_row * of_column);
                    }
                }
            }
        }
    }

    /// How many products one result adds up; at least what the widest filter has, whose weights round, too.
    fn terms(&self, gradient: bool) -> usize {
        let most = |axis: usize| {
            let mut held = vec![0; self.inputs[axis]];
            for n in 0..self.outputs[axis] {
                taps(self.mode, self.corners, n, self.inputs[axis], self.outputs[axis])
                    .iter()
                    .for_each(|tap| held[tap.0] += 1);
            }
            held.into_iter().max().unwrap_or(0)
        };
        if gradient { 36.max(most(0) * most(1)) } else { 36 }
    }

    fn case(self, gradient: bool, dtype: DType, placement: Placement) -> Case {
        let shape = |extents: [usize; 2]| vec![self.images, 1, extents[0], extents[1]];
        let (from, to) = if gradient { (self.outputs, self.inputs) } else { (self.inputs, self.outputs) };
        let name = if gradient { "interpolate_gradient" } else { "interpolate" };
        let corners = if self.corners { " corners" } else { "" };
        let size = format!("{:?}{corners} {:?} -> {:?} {placement:?}", self.mode, self.inputs, self.outputs);
        let inputs = vec![(Array::random(&shape(from), dtype, 1), placement)];
        let outputs = vec![(shape(to), dtype)];
        let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
            let (from, to) = (inputs[0].view(), outputs[0].view_mut());
            if gradient {
                interpolate_gradient(stream, from, self.mode, self.corners, to)?;
            } else {
                interpolate(stream, from, self.mode, self.corners, to)?;
            }
            Ok(())
        };
        let oracle = move |inputs: &[Array]| {
            let mut out = vec![0.0; self.images * to[0] * to[1]];
            self.products(|result, image, weight| {
                let (to, from) = if gradient { (image, result) } else { (result, image) };
                out[to] += inputs[0].values[from] * weight;
            });
            vec![out]
        };
        Case::new(name, dtype, size, 0.0, Call { inputs, outputs, launch, oracle }).summing(self.terms(gradient))
    }
}

pub fn cases() -> Vec<Case> {
    const SIZES: [([usize; 2], [usize; 2]); 5] =
        [([5, 4], [11, 9]), ([13, 17], [5, 6]), ([6, 7], [6, 3]), ([1, 3], [4, 1]), ([4, 4], [4, 4])];
    let mut cases = Vec::new();
    for (turn, mode) in Interpolation::ALL.into_iter().enumerate() {
        for (number, (inputs, outputs)) in SIZES.into_iter().enumerate() {
            let shape = Shape { mode, corners: (turn + number) % 2 == 0, images: 2, inputs, outputs };
            let dtype = FLOATS[(turn + number) % 4];
            cases.push(shape.case(false, dtype, Placement::ALL[number % 4]));
            cases.push(shape.case(true, dtype, Placement::ALL[(number + 1) % 4]));
        }
    }
    let large = Shape { mode: Interpolation::Bilinear, corners: false, images: 2, inputs: [23, 19], outputs: [31, 37] };
    cases.push(large.case(false, DType::F32, Placement::Contiguous));
    cases.push(large.case(true, DType::BF16, Placement::Contiguous));
    let empty = Shape { mode: Interpolation::Bilinear, corners: false, images: 0, inputs: [3, 3], outputs: [5, 5] };
    cases.push(empty.case(false, DType::F32, Placement::Contiguous));
    cases
}
