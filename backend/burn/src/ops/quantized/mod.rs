//! Burn's quantised operators: codes as their scheme packs them, with their scales, all on the device.
//!
//! Every symmetric scheme: values of 8, 4 and 2 bits and the small floats, stored as bytes or packed along any axis, one scale
//! or one per block of any shape, two levels, in any type of scale. Scales are made and rounded on the device. Moves of whole
//! words and blocks move just those; what cuts them goes by way of codes (one scale) or floats (blocks). Products read weights
//! as packed codes. Other arithmetic is Burn's default: to floats, the operator, and back. Lookup tables are refused: Burn does not send the table.

mod codes;
mod data;
mod matmul;
mod moves;
mod scheme;

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{ExecutionError, Shape, Slice, TensorData, TensorMetadata, TensorPrimitive};
use burn_std::FloatDType;

use super::{float_dtype, memory};
use crate::error::{OrPanic, execution};
use crate::{Rocm, RocmDevice, RocmQTensor, RocmTensor};

pub(crate) use data::{assembled, stored};
pub(crate) use scheme::refusal;

/// The tensor in the shape that Burn believes it has: reshapes may have been left out on the way here.
pub(crate) fn in_shape(q: RocmQTensor, shape: &Shape) -> RocmQTensor {
    if q.shape == *shape { q } else { moves::reshape(q, shape).or_panic() }
}

impl QTensorOps<Rocm> for Rocm {
    fn q_from_data(data: TensorData, device: &RocmDevice) -> RocmQTensor {
        data::from_data(data, device).or_panic()
    }

    fn quantize(
        tensor: RocmTensor,
        scheme: &QuantScheme,
        qparams: QuantizationParametersPrimitive<Rocm>,
    ) -> RocmQTensor {
        let global = qparams.global.as_ref().map(RocmTensor::as_inner);
        codes::quantize(tensor.as_inner(), scheme, qparams.scales.as_inner(), global).or_panic()
    }

    fn quantize_dynamic(tensor: RocmTensor, scheme: &QuantScheme) -> RocmQTensor {
        codes::quantize_dynamic(tensor.as_inner(), scheme).or_panic()
    }

    fn dequantize(tensor: RocmQTensor, dtype: FloatDType) -> RocmTensor {
        RocmTensor::new(codes::dequantize(&tensor, float_dtype(dtype)).or_panic())
    }

    fn q_to_device(tensor: RocmQTensor, device: &RocmDevice) -> RocmQTensor {
        let to = |tensor: &RocmTensor| RocmTensor::new(memory::to_device(tensor.as_inner(), device).or_panic());
        RocmQTensor {
            words: to(&tensor.words),
            scales: to(&tensor.scales),
            global: tensor.global.as_ref().map(to),
            scheme: tensor.scheme,
            shape: tensor.shape,
        }
    }

    async fn q_into_data(tensor: RocmQTensor) -> Result<TensorData, ExecutionError> {
        data::into_data(&tensor).map_err(execution)
    }

    fn q_reshape(tensor: RocmQTensor, shape: Shape) -> RocmQTensor {
        moves::reshape(tensor, &shape).or_panic()
    }

    fn q_swap_dims(tensor: RocmQTensor, dim1: usize, dim2: usize) -> RocmQTensor {
        let mut axes: Vec<usize> = (0..tensor.rank()).collect();
        axes.swap(dim1, dim2);
        moves::permute(tensor, &axes).or_panic()
    }

    fn q_permute(tensor: RocmQTensor, axes: &[usize]) -> RocmQTensor {
        moves::permute(tensor, axes).or_panic()
    }

    fn q_flip(tensor: RocmQTensor, axes: &[usize]) -> RocmQTensor {
        moves::flip(tensor, axes).or_panic()
    }

    fn q_expand(tensor: RocmQTensor, shape: Shape) -> RocmQTensor {
        moves::expand(tensor, &shape).or_panic()
    }

    fn q_slice(tensor: RocmQTensor, slices: &[Slice]) -> RocmQTensor {
        moves::slice(tensor, slices).or_panic()
    }

    fn q_select(tensor: RocmQTensor, dim: usize, indices: RocmTensor) -> RocmQTensor {
        moves::select(tensor, dim, indices.as_inner()).or_panic()
    }

    fn q_matmul(lhs: TensorPrimitive<Rocm>, rhs: TensorPrimitive<Rocm>) -> TensorPrimitive<Rocm> {
        matmul::q_matmul(lhs, rhs).or_panic()
    }

    fn q_gather(dim: usize, tensor: RocmQTensor, indices: RocmTensor) -> RocmQTensor {
        moves::gather(tensor, dim, indices.as_inner()).or_panic()
    }
}
