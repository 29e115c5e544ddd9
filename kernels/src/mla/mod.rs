//! What stands around the cache of multi-head latent attention (MLA): a token keeps one row, its latent and the rotated channels that all
//! heads share ([`Cache::latent`](crate::cache::Cache::latent)).
//!
//! [`absorb`] makes queries that read such rows as keys ([`paged_attention`](crate::attention::paged_attention)), and writes the rows: what
//! decoding runs before attention. [`expand`] makes keys and values of all heads from rows that are in the cache: what a prompt's own
//! tokens attend to beside themselves, where heads of their own are fewer operations. Products are [`gemm`](crate::gemm)'s, written
//! to where they are read; neither keeps gradients.

mod absorb;
mod expand;

use rocfire_hal::{DType, Layout, Source, Stream, View};

use crate::Result;
use crate::family::{self, shape};
use crate::gemm::GemmParams;

pub use absorb::{AbsorbInputs, absorb};
pub use expand::{ExpandInputs, ExpandWeight, expand, expand_workspace};

/// By our own kernels: a vendor's library chooses its sums by the number of tokens, and a token's bits must not depend on the others.
fn own_product() -> GemmParams {
    GemmParams { slice_k: Some(false), ..GemmParams::default() }
}

/// Channels `from` to `to` of `[tokens, heads, channels]`, as a batch of heads: `[heads, tokens, channels]`.
fn by_head(layout: &Layout, from: usize, to: usize) -> Result<Layout> {
    let part = layout.slice(2, from, to, 1)?;
    let ([tokens, heads, channels], strides) = ([0, 1, 2].map(|axis| part.shape()[axis]), part.strides());
    Ok(Layout::strided(&[heads, tokens, channels], &[strides[1], strides[0], strides[2]], part.offset())?)
}

/// What every view must have: the device, the type, its shape and, but for `weight`, a last axis of stride 1.
fn check_rows(
    op: &'static str,
    stream: &Stream,
    dtype: DType,
    rows: &[(&'static str, &View<'_>, &[usize])],
) -> Result<()> {
    for &(arg, view, expected) in rows {
        family::on_device(op, arg, stream, view)?;
        family::same_dtype(op, arg, view, dtype)?;
        if view.shape() != expected {
            return Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
        }
        let last = view.layout().strides().last().copied().unwrap_or(1);
        if arg != "weight" && last != 1 {
            return Err(shape(op, arg, "a last axis of stride 1", last));
        }
    }
    Ok(())
}

/// Rows as `[tokens, 1, channels]`.
fn of_one_head<'a>(rows: &View<'a>) -> Result<View<'a>> {
    let (shape, strides) = (rows.shape(), rows.layout().strides());
    Ok(rows.with_layout(Layout::strided(
        &[shape[0], 1, shape[1]],
        &[strides[0], strides[0], strides[1]],
        rows.layout().offset(),
    )?)?)
}

/// The family's rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    absorb::sources(dtype).filter(move |_| matches!(dtype, DType::F32 | DType::F16 | DType::BF16))
}

#[cfg(test)]
mod tests;
