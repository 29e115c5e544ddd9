//! `sort`: the launcher of `sort.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Source, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::family::{self, BOX_LIMIT, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type, shape};

const OP: &str = "sort";
/// Elements that a workgroup sorts in LDS: 12 KiB at most with their places, so that five workgroups share the smallest LDS.
const TILE: usize = 1024;
/// Lanes of a workgroup.
const BLOCK: usize = 256;
/// Most elements of a line for which tiles keep as many each: a tile then leaves at most a quarter of itself.
const KEEP_MAX: usize = TILE / 4;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

/// `values[.., m, ..]` = the `m`-th of `x[.., :, ..]` in order along axis `dim`; `indices` where it was. Outputs that are
/// shorter than `x` along `dim` get the first of each line: the smallest, or the largest, few.
///
/// # Shapes
/// `values` and `indices` as `x` but with at most as many along `dim`, both with the same. Any strides.
/// # Types
/// `x` and `values` of one type, any but `Bool`; `indices` i32 or i64.
/// # Numerics
/// Floats are ordered by IEEE 754's totalOrder: NaN above infinity (below all with its sign set), -0 below 0. Equal elements
/// keep their order, in descending order too.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, for no output at all, for 2³¹ elements along `dim` or 2³¹ tiles;
/// `Unsupported` for `Bool`.
pub fn sort(
    stream: &Stream,
    order: Order,
    dim: usize,
    x: View<'_>,
    values: Option<ViewMut<'_>>,
    indices: Option<ViewMut<'_>>,
) -> Result<()> {
    let kept = check(stream, dim, &x, values.as_ref().map(ViewMut::view), indices.as_ref().map(ViewMut::view))?;
    if kept == 0 || x.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<SortKey> = Sources::new();
    let index = indices.as_ref().map_or(DType::I32, |view| view.dtype());
    let source = SOURCES.get(SortKey { dtype: x.dtype(), index }, source);
    let space = Box3::of(x.shape(), dim);
    let dtype = x.dtype();
    let x = Input3::new(stream, x, dim)?;
    let values = values.map(|view| Output3::new(stream, view, dim, false)).transpose()?;
    let indices = indices.map(|view| Output3::new(stream, view, dim, false)).transpose()?;
    let lines = space.outer * space.inner;
    let flip = if order == Order::Descending { u64::MAX } else { 0 };
    let job =
        Job { stream, source: &source, x: &x, values: &values, indices: &indices, space, lines, kept, flip, dtype };
    job.run()?;
    for output in [values, indices].into_iter().flatten() {
        output.finish(stream)?;
    }
    Ok(())
}

/// Checks the arguments; how many of each line are wanted.
fn check(
    stream: &Stream,
    dim: usize,
    x: &View<'_>,
    values: Option<View<'_>>,
    indices: Option<View<'_>>,
) -> Result<usize> {
    family::on_device(OP, "x", stream, x)?;
    family::axis(OP, dim, x.layout().rank())?;
    if x.dtype() == DType::Bool {
        return Err(Error::Unsupported { op: OP, dtype: DType::Bool, arch: x.arch() }.into());
    }
    let extent = x.shape()[dim];
    let kept = match values.or(indices) {
        Some(view) => view.shape().get(dim).copied().unwrap_or(0),
        None => return Err(shape(OP, "values", "given where indices are not", "neither")),
    };
    if extent >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} elements along axis {dim}"), extent));
    }
    for (arg, view) in [("values", values), ("indices", indices)] {
        let Some(view) = view else { continue };
        family::on_device(OP, arg, stream, &view)?;
        let own = view.shape();
        let agree = own.len() == x.shape().len()
            && (0..own.len()).all(|axis| if axis == dim { own[axis] == kept } else { own[axis] == x.shape()[axis] });
        if !agree || kept > extent {
            let expected = format!("{:?} with at most {extent} at axis {dim}, as the other output", x.shape());
            return Err(shape(OP, arg, expected, format!("{own:?}")));
        }
        family::writable(OP, arg, &view)?;
        family::disjoint(OP, arg, &view, x)?;
    }
    if let Some(values) = values {
        family::same_dtype(OP, "values", &values, x.dtype())?;
    }
    if let Some(indices) = indices {
        if !matches!(indices.dtype(), DType::I32 | DType::I64) {
            return Err(shape(OP, "indices", "i32 or i64", indices.dtype()));
        }
        if let Some(values) = values {
            family::disjoint(OP, "values", &values, &indices)?;
        }
    }
    Ok(kept)
}

struct Job<'a> {
    stream: &'a Stream,
    source: &'a Source,
    x: &'a Input3<'a>,
    values: &'a Option<Output3<'a>>,
    indices: &'a Option<Output3<'a>>,
    space: Box3,
    lines: usize,
    kept: usize,
    flip: u64,
    dtype: DType,
}

/// Items of every line between two launches.
struct Items {
    keys: Tensor,
    places: Tensor,
    /// Items per line.
    extent: usize,
}

/// One launch.
struct Pass<'a> {
    kernel: &'static str,
    from: Option<&'a Items>,
    to: Option<&'a Items>,
    extent: usize,
    kept: usize,
    segment: usize,
    keep: usize,
    run: usize,
    tiles: usize,
    groups: usize,
}

impl Job<'_> {
    fn run(&self) -> Result<()> {
        let extent = self.space.middle;
        if extent <= TILE {
            self.tiles(None, None, extent, self.kept)
        } else if self.kept <= KEEP_MAX {
            self.first_few()
        } else {
            self.merges()
        }
    }

    /// Tiles keep as many items as are wanted of the line, until one tile holds all that is left.
    fn first_few(&self) -> Result<()> {
        let mut left: Option<Items> = None;
        let mut extent = self.space.middle;
        while extent > TILE {
            let fewer = self.items(extent.div_ceil(TILE) * self.kept)?;
            self.tiles(left.as_ref(), Some(&fewer), extent, self.kept)?;
            extent = fewer.extent;
            left = Some(fewer);
        }
        self.tiles(left.as_ref(), None, extent, self.kept)
    }

    /// Sorted tiles, then merges of runs twice as long each time.
    fn merges(&self) -> Result<()> {
        let extent = self.space.middle;
        let mut sorted = self.items(extent)?;
        self.tiles(None, Some(&sorted), extent, TILE)?;
        let mut spare: Option<Items> = None;
        let mut run = TILE;
        loop {
            let last = 2 * run >= extent;
            let kept = if last { self.kept } else { extent };
            let target = match spare.take() {
                _ if last => None,
                Some(items) => Some(items),
                None => Some(self.items(extent)?),
            };
            let tiles = kept.div_ceil(TILE);
            self.launch(&Pass {
                kernel: "sort_merge",
                from: Some(&sorted),
                to: target.as_ref(),
                extent,
                kept,
                segment: TILE,
                keep: 0,
                run,
                tiles,
                groups: self.lines * tiles,
            })?;
            match target {
                Some(target) => spare = Some(std::mem::replace(&mut sorted, target)),
                None => return Ok(()),
            }
            run *= 2;
        }
    }

    fn items(&self, extent: usize) -> Result<Items> {
        let key = if self.dtype.size_bytes() == 8 { DType::U64 } else { DType::U32 };
        let device = self.x.view().device().clone();
        let keys = Tensor::empty(&device, &[self.lines, extent], key)?;
        Ok(Items { keys, places: Tensor::empty(&device, &[self.lines, extent], DType::U32)?, extent })
    }

    /// Sorts every tile by itself and writes the first `keep` items of each.
    fn tiles(&self, from: Option<&Items>, to: Option<&Items>, extent: usize, keep: usize) -> Result<()> {
        let segment = extent.min(TILE).next_power_of_two();
        let tiles = extent.div_ceil(TILE);
        let groups = if tiles == 1 { self.lines.div_ceil(TILE / segment) } else { self.lines * tiles };
        let kept = to.map_or(self.kept, |items| items.extent);
        self.launch(&Pass { kernel: "sort_tiles", from, to, extent, kept, segment, keep, run: 0, tiles, groups })
    }

    fn launch(&self, pass: &Pass<'_>) -> Result<()> {
        if self.lines >= BOX_LIMIT || pass.groups >= BOX_LIMIT {
            return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} lines and tiles"), pass.groups.max(self.lines)));
        }
        let address = |tensor: &Tensor| tensor.view().device_address();
        let output = |output: &Option<Output3<'_>>| {
            output.as_ref().map_or((0, Strides3::default()), |output| (output.address(), output.strides()))
        };
        let (values, value_strides) = output(self.values);
        let (indices, index_strides) = output(self.indices);
        let args = SortArgs {
            x: if pass.from.is_none() { self.x.address() } else { 0 },
            keys: pass.from.map_or(0, |items| address(&items.keys)),
            places: pass.from.map_or(0, |items| address(&items.places)),
            values,
            indices,
            keys_out: pass.to.map_or(0, |items| address(&items.keys)),
            places_out: pass.to.map_or(0, |items| address(&items.places)),
            x_strides: self.x.strides(),
            value_strides,
            index_strides,
            flip: self.flip,
            extent: pass.extent as u32,
            kept: pass.kept as u32,
            segment_log2: pass.segment.trailing_zeros(),
            keep: pass.keep as u32,
            run: pass.run as u32,
            lines: self.lines as u32,
            tiles: FastDiv::new(pass.tiles),
            inner: FastDiv::new(self.space.inner),
        };
        let views = [self.values, self.indices].map(|output| output.as_ref().map(Output3::view));
        let buffer = |first: usize, other: usize| {
            let view = views[first].as_ref().or(views[other].as_ref());
            view.expect("an output is there, as checked").buffer()
        };
        let written = match pass.to {
            Some(items) => [items.keys.buffer(), items.places.buffer()],
            None => [buffer(0, 1), buffer(1, 0)],
        };
        let grid = [pass.groups, 1, 1];
        // SAFETY:
        // - `SortArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernels read `extent` items of
        //   each of `lines` lines, of `x` or of the items made for them, and write `kept` of each: all inside checked views
        //   and the tensors of `items`.
        // - They write the items of `to`, or else the values and indices.
        unsafe {
            KernelLaunch::new(self.stream, self.source, (OP, pass.kernel), grid, [BLOCK, 1, 1]).run(&args, &written)
        }
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SortKey {
    pub dtype: DType,
    pub index: DType,
}

/// The source of one variant.
pub(crate) fn source(key: SortKey) -> Source {
    let kind = match key.dtype {
        dtype if dtype.is_float() => "2",
        dtype if dtype.is_unsigned_int() => "0",
        _ => "1",
    };
    let tile = TILE.to_string();
    let defines = [
        ("SORT_TYPE", c_type(key.dtype)),
        ("SORT_INDEX", c_type(key.index)),
        ("SORT_TILE", tile.as_str()),
        ("SORT_KIND", kind),
    ];
    Source::new("sort", include_str!("sort.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let indices = [DType::I32, DType::I64].into_iter().filter(move |_| dtype != DType::Bool);
    indices.map(move |index| (OP, source(SortKey { dtype, index })))
}

/// `SortArgs` of `sort.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SortArgs {
    x: u64,
    keys: u64,
    places: u64,
    values: u64,
    indices: u64,
    keys_out: u64,
    places_out: u64,
    x_strides: Strides3,
    value_strides: Strides3,
    index_strides: Strides3,
    flip: u64,
    extent: u32,
    kept: u32,
    segment_log2: u32,
    keep: u32,
    run: u32,
    lines: u32,
    tiles: FastDiv,
    inner: FastDiv,
}
const _: () = assert!(size_of::<SortArgs>() == 184);

#[cfg(test)]
mod tests;
