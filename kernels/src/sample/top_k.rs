//! `top_k`: the launcher of `top_k.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{THREADS, for_each, matrix, rows_of};
use crate::Result;
use crate::family::{self, BOX_LIMIT, KernelLaunch, Sources, c_type, shape};
use crate::sort::Order;

const OP: &str = "top_k";
/// Most that are taken of a row: `SELECT_LIST` of `select.h`.
const TAKEN_MAX: usize = 2048;

/// Which part of each row is looked at. What has one element for each row may have any stride.
#[derive(Clone, Copy, Debug, Default)]
pub enum Bounds<'a> {
    /// All columns.
    #[default]
    All,
    /// From a first column on, up to before a last, `[rows]` of i32 each; both are brought inside the row.
    Between {
        /// The first column.
        starts: View<'a>,
        /// Behind the last column.
        ends: View<'a>,
    },
    /// The first columns, of `each` rows for a sequence: row `r` has `lengths[r / each] - each + r % each + 1`, so that the last
    /// of a sequence's rows sees all of it.
    Lengths {
        /// Of each sequence, `[rows / each]`, i32.
        lengths: View<'a>,
        /// Rows of a sequence.
        each: usize,
    },
}

/// Which are taken, and in which order.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TopK<'a> {
    /// [`Order::Descending`] takes the largest, [`Order::Ascending`] the smallest.
    pub order: Order,
    /// Whether the best comes first; else columns ascend.
    pub sorted: bool,
    /// Where.
    pub bounds: Bounds<'a>,
}

impl TopK<'_> {
    /// The largest or smallest of whole rows, the best first.
    pub fn new(order: Order) -> TopK<'static> {
        TopK { order, sorted: true, bounds: Bounds::All }
    }
}

/// `places[r]` = the columns of the `k` best numbers of row `r` within its bounds, `values[r]` these numbers.
///
/// # Shapes
/// `x`: `[rows, columns]`; `places`, `values`: `[rows, k]` with `k` from 1 to 2048; rows contiguous, at any distance.
/// # Types
/// `x` and `values` one of f32, f16, bf16; `places` i32.
/// # Numerics
/// Columns count from the row's beginning, wherever its bounds are. Of equals the first are taken, NaN after all numbers; both
/// zeros are equal. Where there are fewer than `k`, the places behind are -1, and their values the infinity that is worst.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit; `Unsupported` for another type of `x`.
pub fn top_k(
    stream: &Stream,
    x: View<'_>,
    params: &TopK<'_>,
    places: ViewMut<'_>,
    values: Option<ViewMut<'_>>,
) -> Result<()> {
    let [rows, columns] = rows_of(OP, "x", stream, &x)?;
    let k = places.shape().get(1).copied().unwrap_or(0);
    if k == 0 || k > TAKEN_MAX || rows >= BOX_LIMIT || columns >= BOX_LIMIT {
        let got = format!("{k} of {rows} rows of {columns}");
        return Err(shape(OP, "places", format!("1 to {TAKEN_MAX} of fewer than {BOX_LIMIT} rows and columns"), got));
    }
    let (place_address, place_stride) = matrix(OP, "places", stream, Some(places.view()), [rows, k], &[DType::I32])?;
    family::writable(OP, "places", &places)?;
    family::disjoint(OP, "places", &places, &x)?;
    let values_view = values.as_ref().map(ViewMut::view);
    let (value_address, value_stride) = matrix(OP, "values", stream, values_view, [rows, k], &[x.dtype()])?;
    if let Some(values) = &values {
        family::writable(OP, "values", values)?;
        family::disjoint(OP, "values", values, &x)?;
        family::disjoint(OP, "values", values, &places)?;
    }
    let (starts, ends, lengths, each) = match params.bounds {
        Bounds::All => (None, None, None, 1),
        Bounds::Between { starts, ends } => (Some(starts), Some(ends), None, 1),
        Bounds::Lengths { lengths, each } => (None, None, Some(lengths), each),
    };
    if each == 0 || !rows.is_multiple_of(each) || each >= BOX_LIMIT {
        return Err(shape(OP, "bounds.each", format!("a divisor of {rows} rows"), each));
    }
    let ints = |arg, view, count| for_each(OP, arg, stream, view, count, &[DType::I32]);
    let (starts, starts_stride) = ints("bounds.starts", starts, rows)?;
    let (ends, ends_stride) = ints("bounds.ends", ends, rows)?;
    let (lengths, lengths_stride) = ints("bounds.lengths", lengths, rows / each)?;
    if rows == 0 {
        return Ok(());
    }
    static SOURCES: Sources<TopKKey> = Sources::new();
    let source = SOURCES.get(TopKKey { dtype: x.dtype(), largest: params.order == Order::Descending }, source);
    let args = TopKArgs {
        x: x.device_address(),
        starts,
        ends,
        lengths,
        places: place_address,
        values: value_address,
        x_stride: x.layout().strides()[0],
        starts_stride,
        ends_stride,
        lengths_stride,
        place_stride,
        value_stride,
        columns: columns as u32,
        k: k as u32,
        each: each as u32,
        sorted: u32::from(params.sorted),
    };
    let written = [places.buffer(), values.as_ref().map_or(places.buffer(), |values| values.buffer())];
    let (grid, block) = ([rows, 1, 1], [THREADS, 1, 1]);
    // SAFETY:
    // - `TopKArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads the columns of each row that
    //   its bounds leave, brought inside the row, and of the bounds one element for each row or sequence: all inside checked views.
    // - It writes `k` places of each row, and as many values where they are wanted.
    unsafe { KernelLaunch::new(stream, &source, (OP, "top_k_rows"), grid, block).run(&args, &written) }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TopKKey {
    pub dtype: DType,
    pub largest: bool,
}

/// The source of one variant.
pub(crate) fn source(key: TopKKey) -> Source {
    let defines = [("TOP_K_TYPE", c_type(key.dtype)), ("TOP_K_LARGEST", if key.largest { "1" } else { "0" })];
    Source::new("top_k", concat!(include_str!("select.h"), include_str!("top_k.hip")), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let kinds = [true, false].into_iter().filter(move |_| matches!(dtype, DType::F32 | DType::F16 | DType::BF16));
    kinds.map(move |largest| (OP, source(TopKKey { dtype, largest })))
}

/// `TopKArgs` of `top_k.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TopKArgs {
    x: u64,
    starts: u64,
    ends: u64,
    lengths: u64,
    places: u64,
    values: u64,
    x_stride: i64,
    starts_stride: i64,
    ends_stride: i64,
    lengths_stride: i64,
    place_stride: i64,
    value_stride: i64,
    columns: u32,
    k: u32,
    each: u32,
    sorted: u32,
}
const _: () = assert!(size_of::<TopKArgs>() == 112);

#[cfg(test)]
mod tests;
