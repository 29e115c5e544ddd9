//! Handles: what keeps a tensor between operations.

use burn_backend::DType;
use burn_ir::HandleKind;
use rocfire_hal::Tensor;

use crate::error::{Error, Result};
use crate::{Rocm, RocmQTensor, RocmTensor};

/// What keeps a tensor of any kind. Floats, integers and truth values are one variant, told apart by the element type.
#[derive(Clone, Debug)]
pub enum Handle {
    /// A tensor of numbers or truth values.
    Plain(RocmTensor),
    /// Codes with their scales. These are three tensors; they lie behind a pointer so that every handle stays small.
    Quantized(Box<RocmQTensor>),
}

/// The handle as Burn's interpreter takes it. The interpreter asks `Rocm` for the handle again, so the variant does not matter.
impl From<Handle> for HandleKind<Rocm> {
    fn from(handle: Handle) -> HandleKind<Rocm> {
        match handle {
            Handle::Plain(tensor) => HandleKind::Float(tensor),
            Handle::Quantized(tensor) => HandleKind::Quantized(*tensor),
        }
    }
}

/// The tensor in a handle.
///
/// # Errors
/// [`Error::DType`] for a quantised tensor, which no kernel here reads.
pub(super) fn unwrap(handle: Handle, dtype: DType) -> Result<Tensor> {
    match handle {
        Handle::Plain(tensor) => Ok(tensor.into_inner()),
        Handle::Quantized(_) => Err(Error::DType { dtype }),
    }
}

/// The handle of a tensor that Burn knows as `dtype`.
pub(crate) fn wrap(tensor: Tensor, dtype: DType) -> Handle {
    let tensor = RocmTensor::from(tensor);
    Handle::Plain(match dtype {
        DType::Bool(store) => tensor.with_store(store),
        _ => tensor,
    })
}
