//! A convolution with an epilogue behind it: which axes the kernels move along.

use rocfire_fusion::Epilogue;
use rocfire_hal::{Stream, View};

use super::conv::Forward;
use super::geometry::{AXES, ConvParams, Geometry, SPATIAL};
use super::operands::{check_inputs, check_output};
use crate::Result;
use crate::epilogue::BoundEpilogue;
use crate::family::shape;

/// Axes of an epilogue behind the spatial ones, which come first, the outermost first.
pub(super) const CHANNEL: usize = AXES;
pub(super) const BATCH: usize = AXES + 1;

/// What `epilogue` computes of the convolution of `x` with `weight`: nothing but its outputs is written.
///
/// # Shapes
/// As [`super::conv`]; the epilogue was made for the shape of the result, and each of its outputs has it. A tensor per channel has
/// the shape `[channels, 1…]`, or `[1, channels, 1…]`.
/// # Types
/// The epilogue's first input takes `y`'s place: it has the type of `x`.
/// # Numerics
/// The bits of [`super::conv`] and then the epilogue's graph.
/// # Errors
/// As [`super::conv`], each output in `y`'s place.
pub fn conv_fused(
    stream: &Stream,
    x: View<'_>,
    weight: View<'_>,
    bias: Option<View<'_>>,
    epilogue: &Epilogue<'_>,
    params: &ConvParams<'_>,
) -> Result<()> {
    const OP: &str = "conv";
    let [first, others @ ..] = epilogue.outputs() else { return Ok(()) };
    let geometry = Geometry::new(OP, x.shape(), weight.shape(), first.shape(), params, true)?;
    let inputs = [("x", Some(&x)), ("weight", Some(&weight)), ("bias", bias.as_ref())];
    check_inputs(OP, stream, &inputs, epilogue.result())?;
    if let Some(other) = others.iter().find(|other| other.shape() != first.shape()) {
        return Err(shape(OP, "output", format!("{:?}", first.shape()), format!("{:?}", other.shape())));
    }
    for output in epilogue.outputs() {
        check_output(OP, stream, &inputs, ("output", output))?;
    }
    let epilogue = Some(BoundEpilogue::new(epilogue));
    Forward { geometry, x, weight, bias, y: first.view(), epilogue }.run(OP, stream)
}

/// The epilogue over the axes of a convolution: three spatial ones, channels, batch.
pub(super) fn over_space<'a>(epilogue: &BoundEpilogue<'a>, rank: usize) -> BoundEpilogue<'a> {
    let spatial = rank - SPATIAL;
    let mut epilogue = *epilogue;
    for tensor in epilogue.tensors_mut() {
        let known = tensor.strides;
        tensor.strides = [0; rocfire_hal::MAX_RANK];
        for (to, stride) in (0..AXES).rev().zip(&known[..spatial]) {
            tensor.strides[to] = *stride;
        }
        (tensor.strides[CHANNEL], tensor.strides[BATCH]) = (known[spatial], known[spatial + 1]);
    }
    epilogue
}

/// The epilogue over the axes of the product that a convolution of single elements is: places, rows, groups, batch. `None` where a
/// tensor's places do not form one axis.
pub(super) fn over_product<'a>(
    epilogue: &BoundEpilogue<'a>,
    geometry: &Geometry,
    rank: usize,
) -> Option<BoundEpilogue<'a>> {
    let mut epilogue = over_space(epilogue, rank);
    for tensor in epilogue.tensors_mut() {
        let known = tensor.strides;
        let (mut stride, mut next) = (0, None);
        for axis in (0..AXES).rev().filter(|&axis| geometry.output[axis] != 1) {
            match next {
                None => stride = known[axis],
                Some(next) if next != known[axis] => return None,
                Some(_) => {}
            }
            next = Some(known[axis] * geometry.output[axis] as i64);
        }
        tensor.strides = [0; rocfire_hal::MAX_RANK];
        let by_group = known[CHANNEL] * geometry.channels[1] as i64;
        tensor.strides[..4].copy_from_slice(&[stride, known[CHANNEL], by_group, known[BATCH]]);
    }
    Some(epilogue)
}
