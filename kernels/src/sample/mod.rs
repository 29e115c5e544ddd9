//! From logits to tokens.
//!
//! [`penalise`] changes the logits of listed tokens. [`sample()`] draws a token of each row, from what top-k, top-p, min-p and a mask
//! of bits leave; [`probabilities`] writes that distribution, which [`accept`] takes to judge a draft's tokens, and
//! [`accept_greedy`] does so by tokens alone. [`log_probabilities`] tells how likely tokens were, and the likeliest. [`top_k`] is
//! the largest or smallest few of each row between bounds of its own.
//!
//! What varies from row to row (temperatures, limits, seeds) lies on the device, so that a recorded launch replays with other
//! values. A row's result is the same bits whatever else is in the batch; a token is never outside its row, whatever a row holds.
//! Nothing is sorted but a list of candidates; `crate::sort` is for whole lines and other types.

mod accept;
mod log_probabilities;
mod penalise;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod sample;
mod top_k;

use rocfire_hal::{DType, Source, Stream, View};

use crate::Result;
use crate::family::{self, shape};

pub use accept::{Drafts, accept, accept_greedy};
pub use log_probabilities::{LogProbabilities, log_probabilities};
pub use penalise::{Penalties, penalise};
pub use sample::{Draw, Form, SampleParams, probabilities, sample};
pub use top_k::{Bounds, TopK, top_k};

/// Lanes of a workgroup that has a row: `SELECT_THREADS` of `select.h`.
const THREADS: usize = 1024;

/// The sources of the family.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    sample::sources(dtype)
        .chain(top_k::sources(dtype))
        .chain(log_probabilities::sources(dtype))
        .chain(penalise::sources(dtype))
        .chain(accept::sources(dtype))
}

/// Checks rows of floats of 32 bits or fewer, the innermost axis contiguous; how many, and how many numbers each has.
fn rows_of(op: &'static str, arg: &'static str, stream: &Stream, view: &View<'_>) -> Result<[usize; 2]> {
    family::on_device(op, arg, stream, view)?;
    let &[rows, count] = view.shape() else {
        return Err(shape(op, arg, "[rows, numbers]", format!("{:?}", view.shape())));
    };
    if !matches!(view.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(rocfire_hal::Error::Unsupported { op, dtype: view.dtype(), arch: view.arch() }.into());
    }
    contiguous_rows(op, arg, view)?;
    Ok([rows, count])
}

/// Checks that the last axis is contiguous.
fn contiguous_rows(op: &'static str, arg: &'static str, view: &View<'_>) -> Result<()> {
    let (extents, strides) = (view.shape(), view.layout().strides());
    let (Some(&extent), Some(&stride)) = (extents.last(), strides.last()) else { return Ok(()) };
    if extent > 1 && stride != 1 {
        return Err(shape(op, arg, "rows whose elements lie side by side", format!("strides {strides:?}")));
    }
    Ok(())
}

/// Address and stride of what has one element for each row; 0 where it is not given.
fn for_each(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    view: Option<View<'_>>,
    rows: usize,
    dtypes: &[DType],
) -> Result<(u64, i64)> {
    let Some(view) = view else { return Ok((0, 0)) };
    family::on_device(op, arg, stream, &view)?;
    if !dtypes.contains(&view.dtype()) {
        return Err(shape(op, arg, format!("of {dtypes:?}"), view.dtype()));
    }
    if view.shape() != [rows] {
        return Err(shape(op, arg, format!("[{rows}]"), format!("{:?}", view.shape())));
    }
    Ok((view.device_address(), view.layout().strides()[0]))
}

/// Address and row stride of a matrix whose rows are contiguous; 0 where it is not given.
fn matrix(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    view: Option<View<'_>>,
    expected: [usize; 2],
    dtypes: &[DType],
) -> Result<(u64, i64)> {
    let Some(view) = view else { return Ok((0, 0)) };
    family::on_device(op, arg, stream, &view)?;
    if !dtypes.contains(&view.dtype()) {
        return Err(shape(op, arg, format!("of {dtypes:?}"), view.dtype()));
    }
    if view.shape() != expected {
        return Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
    }
    contiguous_rows(op, arg, &view)?;
    Ok((view.device_address(), view.layout().strides()[0]))
}
