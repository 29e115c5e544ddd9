//! Results with their channels innermost: where a kernel of `last.hip` writes them, and who had better ask for them.
//!
//! Whether the steps of a sum are taken channels within taps is a matter of shapes, type and device, so that the layout of neither
//! `x` nor the result changes a bit of a 16-bit result; a result laid so only spares the next convolution its copy.

use rocfire_hal::{DType, Device};

use super::fused::{BATCH, CHANNEL};
use super::geometry::{AXES, ConvParams, Geometry, Side};
use super::operands::{VECTOR_BYTES, is_read_in_vectors};
use crate::epilogue::BoundEpilogue;
use crate::gemm::chunk_of;

/// Channels of a piece that a lane moves.
const PIECE: usize = 8;

/// The lines of such a result: all places of all images, in order.
pub(super) struct Lines<'a> {
    /// Elements from one to the next.
    pub stride: i64,
    /// With channels as axis 0 and lines as axis 1.
    pub epilogue: Option<BoundEpilogue<'a>>,
}

impl<'a> Lines<'a> {
    /// Of a result at `out` with so many places and rows within a group, or of the tensors of an epilogue over space; `None` where one of
    /// them does not lie so.
    pub(super) fn new(
        dtype: DType,
        out: &Side,
        places: [usize; AXES],
        batch: usize,
        rows: usize,
        epilogue: Option<&BoundEpilogue<'a>>,
    ) -> Option<Lines<'a>> {
        if dtype.size_bytes() != 2 || !rows.is_multiple_of(PIECE) || out.outer[1] != 1 {
            return None;
        }
        let stride = line_stride(out, places, batch)?;
        let Some(epilogue) = epilogue else {
            let whole = stride % PIECE as i64 == 0 && out.address.is_multiple_of(VECTOR_BYTES as u64);
            return whole.then_some(Lines { stride, epilogue: None });
        };
        let mut epilogue = *epilogue;
        for tensor in epilogue.tensors_mut() {
            let known = tensor.strides;
            let line = one_stride([known[0], known[1], known[2]], places, (known[BATCH], batch))?;
            tensor.strides = [0; rocfire_hal::MAX_RANK];
            tensor.strides[..2].copy_from_slice(&[known[CHANNEL], line]);
        }
        Some(Lines { stride, epilogue: Some(epilogue) })
    }
}

/// Elements from one place of a tensor to the next, those of all images in order; `None` where there is no such number.
pub(super) fn line_stride(side: &Side, places: [usize; AXES], batch: usize) -> Option<i64> {
    one_stride(side.axis, places, (side.outer[0], batch))
}

/// The stride that steps through spatial axes of these strides and extents, and the images around them.
fn one_stride(strides: [i64; AXES], places: [usize; AXES], (outer, batch): (i64, usize)) -> Option<i64> {
    let axes = [(places[2], strides[2]), (places[1], strides[1]), (places[0], strides[0]), (batch, outer)];
    let mut one = None;
    let mut next = 0;
    for (extent, stride) in axes.into_iter().filter(|(extent, _)| *extent != 1) {
        match one {
            None => one = Some(stride),
            Some(_) if stride != next => return None,
            Some(_) => {}
        }
        next = stride * extent as i64;
    }
    Some(one.unwrap_or(0))
}

/// Whether [`super::conv`] and [`super::conv_fused`] write the result of these shapes best with its channels innermost: `x` is read
/// so, as it will be by the next convolution. Shapes that do not fit give false.
pub fn gives_channels_last(
    device: &Device,
    dtype: DType,
    x: &[usize],
    weight: &[usize],
    y: &[usize],
    params: &ConvParams<'_>,
) -> bool {
    let geometry = Geometry::new("conv", x, weight, y, params, true);
    geometry.is_ok_and(|g| {
        let [channels, rows] = g.channels;
        dtype.size_bytes() == 2
            && rows.is_multiple_of(PIECE)
            && is_read_in_vectors(device, dtype, &g, channels, rows).is_some()
    })
}

/// Whether the kernel of windows takes a convolution of single elements, which could be a product of matrices: where the result has
/// its channels innermost; and where a product would cut the sum into chunks, whatever the layouts, so that all have the same bits.
pub(super) fn serves(device: &Device, dtype: DType, g: &Geometry, out: &Side) -> bool {
    let [channels, rows] = g.channels;
    let is_long = chunk_of(channels) < channels;
    dtype.size_bytes() == 2
        && is_read_in_vectors(device, dtype, g, channels, rows).is_some()
        && (is_long || (out.outer[1] == 1 && rows.is_multiple_of(PIECE)))
}
