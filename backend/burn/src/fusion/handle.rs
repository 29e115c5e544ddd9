//! The handles under which Burn keeps tensors between operations, and the tensors in them.

use burn_backend::DType;
use burn_ir::BackendIr;
use rocfire_hal::Tensor;

use crate::error::{Error, Result};
use crate::{Rocm, RocmTensor};

/// What Burn keeps for a tensor of any kind.
pub(crate) type Handle = <Rocm as BackendIr>::Handle;

/// The tensor in a handle.
///
/// # Errors
/// [`Error::DType`] for a quantised one, which no kernel here reads.
pub(super) fn unwrap(handle: Handle, dtype: DType) -> Result<Tensor> {
    match handle {
        Handle::Float(tensor) | Handle::Int(tensor) | Handle::Bool(tensor) => Ok(tensor.into_inner()),
        Handle::Quantized(_) => Err(Error::DType { dtype }),
    }
}

/// The handle of a tensor that Burn knows as `dtype`.
pub(crate) fn wrap(tensor: Tensor, dtype: DType) -> Handle {
    let tensor = RocmTensor::from(tensor);
    match dtype {
        DType::Bool(store) => Handle::Bool(tensor.with_store(store)),
        _ if dtype.is_float() => Handle::Float(tensor),
        _ => Handle::Int(tensor),
    }
}
