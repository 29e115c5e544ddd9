//! `expand`: rows of a cache of latents gathered, and made keys and values of all heads by two products with a matrix of floats or of
//! codes.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Error, Layout, Stream, Tensor, View, ViewMut};

use super::{by_head, check_rows, own_product};
use crate::Result;
use crate::cache::{Cache, Pages, gather_parts};
use crate::family::{self, shape};
use crate::gemm::gemm;
use crate::quant::{CodedMatrix, dequantise};

const OP: &str = "expand";

/// What makes a head's keys and then its values of latents: a model's own matrix.
#[derive(Clone, Copy, Debug)]
pub enum ExpandWeight<'a> {
    /// `[heads, key channels + value channels, latent]`, any strides, of the type of the results.
    Floats(View<'a>),
    /// Codes of `[heads · (key channels + value channels), latent]`, any strides: of checkpoints as they lie. Blocks that share a scale
    /// know nothing of heads.
    Coded(CodedMatrix<'a>),
}

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
    /// What latents are multiplied by.
    pub weight: ExpandWeight<'a>,
}

/// Elements of a workspace for [`expand`], of the type of its results: the numbers of codes, and the latents in rows. `channels`: those of
/// a head's keys that do not turn, and of its values.
pub fn expand_workspace(rows: usize, latent: usize, weight: &ExpandWeight<'_>, [heads, channels]: [usize; 2]) -> usize {
    let decoded = if matches!(weight, ExpandWeight::Coded(_)) { heads * channels * latent } else { 0 };
    decoded + rows * latent
}

/// Keys and values of all heads from a cache of latents: of a row `[latent | turned]` a head's key is `[weight's keys · latent | turned]`
/// and its value `weight's values · latent`. Four launches: rows cleared, latents gathered into them and turned channels to the keys of
/// all heads, then a product each for keys and values, written where they are read. The latents in rows are less than 2% of what is
/// written for 128 heads of 128. Codes take one more, which writes their numbers out once for all rows: as much as keys and values of 512
/// rows take for latents of 512, however many heads there are, and products of codes would write theirs twice, for no stride lies between
/// the columns of heads.
///
/// # Shapes
/// Inputs as [`ExpandInputs`] says; `keys`: `[rows, heads, key channels + turned]`, `values`: `[rows, heads, value channels]`, last axes
/// contiguous. In rows of no sequence turned channels are left as they are, and the others are zeros. `workspace`: contiguous, at
/// least [`expand_workspace`] elements; `None`: it is allocated.
/// # Types
/// f32, f16 or bf16, all alike; the cache's own where it has no codes. The weight's codes are of every format, with every kind of scales.
/// # Numerics
/// Latents are gathered as [`gather`](crate::cache::gather) does, codes rounded to the type of the results, as those of the weight
/// are, each times its scale; products are [`gemm`]'s own,
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
    let Sizes { rows, heads, key_channels, channels } = check(stream, inputs, &keys, &values)?;
    let parts = cache.parts()?;
    let [_, latent, turned] = parts.heads();
    if rows == 0 || heads == 0 {
        return Ok(());
    }
    let mut allocated;
    let decoded = expand_workspace(0, latent, weight, [heads, channels]);
    let needed = expand_workspace(rows, latent, weight, [heads, channels]);
    let mut workspace = match workspace {
        Some(given) => {
            family::on_device(OP, "workspace", stream, &given)?;
            family::same_dtype(OP, "workspace", &given, keys.dtype())?;
            if given.len() < needed || !given.layout().is_contiguous() {
                let got = format!("{:?}, strides {:?}", given.shape(), given.layout().strides());
                return Err(shape(OP, "workspace", format!("{needed} elements, contiguous"), got));
            }
            for other in [Some(keys.view()), Some(values.view())].into_iter().chain(weight.views()).flatten() {
                family::disjoint(OP, "workspace", &given, &other)?;
            }
            cache.disjoint(OP, &given)?;
            given
        }
        None => {
            allocated = Tensor::empty(&stream.device(), &[needed], keys.dtype())?;
            allocated.view_mut()
        }
    };
    let (row, first) = (latent as i64, workspace.layout().offset());
    let numbers = Layout::strided(&[heads, channels, latent], &[channels as i64 * row, row, 1], first)?;
    if let ExpandWeight::Coded(CodedMatrix { words, layout, scales }) = weight {
        let matrix = Layout::strided(&[heads * channels, latent], &[row, 1], first)?;
        dequantise(stream, *words, layout, *scales, workspace.reborrow().with_layout(matrix)?)?;
    }
    let by_rows = Layout::strided(&[rows, 1, latent], &[row, row, 1], first + decoded as i64)?;
    // Rows of no sequence have numbers, too.
    eager::fill(workspace.reborrow().with_layout(by_rows)?, Scalar::Int(0))?;
    let behind = keys.layout().slice(2, key_channels, key_channels + turned, 1)?;
    let to = [workspace.reborrow().with_layout(by_rows)?, keys.reborrow().with_layout(behind)?];
    gather_parts(stream, &parts, pages, *starts, *keys_most, to)?;
    let latents = workspace.view().with_layout(Layout::strided(&[rows, latent], &[row, 1], by_rows.offset())?)?;
    let weight = match weight {
        ExpandWeight::Floats(weight) => *weight,
        ExpandWeight::Coded(_) => workspace.view().with_layout(numbers)?,
    };
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

impl<'a> ExpandWeight<'a> {
    /// What is read of it.
    fn views(&self) -> [Option<View<'a>>; 3] {
        match self {
            ExpandWeight::Floats(weight) => [Some(*weight), None, None],
            ExpandWeight::Coded(CodedMatrix { words, scales, .. }) => {
                [Some(*words), scales.map(|scales| scales.view), scales.and_then(|scales| scales.global)]
            }
        }
    }
}

/// Of a checked call.
struct Sizes {
    rows: usize,
    heads: usize,
    /// Of a key, those that do not turn.
    key_channels: usize,
    /// And those of a value.
    channels: usize,
}

fn check(stream: &Stream, inputs: &ExpandInputs<'_>, keys: &View<'_>, values: &View<'_>) -> Result<Sizes> {
    let ExpandInputs { cache, weight, .. } = inputs;
    let dtype = keys.dtype();
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype, arch: keys.arch() }.into());
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
    let channels = key_channels + of_value;
    let results: [(&'static str, &View<'_>, &[usize]); 2] =
        [("keys", keys, &[rows, heads, *of_key]), ("values", values, &[rows, heads, of_value])];
    check_rows(OP, stream, dtype, &results)?;
    match weight {
        ExpandWeight::Floats(weight) => {
            check_rows(OP, stream, dtype, &[("weight", weight, &[heads, channels, latent])])?;
        }
        ExpandWeight::Coded(CodedMatrix { words, layout, scales }) => {
            let of = [heads * channels, latent];
            layout.check(OP, words, &of)?;
            scales.iter().try_for_each(|scales| scales.check(OP, &of))?;
            let views = weight.views().into_iter().flatten();
            views
                .zip(["words", "scales", "global"])
                .try_for_each(|(view, arg)| family::on_device(OP, arg, stream, &view))?;
        }
    }
    for (arg, output) in [("keys", keys), ("values", values)] {
        family::writable(OP, arg, output)?;
        weight.views().iter().flatten().try_for_each(|read| family::disjoint(OP, "weight", output, read))?;
        cache.disjoint(OP, output)?;
    }
    family::disjoint(OP, "values", keys, values)?;
    Ok(Sizes { rows, heads, key_channels, channels })
}
