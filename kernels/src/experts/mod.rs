//! Which experts a token goes to, and the rows of each expert.
//!
//! [`route()`] chooses experts of each token by its logits and says what share each has. [`sort_by_expert()`] puts the choices in the
//! order of experts, with the offsets that [`crate::gemm::gemm_grouped`] takes: one launch for few tokens, two for many. What the
//! host cannot know (how many tokens there are, which experts are here) lies on the device. Results are the same bits on every run,
//! and a token's choices do not depend on what else is in the batch. The products are elsewhere; [`combine()`] weights and adds the rows that they
//! gave a token.

mod combine;
mod route;
mod sort_by_expert;

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source, Stream, View};

use crate::Result;
use crate::family::{self, shape};

pub use combine::{CombineGradients, CombineParams, combine, combine_backward};
pub use route::{GroupScore, Groups, Hash, RouteParams, Score, Shared, SharedScore, route};
pub use sort_by_expert::{Blocks, ByExpert, SortParams, sort_by_expert};

/// Experts that kernels hold in registers and LDS.
const EXPERTS_MAX: usize = 1024;
/// The fewest that they are made for: one for each lane of the widest wave.
const EXPERTS_MIN: usize = 64;

/// For how many experts a kernel is made that is to take so many.
fn capacity(experts: usize) -> usize {
    experts.next_power_of_two().clamp(EXPERTS_MIN, EXPERTS_MAX)
}

/// Capacities of kernels.
fn capacities() -> impl Iterator<Item = usize> {
    (EXPERTS_MIN.trailing_zeros()..=EXPERTS_MAX.trailing_zeros()).map(|bits| 1 << bits)
}

/// The sources of the family.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    route::sources(arch, dtype).chain(sort_by_expert::sources(dtype)).chain(combine::sources(dtype))
}

/// Address and row stride of a matrix whose rows are contiguous.
fn matrix(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    view: &View<'_>,
    expected: [usize; 2],
    dtypes: &[DType],
) -> Result<(u64, i64)> {
    family::on_device(op, arg, stream, view)?;
    if !dtypes.contains(&view.dtype()) {
        return Err(shape(op, arg, format!("of {dtypes:?}"), view.dtype()));
    }
    if view.shape() != expected {
        return Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
    }
    let strides = view.layout().strides();
    if expected[1] > 1 && strides[1] != 1 {
        return Err(shape(op, arg, "rows whose elements lie side by side", format!("strides {strides:?}")));
    }
    Ok((view.device_address(), strides[0]))
}

/// Address of a contiguous vector; 0 where it is not given.
fn vector(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    view: Option<View<'_>>,
    count: usize,
    dtype: DType,
) -> Result<u64> {
    let Some(view) = view else { return Ok(0) };
    family::on_device(op, arg, stream, &view)?;
    family::same_dtype(op, arg, &view, dtype)?;
    if view.shape() != [count] {
        return Err(shape(op, arg, format!("[{count}]"), format!("{:?}", view.shape())));
    }
    if !view.layout().is_contiguous() {
        return Err(shape(op, arg, "contiguous", format!("strides {:?}", view.layout().strides())));
    }
    Ok(view.device_address())
}
