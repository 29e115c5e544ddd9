//! `gather`: the launcher of `gather.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::form::{Cache, CacheKey, PlaneArgs, RowsArgs, ScaleArgs};
use super::write::LANE_CHANNELS;
use super::{FORMATS, PageArgs, Pages};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};

const OP: &str = "cache_gather";
/// Keys of a workgroup: `GATHER_KEYS`.
const KEYS: usize = 16;
const LANES_MAX: usize = 32;

/// Brings keys and values of sequences from their pages into rows, codes multiplied by their scales: what an operator without pages
/// takes.
///
/// # Shapes
/// `key`: `[rows, heads, channels]`, `value` the same with its own channels, the last axis contiguous; `starts`: `[sequences + 1]`,
/// I32, contiguous: the first row
/// of each sequence, and the end. A sequence has the keys that `pages` say, and no more than there is room for up to the next start;
/// other rows are left as they are.
/// `keys_most`: at least the keys of the longest sequence; those beyond are not moved.
/// # Types
/// f32, f16 or bf16, both alike; the cache's own where it has no codes.
/// # Numerics
/// What has the cache's type is moved as bits; codes are multiplied in f32, with one rounding. Of a page number outside the cache come
/// zeros, and the next read or wait tells of it.
/// # Errors
/// `Shape` for shapes, strides and types that do not fit, for [`Pages::Slots`], and for more than 65535 sequences.
pub fn gather(
    stream: &Stream,
    cache: &Cache<'_>,
    pages: &Pages<'_>,
    starts: View<'_>,
    keys_most: usize,
    key: ViewMut<'_>,
    value: ViewMut<'_>,
) -> Result<()> {
    let heads = [cache.extents.heads; 2];
    launch(stream, cache, pages, starts, keys_most, [key, value], heads)
}

/// The same of the [`Cache::parts`] of a cache of latents, `[latents, turned channels]`, of which the second are written to as many heads as
/// there is room for.
pub(crate) fn gather_parts(
    stream: &Stream,
    parts: &Cache<'_>,
    pages: &Pages<'_>,
    starts: View<'_>,
    keys_most: usize,
    to: [ViewMut<'_>; 2],
) -> Result<()> {
    let heads = [1, to[1].shape().get(1).copied().unwrap_or(0)];
    launch(stream, parts, pages, starts, keys_most, to, heads)
}

fn launch(
    stream: &Stream,
    cache: &Cache<'_>,
    pages: &Pages<'_>,
    starts: View<'_>,
    keys_most: usize,
    [key, value]: [ViewMut<'_>; 2],
    heads: [usize; 2],
) -> Result<()> {
    cache.on_device(OP, stream)?;
    let extents = cache.extents;
    let rows = key.shape().first().copied().unwrap_or(0);
    for (n, (arg, x)) in [("key", &key), ("value", &value)].into_iter().enumerate() {
        let expected = [rows, heads[n], extents.depths[n]];
        family::on_device(OP, arg, stream, x)?;
        family::same_dtype(OP, arg, x, if cache.codes.is_some() { key.dtype() } else { cache.k.dtype() })?;
        if x.shape() != expected {
            return Err(shape(OP, arg, format!("{expected:?}"), format!("{:?}", x.shape())));
        }
        if x.layout().strides()[2] != 1 {
            return Err(shape(OP, arg, "a last axis of stride 1", x.layout().strides()[2]));
        }
        family::writable(OP, arg, x)?;
        cache.disjoint(OP, x)?;
    }
    family::disjoint(OP, "value", &key, &value)?;
    if !matches!(key.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(rocfire_hal::Error::Unsupported { op: OP, dtype: key.dtype(), arch: key.arch() }.into());
    }
    if matches!(pages, Pages::Slots { .. }) {
        return Err(shape(OP, "pages", "pages of sequences", "slots"));
    }
    let sequences = pages.sequences();
    let page_args = pages.args(OP, stream, [extents.blocks, extents.block], keys_most)?;
    family::on_device(OP, "starts", stream, &starts)?;
    family::same_dtype(OP, "starts", &starts, DType::I32)?;
    if starts.shape() != [sequences + 1] || !starts.layout().is_contiguous() {
        let got = format!("{:?}, strides {:?}", starts.shape(), starts.layout().strides());
        return Err(shape(OP, "starts", format!("[{}], contiguous", sequences + 1), got));
    }
    if sequences > GRID_YZ_MAX {
        return Err(shape(OP, "pages", format!("at most {GRID_YZ_MAX} sequences"), sequences));
    }
    let lanes = extents.depths[0].max(extents.depths[1]).div_ceil(LANE_CHANNELS).next_power_of_two().min(LANES_MAX);
    if rows >= BOX_LIMIT || heads[0].max(heads[1]) * lanes >= BOX_LIMIT / KEYS {
        return Err(shape(OP, "key", format!("fewer than {BOX_LIMIT} rows"), format!("{:?}", key.shape())));
    }
    if sequences == 0 || keys_most == 0 || rows == 0 || heads == [0; 2] {
        return Ok(());
    }
    static SOURCES: Sources<GatherKey> = Sources::new();
    let source = SOURCES.get(GatherKey { cache: cache.key(), out: key.dtype(), lanes }, source);
    let mut plane = cache.planes();
    // One head that all of the rows' have.
    (0..2).filter(|&n| heads[n] != extents.heads).for_each(|n| plane[n].head = 0);
    let args = GatherArgs {
        target: [RowsArgs::new(&key), RowsArgs::new(&value)],
        plane,
        scales: cache.scales(),
        pages: page_args,
        starts: starts.device_address(),
        heads: heads.map(FastDiv::bound),
        rows: rows as u32,
        padding: 0,
    };
    let grid = [keys_most.min(rows).div_ceil(KEYS), sequences, 2];
    let bytes = (key.len() + value.len()) * (key.dtype().size_bytes() + cache.k.dtype().size_bytes());
    let work = Work { category: Category::Other, shape: key.shape(), bytes: bytes as u64, ..Work::default() };
    // SAFETY:
    // - `GatherArgs` is the twin of the kernel's struct, sizes asserted on both sides. Rows are held below `rows`, pages outside the
    // cache
    //   are not followed, and entries of `pages` are read up to a sequence's last key, which is held inside of what there is.
    // - It writes `key` and `value` only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "cache_gather"), grid, [BLOCK, 1, 1])
            .with(0, work)
            .run(&args, &[key.buffer(), value.buffer()])
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GatherKey {
    cache: CacheKey,
    out: DType,
    lanes: usize,
}

fn source(key: GatherKey) -> Source {
    const TEXT: &str =
        concat!(include_str!("cache.h"), include_str!("code.h"), include_str!("words.h"), include_str!("gather.hip"));
    let lanes = key.lanes.to_string();
    let own = [("GATHER_OUT", c_type(key.out)), ("GATHER_LANES", lanes.as_str())];
    let defines: Vec<(&str, &str)> = key.cache.defines().into_iter().chain(own).collect();
    Source::new("cache_gather", TEXT, &defines)
}

/// Its rows of the registry: as they are, and codes of each format.
pub(super) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let coded = |format| CacheKey { dtype: DType::U8, format: Some(format) };
    let all = std::iter::once(CacheKey { dtype, format: None }).chain(FORMATS.map(coded));
    let all = all.enumerate();
    all.map(move |(turn, cache)| (OP, source(GatherKey { cache, out: dtype, lanes: [16, 8, 32][turn % 3] })))
}

/// `GatherArgs` of `gather.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GatherArgs {
    target: [RowsArgs; 2],
    plane: [PlaneArgs; 2],
    scales: [ScaleArgs; 2],
    pages: PageArgs,
    starts: u64,
    heads: [FastDiv; 2],
    rows: u32,
    padding: u32,
}
const _: () = assert!(size_of::<GatherArgs>() == 376);
