//! `q_matmul`: the launcher of `q_matmul.hip`, `few.hip`, `few_ring.hip`, `few_staged.hip`, `few_along.hip` and `few_hopper.hip`.

use std::borrow::Cow;

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::profile::Work;
use rocfire_hal::{DType, Error, Layout, Source, Stream, Tensor, View, ViewMut};

use super::few::{self, FewKey, Tile};
use super::few_along::{self, AlongKey};
use super::few_hopper::{self, HopperKey};
use super::format::{CodeLayout, Format, Packed, ScaleKind, Scales};
use super::walk::fours;
use crate::Result;
use crate::epilogue;
use crate::family::{self, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};
use crate::gemm::{Grouping, matrix_side};

pub(super) mod gguf;
mod grouped;
mod listed;
mod whole;
pub(super) mod written;

pub use gguf::{gguf_matmul_grouped, gguf_matmul_grouped_fused};
pub use grouped::{q_matmul_grouped, q_matmul_grouped_fused};
pub use listed::{ListedRows, gguf_matmul_listed};
pub use whole::gguf_matmul;
use written::Coded;

const OP: &str = "q_matmul";
/// K that is summed from zero; chunks are added in ascending order, by one workgroup or by several.
const CHUNK: usize = 512;
/// Threads of the kernels that are not tiles.
const BLOCK: usize = 256;
/// Rows of A for which the skinny kernel is compiled, and how many sums a lane has registers for.
const SKINNY_ROWS: [usize; 3] = [1, 4, 16];
const SKINNY_SUMS: usize = 128;
/// Words that a workgroup of the skinny kernel reads side by side: `Q_LANES`.
const SKINNY_LANES: usize = 64;
/// Lanes of the strip kernel that lie side by side, K that each sums before it is scaled, codes that a lane has in a row at most:
/// `Q_LANES`, `Q_RUN`, `Q_CODES`.
const STRIP_LANES: usize = 16;
const STRIP_RUN: usize = 32;
const STRIP_CODES: usize = 32;
/// Rows for which it is compiled, and sums that a lane has registers for then.
const STRIP_ROWS: [(usize, usize); 3] = [(1, 64), (4, 64), (16, 128)];
/// Most rows that strips take where a matrix unit has the type: of more, tiles on that are faster.
const UNIT_ROWS: usize = 4;
/// K of a tile's round, `Q_BK`; for so few rows, whose tiles are low and wait for their codes, of more where scales allow it.
const ROUND: usize = 32;
const DEEP_ROUNDS: [usize; 2] = [128, 64];
const FEW_ROWS: usize = 32;
/// Up to so many rows, tiles are cut along K until a compute unit has so many workgroups.
const SLICED_ROWS: usize = 64;
const SLICED_GROUPS: usize = 8;
/// Workgroups below which strips are rather narrower.
const STRIPS: usize = 512;

/// A matrix of codes, `[K, N]`, or one for each of several groups, `[groups, K, N]`.
#[derive(Clone, Copy, Debug)]
pub struct CodedMatrix<'a> {
    /// Codes packed along either axis, or bytes; any strides.
    pub words: View<'a>,
    /// What a code means, and how codes lie in words.
    pub layout: &'a CodeLayout,
    /// `None` stands for a scale of 1.
    pub scales: Option<&'a Scales<'a>>,
}

/// `c = a · w`, the weights `w` read as packed codes: nothing of them is written out for less than 256 rows.
///
/// # Shapes
/// `a`: `[.., M, K]`; `w`: `[K, N]`; `c`: `[.., M, N]`. Any strides.
/// # Types
/// `a` and `c` of one of f32, f16, bf16; every format and every scale.
/// # Numerics
/// Sums in f32, one rounding at the store. Scales that do not vary along K multiply the sum, so that codes enter exactly. Others
/// multiply sums over K inside of a block, of exact codes too, for M up to 64 (up to 4 in f32, 16 without a matrix unit for the type) and words of
/// 32 bits in whole rows along N, on Hopper up to 320 where K and blocks are multiples of 64, or for M up to 64 and words in whole columns along K,
/// in blocks of K that are multiples of 64 bytes of codes (16 on RDNA 3, 32 on RDNA 4); elsewhere they multiply the code, rounded once to the
/// type of `a`. By other 256 rows and more of 16 bits on a matrix unit, a weight that takes up to 512 MiB in that type is written out, each number rounded once, and multiplied as [`gemm`](crate::gemm::gemm()) does. All this, and where K is cut, follows from the
/// architecture, the shapes and how the words lie, not from the device's size.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit; `Unsupported` for another type of `a`.
pub fn q_matmul(stream: &Stream, a: View<'_>, w: &CodedMatrix<'_>, c: ViewMut<'_>) -> Result<()> {
    if !matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: a.dtype(), arch: a.arch() }.into());
    }
    family::same_dtype(OP, "c", &c, a.dtype())?;
    let [m, n, k] = check(stream, &a, w, &c)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    on_rows(stream, a, c, [m, n, k], |a, c| multiply(stream, a, w, c))
}

/// Multiplies `a` as `[m, k]` to `c` as `[m, n]`: leading axes are rows, of views where strides allow, else of copies.
fn on_rows(
    stream: &Stream,
    a: View<'_>,
    mut c: ViewMut<'_>,
    [m, n, k]: [usize; 3],
    multiply: impl FnOnce(View<'_>, ViewMut<'_>) -> Result<()>,
) -> Result<()> {
    let copy = match a.layout().reshape(&[m, k]) {
        Some(_) => None,
        None => Some(family::contiguous(stream, a)?),
    };
    let a = copy.as_ref().map_or(a, Tensor::view);
    let a = a.with_layout(a.layout().reshape(&[m, k]).expect("a copy is contiguous"))?;
    match c.layout().reshape(&[m, n]) {
        Some(rows) => multiply(a, c.with_layout(rows)?),
        None => {
            let mut stand_in = Tensor::empty(c.device(), &[m, n], c.dtype())?;
            multiply(a, stand_in.view_mut())?;
            let whole = Layout::contiguous(c.shape())?;
            family::copy_into(stream, stand_in.view().with_layout(whole)?, c.reborrow())
        }
    }
}

/// The product of `a` [m, k], checked, to `c` [m, n].
fn multiply(stream: &Stream, a: View<'_>, w: &CodedMatrix<'_>, c: ViewMut<'_>) -> Result<()> {
    let (m, k, n) = (a.shape()[0], a.shape()[1], c.shape()[1]);
    let product = Product::new(stream, a, w, c.view())?;
    let coded = Coded::Words(w);
    if !matches!(product.kernel, Kernel::Hopper(_)) && coded.is_written_out(stream, a.dtype(), [m, n, k]) {
        return coded.multiply(stream, a, [k, n], c);
    }
    product.run()
}

/// M with all leading axes, N, K.
fn check(stream: &Stream, a: &View<'_>, w: &CodedMatrix<'_>, c: &View<'_>) -> Result<[usize; 3]> {
    let CodedMatrix { words, layout, scales } = w;
    for (arg, view) in [("a", a), ("words", words), ("c", c)] {
        family::on_device(OP, arg, stream, view)?;
    }
    let &[mut k, mut n] = words.shape() else {
        return Err(shape(OP, "words", "two axes, K and N", format!("{:?}", words.shape())));
    };
    if let Some(Packed { axis, extent }) = layout.packed {
        *if axis == 0 { &mut k } else { &mut n } = extent;
    }
    layout.check(OP, words, &[k, n])?;
    let m = rows_of(OP, a, c, [n, k])?;
    if let Some(scales) = scales {
        family::on_device(OP, "scales", stream, &scales.view)?;
        scales.check(OP, &[k, n])?;
        family::disjoint(OP, "scales", c, &scales.view)?;
    }
    family::writable(OP, "c", c)?;
    family::disjoint(OP, "a", c, a)?;
    family::disjoint(OP, "words", c, words)?;
    Ok([m, n, k])
}

/// M with all leading axes of `a`, `[.., k]`, and of `c`, `[.., n]`, which are checked.
fn rows_of(op: &'static str, a: &View<'_>, c: &View<'_>, [n, k]: [usize; 2]) -> Result<usize> {
    let Some((&a_k, a_rows)) = a.shape().split_last() else {
        return Err(shape(op, "a", format!("[.., {k}]"), "no axes"));
    };
    if a_k != k {
        return Err(shape(op, "a", format!("[.., {k}]"), format!("{:?}", a.shape())));
    }
    let expected = || a_rows.iter().copied().chain([n]);
    if !c.shape().iter().copied().eq(expected()) {
        let expected: Vec<usize> = expected().collect();
        return Err(shape(op, "c", format!("{expected:?}"), format!("{:?}", c.shape())));
    }
    if k == 0 {
        return Err(shape(op, "a", "at least one element along K", 0));
    }
    let m: usize = a_rows.iter().product();
    if m >= BOX_LIMIT || n >= BOX_LIMIT || k >= BOX_LIMIT {
        return Err(shape(op, "a", format!("extents below {BOX_LIMIT}"), format!("{:?}", [m, n, k])));
    }
    Ok(m)
}

/// A checked product: `a` [m, k], `c` [m, n].
struct Product<'a> {
    stream: &'a Stream,
    words: View<'a>,
    c: View<'a>,
    kernel: Kernel,
    args: QMatmulArgs,
    m: usize,
    n: usize,
    k: usize,
}

/// The arguments of a product and how its words are read: what kernels are chosen by, besides shapes.
struct Operands<'a> {
    args: QMatmulArgs,
    words: View<'a>,
    scales: Option<Scales<'a>>,
    format: Format,
    /// The words' type in the kernel, and codes of such a word.
    word: DType,
    per: usize,
    /// Whether words hold codes along K.
    along_k: bool,
    /// Whether scales do not vary along K.
    late: bool,
}

impl<'a> Operands<'a> {
    /// `a` [m, k] and `c` [m, n], checked. `four`: the axis along which bytes are read in fours.
    fn new(a: &View<'_>, w: &CodedMatrix<'a>, c: &View<'_>, four: Option<usize>) -> Operands<'a> {
        let CodedMatrix { words, layout, scales } = w;
        let (m, k, n) = (a.shape()[0], a.shape()[1], c.shape()[1]);
        let own = layout.per_word(words.dtype());
        let (per, word) = match (four, words.dtype()) {
            (Some(_), _) => (4 * own, DType::U32),
            (None, DType::U32) => (own, DType::U32),
            (None, _) => (own, DType::U8),
        };
        let packed = four.or(layout.packed.map(|packed| packed.axis)).unwrap_or(1);
        let stride = |axis: usize| {
            let stride = words.layout().strides()[axis];
            if four.is_some() && axis != packed { stride / 4 } else { stride }
        };
        let blocked = scales.filter(|scales| !scales.block.is_empty());
        let scale = |axis: usize| match blocked {
            Some(scales) if scales.view.shape()[axis] > 1 => {
                (scales.view.layout().strides()[axis], FastDiv::new(scales.block[axis]))
            }
            _ => (0, FastDiv::new(1)),
        };
        let ((s_k, block_k), (s_n, block_n)) = (scale(0), scale(1));
        let (a_strides, c_strides) = (a.layout().strides(), c.layout().strides());
        let a_vector = in_vectors_of_a(a);
        let args = QMatmulArgs {
            a: a.device_address(),
            words: words.device_address(),
            scales: scales.map_or(0, |scales| scales.view.device_address()),
            global: scales.and_then(|scales| scales.global).map_or(0, |global| global.device_address()),
            c: c.device_address(),
            a_row: a_strides[0],
            a_k: a_strides[1],
            w_k: stride(0),
            w_n: stride(1),
            s_k,
            s_n,
            c_row: c_strides[0],
            c_col: c_strides[1],
            c_slice: 0,
            block_k,
            block_n,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            slice_k: k as u32,
            scale_kind: scales.map_or(0, |scales| scales.kind.number()),
            a_vector: u32::from(a_vector),
        };
        let scales = scales.copied();
        Operands { args, words: *words, scales, format: layout.format, word, per, along_k: packed == 0, late: s_k == 0 }
    }

    /// K and N that share a scale; `None` where there is one of all.
    fn blocked(&self) -> Option<[usize; 2]> {
        self.scales.filter(|scales| !scales.block.is_empty()).map(|scales| [scales.block[0], scales.block[1]])
    }

    /// K that shares a scale, 0 for all.
    fn block_k(&self) -> usize {
        self.blocked().filter(|_| !self.late).map_or(0, |[k, _]| k)
    }

    /// Whether rows of words are whole, aligned vectors of so many.
    fn in_vectors(&self, wide: usize) -> bool {
        (self.args.n as usize).is_multiple_of(self.per * wide)
            && self.args.w_k % wide as i64 == 0
            && self.words.device_address().is_multiple_of(4 * wide as u64)
    }

    /// Whether words are of 32 bits, neighbours along N.
    fn by_words(&self) -> bool {
        !self.along_k && self.word == DType::U32 && self.args.w_n == 1
    }

    /// Scales' type, and whether those of neighbouring columns are aligned vectors. Without one for each block along K neither is looked at.
    fn scale(&self) -> (ScaleKind, bool) {
        let scale = self.scales.filter(|_| !self.late).map_or(ScaleKind::F32, |scales| scales.kind);
        (scale, !self.late && self.blocked().is_some_and(|[_, n]| n == 1) && beside(&self.args, scale))
    }

    /// The key of the kernel of few rows.
    fn few_key(&self, dtype: DType, tile: Tile) -> FewKey {
        let (&Operands { format, late, .. }, (scale, beside)) = (self, self.scale());
        FewKey { dtype, format, late, scale, beside, tile, grouping: None }
    }

    /// The key of the kernel of few rows and codes along K.
    fn along_key(&self, dtype: DType, tile: few_along::Tile) -> AlongKey {
        let (&Operands { format, late, .. }, (scale, _)) = (self, self.scale());
        let exact = dtype == DType::BF16 && scale == ScaleKind::E8M0 && self.args.global == 0;
        AlongKey { dtype, format, late, scale, exact: exact && tile.scaled > 0, tile, grouping: None }
    }

    /// The key of Hopper's kernel of few rows.
    fn hopper_key(&self, dtype: DType, tile: few_hopper::Tile) -> HopperKey {
        let (&Operands { format, late, .. }, (scale, beside)) = (self, self.scale());
        HopperKey { dtype, format, late, scale, beside, tile }
    }

    /// The key of another kernel.
    fn key(&self, [input, output]: [DType; 2], choice: Choice) -> QMatmulKey {
        let Operands { format, word, per, along_k, late, .. } = *self;
        let Choice { matrix, tiles, deep, rows, wide } = choice;
        QMatmulKey { input, output, matrix, tiles, format, word, per, along_k, late, deep, rows, wide, grouping: None }
    }
}

impl<'a> Product<'a> {
    fn new(stream: &'a Stream, a: View<'a>, w: &CodedMatrix<'a>, c: View<'a>) -> Result<Product<'a>> {
        let (m, k, n) = (a.shape()[0], a.shape()[1], c.shape()[1]);
        let four = fours(&w.words, w.layout, w.layout.per_word(w.words.dtype()), &[k, n]);
        let of = Operands::new(&a, w, &c, four);
        let strip = strip(&of);
        let per = of.per;
        let skinny = SKINNY_ROWS.into_iter().find(|&rows| m <= rows && rows * per <= SKINNY_SUMS && !of.along_k);
        let device = stream.device();
        let unit = device.config().matrix && matrix_side(device.arch().info(), a.dtype()) != 0;
        let info = device.arch().info();
        let along = (m <= few::ROWS_MAX).then(|| along(info.matrix, &of, a.dtype(), m)).flatten();
        let tiles = (hopper(info, &of, a.dtype()), few(info, &of, a.dtype(), strip.is_some()), along);
        let kernel = match tiles {
            (_, Some(tile), _) if unit && tile.ring.is_some() => Kernel::Few(of.few_key(a.dtype(), tile)),
            (Some(tile), ..) if unit => Kernel::Hopper(of.hopper_key(a.dtype(), tile)),
            (None, Some(tile), _) if unit => Kernel::Few(of.few_key(a.dtype(), tile)),
            (None, None, Some(tile)) if unit => Kernel::Along(of.along_key(a.dtype(), tile)),
            _ => Kernel::Other(of.key([a.dtype(), c.dtype()], choice(m, unit, strip, skinny, of.block_k()))),
        };
        Ok(Product { stream, words: of.words, c, kernel, args: of.args, m, n, k })
    }

    fn run(&self) -> Result<()> {
        let wave = self.stream.device().arch().info().wave_size as usize;
        let key = match &self.kernel {
            Kernel::Few(FewKey { tile, format, .. }) => {
                let (per, info) = (32 / format.bits(), self.stream.device().arch().info());
                let [x, y] = tile.grid(info.matrix, [self.m, self.n], per);
                let slice_k = tile.slice_k(info, x * y, per, self.k);
                return self.slices(tile.kernel(), [x, y, 1], tile.waves * wave, tile.lds_bytes(), slice_k);
            }
            Kernel::Along(AlongKey { tile, format, .. }) => {
                let (per, info) = (32 / format.bits(), self.stream.device().arch().info());
                let [x, y] = tile.grid([self.m, self.n]);
                let slice_k = tile.slice_k(info, x * y, per, self.k);
                return self.slices("few_along", [x, y, 1], tile.waves * wave, 0, slice_k);
            }
            Kernel::Hopper(HopperKey { tile, format, .. }) => {
                let (grid, lds_bytes) = (tile.grid([self.m, self.n]), tile.lds_bytes(32 / format.bits()));
                return self.slices("few_hopper", grid, tile.waves() * wave, lds_bytes, self.k);
            }
            Kernel::Other(key) => key,
        };
        if key.wide > 0 {
            let grid = [self.n.div_ceil(STRIP_LANES * key.per * key.wide), 1, 1];
            return self.slices("q_strip", grid, BLOCK, 0, CHUNK);
        }
        if key.rows > 0 {
            let grid = [self.n.div_ceil(SKINNY_LANES * key.per), 1, 1];
            return self.slices("q_skinny", grid, BLOCK, 0, CHUNK);
        }
        let [tile_m, tile_n] = key.tiles.map(|tiles| tiles * if key.matrix { 32 } else { 16 });
        let grid = [self.n.div_ceil(tile_n), self.m.div_ceil(tile_m), 1];
        if grid[1] > GRID_YZ_MAX {
            return Err(shape(OP, "a", format!("at most {} rows", GRID_YZ_MAX * tile_m), self.m));
        }
        let at_once = family::slots(&self.stream.device(), 1);
        let threads = if key.matrix { 4 * wave } else { BLOCK };
        let wanted = if self.m <= SLICED_ROWS { at_once * SLICED_GROUPS } else { at_once };
        let sliced = grid[0] * grid[1] < wanted;
        self.slices("q_matmul", grid, threads, 0, if sliced { CHUNK } else { self.k })
    }

    /// Launches by slices of so much of K and adds them up, or the whole of K at once.
    fn slices(
        &self,
        kernel: &'static str,
        grid: [usize; 3],
        threads: usize,
        lds_bytes: u32,
        slice_k: usize,
    ) -> Result<()> {
        let (m, n, slices) = (self.m, self.n, self.k.div_ceil(slice_k));
        if slices == 1 {
            return self.launch(kernel, grid, threads, lds_bytes, &self.args, &self.c);
        }
        let mut parts = Tensor::empty(self.c.device(), &[slices, m, n], DType::F32)?;
        let written = parts.view_mut().view();
        let args = QMatmulArgs {
            c: written.device_address(),
            c_row: n as i64,
            c_col: 1,
            c_slice: (m * n) as i64,
            slice_k: slice_k as u32,
            ..self.args
        };
        self.launch(kernel, [grid[0], grid[1], slices], threads, lds_bytes, &args, &written)?;
        let args = QMatmulArgs { a: written.device_address(), slice_k: slices as u32, ..self.args };
        for first in (0..m).step_by(GRID_YZ_MAX) {
            let skip = |address: u64, stride: i64, bytes: usize| {
                address.wrapping_add_signed(first as i64 * stride * bytes as i64)
            };
            let args = QMatmulArgs {
                a: skip(args.a, n as i64, size_of::<f32>()),
                c: skip(args.c, args.c_row, self.c.dtype().size_bytes()),
                ..args
            };
            let grid = [n.div_ceil(BLOCK), (m - first).min(GRID_YZ_MAX), 1];
            self.launch("q_matmul_sum", grid, BLOCK, 0, &args, &self.c)?;
        }
        Ok(())
    }

    fn launch(
        &self,
        kernel: &'static str,
        grid: [usize; 3],
        threads: usize,
        lds_bytes: u32,
        args: &QMatmulArgs,
        written: &View<'_>,
    ) -> Result<()> {
        static SOURCES: Sources<Kernel> = Sources::new();
        let source = SOURCES.get(self.kernel, |kernel| match kernel {
            Kernel::Few(key) => few::source(key, ""),
            Kernel::Hopper(key) => few_hopper::source(key),
            Kernel::Along(key) => few_along::source(key, ""),
            Kernel::Other(key) => source(key, ""),
        });
        // SAFETY:
        // - `QMatmulArgs` is the twin of the kernel's struct, sizes asserted on both sides; `check` saw to it that the strides
        //   belong to views of `a` [m, k], codes [k, n] and their scales, and views lie inside their buffers; the kernels read
        //   rows below m, columns below n, k below k, and the slices that were allocated.
        // - They write `written` only. Before they wait the kernels of few rows read words.
        unsafe {
            KernelLaunch::new(self.stream, &source, (OP, kernel), grid, [threads, 1, 1])
                .with(lds_bytes, Work::default())
                .reading_early((!matches!(self.kernel, Kernel::Other(_))).then(|| self.words.buffer()))
                .run(args, &[written.buffer()])
        }
    }
}

/// The deepest round in which scales do not change, which they do each `block` of K; 0: never.
fn depth(block: usize) -> usize {
    DEEP_ROUNDS.into_iter().find(|&deep| block.is_multiple_of(deep)).unwrap_or(ROUND)
}

/// What is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kernel {
    Few(FewKey),
    Hopper(HopperKey),
    Along(AlongKey),
    Other(QMatmulKey),
}

/// The tile of the kernel of few rows, where it takes the product. On RDNA strips, if they serve, take the fewest rows: there a lane
/// decodes what another one decodes too, for a product of 16 rows.
fn few(info: &ArchInfo, of: &Operands<'_>, dtype: DType, strip: bool) -> Option<Tile> {
    let (matrix, m, k) = (info.matrix, of.args.m as usize, of.args.k as usize);
    let others = strip && m <= UNIT_ROWS && matches!(matrix, Matrix::Wmma11 | Matrix::Wmma12);
    let fits = |wide: usize| of.by_words() && of.in_vectors(wide);
    let tile = (serves_few(of, dtype) && !others && m <= few::ROWS_MAX)
        .then(|| Tile::choose(info, m, of.per, has_ring(of.format, dtype), fits));
    tile.flatten().map(|tile| tile.folding(matrix, k, of.block_k()))
}

/// Whether `few_ring.hip` has registers for codes of a format: the floats of 8 bits that are decoded one by one leave too few.
pub(super) fn has_ring(format: Format, dtype: DType) -> bool {
    match format {
        Format::I8 | Format::I4 | Format::I2 | Format::E2M1 => true,
        Format::E4M3 => dtype == DType::BF16,
        Format::E5M2 | Format::E4M3Fnuz | Format::E5M2Fnuz => false,
    }
}

/// The tile of Hopper's kernel of few rows, where it takes the product.
fn hopper(info: &ArchInfo, of: &Operands<'_>, dtype: DType) -> Option<few_hopper::Tile> {
    let [m, n, k] = [of.args.m, of.args.n, of.args.k].map(|extent| extent as usize);
    let serves = serves_few(of, dtype)
        && of.by_words()
        && of.in_vectors(few_hopper::COPIED_WORDS)
        && of.block_k().is_multiple_of(few_hopper::PIECE)
        && few_hopper::ROWS.contains(&m);
    serves.then(|| few_hopper::Tile::of(info, [m, n, k], of.per)).flatten()
}

/// The tile of the kernel of few rows and codes along K, where it takes the product.
fn along(matrix: Matrix, of: &Operands<'_>, dtype: DType, m: usize) -> Option<few_along::Tile> {
    let [n, k] = [of.args.n, of.args.k].map(|extent| extent as usize);
    let aligned = of.words.device_address().is_multiple_of(16)
        && (of.args.w_n % few_along::RUN_WORDS as i64 == 0 || n == 1)
        && (0..few::WORDS / n as i64).contains(&of.args.w_n);
    let serves = matches!(dtype, DType::F16 | DType::BF16)
        && of.args.a_vector != 0
        && (of.along_k && of.word == DType::U32 && of.args.w_k == 1 && aligned);
    serves.then(|| few_along::Tile::of(matrix, m, of.per, [k, of.block_k()])).flatten()
}

/// What the kernel of few rows asks of a product: 16-bit floats, whole slabs of K and blocks of scales, rows that are vectors.
fn serves_few(of: &Operands<'_>, dtype: DType) -> bool {
    let halves = matches!(dtype, DType::F16 | DType::BF16);
    let whole = of.args.a_vector != 0
        && (of.args.k as usize).is_multiple_of(few::SLAB)
        && of.block_k().is_multiple_of(few::SLAB);
    let near = (0..few::WORDS / i64::from(of.args.k)).contains(&of.args.w_k);
    halves && whole && near
}

/// Whether neighbouring scales are aligned vectors.
fn beside(args: &QMatmulArgs, kind: ScaleKind) -> bool {
    let row_bytes = args.s_k * kind.dtype().size_bytes() as i64;
    args.s_n == 1 && args.scales.is_multiple_of(16) && row_bytes % 16 == 0
}

/// Whether rows of A, `[m, k]`, are whole, aligned vectors.
fn in_vectors_of_a(a: &View<'_>) -> bool {
    let (m, k, strides, vector) = (a.shape()[0], a.shape()[1], a.layout().strides(), 16 / a.dtype().size_bytes());
    strides[1] == 1
        && k.is_multiple_of(vector)
        && (strides[0] % vector as i64 == 0 || m == 1)
        && a.device_address().is_multiple_of(16)
}

/// What decides the kernel: fields of [`QMatmulKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    matrix: bool,
    tiles: [usize; 2],
    deep: usize,
    rows: usize,
    wide: usize,
}

/// Strips where they serve (their rows and words), else the skinny kernel (its rows), else tiles: on the matrix unit, where it has the
/// type, from few rows on. `block_k`: K that shares a scale, 0 for all.
fn choice(m: usize, unit: bool, strip: Option<(usize, usize)>, skinny: Option<usize>, block_k: usize) -> Choice {
    let (strip, skinny) = if unit && m > UNIT_ROWS { (None, None) } else { (strip, skinny) };
    if let Some(rows) = strip.map(|(rows, _)| rows).or(skinny) {
        return Choice { matrix: false, tiles: [0, 0], deep: ROUND, rows, wide: strip.map_or(0, |(_, wide)| wide) };
    }
    let few = m <= FEW_ROWS;
    let tiles = match unit {
        true => [if few { 1 } else { 2 }, 2],
        false => [if few { 2 } else { 4 }, 4],
    };
    Choice { matrix: unit, tiles, deep: if unit && few { depth(block_k) } else { ROUND }, rows: 0, wide: 0 }
}

/// Rows and words of a lane of the strip kernel; `None` where rows are too many, and where it does not serve.
fn strip(of: &Operands<'_>) -> Option<(usize, usize)> {
    let (m, n, k) = (of.args.m as usize, of.args.n as usize, of.args.k as usize);
    let (rows, sums) = STRIP_ROWS.into_iter().find(|&(rows, _)| m <= rows)?;
    let many = |&wide: &usize| n.div_ceil(STRIP_LANES * of.per * wide) * k.div_ceil(CHUNK) >= STRIPS;
    let mut widths = strip_widths(of, rows, sums);
    let narrowest = widths.clone().next_back()?;
    Some((rows, widths.find(many).unwrap_or(narrowest)))
}

/// Words that a lane of the strip kernel may have, most first, of so many rows: none where words are no vectors along N, or scales
/// change within a run.
fn strip_widths(of: &Operands<'_>, rows: usize, sums: usize) -> impl DoubleEndedIterator<Item = usize> + Clone {
    let block_k = of.blocked().map_or(STRIP_RUN, |[k, _]| k);
    let serves = of.by_words() && (of.args.s_k == 0 || block_k.is_multiple_of(STRIP_RUN));
    let held = move |wide: usize, per: usize| per * wide <= STRIP_CODES && rows * per * wide <= sums;
    [4, 2, 1].into_iter().filter(move |&wide| serves && held(wide, of.per) && of.in_vectors(wide))
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QMatmulKey {
    pub input: DType,
    pub output: DType,
    pub matrix: bool,
    pub tiles: [usize; 2],
    pub format: Format,
    pub word: DType,
    pub per: usize,
    pub along_k: bool,
    pub late: bool,
    /// K of a tile's round.
    pub deep: usize,
    /// Rows of the skinny and the strip kernel; 0 for tiles.
    pub rows: usize,
    /// Words of a lane of the strip kernel; 0 for the others.
    pub wide: usize,
    /// Of groups of rows.
    pub grouping: Option<Grouping>,
}

/// What stands before the kernels of codes by floats.
macro_rules! in_front_of {
    ($($text:literal),+) => {
        concat!(
            "using namespace rf;\n",
            include_str!("../gemm/rows.hip"),
            include_str!("../gemm/groups.hip"),
            include_str!("coded.h"),
            $(include_str!($text)),+
        )
    };
}
pub(super) use in_front_of;

/// The kernels of weights in blocks of GGUF.
const GGUF_TILES: &str = in_front_of!("gguf.h", "gguf_tiles.h", "q_matmul.hip");
const GGUF_FEW: &str = in_front_of!("gguf.h", "gguf_few.hip");
const GGUF_LISTED: &str = in_front_of!("listed.h", "gguf.h", "gguf_few.hip");
const GGUF_MATRIX: &str = in_front_of!("gguf.h", "few_unit.h", "gguf_matrix.h", "few_sums.h", "gguf_matrix.hip");
const GGUF_STAGED: &str = in_front_of!("gguf.h", "few_unit.h", "gguf_matrix.h", "few_sums.h", "gguf_staged.hip");

/// The source of one variant behind the text of an epilogue, or of none.
pub(crate) fn source(key: QMatmulKey, epilogue: &str) -> Source {
    source_of(
        key,
        &[("Q_EPILOGUE", if epilogue.is_empty() { "0" } else { "1" })],
        epilogue::in_front(epilogue, in_front_of!("q_matmul.hip")),
    )
}

/// The same of a text.
fn source_of(key: QMatmulKey, others: &[(&str, &str)], text: Cow<'static, str>) -> Source {
    let numbers = [
        ("Q_MATRIX", usize::from(key.matrix)),
        ("Q_TILES_M", key.tiles[0]),
        ("Q_TILES_N", key.tiles[1]),
        ("Q_PER", key.per),
        ("Q_ALONG_K", usize::from(key.along_k)),
        ("Q_LATE", usize::from(key.late)),
        ("Q_BK", key.deep),
        ("Q_ROWS", key.rows),
        ("Q_WIDE", key.wide),
        ("Q_CHUNK", CHUNK),
        ("Q_GROUPED", key.grouping.map_or(0, |grouping| grouping as usize)),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [
        ("Q_IN", c_type(key.input)),
        ("Q_OUT", c_type(key.output)),
        ("Q_WORD", c_type(key.word)),
        ("Q_FORMAT", key.format.number()),
    ];
    let numbers = numbers.iter().map(|(name, value)| (*name, value.as_str()));
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers).chain(others.iter().copied()).collect();
    Source::new("q_matmul", text, &defines)
}

/// `QMatmulArgs` of `q_matmul.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct QMatmulArgs {
    a: u64,
    words: u64,
    scales: u64,
    global: u64,
    c: u64,
    a_row: i64,
    a_k: i64,
    w_k: i64,
    w_n: i64,
    s_k: i64,
    s_n: i64,
    c_row: i64,
    c_col: i64,
    c_slice: i64,
    block_k: FastDiv,
    block_n: FastDiv,
    m: u32,
    n: u32,
    k: u32,
    slice_k: u32,
    scale_kind: u32,
    a_vector: u32,
}
const _: () = assert!(size_of::<QMatmulArgs>() == 160);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_are_no_tiles() {
        let of = |m, unit| choice(m, unit, Some((4, 2)), Some(4), 64);
        for unit in [false, true] {
            let strip = Choice { matrix: false, tiles: [0, 0], deep: ROUND, rows: 4, wide: 2 };
            assert_eq!(of(4, unit), strip);
            assert_eq!(choice(4, unit, None, Some(4), 0), Choice { wide: 0, ..strip });
        }
        assert_eq!(of(8, true), Choice { matrix: true, tiles: [1, 2], deep: 64, rows: 0, wide: 0 });
        assert_eq!(of(8, false).rows, 4, "without a unit strips are faster");
        assert_eq!(choice(64, false, None, None, 64).tiles, [4, 4]);
        assert_eq!(
            choice(64, true, None, None, 64),
            Choice { matrix: true, tiles: [2, 2], deep: ROUND, rows: 0, wide: 0 }
        );
    }
}
