//! Resizing of images, one axis at a time.
//!
//! Every mode is separable, so the rows are resized first and the columns of the result after. Sums stay in f32 (f64 for
//! f64) between the two. The gradient of each axis is the same with its taps turned around.

use burn_backend::ops::{InterpolateMode, InterpolateOptions};
use rocfire_hal::{Error as HalError, Tensor};

use super::taps::Taps;
use crate::error::Result;
use crate::ops::{fused, memory};

/// Axis of the rows in `[batch, channels, height, width]`.
const HEIGHT: usize = 2;

/// `x`, `[batch, channels, height, width]`, resized.
pub(crate) fn forward(x: &Tensor, size: [usize; 2], options: &InterpolateOptions) -> Result<Tensor> {
    let [rows, columns] = both(x, size, options)?;
    let y = columns.apply(&rows.apply(x, HEIGHT)?, HEIGHT + 1)?;
    memory::cast(&y, x.dtype())
}

/// The gradient of [`forward`] with respect to `x`, for the gradient of its result.
pub(crate) fn backward(x: &Tensor, grad: &Tensor, size: [usize; 2], options: &InterpolateOptions) -> Result<Tensor> {
    let [rows, columns] = both(x, size, options)?;
    let wide = memory::cast(grad, fused::wide(grad.dtype()))?;
    let grad = rows.transposed().apply(&columns.transposed().apply(&wide, HEIGHT + 1)?, HEIGHT)?;
    memory::cast(&grad, x.dtype())
}

fn both(x: &Tensor, size: [usize; 2], options: &InterpolateOptions) -> Result<[Taps; 2]> {
    if x.shape().len() != 4 || x.shape()[HEIGHT..].contains(&0) {
        let got = format!("{:?}", x.shape());
        return Err(HalError::shape("interpolate", "x", "[batch, channels, height, width], not empty", got).into());
    }
    let axis = |axis: usize| taps(x.shape()[HEIGHT + axis], size[axis], options);
    Ok([axis(0), axis(1)])
}

fn taps(inputs: usize, outputs: usize, options: &InterpolateOptions) -> Taps {
    let last = inputs - 1;
    let at = |output: usize| coordinate(output, inputs, outputs, options.align_corners);
    let ratio = inputs as f64 / outputs as f64;
    let list = |output: usize| -> Vec<(usize, f64)> {
        match options.mode {
            InterpolateMode::Nearest => vec![(((output as f64 * ratio) as usize).min(last), 1.0)],
            InterpolateMode::NearestExact => vec![((((output as f64 + 0.5) * ratio) as usize).min(last), 1.0)],
            InterpolateMode::Bilinear => {
                let low = at(output).max(0.0) as usize;
                let weight = (at(output) - low as f64).max(0.0);
                vec![(low, 1.0 - weight), ((low + 1).min(last), weight)]
            }
            InterpolateMode::Bicubic => {
                let base = at(output).floor();
                let tap = |offset: i64| {
                    let index = (base as i64 + offset).clamp(0, last as i64) as usize;
                    (index, cubic(at(output) - base - offset as f64))
                };
                (-1..=2).map(tap).collect()
            }
            InterpolateMode::Lanczos3 => lanczos3_taps(at(output), last),
        }
    };
    Taps::new(inputs, (0..outputs).map(list).collect())
}

/// Where an output index lies on the input axis.
fn coordinate(output: usize, inputs: usize, outputs: usize, align_corners: bool) -> f64 {
    if align_corners {
        return output as f64 * ((inputs as f64 - 1.0) / outputs.saturating_sub(1).max(1) as f64);
    }
    (output as f64 + 0.5) * (inputs as f64 / outputs as f64) - 0.5
}

/// Keys' cubic convolution (IEEE Trans. ASSP 29, 1981, eq. 4) with the parameter that image libraries use.
fn cubic(distance: f64) -> f64 {
    const A: f64 = -0.75;
    let t = distance.abs();
    if t < 1.0 {
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A
    } else {
        0.0
    }
}

/// The sinc windowed by the middle lobe of a sinc three times as wide. Taps outside the image are left out and the weights
/// of the others made to sum to 1.
fn lanczos3_taps(at: f64, last: usize) -> Vec<(usize, f64)> {
    let base = at.floor() as i64;
    let inside = |index: &i64| (0..=last as i64).contains(index);
    let weight = |index: i64| {
        let x = std::f64::consts::PI * (at - index as f64);
        if x == 0.0 { 1.0 } else { 3.0 * x.sin() * (x / 3.0).sin() / (x * x) }
    };
    let taps: Vec<_> = (base - 2..=base + 3)
        .filter(inside)
        .filter(|&index| (at - index as f64).abs() < 3.0)
        .map(|index| (index as usize, weight(index)))
        .collect();
    let total: f64 = taps.iter().map(|&(_, weight)| weight).sum();
    taps.into_iter().map(|(index, weight)| (index, weight / total)).collect()
}
