//! `sorted_update`: the launcher of `sorted_update.hip`, for [`super::scatter`] and [`super::select_update`].

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, Tensor, View};

use super::Updating;
use crate::Result;
use crate::family::{self, BLOCK, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type};
use crate::sort::{Order, sort};

const OP: &str = "sorted_update";
/// Most indices of a line that are followed one after the other: their reads depend on each other, so that 256 take about as
/// long as the launches that sort them.
pub(super) const SERIAL_MAX: usize = 256;

/// Indices in order, and where each was: the first axes of both are those of the indices.
pub(super) struct Sorted {
    keys: Tensor,
    order: Tensor,
    /// 0 along axes that lines share.
    strides: Strides3,
}

impl Sorted {
    /// Indices of each line along axis `dim`.
    pub(super) fn per_line(stream: &Stream, dim: usize, indices: View<'_>) -> Result<Sorted> {
        let space = Box3::of(indices.shape(), dim);
        let strides = Strides3 { outer: (space.middle * space.inner) as i64, middle: space.inner as i64, inner: 1 };
        Sorted::new(stream, dim, indices, strides)
    }

    /// Indices that all lines share.
    pub(super) fn shared(stream: &Stream, indices: View<'_>) -> Result<Sorted> {
        Sorted::new(stream, 0, indices, Strides3 { outer: 0, middle: 1, inner: 0 })
    }

    fn new(stream: &Stream, dim: usize, indices: View<'_>, strides: Strides3) -> Result<Sorted> {
        let mut keys = Tensor::empty(indices.device(), indices.shape(), indices.dtype())?;
        let mut order = Tensor::empty(indices.device(), indices.shape(), DType::I32)?;
        sort(stream, Order::Ascending, dim, indices, Some(keys.view_mut()), Some(order.view_mut()))?;
        Ok(Sorted { keys, order, strides })
    }
}

/// Brings values to where sorted indices say, in the order in which they were. `op` is the launcher that asks; `space`
/// is that of the values; `wide` keeps 16-bit floats in f32 between updates. The caller has checked everything.
pub(super) fn sorted_update(
    stream: &Stream,
    (op, updating, wide): (&'static str, Updating, bool),
    sorted: &Sorted,
    space: Box3,
    extent: usize,
    value: &Input3<'_>,
    out: &Output3<'_>,
) -> Result<()> {
    static SOURCES: Sources<SortedKey> = Sources::new();
    let dtype = value.view().dtype();
    let source = SOURCES.get(SortedKey { dtype, index: sorted.keys.dtype(), updating, wide }, source);
    let element = dtype.size_bytes() as i64;
    for (first, outer) in family::outer_runs(OP, space)? {
        let skip =
            |address: u64, strides: Strides3, bytes| address.wrapping_add_signed(strides.outer * first as i64 * bytes);
        let at =
            |tensor: &Tensor| skip(tensor.view().device_address(), sorted.strides, tensor.dtype().size_bytes() as i64);
        let count = outer * space.middle * space.inner;
        let args = SortedUpdateArgs {
            out: skip(out.address(), out.strides(), element),
            keys: at(&sorted.keys),
            order: at(&sorted.order),
            value: skip(value.address(), value.strides(), element),
            strides: [out.strides(), sorted.strides, value.strides()],
            extent: extent as i64,
            middle: FastDiv::new(space.middle),
            inner: FastDiv::new(space.inner),
            count: count as u32,
            op: u32::from(op != super::scatter::OP),
        };
        let written = out.view();
        let grid = [count.div_ceil(BLOCK), 1, 1];
        // SAFETY:
        // - `SortedUpdateArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel visits the box of
        //   the values, of the keys and order made of their indices, and of `out` the indices below `extent`: all inside
        //   views that the callers have checked. `order` holds places along the axis of the values.
        // - It writes `out` only.
        unsafe {
            let kernel = (OP, "sorted_update");
            KernelLaunch::new(stream, &source, kernel, grid, [BLOCK, 1, 1]).run(&args, &[written.buffer()])?;
        }
    }
    Ok(())
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SortedKey {
    pub dtype: DType,
    pub index: DType,
    pub updating: Updating,
    pub wide: bool,
}

/// The source of one variant.
pub(crate) fn source(key: SortedKey) -> Source {
    // A byte of 0 or 1 has the order of a Bool.
    let dtype = if key.dtype == DType::Bool { DType::U8 } else { key.dtype };
    let defines = [
        ("SORTED_TYPE", c_type(dtype)),
        ("SORTED_INDEX", c_type(key.index)),
        ("SORTED_UPDATE", key.updating.update.number()),
        ("SORTED_WIDE", if key.wide { "1" } else { "0" }),
        ("SORTED_NONE", key.updating.has_none()),
        ("SORTED_NAME", key.updating.name.unwrap_or(OP)),
    ];
    let defines = if key.updating.name.is_some() { &defines[..] } else { &defines[..defines.len() - 1] };
    Source::new("sorted_update", include_str!("sorted_update.hip"), defines)
}

/// `SortedUpdateArgs` of `sorted_update.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SortedUpdateArgs {
    out: u64,
    keys: u64,
    order: u64,
    value: u64,
    strides: [Strides3; 3],
    extent: i64,
    middle: FastDiv,
    inner: FastDiv,
    count: u32,
    /// For reports: 0 for `scatter`, 1 for `select_update`.
    op: u32,
}
const _: () = assert!(size_of::<SortedUpdateArgs>() == 144);
