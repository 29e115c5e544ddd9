//! Caches of keys and values on pages, and attention over them.

use candle_core::{DType, Device, Result, Tensor};
pub use rocfire_kernels::attention::PagedParams;
pub use rocfire_kernels::cache::{CacheLayout, ScaleRule};
use rocfire_kernels::operators::{self as kernels, CacheForm, PagedForm};
use rocfire_kernels::quant::Format;
use rocfire_kernels::rope::RopeStyle;

use crate::CodedMatrices;
use crate::record::{apply, one, run};

/// Keys and values on pages, as they are or as codes of 8 bits: what a serving engine keeps of each layer. Writing changes its
/// tensors where they
/// lie, so that whoever else has them sees it; there are no gradients.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Keys, of the layout's shape.
    pub k: Tensor,
    /// Values, of the layout's shape.
    pub v: Tensor,
    /// What codes mean, and the scales of keys and of values: f32, one, `[pages, heads]` or `[pages, heads, tokens]`.
    pub codes: Option<(Format, [Tensor; 2])>,
    /// The order of pages, tokens, heads and channels.
    pub layout: CacheLayout,
}

/// Sequences of a forward: their pages, keys and queries, in device memory.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    /// Page numbers, u32 or i32 `[sequences, most]`; those behind a sequence's last key are not read.
    pub pages: &'a Tensor,
    /// Keys of each sequence, those of this forward among them, u32 or i32 `[sequences]`; 0 for one that is padding.
    pub lens: &'a Tensor,
    /// At least the keys of the longest sequence.
    pub keys_most: usize,
    /// Where queries of each sequence begin, u32 or i32 `[sequences + 1]`, and at least those of the sequence with the most; `None`: as
    /// many each.
    pub queries: Option<(&'a Tensor, usize)>,
}

impl KvCache {
    /// Zeros: `[pages, tokens of a page, heads, channels]` of a type, or codes with a scale for each token and head.
    ///
    /// # Errors
    /// Out of memory; another device than rocfire's.
    pub fn new(
        extents: [usize; 4],
        layout: CacheLayout,
        format: Option<Format>,
        dtype: DType,
        device: &Device,
    ) -> Result<KvCache> {
        let (hal, dtype) = match (format, dtype) {
            (Some(_), _) => (rocfire_hal::DType::U8, DType::U8),
            (None, DType::F32) => (rocfire_hal::DType::F32, DType::F32),
            // Of 16 bits, whichever: the layout asks for no more.
            (None, dtype) => (rocfire_hal::DType::F16, dtype),
        };
        let [k, v] = layout.shapes(extents, hal).map(|shape| Tensor::zeros(shape, dtype, device));
        let [pages, tokens, heads, _] = extents;
        let scales = || Tensor::ones((pages, heads, tokens), DType::F32, device);
        let codes = format.map(|format| Ok::<_, candle_core::Error>((format, [scales()?, scales()?]))).transpose()?;
        Ok(KvCache { k: k?, v: v?, codes, layout })
    }

    fn form(&self) -> CacheForm {
        CacheForm { layout: self.layout, format: self.codes.as_ref().map(|(format, _)| *format), latent: None }
    }

    fn with<'a>(&'a self, others: &[&'a Tensor]) -> Vec<&'a Tensor> {
        let scales = self.codes.iter().flat_map(|(_, scales)| scales);
        [&self.k, &self.v].into_iter().chain(scales).chain(others.iter().copied()).collect()
    }

    /// Puts keys and values of tokens into slots, `slot = page · tokens of a page + offset`.
    ///
    /// # Shapes
    /// `key`, `value`: `[tokens, heads, channels]`; `slots`: u32, i32 or i64 `[tokens]`; tokens of slots below 0 are passed over.
    /// # Errors
    /// Shapes and types that do not fit. A slot behind the last is told of by the next read.
    pub fn write(&self, key: &Tensor, value: &Tensor, slots: &Tensor, rule: ScaleRule) -> Result<()> {
        run(&kernels::cache_write(self.form(), rule), &self.with(&[key, value, slots])).map(drop)
    }

    /// Copies pages, `(from, to)` each, i64 `[count, 2]`.
    ///
    /// # Errors
    /// Shapes and types that do not fit.
    pub fn copy_blocks(&self, pairs: &Tensor) -> Result<()> {
        run(&kernels::cache_copy(self.form()), &self.with(&[pairs])).map(drop)
    }

    /// Keys and values of sequences in rows, `[rows, heads, channels]` of `dtype` each; `starts`: u32 or i32 `[sequences + 1]`, the
    /// first row of each, and the end.
    ///
    /// # Errors
    /// Shapes and types that do not fit; a type that is neither f32, f16 nor bf16.
    pub fn gather(&self, of: &Sequences<'_>, starts: &Tensor, rows: usize, dtype: DType) -> Result<[Tensor; 2]> {
        let to = row_type(dtype)?;
        let operator = kernels::cache_gather(self.form(), [rows, of.keys_most], self.heads()?, to);
        let outputs = apply(&operator, &self.with(&[of.pages, of.lens, starts]))?;
        let Ok(outputs) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        Ok(outputs)
    }

    /// Heads, channels of keys, channels of values.
    fn heads(&self) -> Result<[usize; 3]> {
        let (k, v) = (self.k.dims(), self.v.dims());
        match (self.layout, k, v) {
            (CacheLayout::Nhd, &[.., heads, depth], &[.., value_depth]) => Ok([heads, depth, value_depth]),
            (CacheLayout::Hnd, &[_, heads, _, depth], &[.., value_depth]) => Ok([heads, depth, value_depth]),
            (CacheLayout::Packed, &[_, heads, chunks, _, x], &[_, _, depth, _]) => Ok([heads, chunks * x, depth]),
            (CacheLayout::PackedBoth, &[_, heads, chunks, _, x], &[_, _, _, depth, _]) => {
                Ok([heads, chunks * x, depth])
            }
            _ => candle_core::bail!("cache: {:?} and {:?} are no shapes of {:?}", k, v, self.layout),
        }
    }

    /// Attention of the last queries of sequences, `[tokens, heads, channels]`, whose own keys were written before: query `i` of a
    /// sequence's `n`
    /// sees keys up to place `keys - n + i`. `slopes`, `sinks`: f32 `[heads]`. A sequence's results do not depend on what else is in
    /// the batch.
    ///
    /// # Errors
    /// Shapes and types that do not fit; keys of more than 576 channels, values of more than 512.
    pub fn attention(
        &self,
        q: &Tensor,
        of: &Sequences<'_>,
        params: PagedParams,
        slopes: Option<&Tensor>,
        sinks: Option<&Tensor>,
    ) -> Result<Tensor> {
        attend(self.form(), self.with(&[]), (q, None), of, params, [slopes, sinks])
    }
}

/// Queries, and where they are codes their scale, their format and the type of the result.
type Asked<'a> = (&'a Tensor, Option<(&'a Tensor, Format, DType)>);

/// Attention over the tensors of a cache.
fn attend(
    cache: CacheForm,
    tensors: Vec<&Tensor>,
    (q, codes): Asked<'_>,
    of: &Sequences<'_>,
    params: PagedParams,
    [slopes, sinks]: [Option<&Tensor>; 2],
) -> Result<Tensor> {
    let form = PagedForm {
        cache,
        params,
        keys_most: of.keys_most,
        q_most: of.queries.map(|(_, most)| most),
        has_slopes: slopes.is_some(),
        has_sinks: sinks.is_some(),
        by_slots: false,
        q_codes: codes.map(|(_, format, dtype)| Ok::<_, candle_core::Error>((format, row_type(dtype)?))).transpose()?,
    };
    let scale = codes.map(|(scale, ..)| scale);
    let others = [Some(of.pages), Some(of.lens), of.queries.map(|(starts, _)| starts), slopes, sinks, scale];
    let inputs: Vec<&Tensor> = std::iter::once(q).chain(tensors).chain(others.into_iter().flatten()).collect();
    one(&kernels::paged_attention(form), &inputs)
}

/// What [`LatentCache::absorb`] reads, of one type but for tables and whole numbers.
#[derive(Clone, Copy, Debug)]
pub struct AbsorbInputs<'a> {
    /// Queries, `[tokens, heads, channels]`: those that do not turn, then those that do.
    pub q: &'a Tensor,
    /// What brings a head's channels that do not turn to latents, `[heads, channels, latent]`, any strides.
    pub weight: &'a Tensor,
    /// `[tokens, latent]`.
    pub latents: &'a Tensor,
    /// The channels that turn of the key that all heads share, `[tokens, turned]`.
    pub keys: &'a Tensor,
    /// RMSNorm of the latents: its weight, `[latent]`, and what is added under the root.
    pub norm: Option<(&'a Tensor, f64)>,
    /// Of [`rope_tables`](crate::rope_tables).
    pub tables: [&'a Tensor; 2],
    /// Which elements form a pair.
    pub style: RopeStyle,
    /// u32, i32 or i64 `[tokens]`.
    pub positions: &'a Tensor,
    /// u32, i32 or i64 `[tokens]`; nothing is written for one below 0.
    pub slots: &'a Tensor,
}

/// What gathered rows may be of.
fn row_type(dtype: DType) -> Result<rocfire_hal::DType> {
    match dtype {
        DType::F32 => Ok(rocfire_hal::DType::F32),
        DType::F16 => Ok(rocfire_hal::DType::F16),
        DType::BF16 => Ok(rocfire_hal::DType::BF16),
        other => candle_core::bail!("a cache's dtype must be f32, f16 or bf16, got {other:?}"),
    }
}

/// What multi-head latent attention (MLA) keeps of each token: its latent and, behind it, the rotated channels that all heads share, in one
/// row on a page. Absorbed, every head's queries read these rows as keys, and their latents as values. Writing changes the tensor where it
/// lies; there are no gradients.
#[derive(Clone, Debug)]
pub struct LatentCache {
    /// `[pages, tokens of a page, channels]`: floats, or u8 codes.
    pub rows: Tensor,
    /// How many of the channels are the latent.
    pub latent: usize,
    /// What codes mean, and their scales: f32, one, `[pages, 1]` or `[pages, 1, tokens]`.
    pub codes: Option<(Format, Tensor)>,
}

impl LatentCache {
    /// Zeros: `[pages, tokens of a page, channels of the latent, channels behind it]` of a type, or codes with their scales.
    ///
    /// # Errors
    /// Out of memory; another device than rocfire's.
    pub fn new(
        [pages, tokens, latent, rotated]: [usize; 4],
        codes: Option<(Format, Tensor)>,
        dtype: DType,
        device: &Device,
    ) -> Result<LatentCache> {
        let dtype = if codes.is_some() { DType::U8 } else { dtype };
        Ok(LatentCache { rows: Tensor::zeros((pages, tokens, latent + rotated), dtype, device)?, latent, codes })
    }

    fn form(&self) -> CacheForm {
        let format = self.codes.as_ref().map(|(format, _)| *format);
        CacheForm { layout: CacheLayout::Nhd, format, latent: Some(self.latent) }
    }

    fn with<'a>(&'a self, others: &[&'a Tensor]) -> Vec<&'a Tensor> {
        let scales = self.codes.iter().map(|(_, scales)| scales);
        std::iter::once(&self.rows).chain(scales).chain(others.iter().copied()).collect()
    }

    /// Puts tokens into slots, `slot = page · tokens of a page + offset`.
    ///
    /// # Shapes
    /// `latents`: `[tokens, latent]`, `rotated`: `[tokens, channels behind it]`; `slots`: u32, i32 or i64 `[tokens]`; tokens of slots below
    /// 0 are passed over.
    /// # Errors
    /// Shapes and types that do not fit. A slot behind the last is told of by the next read.
    pub fn write(&self, latents: &Tensor, rotated: &Tensor, slots: &Tensor) -> Result<()> {
        let (latents, rotated) = (latents.unsqueeze(1)?, rotated.unsqueeze(1)?);
        let operator = kernels::cache_write(self.form(), ScaleRule::Given);
        run(&operator, &self.with(&[&latents, &rotated, slots])).map(drop)
    }

    /// Queries that read rows as keys, `[tokens, heads, latent + turned]`: of each head what its channels come to in latents, then those that
    /// turn, turned. The tokens' own rows are written, as [`LatentCache::write`] does, of latents normed and keys turned: what stands before
    /// [`LatentCache::attention`], in two launches. A token's results do not depend on the others.
    ///
    /// # Errors
    /// As [`LatentCache::write`]; a variable among the inputs.
    pub fn absorb(&self, inputs: &AbsorbInputs<'_>) -> Result<Tensor> {
        let AbsorbInputs { q, weight, latents, keys, norm, tables: [cosines, sines], style, positions, slots } =
            *inputs;
        let operator = kernels::absorb(self.form(), style, norm.map(|(_, epsilon)| epsilon));
        let rows = [q, weight, latents, keys].into_iter().chain(norm.map(|(weight, _)| weight));
        let others: Vec<&Tensor> = rows.chain([cosines, sines, positions, slots]).collect();
        one(&operator, &self.with(&others))
    }

    /// Keys `[rows, heads, channels + turned]` and values of all heads, made of the rows of sequences by `weight`, `[heads, key channels + value
    /// channels, latent]`, whose type they have: what tokens of a prompt attend to beside themselves. Rows of no sequence are zeros.
    ///
    /// # Errors
    /// As [`LatentCache::gather`].
    pub fn expand(
        &self,
        of: &Sequences<'_>,
        starts: &Tensor,
        rows: usize,
        weight: &Tensor,
        key_channels: usize,
    ) -> Result<[Tensor; 2]> {
        let operator = kernels::expand(self.form(), [rows, of.keys_most], key_channels);
        let outputs = apply(&operator, &self.with(&[weight, of.pages, of.lens, starts]))?;
        let Ok(outputs) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        Ok(outputs)
    }

    /// [`LatentCache::expand`] by codes, to results of `dtype`: those of one matrix, `[1, latent, heads · (key channels + value channels)]`,
    /// transposed as checkpoints have them. Blocks that share a scale need not know of heads.
    ///
    /// # Errors
    /// As there; heads that do not divide the columns.
    pub fn expand_coded(
        &self,
        of: &Sequences<'_>,
        (starts, rows): (&Tensor, usize),
        weight: &CodedMatrices,
        heads: [usize; 2],
        dtype: DType,
    ) -> Result<[Tensor; 2]> {
        let extents = [rows, of.keys_most];
        let operator = kernels::expand_coded(self.form(), extents, heads, weight.coding, row_type(dtype)?);
        let inputs = self.with(&[&weight.codes, &weight.scales, of.pages, of.lens, starts]);
        let Ok(outputs) = <[_; 2]>::try_from(apply(&operator, &inputs)?) else {
            unreachable!("two outputs were described")
        };
        Ok(outputs)
    }

    /// Copies pages, `(from, to)` each, i64 `[count, 2]`.
    ///
    /// # Errors
    /// Shapes and types that do not fit.
    pub fn copy_blocks(&self, pairs: &Tensor) -> Result<()> {
        run(&kernels::cache_copy(self.form()), &self.with(&[pairs])).map(drop)
    }

    /// Sequences in rows, `[rows, channels]` of `dtype`; `starts`: u32 or i32 `[sequences + 1]`, the first row of each, and the end.
    ///
    /// # Errors
    /// As [`KvCache::gather`].
    pub fn gather(&self, of: &Sequences<'_>, starts: &Tensor, rows: usize, dtype: DType) -> Result<Tensor> {
        let heads = [1, self.rows.dim(2)?, self.latent];
        let operator = kernels::cache_gather(self.form(), [rows, of.keys_most], heads, row_type(dtype)?);
        let mut outputs = apply(&operator, &self.with(&[of.pages, of.lens, starts]))?;
        outputs.swap_remove(0).squeeze(1)
    }

    /// Attention of the last queries of sequences, `[tokens, heads, channels]`: those of a head absorbed into latents, then its rotated ones.
    /// The result is `[tokens, heads, latent]`. `params.scale` is the model's, as that of the channels is not meant. `sinks`: f32
    /// `[heads]`. A sequence's results do not depend on what else is in the batch.
    ///
    /// # Errors
    /// Shapes and types that do not fit; rows of more than 576 channels, latents of more than 512.
    pub fn attention(
        &self,
        q: &Tensor,
        of: &Sequences<'_>,
        params: PagedParams,
        sinks: Option<&Tensor>,
    ) -> Result<Tensor> {
        attend(self.form(), self.with(&[]), (q, None), of, params, [None, sinks])
    }

    /// [`LatentCache::attention`] of queries in codes of 8 bits, u8, each times `scale`, f32 of one element; the result is of `dtype`, the
    /// cache's own where it has no codes.
    ///
    /// # Errors
    /// As there; a format of fewer bits.
    pub fn attention_of_codes(
        &self,
        (q, format): (&Tensor, Format),
        scale: &Tensor,
        dtype: DType,
        of: &Sequences<'_>,
        params: PagedParams,
    ) -> Result<Tensor> {
        attend(self.form(), self.with(&[]), (q, Some((scale, format, dtype))), of, params, [None; 2])
    }

    /// Attention of queries, as [`LatentCache::attention`] has them, to the rows that are chosen for each: `slots`, u32 or i32 `[tokens, most]`,
    /// in any order; one below 0 (`u32::MAX`) is none. A query that has none gives zeros.
    ///
    /// # Errors
    /// As there; with a window, as rows have no places. A slot behind the last is told of by the next read.
    pub fn sparse_attention(
        &self,
        q: &Tensor,
        slots: &Tensor,
        params: PagedParams,
        sinks: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (keys_most, has_sinks) = (slots.dim(1)?, sinks.is_some());
        let form =
            PagedForm { cache: self.form(), params, keys_most, has_sinks, by_slots: true, ..PagedForm::default() };
        let tensors = self.with(&[slots]);
        let inputs: Vec<&Tensor> = std::iter::once(q).chain(tensors).chain(sinks).collect();
        one(&kernels::paged_attention(form), &inputs)
    }
}
