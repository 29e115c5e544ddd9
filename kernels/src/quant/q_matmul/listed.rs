//! `gguf_matmul_listed`: entries of a list, each a row by a matrix of its own in blocks of GGUF, by the kernel of few rows of
//! `gguf_few.hip`: as many tokens as decoding has, whose experts come in no order that offsets could tell.

use rocfire_hal::{DType, Error, Stream, View, ViewMut};

use super::gguf::{FEW_BLOCK, GgufKey, LISTED_COLUMNS, Way, source};
use super::grouped::{Apart, GroupedArgs};
use super::{QMatmulArgs, in_vectors_of_a};
use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, shape};
use crate::gemm::{Grouping, ToldGroups};
use crate::quant::gguf::GgufMatrices;

const OP: &str = "gguf_matmul_listed";

/// Which rows are multiplied, by which matrices, and where to; known on the device alone.
#[derive(Clone, Copy, Debug)]
pub struct ListedRows<'a> {
    /// The choice of each entry: I32 `[entries]`, contiguous. Choice `n` is row `n` of `c`, of row `n / each` of `a`. `None`: entry `n` is
    /// choice `n`.
    pub choices: Option<View<'a>>,
    /// The matrix of each entry: I32 `[entries]`, contiguous.
    pub matrices: View<'a>,
    /// How many choices have a row of `a`.
    pub each: usize,
    /// What each row of `c` is multiplied by: F32 `[rows of c]`, contiguous.
    pub factors: Option<View<'a>>,
}

/// `c[n] = factors[n] · (a[n / each] · w[matrix])` for every entry of a list, the weights read as blocks of GGUF, anew for each.
///
/// # Shapes
/// `w`: as [`gguf_matmul_grouped`](super::gguf_matmul_grouped) has them; `a` `[rows, K]`, `c` `[choices, N]`, with rows of `a` for all
/// choices. Rows of `c` that no entry has are left as they are, of two entries that have one either writes it. Choices beyond the rows
/// of `c` are passed over, and a matrix of -1; the next read of the device is an error if a matrix is another one that is not there.
/// # Types
/// `a` of f32, f16 or bf16, `c` of the same or f32; every type of GGUF.
/// # Numerics
/// As [`gguf_matmul_grouped`](super::gguf_matmul_grouped) of few rows: a row's bits do not depend on the others.
/// # Errors
/// `Shape` for blocks, rows and lists that do not fit; `Unsupported` for another type of `a`.
pub fn gguf_matmul_listed(
    stream: &Stream,
    a: View<'_>,
    w: &GgufMatrices<'_>,
    list: &ListedRows<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    let [count, k, n] = check(stream, &a, w, list, &c)?;
    let (rows, entries) = (c.shape()[0], list.matrices.len());
    if c.is_empty() || count == 0 {
        return Ok(());
    }
    static SOURCES: Sources<GgufKey> = Sources::new();
    let grouping = Grouping::Listed;
    let key = GgufKey { input: a.dtype(), output: c.dtype(), kind: w.kind, way: Way::Few, grouping };
    let source = SOURCES.get(key, |_| source(key, ""));
    let (a_strides, c_strides, strides) = (a.layout().strides(), c.layout().strides(), w.blocks.layout().strides());
    // The second axis of a grid has so many; more take more launches, each from a later entry on.
    for first in (0..entries).step_by(GRID_YZ_MAX) {
        let product = QMatmulArgs {
            a: a.device_address(),
            words: w.blocks.device_address(),
            scales: list.factors.map_or(0, |factors| factors.device_address()),
            c: c.view().device_address(),
            a_row: a_strides[0],
            a_k: a_strides[1],
            w_n: strides[1],
            c_row: c_strides[0],
            c_col: c_strides[1],
            block_k: FastDiv::new(1),
            block_n: FastDiv::new(1),
            m: rows as u32,
            n: n as u32,
            k: k as u32,
            slice_k: k as u32,
            a_vector: u32::from(in_vectors_of_a(&a)),
            ..bytemuck::Zeroable::zeroed()
        };
        let from = |view: &View<'_>| view.device_address() + 4 * first as u64;
        let told = ToldGroups {
            grouping,
            bounds: from(&list.matrices),
            choices: list.choices.as_ref().map_or(0, from),
            count,
            row_tiles: GRID_YZ_MAX.min(entries - first),
            each: list.each,
            a_rows: a.shape()[0],
        };
        let args = GroupedArgs::new(product, &told, first, &Apart { w_group: strides[0], s_group_bytes: 0 });
        let grid = [n.div_ceil(LISTED_COLUMNS), told.row_tiles, 1];
        let launch = KernelLaunch::new(stream, &source, (OP, "gguf_few"), grid, [FEW_BLOCK, 1, 1]);
        // SAFETY:
        // - `GroupedArgs` is the twin of the kernel's struct, sizes asserted on both sides. An entry's choice and matrix are compared with
        //   the rows of C, for all of which A has rows, and the factors, and with the matrices. It reads lists at entries below `row_tiles`,
        //   A at k below K, and blocks of lines below N, with up to two bytes before one that is not the first: checked views all.
        // - It writes C only.
        unsafe { launch.run(&args, &[c.buffer()])? };
    }
    Ok(())
}

/// Matrices, K and N.
fn check(
    stream: &Stream,
    a: &View<'_>,
    w: &GgufMatrices<'_>,
    list: &ListedRows<'_>,
    c: &ViewMut<'_>,
) -> Result<[usize; 3]> {
    if !matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: a.dtype(), arch: a.arch() }.into());
    }
    if c.dtype() != DType::F32 {
        family::same_dtype(OP, "c", c, a.dtype())?;
    }
    let (&[a_rows, own_k], &[rows, own_n]) = (a.shape(), c.shape()) else {
        return Err(shape(OP, "a", "two axes, as c has", format!("{:?} and {:?}", a.shape(), c.shape())));
    };
    let extents @ [_, k, n] = w.check(OP, a, c)?;
    if own_k != k {
        return Err(shape(OP, "a", format!("[rows, {k}]"), format!("{:?}", a.shape())));
    }
    if own_n != n {
        return Err(shape(OP, "c", format!("[choices, {n}]"), format!("{:?}", c.shape())));
    }
    if list.each == 0 || rows.div_ceil(list.each.max(1)) > a_rows {
        let expected = format!("rows for {rows} choices, {} a row", list.each);
        return Err(shape(OP, "a", expected, a_rows));
    }
    let entries = list.matrices.len();
    let lists = [("choices", list.choices.as_ref(), DType::I32, entries)];
    let lists = lists.into_iter().chain([("matrices", Some(&list.matrices), DType::I32, entries)]);
    for (arg, view, dtype, len) in lists.chain([("factors", list.factors.as_ref(), DType::F32, rows)]) {
        let Some(view) = view else { continue };
        family::on_device(OP, arg, stream, view)?;
        family::same_dtype(OP, arg, view, dtype)?;
        if view.shape() != [len] || !view.layout().is_contiguous() {
            let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
            return Err(shape(OP, arg, format!("contiguous [{len}]"), got));
        }
        family::disjoint(OP, arg, c, view)?;
    }
    for (arg, view) in [("a", a), ("blocks", &w.blocks)] {
        family::on_device(OP, arg, stream, view)?;
    }
    family::on_device(OP, "c", stream, c)?;
    family::writable(OP, "c", c)?;
    family::disjoint(OP, "a", c, a)?;
    let extents_of = [rows, n, k, w.blocks.shape()[2]];
    if extents_of.iter().any(|&extent| extent >= BOX_LIMIT) {
        return Err(shape(OP, "c", format!("extents below {BOX_LIMIT}"), format!("{extents_of:?}")));
    }
    Ok(extents)
}
