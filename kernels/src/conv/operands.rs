//! What the launchers check of their tensors, and the layouts that the kernels take.

use rocfire_hal::{DType, Device, Stream, Tensor, View};

use super::channels_last::channels_last;
use super::direct;
use super::geometry::{Geometry, Side};
use crate::Result;
use crate::family::{self, shape};

/// Bytes of one access of a lane.
pub(super) const VECTOR_BYTES: usize = 16;
/// From so many places on, and for so many rows, a layout that is read in vectors is worth the copy that makes it: the 7 x 7 places
/// of 64 images with 512 channels take 0.09 ms in place of 0.27 on an H200.
pub(super) const COPY_PLACES: usize = 1024;
const COPY_ROWS: usize = 32;
/// The fewest channels that are filled up with zeros to a whole vector: the sum is then less than three times as long.
const PADDED_MIN: usize = 3;

/// Devices and types of the inputs of one call.
pub(super) fn check_inputs(
    op: &'static str,
    stream: &Stream,
    inputs: &[(&'static str, Option<&View<'_>>)],
    dtype: DType,
) -> Result<()> {
    if !dtype.is_float() {
        let arch = stream.device().arch();
        return Err(rocfire_hal::Error::Unsupported { op, dtype, arch }.into());
    }
    for &(arg, view) in inputs {
        let Some(view) = view else { continue };
        family::on_device(op, arg, stream, view)?;
        family::same_dtype(op, arg, view, dtype)?;
    }
    Ok(())
}

/// Device and aliasing of an output, whose type is the caller's to check.
pub(super) fn check_output(
    op: &'static str,
    stream: &Stream,
    inputs: &[(&'static str, Option<&View<'_>>)],
    (name, output): (&'static str, &View<'_>),
) -> Result<()> {
    family::on_device(op, name, stream, output)?;
    for &(arg, view) in inputs {
        if let Some(view) = view {
            family::disjoint(op, arg, output, view)?;
        }
    }
    family::writable(op, name, output)
}

/// A bias as the kernels take it: an address, 0 for none.
pub(super) struct Bias<'a> {
    view: Option<View<'a>>,
    copy: Option<Tensor>,
}

impl<'a> Bias<'a> {
    /// Of a checked view.
    pub(super) fn new(op: &'static str, stream: &Stream, bias: Option<View<'a>>, channels: usize) -> Result<Bias<'a>> {
        let Some(view) = bias else { return Ok(Bias { view: None, copy: None }) };
        if view.shape() != [channels] {
            return Err(shape(op, "bias", format!("[{channels}]"), format!("{:?}", view.shape())));
        }
        let copy = if view.layout().is_contiguous() { None } else { Some(family::contiguous(stream, view)?) };
        Ok(Bias { view: Some(view), copy })
    }

    pub(super) fn address(&self) -> u64 {
        self.copy.as_ref().map(Tensor::view).or(self.view).map_or(0, |view| view.device_address())
    }
}

/// The tensor that windows slide over, perhaps a copy with the channels innermost.
pub(super) struct Source3 {
    pub(super) side: Side,
    /// Whether steps are taken channels within taps, in vectors: for 16-bit types a matter of shapes, so that no layout changes a
    /// bit.
    pub(super) vectors: bool,
    /// Channels of a group, with the zeros of a copy.
    pub(super) channels: usize,
    /// Keeps the copy until the launches that read it are queued.
    _copy: Option<Tensor>,
}

/// In how many channels, zeros behind them included, a tensor of so many is read a vector at a time to give so many rows; `None` where
/// that does not pay.
pub(super) fn is_read_in_vectors(
    device: &Device,
    dtype: DType,
    g: &Geometry,
    channels: usize,
    rows: usize,
) -> Option<usize> {
    let vector = VECTOR_BYTES / dtype.size_bytes();
    let [inputs, outputs]: [usize; 2] = [g.input, g.output].map(|extents| extents.iter().product());
    let places = g.batch * inputs.min(outputs);
    let whole = channels.next_multiple_of(vector);
    let padded = dtype.size_bytes() == 2 && g.groups == 1 && channels >= PADDED_MIN;
    let pays = places >= COPY_PLACES && rows >= COPY_ROWS && (whole == channels || padded);
    let matrix = device.config().matrix && crate::gemm::matrix_side(device.arch().info(), dtype) > 0;
    (pays && matrix && !direct::serves(g)).then_some(whole)
}

impl Source3 {
    /// For sums over so many channels that give so many rows; with `pads` a copy may have zeros behind the channels, which the
    /// caller then reads too.
    pub(super) fn new(
        op: &'static str,
        arg: &'static str,
        stream: &Stream,
        view: View<'_>,
        g: &Geometry,
        [channels, rows]: [usize; 2],
        pads: bool,
    ) -> Result<Source3> {
        let dtype = view.dtype();
        let side = Side::new(op, arg, &view)?;
        let whole = is_read_in_vectors(&stream.device(), dtype, g, channels, rows);
        let whole = whole.filter(|whole| pads || *whole == channels);
        let lies = in_vectors(&side, channels, VECTOR_BYTES / dtype.size_bytes());
        let Some(whole) = whole.filter(|whole| !lies || *whole != channels) else {
            let vectors = lies && (whole.is_some() || dtype.size_bytes() != 2);
            return Ok(Source3 { side, vectors, channels, _copy: None });
        };
        // Only a group of all channels is filled up.
        let copied = view.shape()[1] + (whole - channels);
        let copy = channels_last(op, stream, view, copied)?;
        Ok(Source3 { side: Side::new(op, arg, &copy.view())?, vectors: true, channels: whole, _copy: Some(copy) })
    }
}

/// Whether the channels of a group can be read `vector` at a time.
pub(super) fn in_vectors(side: &Side, channels: usize, vector: usize) -> bool {
    let whole = |stride: &i64| stride % vector as i64 == 0;
    side.outer[1] == 1
        && channels.is_multiple_of(vector)
        && side.address.is_multiple_of(VECTOR_BYTES as u64)
        && whole(&side.outer[0])
        && side.axis.iter().all(whole)
}
