//! Operators on quantised tensors. Each runs by itself, on the eager backend.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantPropagation, QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{
    DType, ExecutionError, Shape, Slice, TensorData, TensorMetadata, TensorPrimitive, get_or_init_device_settings,
};
use burn_ir::{
    BackendIr, MatmulOpIr, PermuteOpIr, SelectOpIr, SliceOpIr, SwapDimsOpIr, TensorId, TensorIr, TensorStatus,
};
use burn_router::RouterClient;
use burn_std::FloatDType;

use super::backend::Fused;
use super::channel::{Client, Lazy};
use super::record::record;
use crate::fusion::handles::Handles;
use crate::version::named;
use crate::{BurnDevice, Rocm, RocmQTensor, RocmTensor};

/// A quantised tensor made from another by an operator that only moves elements; `shape` is that of the result.
fn moved(tensor: Lazy, shape: Shape, by: impl FnOnce(RocmQTensor) -> RocmQTensor) -> Lazy {
    let outputs = vec![(shape, tensor.dtype())];
    let run = |handles: &mut Handles, irs: &[TensorIr]| {
        let moved = by(handles.quantized(&irs[0]));
        Ok(vec![Rocm::quantized_tensor_handle(moved)])
    };
    record(vec![tensor], outputs, run).remove(0)
}

/// A quantised tensor made of the elements of another that indices name.
fn indexed(tensor: Lazy, indices: Lazy, shape: Shape, by: impl FnOnce(RocmQTensor, RocmTensor) -> RocmQTensor) -> Lazy {
    let outputs = vec![(shape, tensor.dtype())];
    let run = |handles: &mut Handles, irs: &[TensorIr]| {
        let tensor = handles.quantized(&irs[0]);
        let taken = by(tensor, handles.int(&irs[1]));
        Ok(vec![Rocm::quantized_tensor_handle(taken)])
    };
    record(vec![tensor, indices], outputs, run).remove(0)
}

/// A description of a tensor, from which Burn's operations compute the shapes of results.
fn described(tensor: &Lazy) -> TensorIr {
    TensorIr { status: TensorStatus::ReadOnly, ..TensorIr::uninit(tensor.id(), tensor.shape(), tensor.dtype()) }
}

/// A name for the result of an operation that is only asked for its shape, and not recorded.
fn unnamed() -> TensorId {
    TensorId::new(u64::MAX)
}

impl QTensorOps<Fused> for Fused {
    fn q_from_data(data: TensorData, device: &BurnDevice) -> Lazy {
        Client::of(&named(device)).register_tensor_data(data)
    }

    fn quantize(tensor: Lazy, scheme: &QuantScheme, qparams: QuantizationParametersPrimitive<Fused>) -> Lazy {
        let outputs = vec![(tensor.shape(), DType::QFloat(*scheme))];
        let (scheme, has_global) = (*scheme, qparams.global.is_some());
        let inputs = [tensor, qparams.scales].into_iter().chain(qparams.global).collect();
        let run = |handles: &mut Handles, irs: &[TensorIr]| {
            let tensor = handles.float(&irs[0]);
            let scales = handles.float(&irs[1]);
            let global = has_global.then(|| handles.float(&irs[2]));
            let coded = Rocm::quantize(tensor, &scheme, QuantizationParametersPrimitive { scales, global });
            Ok(vec![Rocm::quantized_tensor_handle(coded)])
        };
        record(inputs, outputs, run).remove(0)
    }

    fn dequantize(tensor: Lazy, dtype: FloatDType) -> Lazy {
        let outputs = vec![(tensor.shape(), dtype.into())];
        let run = |handles: &mut Handles, irs: &[TensorIr]| {
            let floats = Rocm::dequantize(handles.quantized(&irs[0]), dtype);
            Ok(vec![Rocm::float_tensor_handle(floats)])
        };
        record(vec![tensor], outputs, run).remove(0)
    }

    fn q_to_device(tensor: Lazy, device: &BurnDevice) -> Lazy {
        if named(&tensor.device()) == named(device) {
            return tensor;
        }
        let (client, shape, dtype) = (tensor.client, tensor.shape(), tensor.dtype());
        let taken = client.take(&tensor.into_ir()).unwrap_or_else(|error| panic!("{error:?}"));
        let moved = Rocm::q_to_device(Rocm::quantized_tensor(taken), &named(device));
        Client::of(&named(device)).tensor(Rocm::quantized_tensor_handle(moved), shape, dtype)
    }

    async fn q_into_data(tensor: Lazy) -> Result<TensorData, ExecutionError> {
        let client = tensor.client;
        client.read_tensor_async(tensor.into_ir()).await
    }

    fn q_reshape(tensor: Lazy, shape: Shape) -> Lazy {
        moved(tensor, shape.clone(), |tensor| Rocm::q_reshape(tensor, shape))
    }

    fn q_expand(tensor: Lazy, shape: Shape) -> Lazy {
        moved(tensor, shape.clone(), |tensor| Rocm::q_expand(tensor, shape))
    }

    fn q_swap_dims(tensor: Lazy, dim1: usize, dim2: usize) -> Lazy {
        let shape = SwapDimsOpIr::create(described(&tensor), dim1, dim2, unnamed).out.shape;
        moved(tensor, shape, |tensor| Rocm::q_swap_dims(tensor, dim1, dim2))
    }

    fn q_permute(tensor: Lazy, axes: &[usize]) -> Lazy {
        let shape = PermuteOpIr::create(described(&tensor), axes.into(), unnamed).out.shape;
        moved(tensor, shape, |tensor| Rocm::q_permute(tensor, axes))
    }

    fn q_flip(tensor: Lazy, axes: &[usize]) -> Lazy {
        let shape = tensor.shape();
        moved(tensor, shape, |tensor| Rocm::q_flip(tensor, axes))
    }

    fn q_slice(tensor: Lazy, slices: &[Slice]) -> Lazy {
        let shape = SliceOpIr::create(described(&tensor), slices.into(), unnamed).out.shape;
        moved(tensor, shape, |tensor| Rocm::q_slice(tensor, slices))
    }

    fn q_select(tensor: Lazy, dim: usize, indices: Lazy) -> Lazy {
        let shape = SelectOpIr::create(described(&tensor), dim, described(&indices), unnamed).out.shape;
        indexed(tensor, indices, shape, |tensor, indices| Rocm::q_select(tensor, dim, indices))
    }

    fn q_gather(dim: usize, tensor: Lazy, indices: Lazy) -> Lazy {
        let shape = indices.shape();
        indexed(tensor, indices, shape, |tensor, indices| Rocm::q_gather(dim, tensor, indices))
    }

    fn q_matmul(lhs: TensorPrimitive<Fused>, rhs: TensorPrimitive<Fused>) -> TensorPrimitive<Fused> {
        use TensorPrimitive::{Float, QFloat};
        let settings = get_or_init_device_settings::<Fused>(&lhs.device());
        let coded = match (&lhs, &rhs) {
            (_, QFloat(coded)) | (QFloat(coded), _) => Some(coded.dtype()),
            (Float(_), Float(_)) => None,
        };
        let floats = match (&lhs, &rhs) {
            (Float(floats), _) | (_, Float(floats)) => floats.dtype(),
            (QFloat(_), QFloat(_)) => settings.float_dtype.into(),
        };
        let coded = coded.filter(|_| settings.quantization.propagation == QuantPropagation::Propagate);
        let dtype = coded.unwrap_or(floats);
        let are_coded = [&lhs, &rhs].map(|side| matches!(side, QFloat(_)));
        let [lhs, rhs] = [lhs, rhs].map(|side| match side {
            Float(tensor) | QFloat(tensor) => tensor,
        });
        let shape = MatmulOpIr::create_mixed(described(&lhs), described(&rhs), dtype, unnamed).out.shape;
        let run = |handles: &mut Handles, irs: &[TensorIr]| {
            let mut side = |at: usize| match are_coded[at] {
                true => QFloat(handles.quantized(&irs[at])),
                false => Float(handles.float(&irs[at])),
            };
            let (lhs, rhs) = (side(0), side(1));
            Ok(vec![match Rocm::q_matmul(lhs, rhs) {
                Float(product) => Rocm::float_tensor_handle(product),
                QFloat(product) => Rocm::quantized_tensor_handle(product),
            }])
        };
        let product = record(vec![lhs, rhs], vec![(shape, dtype)], run).remove(0);
        if coded.is_some() { QFloat(product) } else { Float(product) }
    }
}
