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
        let [keys, values, _] = parts(rows.shape(), rows.layout(), latent)?;
        let codes = codes.map(LatentCodes::of_both);
        let cache = Cache::new(rows.with_layout(keys)?, rows.with_layout(values)?, CacheLayout::Nhd, codes)?;
        Ok(Cache { is_latent: true, ..cache })
    }
}

impl<'a> CacheMut<'a> {
    /// The same rows to write: what [`write`](super::write()) calls keys are their latents, `[tokens, 1, latent]`, and what it calls values
    /// the channels behind, `[tokens, 1, channels - latent]`. Scales are given.
    ///
    /// # Errors
    /// As [`Cache::latent`]; `Shape` where two coordinates are one element.
    pub fn latent(rows: ViewMut<'a>, latent: usize, codes: Option<LatentCodes<'a>>) -> Result<CacheMut<'a>> {
        family::writable(OP, "rows", &rows)?;
        let rows = rows.view();
        let [_, latents, others] = parts(rows.shape(), rows.layout(), latent)?;
        let codes = codes.map(LatentCodes::of_both);
        Ok(CacheMut(Cache::new(rows.with_layout(latents)?, rows.with_layout(others)?, CacheLayout::Nhd, codes)?))
    }
}

/// Whole rows, their latents and what is behind these, as `[pages, tokens, 1, channels]`.
fn parts(extents: &[usize], layout: &Layout, latent: usize) -> Result<[Layout; 3]> {
    let strides = layout.strides();
    let (shape_of, strides) = match *extents {
        [slots, channels] => ([slots, 1, 1, channels], [strides[0], strides[0], strides[0], strides[1]]),
        [pages, tokens, channels] => ([pages, tokens, 1, channels], [strides[0], strides[1], strides[1], strides[2]]),
        [pages, tokens, 1, channels] => {
            ([pages, tokens, 1, channels], [strides[0], strides[1], strides[1], strides[3]])
        }
        _ => {
            let expected = "[pages, tokens, channels], [pages, tokens, 1, channels] or [slots, channels]";
            return Err(shape(OP, "rows", expected, format!("{extents:?}")));
        }
    };
    let channels = shape_of[3];
    if latent == 0 || latent >= channels {
        return Err(shape(OP, "latent", format!("from 1 to below {channels}"), latent));
    }
    let all = Layout::strided(&shape_of, &strides, layout.offset())?;
    let [first, rest] = [(0, latent), (latent, channels)].map(|(from, to)| all.slice(3, from, to, 1));
    Ok([all, first?, rest?])
}
