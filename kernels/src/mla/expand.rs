//! `expand`: rows of a cache of latents gathered, and made keys and values of all heads by two products.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Error, Layout, Stream, Tensor, View, ViewMut};

use super::{by_head, check_rows, own_product};
use crate::Result;
use crate::cache::{Cache, Pages, gather_parts};
use crate::family::{self, shape};
use crate::gemm::gemm;

const OP: &str = "expand";

/// What [`expand`] reads.
#[derive(Clone, Copy, Debug)]
pub struct ExpandInputs<'a> {
    /// Of [`Cache::latent`].
    pub cache: Cache<'a>,
    /// The pages of each sequence.
    pub pages: Pages<'a>,
    /// The first row of each sequence, and the end: I32, `[sequences + 1]`, contiguous.
    pub starts: View<'a>,
    /// At least the keys of the longest sequence; those beyond are not looked at.
    pub keys_most: usize,
    /// What makes a head's keys and then its values of latents, `[heads, key channels + value channels, latent]`, any strides: a
    /// model's own matrix.
    pub weight: View<'a>,
}

/// Elements of a workspace for [`expand`], of the type of its results: the latents in rows.
pub fn expand_workspace(rows: usize, latent: usize) -> usize {
    rows * latent
}

/// Keys and values of all heads from a cache of latents: of a row `[latent | turned]` a head's key is `[weight's keys · latent | turned]`
/// and its value `weight's values · latent`. Four launches: rows cleared, latents gathered into them and turned channels to the keys of
/// all heads, then a product each for keys and values, written where they are read. The latents in rows are less than 2% of what is
/// written for 128 heads of 128.
///
/// # Shapes
/// Inputs as [`ExpandInputs`] says; `keys`: `[rows, heads, key channels + turned]`, `values`: `[rows, heads, value channels]`, last axes
/// contiguous. In rows of no sequence turned channels are left as they are, and the others are zeros. `workspace`: contiguous, at
/// least [`expand_workspace`] elements; `None`: it is allocated.
/// # Types
/// f32, f16 or bf16, all alike; the cache's own where it has no codes.
/// # Numerics
/// Latents are gathered as [`gather`](crate::cache::gather) does, codes rounded to the type of the results; products are [`gemm`]'s own,
/// never a vendor's: a row's bits do not depend on the others.
/// # Errors
/// `Shape` for shapes, strides and types that do not fit, for outputs that overlap an input; `Unsupported` for other types; errors of
/// compilation and launch.
pub fn expand(
    stream: &Stream,
    inputs: &ExpandInputs<'_>,
    mut keys: ViewMut<'_>,
    mut values: ViewMut<'_>,
    workspace: Option<ViewMut<'_>>,
) -> Result<()> {
    let ExpandInputs { cache, pages, starts, keys_most, weight } = inputs;
    let [rows, heads, key_channels] = check(stream, inputs, &keys, &values)?;
    let parts = cache.parts()?;
    let [_, latent, turned] = parts.heads();
    if rows == 0 || heads == 0 {
        return Ok(());
    }
    let mut allocated;
    let mut latents = match workspace {
        Some(given) => {
            family::on_device(OP, "workspace", stream, &given)?;
            family::same_dtype(OP, "workspace", &given, keys.dtype())?;
            let needed = expand_workspace(rows, latent);
            if given.len() < needed || !given.layout().is_contiguous() {
                let got = format!("{:?}, strides {:?}", given.shape(), given.layout().strides());
                return Err(shape(OP, "workspace", format!("{needed} elements, contiguous"), got));
            }
            for other in [&keys.view(), &values.view(), weight] {
                family::disjoint(OP, "workspace", &given, other)?;
            }
            cache.disjoint(OP, &given)?;
            given
        }
        None => {
            allocated = Tensor::empty(&stream.device(), &[rows, latent], keys.dtype())?;
            allocated.view_mut()
        }
    };
    let row = latent as i64;
    let by_rows = Layout::strided(&[rows, 1, latent], &[row, row, 1], latents.layout().offset())?;
    // Rows of no sequence have numbers, too.
    eager::fill(latents.reborrow().with_layout(by_rows)?, Scalar::Int(0))?;
    let behind = keys.layout().slice(2, key_channels, key_channels + turned, 1)?;
    let to = [latents.reborrow().with_layout(by_rows)?, keys.reborrow().with_layout(behind)?];
    gather_parts(stream, &parts, pages, *starts, *keys_most, to)?;
    let latents = latents.view().with_layout(Layout::strided(&[rows, latent], &[row, 1], by_rows.offset())?)?;
    let channels = weight.shape()[1];
    let outputs = [(keys.reborrow(), 0, key_channels), (values.reborrow(), key_channels, channels)];
    for (to, first, end) in outputs {
        // `[heads, latent, channels]`.
        let own = weight.layout().slice(1, first, end, 1)?;
        let strides = own.strides();
        let own = Layout::strided(&[heads, latent, end - first], &[strides[0], strides[2], strides[1]], own.offset())?;
        let layout = by_head(to.layout(), 0, end - first)?;
        gemm(stream, latents, weight.with_layout(own)?, to.with_layout(layout)?, &own_product())?;
    }
    Ok(())
}

/// Rows, heads, and channels of a key that do not turn.
fn check(stream: &Stream, inputs: &ExpandInputs<'_>, keys: &View<'_>, values: &View<'_>) -> Result<[usize; 3]> {
    let ExpandInputs { cache, weight, .. } = inputs;
    let dtype = weight.dtype();
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype, arch: weight.arch() }.into());
    }
    if !cache.is_latent {
        return Err(shape(OP, "cache", "a cache of latents", "one of keys and values"));
    }
    if cache.codes.is_none() && cache.k.dtype() != dtype {
        return Err(shape(OP, "cache", dtype, cache.k.dtype()));
    }
    let [_, channels, latent] = cache.heads();
    let turned = channels - latent;
    let ([rows, heads, of_key], &[_, _, of_value]) = (keys.shape(), values.shape()) else {
        let got = format!("{:?} and {:?}", keys.shape(), values.shape());
        return Err(shape(OP, "keys, values", "[rows, heads, channels]", got));
    };
    let (rows, heads) = (*rows, *heads);
    let Some(key_channels) = of_key.checked_sub(turned).filter(|&channels| channels > 0) else {
        return Err(shape(OP, "keys", format!("more channels than the {turned} that are turned"), of_key));
    };
    let rows_of: [(&'static str, &View<'_>, &[usize]); 3] = [
        ("keys", keys, &[rows, heads, *of_key]),
        ("values", values, &[rows, heads, of_value]),
        ("weight", weight, &[heads, key_channels + of_value, latent]),
    ];
    check_rows(OP, stream, dtype, &rows_of)?;
    for (arg, output) in [("keys", keys), ("values", values)] {
        family::writable(OP, arg, output)?;
        family::disjoint(OP, "weight", output, weight)?;
        cache.disjoint(OP, output)?;
    }
    family::disjoint(OP, "values", keys, values)?;
    Ok([rows, heads, key_channels])
}
