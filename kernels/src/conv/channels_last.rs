//! `channels_last`: the launcher of `channels_last.hip`, behind those of `conv.rs`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Source, Stream, Tensor, View};

use super::geometry::{AXES, SPATIAL};
use crate::Result;
use crate::family::{self, BLOCK, GRID_YZ_MAX, Sources};

/// Side of a tile, and elements of one access.
const SIDE: usize = 64;
const PART: usize = 4;
/// Channels of a copy that one lane makes whole.
const FEW: usize = 8;

/// A copy of `[batch, channels, spatial…]` whose channels are innermost, seen with the axes in their old order and `padded` channels,
/// of which those behind the tensor's own are zeros. That number is a multiple of 4.
pub(super) fn channels_last(op: &'static str, stream: &Stream, view: View<'_>, padded: usize) -> Result<Tensor> {
    let rank = view.layout().rank();
    // Channels last, and the copy seen with them second again.
    let (mut last, mut first): ([usize; SPATIAL + AXES], [usize; SPATIAL + AXES]) = ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]);
    last[1..rank].rotate_left(1);
    first[1..rank].rotate_right(1);
    let mut shape = last.map(|axis| view.shape().get(axis).copied().unwrap_or(1));
    shape[rank - 1] = padded;
    let (batch, channels) = (view.shape()[0], view.shape()[1]);
    let places: usize = view.shape()[SPATIAL..].iter().product();
    let mut out = Tensor::empty(&stream.device(), &shape[..rank], view.dtype())?;
    let seen = out.layout().permute(&first[..rank])?;
    let merged = view.layout().reshape(&[batch, channels, places]).filter(|layout| layout.strides()[2] == 1);
    let Some(layout) = merged.filter(|_| batch <= GRID_YZ_MAX && padded.is_multiple_of(PART)) else {
        if padded != channels {
            stream.fill(out.buffer(), 0, 0, out.buffer().bytes())?;
        }
        let own = seen.slice(1, 0, channels, 1)?;
        family::copy_into(stream, view, out.view_mut().with_layout(own)?)?;
        return Ok(out.with_layout(seen)?);
    };
    let bytes = view.dtype().size_bytes();
    let whole = |stride: i64| stride % PART as i64 == 0;
    let vector = places.is_multiple_of(PART)
        && whole(layout.strides()[0])
        && whole(layout.strides()[1])
        && view.device_address().is_multiple_of((bytes * PART).min(16) as u64);
    let is_few = padded == FEW;
    let tiles = places.div_ceil(if is_few { BLOCK } else { SIDE });
    let args = ChannelsLastArgs {
        x: view.device_address(),
        out: out.view().device_address(),
        x_batch: layout.strides()[0],
        x_channel: layout.strides()[1],
        channels: channels as u32,
        padded: padded as u32,
        places: places as u32,
        tiles: tiles as u32,
        vector: u32::from(vector),
        unused: 0,
    };
    static SOURCES: Sources<usize> = Sources::new();
    let source = SOURCES.get(bytes, source);
    let across = if is_few { 1 } else { padded.div_ceil(SIDE) };
    let (grid, block) = ([tiles * across, 1, batch], [BLOCK, 1, 1]);
    let kernel = if is_few { "channels_few" } else { "channels_last" };
    // SAFETY:
    // - `ChannelsLastArgs` is the twin of the kernel's struct, sizes asserted on both sides; `layout` is the view's own, with
    //   places merged, and the copy has `padded` elements for each place.
    // - It writes the copy only.
    unsafe { family::launch(stream, &source, (op, kernel), grid, block, &args, &[out.buffer()])? };
    Ok(out.with_layout(seen)?)
}

/// The source for elements of so many bytes.
pub(crate) fn source(bytes: usize) -> Source {
    let word = match bytes {
        2 => "rf::u16",
        4 => "rf::u32",
        _ => "rf::u64",
    };
    Source::new("channels_last", include_str!("channels_last.hip"), &[("CHANNELS_LAST_WORD", word)])
}

/// `ChannelsLastArgs` of `channels_last.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ChannelsLastArgs {
    x: u64,
    out: u64,
    x_batch: i64,
    x_channel: i64,
    channels: u32,
    padded: u32,
    places: u32,
    tiles: u32,
    vector: u32,
    unused: u32,
}
const _: () = assert!(size_of::<ChannelsLastArgs>() == 56);
