//! Operators of ours that Burn has no name for, as one operation of its stream.

use burn_backend::{DType, ExecutionError, Shape};
use burn_fusion::FusionTensor;
use burn_fusion::custom::{CustomOpIr, HandleContainer, OperationFn, OperationIr, ScalarIr, StreamId, TensorIr};

use super::RocmRuntime;
use super::handle::{Handle, wrap};
use crate::RocmTensor;

/// A tensor of Burn's stream.
pub(crate) type Lazy = FusionTensor<RocmRuntime>;

/// Records an operation: `run` gives its outputs, of these shapes and types, when the stream runs. At least one input.
pub(crate) fn record<F>(
    name: &'static str,
    inputs: Vec<Lazy>,
    scalars: Vec<ScalarIr>,
    outputs: Vec<(Shape, DType)>,
    run: F,
) -> Vec<Lazy>
where
    F: Fn(&mut HandleContainer<Handle>, &[TensorIr]) -> Result<Vec<RocmTensor>, ExecutionError> + Send + Sync + 'static,
{
    let client = inputs[0].client.clone();
    let inputs: Vec<TensorIr> = inputs.into_iter().map(FusionTensor::into_ir).collect();
    let empty = |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let outputs: Vec<TensorIr> = outputs.into_iter().map(empty).collect();
    let operation = CustomOpIr::with_scalars(name, &inputs, &outputs, scalars);
    let promised: Vec<_> = outputs.iter().map(|output| (output.id, output.dtype)).collect();
    let run = OperationFn(move |handles: &mut HandleContainer<Handle>| {
        for (&(id, dtype), tensor) in promised.iter().zip(run(handles, &inputs)?) {
            handles.register_handle(id, wrap(tensor.into_inner(), dtype));
        }
        Ok(())
    });
    client.register(StreamId::current(), OperationIr::Custom(operation), run)
}
