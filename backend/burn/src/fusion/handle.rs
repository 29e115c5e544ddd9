//! The handles under which tensors are kept between operations, and the tensors in them.

use burn_backend::DType;
use burn_ir::HandleKind;
use rocfire_hal::Tensor;

use crate::error::{Error, Result};
use crate::{Rocm, RocmQTensor, RocmTensor};

/// What is kept for a tensor of any kind: floats, integers and truth values are one type, told apart by the element type.
#[derive(Clone, Debug)]
pub enum Handle {
    /// A tensor of elements.
    Plain(RocmTensor),
    /// Codes with their scales: three tensors, so behind a pointer, as every table of handles has room for the largest.
    Quantized(Box<RocmQTensor>),
}

/// As Burn's interpreter takes it, which asks `Rocm` for the handle again: so the kind does not matter.
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
/// [`Error::DType`] for a quantised one, which no kernel here reads.
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
