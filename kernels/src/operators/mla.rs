//! What stands around a cache of latents, as values.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Stream, Tensor};

use super::{CacheForm, MatrixCoding, Operator, Spec, packed, with_rows};
use crate::Result;
use crate::cache::Pages;
use crate::mla::{AbsorbInputs, ExpandInputs, ExpandWeight, absorb as launch_absorb, expand as launch_expand};
use crate::rope::RopeStyle;

/// Queries of absorbed MLA, and their tokens' rows written into the cache, as [`launch_absorb`]; with `epsilon` latents are normed.
///
/// # Inputs
/// The cache as the form says; `q` `[tokens, heads, channels]`; weight `[heads, channels that do not turn, latent]`; latents `[tokens,
/// latent]` and keys `[tokens, turned]`; with `epsilon` the norm's weight `[latent]`; cosines and sines `[positions, turned / 2]`, f32;
/// positions and slots `[tokens]`, i32 or i64. The outputs are the cache's tensors, and queries `[tokens, heads, latent + turned]`. There is no
/// gradient.
pub fn absorb(form: CacheForm, style: RopeStyle, epsilon: Option<f64>) -> Operator {
    let count = form.count();
    let norm: &[&str] = if epsilon.is_some() { &["norm"] } else { &[] };
    let names = [&["q", "weight", "latents", "keys"], norm, &["cosines", "sines", "positions", "slots"]].concat();
    let outputs = move |inputs: &[Spec]| {
        let mut out = inputs[count].clone();
        out.shape.last_mut().into_iter().for_each(|last| *last = inputs[0].shape.last().copied().unwrap_or(0));
        inputs[..count].iter().cloned().chain([out]).collect()
    };
    let run = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let (cache, out) = outputs.split_at_mut(count);
        let inputs = &inputs[count..];
        let rows =
            [&inputs[0], &inputs[2], &inputs[3]].into_iter().map(with_rows).collect::<crate::Result<Vec<_>>>()?;
        let rest = inputs[4..].iter().map(packed).collect::<crate::Result<Vec<_>>>()?;
        let (weight_of_norm, rest) = rest.split_at(usize::from(epsilon.is_some()));
        let read = AbsorbInputs {
            q: rows[0].view(),
            weight: inputs[1].view(),
            latents: rows[1].view(),
            keys: rows[2].view(),
            norm: weight_of_norm.first().map(Tensor::view).zip(epsilon),
            tables: [rest[0].view(), rest[1].view()],
            style,
            positions: rest[2].view(),
            slots: rest[3].view(),
        };
        launch_absorb(stream, &read, out[0].view_mut(), &mut form.cache_mut(cache)?)
    };
    Operator::new("absorb", &form.names(&names), outputs, run).keeping(count)
}

/// Keys and values of all heads from a cache of latents, as [`launch_expand`]. Rows of no sequence are zeros.
///
/// # Inputs
/// The cache as the form says; weight `[heads, key channels + value channels, latent]`, of which `key_channels` come first; pages
/// `[sequences, most]`, lengths `[sequences]` and starts `[sequences + 1]`, i32. The outputs, of the weight's type, are keys `[rows, heads, key
/// channels + turned]` and values `[rows, heads, value channels]`; a sequence has at most `keys_most` keys.
pub fn expand(form: CacheForm, [rows, keys_most]: [usize; 2], key_channels: usize) -> Operator {
    let count = form.count();
    let outputs = move |inputs: &[Spec]| {
        let (cache, weight) = (&inputs[0], &inputs[count]);
        let turned = cache.shape.last().copied().unwrap_or(0).saturating_sub(form.latent.unwrap_or(0));
        let of = |channels| Spec::new([rows, weight.extent(0), channels], weight.dtype);
        vec![of(key_channels + turned), of(weight.extent(1).saturating_sub(key_channels))]
    };
    let names = form.names(&["weight", "pages", "lens", "starts"]);
    Operator::new("expand", &names, outputs, move |stream, inputs, outputs| {
        let weight = ExpandWeight::Floats(inputs[count].view());
        expand_by(stream, form, inputs, &inputs[count + 1..], (weight, keys_most), outputs)
    })
}

/// [`expand()`] by a matrix of codes, to results of `dtype`.
///
/// # Inputs
/// As there, but in the weight's place its codes and scales as [`code_matrices`](super::code_matrices) gives them of one matrix, `[1, latent,
/// heads · (key channels + value channels)]`; transposed it is as checkpoints have it. `heads` divide its columns.
pub fn expand_coded(
    form: CacheForm,
    [rows, keys_most]: [usize; 2],
    [heads, key_channels]: [usize; 2],
    coding: MatrixCoding,
    dtype: DType,
) -> Operator {
    let count = form.count();
    let outputs = move |inputs: &[Spec]| {
        let turned = inputs[0].shape.last().copied().unwrap_or(0).saturating_sub(form.latent.unwrap_or(0));
        let channels = coding.columns(&inputs[count].shape) / heads.max(1);
        let of = |channels| Spec::new([rows, heads, channels], dtype);
        vec![of(key_channels + turned), of(channels.saturating_sub(key_channels))]
    };
    let names = form.names(&["codes", "scales", "pages", "lens", "starts"]);
    Operator::new("expand_coded", &names, outputs, move |stream, inputs, outputs| {
        let (codes, scales) = (&inputs[count], &inputs[count + 1]);
        coding.with_outputs(codes, scales, form.latent.unwrap_or(0), |weight| {
            let weight = ExpandWeight::Coded(*weight);
            expand_by(stream, form, inputs, &inputs[count + 2..], (weight, keys_most), outputs)
        })
    })
}

fn expand_by(
    stream: &Stream,
    form: CacheForm,
    inputs: &[Tensor],
    of: &[Tensor],
    (weight, keys_most): (ExpandWeight<'_>, usize),
    outputs: &mut [Tensor],
) -> Result<()> {
    let (pages, lens, starts) = (with_rows(&of[0])?, packed(&of[1])?, packed(&of[2])?);
    let pages = Pages::Table { pages: pages.view(), lens: lens.view() };
    let [keys, values] = outputs else { unreachable!("two outputs were described") };
    eager::fill(keys.view_mut(), Scalar::Int(0))?;
    let read = ExpandInputs { cache: form.cache(inputs)?, pages, starts: starts.view(), keys_most, weight };
    launch_expand(stream, &read, keys.view_mut(), values.view_mut(), None)
}
