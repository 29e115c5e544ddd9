//! How keys and values lie on pages, checked and brought into `CachePlane` of `cache.h`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Layout, Stream, View, ViewMut};

use super::FORMATS;
use crate::Result;
use crate::family::{self, BOX_LIMIT, c_type, shape};
use crate::quant::Format;

/// Channels of a head are multiples of this.
const DEPTH_STEP: usize = 8;
/// Most channels of a head.
const DEPTH_MAX: usize = 576;
/// Tokens that are moved at once where they are neighbours.
const TOKENS: i64 = 4;
/// One run, or one chunk, of all that there are.
const UNDIVIDED: u32 = 31;

/// How tokens, heads and channels follow each other. `x` is what fits into 16 bytes: 8 elements of 16 bits, 16 codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheLayout {
    /// `[pages, tokens, heads, channels]`, or `[slots, heads, channels]`, a pool of pages of one token: FlashAttention, FlashInfer,
    /// SGLang.
    #[default]
    Nhd,
    /// `[pages, heads, tokens, channels]`.
    Hnd,
    /// Keys `[pages, heads, channels / x, tokens, x]`, values `[pages, heads, channels, tokens]`: vLLM's first kernels, AITER,
    /// mistral.rs.
    Packed,
    /// Keys as there, values `[pages, heads, tokens / x, channels, x]`: AITER's "shuffled".
    PackedBoth,
}

impl CacheLayout {
    /// Every layout.
    pub const ALL: [CacheLayout; 4] =
        [CacheLayout::Nhd, CacheLayout::Hnd, CacheLayout::Packed, CacheLayout::PackedBoth];

    /// The shapes of keys and of values: `[pages, tokens, heads, channels]` in the layout's own order, of elements of a type.
    pub fn shapes(self, [pages, tokens, heads, depth]: [usize; 4], dtype: DType) -> [Vec<usize>; 2] {
        let x = 16 / dtype.size_bytes();
        let keys = vec![pages, heads, depth / x, tokens, x];
        match self {
            CacheLayout::Nhd => [vec![pages, tokens, heads, depth], vec![pages, tokens, heads, depth]],
            CacheLayout::Hnd => [vec![pages, heads, tokens, depth], vec![pages, heads, tokens, depth]],
            CacheLayout::Packed => [keys, vec![pages, heads, depth, tokens]],
            CacheLayout::PackedBoth => [keys, vec![pages, heads, tokens / x, depth, x]],
        }
    }
}

/// Codes in place of floats: an element is `code · scale`.
#[derive(Clone, Copy, Debug)]
pub struct CacheCodes<'a> {
    /// What a code means, of 8 bits.
    pub format: Format,
    /// Scales of keys, f32: one element; one of each page and head, `[pages, heads]`; or one of each token and head, `[pages, heads,
    /// tokens]`, of any strides
    /// ([`scales_of_slots`]).
    pub k_scales: View<'a>,
    /// Scales of values, the same.
    pub v_scales: View<'a>,
}

/// Scales `[heads, slots]` as `[pages, heads, tokens]` for pages of `block` tokens.
///
/// # Errors
/// `Shape` unless it has two axes and whole pages.
pub fn scales_of_slots<'a>(scales: View<'a>, block: usize) -> Result<View<'a>> {
    let [heads, slots] = *scales.shape() else {
        return Err(shape("scales_of_slots", "scales", "[heads, slots]", format!("{:?}", scales.shape())));
    };
    if block == 0 || slots % block != 0 {
        return Err(shape("scales_of_slots", "scales", format!("a multiple of {block} slots"), slots));
    }
    let [by_head, by_slot] = [0, 1].map(|axis| scales.layout().strides()[axis]);
    let strides = [by_slot * block as i64, by_head, by_slot];
    Ok(scales.with_layout(Layout::strided(&[slots / block, heads, block], &strides, scales.layout().offset())?)?)
}

/// Keys and values on pages, to read. The memory of keys and of values may be one, as where they take turns in it.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'a> {
    pub(crate) k: View<'a>,
    pub(crate) v: View<'a>,
    pub(crate) layout: CacheLayout,
    pub(crate) codes: Option<CacheCodes<'a>>,
    pub(crate) extents: Extents,
    /// Whether both planes are channels of the same rows, with one scale.
    pub(crate) is_latent: bool,
}

/// What a cache has of each, heads of keys and values alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    pub blocks: usize,
    /// Tokens of a page.
    pub block: usize,
    pub heads: usize,
    /// Channels of keys, and of values.
    pub depths: [usize; 2],
}

const OP: &str = "cache";

impl<'a> Cache<'a> {
    /// Keys and values of one layout, as [`CacheLayout`] says, pages any distance apart.
    ///
    /// # Types
    /// f32, f16 or bf16, both alike; with `codes` u8 or i8.
    /// # Errors
    /// `Shape` for shapes, types, strides and scales that do not go together, for heads that are not 8, 16, … 576 channels, and for
    /// 2³¹ slots or more.
    pub fn new(k: View<'a>, v: View<'a>, layout: CacheLayout, codes: Option<CacheCodes<'a>>) -> Result<Cache<'a>> {
        let dtype = k.dtype();
        family::same_dtype(OP, "v", &v, dtype)?;
        let fits = match codes {
            Some(_) => matches!(dtype, DType::U8 | DType::I8),
            None => matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
        };
        if !fits && codes.is_some() {
            return Err(shape(OP, "k", "u8 or i8, as it has codes", dtype));
        }
        if !fits {
            return Err(Error::Unsupported { op: OP, dtype, arch: k.arch() }.into());
        }
        let of_k = plane_extents(layout, "k", &k)?;
        let of_v = plane_extents(layout, "v", &v)?;
        if of_k[..3] != of_v[..3] {
            let [blocks, block, heads, _] = of_k;
            let expected = format!("{blocks} pages of {block} tokens and {heads} heads");
            return Err(shape(OP, "v", expected, format!("{:?}", v.shape())));
        }
        let [blocks, block, heads, k_depth] = of_k;
        for (arg, depth) in [("k", k_depth), ("v", of_v[3])] {
            if depth == 0 || !depth.is_multiple_of(DEPTH_STEP) || depth > DEPTH_MAX {
                return Err(shape(OP, arg, format!("heads of {DEPTH_STEP}, 16, … {DEPTH_MAX} channels"), depth));
            }
        }
        if block == 0 || blocks * block >= BOX_LIMIT {
            return Err(shape(
                OP,
                "k",
                format!("pages of a token or more, fewer than {BOX_LIMIT} tokens"),
                blocks * block,
            ));
        }
        let extents = Extents { blocks, block, heads, depths: [k_depth, of_v[3]] };
        let cache = Cache { k, v, layout, codes, extents, is_latent: false };
        if let Some(codes) = &codes {
            if !FORMATS.contains(&codes.format) {
                return Err(shape(OP, "codes.format", format!("one of {FORMATS:?}"), format!("{:?}", codes.format)));
            }
            for (arg, scales) in [("codes.k_scales", &codes.k_scales), ("codes.v_scales", &codes.v_scales)] {
                scale_args(&extents, arg, scales)?;
            }
        }
        Ok(cache)
    }

    /// How many pages there are, and tokens of a page.
    pub fn pages(&self) -> [usize; 2] {
        [self.extents.blocks, self.extents.block]
    }

    /// Heads, channels of a key, channels of a value.
    pub fn heads(&self) -> [usize; 3] {
        [self.extents.heads, self.extents.depths[0], self.extents.depths[1]]
    }

    /// Checks where it lives.
    pub(crate) fn on_device(&self, op: &'static str, stream: &Stream) -> Result<()> {
        let scales = self.codes.as_ref().map(|codes| [codes.k_scales, codes.v_scales]);
        for view in [self.k, self.v].iter().chain(scales.iter().flatten()) {
            family::on_device(op, "cache", stream, view)?;
        }
        Ok(())
    }

    /// Checks that an output shares no element with it.
    pub(crate) fn disjoint(&self, op: &'static str, output: &View<'_>) -> Result<()> {
        family::disjoint(op, "cache", output, &self.k)?;
        family::disjoint(op, "cache", output, &self.v)
    }

    /// What varies in sources that read it.
    pub(crate) fn key(&self) -> CacheKey {
        CacheKey { dtype: self.k.dtype(), format: self.codes.map(|codes| codes.format) }
    }

    /// Keys and values.
    pub(crate) fn planes(&self) -> [PlaneArgs; 2] {
        [self.plane(&self.k, false), self.plane(&self.v, true)]
    }

    /// Scales of keys and of values; zeros without codes.
    pub(crate) fn scales(&self) -> [ScaleArgs; 2] {
        let Some(codes) = &self.codes else { return [ScaleArgs::zeroed(); 2] };
        let checked = |scales| scale_args(&self.extents, "codes", scales).expect("they were checked when it was made");
        [checked(&codes.k_scales), checked(&codes.v_scales)]
    }

    /// Whether there is a scale for each token of keys and of values.
    pub(crate) fn has_token_scales(&self) -> bool {
        let of_tokens = |scales: &View<'_>| scales.layout().rank() == 3;
        self.codes.is_some_and(|codes| of_tokens(&codes.k_scales) && of_tokens(&codes.v_scales))
    }

    fn plane(&self, view: &View<'a>, is_values: bool) -> PlaneArgs {
        let (strides, size) = (view.layout().strides(), view.dtype().size_bytes());
        let x = (16 / size).trailing_zeros();
        let depth = self.extents.depths[usize::from(is_values)] as u32;
        let rows = PlaneArgs { run_shift: UNDIVIDED, chunk_shift: UNDIVIDED, depth, ..PlaneArgs::zeroed() };
        let plane = match (self.layout, is_values) {
            (CacheLayout::Nhd, _) if view.layout().rank() == 3 => {
                PlaneArgs { page: strides[0], head: strides[1], channel: strides[2], ..rows }
            }
            (CacheLayout::Nhd, _) => {
                PlaneArgs { page: strides[0], token: strides[1], head: strides[2], channel: strides[3], ..rows }
            }
            (CacheLayout::Hnd, _) => {
                PlaneArgs { page: strides[0], head: strides[1], token: strides[2], channel: strides[3], ..rows }
            }
            (CacheLayout::Packed | CacheLayout::PackedBoth, false) => PlaneArgs {
                page: strides[0],
                head: strides[1],
                chunk: strides[2],
                token: strides[3],
                channel: strides[4],
                chunk_shift: x,
                ..rows
            },
            (CacheLayout::Packed, true) => {
                PlaneArgs { page: strides[0], head: strides[1], channel: strides[2], token: strides[3], ..rows }
            }
            (CacheLayout::PackedBoth, true) => PlaneArgs {
                page: strides[0],
                head: strides[1],
                run: strides[2],
                channel: strides[3],
                token: strides[4],
                run_shift: x,
                ..rows
            },
        };
        let at = view.device_address();
        // Whether `count` neighbours lie at multiples of so many elements.
        let whole = |count: i64, inner: i64, outer: [i64; 5]| {
            let aligned = at.is_multiple_of(count as u64 * size as u64);
            aligned && inner == 1 && outer.into_iter().all(|stride| stride % count == 0)
        };
        let PlaneArgs { page, head, run, token, chunk, channel, .. } = plane;
        let channels = whole(if size == 4 { 4 } else { 8 }, channel, [page, head, run, token, chunk]);
        let tokens = whole(TOKENS, token, [page, head, run, channel, chunk]);
        PlaneArgs { at, whole: u32::from(channels) | u32::from(tokens) << 1, ..plane }
    }
}

/// A [`Cache`] to write.
#[derive(Debug)]
pub struct CacheMut<'a>(pub(super) Cache<'a>);

impl<'a> CacheMut<'a> {
    /// As [`Cache::new`], of views to write through. Scales, where there are any, are written only by what says so.
    ///
    /// # Errors
    /// As there; `Shape` where two coordinates are one element.
    pub fn new(
        k: ViewMut<'a>,
        v: ViewMut<'a>,
        layout: CacheLayout,
        codes: Option<CacheCodes<'a>>,
    ) -> Result<CacheMut<'a>> {
        family::writable(OP, "k", &k)?;
        family::writable(OP, "v", &v)?;
        Ok(CacheMut(Cache::new(k.view(), v.view(), layout, codes)?))
    }

    /// The same, to read.
    pub fn cache(&self) -> &Cache<'a> {
        &self.0
    }
}

/// Pages, tokens of one, heads and channels of a plane.
fn plane_extents(layout: CacheLayout, arg: &'static str, view: &View<'_>) -> Result<[usize; 4]> {
    let x = 16 / view.dtype().size_bytes();
    let wrong = |expected: &str| Err(shape(OP, arg, expected, format!("{:?}", view.shape())));
    match (layout, arg, view.shape()) {
        (CacheLayout::Nhd, _, &[slots, heads, depth]) => Ok([slots, 1, heads, depth]),
        (CacheLayout::Nhd, _, &[blocks, block, heads, depth]) => Ok([blocks, block, heads, depth]),
        (CacheLayout::Nhd, _, _) => wrong("[pages, tokens, heads, channels] or [slots, heads, channels]"),
        (CacheLayout::Hnd, _, &[blocks, heads, block, depth]) => Ok([blocks, block, heads, depth]),
        (CacheLayout::Hnd, _, _) => wrong("[pages, heads, tokens, channels]"),
        (CacheLayout::Packed | CacheLayout::PackedBoth, "k", &[blocks, heads, chunks, block, each]) if each == x => {
            Ok([blocks, block, heads, chunks * x])
        }
        (CacheLayout::Packed, "v", &[blocks, heads, depth, block]) => Ok([blocks, block, heads, depth]),
        (CacheLayout::PackedBoth, "v", &[blocks, heads, runs, depth, each]) if each == x => {
            Ok([blocks, runs * x, heads, depth])
        }
        (CacheLayout::Packed, "v", _) => wrong("[pages, heads, channels, tokens]"),
        (CacheLayout::PackedBoth, "v", _) => wrong(&format!("[pages, heads, tokens / {x}, channels, {x}]")),
        (CacheLayout::Packed | CacheLayout::PackedBoth, _, _) => {
            wrong(&format!("[pages, heads, channels / {x}, tokens, {x}]"))
        }
    }
}

fn scale_args(extents: &Extents, arg: &'static str, scales: &View<'_>) -> Result<ScaleArgs> {
    family::same_dtype(OP, arg, scales, DType::F32)?;
    let strides = scales.layout().strides();
    let stride = |axis: usize| if scales.shape()[axis] == 1 { 0 } else { strides[axis] };
    let at = scales.device_address();
    let Extents { blocks, block, heads, .. } = *extents;
    match *scales.shape() {
        [b, h] if [b, h] == [blocks, heads] => Ok(ScaleArgs { at, page: stride(0), head: stride(1), token: 0 }),
        [b, h, t] if [b, h, t] == [blocks, heads, block] => {
            Ok(ScaleArgs { at, page: stride(0), head: stride(1), token: stride(2) })
        }
        _ if scales.len() == 1 => Ok(ScaleArgs { at, page: 0, head: 0, token: 0 }),
        _ => {
            let expected = format!("one, [{blocks}, {heads}] or [{blocks}, {heads}, {block}]");
            Err(shape(OP, arg, expected, format!("{:?}", scales.shape())))
        }
    }
}

/// What varies in a source that reads or writes a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    /// The type of its elements.
    pub dtype: DType,
    /// The format of its codes.
    pub format: Option<Format>,
}

impl CacheKey {
    /// The macros of `cache.h`.
    pub fn defines(self) -> [(&'static str, &'static str); 2] {
        let (code, format) = match self.format {
            Some(format) => ("u8", format.number()),
            None => (c_type(self.dtype), "-1"),
        };
        [("CACHE_CODE", code), ("CACHE_FORMAT", format)]
    }
}

/// `CachePlane` of `cache.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct PlaneArgs {
    pub at: u64,
    pub page: i64,
    pub head: i64,
    pub run: i64,
    pub token: i64,
    pub chunk: i64,
    pub channel: i64,
    pub run_shift: u32,
    pub chunk_shift: u32,
    pub depth: u32,
    pub whole: u32,
}
const _: () = assert!(size_of::<PlaneArgs>() == 72);

/// `WriteSource` of `write.hip`, `GatherTarget` of `gather.hip`: `[tokens, heads, channels]` beside a plane.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct RowsArgs {
    at: u64,
    token: i64,
    head: i64,
    is_whole: u32,
    padding: u32,
}

impl RowsArgs {
    pub(crate) fn new(rows: &View<'_>) -> RowsArgs {
        let (strides, size) = (rows.layout().strides(), rows.dtype().size_bytes() as i64);
        let is_whole =
            strides[..2].iter().all(|stride| stride * size % 16 == 0) && rows.device_address().is_multiple_of(16);
        let at = rows.device_address();
        RowsArgs { at, token: strides[0], head: strides[1], is_whole: is_whole.into(), padding: 0 }
    }
}

/// `CacheScales` of `cache.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct ScaleArgs {
    pub at: u64,
    pub page: i64,
    pub head: i64,
    pub token: i64,
}
