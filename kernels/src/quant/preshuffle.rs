//! `Preshuffled`: the codes of a weight laid out once for the product kernel.
//!
//! In rows, the sixteen rows whose codes meet in one product of a matrix unit are far apart, and a wave that fetches its operands from
//! memory touches a line for each. Laid out, byte `b` of row `r` is at
//!
//! ```text
//! ((r / 16 · chunks + b / 16) · 16 + r % 16) · 16 + b % 16        chunks: 16 bytes of a row, a multiple of 8
//! ```
//!
//! so that the 16 rows of a chunk follow each other, and those of the next chunk them: what a wave of 64 lanes takes for a product is 1024
//! bytes on end, lane by lane. Rows are filled up to sixteen and bytes to 128 with codes of zero, which add nothing.
//!
//! It is a type of its own and no attribute of a tensor: a product that expects rows cannot be given tiles by mistake, nor the other way
//! round. `ROCFIRE_PRESHUFFLE=0` leaves every weight in rows, and so does an architecture whose kernel gains nothing; products give the
//! same bits.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Layout, Stream, Tensor, View};

use super::format::{Format, ScaleKind};
use super::scaled::{CodedRows, check_codes, lays_out};
use crate::Result;
use crate::family;

const OP: &str = "preshuffle";
/// Rows of a tile.
const ROWS: usize = 16;
/// Bytes of a chunk.
const CHUNK: usize = 16;
/// A row is filled up to a multiple: what a round of the kernel takes.
const ROW_BYTES: usize = 128;

/// Codes of a weight `[rows, K]`, laid out for [`super::q_matmul_preshuffled`]. Clones are handles to the same memory.
#[derive(Clone, Debug)]
pub struct Preshuffled {
    format: Format,
    shape: [usize; 2],
    codes: Tensor,
    laid_out: bool,
}

/// A weight laid out and its scales: [`CodedRows`] but for where its codes are.
#[derive(Clone, Copy, Debug)]
pub struct PreshuffledRows<'a> {
    /// The codes.
    pub weight: &'a Preshuffled,
    /// `[ceil(rows / block[0]), ceil(K / block[1])]`, any strides.
    pub scales: View<'a>,
    /// The type of the scales.
    pub kind: ScaleKind,
    /// Rows and columns that share a scale, as in [`CodedRows`].
    pub block: [usize; 2],
}

impl Preshuffled {
    /// Lays out codes, in memory of their own; with `ROCFIRE_PRESHUFFLE=0`, or where it would gain nothing, it keeps the tensor as it is.
    ///
    /// # Shapes
    /// `codes`: u8, rows with K contiguous: `[rows, K]`, or `[rows, K / 2]` for formats of 4 bits.
    /// # Errors
    /// `Shape` for another type, layout or format (I2); out of memory; errors of compilation and launch.
    pub fn new(stream: &Stream, format: Format, codes: &Tensor) -> Result<Preshuffled> {
        family::on_device(OP, "codes", stream, &codes.view())?;
        let shape = check_codes(OP, "codes", format, &codes.view())?;
        let plain = Preshuffled { format, shape, codes: codes.clone(), laid_out: false };
        let device = stream.device();
        if !device.config().preshuffle || !lays_out(device.arch().info()) || shape.contains(&0) {
            return Ok(plain);
        }
        let row_bytes = codes.shape()[1];
        let [tiles, chunks] = [shape[0].div_ceil(ROWS), row_bytes.div_ceil(ROW_BYTES) * (ROW_BYTES / CHUNK)];
        let mut to = Tensor::empty(&device, &[tiles, chunks, ROWS, CHUNK], DType::U8)?;
        if !shape[0].is_multiple_of(ROWS) || !row_bytes.is_multiple_of(ROW_BYTES) {
            eager::fill(to.view_mut(), Scalar::from(0i64))?;
        }
        for part in parts(shape[0], row_bytes, chunks, codes.layout()) {
            let [from, laid] = part?;
            family::copy_into(stream, codes.view().with_layout(from)?, to.view_mut().with_layout(laid)?)?;
        }
        Ok(Preshuffled { codes: to, laid_out: true, ..plain })
    }

    /// The codes in rows, in memory of their own where they are laid out: for checkpoints.
    ///
    /// # Errors
    /// Out of memory; errors of compilation and launch.
    pub fn to_rows(&self, stream: &Stream) -> Result<Tensor> {
        if !self.laid_out {
            return Ok(self.codes.clone());
        }
        let row_bytes = self.shape[1] * self.format.bits() / 8;
        let mut rows = Tensor::empty(&stream.device(), &[self.shape[0], row_bytes], DType::U8)?;
        let layout = *rows.layout();
        for part in parts(self.shape[0], row_bytes, self.codes.shape()[1], &layout) {
            let [to, laid] = part?;
            family::copy_into(stream, self.codes.view().with_layout(laid)?, rows.view_mut().with_layout(to)?)?;
        }
        Ok(rows)
    }

    /// What a code is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Rows and K.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Whether the codes lie in tiles; in rows they do where `ROCFIRE_PRESHUFFLE=0` was set, where the
    /// architecture gains nothing, and where there are none.
    pub fn is_laid_out(&self) -> bool {
        self.laid_out
    }

    /// The memory: `[tiles, chunks, 16, 16]` where the codes lie in tiles, else `[rows, bytes]`.
    pub fn memory(&self) -> &Tensor {
        &self.codes
    }

    /// In tiles.
    pub(super) fn laid_out(&self) -> Option<View<'_>> {
        self.laid_out.then(|| self.codes.view())
    }
}

impl<'a> PreshuffledRows<'a> {
    /// Where the codes are in rows.
    pub(super) fn plain(&self) -> CodedRows<'a> {
        let PreshuffledRows { weight, scales, kind, block } = *self;
        CodedRows { format: weight.format, codes: weight.codes.view(), scales, kind, block }
    }
}

/// Each part of a matrix of bytes whose extents are the same everywhere, as `[tiles, 16, chunks, 16]`: where it is in rows and in tiles.
fn parts(
    rows: usize,
    row_bytes: usize,
    chunks: usize,
    in_rows: &Layout,
) -> impl Iterator<Item = Result<[Layout; 2]>> + use<> {
    // First, how many units and how much of each, of whole units and of the rest.
    let pieces = |extent: usize, unit: usize| {
        let whole = extent / unit * unit;
        [[0, extent / unit, unit], [whole, 1, extent - whole]].into_iter().filter(|[_, units, of]| units * of > 0)
    };
    let (row, start) = (in_rows.strides()[0], in_rows.offset());
    let of_tile = (chunks * ROWS * CHUNK) as i64;
    let both = pieces(rows, ROWS).flat_map(move |down| pieces(row_bytes, CHUNK).map(move |along| (down, along)));
    both.map(move |([first_row, tiles, each], [first_byte, pieces, bytes])| {
        let extents = [tiles, each, pieces, bytes];
        let offset = start + first_row as i64 * row + first_byte as i64;
        let from = Layout::strided(&extents, &[ROWS as i64 * row, row, CHUNK as i64, 1], offset)?;
        let offset = (first_row / ROWS) as i64 * of_tile + (first_byte * ROWS) as i64;
        let strides = [of_tile, CHUNK as i64, (ROWS * CHUNK) as i64, 1];
        Ok([from, Layout::strided(&extents, &strides, offset)?])
    })
}
