//! The fused attention on tensors of `burn::Tensor`'s.
//!
//! On a device that is not rocfire's there is no operator, and the caller writes attention out.

use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{
    Autodiff, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor, GradientCheckpointingStrategy,
};
use burn::tensor::{Bool, Tensor};
use rocfire_burn::Fused;
use rocfire_burn::attention::{AttentionOps, AttentionParams, AttentionTensors, takes_depth};
use rocfire_burn::custom::operators::{self, AttentionForm};

use crate::dispatch::{context, floats, is_ours, tracked};
use crate::{one, run};

/// The operator's name in messages.
const NAME: &str = "attention";

/// What attention reads.
///
/// # Shapes
/// `query`: `[batch, heads, rows, depth]`; `key`: `[batch, kv_heads, columns, depth]`; `value`: `[batch, kv_heads, columns,
/// value_depth]`, where `kv_heads` divides `heads`. `mask` (true: not seen) and `bias` (added to the scaled scores) broadcast
/// to `[batch, heads, rows, columns]`. `sinks` are `[heads]`, f32 (f64 for f64).
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
    /// For each head a score more in the softmax, of a value of zeros. The bias must be no variable then.
    pub sinks: Option<Tensor<1>>,
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
    let AttentionInputs { query, key, value, mask, bias, sinks } = inputs;
    let given = [Some(query), Some(key), Some(value), bias].map(|tensor| tensor.map(Tensor::into_dispatch));
    if !given.iter().flatten().all(is_ours) {
        return None;
    }
    let mask = mask.map(Tensor::into_dispatch);
    if let Some(sinks) = sinks {
        let form = AttentionForm {
            params,
            is_learned: true,
            has_sinks: true,
            has_mask: mask.is_some(),
            has_bias: given[3].is_some(),
            ..AttentionForm::default()
        };
        let [query, key, value, bias] = given;
        let inputs = [query, key, value, Some(sinks.into_dispatch()), mask, bias];
        return one(run(operators::attention(form), inputs.into_iter().flatten().collect()));
    }
    Some(match context(given.iter().flatten()) {
        DispatchAutodiffContext::Disabled => {
            let [query, key, value, bias] = given.map(|tensor| tensor.map(|tensor| floats(NAME, tensor)));
            attend::<Fused>([query, key, value], mask, bias, params)
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Disabled) => {
            let [query, key, value, bias] =
                given.map(|tensor| tensor.map(|tensor| tracked::<NoCheckpointing>(NAME, tensor)));
            attend::<Autodiff<Fused, NoCheckpointing>>([query, key, value], mask, bias, params)
        }
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced) => {
            let [query, key, value, bias] =
                given.map(|tensor| tensor.map(|tensor| tracked::<BalancedCheckpointing>(NAME, tensor)));
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

/// A mask, which takes part in no gradient whatever its device says.
fn bools(mut mask: DispatchTensor) -> BoolTensor<Fused> {
    assert!(is_ours(&mask), "attention: mask must be on the queries' device, got {:?}", mask.kind);
    mask.autodiff = DispatchAutodiffContext::Disabled;
    let primitive = Tensor::<4, Bool>::from_dispatch(mask).try_into_primitive::<Fused>();
    primitive.unwrap_or_else(|error| panic!("{error:?}"))
}
