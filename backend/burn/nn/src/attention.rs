//! The fused attention on tensors of `burn::Tensor`'s.
//!
//! A tensor says at run time which backend it is of, and whether it takes part in a gradient. Where it is rocfire's, it is
//! taken out of its wrappers and handed to the operator of that very backend: [`Fused`], or `Autodiff` of it with the device's
//! checkpointing. Where it is not, there is no operator, and the caller writes attention out.

use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{
    Autodiff, AutodiffBackend, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor, DispatchTensorKind,
    GradientCheckpointingStrategy,
};
use burn::tensor::{Bool, Tensor};
use rocfire_burn::Fused;
use rocfire_burn::attention::{AttentionOps, AttentionParams, AttentionTensors, takes_depth};

/// What attention reads.
///
/// # Shapes
/// `query`: `[batch, heads, rows, depth]`; `key`: `[batch, kv_heads, columns, depth]`; `value`: `[batch, kv_heads, columns,
/// value_depth]`, where `kv_heads` divides `heads`. `mask` (true: not seen) and `bias` (added to the scaled scores) broadcast
/// to `[batch, heads, rows, columns]`.
#[derive(Clone, Debug)]
pub struct AttentionInputs {
    /// Queries.
    pub query: Tensor<4>,
    /// Keys.
    pub key: Tensor<4>,
    /// Values.
    pub value: Tensor<4>,
    /// What is not seen.
    pub mask: Option<Tensor<4, Bool>>,
    /// What is added to the scores.
    pub bias: Option<Tensor<4>>,
}

/// `softmax(query · keyᵀ · scale) · value`, with everything that `params` says, in one launch; its gradient in as few as the
/// kernels have. A row that sees nothing gives zeros.
///
/// `None` where there is no such operator: the tensors are not on a device of rocfire's, or a head size is no multiple of 8 up
/// to 256.
///
/// # Panics
/// If shapes or types do not fit, with the argument's name, as Burn's own operators; if tensors are of two devices.
pub fn attention(inputs: AttentionInputs, params: AttentionParams) -> Option<Tensor<4>> {
    let depths = [inputs.query.dims()[3], inputs.value.dims()[3]];
    if !depths.into_iter().all(takes_depth) {
        return None;
    }
    let AttentionInputs { query, key, value, mask, bias } = inputs;
    let floats = [Some(query), Some(key), Some(value), bias].map(|tensor| tensor.map(Tensor::into_dispatch));
    if !floats.iter().flatten().all(is_ours) {
        return None;
    }
    let context = floats.iter().flatten().map(|tensor| tensor.autodiff);
    let context = context.fold(DispatchAutodiffContext::Disabled, DispatchAutodiffContext::merge);
    let mask = mask.map(Tensor::into_dispatch);
    Some(match context {
        DispatchAutodiffContext::Disabled => {
            let [query, key, value, bias] = floats.map(|tensor| tensor.map(untracked));
            attend::<Fused>([query, key, value], mask, bias, params)
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Disabled) => {
            let [query, key, value, bias] = floats.map(|tensor| tensor.map(tracked::<NoCheckpointing>));
            attend::<Autodiff<Fused, NoCheckpointing>>([query, key, value], mask, bias, params)
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced) => {
            let [query, key, value, bias] = floats.map(|tensor| tensor.map(tracked::<BalancedCheckpointing>));
            attend::<Autodiff<Fused, BalancedCheckpointing>>([query, key, value], mask, bias, params)
        }
    })
}

fn attend<B>(
    floats: [Option<FloatTensor<B>>; 3],
    mask: Option<DispatchTensor>,
    bias: Option<FloatTensor<B>>,
    params: AttentionParams,
) -> Tensor<4>
where
    B: AttentionOps<BoolTensorPrimitive = BoolTensor<Fused>>,
    DispatchTensor: DispatchKindConversion<B>,
{
    let [query, key, value] = floats.map(|tensor| tensor.expect("queries, keys and values are always there"));
    let tensors = AttentionTensors { query, key, value, mask: mask.map(bools), bias };
    Tensor::from_primitive::<B>(B::fused_attention(tensors, params))
}

/// Whether a tensor is of the backend in the slot.
fn is_ours(tensor: &DispatchTensor) -> bool {
    let kind = match &tensor.kind {
        DispatchTensorKind::Autodiff(inner) => inner,
        kind => kind,
    };
    matches!(kind, DispatchTensorKind::LibTorch(_))
}

fn untracked(tensor: DispatchTensor) -> FloatTensor<Fused> {
    Tensor::<4>::from_dispatch(tensor).try_into_primitive::<Fused>().unwrap_or_else(|error| panic!("{error:?}"))
}

/// A tensor that takes part in a gradient, or a constant in one.
fn tracked<C: CheckpointStrategy>(tensor: DispatchTensor) -> FloatTensor<Autodiff<Fused, C>>
where
    DispatchTensor: DispatchKindConversion<Autodiff<Fused, C>>,
{
    match tensor.autodiff {
        DispatchAutodiffContext::Disabled => Autodiff::<Fused, C>::from_inner(untracked(tensor)),
        DispatchAutodiffContext::Enabled(_) => {
            let primitive = Tensor::<4>::from_dispatch(tensor).try_into_primitive::<Autodiff<Fused, C>>();
            primitive.unwrap_or_else(|error| panic!("{error:?}"))
        }
    }
}

/// A mask, which takes part in no gradient whatever its device says.
fn bools(mut mask: DispatchTensor) -> BoolTensor<Fused> {
    assert!(is_ours(&mask), "attention: mask must be on the queries' device, got {:?}", mask.kind);
    mask.autodiff = DispatchAutodiffContext::Disabled;
    let primitive = Tensor::<4, Bool>::from_dispatch(mask).try_into_primitive::<Fused>();
    primitive.unwrap_or_else(|error| panic!("{error:?}"))
}
