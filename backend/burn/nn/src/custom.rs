//! Kernels of a user's own on tensors of `burn::Tensor`'s.

use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn::backend::{
    Autodiff, BackendTensor, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor,
    GradientCheckpointingStrategy, TensorMetadata,
};
use rocfire_burn::Fused;
use rocfire_burn::custom::{CustomGradient, CustomKernel, CustomOps, CustomScalar, CustomTensor};

use crate::dispatch::{context, is_ours, taken, tracked};

/// Calls a kernel on the tensors that `Tensor::into_dispatch` gives, and gives its outputs for `Tensor::from_dispatch`: as one
/// operation of the stream, with the kernel's gradient where an input takes part in one.
///
/// `None` where a tensor is not on a device of rocfire's: the caller writes the operator out.
///
/// # Panics
/// If the call does not fit the kernel, as [`CustomOps::custom`]; for a quantised tensor.
///
/// ```no_run
/// use burn::tensor::Tensor;
/// use rocfire_burn::custom::CustomKernel;
/// use rocfire_burn_nn::custom;
///
/// fn scaled(kernel: &CustomKernel, x: Tensor<2>, factor: f32) -> Tensor<2> {
///     let count = x.shape().num_elements() as u32;
///     let outputs = custom(kernel, vec![x.clone().into_dispatch()], &[factor.into(), count.into()]);
///     outputs.map_or_else(|| x * factor, |mut outputs| Tensor::from_dispatch(outputs.remove(0)))
/// }
/// ```
pub fn custom<G: CustomGradient>(
    kernel: &CustomKernel<G>,
    inputs: Vec<DispatchTensor>,
    scalars: &[CustomScalar],
) -> Option<Vec<DispatchTensor>> {
    if !inputs.iter().all(is_ours) {
        return None;
    }
    Some(match context(inputs.iter()) {
        DispatchAutodiffContext::Disabled => {
            let name = kernel.name();
            call::<Fused, G>(kernel, inputs, scalars, |tensor| of(name, taken(name, tensor)))
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Disabled) => {
            learned::<NoCheckpointing, G>(kernel, inputs, scalars)
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced) => {
            learned::<BalancedCheckpointing, G>(kernel, inputs, scalars)
        }
    })
}

/// A call that takes part in a gradient: only floats do.
fn learned<C: CheckpointStrategy, G: CustomGradient>(
    kernel: &CustomKernel<G>,
    inputs: Vec<DispatchTensor>,
    scalars: &[CustomScalar],
) -> Vec<DispatchTensor>
where
    DispatchTensor: DispatchKindConversion<Autodiff<Fused, C>>,
{
    let name = kernel.name();
    let input = |mut tensor: DispatchTensor| {
        if tensor.dtype().is_float() {
            return CustomTensor::Float(tracked::<C>(name, tensor));
        }
        tensor.autodiff = DispatchAutodiffContext::Disabled;
        match of(name, taken::<Fused>(name, tensor)) {
            CustomTensor::Int(tensor) => CustomTensor::Int(tensor),
            CustomTensor::Bool(tensor) => CustomTensor::Bool(tensor),
            CustomTensor::Float(_) => unreachable!("floats were taken above"),
        }
    };
    call::<Autodiff<Fused, C>, G>(kernel, inputs, scalars, input)
}

fn call<B: CustomOps, G: CustomGradient>(
    kernel: &CustomKernel<G>,
    inputs: Vec<DispatchTensor>,
    scalars: &[CustomScalar],
    input: impl Fn(DispatchTensor) -> CustomTensor<B>,
) -> Vec<DispatchTensor>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    let given = |output| match output {
        CustomTensor::Float(tensor) => BackendTensor::Float(tensor),
        CustomTensor::Int(tensor) => BackendTensor::Int(tensor),
        CustomTensor::Bool(tensor) => BackendTensor::Bool(tensor),
    };
    let outputs = B::custom(kernel, inputs.into_iter().map(input).collect(), scalars);
    let wrapped = |output| <DispatchTensor as DispatchKindConversion<B>>::from_backend(given(output));
    outputs.into_iter().map(wrapped).collect()
}

/// A tensor of a backend as a kernel takes it.
fn of<B: CustomOps>(name: &'static str, tensor: BackendTensor<B>) -> CustomTensor<B> {
    match tensor {
        BackendTensor::Float(tensor) => CustomTensor::Float(tensor),
        BackendTensor::Int(tensor) => CustomTensor::Int(tensor),
        BackendTensor::Bool(tensor) => CustomTensor::Bool(tensor),
        other => panic!("{name}: inputs must be floats, integers or bools, got {}", other.name()),
    }
}
