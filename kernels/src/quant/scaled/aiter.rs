//! When AITER's kernels compute a product of MXFP4 by MXFP4 laid out, and how they are launched.
//!
//! What they compute: E2M1 by E2M1, exponents by 32 of K on both sides, the weight laid out, into bf16, with nothing behind the product;
//! any number of rows, columns in whole tiles ([`Theirs::of`] has it to the last condition). Their order of exponents is neither
//! checkpoints' nor our kernel's: `scaled_aiter.hip` puts both sides into it, in one launch before each product. That reads and writes
//! a sixteenth of the codes' bytes each, and a weight has one layout for both kernels.
//!
//! When they are taken: where `ROCFIRE_AITER_CODES=1` asks for them, from so many rows and columns on that every compute unit has a tile of
//! the smallest. They sum K from one end to the other where ours begins anew each 512, so that results differ in last bits from those of
//! [`q_matmul_scaled`](super::q_matmul_scaled), which [`q_matmul_preshuffled`](super::q_matmul_preshuffled) promises. A row's bits depend
//! neither on the tile nor on other rows, and no sum is by atomics: deterministic runs have them, too.
//!
//! Which tile: the one with which the rounds of tiles over all compute units are least work, by [`clocks`].

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Device, Function, Launch, Source, Tensor, View};

use super::library::Job;
use super::{OP, Side};
use crate::Result;
use crate::aiter::{PRODUCT_BLOCK, Product, ProductArgs, ProductTile, Role, product_tiles};
use crate::attached::Attached;
use crate::family::{BLOCK, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources};
use crate::quant::format::{Format, ScaleKind};

/// Codes that share an exponent.
const ALONG: usize = 32;
/// Codes that the kernels read of a row at once.
const ROUND: usize = 256;
/// Exponents of a tile.
const TILE: [usize; 2] = [32, 8];
/// Tiles of exponents that a workgroup moves.
const TILES: usize = BLOCK / 16;
/// Tiles below which their words have numbers of 31 bits.
const TILES_END: usize = 1 << 27;
/// Bytes below which each operand ends, with rows beyond the last that addresses are made for, so that no place of 32 bits wraps.
const BYTES_END: i64 = 1 << 31;
const ROWS_BEYOND: i64 = 256;
/// The smallest tile, of which each compute unit is to have one.
const LEAST: [usize; 2] = [32, 128];
/// Products of codes that a compute unit adds up in a clock: an MI355X has 10066 TFLOP/s of MXFP4 in 256 units at 2.4 GHz.
const PRODUCTS: usize = 8192;
/// Bytes that it is fed in a clock: 2 KiB of a die's L2 for 32 units.
const FED_BYTES: usize = 64;

/// Launches the one for a product, if there is one that goes first; whether it did.
///
/// # Errors
/// Out of memory; errors of compilation and launch.
pub(super) fn launched(job: &Job<'_, '_>, c: &View<'_>) -> Result<bool> {
    // Nobody else's products are looked at.
    if !job.stream.device().config().aiter_codes {
        return Ok(false);
    }
    let Ok(theirs) = Theirs::of(job, c) else { return Ok(false) };
    let Some(kernel) = theirs.kernel(&job.stream.device()) else { return Ok(false) };
    theirs.launch(&kernel).map(|()| true)
}

/// A product that they compute.
pub(super) struct Theirs<'j, 'a> {
    job: &'j Job<'j, 'a>,
    tile: ProductTile,
    /// What it is told, but where exponents are.
    product: Product,
    out: &'j Buffer,
}

impl<'j, 'a> Theirs<'j, 'a> {
    /// The product, if they compute it and are asked for it, whether or not they are there; else what speaks against it.
    pub fn of(job: &'j Job<'j, 'a>, c: &'j View<'j>) -> std::result::Result<Theirs<'j, 'a>, &'static str> {
        if let Some(against) = against(job, c) {
            return Err(against);
        }
        let Job { stream, a, b, size: [m, n, k], .. } = *job;
        let device = stream.device();
        let far = "rows lie further apart than 32 bits reach, overlap, or have room between them and no whole rounds of 256 codes";
        let codes = a_row(a, k).ok_or(far)?;
        // The stride of an axis of one row says nothing.
        let out = if m == 1 { n as i64 } else { c.layout().strides()[0] };
        let out = stride(out, n as i64, DType::BF16.size_bytes() as i64, m).ok_or(far)?;
        // A tile of the weight is 16 rows.
        let b_row = b.row_bytes / 16;
        stride(b_row, (k / 2) as i64, 1, n).ok_or(far)?;
        let tile = choose(product_tiles(&device), [m, n], device.info().compute_units as usize)
            .ok_or("columns are not in whole tiles")?;
        let product = Product {
            d: c.device_address(),
            a: a.codes.device_address(),
            b: b.codes.device_address(),
            exponents: [0; 2],
            d_row: out,
            a_row: 2 * codes,
            b_row: 2 * b_row as u32,
            exponent_row: [blocks(k).next_multiple_of(TILE[1]) as u32; 2],
            size: [m as u32, n as u32, k as u32],
        };
        Ok(Theirs { job, tile, product, out: c.buffer() })
    }

    /// What its kernel is listed for.
    pub fn role(&self) -> Role {
        Role::Product(self.tile)
    }

    /// The kernel, if the device has it.
    pub fn kernel(&self, device: &Device) -> Option<Function> {
        Attached::of(device).aiter(device).kernel(device, self.role(), size_of::<ProductArgs>())
    }

    /// Launches it, behind the launch that orders exponents.
    ///
    /// # Errors
    /// Out of memory; errors of compilation and launch.
    pub fn launch(&self, kernel: &Function) -> Result<()> {
        let Job { stream, size: [m, n, k], .. } = *self.job;
        let ordered = Ordered::new(self.job)?;
        let args = Product { exponents: ordered.addresses(), ..self.product }.args();
        let [across, down] = self.tile.grid([m, n]);
        let (shape, flops) = ([m, n, k], 2 * (m * n * k) as u64);
        let launch = Launch {
            label: OP,
            grid: [across as u32, down as u32, 1],
            block: [PRODUCT_BLOCK, 1, 1],
            lds_bytes: 0,
            args: bytemuck::bytes_of(&args),
            outputs: &[self.out],
            work: Work { category: Category::Gemm, shape: &shape, flops, ..Work::default() },
        };
        // SAFETY:
        // - `ProductArgs` is what this kernel takes, whose code object is known by its hash; its size was compared with what the code
        //   object says. Addresses are of views whose shapes were checked, rows aligned; `of` has seen that no offset the kernel makes of
        //   strides and extents passes 31 bits, so that its range checks hold it to rows that are there, and that columns are whole tiles.
        //   What it reads behind a row's K is within the rows. Exponents were laid out just before, whole tiles of them.
        // - It writes `out` only.
        unsafe { stream.launch(kernel, &launch)? };
        Ok(())
    }
}

/// Exponents of both sides in the kernels' order.
struct Ordered {
    /// Tiles of A, then those of B.
    memory: Tensor,
    a_bytes: usize,
}

impl Ordered {
    /// Launches what orders them.
    fn new(job: &Job<'_, '_>) -> Result<Ordered> {
        let Job { stream, a, b, size: [m, n, k], .. } = *job;
        let across = blocks(k).div_ceil(TILE[1]);
        let [a_tiles, b_tiles] = [m, n].map(|rows| rows.div_ceil(TILE[0]) * across);
        let (tiles, bytes) = (a_tiles + b_tiles, TILE[0] * TILE[1]);
        let memory = Tensor::empty(&stream.device(), &[tiles * bytes], DType::U8)?;
        let ordered = Ordered { memory, a_bytes: a_tiles * bytes };
        let addresses = ordered.addresses();
        let args = OrderArgs {
            a: ExponentSide::new(a, addresses[0]),
            b: ExponentSide::new(b, addresses[1]),
            across: FastDiv::new(across),
            columns: blocks(k) as u32,
            a_tiles: a_tiles as u32,
            tiles: tiles as u32,
        };
        static SOURCES: Sources<()> = Sources::new();
        let source = SOURCES.get((), |()| source());
        let grid = [tiles.div_ceil(TILES), 1, 1];
        let launch = KernelLaunch::new(stream, &source, (OP, "scaled_aiter"), grid, [BLOCK, 1, 1]);
        // SAFETY:
        // - `OrderArgs` is the twin of the kernel's struct, sizes asserted on both sides. It reads exponents of rows below M and N and
        //   blocks of K, of checked views, and writes every byte of as many tiles as there is room for.
        // - It writes `memory` only.
        unsafe { launch.run(&args, &[ordered.memory.buffer()])? };
        Ok(ordered)
    }

    /// Where those of A are, and of B.
    fn addresses(&self) -> [u64; 2] {
        let start = self.memory.view().device_address();
        [start, start + self.a_bytes as u64]
    }
}

/// What becomes of a product, and why.
pub(super) fn words(job: &Job<'_, '_>, c: &View<'_>) -> String {
    let theirs = match Theirs::of(job, c) {
        Ok(theirs) => theirs,
        Err(against) => return format!("not for this: {against}"),
    };
    let device = job.stream.device();
    match theirs.kernel(&device) {
        Some(kernel) => format!("{}, which goes first: ROCFIRE_AITER_CODES=1 asks for it", kernel.name()),
        None => {
            format!("would go first, but {}", Attached::of(&device).aiter(&device).absence(&device, theirs.role()))
        }
    }
}

/// What of a product the kernels do not compute, wherever it lies, or what makes ours the better ones.
fn against(job: &Job<'_, '_>, c: &View<'_>) -> Option<&'static str> {
    let Job { stream, a, b, size: [m, n, k], ref end } = *job;
    let device = stream.device();
    let by_block = |side: &Side<'_>| side.kind == ScaleKind::E8M0 && side.block == [1, ALONG];
    let is_aligned = c.device_address().is_multiple_of(16) && (m == 1 || c.layout().strides()[0] % 8 == 0);
    let tiles = m.div_ceil(LEAST[0]) * (n / LEAST[1]);
    let conditions = [
        ([a.format, b.format] == [Format::E2M1; 2], "not E2M1 by E2M1"),
        (by_block(a) && by_block(b), "scales are not exponents by 32 of K"),
        (b.laid_out, "the weight is not laid out"),
        (c.dtype() == DType::BF16, "the result is not bf16"),
        (end.key().is_none(), "something follows the product"),
        (k.is_multiple_of(ALONG), "K is not in whole blocks of 32"),
        (a.vector(), "rows of A are not whole vectors"),
        (c.layout().strides()[1] == 1 && is_aligned, "rows of the result are not whole vectors"),
        (m.div_ceil(LEAST[0]) <= GRID_YZ_MAX && exponent_tiles([m, n, k]) < TILES_END, "more rows than a grid has"),
        (product_tiles(&device).next().is_some(), "none is known to be right for the card"),
        (tiles >= device.info().compute_units as usize, "fewer tiles of 32 x 128 than compute units"),
        (
            device.config().aiter_codes,
            "bits would not be those of a weight in rows, which ROCFIRE_AITER_CODES=1 allows",
        ),
    ];
    conditions.into_iter().find_map(|(holds, against)| (!holds).then_some(against))
}

/// Blocks of K.
fn blocks(k: usize) -> usize {
    k.div_ceil(ALONG)
}

fn exponent_tiles([m, n, k]: [usize; 3]) -> usize {
    (m.div_ceil(TILE[0]) + n.div_ceil(TILE[0])) * blocks(k).div_ceil(TILE[1])
}

/// Bytes from one row of A to the next, if the kernels' arithmetic reaches all rows and what they read behind a row is another's.
fn a_row(a: &Side<'_>, k: usize) -> Option<u32> {
    let dense = (k / 2) as i64;
    // The stride of an axis of one row says nothing.
    let row = if a.rows == 1 { dense } else { a.row_bytes };
    let is_read = row == dense || k.is_multiple_of(ROUND);
    stride(row, dense, 1, a.rows).filter(|_| is_read)
}

/// A stride in elements of so many bytes, if so many rows of it end within 31 bits and a row's elements do not reach the next one.
fn stride(row: i64, elements: i64, bytes: i64, rows: usize) -> Option<u32> {
    let end = row.checked_mul(bytes)?.checked_mul(i64::try_from(rows).ok()?.checked_add(ROWS_BEYOND)?)?;
    (row >= elements && end < BYTES_END).then(|| u32::try_from(row).ok()).flatten()
}

/// Of these tiles the one that takes least, if the columns are whole ones of it.
fn choose(tiles: impl Iterator<Item = ProductTile>, [m, n]: [usize; 2], units: usize) -> Option<ProductTile> {
    let whole = tiles.filter(|tile| n.is_multiple_of(tile.columns as usize));
    whole.min_by_key(|tile| {
        let groups = tile.grid([m, n]).iter().product::<usize>();
        // Of those that take the same, what is read least for.
        (groups.div_ceil(units) * clocks(*tile), groups * (tile.rows + tile.columns) as usize)
    })
}

/// Clocks of a compute unit for a tile, each 8192 codes of K: products, or reading both sides' codes, whichever is more.
fn clocks(tile: ProductTile) -> usize {
    let [rows, columns] = [tile.rows as usize, tile.columns as usize];
    (rows * columns).max((rows + columns) * PRODUCTS / (2 * FED_BYTES))
}

/// Its row of the registry, of the architectures that there are kernels of AITER's for.
pub(super) fn sources(info: &ArchInfo, output: DType) -> impl Iterator<Item = Source> {
    let is_there = matches!(info.matrix, Matrix::Mfma(4)) && output == DType::BF16;
    is_there.then(source).into_iter()
}

fn source() -> Source {
    Source::new(OP, include_str!("../scaled_aiter.hip"), &[])
}

/// `ExponentSide` of `scaled_aiter.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ExponentSide {
    from: u64,
    to: u64,
    row: i64,
    column: i64,
    rows: u32,
    whole: u32,
}

impl ExponentSide {
    fn new(side: &Side<'_>, to: u64) -> ExponentSide {
        let (from, strides) = (side.scales.device_address(), side.scales.layout().strides());
        let [row, column] = [strides[0], strides[1]];
        let is_aligned = from.is_multiple_of(8) && (row % 8 == 0 || side.rows == 1);
        let whole = column == 1 && is_aligned && blocks(side.k).is_multiple_of(TILE[1]);
        ExponentSide { from, to, row, column, rows: side.rows as u32, whole: u32::from(whole) }
    }
}

/// `ScaledAiterArgs` of `scaled_aiter.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct OrderArgs {
    a: ExponentSide,
    b: ExponentSide,
    across: FastDiv,
    columns: u32,
    a_tiles: u32,
    tiles: u32,
}
const _: () = assert!(size_of::<OrderArgs>() == 104);

#[cfg(test)]
mod tests;
