//! Caches on pages, and attention over them.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Stream, Tensor};

use super::{Operator, Spec, packed, with_rows};
use crate::Result;
use crate::attention::{PagedInputs, PagedParams, Queries, QueryCodes, paged_attention as launch_paged_attention};
use crate::cache::{self, Cache, CacheCodes, CacheLayout, CacheList, CacheMut, LatentCodes, Pages, ScaleRule};
use crate::quant::Format;

/// How a cache lies whose keys and values are inputs, and behind them, where there are codes, the scales of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheForm {
    /// The order of pages, tokens, heads and channels.
    pub layout: CacheLayout,
    /// What a code means; `None`: floats.
    pub format: Option<Format>,
    /// Channels of a value where the keys hold them, as [`Cache::latent`] says: one input in place of two, and one of scales. The
    /// layout is then [`CacheLayout::Nhd`].
    pub latent: Option<usize>,
}

impl CacheForm {
    const NAMES: [&'static str; 4] = ["k_cache", "v_cache", "k_scales", "v_scales"];
    const LATENT_NAMES: [&'static str; 2] = ["cache", "scales"];

    /// Its tensors' number: planes, and the scales of each.
    pub fn count(self) -> usize {
        let planes = if self.latent.is_some() { 1 } else { 2 };
        if self.format.is_some() { 2 * planes } else { planes }
    }

    pub(super) fn names(self, others: &[&'static str]) -> Vec<&'static str> {
        let own = if self.latent.is_some() { &CacheForm::LATENT_NAMES[..] } else { &CacheForm::NAMES };
        [&own[..self.count()], others].concat()
    }

    fn codes(self, scales: &[Tensor]) -> Option<CacheCodes<'_>> {
        self.format.map(|format| CacheCodes { format, k_scales: scales[0].view(), v_scales: scales[1].view() })
    }

    fn latent_codes(self, scales: &[Tensor]) -> Option<LatentCodes<'_>> {
        self.format.map(|format| LatentCodes { format, scales: scales[0].view() })
    }

    pub(super) fn cache(self, inputs: &[Tensor]) -> Result<Cache<'_>> {
        match self.latent {
            Some(latent) => Cache::latent(inputs[0].view(), latent, self.latent_codes(&inputs[1..])),
            None => Cache::new(inputs[0].view(), inputs[1].view(), self.layout, self.codes(&inputs[2..])),
        }
    }

    /// The same, to write.
    pub(super) fn cache_mut(self, tensors: &mut [Tensor]) -> Result<CacheMut<'_>> {
        let planes = if self.latent.is_some() { 1 } else { 2 };
        let (planes, scales) = tensors.split_at_mut(planes);
        match (self.latent, planes) {
            (Some(latent), [rows]) => CacheMut::latent(rows.view_mut(), latent, self.latent_codes(scales)),
            (_, [k, v]) => CacheMut::new(k.view_mut(), v.view_mut(), self.layout, self.codes(scales)),
            _ => unreachable!("planes were described"),
        }
    }

    /// Its tensors as they will be.
    fn kept(self) -> impl Fn(&[Spec]) -> Vec<Spec> {
        move |inputs| inputs[..self.count()].to_vec()
    }
}

/// Tokens written into slots of a cache, as [`cache::write`]; of codes by tokens the scales, too.
///
/// # Inputs
/// The cache as the form says; keys and values `[tokens, heads, channels]`, of a latent cache latents and what is behind them; slots
/// `[tokens]`, i32 or i64. The outputs are the
/// cache's tensors. There is no gradient.
pub fn cache_write(form: CacheForm, rule: ScaleRule) -> Operator {
    let count = form.count();
    let write = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let mut cache = form.cache_mut(outputs)?;
        let (key, value) = (with_rows(&inputs[count])?, with_rows(&inputs[count + 1])?);
        cache::write(stream, key.view(), value.view(), &mut cache, inputs[count + 2].view(), rule)
    };
    Operator::new("cache_write", &form.names(&["key", "value", "slots"]), form.kept(), write).keeping(count)
}

/// Pages copied within a cache, as [`cache::copy_blocks`].
///
/// # Inputs
/// The cache as the form says; pairs `[count, 2]`, i64: from, to. The outputs are the cache's tensors.
pub fn cache_copy(form: CacheForm) -> Operator {
    let count = form.count();
    let copy = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let list = CacheList::new(stream, &[&form.cache(outputs)?])?;
        cache::copy_blocks(stream, &list, packed(&inputs[count])?.view())
    };
    Operator::new("cache_copy", &form.names(&["pairs"]), form.kept(), copy).keeping(count)
}

/// Keys and values of sequences from their pages into rows, as [`cache::gather`]. Rows of no sequence are zeros.
///
/// # Inputs
/// The cache as the form says; pages `[sequences, most]`, lengths `[sequences]` and starts `[sequences + 1]`, i32. The outputs are
/// keys and values
/// `[rows, heads, channels]` of type `to`, of heads and channels `heads`; a sequence has at most `keys_most` keys.
pub fn cache_gather(form: CacheForm, [rows, keys_most]: [usize; 2], heads: [usize; 3], to: DType) -> Operator {
    let count = form.count();
    let [heads, k_depth, v_depth] = heads;
    let outputs = move |_: &[Spec]| vec![Spec::new([rows, heads, k_depth], to), Spec::new([rows, heads, v_depth], to)];
    let names = form.names(&["pages", "lens", "starts"]);
    Operator::new("cache_gather", &names, outputs, move |stream, inputs, outputs| {
        let (cache, rest) = (form.cache(inputs)?, &inputs[count..]);
        let (pages, lens, starts) = (with_rows(&rest[0])?, packed(&rest[1])?, packed(&rest[2])?);
        let pages = Pages::Table { pages: pages.view(), lens: lens.view() };
        let [key, value] = outputs else { unreachable!("two outputs were described") };
        eager::fill(key.view_mut(), Scalar::Int(0))?;
        eager::fill(value.view_mut(), Scalar::Int(0))?;
        cache::gather(stream, &cache, &pages, starts.view(), keys_most, key.view_mut(), value.view_mut())
    })
}

/// What attention over a cache on pages is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagedForm {
    /// How the cache lies.
    pub cache: CacheForm,
    /// Scale, soft cap, window.
    pub params: PagedParams,
    /// At least the keys of the longest sequence.
    pub keys_most: usize,
    /// At least the queries of the sequence with the most where they differ, and there are starts; `None`: as many each.
    pub q_most: Option<usize>,
    /// Whether there are slopes.
    pub has_slopes: bool,
    /// Whether there are sinks.
    pub has_sinks: bool,
    /// Whether slots of keys, a row for each token, take the place of pages and lengths.
    pub by_slots: bool,
    /// Where queries are codes, their format, of 8 bits, and the type of the output.
    pub q_codes: Option<(Format, DType)>,
}

/// Attention of the last queries of sequences over a cache on pages, as [`launch_paged_attention`]. Tokens of no sequence are zeros.
///
/// # Inputs
/// `q` `[tokens, heads, channels]`; the cache as the form says; pages `[sequences, most]` and lengths `[sequences]`, i32; starts of
/// the sequences'
/// queries `[sequences + 1]`, i32, or in place of all three slots `[tokens, keys_most]`, i32; slopes and sinks `[heads]`, f32, where the form says so; of queries that are codes, u8, the scale, f32, one element. The output is like `q` with the channels
/// of the
/// values. There is no gradient.
pub fn paged_attention(form: PagedForm) -> Operator {
    let others = [
        ("starts", form.q_most.is_some()),
        ("slopes", form.has_slopes),
        ("sinks", form.has_sinks),
        ("q_scale", form.q_codes.is_some()),
    ];
    let others: Vec<_> = others.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect();
    let found: &[&str] = if form.by_slots { &["slots"] } else { &["pages", "lens"] };
    let names = [&["q"], &form.cache.names(found)[..], &others].concat();
    let first = 1 + form.cache.count();
    let output = move |inputs: &[Spec]| {
        let mut out = inputs[0].clone();
        let of_values = |inputs: &[Spec]| match form.cache.layout {
            CacheLayout::Nhd | CacheLayout::Hnd => inputs[2].shape.last().copied(),
            CacheLayout::Packed => inputs[2].shape.get(2).copied(),
            CacheLayout::PackedBoth => inputs[2].shape.get(3).copied(),
        };
        let depth = form.cache.latent.or_else(|| of_values(inputs));
        out.shape.last_mut().into_iter().for_each(|last| *last = depth.unwrap_or(0));
        out.dtype = form.q_codes.map_or(out.dtype, |(_, dtype)| dtype);
        vec![out]
    };
    Operator::new("paged_attention", &names, output, move |stream, inputs, outputs| {
        let q = with_rows(&inputs[0])?;
        let (table, rest) = (with_rows(&inputs[first])?, &inputs[first + 1..]);
        let rest = rest.iter().map(packed).collect::<Result<Vec<_>>>()?;
        let mut others = rest.iter().map(Tensor::view);
        let mut next = || others.next().expect("as many as there are names");
        let pages = match form.by_slots {
            true => Pages::Slots { slots: table.view(), lens: None },
            false => Pages::Table { pages: table.view(), lens: next() },
        };
        let sequences = pages.sequences();
        let mut read = PagedInputs::new(q.view(), form.cache.cache(&inputs[1..first])?, pages, form.keys_most);
        read.queries = match form.q_most {
            Some(most) => Queries::Starts { starts: next(), most },
            None => Queries::Each(q.shape().first().map_or(0, |tokens| tokens / sequences.max(1))),
        };
        [read.slopes, read.sinks] = [form.has_slopes, form.has_sinks].map(|is_there| is_there.then(&mut next));
        read.q_codes = form.q_codes.map(|(format, _)| QueryCodes { format, scale: next() });
        if form.q_most.is_some() {
            eager::fill(outputs[0].view_mut(), Scalar::Int(0))?;
        }
        launch_paged_attention(stream, &read, &form.params, outputs[0].view_mut(), None, None)
    })
}
