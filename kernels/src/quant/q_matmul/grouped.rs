//! `q_matmul_grouped`: groups of rows, each by a matrix of codes of its own, in one launch of the kernels of `q_matmul`.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Epilogue;
use rocfire_hal::{DType, Error, Layout, Stream, View, ViewMut};

use super::{
    BLOCK, Choice, CodedMatrix, FEW_ROWS, Kernel, Operands, QMatmulArgs, ROUND, SLICED_ROWS, STRIP_LANES, STRIP_ROWS,
    along, depth, matrix_side, serves_few, source, strip_widths, written::Coded,
};
use crate::Result;
use crate::epilogue::{self, BoundEpilogue};
use crate::family::{self, BOX_LIMIT, KernelLaunch, Sources, shape};
use crate::gemm::{GemmGroups, GroupArgs, ToldGroups};
use crate::quant::few::{self, Tile, units};
use crate::quant::few_along::{self, AlongKey};
use crate::quant::format::{CodeLayout, Packed, Scales};
use crate::quant::walk::fours;

const OP: &str = "q_matmul_grouped";
/// Why a kernel is never one of few rows by Hopper's products: `choose` makes none.
const NO_GROUPS: &str = "few_hopper.hip has no groups";
/// What memory gives at once: of a narrower strip's row the neighbour, who may be behind another L2, would fetch it anew.
const LINE_BYTES: usize = 128;

/// `c[rows of g] = a[rows of g] · w[g]` for every group `g`, the weights read as packed codes: nothing of them is written out for less
/// than 256 rows a group in the mean, and where no group has more rows than a tile each word of those that have any is read once.
///
/// # Shapes
/// `w`: `[groups, K, N]`, any strides; its scales by group: of blocks `[1, .., ..]`, or one of all. `a`, `c` and groups as
/// [`gemm_grouped`](crate::gemm::gemm_grouped) has them. Rows of no group are left as they are.
/// # Types
/// As [`q_matmul`](super::q_matmul).
/// # Numerics
/// As [`q_matmul`](super::q_matmul), but that K is never cut; where weights are written out, it is 128 MiB of them or one matrix at a time, and
/// the products are [`gemm_grouped`](crate::gemm::gemm_grouped)'s. Words of 32 bits along N enter exactly, with
/// scales on sums, where there are up to 64 rows a group in the mean: of 16 bits where there is a matrix unit, of every type where
/// there is none. So do words along K where [`q_matmul`](super::q_matmul) has them. By how many rows, and by which others, a row is
/// multiplied with changes no bit as long as that mean stays up to 64, between, or from 256 on.
/// # Errors
/// As [`q_matmul`](super::q_matmul) and [`gemm_grouped`](crate::gemm::gemm_grouped).
pub fn q_matmul_grouped(
    stream: &Stream,
    a: View<'_>,
    w: &CodedMatrix<'_>,
    groups: &GemmGroups<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    family::same_dtype(OP, "c", &c, a.dtype())?;
    check(stream, &a, w, groups, "c", &c)?;
    multiply(stream, a, w, groups, c.view(), None)
}

/// What `epilogue` computes of it: nothing but its outputs is written.
///
/// # Shapes
/// As [`q_matmul_grouped`]; the epilogue was made for the shape of `c` and products of the type of `a`.
/// # Errors
/// As [`q_matmul_grouped`], each output in `c`'s place; groups that are counted.
pub fn q_matmul_grouped_fused(
    stream: &Stream,
    a: View<'_>,
    w: &CodedMatrix<'_>,
    groups: &GemmGroups<'_>,
    epilogue: &Epilogue<'_>,
) -> Result<()> {
    if epilogue.result() != a.dtype() {
        return Err(shape(OP, "epilogue", format!("of products of {}", a.dtype()), epilogue.result()));
    }
    for output in epilogue.outputs() {
        check(stream, &a, w, groups, "output", output)?;
    }
    if matches!(groups, GemmGroups::Counts(_)) {
        return Err(shape(OP, "groups", "offsets behind an epilogue", "counts"));
    }
    match epilogue.outputs() {
        [] => Ok(()),
        [first, ..] => multiply(stream, a, w, groups, first.view(), Some(BoundEpilogue::new(epilogue))),
    }
}

fn check(
    stream: &Stream,
    a: &View<'_>,
    w: &CodedMatrix<'_>,
    groups: &GemmGroups<'_>,
    arg: &'static str,
    c: &ViewMut<'_>,
) -> Result<()> {
    let CodedMatrix { words, layout, scales } = w;
    if !matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: a.dtype(), arch: a.arch() }.into());
    }
    family::on_device(OP, "a", stream, a)?;
    family::on_device(OP, "words", stream, words)?;
    let [count, k, n] = extents(w)?;
    layout.check(OP, words, &[count, k, n])?;
    if k == 0 {
        return Err(shape(OP, "words", "at least one code along K", 0));
    }
    groups.check(OP, stream, a, [count, k, n], (arg, c))?;
    family::disjoint(OP, "words", c, words)?;
    if let Some(scales) = scales {
        family::on_device(OP, "scales", stream, &scales.view)?;
        scales.check(OP, &[count, k, n])?;
        if scales.block.first().is_some_and(|&block| block != 1) && scales.view.shape()[0] > 1 {
            return Err(shape(OP, "block", "scales of one group each", format!("{:?}", scales.block)));
        }
        family::disjoint(OP, "scales", c, &scales.view)?;
    }
    let rows = c.shape().iter().rev().skip(1).product::<usize>();
    if rows >= BOX_LIMIT || n >= BOX_LIMIT || k >= BOX_LIMIT {
        return Err(shape(OP, arg, format!("extents below {BOX_LIMIT}"), format!("{:?}", [rows, n, k])));
    }
    Ok(())
}

/// Groups, K and N of the codes.
fn extents(w: &CodedMatrix<'_>) -> Result<[usize; 3]> {
    let &[count, mut k, mut n] = w.words.shape() else {
        return Err(shape(OP, "words", "three axes, groups, K and N", format!("{:?}", w.words.shape())));
    };
    if let Some(Packed { axis, extent }) = w.layout.packed {
        match axis {
            1 => k = extent,
            2 => n = extent,
            _ => return Err(shape(OP, "words", "packed along K or N", format!("along axis {axis}"))),
        }
    }
    Ok([count, k, n])
}

fn multiply(
    stream: &Stream,
    a: View<'_>,
    w: &CodedMatrix<'_>,
    groups: &GemmGroups<'_>,
    c: View<'_>,
    epilogue: Option<BoundEpilogue<'_>>,
) -> Result<()> {
    let [count, k, n] = extents(w)?;
    if c.is_empty() || count == 0 {
        return Ok(());
    }
    let mean = c.shape().iter().rev().skip(1).product::<usize>() / count;
    let coded = Coded::Words(w);
    if let Some(at_once) = coded.at_once(stream, a.dtype(), mean, [k, n]) {
        return coded.multiply_groups(stream, a, groups, (c, epilogue), ([count, k, n], mean), at_once);
    }
    let mut copy = None;
    let ([a, c], each) = groups.lined_up(OP, stream, [a, c], &mut copy)?;
    // The first group's matrix, and how far it is to the next one's.
    let CodedMatrix { words, layout, scales } = w;
    let per = layout.per_word(words.dtype());
    let four = fours(words, layout, per, &[count, k, n]).filter(|&axis| axis > 0).map(|axis| axis - 1);
    let of_one = CodeLayout {
        packed: layout.packed.map(|packed| Packed { axis: packed.axis - 1, ..packed }),
        format: layout.format,
    };
    let first = |view: &View<'_>| -> Result<Layout> {
        let &[_, rows, cols] = view.shape() else { unreachable!("three axes were checked") };
        let one = view.layout().slice(0, 0, 1, 1)?;
        Ok(one.reshape(&[rows, cols]).expect("an axis of one matrix is left out"))
    };
    let words_of_one = words.with_layout(first(words)?)?;
    let scales_of_one = match scales {
        Some(scales) if !scales.block.is_empty() => {
            Some(Scales { view: scales.view.with_layout(first(&scales.view)?)?, block: &scales.block[1..], ..**scales })
        }
        other => other.copied(),
    };
    let one = CodedMatrix { words: words_of_one, layout: &of_one, scales: scales_of_one.as_ref() };
    let w_group = words.layout().strides()[0] / if four.is_some() { 4 } else { 1 };
    let s_group_bytes = match scales {
        Some(scales) if !scales.block.is_empty() && scales.view.shape()[0] > 1 => {
            scales.view.layout().strides()[0] * scales.kind.dtype().size_bytes() as i64
        }
        _ => 0,
    };
    let of = Operands::new(&a, &one, &c, four);
    let apart = Apart { w_group, s_group_bytes };
    let rows = c.shape()[0];
    let variant = choose(stream, &of, &apart, a.dtype(), [rows, count]);
    let told = groups.told(&a, [rows, each], variant.rows);
    let args = GroupedArgs::new(QMatmulArgs { m: rows as u32, ..of.args }, &told, each, &apart);
    let grid = told.grid(OP, [rows, n], [variant.rows, variant.columns])?;
    let kernel = match variant.kernel {
        Kernel::Few(key) => Kernel::Few(few::FewKey { grouping: Some(told.grouping), ..key }),
        Kernel::Along(key) => Kernel::Along(AlongKey { grouping: Some(told.grouping), ..key }),
        Kernel::Hopper(_) => unreachable!("{NO_GROUPS}"),
        Kernel::Other(key) => Kernel::Other(super::QMatmulKey { grouping: Some(told.grouping), ..key }),
    };
    static SOURCES: Sources<(Kernel, u128)> = Sources::new();
    let epilogue = epilogue.as_ref();
    let (hash, text) = epilogue::hash_and_text(epilogue);
    let source = SOURCES.get((kernel, hash), |_| match kernel {
        Kernel::Few(key) => few::source(key, text),
        Kernel::Along(key) => few_along::source(key, text),
        Kernel::Hopper(_) => unreachable!("{NO_GROUPS}"),
        Kernel::Other(key) => source(key, text),
    });
    let launch = KernelLaunch::new(stream, &source, (OP, variant.name), grid, [variant.threads, 1, 1]);
    // SAFETY:
    // - `GroupedArgs` is the twin of the kernel's struct, sizes asserted on both sides. Groups that the kernel finds in `bounds`, of
    //   `groups` or one more elements, are held inside of the rows of A and C; choices, one for each row of C, inside of the rows of A.
    //   It reads A, C and the epilogue's tensors at those rows and at columns below N and k below K, codes and scales of groups below
    //   `groups`: checked views all.
    // - It writes C only, or the epilogue's outputs.
    unsafe { launch.run_with_epilogue(&args, epilogue, c.buffer(), None) }
}

/// From one group's matrix to the next one's: words, and bytes of scales.
pub(super) struct Apart {
    pub w_group: i64,
    pub s_group_bytes: i64,
}

/// A kernel, its name, and what of C a workgroup has.
struct Variant {
    kernel: Kernel,
    name: &'static str,
    rows: usize,
    columns: usize,
    threads: usize,
}

/// The kernel of few rows where it serves, without a matrix unit strips, beyond `SLICED_ROWS` rows a group, or where neither serves,
/// tiles: by the mean of the groups' rows, as none is known here. What is chosen among the tiles of one kernel changes no bit.
fn choose(stream: &Stream, of: &Operands<'_>, apart: &Apart, dtype: DType, [rows, count]: [usize; 2]) -> Variant {
    let device = stream.device();
    let info = device.arch().info();
    let unit = device.config().matrix && matrix_side(info, dtype) != 0;
    let (wave, n) = (info.wave_size as usize, of.args.n as usize);
    let mean = rows.div_ceil(count);
    // Groups are not alike: one of twice as many rows reads its words once too.
    let wanted = 2 * mean;
    let busy = |columns: usize| {
        columns * of.format.bits() <= 8 * LINE_BYTES || n.div_ceil(columns) * count.min(rows) >= units(info)
    };
    let fits = |wide: usize| of.in_vectors(wide) && apart.w_group % wide as i64 == 0;
    if mean <= SLICED_ROWS && of.by_words() {
        if unit && serves_few(of, dtype) {
            let tile = Tile::of_groups(info.matrix, wanted.min(few::ROWS_MAX), of.per, fits, busy);
            if let Some(tile) = tile {
                let mut key = of.few_key(dtype, tile);
                key.beside &= apart.s_group_bytes % 16 == 0;
                let [rows, columns] = tile.block(info.matrix, of.per);
                return Variant { kernel: Kernel::Few(key), name: "few", rows, columns, threads: tile.waves * wave };
            }
        }
        if let Some((rows, wide)) = strip(of, wanted, fits, busy).filter(|_| !unit) {
            let choice = Choice { matrix: false, tiles: [0, 0], deep: ROUND, rows, wide };
            let columns = STRIP_LANES * of.per * wide;
            return Variant {
                kernel: Kernel::Other(of.key([dtype; 2], choice)),
                name: "q_strip",
                rows,
                columns,
                threads: BLOCK,
            };
        }
    }
    let serves = mean <= SLICED_ROWS && unit && apart.w_group % few_along::RUN_WORDS as i64 == 0;
    if let Some(tile) = along(info.matrix, of, dtype, wanted.clamp(2, few::ROWS_MAX)).filter(|_| serves) {
        let enough = n.div_ceil(tile.block[1]) * count.min(rows) >= units(info);
        let tile = if enough { tile } else { tile.narrowest() };
        let [rows, columns] = tile.block;
        let kernel = Kernel::Along(of.along_key(dtype, tile));
        return Variant { kernel, name: "few_along", rows, columns, threads: tile.waves * wave };
    }
    let few = wanted <= FEW_ROWS;
    let tiles = match unit {
        true => [if few { 1 } else { 2 }, 2],
        false => [if few { 2 } else { 4 }, 4],
    };
    let deep = if unit && few { depth(of.block_k()) } else { ROUND };
    let choice = Choice { matrix: unit, tiles, deep, rows: 0, wide: 0 };
    let [rows, columns] = tiles.map(|tiles| tiles * if unit { 32 } else { 16 });
    let threads = if unit { 4 * wave } else { BLOCK };
    Variant { kernel: Kernel::Other(of.key([dtype; 2], choice)), name: "q_matmul", rows, columns, threads }
}

/// Rows and words of a lane of the strip kernel: the most rows that are wanted, and words so many that workgroups keep a card busy.
fn strip(
    of: &Operands<'_>,
    wanted: usize,
    fits: impl Fn(usize) -> bool,
    busy: impl Fn(usize) -> bool,
) -> Option<(usize, usize)> {
    let all = STRIP_ROWS.into_iter();
    let (rows, sums) = all.clone().find(|&(rows, _)| wanted <= rows).or(all.last())?;
    let mut widths = strip_widths(of, rows, sums).filter(|&wide| fits(wide));
    let narrowest = widths.clone().next_back()?;
    let wide = widths.find(|&wide| busy(STRIP_LANES * of.per * wide)).unwrap_or(narrowest);
    Some((rows, wide))
}

/// `QMatmulArgs` of `coded.h` where products are grouped.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct GroupedArgs {
    product: QMatmulArgs,
    groups: GroupArgs,
}
const _: () = assert!(size_of::<GroupedArgs>() == 216);

impl GroupedArgs {
    /// Of a product of all rows. `each`: rows of a group that counts its own.
    pub(super) fn new(product: QMatmulArgs, told: &ToldGroups, each: usize, apart: &Apart) -> GroupedArgs {
        GroupedArgs { product, groups: told.args(each, [apart.w_group, apart.s_group_bytes]) }
    }
}
