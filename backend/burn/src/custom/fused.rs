//! Custom kernels behind what was recorded: one operation each.

use burn_ir::{BackendIr, TensorIr};

use super::{CustomGradient, CustomKernel, CustomOps, CustomScalar, CustomTensor, call};
use crate::error::execution;
use crate::fusion::handles::Handles;
use crate::recorder::record::record;
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
        let promised = described.iter().map(|spec| (spec.shape.clone(), spec.dtype)).collect();
        let run = move |handles: &mut Handles, irs: &[TensorIr]| {
            // Which kind a handle is taken as does not matter: see `Rocm`'s `BackendIr`.
            let inputs: Vec<RocmTensor> = irs.iter().map(|ir| handles.float(ir)).collect();
            let made = call::run(&parts, inputs, &scalars).map_err(execution)?;
            Ok(made.into_iter().map(Rocm::float_tensor_handle).collect())
        };
        let outputs = record(inputs, promised, run);
        outputs.into_iter().zip(described).map(|(tensor, spec)| CustomTensor::of(tensor, spec.dtype)).collect()
    }
}
