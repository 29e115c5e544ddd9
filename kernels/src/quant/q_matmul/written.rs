//! Products of many rows by codes: the weights written out in the type of A, groups of them a part at a time.

use rocfire_arch::Matrix;
use rocfire_hal::{DType, Layout, Stream, Tensor, View, ViewMut};

use super::CodedMatrix;
use crate::Result;
use crate::epilogue::BoundEpilogue;
use crate::gemm::{GemmGroups, GemmParams, gemm, matrix_side, multiply_groups, outermost};
use crate::quant::dequantise;
use crate::quant::format::{Packed, Scales};
use crate::quant::gguf::GgufMatrices;
use crate::quant::gguf_dequantise::write_out;
use crate::quant::gguf_matrix::ROWS_MAX;

/// Rows from which on a weight is written out in the type of A: a tile of 64 rows decodes what the next one decodes too, which takes
/// several times what the product of 16 bits takes, and its bytes are few beside that. Up to how many bytes a matrix, and of how many
/// matrices at a time: fewer than a card of 8 GiB would miss, and few enough for the caches of large ones.
const ROWS: usize = 256;
const BYTES: usize = 512 << 20;
const BYTES_AT_ONCE: usize = 128 << 20;

/// Matrices that can be written out.
#[derive(Clone, Copy)]
pub(in crate::quant) enum Coded<'a> {
    Words(&'a CodedMatrix<'a>),
    Blocks(&'a GgufMatrices<'a>),
}

impl Coded<'_> {
    /// Whether decoding each number once, for all `m` rows of a product, is worth writing it and reading it again.
    pub(super) fn is_written_out(&self, stream: &Stream, dtype: DType, sides: [usize; 3]) -> bool {
        self.is_written_from(ROWS_MAX + 1, stream, dtype, sides)
    }

    /// The same; `blocks_from`: rows from which on it is for blocks of GGUF on NVIDIA's cards.
    fn is_written_from(&self, blocks_from: usize, stream: &Stream, dtype: DType, [m, n, k]: [usize; 3]) -> bool {
        let device = stream.device();
        let info = device.arch().info();
        let unit = device.config().matrix && matrix_side(info, dtype) != 0;
        let halves = matches!(dtype, DType::F16 | DType::BF16);
        let rows = match self {
            // Their tiles are bound by decoding there from the first row on.
            Coded::Blocks(_) if info.matrix == Matrix::MmaSync => blocks_from,
            _ => ROWS,
        };
        halves && unit && m >= rows && n * k <= BYTES / dtype.size_bytes()
    }

    /// Whether codes of a column are neighbours, which their numbers are then too.
    fn is_along_k(&self) -> bool {
        match self {
            Coded::Blocks(_) => true,
            Coded::Words(w) => {
                let k = w.words.shape().len() - 2;
                match w.layout.packed {
                    Some(Packed { axis, .. }) => axis == k,
                    None => w.words.layout().strides()[k] == 1,
                }
            }
        }
    }

    /// The sides of a matrix as its numbers are written.
    fn sides(&self, [k, n]: [usize; 2]) -> [usize; 2] {
        if self.is_along_k() { [n, k] } else { [k, n] }
    }

    /// Writes the numbers to `weights`, where `lies` has columns of neighbours if codes are, else rows; gives them as `[.., K, N]`.
    fn write<'t>(&self, stream: &Stream, weights: &'t mut Tensor, lies: Layout) -> Result<View<'t>> {
        let (rows, columns) = (lies.rank() - 2, lies.rank() - 1);
        let as_read = if self.is_along_k() { lies.swap(rows, columns)? } else { lies };
        match self {
            Coded::Blocks(w) => {
                let extents = [w.blocks.shape()[0], lies.shape()[columns], lies.shape()[rows]];
                write_out(stream, w, extents, weights.view().with_layout(lies)?)?;
            }
            Coded::Words(w) => {
                let to = weights.view_mut().with_layout(as_read)?;
                dequantise(stream, w.words, w.layout, w.scales, to)?;
            }
        }
        Ok(weights.view().with_layout(as_read)?)
    }

    /// The same of groups `first` to `end`.
    fn write_groups<'t>(&self, stream: &Stream, part: [usize; 2], weights: &'t mut Tensor) -> Result<View<'t>> {
        let lies = weights.layout().slice(0, 0, part[1] - part[0], 1)?;
        match self {
            Coded::Blocks(w) => {
                let w = GgufMatrices { blocks: outermost(w.blocks, part)?, ..**w };
                Coded::Blocks(&w).write(stream, weights, lies)
            }
            Coded::Words(w) => {
                let of_each = w.scales.is_some_and(|scales| !scales.block.is_empty() && scales.view.shape()[0] > 1);
                let scales = match w.scales {
                    Some(scales) if of_each => Some(Scales { view: outermost(scales.view, part)?, ..*scales }),
                    scales => scales.copied(),
                };
                let w = CodedMatrix { words: outermost(w.words, part)?, scales: scales.as_ref(), ..**w };
                Coded::Words(&w).write(stream, weights, lies)
            }
        }
    }

    /// Groups that are written out at once, of so many rows each in the mean; `None` where each tile decodes them.
    pub(super) fn at_once(&self, stream: &Stream, dtype: DType, mean: usize, [k, n]: [usize; 2]) -> Option<usize> {
        self.is_written_from(2 * ROWS_MAX + 1, stream, dtype, [mean, n, k])
            .then(|| (BYTES_AT_ONCE / (k * n * dtype.size_bytes())).max(1))
    }

    /// Multiplies rows, `[m, k]` to `[m, n]`, by the only matrix, of `[k, n]`.
    pub(super) fn multiply(&self, stream: &Stream, a: View<'_>, [k, n]: [usize; 2], c: ViewMut<'_>) -> Result<()> {
        let mut weights = Tensor::empty(a.device(), &self.sides([k, n]), a.dtype())?;
        let lies = *weights.layout();
        let b = self.write(stream, &mut weights, lies)?;
        gemm(stream, a, b, c, &GemmParams::default())
    }

    /// Multiplies groups of `mean` rows by weights of `extents`, `at_once` groups after the other: C's rows are each part's own.
    pub(in crate::quant) fn multiply_groups(
        &self,
        stream: &Stream,
        a: View<'_>,
        groups: &GemmGroups<'_>,
        (c, epilogue): (View<'_>, Option<BoundEpilogue<'_>>),
        ([count, k, n], mean): ([usize; 3], usize),
        at_once: usize,
    ) -> Result<()> {
        let [rows, columns] = self.sides([k, n]);
        let mut weights = Tensor::empty(a.device(), &[at_once.min(count), rows, columns], a.dtype())?;
        for first in (0..count).step_by(at_once) {
            let end = count.min(first + at_once);
            let b = self.write_groups(stream, [first, end], &mut weights)?;
            let (part, [a, c]) = groups.part([a, c], [first, end])?;
            multiply_groups(stream, a, b, &part, (c, epilogue), mean, &GemmParams::default())?;
        }
        Ok(())
    }
}
