//! Caches of keys and values on pages, and attention over them.

use burn::backend::DispatchTensor;
use burn::tensor::{DType, Device, Int, Tensor};
use rocfire_burn::custom::operators::{self, CacheForm, CacheLayout, Format, PagedForm, PagedParams, ScaleRule};

use crate::dispatch::is_ours;
use crate::{CodedMatrices, RotaryEncoding, one, run};

/// Keys and values on pages, as they are or as codes of 8 bits with a scale for each token and head: what a serving engine keeps of
/// each layer.
///
/// It is a value, as Burn's tensors are: a clone stays as it was when the other is written to. Without a clone a write changes its
/// memory in place. There are no gradients.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Keys, values, and of codes the scales of both; none only while they are written to.
    parts: Vec<DispatchTensor>,
    form: CacheForm,
    /// `[pages, tokens of a page, heads, channels]`.
    extents: [usize; 4],
}

/// Sequences of a forward: their pages, keys and queries, in device memory.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// Page numbers, `[sequences, most]`; those behind a sequence's last key are not read.
    pub pages: Tensor<2, Int>,
    /// Keys of each sequence, those of this forward among them, `[sequences]`; 0 for one that is padding.
    pub lens: Tensor<1, Int>,
    /// At least the keys of the longest sequence.
    pub keys_most: usize,
    /// Where queries of each sequence begin, `[sequences + 1]`, and at least those of the sequence with the most; `None`: as many each.
    pub queries: Option<(Tensor<1, Int>, usize)>,
}

fn indices<const D: usize>(x: Tensor<D, Int>) -> DispatchTensor {
    x.cast(DType::I32).into_dispatch()
}

impl KvCache {
    /// Zeros: `[pages, tokens of a page, heads, channels]` of a type, f32, f16 or bf16, or of codes. `None` off rocfire's devices.
    pub fn new(
        extents: [usize; 4],
        layout: CacheLayout,
        format: Option<Format>,
        dtype: DType,
        device: &Device,
    ) -> Option<KvCache> {
        let dtype = if format.is_some() { DType::U8 } else { dtype };
        let zeros = |shape: Vec<usize>| match (format, shape.len()) {
            (Some(_), 5) => Tensor::<5, Int>::zeros(shape, (device, dtype)).into_dispatch(),
            (Some(_), _) => Tensor::<4, Int>::zeros(shape, (device, dtype)).into_dispatch(),
            (None, 5) => Tensor::<5>::zeros(shape, (device, dtype)).into_dispatch(),
            (None, _) => Tensor::<4>::zeros(shape, (device, dtype)).into_dispatch(),
        };
        let mut parts: Vec<DispatchTensor> =
            operators::cache_shapes(layout, extents, dtype).into_iter().map(zeros).collect();
        if format.is_some() {
            let [pages, tokens, heads, _] = extents;
            let scales = || Tensor::<3>::ones([pages, heads, tokens], (device, DType::F32)).into_dispatch();
            parts.extend([scales(), scales()]);
        }
        parts.iter().all(is_ours).then_some(KvCache {
            parts,
            form: CacheForm { layout, format, latent: None },
            extents,
        })
    }

    /// How many pages there are, tokens of a page, heads and channels.
    pub fn extents(&self) -> [usize; 4] {
        self.extents
    }

    /// Puts keys and values of tokens into slots, `slot = page · tokens of a page + offset`; tokens of slots below 0 are passed over.
    ///
    /// # Shapes
    /// `key`, `value`: `[tokens, heads, channels]`; `slots`: `[tokens]`.
    /// # Panics
    /// If shapes or types do not fit, with the argument's name, told by whoever reads what comes of it; for tensors of another
    /// device, at
    /// once.
    pub fn write(&mut self, key: Tensor<3>, value: Tensor<3>, slots: Tensor<1, Int>) {
        let has_token_scales = self.form.format.is_some() && self.form.latent.is_none();
        let rule = if has_token_scales { ScaleRule::Token } else { ScaleRule::Given };
        let others = [key.into_dispatch(), value.into_dispatch(), slots.cast(DType::I64).into_dispatch()];
        self.change(operators::cache_write(self.form, rule), others.to_vec());
    }

    /// Copies pages, `(from, to)` each, `[count, 2]`.
    ///
    /// # Panics
    /// As [`KvCache::write`].
    pub fn copy_blocks(&mut self, pairs: Tensor<2, Int>) {
        self.change(operators::cache_copy(self.form), vec![pairs.cast(DType::I64).into_dispatch()]);
    }

    /// Changes the tensors, and gives the operator's other outputs.
    fn change(&mut self, operator: operators::Operator, others: Vec<DispatchTensor>) -> Vec<DispatchTensor> {
        let name = operator.name();
        // What is not held here any more is changed in place.
        let inputs = std::mem::take(&mut self.parts).into_iter().chain(others).collect();
        self.parts =
            run(operator, inputs).unwrap_or_else(|| panic!("{name}: every tensor must be on the cache's device"));
        self.parts.split_off(self.form.count())
    }

    /// Keys and values of sequences in rows, `[rows, heads, channels]` of `dtype` each; `starts`: `[sequences + 1]`, the first row
    /// of each, and the end.
    ///
    /// # Panics
    /// As [`KvCache::write`].
    pub fn gather(&self, of: Sequences, starts: Tensor<1, Int>, rows: usize, dtype: DType) -> [Tensor<3>; 2] {
        let [_, _, heads, depth] = self.extents;
        let value_depth = self.form.latent.unwrap_or(depth);
        let operator = operators::cache_gather(self.form, [rows, of.keys_most], [heads, depth, value_depth], dtype);
        let others = [indices(of.pages), indices(of.lens), indices(starts)];
        let inputs = self.parts.iter().cloned().chain(others).collect();
        let outputs = run(operator, inputs).expect("cache_gather: every tensor must be on the cache's device");
        let Ok([key, value]) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        [Tensor::from_dispatch(key), Tensor::from_dispatch(value)]
    }

    /// Attention of the last queries of sequences, `[tokens, heads, channels]`, whose own keys were written before: query `i` of a
    /// sequence's `n`
    /// sees keys up to place `keys - n + i`. `slopes` and `sinks`: f32 `[heads]`. A sequence's results do not depend on what else
    /// is in the batch.
    ///
    /// # Panics
    /// As [`KvCache::write`]; for keys of more than 576 channels and values of more than 512.
    pub fn attention(
        &self,
        q: Tensor<3>,
        of: Sequences,
        params: PagedParams,
        slopes: Option<Tensor<1>>,
        sinks: Option<Tensor<1>>,
    ) -> Tensor<3> {
        self.attend((q.into_dispatch(), None), of, params, [slopes, sinks])
    }

    /// With codes their scale, their format, and the type of the result.
    fn attend(
        &self,
        (q, codes): (DispatchTensor, Option<(Tensor<1>, Format, DType)>),
        of: Sequences,
        params: PagedParams,
        [slopes, sinks]: [Option<Tensor<1>>; 2],
    ) -> Tensor<3> {
        let form = PagedForm {
            cache: self.form,
            params,
            keys_most: of.keys_most,
            q_most: of.queries.as_ref().map(|(_, most)| *most),
            has_slopes: slopes.is_some(),
            has_sinks: sinks.is_some(),
            by_slots: false,
            q_codes: codes.as_ref().map(|&(_, format, dtype)| (format, operators::row_type(dtype))),
        };
        let starts = of.queries.map(|(starts, _)| indices(starts));
        let others = [Some(indices(of.pages)), Some(indices(of.lens)), starts];
        let floats = [slopes, sinks, codes.map(|(scale, ..)| scale)].map(|x| x.map(Tensor::into_dispatch));
        let others = others.into_iter().chain(floats).flatten();
        let inputs = std::iter::once(q).chain(self.parts.iter().cloned()).chain(others).collect();
        one(run(operators::paged_attention(form), inputs))
            .expect("paged_attention: every tensor must be on the cache's device")
    }
}

/// What [`LatentCache::absorb`] reads, of one type but for tables and whole numbers.
#[derive(Clone, Debug)]
pub struct AbsorbInputs<'a> {
    /// Queries, `[tokens, heads, channels]`: those that do not turn, then those that do.
    pub q: Tensor<3>,
    /// What brings a head's channels that do not turn to latents, `[heads, channels, latent]`.
    pub weight: Tensor<3>,
    /// `[tokens, latent]`.
    pub latents: Tensor<2>,
    /// The channels that turn of the key that all heads share, `[tokens, turned]`.
    pub keys: Tensor<2>,
    /// RMSNorm of the latents: its weight, `[latent]`, and what is added under the root.
    pub norm: Option<(Tensor<1>, f64)>,
    /// What turns them.
    pub rope: &'a RotaryEncoding,
    /// `[tokens]`.
    pub positions: Tensor<1, Int>,
    /// `[tokens]`; nothing is written for one below 0.
    pub slots: Tensor<1, Int>,
}

/// What multi-head latent attention (MLA) keeps of each token: its latent and, behind it, the rotated channels that all heads share, in one
/// row on a page. Absorbed, every head's queries read these rows as keys, and their latents as values.
///
/// A value, as [`KvCache`] is. There are no gradients.
#[derive(Clone, Debug)]
pub struct LatentCache(KvCache);

impl LatentCache {
    /// Zeros: `[pages, tokens of a page, channels of the latent, channels behind it]` of a type, f32, f16 or bf16, or of codes of one
    /// scale, `[1]`. `None` off rocfire's devices.
    pub fn new(
        [pages, tokens, latent, rotated]: [usize; 4],
        codes: Option<(Format, Tensor<1>)>,
        dtype: DType,
        device: &Device,
    ) -> Option<LatentCache> {
        let extents = [pages, tokens, 1, latent + rotated];
        let rows = match codes {
            Some(_) => Tensor::<4, Int>::zeros(extents, (device, DType::U8)).into_dispatch(),
            None => Tensor::<4>::zeros(extents, (device, dtype)).into_dispatch(),
        };
        let format = codes.as_ref().map(|(format, _)| *format);
        let scale = codes.map(|(_, scale)| scale.cast(DType::F32).into_dispatch());
        let parts: Vec<DispatchTensor> = std::iter::once(rows).chain(scale).collect();
        let form = CacheForm { layout: CacheLayout::Nhd, format, latent: Some(latent) };
        parts.iter().all(is_ours).then_some(LatentCache(KvCache { parts, form, extents }))
    }

    /// Puts tokens into slots, `slot = page · tokens of a page + offset`; tokens of slots below 0 are passed over.
    ///
    /// # Shapes
    /// `latents`: `[tokens, latent]`, `rotated`: `[tokens, channels behind it]`; `slots`: `[tokens]`.
    /// # Panics
    /// As [`KvCache::write`].
    pub fn write(&mut self, latents: Tensor<2>, rotated: Tensor<2>, slots: Tensor<1, Int>) {
        self.0.write(latents.unsqueeze_dim(1), rotated.unsqueeze_dim(1), slots);
    }

    /// Queries that read rows as keys, `[tokens, heads, latent + turned]`: of each head what its channels come to in latents, then those that
    /// turn, turned. The tokens' own rows are written, as [`LatentCache::write`] does, of latents normed and keys turned: what stands before
    /// [`LatentCache::attention`], in two launches. A token's results do not depend on the others.
    ///
    /// # Panics
    /// As [`KvCache::write`].
    pub fn absorb(&mut self, inputs: AbsorbInputs<'_>) -> Tensor<3> {
        let AbsorbInputs { q, weight, latents, keys, norm, rope, positions, slots } = inputs;
        let operator = operators::absorb(self.0.form, rope.style, norm.as_ref().map(|(_, epsilon)| *epsilon));
        let rows = [q.into_dispatch(), weight.into_dispatch(), latents.into_dispatch(), keys.into_dispatch()];
        let tables = [&rope.cosines, &rope.sines].map(|table| table.clone().into_dispatch());
        let whole = [positions, slots].map(|x| x.cast(DType::I64).into_dispatch());
        let norm = norm.map(|(weight, _)| weight.into_dispatch());
        let others = rows.into_iter().chain(norm).chain(tables).chain(whole).collect();
        let out = self.0.change(operator, others).pop().expect("an output behind the cache was described");
        Tensor::from_dispatch(out)
    }

    /// Keys `[rows, heads, channels + turned]` and values of all heads, made of the rows of sequences by `weight`, `[heads, key channels + value
    /// channels, latent]`, whose type they have: what tokens of a prompt attend to beside themselves. Rows of no sequence are zeros.
    ///
    /// # Panics
    /// As [`KvCache::write`].
    pub fn expand(
        &self,
        of: Sequences,
        starts: Tensor<1, Int>,
        rows: usize,
        weight: Tensor<3>,
        key_channels: usize,
    ) -> [Tensor<3>; 2] {
        let operator = operators::expand(self.0.form, [rows, of.keys_most], key_channels);
        let others = [weight.into_dispatch(), indices(of.pages), indices(of.lens), indices(starts)];
        let inputs = self.0.parts.iter().cloned().chain(others).collect();
        let outputs = run(operator, inputs).expect("expand: every tensor must be on the cache's device");
        let Ok([keys, values]) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        [Tensor::from_dispatch(keys), Tensor::from_dispatch(values)]
    }

    /// [`LatentCache::expand`] by codes, to results of `dtype`: those of one matrix, `[1, latent, heads · (key channels + value channels)]`,
    /// transposed as checkpoints have them. Blocks that share a scale need not know of heads.
    ///
    /// # Panics
    /// As [`KvCache::write`]; for heads that do not divide the columns.
    pub fn expand_coded(
        &self,
        of: Sequences,
        (starts, rows): (Tensor<1, Int>, usize),
        weight: &CodedMatrices,
        heads: [usize; 2],
        dtype: DType,
    ) -> [Tensor<3>; 2] {
        let operator = operators::expand_coded(self.0.form, [rows, of.keys_most], heads, weight.coding, dtype);
        let others = [indices(of.pages), indices(of.lens), indices(starts)];
        let inputs = self.0.parts.iter().cloned().chain(weight.inputs()).chain(others).collect();
        let outputs = run(operator, inputs).expect("expand_coded: every tensor must be on the cache's device");
        let Ok([keys, values]) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        [Tensor::from_dispatch(keys), Tensor::from_dispatch(values)]
    }

    /// Copies pages, `(from, to)` each, `[count, 2]`.
    ///
    /// # Panics
    /// As [`KvCache::write`].
    pub fn copy_blocks(&mut self, pairs: Tensor<2, Int>) {
        self.0.copy_blocks(pairs);
    }

    /// Sequences in rows, `[rows, channels]` of `dtype`; `starts`: `[sequences + 1]`, the first row of each, and the end.
    ///
    /// # Panics
    /// As [`KvCache::write`].
    pub fn gather(&self, of: Sequences, starts: Tensor<1, Int>, rows: usize, dtype: DType) -> Tensor<2> {
        let [keys, _] = self.0.gather(of, starts, rows, dtype);
        keys.squeeze_dim(1)
    }

    /// Attention of the last queries of sequences, `[tokens, heads, channels]`: those of a head absorbed into latents, then its rotated ones.
    /// The result is `[tokens, heads, latent]`. `params.scale` is the model's, as that of the channels is not meant. `sinks`: f32
    /// `[heads]`. A sequence's results do not depend on what else is in the batch.
    ///
    /// # Panics
    /// As [`KvCache::write`]; for rows of more than 576 channels, latents of more than 512.
    pub fn attention(&self, q: Tensor<3>, of: Sequences, params: PagedParams, sinks: Option<Tensor<1>>) -> Tensor<3> {
        self.0.attention(q, of, params, None, sinks)
    }

    /// [`LatentCache::attention`] of queries in codes of 8 bits, u8, each times `scale`, f32 `[1]`; the result is of `dtype`, the cache's own
    /// where it has no codes.
    ///
    /// # Panics
    /// As there; for a format of fewer bits.
    pub fn attention_of_codes(
        &self,
        (q, format): (Tensor<3, Int>, Format),
        scale: Tensor<1>,
        dtype: DType,
        of: Sequences,
        params: PagedParams,
    ) -> Tensor<3> {
        self.0.attend((q.into_dispatch(), Some((scale, format, dtype))), of, params, [None, None])
    }

    /// Attention of queries, as [`LatentCache::attention`] has them, to the rows that are chosen for each: `slots`, `[tokens, most]`, in any
    /// order; one below 0 is none. A query that has none gives zeros.
    ///
    /// # Panics
    /// As there; with a window, as rows have no places. A slot behind the last is told of by the next read.
    pub fn sparse_attention(
        &self,
        q: Tensor<3>,
        slots: Tensor<2, Int>,
        params: PagedParams,
        sinks: Option<Tensor<1>>,
    ) -> Tensor<3> {
        let (keys_most, has_sinks) = (slots.dims()[1], sinks.is_some());
        let cache = self.0.form;
        let form = PagedForm { cache, params, keys_most, has_sinks, by_slots: true, ..PagedForm::default() };
        let others = std::iter::once(indices(slots)).chain(sinks.map(Tensor::into_dispatch));
        let inputs = std::iter::once(q.into_dispatch()).chain(self.0.parts.iter().cloned()).chain(others).collect();
        one(run(operators::paged_attention(form), inputs))
            .expect("paged_attention: every tensor must be on the cache's device")
    }
}
