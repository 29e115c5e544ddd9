//! Products of many rows by codes: the weights written out in the type of A, groups of them a part at a time.

use rocfire_hal::{Stream, Tensor, View};

use super::{CodedMatrix, WRITTEN_BYTES, is_written_out};
use crate::Result;
use crate::epilogue::BoundEpilogue;
use crate::gemm::{GemmGroups, GemmParams, multiply_groups, outermost};
use crate::quant::dequantise;
use crate::quant::format::Scales;

/// Groups whose weights are written out at once, of so many rows each in the mean; `None` where they are decoded by each tile.
pub(super) fn groups_at_once(stream: &Stream, a: &View<'_>, mean: usize, [k, n]: [usize; 2]) -> Option<usize> {
    let dtype = a.dtype();
    is_written_out(stream, dtype, [mean, n, k]).then(|| WRITTEN_BYTES / (k * n * dtype.size_bytes()))
}

/// Multiplies groups of `mean` rows by weights of `extents`, `at_once` groups after the other: C's rows are each part's own.
pub(in crate::quant) fn multiply_written(
    stream: &Stream,
    a: View<'_>,
    w: &CodedMatrix<'_>,
    groups: &GemmGroups<'_>,
    (c, epilogue): (View<'_>, Option<BoundEpilogue<'_>>),
    ([count, k, n], mean): ([usize; 3], usize),
    at_once: usize,
) -> Result<()> {
    let of_each = w.scales.is_some_and(|scales| !scales.block.is_empty() && scales.view.shape()[0] > 1);
    let mut weights = Tensor::empty(a.device(), &[at_once.min(count), k, n], a.dtype())?;
    for first in (0..count).step_by(at_once) {
        let end = count.min(first + at_once);
        let scales = match w.scales {
            Some(scales) if of_each => Some(Scales { view: outermost(scales.view, [first, end])?, ..*scales }),
            scales => scales.copied(),
        };
        let lies = weights.layout().slice(0, 0, end - first, 1)?;
        dequantise(
            stream,
            outermost(w.words, [first, end])?,
            w.layout,
            scales.as_ref(),
            weights.view_mut().with_layout(lies)?,
        )?;
        let (part, [a, c]) = groups.part([a, c], [first, end])?;
        let b = weights.view().with_layout(lies)?;
        multiply_groups(stream, a, b, &part, (c, epilogue), mean, &GemmParams::default())?;
    }
    Ok(())
}
