//! `select`: the launcher of `select.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{integers, same_but};
use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type, shape};

const OP: &str = "select";
/// The widest access of a lane, bytes.
const WORD_MAX: usize = 16;

/// `out[.., j, ..] = x[.., indices[j], ..]` along axis `dim`. An embedding is `dim = 0`.
///
/// # Shapes
/// `indices`: `[n]`; `out` as `x` but with `n` along `dim`. Any strides.
/// # Types
/// `x` and `out` of one type, any; `indices` of any integer type.
/// # Numerics
/// Elements are moved as bits. An index outside `0..x.shape()[dim]`, negative ones included, gives zeros (`false`), and
/// the next read or wait tells of it.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ elements or more in one index of the axes before `dim`.
pub fn select(stream: &Stream, dim: usize, x: View<'_>, indices: View<'_>, out: ViewMut<'_>) -> Result<()> {
    for (arg, view) in [("x", &x), ("indices", &indices), ("out", &out.view())] {
        family::on_device(OP, arg, stream, view)?;
    }
    family::axis(OP, dim, x.layout().rank())?;
    integers(OP, &indices)?;
    same_but(OP, "out", out.shape(), x.shape(), dim)?;
    if indices.shape() != [out.shape()[dim]] {
        return Err(shape(OP, "indices", format!("[{}]", out.shape()[dim]), format!("{:?}", indices.shape())));
    }
    family::same_dtype(OP, "out", &out, x.dtype())?;
    family::writable(OP, "out", &out)?;
    family::disjoint(OP, "x", &out, &x)?;
    family::disjoint(OP, "indices", &out, &indices)?;
    if out.is_empty() {
        return Ok(());
    }
    let element = x.dtype().size_bytes();
    let space = Box3::of(out.shape(), dim);
    let extent = x.shape()[dim] as i64;
    let x = Input3::new(stream, x, dim)?;
    let out = Output3::new(stream, out, dim, false)?;
    let word = word_bytes(element, space.inner, [(x.address(), x.strides()), (out.address(), out.strides())]);
    let per_word = (word / element) as i64;
    let space = Box3 { inner: space.inner / per_word as usize, ..space };
    let in_words = |s: Strides3| {
        let inner = if per_word > 1 { 1 } else { s.inner };
        Strides3 { outer: s.outer / per_word, middle: s.middle / per_word, inner }
    };
    let (x_strides, out_strides) = (in_words(x.strides()), in_words(out.strides()));
    static SOURCES: Sources<SelectKey> = Sources::new();
    let source = SOURCES.get(SelectKey { word, index: indices.dtype() }, source);
    for (first, outer) in family::outer_runs(OP, space)? {
        let skip = |address: u64, strides: Strides3| address.wrapping_add_signed(strides.outer * (first * word) as i64);
        let count = Box3 { outer, ..space }.len();
        let args = SelectArgs {
            x: skip(x.address(), x_strides),
            indices: indices.device_address(),
            out: skip(out.address(), out_strides),
            x_strides,
            out_strides,
            index_stride: indices.layout().strides()[0],
            extent,
            middle: FastDiv::new(space.middle),
            inner: FastDiv::new(space.inner),
            count: count as u32,
            padding: 0,
        };
        let (grid, block) = ([count.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `SelectArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel visits the box of
        //   `out`, all of `indices`, and of `x` the indices below `extent`: all inside the checked views; `word_bytes`
        //   widens words only where whole ones make up the inner axis.
        // - It writes `out` only.
        unsafe { KernelLaunch::new(stream, &source, (OP, "select"), grid, block).run(&args, &[out.view().buffer()])? };
    }
    out.finish(stream)
}

/// The widest word that divides, and is aligned in, every contiguous stretch along the inner axis of all operands.
fn word_bytes(element: usize, inner: usize, operands: [(u64, Strides3); 2]) -> usize {
    let mut word = WORD_MAX;
    while word > element {
        let fits = |bytes: i64| bytes % word as i64 == 0;
        let wide = operands.iter().all(|(address, s)| {
            let strides = [s.outer, s.middle].map(|stride| stride * element as i64);
            s.inner == 1 && address.is_multiple_of(word as u64) && strides.into_iter().all(fits)
        });
        if wide && fits((inner * element) as i64) {
            return word;
        }
        word /= 2;
    }
    element
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SelectKey {
    /// Bytes per access, a power of two up to 16.
    pub word: usize,
    pub index: DType,
}

/// The source of one variant.
pub(crate) fn source(key: SelectKey) -> Source {
    let word = key.word.to_string();
    let defines = [("SELECT_BYTES", word.as_str()), ("SELECT_INDEX", c_type(key.index))];
    Source::new("select", include_str!("select.hip"), &defines)
}

/// `SelectArgs` of `select.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SelectArgs {
    x: u64,
    indices: u64,
    out: u64,
    x_strides: Strides3,
    out_strides: Strides3,
    index_stride: i64,
    extent: i64,
    middle: FastDiv,
    inner: FastDiv,
    count: u32,
    padding: u32,
}
const _: () = assert!(size_of::<SelectArgs>() == 120);
