//! `gguf_matmul_grouped`: groups of rows, each by a matrix in blocks of GGUF. Few rows a group go to `gguf_matrix.hip` where the matrix
//! unit takes them, by way of LDS to `gguf_staged.hip` on NVIDIA's cards, the fewest of others to `gguf_few.hip`, which reads each line of
//! blocks once for up to four rows, the rest to the tiles of `q_matmul.hip`, whose weights `gguf_tiles.h` decodes. For many rows they are
//! written out first.

use std::borrow::Cow;

use rocfire_arch::Matrix;
use rocfire_fusion::Epilogue;
use rocfire_hal::profile::Work;
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::grouped::{Apart, GroupedArgs};
use super::written::Coded;
use super::{
    BLOCK, GGUF_FEW, GGUF_LISTED, GGUF_MATRIX, GGUF_STAGED, GGUF_TILES, QMatmulArgs, QMatmulKey, in_vectors_of_a,
    source_of,
};
use crate::Result;
use crate::epilogue::{self, BoundEpilogue};
use crate::family::{self, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};
use crate::gemm::{GemmGroups, Grouping, ToldGroups, matrix_side};
use crate::quant::format::Format;
use crate::quant::gguf::{Gguf, GgufMatrices};
use crate::quant::gguf_matrix::{ROWS_MAX, Tile};
use crate::quant::gguf_staged::{self, COPIED};

const OP: &str = "gguf_matmul_grouped";
/// Rows a group, in the mean, up to which each row is summed by lanes, and rows of all groups that are few in any case.
const FEW_MEAN: usize = 2;
const FEW_ROWS: usize = 8;
/// Rows of a group that read a weight once, columns and threads of a workgroup of that kernel: `Q_ROWS`, `Q_COLUMNS`.
const FEW_TILE: usize = 4;
const FEW_COLUMNS: usize = 16;
pub(super) const FEW_BLOCK: usize = 256;
/// `Q_COLUMNS` of a list's rows: an output of a workgroup's 32 lanes each, as few rows leave a card idle otherwise.
pub(super) const LISTED_COLUMNS: usize = FEW_BLOCK / 32;
/// Rows a group, twice the mean, up to which tiles are low.
const LOW_ROWS: usize = 32;
/// K of a tile's round: two units of a K type.
const DEEP: usize = 128;

/// `c[rows of g] = a[rows of g] · w[g]` for every group `g`, the weights read as blocks of GGUF; for few rows nothing of them is written out.
///
/// # Shapes
/// `w`: `[groups, N, bytes of K weights]`: a line of blocks for each column of the product. `a`, `c` and groups as
/// [`gemm_grouped`](crate::gemm::gemm_grouped) has them. Rows of no group are left as they are.
/// # Types
/// `a` of f32, f16 or bf16, `c` of the same or f32; every type of GGUF.
/// # Numerics
/// Sums in f32, one rounding at the store. Up to 32 rows a group in the mean, 64 on NVIDIA's cards, rows of 16 bits that are contiguous and aligned to 16 bytes
/// are multiplied, where a matrix unit takes them, by codes as they are: the sum over the weights of one scale is multiplied by it, the
/// sum of `a` there by the offset, in f32; codes enter with up to 1152 added, which is taken from the sum again, so what is within 1152 of
/// overflow in f32 may become no number. Else, up to two rows a group in the mean, or eight in all, a weight is `scale · code + offset` in
/// f32, multiplied as it is; of more rows it is rounded once to the type of `a`. From 256 rows a group in the mean on, on NVIDIA's cards
/// from 65 on, matrices of up to 512 MiB in 16 bits are written out so, 128 MiB of them or one at a time, and multiplied as
/// [`gemm_grouped`](crate::gemm::gemm_grouped) does. By how many rows, and by which others, a row is multiplied with changes no bit
/// between two of these bounds.
/// # Errors
/// `Shape` for blocks, rows and groups that do not fit; `Unsupported` for another type of `a`.
/// # Source
/// The blocks: ggml's `ggml-common.h`.
pub fn gguf_matmul_grouped(
    stream: &Stream,
    a: View<'_>,
    w: &GgufMatrices<'_>,
    groups: &GemmGroups<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    if c.dtype() != DType::F32 {
        family::same_dtype(OP, "c", &c, a.dtype())?;
    }
    let extents = check(stream, &a, w, groups, "c", &c)?;
    multiply(stream, a, w, groups, extents, (c.view(), None))
}

/// What `epilogue` computes of it: nothing but its outputs is written.
///
/// # Shapes
/// As [`gguf_matmul_grouped`]; the epilogue was made for the shape of `c` and products of the type of `a`.
/// # Errors
/// As [`gguf_matmul_grouped`], each output in `c`'s place; groups that are counted.
pub fn gguf_matmul_grouped_fused(
    stream: &Stream,
    a: View<'_>,
    w: &GgufMatrices<'_>,
    groups: &GemmGroups<'_>,
    epilogue: &Epilogue<'_>,
) -> Result<()> {
    if epilogue.result() != a.dtype() {
        return Err(shape(OP, "epilogue", format!("of products of {}", a.dtype()), epilogue.result()));
    }
    let mut extents = [0; 3];
    for output in epilogue.outputs() {
        extents = check(stream, &a, w, groups, "output", output)?;
    }
    if matches!(groups, GemmGroups::Counts(_)) {
        return Err(shape(OP, "groups", "offsets behind an epilogue", "counts"));
    }
    match epilogue.outputs() {
        [] => Ok(()),
        [first, ..] => multiply(stream, a, w, groups, extents, (first.view(), Some(BoundEpilogue::new(epilogue)))),
    }
}

/// Groups, K and N.
fn check(
    stream: &Stream,
    a: &View<'_>,
    w: &GgufMatrices<'_>,
    groups: &GemmGroups<'_>,
    arg: &'static str,
    c: &ViewMut<'_>,
) -> Result<[usize; 3]> {
    if !matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: a.dtype(), arch: a.arch() }.into());
    }
    family::on_device(OP, "a", stream, a)?;
    family::on_device(OP, "blocks", stream, &w.blocks)?;
    let [count, k, n] = w.check(OP, a, c)?;
    groups.check(OP, stream, a, [count, k, n], (arg, c))?;
    let rows = c.shape().iter().rev().skip(1).product::<usize>();
    let extents = [rows, n, k, w.blocks.shape()[2]];
    if extents.iter().any(|&extent| extent >= BOX_LIMIT) {
        return Err(shape(OP, arg, format!("extents below {BOX_LIMIT}"), format!("{extents:?}")));
    }
    Ok([count, k, n])
}

fn multiply(
    stream: &Stream,
    a: View<'_>,
    w: &GgufMatrices<'_>,
    groups: &GemmGroups<'_>,
    [count, k, n]: [usize; 3],
    (c, epilogue): (View<'_>, Option<BoundEpilogue<'_>>),
) -> Result<()> {
    if c.is_empty() || count == 0 {
        return Ok(());
    }
    let (coded, mean) = (Coded::Blocks(w), c.shape().iter().rev().skip(1).product::<usize>() / count);
    if let Some(at_once) = coded.at_once(stream, a.dtype(), mean, [k, n]) {
        return coded.multiply_groups(stream, a, groups, (c, epilogue), ([count, k, n], mean), at_once);
    }
    let mut copy = None;
    let ([a, c], each) = groups.lined_up(OP, stream, [a, c], &mut copy)?;
    let rows = c.shape()[0];
    let told = |tile: usize| (groups.told(&a, [rows, each], tile), each);
    launch(OP, stream, a, w, &told, [count, k, n], (c, epilogue))
}

/// The product of rows, as they are told to a kernel whose tiles have so many, each group's by its matrix: all checked.
pub(super) fn launch(
    op: &'static str,
    stream: &Stream,
    a: View<'_>,
    w: &GgufMatrices<'_>,
    told: &dyn Fn(usize) -> (ToldGroups, usize),
    [count, k, n]: [usize; 3],
    (c, epilogue): (View<'_>, Option<BoundEpilogue<'_>>),
) -> Result<()> {
    let rows = c.shape()[0];
    // An epilogue's outputs need not have the type of the products.
    let output = if epilogue.is_some() { a.dtype() } else { c.dtype() };
    let in_vectors = in_vectors_of_a(&a);
    let blocks = w.blocks.layout().strides();
    // Lines that asynchronous copies can take.
    let begins = w.blocks.device_address() as usize | if count > 1 { blocks[0] as usize } else { 0 };
    let line = begins.is_multiple_of(COPIED).then_some(blocks[1] as usize);
    let way = Way::choose(stream, a.dtype(), w.kind, [rows, count, n, k], (in_vectors, line));
    let tile = way.tile();
    let (told, each) = told(tile[0]);
    let (a_strides, c_strides) = (a.layout().strides(), c.layout().strides());
    let product = QMatmulArgs {
        a: a.device_address(),
        words: w.blocks.device_address(),
        scales: 0,
        global: 0,
        c: c.device_address(),
        a_row: a_strides[0],
        a_k: a_strides[1],
        w_k: 0,
        w_n: blocks[1],
        s_k: 0,
        s_n: 0,
        c_row: c_strides[0],
        c_col: c_strides[1],
        c_slice: 0,
        block_k: FastDiv::new(1),
        block_n: FastDiv::new(1),
        m: rows as u32,
        n: n as u32,
        k: k as u32,
        slice_k: k as u32,
        scale_kind: 0,
        a_vector: u32::from(in_vectors),
    };
    let args = GroupedArgs::new(product, &told, each, &Apart { w_group: blocks[0], s_group_bytes: 0 });
    let grid = told.grid(op, [rows, n], tile)?;
    static SOURCES: Sources<(GgufKey, u128)> = Sources::new();
    let epilogue = epilogue.as_ref();
    let (hash, text) = epilogue::hash_and_text(epilogue);
    let key = GgufKey { input: a.dtype(), output, kind: w.kind, way, grouping: told.grouping };
    let source = SOURCES.get((key, hash), |_| source(key, text));
    let threads = way.threads(stream.device().arch().info().wave_size as usize);
    let launch = KernelLaunch::new(stream, &source, (op, way.kernel()), grid, [threads, 1, 1])
        .with(way.lds_bytes(), Work::default())
        .reading_early(matches!(way, Way::Staged(_)).then(|| w.blocks.buffer()));
    // SAFETY:
    // - `GroupedArgs` is the twin of the kernel's struct, sizes asserted on both sides. Groups that the kernel finds in `bounds`, of
    //   `groups` or one more elements, are held inside of the rows of A and C; choices, one for each row of C, inside of the rows of A.
    //   It reads A, C and the epilogue's tensors at those rows and at columns below N and k below K, and blocks of lines below N of
    //   groups below `groups`, with up to fifteen bytes before one that is not the first: checked views all.
    // - It writes C only, or the epilogue's outputs. Before it waits `gguf_staged.hip` reads blocks.
    unsafe { launch.run_with_epilogue(&args, epilogue, c.buffer(), None) }
}

/// How rows are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// By lanes.
    Few,
    /// By codes as operands of the matrix unit.
    Matrix(Tile),
    /// The same by way of LDS.
    Staged(gguf_staged::Tile),
    /// By tiles, on the matrix unit or not, of so many products or values of rows and columns.
    Tiles { matrix: bool, tiles: [usize; 2] },
}

impl Way {
    fn choose(
        stream: &Stream,
        dtype: DType,
        kind: Gguf,
        [rows, count, n, k]: [usize; 4],
        (in_vectors, line): (bool, Option<usize>),
    ) -> Way {
        let (device, mean) = (stream.device(), rows.div_ceil(count));
        let info = device.arch().info();
        let matrix = device.config().matrix && matrix_side(info, dtype) != 0;
        // Reading blocks for every 32 rows is faster than tiles for as many again on NVIDIA's cards.
        let most = if info.matrix == Matrix::MmaSync { 2 * ROWS_MAX } else { ROWS_MAX };
        if matrix && dtype != DType::F32 && in_vectors && mean <= most {
            // Groups are not alike: one of twice as many rows reads its blocks once too.
            let wanted = if count == 1 { rows } else { (2 * mean).min(ROWS_MAX) };
            let wanted = if rows == 1 { 1 } else { wanted };
            let sides = [n, k, count.min(rows)];
            if let Some(tile) = line.and_then(|line| gguf_staged::Tile::of(info, kind, wanted, sides, line)) {
                return Way::Staged(tile);
            }
            if let Some(tile) = Tile::of(info, kind, wanted, sides) {
                return Way::Matrix(tile);
            }
        }
        if rows <= FEW_ROWS || mean <= FEW_MEAN {
            return Way::Few;
        }
        // Of f32 no more than a low tile's rows of this depth have room in LDS.
        Way::tiles_of(matrix, 2 * mean <= LOW_ROWS || dtype == DType::F32)
    }

    pub(crate) fn tiles_of(matrix: bool, low: bool) -> Way {
        let tiles = match matrix {
            true => [if low { 1 } else { 2 }, 2],
            false => [if low { 2 } else { 4 }, 4],
        };
        Way::Tiles { matrix, tiles }
    }

    /// Rows and columns of a workgroup.
    fn tile(self) -> [usize; 2] {
        match self {
            Way::Few => [FEW_TILE, FEW_COLUMNS],
            Way::Matrix(tile) => tile.block,
            Way::Staged(tile) => tile.block,
            Way::Tiles { matrix, tiles } => tiles.map(|tiles| tiles * if matrix { 32 } else { 16 }),
        }
    }

    fn threads(self, wave: usize) -> usize {
        match self {
            Way::Few => FEW_BLOCK,
            Way::Matrix(tile) => tile.waves() * wave,
            Way::Staged(tile) => tile.waves() * wave,
            Way::Tiles { matrix: true, .. } => 4 * wave,
            Way::Tiles { matrix: false, .. } => BLOCK,
        }
    }

    fn kernel(self) -> &'static str {
        match self {
            Way::Few => "gguf_few",
            Way::Matrix(_) => "gguf_matrix",
            Way::Staged(_) => "gguf_staged",
            Way::Tiles { .. } => "q_matmul",
        }
    }

    /// Dynamic LDS.
    fn lds_bytes(self) -> u32 {
        match self {
            Way::Staged(tile) => tile.lds_bytes as u32,
            _ => 0,
        }
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GgufKey {
    pub input: DType,
    pub output: DType,
    pub kind: Gguf,
    pub way: Way,
    pub grouping: Grouping,
}

/// The source of one variant behind the text of an epilogue, or of none.
pub(crate) fn source(key: GgufKey, epilogue: &str) -> Source {
    let GgufKey { input, output, kind, way, grouping } = key;
    let gguf = ("Q_GGUF", kind.device_name());
    match way {
        Way::Tiles { matrix, tiles } => {
            let key = QMatmulKey {
                input,
                output,
                matrix,
                tiles,
                format: Format::I8,
                word: DType::U8,
                per: 1,
                along_k: true,
                late: true,
                deep: DEEP,
                rows: 0,
                wide: 0,
                grouping: Some(grouping),
            };
            let has_epilogue = ("Q_EPILOGUE", if epilogue.is_empty() { "0" } else { "1" });
            source_of(key, &[gguf, has_epilogue], epilogue::in_front(epilogue, GGUF_TILES))
        }
        Way::Few => {
            let listed = grouping == Grouping::Listed;
            let (text, [rows, columns]) =
                if listed { (GGUF_LISTED, [1, LISTED_COLUMNS]) } else { (GGUF_FEW, way.tile()) };
            let numbers = [("Q_ROWS", rows), ("Q_COLUMNS", columns)];
            source_of_few(key, ("gguf_few", epilogue::in_front(epilogue, text)), &numbers, !epilogue.is_empty())
        }
        Way::Matrix(tile) => {
            let text = ("gguf_matrix", epilogue::in_front(epilogue, GGUF_MATRIX));
            source_of_few(key, text, &tile.defines(), !epilogue.is_empty())
        }
        Way::Staged(tile) => {
            let text = ("gguf_staged", epilogue::in_front(epilogue, GGUF_STAGED));
            source_of_few(key, text, &tile.defines(), !epilogue.is_empty())
        }
    }
}

/// The same of a kernel of few rows.
fn source_of_few(
    key: GgufKey,
    (name, text): (&'static str, Cow<'static, str>),
    numbers: &[(&'static str, usize)],
    has_epilogue: bool,
) -> Source {
    let of_all =
        [("Q_PER", 1), ("Q_LATE", 1), ("Q_GROUPED", key.grouping as usize), ("Q_EPILOGUE", usize::from(has_epilogue))];
    let numbers: Vec<(&str, String)> =
        of_all.iter().chain(numbers).map(|&(name, value)| (name, value.to_string())).collect();
    let types = [
        ("Q_GGUF", key.kind.device_name()),
        ("Q_IN", c_type(key.input)),
        ("Q_OUT", c_type(key.output)),
        ("Q_WORD", c_type(DType::U8)),
        ("Q_FORMAT", Format::I8.number()),
    ];
    let defines: Vec<(&str, &str)> =
        types.into_iter().chain(numbers.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    Source::new(name, text, &defines)
}
