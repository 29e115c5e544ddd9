//! Tensors of `burn::Tensor`'s without their wrappers.
//!
//! A tensor says at run time which backend it is of, and whether it takes part in a gradient. Where it is rocfire's, it is taken
//! out and handed to the operator of that very backend: [`Fused`], or `Autodiff` of it with the device's checkpointing.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, BackendTensor, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor,
    DispatchTensorKind,
};
use rocfire_burn::{Fused, in_slot};

/// Whether a tensor is of the backend in the slot.
pub(crate) fn is_ours(tensor: &DispatchTensor) -> bool {
    let kind = match &tensor.kind {
        DispatchTensorKind::Autodiff(inner) => inner,
        kind => kind,
    };
    matches!(kind, in_slot!(DispatchTensorKind, _))
}

/// What gradients a call on these tensors takes part in.
pub(crate) fn context<'a>(tensors: impl Iterator<Item = &'a DispatchTensor>) -> DispatchAutodiffContext {
    let contexts = tensors.map(|tensor| tensor.autodiff);
    contexts.fold(DispatchAutodiffContext::Disabled, DispatchAutodiffContext::merge)
}

/// A tensor of a backend; `operator` names the caller in messages.
pub(crate) fn taken<B: Backend>(operator: &'static str, tensor: DispatchTensor) -> BackendTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    <DispatchTensor as DispatchKindConversion<B>>::try_into_backend(tensor)
        .unwrap_or_else(|error| panic!("{operator}: {error}"))
}

/// Floats of a backend without gradients.
pub(crate) fn floats(operator: &'static str, tensor: DispatchTensor) -> FloatTensor<Fused> {
    match taken::<Fused>(operator, tensor) {
        BackendTensor::Float(tensor) => tensor,
        other => panic!("{operator}: expected floats, got {}", other.name()),
    }
}

/// Floats in a call that something takes part in a gradient of: what does not is a constant.
pub(crate) fn tracked<C: CheckpointStrategy>(
    operator: &'static str,
    tensor: DispatchTensor,
) -> FloatTensor<Autodiff<Fused, C>>
where
    DispatchTensor: DispatchKindConversion<Autodiff<Fused, C>>,
{
    if tensor.autodiff == DispatchAutodiffContext::Disabled {
        return Autodiff::<Fused, C>::from_inner(floats(operator, tensor));
    }
    match taken::<Autodiff<Fused, C>>(operator, tensor) {
        BackendTensor::Float(tensor) => tensor,
        other => panic!("{operator}: expected floats, got {}", other.name()),
    }
}
