//! `gemm_grouped`: groups of rows, each by a matrix of its own, in one launch of the tiles of `gemm`.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Epilogue;
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{
    BoundEpilogue, GRID_YZ_MAX, GemmArgs, GemmKey, GemmParams, Product, check, choose, chunk_of, epilogue, family,
    machine, shape, source_behind,
};
use crate::Result;
use crate::family::{KernelLaunch, Sources};
use crate::gemm::Unit;
use crate::gemm::tiling::Mode;

const OP: &str = "gemm_grouped";

/// Which rows are a group; known on the device alone.
#[derive(Clone, Copy, Debug)]
pub enum GemmGroups<'a> {
    /// Rows of `a` one group after the other: I32 `[groups + 1]`, contiguous, ascending, the first row of each and the end.
    Offsets(View<'a>),
    /// Groups of equally many rows of `a`, of which so many count: I32 `[groups]`, contiguous.
    Counts(View<'a>),
}

impl<'a> GemmGroups<'a> {
    fn bounds(&self) -> View<'a> {
        match *self {
            GemmGroups::Offsets(bounds) | GemmGroups::Counts(bounds) => bounds,
        }
    }
}

/// `c[rows of g] = a[rows of g] · b[g]` for every group `g`.
///
/// # Shapes
/// `b`: `[groups, K, N]`, any strides. [`GemmGroups::Offsets`]: `a` `[rows, K]`, `c` `[rows, N]`; [`GemmGroups::Counts`]: `a`
/// `[groups, rows, K]`, `c` `[groups, rows, N]`, whose first two axes form one. Rows of no group are left as they are. Offsets and
/// counts outside of what there is are held inside it.
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
    multiply(stream, a, b, groups, c.view(), None, params)
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
        [first, ..] => multiply(stream, a, b, groups, first.view(), Some(BoundEpilogue::new(epilogue)), params),
    }
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
    let bounds = groups.bounds();
    family::on_device(OP, "groups", stream, &bounds)?;
    family::on_device(OP, arg, stream, c)?;
    family::same_dtype(OP, "groups", &bounds, DType::I32)?;
    let &[count, k, n] = b.shape() else {
        return Err(shape(OP, "b", "[groups, K, N]", format!("{:?}", b.shape())));
    };
    let (entries, fits) = match groups {
        GemmGroups::Offsets(_) => (count + 1, matches!(*a.shape(), [_, own] if own == k)),
        GemmGroups::Counts(_) => (count, matches!(*a.shape(), [own_count, _, own] if own_count == count && own == k)),
    };
    if bounds.shape() != [entries] || !bounds.layout().is_contiguous() {
        let got = format!("{:?}, strides {:?}", bounds.shape(), bounds.layout().strides());
        return Err(shape(OP, "groups", format!("contiguous [{entries}]"), got));
    }
    if !fits {
        let expected = if entries == count { format!("[{count}, rows, {k}]") } else { format!("[rows, {k}]") };
        return Err(shape(OP, "a", expected, format!("{:?}", a.shape())));
    }
    let rows = &a.shape()[..a.shape().len() - 1];
    let equal = c.shape().split_last().is_some_and(|(&last, outer)| last == n && outer == rows);
    if !equal {
        return Err(shape(OP, arg, format!("{rows:?} by {n}"), format!("{:?}", c.shape())));
    }
    family::writable(OP, arg, c)?;
    for (arg, view) in [("a", a), ("b", b), ("groups", &bounds)] {
        family::disjoint(OP, arg, c, view)?;
    }
    Ok(())
}

fn multiply(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    groups: &GemmGroups<'_>,
    c: View<'_>,
    epilogue: Option<BoundEpilogue<'_>>,
    params: &GemmParams,
) -> Result<()> {
    if params.slice_k == Some(true) || params.vendor.is_some() {
        return Err(shape(OP, "params", "no slices of K and no plan of the vendor's", format!("{params:?}")));
    }
    if c.is_empty() || b.shape()[0] == 0 {
        return Ok(());
    }
    let (copy, each);
    let (a, c) = match groups {
        GemmGroups::Offsets(_) => {
            each = 0;
            (a, c)
        }
        GemmGroups::Counts(_) => {
            let &[count, rows, k] = a.shape() else { unreachable!("three axes were checked") };
            each = rows;
            let lies = c.layout().reshape(&[count * rows, c.shape()[2]]);
            let lies = lies.ok_or_else(|| {
                shape(OP, "c", "groups and rows that form one axis", format!("strides {:?}", c.layout().strides()))
            })?;
            let a = match a.layout().reshape(&[count * rows, k]) {
                Some(layout) => a.with_layout(layout)?,
                None => {
                    copy = family::contiguous(stream, a)?;
                    copy.view().with_layout(rocfire_hal::Layout::contiguous(&[count * rows, k])?)?
                }
            };
            (a, c.with_layout(lies)?)
        }
    };
    Product::new(stream, a, b, c, epilogue).run_grouped(groups, each, params)
}

impl Product<'_> {
    /// `self.b` has the groups as its first batch axis, though the product has none.
    fn run_grouped(self, groups: &GemmGroups<'_>, each: usize, params: &GemmParams) -> Result<()> {
        let device = self.stream.device();
        let info = device.arch().info();
        let unit = Unit::of(info, self.input);
        let unit = if device.config().matrix { unit } else { unit.without_matrix() }.reading(false);
        let machine = machine(&device);
        let (count, bounds) = match groups {
            GemmGroups::Offsets(bounds) => (bounds.len() - 1, bounds),
            GemmGroups::Counts(bounds) => (bounds.len(), bounds),
        };
        // By the mean of the groups: none is known here.
        let tiling = match params.tiling {
            Some(_) => self.tiling(params, unit, machine)?,
            None => choose(unit, self.input, [self.m.div_ceil(count), self.n], count, machine),
        };
        let [bm, bn] = tiling.block();
        let row_tiles = match each {
            0 => self.m / bm + count.min(self.m),
            rows => count * rows.div_ceil(bm),
        };
        let tiles = [self.n.div_ceil(bn), row_tiles];
        if tiles.iter().any(|&tiles| tiles > GRID_YZ_MAX) || self.k > i32::MAX as usize {
            let got = format!("M = {}, N = {}, K = {} in {count} groups", self.m, self.n, self.k);
            return Err(shape(OP, "c", format!("at most {GRID_YZ_MAX} tiles of {bm} x {bn} either way"), got));
        }
        if self.m > i32::MAX as usize {
            return Err(shape(OP, "a", format!("at most {} rows", i32::MAX), self.m));
        }
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
        let by_count = each > 0;
        let source = kept(key, self.epilogue.as_ref(), by_count);
        let args = GroupedArgs {
            gemm: GemmArgs {
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
                batch_axes: 0,
                batches: 1,
                m: self.m as u32,
                n: self.n as u32,
                k: self.k as u32,
                slice_k: self.k as u32,
                first_batch: 0,
                chunk: chunk_of(self.k) as u32,
            },
            bounds: bounds.device_address(),
            groups: count as u32,
            group_rows: each as u32,
            row_tiles: row_tiles as u32,
            unused: 0,
        };
        let block = [tiling.threads(info.wave_size as usize), 1, 1];
        let shape = [1, self.m, self.n, self.k];
        let launch = KernelLaunch::new(self.stream, &source, (OP, "gemm"), [tiles[0], tiles[1], 1], block);
        let launch = launch.with(key.staging.lds_bytes, self.work(&shape));
        // SAFETY:
        // - `GroupedArgs` is the twin of the kernel's struct, sizes asserted on both sides. Groups that the kernel finds in
        //   `bounds`, of `count` or one more elements, are held inside of the rows of A and C; it reads A, C and the epilogue's
        //   tensors at those rows and at columns below N and k below K, of B at groups below `count`: checked views all.
        // - It writes C only, or the epilogue's outputs.
        unsafe { launch.run_with_epilogue(&args, self.epilogue.as_ref(), self.c_buffer, None) }
    }
}

fn kept(key: GemmKey, epilogue: Option<&BoundEpilogue<'_>>, by_count: bool) -> Arc<Source> {
    static SOURCES: Sources<(GemmKey, u128, bool)> = Sources::new();
    let (hash, text) = epilogue::hash_and_text(epilogue);
    SOURCES.get((key, hash, by_count), |_| source_behind(key, text, 0, 1 + usize::from(by_count)))
}

/// The source of one variant; `by_count`: of groups that are counted.
pub(crate) fn grouped_source(key: GemmKey, by_count: bool) -> Source {
    source_behind(key, "", 0, 1 + usize::from(by_count))
}

/// `GemmArgs` of `gemm.hip` where products are grouped.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GroupedArgs {
    gemm: GemmArgs,
    bounds: u64,
    groups: u32,
    group_rows: u32,
    row_tiles: u32,
    unused: u32,
}
const _: () = assert!(size_of::<GroupedArgs>() == 304);
