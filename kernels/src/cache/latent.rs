//! A cache of one plane, whose rows are keys and begin with their values: what multi-head latent attention (MLA) keeps of a token, its
//! latent and behind it the rotated channels that all heads share.

use rocfire_hal::{Layout, View, ViewMut};

use super::form::{Cache, CacheCodes, CacheLayout, CacheMut};
use crate::Result;
use crate::family::{self, shape};
use crate::quant::Format;

const OP: &str = "cache";

/// Codes in place of floats, with scales that a row's parts share.
#[derive(Clone, Copy, Debug)]
pub struct LatentCodes<'a> {
    /// What a code means, of 8 bits.
    pub format: Format,
    /// Scales, f32, as [`CacheCodes::k_scales`]: one element, `[pages, 1]` or `[pages, 1, tokens]`.
    pub scales: View<'a>,
}

impl<'a> LatentCodes<'a> {
    fn of_both(self) -> CacheCodes<'a> {
        CacheCodes { format: self.format, k_scales: self.scales, v_scales: self.scales }
    }
}

impl<'a> Cache<'a> {
    /// One head of keys, of which the first `latent` channels are the values: for absorbed MLA 576 and 512.
    ///
    /// # Shapes
    /// `rows`: `[pages, tokens, channels]`, `[pages, tokens, 1, channels]`, or `[slots, channels]`, a pool of pages of one token.
    /// # Errors
    /// As [`Cache::new`]; `Shape` unless `latent` is below the channels.
    pub fn latent(rows: View<'a>, latent: usize, codes: Option<LatentCodes<'a>>) -> Result<Cache<'a>> {
        let [keys, values, _] = parts(&rows, latent)?;
        of_planes([keys, values], codes)
    }
}

impl<'a> Cache<'a> {
    /// A cache of latents whose keys are the latents, and whose values what is behind them: as [`CacheMut::latent`].
    pub(crate) fn parts(&self) -> Result<Cache<'a>> {
        debug_assert!(self.is_latent, "of other caches keys and values are apart");
        let [_, channels, latent] = self.heads();
        let others = self.k.with_layout(self.k.layout().slice(3, latent, channels, 1)?)?;
        let codes = self.codes.map(|codes| LatentCodes { format: codes.format, scales: codes.k_scales });
        of_planes([self.v, others], codes)
    }
}

impl<'a> CacheMut<'a> {
    /// The same rows to write: what [`write`](super::write()) calls keys are their latents, `[tokens, 1, latent]`, and what it calls values
    /// the channels behind, `[tokens, 1, channels - latent]`. Scales are given: a part alone cannot make its row's.
    ///
    /// # Errors
    /// As [`Cache::latent`]; `Shape` where two coordinates are one element.
    pub fn latent(rows: ViewMut<'a>, latent: usize, codes: Option<LatentCodes<'a>>) -> Result<CacheMut<'a>> {
        family::writable(OP, "rows", &rows)?;
        let [_, latents, others] = parts(&rows, latent)?;
        of_planes([latents, others], codes).map(CacheMut)
    }
}

/// Whole rows, their latents and what is behind these, as `[pages, tokens, 1, channels]`.
fn parts<'a>(rows: &View<'a>, latent: usize) -> Result<[View<'a>; 3]> {
    let strides = rows.layout().strides();
    let (extents, strides) = match *rows.shape() {
        [slots, channels] => ([slots, 1, 1, channels], [strides[0], strides[0], strides[0], strides[1]]),
        [pages, tokens, channels] => ([pages, tokens, 1, channels], [strides[0], strides[1], strides[1], strides[2]]),
        [pages, tokens, 1, channels] => {
            ([pages, tokens, 1, channels], [strides[0], strides[1], strides[1], strides[3]])
        }
        _ => {
            let expected = "[pages, tokens, channels], [pages, tokens, 1, channels] or [slots, channels]";
            return Err(shape(OP, "rows", expected, format!("{:?}", rows.shape())));
        }
    };
    let channels = extents[3];
    if latent == 0 || latent >= channels {
        return Err(shape(OP, "latent", format!("from 1 to below {channels}"), latent));
    }
    let all = Layout::strided(&extents, &strides, rows.layout().offset())?;
    let part = |from, to| -> Result<_> { Ok(rows.with_layout(all.slice(3, from, to, 1)?)?) };
    Ok([part(0, channels)?, part(0, latent)?, part(latent, channels)?])
}

/// A cache whose planes are parts of one.
fn of_planes<'a>([k, v]: [View<'a>; 2], codes: Option<LatentCodes<'a>>) -> Result<Cache<'a>> {
    let cache = Cache::new(k, v, CacheLayout::Nhd, codes.map(LatentCodes::of_both))?;
    Ok(Cache { is_latent: true, ..cache })
}
