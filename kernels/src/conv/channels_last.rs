//! `channels_last`: the launcher of `channels_last.hip`, behind those of `conv.rs`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Source, Stream, Tensor, View};

use super::geometry::{AXES, SPATIAL};
use crate::Result;
use crate::family::{self, BLOCK, GRID_YZ_MAX, Sources};

/// Side of a tile, and elements of one access.
const SIDE: usize = 64;
const PART: usize = 4;

/// A copy of `[batch, channels, spatial…]` whose channels are innermost, seen with the axes in their old order. The number of
/// channels is a multiple of 4.
pub(super) fn channels_last(op: &'static str, stream: &Stream, view: View<'_>) -> Result<Tensor> {
    let rank = view.layout().rank();
    // Channels last, and the copy seen with them second again.
    let (mut last, mut first): ([usize; SPATIAL + AXES], [usize; SPATIAL + AXES]) = ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]);
    last[1..rank].rotate_left(1);
    first[1..rank].rotate_right(1);
    let shape = last.map(|axis| view.shape().get(axis).copied().unwrap_or(1));
    let (batch, channels) = (view.shape()[0], view.shape()[1]);
    let places: usize = view.shape()[SPATIAL..].iter().product();
    let merged = view.layout().reshape(&[batch, channels, places]).filter(|layout| layout.strides()[2] == 1);
    let Some(layout) = merged.filter(|_| batch <= GRID_YZ_MAX && channels.is_multiple_of(PART)) else {
        let copy = family::contiguous(stream, view.with_layout(view.layout().permute(&last[..rank])?)?)?;
        return Ok(copy.with_layout(copy.layout().permute(&first[..rank])?)?);
    };
    let out = Tensor::empty(&stream.device(), &shape[..rank], view.dtype())?;
    let bytes = view.dtype().size_bytes();
    let whole = |stride: i64| stride % PART as i64 == 0;
    let vector = places.is_multiple_of(PART)
        && whole(layout.strides()[0])
        && whole(layout.strides()[1])
        && view.device_address().is_multiple_of((bytes * PART).min(16) as u64);
    let tiles = places.div_ceil(SIDE);
    let args = ChannelsLastArgs {
        x: view.device_address(),
        out: out.view().device_address(),
        x_batch: layout.strides()[0],
        x_channel: layout.strides()[1],
        channels: channels as u32,
        places: places as u32,
        tiles: tiles as u32,
        vector: u32::from(vector),
    };
    static SOURCES: Sources<usize> = Sources::new();
    let source = SOURCES.get(bytes, source);
    let (grid, block) = ([tiles * channels.div_ceil(SIDE), 1, batch], [BLOCK, 1, 1]);
    // SAFETY:
    // - `ChannelsLastArgs` is the twin of the kernel's struct, sizes asserted on both sides; `layout` is the view's own, with
    //   places merged, and the copy has as many elements.
    // - It writes the copy only.
    unsafe { family::launch(stream, &source, (op, "channels_last"), grid, block, &args, &[out.buffer()])? };
    Ok(out.with_layout(out.layout().permute(&first[..rank])?)?)
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
    places: u32,
    tiles: u32,
    vector: u32,
}
const _: () = assert!(size_of::<ChannelsLastArgs>() == 48);
