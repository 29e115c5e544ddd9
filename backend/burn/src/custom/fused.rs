//! Custom kernels in Burn's stream: one operation, run when the stream is.

use burn_fusion::custom::{HandleContainer, ScalarIr, TensorIr};

use super::{CustomGradient, CustomKernel, CustomOps, CustomScalar, CustomTensor, call};
use crate::error::execution;
use crate::fusion::handle::Handle;
use crate::fusion::record::record;
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
        assert!(!inputs.is_empty(), "{}: inputs must be at least one, got 0", parts.name);
        let named: Vec<ScalarIr> = scalars.iter().map(|&scalar| recorded(scalar)).collect();
        let promised = described.iter().map(|spec| (spec.shape.clone(), spec.dtype)).collect();
        let run = move |handles: &mut HandleContainer<Handle>, irs: &[TensorIr]| {
            // Which kind a handle is taken as does not matter: see `Rocm`'s `BackendIr`.
            let inputs: Vec<RocmTensor> = irs.iter().map(|ir| handles.get_float_tensor::<Rocm>(ir)).collect();
            call::run(&parts, &inputs, &scalars).map_err(execution)
        };
        let outputs = record(kernel.parts.name, inputs, named, promised, run);
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
