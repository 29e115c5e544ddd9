//! `maximum`: the launchers of `maximum.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Source, Stream, View, ViewMut};

use super::{AXES, Image, PoolParams, SPATIAL, Windows, check};
use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, KernelLaunch, Sources, c_type, outer_runs, shape, sum_dtype};

/// What a window's largest element is where it holds NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nan {
    /// NaN, the last of them.
    Any,
    /// NaN if its first element is; else the largest of the numbers.
    First,
}

/// The largest element of each window and, if asked, its number in its image, row after row.
///
/// # Shapes
/// `x`: `[batch, channels, spatial…]` with one to three axes; `out`: as many windows per axis as are wanted; `indices` as `out`.
/// Any strides.
/// # Types
/// `x` and `out` of one float type; `indices` of any integer type.
/// # Numerics
/// Elements are moved as bits. The first of equals; as `nan` says where a window holds one; minus infinity and index -1 for a
/// window that lies outside.
/// # Errors
/// `Shape` for shapes, parameters, layouts that do not fit and for images of 2³¹ elements; `Unsupported` for types that are no
/// floats.
pub fn max_pool(
    stream: &Stream,
    x: View<'_>,
    params: &PoolParams<'_>,
    nan: Nan,
    out: ViewMut<'_>,
    indices: Option<ViewMut<'_>>,
) -> Result<()> {
    const OP: &str = "max_pool";
    check(OP, stream, ("x", &x), ("out", &out))?;
    let (from, to) = (Image::new(OP, "x", &x)?, Image::new(OP, "out", &out)?);
    let windows = Windows::new(OP, params, x.shape().len() - SPATIAL)?;
    let places = match &indices {
        Some(indices) => {
            check_indices(OP, stream, indices, &out)?;
            family::writable(OP, "indices", indices)?;
            family::disjoint(OP, "x", indices, &x)?;
            family::disjoint(OP, "out", indices, &out)?;
            Some(Image::new(OP, "indices", indices)?)
        }
        None => None,
    };
    let rows = Rows::of(&from, &windows, x.dtype());
    let is_in_pieces = rows.is_none()
        && [Some(&from), Some(&to), places.as_ref()].into_iter().flatten().all(|image| image.is_in_pieces(x.dtype()));
    let key = MaximumKey {
        dtype: x.dtype(),
        index: indices.as_ref().map_or(DType::I32, |indices| indices.dtype()),
        indices: indices.is_some(),
        gradient: false,
        rows,
        piece: if is_in_pieces { VECTOR_BYTES / x.dtype().size_bytes() } else { 0 },
        inner: rows.is_none() && to.has_channels_innermost(),
        nan,
    };
    let values = out.view().buffer();
    let written = [values, indices.as_ref().map_or(values, |indices| indices.view().buffer())];
    let written = &written[..if indices.is_some() { 2 } else { 1 }];
    Launch { op: OP, key, from, to, indices: places, windows }.run(stream, written)
}

/// The gradient of [`max_pool`] by `x`: that of each window goes to the element its index names.
///
/// # Shapes
/// `grad`, `indices`: as `out` of [`max_pool`]; `x_grad` as its `x`.
/// # Types, Errors
/// As for [`max_pool`]; an index that no window of its place has is never met.
/// # Numerics
/// Sums in f32 (f64 for f64), windows in ascending order, one rounding.
pub fn max_pool_gradient(
    stream: &Stream,
    grad: View<'_>,
    indices: View<'_>,
    params: &PoolParams<'_>,
    x_grad: ViewMut<'_>,
) -> Result<()> {
    const OP: &str = "max_pool_gradient";
    check(OP, stream, ("grad", &grad), ("x_grad", &x_grad))?;
    check_indices(OP, stream, &indices, &grad)?;
    family::disjoint(OP, "indices", &x_grad, &indices)?;
    let index = indices.dtype();
    let (from, to) = (Image::new(OP, "grad", &grad)?, Image::new(OP, "x_grad", &x_grad)?);
    let windows = Windows::new(OP, params, grad.shape().len() - SPATIAL)?;
    let indices = Some(Image::new(OP, "indices", &indices)?);
    let dtype = grad.dtype();
    let is_in_pieces =
        [Some(&from), Some(&to), indices.as_ref()].into_iter().flatten().all(|image| image.is_in_pieces(dtype));
    let piece = if is_in_pieces { VECTOR_BYTES / dtype.size_bytes() } else { 0 };
    let inner = to.has_channels_innermost();
    let key = MaximumKey { dtype, index, indices: true, gradient: true, rows: None, piece, inner, nan: Nan::Any };
    Launch { op: OP, key, from, to, indices, windows }.run(stream, &[x_grad.view().buffer()])
}

fn check_indices(op: &'static str, stream: &Stream, indices: &View<'_>, like: &View<'_>) -> Result<()> {
    family::on_device(op, "indices", stream, indices)?;
    if indices.dtype().is_float() || indices.dtype() == DType::Bool {
        return Err(shape(op, "indices", "integers", indices.dtype()));
    }
    if indices.shape() != like.shape() {
        return Err(shape(op, "indices", format!("{:?}", like.shape()), format!("{:?}", indices.shape())));
    }
    Ok(())
}

/// Either direction, checked.
struct Launch {
    op: &'static str,
    key: MaximumKey,
    /// `x`, or the gradient of the result.
    from: Image,
    /// The result, or the gradient of `x`.
    to: Image,
    /// Of the result's shape.
    indices: Option<Image>,
    windows: Windows,
}

impl Launch {
    fn run(&self, stream: &Stream, written: &[&Buffer]) -> Result<()> {
        let Launch { op, key, from, to, indices, windows } = self;
        let (op, key) = (*op, *key);
        let (input, output) = if key.gradient { (to.extent, from.extent) } else { (from.extent, to.extent) };
        static SOURCES: Sources<MaximumKey> = Sources::new();
        let source = SOURCES.get(key, source);
        let narrow = |numbers: [usize; AXES]| numbers.map(|number| number as i32);
        let per_lane = key.rows.map_or(1, |rows| rows.windows(key.dtype));
        let lanes = to.extent[AXES - 1].div_ceil(per_lane);
        let vector = per_lane > 1 && is_in_vectors(to, key.dtype, per_lane);
        let space = to.space();
        for (first, batch) in outer_runs(op, space)? {
            let elements = Box3 { outer: batch, ..space }.len();
            if elements == 0 {
                continue;
            }
            let count = elements / to.extent[AXES - 1] * lanes / key.piece.max(1);
            let args = MaximumArgs {
                from: from.from(first, key.dtype),
                indices: indices.as_ref().map_or(0, |indices| indices.from(first, key.index)),
                to: to.from(first, key.dtype),
                outer: [from.outer, to.outer, indices.as_ref().map_or([0; 2], |indices| indices.outer)],
                axis: [from.axis, to.axis, indices.as_ref().map_or([0; AXES], |indices| indices.axis)],
                stride: narrow(windows.stride),
                padding: narrow(windows.padding),
                dilation: narrow(windows.dilation),
                kernel: narrow(windows.kernel),
                input: narrow(input),
                output: narrow(output),
                extent: [to.extent[0], to.extent[1], lanes].map(FastDiv::new),
                channels: FastDiv::new(to.channels / key.piece.max(1)),
                step: windows.stride.map(FastDiv::new),
                count: count as u32,
                vector: u32::from(vector),
                unused: 0,
            };
            let name = if key.gradient { "maximum_gradient" } else { "maximum" };
            let grid = [count.div_ceil(BLOCK), 1, 1];
            // SAFETY:
            // - `MaximumArgs` is the twin of the kernel's struct, sizes asserted on both sides. Elements of `to`, or runs of them along
            //   rows, are numbered below `count`; coordinates outside of `input` and windows outside of `output` are not read, nor
            //   vectors unless rows are whole ones.
            // - It writes `to` and the indices of the forward direction, which `written` lists.
            unsafe { KernelLaunch::new(stream, &source, (op, name), grid, [BLOCK, 1, 1]).run(&args, written)? };
        }
        Ok(())
    }
}

/// Bytes that a lane reads at once.
const VECTOR_BYTES: usize = 16;
/// Vectors of one image that a lane holds at most.
const VECTORS_MAX: usize = 12;

/// Windows whose rows are read in vectors: their extents along the last two axes, stride and padding along the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rows {
    pub height: usize,
    pub width: usize,
    pub step: usize,
    pub left: usize,
}

impl Rows {
    /// `None` where rows are no whole, aligned vectors, or windows too large or too far apart.
    fn of(from: &Image, windows: &Windows, dtype: DType) -> Option<Rows> {
        let lanes = VECTOR_BYTES / dtype.size_bytes();
        let rows = Rows {
            height: windows.kernel[1],
            width: windows.kernel[2],
            step: windows.stride[2],
            left: windows.padding[2],
        };
        let small = rows.width <= lanes && rows.left <= lanes && lanes.is_multiple_of(rows.step);
        // What a lane reads of a row: its vector, one before it, one behind it.
        let held = rows.height * (2 + usize::from(rows.left > 0));
        let plain = windows.dilation[2] == 1 && small && held <= VECTORS_MAX && rows.windows(dtype) > 1;
        (plain && is_in_vectors(from, dtype, lanes)).then_some(rows)
    }

    /// Windows of a lane.
    fn windows(self, dtype: DType) -> usize {
        VECTOR_BYTES / dtype.size_bytes() / self.step
    }
}

impl Image {
    /// Whether its channels, of which there are several, lie side by side.
    fn has_channels_innermost(&self) -> bool {
        self.channels > 1 && self.outer[1] == 1
    }

    /// Whether its channels lie side by side, in whole, aligned pieces of as many as a vector of `dtype` has.
    fn is_in_pieces(&self, dtype: DType) -> bool {
        let vector = VECTOR_BYTES / dtype.size_bytes();
        let whole = |stride: &i64| stride % vector as i64 == 0;
        self.outer[1] == 1
            && self.channels.is_multiple_of(vector)
            && self.address.is_multiple_of(VECTOR_BYTES as u64)
            && whole(&self.outer[0])
            && self.axis.iter().all(whole)
    }
}

/// Whether rows of an image are whole vectors of so many elements, aligned to their size.
fn is_in_vectors(image: &Image, dtype: DType, vector: usize) -> bool {
    let strides = [image.outer[0], image.outer[1], image.axis[0], image.axis[1]];
    image.axis[2] == 1
        && image.extent[2].is_multiple_of(vector)
        && image.address.is_multiple_of((vector * dtype.size_bytes()) as u64)
        && strides.iter().all(|stride| stride % vector as i64 == 0)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MaximumKey {
    pub dtype: DType,
    pub index: DType,
    /// Whether indices are written.
    pub indices: bool,
    pub gradient: bool,
    pub rows: Option<Rows>,
    /// How many channels a lane takes at once; 0 for one by one.
    pub piece: usize,
    /// Whether lanes count channels first.
    pub inner: bool,
    pub nan: Nan,
}

/// The source of one variant.
pub(crate) fn source(key: MaximumKey) -> Source {
    let flag = |set| if set { "1" } else { "0" };
    let rows = key.rows.unwrap_or(Rows { height: 0, width: 0, step: 1, left: 0 });
    let numbers = [rows.height, rows.width, rows.step, rows.left, key.piece];
    let [height, width, step, left, piece] = numbers.map(|number| number.to_string());
    let defines = [
        ("MAXIMUM_TYPE", c_type(key.dtype)),
        ("MAXIMUM_SUM", c_type(sum_dtype(key.dtype))),
        ("MAXIMUM_INDEX", c_type(key.index)),
        ("MAXIMUM_INDICES", flag(key.indices)),
        ("MAXIMUM_GRADIENT", flag(key.gradient)),
        ("MAXIMUM_HEIGHT", &height),
        ("MAXIMUM_WIDTH", &width),
        ("MAXIMUM_STEP", &step),
        ("MAXIMUM_LEFT", &left),
        ("MAXIMUM_PIECE", &piece),
        ("MAXIMUM_INNER", flag(key.inner)),
        ("MAXIMUM_NAN", flag(key.nan == Nan::Any)),
    ];
    Source::new("maximum", include_str!("maximum.hip"), &defines)
}

/// Its rows of the registry.
pub(super) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let (index, nan) = (DType::I64, Nan::Any);
    let key = MaximumKey { dtype, index, indices: false, gradient: false, rows: None, piece: 0, inner: false, nan };
    let rows = (dtype != DType::F64).then_some(Rows { height: 3, width: 3, step: 2, left: 1 });
    let gradient = MaximumKey { index: DType::I32, indices: true, gradient: true, ..key };
    let pieces = MaximumKey { piece: VECTOR_BYTES / dtype.size_bytes(), inner: true, ..key };
    let inner = [gradient, MaximumKey { indices: true, ..key }].map(|key| MaximumKey { inner: true, ..key });
    let inner = inner.into_iter().flat_map(move |key| [key, MaximumKey { piece: pieces.piece, ..key }]);
    let first =
        [key, pieces, MaximumKey { rows, ..key }].map(|key| MaximumKey { index: DType::I32, nan: Nan::First, ..key });
    let in_rows = rows.into_iter().flat_map(move |_| [false, true].map(|indices| MaximumKey { indices, rows, ..key }));
    let all = [key, pieces, MaximumKey { indices: true, ..key }, gradient].into_iter().chain(inner);
    let all = all.chain(first).chain(in_rows);
    all.map(|key| ("maximum", source(key)))
}

/// `MaximumArgs` of `maximum.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct MaximumArgs {
    from: u64,
    indices: u64,
    to: u64,
    outer: [[i64; 2]; 3],
    axis: [[i64; AXES]; 3],
    stride: [i32; AXES],
    padding: [i32; AXES],
    dilation: [i32; AXES],
    kernel: [i32; AXES],
    input: [i32; AXES],
    output: [i32; AXES],
    extent: [FastDiv; AXES],
    channels: FastDiv,
    step: [FastDiv; AXES],
    count: u32,
    vector: u32,
    unused: u32,
}
const _: () = assert!(size_of::<MaximumArgs>() == 312);
