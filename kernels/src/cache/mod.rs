//! Caches of keys and values on pages: their layouts, and what moves between them and rows.
//!
//! [`Cache`] says how keys and values lie on pages, and [`Pages`] which pages a sequence has; [`crate::attention::paged_attention`]
//! reads them. [`Cache::latent`] is a cache of one plane, for MLA. [`write()`] puts tokens into slots, with codes of 8 bits if asked for; [`gather`] brings sequences back in rows, which
//! any operator takes; [`copy_blocks`] moves whole pages, [`CacheList`] swaps them out and in. `cache.h` is the one place where
//! elements are
//! found on the device. Lengths, pages and slots are in device memory: launches depend on bounds alone, and a graph of them can be
//! replayed with others.

mod blocks;
mod form;
mod gather;
mod latent;
mod pages;
mod write;

use rocfire_hal::{DType, Source};

pub use blocks::{CacheList, copy_blocks};
pub use form::{Cache, CacheCodes, CacheLayout, CacheMut, scales_of_slots};
pub(crate) use form::{CacheKey, PlaneArgs, RowsArgs, ScaleArgs};
pub use gather::gather;
pub(crate) use gather::gather_parts;
pub use latent::LatentCodes;
pub(crate) use pages::PageArgs;
pub use pages::Pages;
pub use write::{ScaleRule, write};

use crate::quant::Format;

/// Formats of codes that a cache has.
pub(crate) const FORMATS: [Format; 5] = [Format::E4M3, Format::E4M3Fnuz, Format::I8, Format::E5M2, Format::E5M2Fnuz];

/// The family's rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let all = write::sources(dtype).chain(gather::sources(dtype)).chain(blocks::sources(dtype));
    all.filter(move |_| matches!(dtype, DType::F32 | DType::F16 | DType::BF16))
}

#[cfg(test)]
mod tests;
