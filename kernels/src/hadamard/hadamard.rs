//! `hadamard`: the launcher of `hadamard.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use crate::Result;
use crate::family::{
    self, BLOCK, BOX_LIMIT, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type, shape, sum_dtype,
};
use crate::graphs::{apart_or_same, float, same_shape};

const OP: &str = "hadamard";
/// The longest axis that is transformed: a row of it lies in LDS. Of f64 it is half as long.
pub const HADAMARD_MAX: usize = 1 << BITS_MAX;
const BITS_MAX: u32 = 13;
/// Elements of a lane, of rows that are as long.
const EACH: usize = 16;
/// Most threads of a grid along its first axis: HIP's own limit.
const THREADS_MAX: usize = u32::MAX as usize;

/// `y = scale · H x` along axis `dim`: H the Hadamard matrix in Sylvester's order, whose element in row `i` and column `j` is -1 to
/// the power of how many bits `i` and `j` have in common. H is symmetric, and H H is the extent times one: with a scale of
/// `1 / sqrt(extent)` the transform is its own inverse, and its own gradient with any.
///
/// # Shapes
/// `x`, `y`: the same, any strides; `y` may be `x` itself. The extent of the axis is a power of two, at most [`HADAMARD_MAX`], of
/// f64 half of that.
/// # Types
/// Any float, the same for both.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store. A row's bits depend on that row alone, not on how it lies; a NaN makes all of its row NaN.
/// # Errors
/// `Shape` for shapes, types or memory that do not fit; `Unsupported` for what is no float; errors of compilation and launch.
/// # Source
/// AITER's `rotate_activation`; the order is that of `scipy.linalg.hadamard`.
pub fn hadamard(stream: &Stream, x: View<'_>, dim: usize, scale: f64, y: ViewMut<'_>) -> Result<()> {
    float(OP, "x", stream, &x)?;
    family::on_device(OP, "y", stream, &y)?;
    family::same_dtype(OP, "y", &y, x.dtype())?;
    family::axis(OP, dim, x.layout().rank())?;
    same_shape(OP, "y", &y, x.shape())?;
    family::writable(OP, "y", &y)?;
    apart_or_same(OP, "x", &y, &x)?;
    let space = Box3::of(x.shape(), dim);
    let bits = bits(x.dtype(), space.middle)?;
    let rows = space.outer * space.inner;
    let lanes = (space.middle / EACH).max(1);
    let (block, rows_each) = (lanes.max(BLOCK), (BLOCK / lanes).max(1));
    if rows >= BOX_LIMIT || rows.div_ceil(rows_each) * block > THREADS_MAX {
        return Err(shape(OP, "x", format!("fewer rows, for at most {THREADS_MAX} lanes of {EACH} elements"), rows));
    }
    if rows == 0 {
        return Ok(());
    }
    let dtype = x.dtype();
    let (x, y) = (Input3::new(stream, x, dim)?, Output3::new(stream, y, dim, false)?);
    let vector = vector(dtype, space, [(x.address(), x.strides()), (y.address(), y.strides())]);
    static SOURCES: Sources<HadamardKey> = Sources::new();
    let source = SOURCES.get(HadamardKey { dtype, bits, vector }, source);
    let args = HadamardArgs {
        x: x.address(),
        y: y.address(),
        x_strides: x.strides(),
        y_strides: y.strides(),
        scale,
        inner: FastDiv::new(space.inner),
        rows: rows as u32,
    };
    let target = y.view();
    let (grid, block) = ([rows.div_ceil(rows_each), 1, 1], [block, 1, 1]);
    // SAFETY:
    // - `HadamardArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads and writes the elements of
    //   `rows` rows along the axis, inside checked views.
    // - It writes `y` only.
    unsafe { KernelLaunch::new(stream, &source, (OP, "hadamard_rows"), grid, block).run(&args, &[target.buffer()])? };
    y.finish(stream)
}

/// The extent's logarithm.
fn bits(dtype: DType, extent: usize) -> Result<u32> {
    let most = if dtype == DType::F64 { HADAMARD_MAX / 2 } else { HADAMARD_MAX };
    if extent.is_power_of_two() && extent <= most {
        return Ok(extent.trailing_zeros());
    }
    Err(shape(OP, "x", format!("an axis whose extent is a power of two, at most {most}"), extent))
}

/// Elements that one access moves: 16 bytes where the axis is contiguous and every row begins at such an address, else one.
fn vector(dtype: DType, space: Box3, tensors: [(u64, Strides3); 2]) -> usize {
    let vector = (16 / dtype.size_bytes()).min(space.middle);
    let whole = |stride: i64, extent: usize| extent == 1 || stride % vector as i64 == 0;
    let aligned = |(address, strides): (u64, Strides3)| {
        (strides.middle == 1 || space.middle == 1)
            && address.is_multiple_of((vector * dtype.size_bytes()) as u64)
            && whole(strides.outer, space.outer)
            && whole(strides.inner, space.inner)
    };
    if tensors.into_iter().all(aligned) { vector } else { 1 }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HadamardKey {
    dtype: DType,
    bits: u32,
    vector: usize,
}

/// The source of one variant.
fn source(key: HadamardKey) -> Source {
    let (bits, vector) = (key.bits.to_string(), key.vector.to_string());
    let defines = [
        ("HADAMARD_TYPE", c_type(key.dtype)),
        ("HADAMARD_REAL", c_type(sum_dtype(key.dtype))),
        ("HADAMARD_BITS", &bits),
        ("HADAMARD_VEC", &vector),
    ];
    Source::new(OP, include_str!("hadamard.hip"), &defines)
}

/// The sources of the family: heads of 128 and the longest rows, by whole accesses.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let longest = if dtype == DType::F64 { BITS_MAX - 1 } else { BITS_MAX };
    let made = move |bits| (OP, source(HadamardKey { dtype, bits, vector: 16 / dtype.size_bytes() }));
    [7, longest].into_iter().filter(move |_| dtype.is_float()).map(made)
}

/// `HadamardArgs` of `hadamard.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct HadamardArgs {
    x: u64,
    y: u64,
    x_strides: Strides3,
    y_strides: Strides3,
    scale: f64,
    inner: FastDiv,
    rows: u32,
}
const _: () = assert!(size_of::<HadamardArgs>() == 88);
