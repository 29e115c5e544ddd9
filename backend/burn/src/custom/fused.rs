//! Custom kernels in Burn's stream: one operation, run when the stream is.

use burn_fusion::FusionTensor;
use burn_fusion::custom::{CustomOpIr, HandleContainer, OperationFn, OperationIr, ScalarIr, StreamId, TensorIr};

use super::{CustomGradient, CustomKernel, CustomOps, CustomScalar, CustomTensor, call};
use crate::error::execution;
use crate::fusion::handle::{Handle, wrap};
use crate::{Fused, Rocm, RocmTensor};

impl CustomOps for Fused {
    fn custom<G: CustomGradient>(
        kernel: &CustomKernel<G>,
        inputs: Vec<CustomTensor<Fused>>,
        scalars: &[CustomScalar],
    ) -> Vec<CustomTensor<Fused>> {
        let specs: Vec<_> = inputs.iter().map(CustomTensor::spec).collect();
        let (parts, scalars) = (kernel.parts.clone(), scalars.to_vec());
        let described = call::describe(&parts, &specs, &scalars);
        let inputs: Vec<_> = inputs.into_iter().map(CustomTensor::into_any).collect();
        let first = inputs.first().unwrap_or_else(|| panic!("{}: inputs must be at least one, got 0", parts.name));
        let client = first.client.clone();
        let inputs: Vec<TensorIr> = inputs.into_iter().map(FusionTensor::into_ir).collect();
        let uninit =
            |spec: &super::TensorSpec| TensorIr::uninit(client.create_empty_handle(), spec.shape.clone(), spec.dtype);
        let outputs: Vec<TensorIr> = described.iter().map(uninit).collect();
        let named: Vec<ScalarIr> = scalars.iter().map(|&scalar| recorded(scalar)).collect();
        let operation = CustomOpIr::with_scalars(parts.name, &inputs, &outputs, named);
        let promised: Vec<_> = outputs.iter().map(|output| (output.id, output.dtype)).collect();
        let run = OperationFn(move |handles: &mut HandleContainer<Handle>| {
            // Which kind a handle is taken as does not matter: see `Rocm`'s `BackendIr`.
            let inputs: Vec<RocmTensor> = inputs.iter().map(|ir| handles.get_float_tensor::<Rocm>(ir)).collect();
            let outputs = call::run(&parts, &inputs, &scalars).map_err(execution)?;
            for (&(id, dtype), tensor) in promised.iter().zip(outputs) {
                handles.register_handle(id, wrap(tensor.into_inner(), dtype));
            }
            Ok(())
        });
        let outputs = client.register(StreamId::current(), OperationIr::Custom(operation), run);
        outputs.into_iter().zip(described).map(|(tensor, spec)| CustomTensor::of(tensor, spec.dtype)).collect()
    }
}

/// A scalar as Burn's stream keeps it.
fn recorded(scalar: CustomScalar) -> ScalarIr {
    match scalar {
        CustomScalar::I32(value) => ScalarIr::Int(value.into()),
        CustomScalar::I64(value) => ScalarIr::Int(value),
        CustomScalar::U32(value) => ScalarIr::UInt(value.into()),
        CustomScalar::U64(value) => ScalarIr::UInt(value),
        CustomScalar::F32(value) => ScalarIr::Float(value.into()),
        CustomScalar::F64(value) => ScalarIr::Float(value),
    }
}
