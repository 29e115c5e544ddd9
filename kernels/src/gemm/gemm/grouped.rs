//! `gemm_grouped`: groups of rows, each by a matrix of its own, in one launch of the tiles of `gemm`; `gemm_grouped_transposed`:
//! the rows of two matrices, a product for each group.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Epilogue;
use rocfire_hal::{DType, Layout, Stream, Tensor, View, ViewMut};

use super::{
    BoundEpilogue, CHUNK, GRID_YZ_MAX, GemmArgs, GemmKey, GemmParams, Product, check, choose, chunk_of, epilogue,
    family, machine, shape, source_behind,
};
use crate::Result;
use crate::family::{KernelLaunch, Sources};
use crate::gemm::Unit;
use crate::gemm::sources::Grouping;
use crate::gemm::tiling::{Mode, Tiling};

const OP: &str = "gemm_grouped";

/// Which rows are a group; known on the device alone.
#[derive(Clone, Copy, Debug)]
pub enum GemmGroups<'a> {
    /// Rows of `a` one group after the other: I32 `[groups + 1]`, contiguous, ascending, the first row of each and the end.
    Offsets(View<'a>),
    /// Groups of equally many rows of `a`, of which so many count: I32 `[groups]`, contiguous.
    Counts(View<'a>),
    /// Rows of `c` one group after the other, each a choice of a row of `a`: a row that several groups take is not copied.
    Choices {
        /// As [`GemmGroups::Offsets`], of rows of `c`.
        offsets: View<'a>,
        /// The choice of each row of `c`: I32 `[rows of c]`, contiguous. What lies beyond the choices there are takes the last row.
        order: View<'a>,
        /// How many choices have a row of `a`: choice `n` is of row `n / each`.
        each: usize,
    },
}

impl<'a> GemmGroups<'a> {
    fn bounds(&self) -> View<'a> {
        match *self {
            GemmGroups::Offsets(bounds) | GemmGroups::Counts(bounds) => bounds,
            GemmGroups::Choices { offsets, .. } => offsets,
        }
    }

    /// How many they are, checked.
    fn count(&self) -> usize {
        match self {
            GemmGroups::Offsets(bounds) => bounds.len() - 1,
            GemmGroups::Counts(bounds) => bounds.len(),
            GemmGroups::Choices { offsets, .. } => offsets.len() - 1,
        }
    }

    /// Checks the groups of products of `a` by `count` matrices of `k` rows and `n` columns, and what is written against all that is
    /// read but the matrices.
    pub(crate) fn check(
        &self,
        op: &'static str,
        stream: &Stream,
        a: &View<'_>,
        [count, k, n]: [usize; 3],
        (arg, c): (&'static str, &ViewMut<'_>),
    ) -> Result<()> {
        let bounds = self.bounds();
        family::on_device(op, "groups", stream, &bounds)?;
        family::on_device(op, arg, stream, c)?;
        family::same_dtype(op, "groups", &bounds, DType::I32)?;
        let (entries, fits) = match self {
            GemmGroups::Offsets(_) | GemmGroups::Choices { .. } => {
                (count + 1, matches!(*a.shape(), [_, own] if own == k))
            }
            GemmGroups::Counts(_) => {
                (count, matches!(*a.shape(), [own_count, _, own] if own_count == count && own == k))
            }
        };
        if bounds.shape() != [entries] || !bounds.layout().is_contiguous() {
            let got = format!("{:?}, strides {:?}", bounds.shape(), bounds.layout().strides());
            return Err(shape(op, "groups", format!("contiguous [{entries}]"), got));
        }
        if !fits {
            let expected = if entries == count { format!("[{count}, rows, {k}]") } else { format!("[rows, {k}]") };
            return Err(shape(op, "a", expected, format!("{:?}", a.shape())));
        }
        let chosen;
        let rows = match self {
            GemmGroups::Choices { order, each, .. } => {
                check_order(op, stream, order, *each, a, c)?;
                chosen = [order.len()];
                &chosen
            }
            _ => &a.shape()[..a.shape().len() - 1],
        };
        let equal = c.shape().split_last().is_some_and(|(&last, outer)| last == n && outer == rows);
        if !equal {
            return Err(shape(op, arg, format!("{rows:?} by {n}"), format!("{:?}", c.shape())));
        }
        family::writable(op, arg, c)?;
        for (arg, view) in [("a", a), ("groups", &bounds)] {
            family::disjoint(op, arg, c, view)?;
        }
        Ok(())
    }

    /// The groups from `first` to `end`, with the rows of `a` and `c`, checked, that they count from.
    pub(crate) fn part<'v>(
        &self,
        [a, c]: [View<'v>; 2],
        [first, end]: [usize; 2],
    ) -> Result<(GemmGroups<'a>, [View<'v>; 2])> {
        Ok(match *self {
            GemmGroups::Offsets(bounds) => (GemmGroups::Offsets(outermost(bounds, [first, end + 1])?), [a, c]),
            GemmGroups::Choices { offsets, order, each } => {
                (GemmGroups::Choices { offsets: outermost(offsets, [first, end + 1])?, order, each }, [a, c])
            }
            GemmGroups::Counts(counts) => {
                let own = [first, end];
                (GemmGroups::Counts(outermost(counts, own)?), [outermost(a, own)?, outermost(c, own)?])
            }
        })
    }

    /// `a` and `c`, checked, with all rows on one axis, and how many a group has that counts them, else 0. `copy` has those of an `a`
    /// that has none.
    pub(crate) fn lined_up<'v>(
        &self,
        op: &'static str,
        stream: &Stream,
        [a, c]: [View<'v>; 2],
        copy: &'v mut Option<Tensor>,
    ) -> Result<([View<'v>; 2], usize)> {
        let GemmGroups::Counts(_) = self else { return Ok(([a, c], 0)) };
        let &[count, rows, k] = a.shape() else { unreachable!("three axes were checked") };
        let lies = c.layout().reshape(&[count * rows, c.shape()[2]]);
        let lies = lies.ok_or_else(|| {
            shape(op, "c", "groups and rows that form one axis", format!("strides {:?}", c.layout().strides()))
        })?;
        let a = match a.layout().reshape(&[count * rows, k]) {
            Some(layout) => a.with_layout(layout)?,
            None => {
                let copy = copy.insert(family::contiguous(stream, a)?);
                copy.view().with_layout(Layout::contiguous(&[count * rows, k])?)?
            }
        };
        Ok(([a, c.with_layout(lies)?], rows))
    }

    /// How they are told to a kernel whose tiles have so many of the `rows` of C, of which a group that counts its own has `each`.
    pub(crate) fn told(&self, a: &View<'_>, [rows, each]: [usize; 2], tile: usize) -> ToldGroups {
        let (grouping, count) = (self.grouping(), self.count());
        let (choices, row_each, a_rows) = match self {
            GemmGroups::Choices { order, each, .. } => (order.device_address(), *each, a.shape()[0]),
            _ => (0, 0, 0),
        };
        let row_tiles = match each {
            0 => rows / tile + count.min(rows),
            each => count * each.div_ceil(tile),
        };
        let bounds = self.bounds().device_address();
        ToldGroups { grouping, bounds, choices, count, row_tiles, each: row_each, a_rows }
    }

    fn grouping(&self) -> Grouping {
        match self {
            GemmGroups::Offsets(_) => Grouping::Offsets,
            GemmGroups::Counts(_) => Grouping::Counts,
            GemmGroups::Choices { .. } => Grouping::Choices,
        }
    }
}

/// Groups as a kernel's arguments have them.
pub(crate) struct ToldGroups {
    pub grouping: Grouping,
    pub bounds: u64,
    pub choices: u64,
    pub count: usize,
    /// Tiles of rows that groups can fill at most.
    pub row_tiles: usize,
    /// Choices of a row of A.
    pub each: usize,
    pub a_rows: usize,
}

/// The end of a kernel's arguments where its products are grouped, behind those of one product: `coded.h`, `scaled.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct GroupArgs {
    bounds: u64,
    choices: u64,
    /// From one group's matrix to the next one's, and from its scales.
    apart: [i64; 2],
    groups: u32,
    group_rows: u32,
    each: u32,
    a_rows: u32,
    /// The kernel's own: the first row of a tile's group, once that is found.
    first_row: u32,
    unused: u32,
}

impl ToldGroups {
    /// All of `rows`, a group that the host knows, for tiles of so many.
    pub(crate) fn whole(rows: usize, tile: usize) -> ToldGroups {
        let (bounds, choices, each, a_rows) = (0, 0, 0, 0);
        ToldGroups {
            grouping: Grouping::Whole,
            bounds,
            choices,
            count: 1,
            row_tiles: rows.div_ceil(tile),
            each,
            a_rows,
        }
    }

    /// As the end of arguments. `each`: rows of a group that counts its own.
    pub(crate) fn args(&self, each: usize, apart: [i64; 2]) -> GroupArgs {
        GroupArgs {
            bounds: self.bounds,
            choices: self.choices,
            apart,
            groups: self.count as u32,
            group_rows: each as u32,
            each: self.each as u32,
            a_rows: self.a_rows as u32,
            first_row: 0,
            unused: 0,
        }
    }

    /// Tiles of columns, and of rows as groups can fill them at most.
    pub(crate) fn grid(
        &self,
        op: &'static str,
        [rows, n]: [usize; 2],
        [tile_rows, columns]: [usize; 2],
    ) -> Result<[usize; 3]> {
        let grid = [n.div_ceil(columns), self.row_tiles, 1];
        if grid[..2].iter().any(|&tiles| tiles > GRID_YZ_MAX) {
            let got = format!("{rows} rows of {n} columns in {} groups", self.count);
            let expected = format!("at most {GRID_YZ_MAX} tiles of {tile_rows} x {columns} either way");
            return Err(shape(op, "c", expected, got));
        }
        Ok(grid)
    }
}

/// `c[rows of g] = a[rows of g] · b[g]` for every group `g`.
///
/// # Shapes
/// `b`: `[groups, K, N]`, any strides. [`GemmGroups::Offsets`]: `a` `[rows, K]`, `c` `[rows, N]`; [`GemmGroups::Counts`]: `a`
/// `[groups, rows, K]`, `c` `[groups, rows, N]`, whose first two axes form one; [`GemmGroups::Choices`]: `a` `[rows, K]`, `c`
/// `[choices, N]`. Rows of no group are left as they are. Offsets, counts and choices outside of what there is are held inside it.
/// # Types, numerics
/// As [`gemm`](super::gemm()), by our own kernels: each row has the bits that it would have alone.
/// # Errors
/// As [`gemm`](super::gemm()).
pub fn gemm_grouped(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    groups: &GemmGroups<'_>,
    c: ViewMut<'_>,
    params: &GemmParams,
) -> Result<()> {
    check(stream, &a, &b, c.dtype())?;
    check_output(stream, &a, &b, groups, "c", &c)?;
    multiply(stream, a, b, groups, (c.view(), None), mean(&c.view(), groups), params)
}

/// What `epilogue` computes of it: nothing but its outputs is written.
///
/// # Shapes
/// As [`gemm_grouped`]; the epilogue was made for the shape of `c`.
/// # Errors
/// As [`gemm_grouped`], each output in `c`'s place.
pub fn gemm_grouped_fused(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    groups: &GemmGroups<'_>,
    epilogue: &Epilogue<'_>,
    params: &GemmParams,
) -> Result<()> {
    check(stream, &a, &b, epilogue.result())?;
    for output in epilogue.outputs() {
        check_output(stream, &a, &b, groups, "output", output)?;
    }
    if matches!(groups, GemmGroups::Counts(_)) {
        return Err(shape(OP, "groups", "offsets behind an epilogue", "counts"));
    }
    match epilogue.outputs() {
        [] => Ok(()),
        [first, ..] => {
            let c = (first.view(), Some(BoundEpilogue::new(epilogue)));
            multiply(stream, a, b, groups, c, mean(&first.view(), groups), params)
        }
    }
}

/// What `first` to `end` of the first axis has.
pub(crate) fn outermost(view: View<'_>, [first, end]: [usize; 2]) -> Result<View<'_>> {
    Ok(view.with_layout(view.layout().slice(0, first, end, 1)?)?)
}

/// Rows a group, of all of C.
fn mean(c: &View<'_>, groups: &GemmGroups<'_>) -> usize {
    c.shape().iter().rev().skip(1).product::<usize>().div_ceil(groups.count().max(1))
}

/// Checks the groups, and what is written against all that is read.
fn check_output(
    stream: &Stream,
    a: &View<'_>,
    b: &View<'_>,
    groups: &GemmGroups<'_>,
    arg: &'static str,
    c: &ViewMut<'_>,
) -> Result<()> {
    let &[count, k, n] = b.shape() else {
        return Err(shape(OP, "b", "[groups, K, N]", format!("{:?}", b.shape())));
    };
    groups.check(OP, stream, a, [count, k, n], (arg, c))?;
    family::disjoint(OP, "b", c, b)
}

/// Checks a list of choices of rows of `a`.
fn check_order(
    op: &'static str,
    stream: &Stream,
    order: &View<'_>,
    each: usize,
    a: &View<'_>,
    c: &ViewMut<'_>,
) -> Result<()> {
    family::on_device(op, "order", stream, order)?;
    family::same_dtype(op, "order", order, DType::I32)?;
    if order.layout().rank() != 1 || !order.layout().is_contiguous() {
        let got = format!("{:?}, strides {:?}", order.shape(), order.layout().strides());
        return Err(shape(op, "order", "contiguous [choices]", got));
    }
    if each == 0 || each > i32::MAX as usize {
        return Err(shape(op, "each", format!("1 to {}", i32::MAX), each));
    }
    if a.shape()[0] == 0 && !order.is_empty() {
        return Err(shape(op, "a", "a row to choose", format!("{:?}", a.shape())));
    }
    family::disjoint(op, "order", c, order)
}

/// The product, checked. `c`: what is written first of the epilogue's outputs, where there is one; `mean`: rows a group, which tiles are
/// chosen by: none is known here.
pub(crate) fn multiply(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    groups: &GemmGroups<'_>,
    (c, epilogue): (View<'_>, Option<BoundEpilogue<'_>>),
    mean: usize,
    params: &GemmParams,
) -> Result<()> {
    if params.slice_k == Some(true) || params.vendor.is_some() {
        return Err(shape(OP, "params", "no slices of K and no plan of the vendor's", format!("{params:?}")));
    }
    if c.is_empty() || b.shape()[0] == 0 {
        return Ok(());
    }
    let mut copy = None;
    let ([a, c], each) = groups.lined_up(OP, stream, [a, c], &mut copy)?;
    Product::new(stream, a, b, c, epilogue).run_grouped(groups, [each, mean], params)
}

/// `c[g] = a[rows of g]ᵀ · b[rows of g]` for every group `g`: the gradients of the matrices of [`gemm_grouped`].
///
/// # Shapes
/// `a`: `[rows, M]`, `b`: `[rows, N]`, `c`: `[groups, M, N]`, any strides; offsets I32 `[groups + 1]`, contiguous: the first row of
/// each group, and the end, held inside of the rows there are. A group without rows gives zeros.
/// # Types, numerics
/// As [`gemm`](super::gemm()), by our own kernels. Sums are of 1024 rows of a group at a time, so that a group's bits do not depend
/// on the other groups.
/// # Errors
/// As [`gemm`](super::gemm()).
pub fn gemm_grouped_transposed(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    offsets: View<'_>,
    c: ViewMut<'_>,
    params: &GemmParams,
) -> Result<()> {
    const OP: &str = "gemm_grouped_transposed";
    check(stream, &a, &b, c.dtype())?;
    for (arg, view) in [("c", &c.view()), ("offsets", &offsets)] {
        family::on_device(OP, arg, stream, view)?;
    }
    family::same_dtype(OP, "offsets", &offsets, DType::I32)?;
    let &[groups, m, n] = c.shape() else {
        return Err(shape(OP, "c", "[groups, M, N]", format!("{:?}", c.shape())));
    };
    let rows = match *a.shape() {
        [rows, own] if own == m => rows,
        _ => return Err(shape(OP, "a", format!("[rows, {m}]"), format!("{:?}", a.shape()))),
    };
    if b.shape() != [rows, n] {
        return Err(shape(OP, "b", format!("[{rows}, {n}]"), format!("{:?}", b.shape())));
    }
    if offsets.shape() != [groups + 1] || !offsets.layout().is_contiguous() {
        let got = format!("{:?}, strides {:?}", offsets.shape(), offsets.layout().strides());
        return Err(shape(OP, "offsets", format!("contiguous [{}]", groups + 1), got));
    }
    if params.slice_k == Some(true) || params.vendor.is_some() {
        return Err(shape(OP, "params", "no slices of K and no plan of the vendor's", format!("{params:?}")));
    }
    family::writable(OP, "c", &c)?;
    for (arg, view) in [("a", &a), ("b", &b), ("offsets", &offsets)] {
        family::disjoint(OP, arg, &c, view)?;
    }
    if c.is_empty() {
        return Ok(());
    }
    if groups > GRID_YZ_MAX || rows > i32::MAX as usize {
        let expected = format!("at most {GRID_YZ_MAX} groups of {} rows in all", i32::MAX);
        return Err(shape(OP, "c", expected, format!("{groups} groups of {rows} rows")));
    }
    let transposed = a.with_layout(a.layout().swap(0, 1)?)?;
    let whole = c.view();
    let first = whole.layout().slice(0, 0, 1, 1)?.reshape(&[m, n]);
    let first = first.ok_or_else(|| shape(OP, "c", "matrices of rows and columns", format!("{:?}", c.layout())))?;
    let mut product = Product::new(stream, transposed, b, whole.with_layout(first)?, None);
    (product.axes, product.extents[0], product.c.batch[0]) = (1, groups, whole.layout().strides()[0]);
    product.run_deep(&offsets, params)
}

impl Product<'_> {
    /// `self.b` has the groups as its first batch axis, though the product has none.
    fn run_grouped(self, groups: &GemmGroups<'_>, [each, mean]: [usize; 2], params: &GemmParams) -> Result<()> {
        let (tiling, unit) = self.grouped_tiling([groups.count(), mean], params)?;
        let [bm, bn] = tiling.block();
        let told = groups.told(&self.reads[0], [self.m, each], bm);
        let vector = tiling.vector(self.input);
        // Groups begin at any row, so that vectors across rows would not be aligned.
        let a = match self.mode(&self.a, self.m, vector) {
            Mode::VectorLine => Mode::SingleLine,
            mode => mode,
        };
        let b = self.mode(&self.b, self.n, vector);
        let chunked = self.k.div_ceil(chunk_of(self.k)) > 1 && !self.input.is_int();
        let staging = tiling.staging(unit, [a, b], chunked);
        let key = GemmKey { input: self.input, output: self.output, tf32: false, tiling, a, b, chunked, staging };
        let args = GroupedArgs {
            bounds: told.bounds,
            choices: told.choices,
            groups: told.count as u32,
            group_rows: each as u32,
            row_tiles: told.row_tiles as u32,
            each: told.each as u32,
            a_rows: told.a_rows as u32,
            ..self.grouped_args(1, chunk_of(self.k))
        };
        self.launch_grouped(key, told.grouping, [self.n.div_ceil(bn), told.row_tiles, 1], &args)
    }

    /// The rows of groups are K, and a group is a batch.
    fn run_deep(self, offsets: &View<'_>, params: &GemmParams) -> Result<()> {
        let groups = self.extents[0];
        let (tiling, unit) = self.grouped_tiling([groups, self.m], params)?;
        let [bm, bn] = tiling.block();
        let vector = tiling.vector(self.input);
        // Groups begin at any row, so that vectors along rows would not be aligned.
        let modes = [(&self.a, self.m), (&self.b, self.n)].map(|(operand, lines)| {
            let mode = self.mode(operand, lines, vector);
            if mode == Mode::VectorK { Mode::SingleK } else { mode }
        });
        let chunked = self.k > CHUNK && !self.input.is_int();
        let staging = tiling.staging(unit, modes, chunked);
        let [a, b] = modes;
        let key = GemmKey { input: self.input, output: self.output, tf32: false, tiling, a, b, chunked, staging };
        let bounds = offsets.device_address();
        let args = GroupedArgs { bounds, groups: groups as u32, ..self.grouped_args(groups, CHUNK) };
        self.launch_grouped(key, Grouping::Depth, [self.n.div_ceil(bn), self.m.div_ceil(bm), groups], &args)
    }

    /// Of groups of so many rows each: where they are batches, M is a group's own.
    fn grouped_tiling(&self, [groups, rows]: [usize; 2], params: &GemmParams) -> Result<(Tiling, Unit)> {
        let device = self.stream.device();
        let unit = Unit::of(device.arch().info(), self.input);
        let unit = if device.config().matrix { unit } else { unit.without_matrix() }.reading(false);
        let machine = machine(&device);
        let tiling = match params.tiling {
            Some(_) => self.tiling(params, unit, machine)?,
            None => choose(unit, self.input, [rows, self.n], groups, machine),
        };
        Ok((tiling, unit))
    }

    /// The product's part of the arguments.
    fn grouped_args(&self, batches: usize, chunk: usize) -> GroupedArgs {
        let gemm = GemmArgs {
            a: self.a.address,
            b: self.b.address,
            c: self.c.address,
            a_row: self.a.line,
            a_k: self.a.depth,
            b_k: self.b.depth,
            b_col: self.b.line,
            c_row: self.c.line,
            c_col: self.c.depth,
            c_slice: 0,
            a_batch: self.a.batch,
            b_batch: self.b.batch,
            c_batch: self.c.batch,
            batch_extent: self.extents.map(|extent| extent as u32),
            batch_axes: self.axes as u32,
            batches: batches as u32,
            m: self.m as u32,
            n: self.n as u32,
            k: self.k as u32,
            slice_k: self.k as u32,
            first_batch: 0,
            chunk: chunk as u32,
        };
        GroupedArgs { gemm, ..GroupedArgs::zeroed() }
    }

    fn launch_grouped(&self, key: GemmKey, grouping: Grouping, grid: [usize; 3], args: &GroupedArgs) -> Result<()> {
        let [bm, bn] = key.tiling.block();
        if grid[..2].iter().any(|&tiles| tiles > GRID_YZ_MAX) || self.k > i32::MAX as usize {
            let got = format!("M = {}, N = {}, K = {} in {} groups", self.m, self.n, self.k, args.groups);
            return Err(shape(OP, "c", format!("at most {GRID_YZ_MAX} tiles of {bm} x {bn} either way"), got));
        }
        if self.m > i32::MAX as usize {
            return Err(shape(OP, "c", format!("at most {} rows", i32::MAX), self.m));
        }
        static SOURCES: Sources<(GemmKey, u128, Grouping)> = Sources::new();
        let epilogue = self.epilogue.as_ref();
        let (hash, text) = epilogue::hash_and_text(epilogue);
        let source = SOURCES.get((key, hash, grouping), |_| source_behind(key, text, 0, Some(grouping)));
        let wave = self.stream.device().arch().info().wave_size as usize;
        let shape = [1, self.m, self.n, self.k];
        let launch = KernelLaunch::new(self.stream, &source, (OP, "gemm"), grid, [key.tiling.threads(wave), 1, 1]);
        let launch = launch.with(key.staging.lds_bytes, self.work(&shape));
        // SAFETY:
        // - `GroupedArgs` is the twin of the kernel's struct, sizes asserted on both sides. Groups that the kernel finds in
        //   `bounds`, of `groups` or one more elements, are held inside of the rows of A and C, or of A and B along K; choices, one
        //   for each row of C, inside of the rows of A. It reads A, C and the epilogue's tensors at those rows and at columns below N
        //   and k below K, of B at groups below `groups`: checked views all.
        // - It writes C only, at batches below `groups` where rows are K, or the epilogue's outputs.
        unsafe { launch.run_with_epilogue(args, epilogue, self.c_buffer, None) }
    }
}

/// `GemmArgs` of `gemm.hip` where products are grouped.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GroupedArgs {
    gemm: GemmArgs,
    bounds: u64,
    choices: u64,
    groups: u32,
    group_rows: u32,
    row_tiles: u32,
    each: u32,
    a_rows: u32,
    unused: u32,
}
const _: () = assert!(size_of::<GroupedArgs>() == 320);
