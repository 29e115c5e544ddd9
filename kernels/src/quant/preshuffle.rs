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

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Source, Stream, Tensor, View};

use super::format::{Format, ScaleKind};
use super::scaled::{CodedRows, check_codes, lays_out};
use crate::Result;
use crate::family::{self, BLOCK, GRID_YZ_MAX, KernelLaunch, Sources, shape};

const OP: &str = "preshuffle";
/// Rows of a tile.
const ROWS: usize = 16;
/// Bytes of a chunk.
const CHUNK: usize = 16;
/// A row is filled up to a multiple: what a round of the kernel takes.
const ROW_BYTES: usize = 128;
/// Chunks of a workgroup of the kernel.
const CHUNKS: usize = 16;

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
        let to = Tensor::empty(&device, &[tiles, chunks, ROWS, CHUNK], DType::U8)?;
        lay(stream, false, &codes.view(), &to.view(), to.buffer())?;
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
        let rows = Tensor::empty(&stream.device(), &[self.shape[0], row_bytes], DType::U8)?;
        lay(stream, true, &rows.view(), &self.codes.view(), rows.buffer())?;
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

/// Moves codes between rows and tiles.
fn lay(stream: &Stream, back: bool, in_rows: &View<'_>, tiles: &View<'_>, written: &Buffer) -> Result<()> {
    let (&[rows, row_bytes], &[tile_rows, chunks, ..]) = (in_rows.shape(), tiles.shape()) else {
        unreachable!("rows have two axes, tiles four")
    };
    let groups = chunks.div_ceil(CHUNKS);
    if groups > GRID_YZ_MAX {
        let expected = format!("rows of at most {} bytes", GRID_YZ_MAX * CHUNKS * CHUNK);
        return Err(shape(OP, "codes", expected, row_bytes));
    }
    let (address, step) = (in_rows.device_address(), in_rows.layout().strides()[0]);
    let args = PreshuffleArgs {
        in_rows: address,
        tiles: tiles.device_address(),
        step,
        rows: rows as u32,
        row_bytes: row_bytes as u32,
        chunks: chunks as u32,
        whole: u32::from(address.is_multiple_of(CHUNK as u64) && step % CHUNK as i64 == 0),
    };
    static SOURCES: Sources<bool> = Sources::new();
    let source = SOURCES.get(back, source);
    let (grid, block) = ([tile_rows, groups, 1], [BLOCK, 1, 1]);
    // SAFETY:
    // - `PreshuffleArgs` is the twin of the kernel's struct, sizes asserted on both sides. It touches bytes below `row_bytes` of rows
    //   below `rows`, of a checked view, and every byte of the tiles, which are contiguous.
    // - It writes the tiles, or the rows where it goes back: `written` has the one or the other.
    unsafe { KernelLaunch::new(stream, &source, (OP, OP), grid, block).run(&args, &[written]) }
}

/// The source of one direction.
pub(crate) fn source(back: bool) -> Source {
    Source::new(OP, include_str!("preshuffle.hip"), &[("PRESHUFFLE_BACK", if back { "1" } else { "0" })])
}

/// `PreshuffleArgs` of `preshuffle.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PreshuffleArgs {
    in_rows: u64,
    tiles: u64,
    step: i64,
    rows: u32,
    row_bytes: u32,
    chunks: u32,
    whole: u32,
}
const _: () = assert!(size_of::<PreshuffleArgs>() == 40);
