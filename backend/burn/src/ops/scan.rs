//! Running results along an axis, and the places of extrema.

use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::reduce::{arg_max, arg_min};
pub(crate) use rocfire_kernels::scan::Cumulative as Op;

use super::{memory, reduce};
use crate::error::Result;

/// Which extremum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// `op` over everything up to each element along `axis`.
pub(crate) fn cumulative(op: Op, x: &Tensor, axis: usize) -> Result<Tensor> {
    let mut y = memory::empty(x.device(), x.shape(), x.dtype())?;
    rocfire_kernels::scan::cumulative(x.device().stream(), op, axis, x.view(), y.view_mut())?;
    Ok(y)
}

/// Where the extremum along `axis` is, in `dtype`: the first of equals, NaN above all.
pub(crate) fn arg(extreme: Extreme, x: &Tensor, axis: usize, dtype: DType) -> Result<Tensor> {
    Ok(places(extreme, x, axis, dtype, false)?.1)
}

/// The extremum along `axis`, and where it is.
pub(crate) fn with_indices(extreme: Extreme, x: &Tensor, axis: usize, dtype: DType) -> Result<(Tensor, Tensor)> {
    places(extreme, x, axis, dtype, true)
}

/// The values (unwritten unless `valued`) and their places.
fn places(extreme: Extreme, x: &Tensor, axis: usize, dtype: DType, valued: bool) -> Result<(Tensor, Tensor)> {
    let name = match (extreme, valued) {
        (Extreme::Max, false) => "argmax",
        (Extreme::Min, false) => "argmin",
        (Extreme::Max, true) => "max_dim_with_indices",
        (Extreme::Min, true) => "min_dim_with_indices",
    };
    let mut shape = x.shape().to_vec();
    match shape.get_mut(axis) {
        Some(extent) => {
            reduce::require_elements(name, *extent)?;
            *extent = 1;
        }
        None => return Err(HalError::shape("arg_reduce", "axis", format!("below {}", x.shape().len()), axis).into()),
    }
    // The kernel writes indices of two widths; others are casts.
    let width = if matches!(dtype, DType::I64 | DType::U64) { DType::I64 } else { DType::I32 };
    let mut indices = memory::empty(x.device(), &shape, width)?;
    let mut values = memory::empty(x.device(), if valued { &shape } else { &[0] }, x.dtype())?;
    let kernel = match extreme {
        Extreme::Max => arg_max,
        Extreme::Min => arg_min,
    };
    let values_out = valued.then(|| values.view_mut());
    kernel(x.device().stream(), axis, x.view(), indices.view_mut(), values_out)?;
    Ok((values, memory::cast(&indices, dtype)?))
}
