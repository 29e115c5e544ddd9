//! `write`: the launcher of `write.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Source, Stream, View};

use super::FORMATS;
use super::form::{CacheKey, CacheMut, PlaneArgs, RowsArgs, ScaleArgs};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};

const OP: &str = "cache_write";
/// Channels of a lane, and lanes of a head at most: the narrowest wave bounds them.
pub(super) const LANE_CHANNELS: usize = 8;
const LANES_MAX: usize = 32;

/// Where the scales of codes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScaleRule {
    /// They are there.
    #[default]
    Given,
    /// From each token's head, `max |x| / largest`; they are written.
    Token,
}

/// Puts keys and values of tokens into slots, `slot = page · tokens of a page + offset`: copied, or as codes of `x / scale`.
///
/// # Shapes
/// `key`: `[tokens, heads, channels]`, `value` the same with its own channels, the last axis contiguous; `slots`: `[tokens]`, I32 or
/// I64.
/// # Types
/// f32, f16 or bf16, both alike; the cache's own where it has no codes.
/// # Numerics
/// What has the cache's type is moved as bits. Codes are those of `x · (1 / scale)`, to nearest even, saturating. By
/// [`ScaleRule::Token`] a
/// scale is stored as it is, 0 for a head of zeros, and 10⁻¹² at least is what is divided by.
/// A token of a slot below 0 is not written; of one behind the last neither, and the next read or wait tells of it. Two tokens with one
/// slot: either.
/// # Errors
/// `Shape` for shapes, strides and types that do not fit, for [`ScaleRule::Token`] without scales of tokens or with
/// [`CacheMut::latent`], and for 2³¹ heads of
/// tokens or more.
pub fn write(
    stream: &Stream,
    key: View<'_>,
    value: View<'_>,
    cache: &mut CacheMut<'_>,
    slots: View<'_>,
    rule: ScaleRule,
) -> Result<()> {
    let cache = cache.cache();
    cache.on_device(OP, stream)?;
    let extents = cache.extents;
    let tokens = key.shape().first().copied().unwrap_or(0);
    for (arg, x, depth) in [("key", &key, extents.depths[0]), ("value", &value, extents.depths[1])] {
        family::on_device(OP, arg, stream, x)?;
        family::same_dtype(OP, arg, x, if cache.codes.is_some() { key.dtype() } else { cache.k.dtype() })?;
        if x.shape() != [tokens, extents.heads, depth] {
            return Err(shape(OP, arg, format!("[{tokens}, {}, {depth}]", extents.heads), format!("{:?}", x.shape())));
        }
        if x.layout().strides()[2] != 1 {
            return Err(shape(OP, arg, "a last axis of stride 1", x.layout().strides()[2]));
        }
        cache.disjoint(OP, x)?;
    }
    if !matches!(key.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(rocfire_hal::Error::Unsupported { op: OP, dtype: key.dtype(), arch: key.arch() }.into());
    }
    family::on_device(OP, "slots", stream, &slots)?;
    if slots.shape() != [tokens] || !matches!(slots.dtype(), DType::I32 | DType::I64) {
        let got = format!("{} {:?}", slots.dtype(), slots.shape());
        return Err(shape(OP, "slots", format!("I32 or I64 [{tokens}]"), got));
    }
    cache.disjoint(OP, &slots)?;
    let lines = tokens * extents.heads;
    if lines >= BOX_LIMIT {
        return Err(shape(OP, "key", format!("fewer than {BOX_LIMIT} heads of tokens"), lines));
    }
    if rule == ScaleRule::Token && cache.is_latent {
        return Err(shape(OP, "rule", "scales that are given, as parts of a row share them", format!("{rule:?}")));
    }
    if rule == ScaleRule::Token && !cache.has_token_scales() {
        let got = cache.codes.map_or("no codes".to_owned(), |codes| format!("{:?}", codes.k_scales.shape()));
        return Err(shape(OP, "cache", "scales of tokens, [pages, heads, tokens]", got));
    }
    if lines == 0 {
        return Ok(());
    }
    let scales = match (cache.codes.is_some(), rule) {
        (false, _) => Scaling::None,
        (true, ScaleRule::Given) => Scaling::Given,
        (true, ScaleRule::Token) => Scaling::Made,
    };
    let chunks = extents.depths[0].max(extents.depths[1]).div_ceil(LANE_CHANNELS);
    let lanes = chunks.next_power_of_two().min(LANES_MAX);
    let (x, slot) = (key.dtype(), slots.dtype());
    let key_of_source = WriteKey { cache: cache.key(), x, slot, lanes, turns: chunks.div_ceil(lanes), scales };
    static SOURCES: Sources<WriteKey> = Sources::new();
    let source = SOURCES.get(key_of_source, source);
    let args = WriteArgs {
        source: [RowsArgs::new(&key), RowsArgs::new(&value)],
        plane: cache.planes(),
        scales: cache.scales(),
        slots: slots.device_address(),
        slot_stride: slots.layout().strides()[0],
        heads: FastDiv::new(extents.heads),
        block: FastDiv::new(extents.block),
        lines: lines as u32,
        slots_end: (extents.blocks * extents.block) as u32,
    };
    let grid = [lines.div_ceil(BLOCK / lanes), 1, 2];
    let bytes = (key.len() + value.len()) * (x.size_bytes() + cache.k.dtype().size_bytes());
    let work = Work { category: Category::Other, shape: key.shape(), bytes: bytes as u64, ..Work::default() };
    let k = cache.k.buffer();
    let of_scales = cache.codes.as_ref().map_or([k; 2], |codes| [codes.k_scales.buffer(), codes.v_scales.buffer()]);
    let written = [k, cache.v.buffer(), of_scales[0], of_scales[1]];
    // SAFETY:
    // - `WriteArgs` is the twin of the kernel's struct, sizes asserted on both sides. Rows below `lines` and channels below each
    // plane's
    //   depth are inside the checked views; slots from 0 to `slots_end` are elements of the cache and of its scales.
    // - It writes both planes, and scales where it makes them: what is listed.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "cache_write"), grid, [BLOCK, 1, 1])
            .with(0, work)
            .run(&args, &written[..if scales == Scaling::Made { 4 } else { 2 }])
    }
}

/// What becomes of scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scaling {
    None,
    Given,
    Made,
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WriteKey {
    cache: CacheKey,
    x: DType,
    slot: DType,
    lanes: usize,
    turns: usize,
    scales: Scaling,
}

fn source(key: WriteKey) -> Source {
    const TEXT: &str =
        concat!(include_str!("cache.h"), include_str!("code.h"), include_str!("words.h"), include_str!("write.hip"));
    let (lanes, turns) = (key.lanes.to_string(), key.turns.to_string());
    let largest = format!("{:?}f", key.cache.format.map_or(1.0, |format| format.largest()));
    let scales = match key.scales {
        Scaling::None => "0",
        Scaling::Given => "1",
        Scaling::Made => "2",
    };
    let own = [
        ("WRITE_IN", c_type(key.x)),
        ("WRITE_SLOT", c_type(key.slot)),
        ("WRITE_LANES", &lanes),
        ("WRITE_TURNS", &turns),
        ("WRITE_SCALES", scales),
        ("WRITE_LARGEST", &largest),
    ];
    let defines: Vec<(&str, &str)> = key.cache.defines().into_iter().chain(own).collect();
    Source::new("cache_write", TEXT, &defines)
}

/// Its rows of the registry: as they are, and codes of each format, with scales in turn.
pub(super) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let plain = CacheKey { dtype, format: None };
    let plain = WriteKey { cache: plain, x: dtype, slot: DType::I64, lanes: 16, turns: 1, scales: Scaling::None };
    let coded = FORMATS.into_iter().enumerate().map(move |(turn, format)| {
        let scales = if turn % 2 == 0 { Scaling::Made } else { Scaling::Given };
        let cache = CacheKey { dtype: DType::U8, format: Some(format) };
        WriteKey { cache, slot: DType::I32, lanes: 32 >> turn, turns: 1 + turn % 2, scales, ..plain }
    });
    std::iter::once(plain).chain(coded).map(|key| (OP, source(key)))
}

/// `WriteArgs` of `write.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct WriteArgs {
    source: [RowsArgs; 2],
    plane: [PlaneArgs; 2],
    scales: [ScaleArgs; 2],
    slots: u64,
    slot_stride: i64,
    heads: FastDiv,
    block: FastDiv,
    lines: u32,
    slots_end: u32,
}
const _: () = assert!(size_of::<WriteArgs>() == 320);
