//! `channels_last`: the launcher of `channels_last.hip`, behind those of `conv.rs`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Source, Stream, Tensor, View};

use super::geometry::{AXES, SPATIAL};
use crate::Result;
use crate::family::{self, BLOCK, GRID_YZ_MAX, KernelLaunch, Sources};

/// Side of a tile, and elements of one access.
const SIDE: usize = 64;
const PART: usize = 4;
/// Channels of a copy that one lane makes whole.
const FEW: usize = 8;
/// LDS of `channels_taps`, and the most channels of one of its workgroups.
const TAPS_BYTES: usize = 16 << 10;
const TAPS_CHANNELS: usize = 256;

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
        tiles_log2: 0,
    };
    let source = source_of(bytes);
    let across = if is_few { 1 } else { padded.div_ceil(SIDE) };
    let (grid, block) = ([tiles * across, 1, batch], [BLOCK, 1, 1]);
    let kernel = if is_few { "channels_few" } else { "channels_last" };
    // SAFETY:
    // - `ChannelsLastArgs` is the twin of the kernel's struct, sizes asserted on both sides; `layout` is the view's own, with
    //   places merged, and the copy has `padded` elements for each place.
    // - It writes the copy only.
    unsafe { KernelLaunch::new(stream, &source, (op, kernel), grid, block).run(&args, &[out.buffer()])? };
    Ok(out.with_layout(seen)?)
}

/// A contiguous copy of `[groups, rows, taps, taps, taps, channels]`, the weights of a convolution, of which memory has the taps of a
/// channel side by side, channel behind channel; `None` where it does not, or the kernel does not take so many.
pub(super) fn taps_first(op: &'static str, stream: &Stream, view: View<'_>) -> Result<Option<Tensor>> {
    let &[groups, rows, .., channels] = view.shape() else { return Ok(None) };
    let (batch, taps) = (groups * rows, view.shape()[2..5].iter().product::<usize>());
    let bytes = view.dtype().size_bytes();
    let lines = view.layout().permute(&[0, 1, 5, 2, 3, 4])?.reshape(&[batch, channels * taps]);
    let Some(lines) = lines.filter(|lines| lines.strides()[1] == 1 && !lines.is_empty()) else { return Ok(None) };
    let most = (TAPS_BYTES / (taps * bytes)).min(TAPS_CHANNELS);
    // The largest power of two that fits, or that has all channels.
    let tiles_log2 = most.checked_ilog2().unwrap_or(0).min(channels.next_power_of_two().ilog2());
    let tiles = 1 << tiles_log2;
    let serves = taps % 2 == 1 && taps > 1 && tiles * bytes >= 16 && batch <= GRID_YZ_MAX;
    if !serves || channels * bytes % 4 != 0 {
        return Ok(None);
    }
    let mut out = Tensor::empty(&stream.device(), view.shape(), view.dtype())?;
    let aligned = lines.strides()[0] * bytes as i64 % 16 == 0 || batch == 1;
    let vector = view.device_address().is_multiple_of(16) && aligned;
    let args = ChannelsLastArgs {
        x: view.device_address(),
        out: out.view_mut().device_address(),
        x_batch: lines.strides()[0],
        x_channel: taps as i64,
        channels: channels as u32,
        padded: channels as u32,
        places: taps as u32,
        tiles: tiles as u32,
        vector: u32::from(vector),
        tiles_log2,
    };
    let (grid, block) = ([channels.div_ceil(tiles), 1, batch], [BLOCK, 1, 1]);
    // SAFETY:
    // - `ChannelsLastArgs` is the twin of the kernel's struct, sizes asserted on both sides; `lines` is the view's own layout, and
    //   the copy has as many elements.
    // - It writes the copy only.
    unsafe {
        KernelLaunch::new(stream, &source_of(bytes), (op, "channels_taps"), grid, block).run(&args, &[out.buffer()])?
    };
    Ok(Some(out))
}

fn source_of(bytes: usize) -> std::sync::Arc<Source> {
    static SOURCES: Sources<usize> = Sources::new();
    SOURCES.get(bytes, source)
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
    tiles_log2: u32,
}
const _: () = assert!(size_of::<ChannelsLastArgs>() == 56);
