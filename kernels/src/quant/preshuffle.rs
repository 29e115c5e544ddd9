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
use rocfire_hal::{DType, Source, Stream, Tensor, View};

use super::format::{Format, ScaleKind};
use super::scaled::{CodedRows, CodedStack, check_codes, lays_out};
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
pub struct Preshuffled(Codes);

/// Codes of several matrices `[matrices, rows, K]`, each laid out as [`Preshuffled`], one after the other, for
/// [`super::q_matmul_preshuffled_grouped`]. Clones are handles to the same memory.
#[derive(Clone, Debug)]
pub struct PreshuffledStack(Codes);

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

/// Matrices laid out and their scales: [`CodedStack`] but for where its codes are.
#[derive(Clone, Copy, Debug)]
pub struct PreshuffledMatrices<'a> {
    /// The codes.
    pub weight: &'a PreshuffledStack,
    /// `[matrices, ceil(rows / block[0]), ceil(K / block[1])]`, any strides.
    pub scales: View<'a>,
    /// The type of the scales.
    pub kind: ScaleKind,
    /// Rows and columns of a matrix that share a scale, as in [`CodedRows`].
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
        let [rows, k] = check_codes(OP, "codes", format, &codes.view())?;
        Ok(Preshuffled(Codes::new(stream, format, codes, [1, rows, k])?))
    }

    /// The codes in rows, in memory of their own where they are laid out: for checkpoints.
    ///
    /// # Errors
    /// Out of memory; errors of compilation and launch.
    pub fn to_rows(&self, stream: &Stream) -> Result<Tensor> {
        self.0.to_rows(stream)
    }

    /// What a code is.
    pub fn format(&self) -> Format {
        self.0.format
    }

    /// Rows and K.
    pub fn shape(&self) -> [usize; 2] {
        let [_, rows, k] = self.0.shape;
        [rows, k]
    }

    /// Whether the codes lie in tiles; in rows they do where `ROCFIRE_PRESHUFFLE=0` was set, where the
    /// architecture gains nothing, and where there are none.
    pub fn is_laid_out(&self) -> bool {
        self.0.laid_out
    }

    /// The memory: `[tiles, chunks, 16, 16]` where the codes lie in tiles, else `[rows, bytes]`.
    pub fn memory(&self) -> &Tensor {
        &self.0.memory
    }

    /// In tiles.
    pub(super) fn laid_out(&self) -> Option<View<'_>> {
        self.is_laid_out().then(|| self.memory().view())
    }
}

impl PreshuffledStack {
    /// Lays out the codes of every matrix, in memory of their own; with `ROCFIRE_PRESHUFFLE=0`, or where it would gain nothing, it keeps
    /// the tensor as it is.
    ///
    /// # Shapes
    /// `codes`: u8, rows with K contiguous: `[matrices, rows, K]`, or `[matrices, rows, K / 2]` for formats of 4 bits.
    /// # Errors
    /// `Shape` for another type, layout or format (I2), and for more than 65535 matrices; out of memory; errors of compilation and launch.
    pub fn new(stream: &Stream, format: Format, codes: &Tensor) -> Result<PreshuffledStack> {
        family::on_device(OP, "codes", stream, &codes.view())?;
        let &[matrices, rows, bytes] = codes.shape() else {
            return Err(shape(OP, "codes", "three axes, matrices and one of them", format!("{:?}", codes.shape())));
        };
        let k = match matrices {
            0 => bytes * 8 / format.bits(),
            _ => check_codes(OP, "codes", format, &first_matrix(&codes.view())?)?[1],
        };
        if matrices > GRID_YZ_MAX {
            return Err(shape(OP, "codes", format!("at most {GRID_YZ_MAX} matrices"), matrices));
        }
        Ok(PreshuffledStack(Codes::new(stream, format, codes, [matrices, rows, k])?))
    }

    /// The codes in rows, in memory of their own where they are laid out: for checkpoints.
    ///
    /// # Errors
    /// Out of memory; errors of compilation and launch.
    pub fn to_rows(&self, stream: &Stream) -> Result<Tensor> {
        self.0.to_rows(stream)
    }

    /// What a code is.
    pub fn format(&self) -> Format {
        self.0.format
    }

    /// Matrices, rows and K.
    pub fn shape(&self) -> [usize; 3] {
        self.0.shape
    }

    /// Whether the codes lie in tiles, as [`Preshuffled::is_laid_out`].
    pub fn is_laid_out(&self) -> bool {
        self.0.laid_out
    }

    /// The memory: `[matrices, tiles, chunks, 16, 16]` where the codes lie in tiles, else `[matrices, rows, bytes]`.
    pub fn memory(&self) -> &Tensor {
        &self.0.memory
    }
}

impl<'a> PreshuffledRows<'a> {
    /// Where the codes are in rows.
    pub(super) fn plain(&self) -> CodedRows<'a> {
        let PreshuffledRows { weight, scales, kind, block } = *self;
        CodedRows { format: weight.format(), codes: weight.memory().view(), scales, kind, block }
    }
}

impl<'a> PreshuffledMatrices<'a> {
    /// Where the codes are in rows.
    pub(super) fn plain(&self) -> CodedStack<'a> {
        let PreshuffledMatrices { weight, scales, kind, block } = *self;
        CodedStack { format: weight.format(), codes: weight.memory().view(), scales, kind, block }
    }
}

/// Codes of matrices, in tiles or, as they came, in rows.
#[derive(Clone, Debug)]
struct Codes {
    format: Format,
    /// Matrices, rows and K.
    shape: [usize; 3],
    /// Of one matrix without an axis of matrices, where it came so.
    memory: Tensor,
    laid_out: bool,
}

impl Codes {
    /// Of checked codes.
    fn new(stream: &Stream, format: Format, codes: &Tensor, shape: [usize; 3]) -> Result<Codes> {
        let plain = Codes { format, shape, memory: codes.clone(), laid_out: false };
        let device = stream.device();
        if !device.config().preshuffle || !lays_out(device.arch().info()) || shape.contains(&0) {
            return Ok(plain);
        }
        let [matrices, rows, _] = shape;
        let row_bytes = codes.shape()[codes.layout().rank() - 1];
        let chunks = row_bytes.div_ceil(ROW_BYTES) * (ROW_BYTES / CHUNK);
        let tiles = [matrices, rows.div_ceil(ROWS), chunks, ROWS, CHUNK];
        // One matrix that came without an axis of matrices has none here.
        let to = Tensor::empty(&device, &tiles[3 - codes.layout().rank()..], DType::U8)?;
        lay(stream, false, codes, &to)?;
        Ok(Codes { memory: to, laid_out: true, ..plain })
    }

    fn to_rows(&self, stream: &Stream) -> Result<Tensor> {
        if !self.laid_out {
            return Ok(self.memory.clone());
        }
        let [matrices, rows, k] = self.shape;
        let in_rows = [matrices, rows, k * self.format.bits() / 8];
        let in_rows = Tensor::empty(&stream.device(), &in_rows[5 - self.memory.layout().rank()..], DType::U8)?;
        lay(stream, true, &in_rows, &self.memory)?;
        Ok(in_rows)
    }
}

/// The first of several matrices.
pub(super) fn first_matrix<'a>(of: &View<'a>) -> Result<View<'a>> {
    let &[_, rows, columns] = of.shape() else { unreachable!("three axes were checked") };
    let one = of.layout().slice(0, 0, 1, 1)?;
    let one = one.reshape(&[rows, columns]).expect("an axis of one matrix is left out");
    Ok(of.with_layout(one)?)
}

/// Moves codes between rows and tiles, of one matrix or of several.
fn lay(stream: &Stream, back: bool, in_rows: &Tensor, tiles: &Tensor) -> Result<()> {
    let axes = in_rows.layout().rank();
    let (&[rows, row_bytes], &[tile_rows, chunks, ..]) = (&in_rows.shape()[axes - 2..], &tiles.shape()[axes - 2..])
    else {
        unreachable!("rows have two axes, tiles four, and matrices one")
    };
    let strides = in_rows.layout().strides();
    let (matrices, matrix_step) = if axes == 3 { (in_rows.shape()[0], strides[0]) } else { (1, 0) };
    let groups = chunks.div_ceil(CHUNKS);
    if groups > GRID_YZ_MAX {
        let expected = format!("rows of at most {} bytes", GRID_YZ_MAX * CHUNKS * CHUNK);
        return Err(shape(OP, "codes", expected, row_bytes));
    }
    let (address, step) = (in_rows.view().device_address(), strides[axes - 2]);
    let args = PreshuffleArgs {
        in_rows: address,
        tiles: tiles.view().device_address(),
        step,
        matrix_step,
        rows: rows as u32,
        row_bytes: row_bytes as u32,
        chunks: chunks as u32,
        tile_rows: tile_rows as u32,
        whole: u32::from([address as i64, step, matrix_step].iter().all(|at| at % CHUNK as i64 == 0)),
        unused: 0,
    };
    static SOURCES: Sources<bool> = Sources::new();
    let source = SOURCES.get(back, source);
    let (grid, block) = ([tile_rows, groups, matrices], [BLOCK, 1, 1]);
    let written = if back { in_rows } else { tiles };
    // SAFETY:
    // - `PreshuffleArgs` is the twin of the kernel's struct, sizes asserted on both sides. It touches bytes below `row_bytes` of rows
    //   below `rows` of each matrix, of a checked tensor, and every byte of the tiles, which are contiguous.
    // - It writes the tiles, or the rows where it goes back.
    unsafe { KernelLaunch::new(stream, &source, (OP, OP), grid, block).run(&args, &[written.buffer()]) }
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
    matrix_step: i64,
    rows: u32,
    row_bytes: u32,
    chunks: u32,
    tile_rows: u32,
    whole: u32,
    unused: u32,
}
const _: () = assert!(size_of::<PreshuffleArgs>() == 56);
