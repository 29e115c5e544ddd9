//! Attention as one operator, forward and backward, beyond what Burn's own options say.
//!
//! Burn's `ModuleOps::attention` reaches the same kernel in inference; its `Autodiff` takes it apart into products whose
//! scores are kept. [`AttentionOps`] is not taken apart: [`Autodiff`] keeps the output and a logarithm per row, and computes the
//! weights again; `Fused` runs it as one operation behind what was recorded. Nothing here is a tensor of `burn::Tensor`'s: the crate that Burn's
//! slot is made of cannot know it.

use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_autodiff::{Autodiff, NodeId};
use burn_backend::ops::attention::attention_fallback;
use burn_backend::tensor::{BoolTensor, FloatTensor};
use burn_backend::{Backend, DType as BurnDType, Shape, TensorMetadata};
use burn_ir::{BackendIr, TensorIr};
use rocfire_hal::{DType, Tensor, View};
use rocfire_kernels::attention::{self as kernel, AttentionInputs, AttentionSaved};
pub use rocfire_kernels::attention::{AttentionParams, Dropout, takes_depth};
pub use rocfire_kernels::random::Seed;

use crate::error::{OrPanic, Result};
use crate::fusion::handle::Handle;
use crate::fusion::handles::Handles;
use crate::recorder::Lazy;
use crate::recorder::record::record;
use crate::version::attention_options;
use crate::{Fused, Rocm, RocmDevice, RocmTensor};

/// What attention reads.
///
/// # Shapes
/// `query`: `[batch, heads, rows, depth]`; `key`: `[batch, kv_heads, columns, depth]`; `value`: `[batch, kv_heads, columns,
/// value_depth]`, where `kv_heads` divides `heads` and query head `h` reads key head `h / (heads / kv_heads)`. `mask` (true: not
/// seen) and `bias` (added to the scaled scores) broadcast to `[batch, heads, rows, columns]`.
#[derive(Clone, Debug)]
pub struct AttentionTensors<B: Backend> {
    /// Queries.
    pub query: FloatTensor<B>,
    /// Keys.
    pub key: FloatTensor<B>,
    /// Values.
    pub value: FloatTensor<B>,
    /// What is not seen.
    pub mask: Option<BoolTensor<B>>,
    /// What is added to the scores.
    pub bias: Option<FloatTensor<B>>,
}

/// Attention that keeps no scores.
///
/// Head sizes are multiples of 8 up to 256, types f64, f32, f16, bf16. A shape that does not fit is a panic with the argument's
/// name, as with Burn's own operators.
pub trait AttentionOps: Backend {
    /// The output, `[batch, heads, rows, value_depth]`. A row that sees nothing gives zeros.
    fn fused_attention(inputs: AttentionTensors<Self>, params: AttentionParams) -> FloatTensor<Self>;

    /// The output, and the natural logarithm of each row's sum of exponentials, `[batch, heads, rows]`, f32 (f64 for f64).
    fn fused_attention_with_lse(
        inputs: AttentionTensors<Self>,
        params: AttentionParams,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of queries, keys and values, from what [`AttentionOps::fused_attention_with_lse`] gave and the gradient of
    /// its output. `params` must be the forward's, dropout's seed too.
    fn fused_attention_backward(
        inputs: AttentionTensors<Self>,
        saved: (FloatTensor<Self>, FloatTensor<Self>),
        grad: FloatTensor<Self>,
        params: AttentionParams,
    ) -> [FloatTensor<Self>; 3];
}

/// Names the next draw of a device's generator, for [`Dropout`].
pub fn next_draw(device: &RocmDevice) -> Seed {
    crate::ops::next_draw(device).or_panic()
}

/// The type of the logarithms of sums.
fn real(dtype: BurnDType) -> BurnDType {
    if dtype == BurnDType::F64 { BurnDType::F64 } else { BurnDType::F32 }
}

impl AttentionTensors<Rocm> {
    fn views(&self) -> AttentionInputs<'_> {
        AttentionInputs {
            q: self.query.as_inner().view(),
            k: self.key.as_inner().view(),
            v: self.value.as_inner().view(),
            mask: self.mask.as_ref().map(|mask| mask.as_inner().view()),
            bias: self.bias.as_ref().map(|bias| bias.as_inner().view()),
            starts: None,
            slopes: None,
            sinks: None,
        }
    }

    fn forward(&self, params: &AttentionParams, with_lse: bool) -> Result<(Tensor, Option<Tensor>)> {
        let (inputs, device) = (self.views(), self.query.as_inner().device());
        let (mut shape, dtype) = (inputs.q.shape().to_vec(), inputs.q.dtype());
        let lse_dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let lse = with_lse.then(|| Tensor::empty(device, shape.get(..3).unwrap_or(&shape), lse_dtype));
        let mut lse = lse.transpose()?;
        if let (Some(depth), Some(value_depth)) = (shape.last_mut(), inputs.v.shape().last()) {
            *depth = *value_depth;
        }
        let mut out = Tensor::empty(device, &shape, dtype)?;
        kernel::attention(device.stream(), &inputs, params, out.view_mut(), lse.as_mut().map(Tensor::view_mut))?;
        Ok((out, lse))
    }

    fn backward(&self, [out, lse, dout]: [View<'_>; 3], params: &AttentionParams) -> Result<[Tensor; 3]> {
        let (inputs, device) = (self.views(), self.query.as_inner().device());
        let like = |view: View<'_>| Tensor::empty(device, view.shape(), view.dtype());
        let [mut dq, mut dk, mut dv] = [like(inputs.q)?, like(inputs.k)?, like(inputs.v)?];
        let saved = AttentionSaved { out, lse, dout };
        let gradients = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
        kernel::attention_backward(device.stream(), &inputs, &saved, params, gradients)?;
        Ok([dq, dk, dv])
    }
}

impl AttentionOps for Rocm {
    fn fused_attention(inputs: AttentionTensors<Self>, params: AttentionParams) -> RocmTensor {
        RocmTensor::new(inputs.forward(&params, false).or_panic().0)
    }

    fn fused_attention_with_lse(inputs: AttentionTensors<Self>, params: AttentionParams) -> (RocmTensor, RocmTensor) {
        let (out, lse) = inputs.forward(&params, true).or_panic();
        (RocmTensor::new(out), RocmTensor::new(lse.expect("it was asked for")))
    }

    fn fused_attention_backward(
        inputs: AttentionTensors<Self>,
        (out, lse): (RocmTensor, RocmTensor),
        grad: RocmTensor,
        params: AttentionParams,
    ) -> [RocmTensor; 3] {
        let saved = [&out, &lse, &grad].map(|tensor| tensor.as_inner().view());
        inputs.backward(saved, &params).or_panic().map(RocmTensor::new)
    }
}

/// The tensors of a recorded attention, in the order of the operation's inputs.
struct Recorded {
    mask: bool,
    bias: bool,
}

impl Recorded {
    fn split(inputs: AttentionTensors<Fused>) -> (Recorded, Vec<Lazy>) {
        let recorded = Recorded { mask: inputs.mask.is_some(), bias: inputs.bias.is_some() };
        let tensors = [inputs.query, inputs.key, inputs.value].into_iter().chain(inputs.mask).chain(inputs.bias);
        (recorded, tensors.collect())
    }

    /// The tensors when the operation runs, and the operation's other inputs.
    fn resolve<'a>(&self, handles: &mut Handles, irs: &'a [TensorIr]) -> (AttentionTensors<Rocm>, &'a [TensorIr]) {
        let (own, rest) = irs.split_at(3 + usize::from(self.mask) + usize::from(self.bias));
        let tensors = AttentionTensors {
            query: handles.float(&own[0]),
            key: handles.float(&own[1]),
            value: handles.float(&own[2]),
            mask: self.mask.then(|| handles.bool(&own[3])),
            bias: self.bias.then(|| handles.float(&own[own.len() - 1])),
        };
        (tensors, rest)
    }
}

/// The shape of the output.
fn output_shape<B: Backend>(inputs: &AttentionTensors<B>) -> Shape {
    let (query, value) = (inputs.query.shape(), inputs.value.shape());
    let mut dims = query.to_vec();
    if let (Some(depth), Some(value_depth)) = (dims.last_mut(), value.to_vec().last()) {
        *depth = *value_depth;
    }
    Shape::from(dims)
}

fn floats<const N: usize>(tensors: [RocmTensor; N]) -> Vec<Handle> {
    tensors.map(Rocm::float_tensor_handle).into()
}

impl AttentionOps for Fused {
    fn fused_attention(inputs: AttentionTensors<Self>, params: AttentionParams) -> Lazy {
        let outputs = vec![(output_shape(&inputs), inputs.query.dtype())];
        let (recorded, tensors) = Recorded::split(inputs);
        let run = move |handles: &mut Handles, irs: &[TensorIr]| {
            Ok(floats([Rocm::fused_attention(recorded.resolve(handles, irs).0, params)]))
        };
        record(tensors, outputs, run).remove(0)
    }

    fn fused_attention_with_lse(inputs: AttentionTensors<Self>, params: AttentionParams) -> (Lazy, Lazy) {
        let dtype = inputs.query.dtype();
        let lse = Shape::from(inputs.query.shape().to_vec()[..3].to_vec());
        let outputs = vec![(output_shape(&inputs), dtype), (lse, real(dtype))];
        let (recorded, tensors) = Recorded::split(inputs);
        let run = move |handles: &mut Handles, irs: &[TensorIr]| {
            let (out, lse) = Rocm::fused_attention_with_lse(recorded.resolve(handles, irs).0, params);
            Ok(floats([out, lse]))
        };
        let mut outputs = record(tensors, outputs, run);
        let lse = outputs.pop().expect("two outputs were described");
        (outputs.remove(0), lse)
    }

    fn fused_attention_backward(
        inputs: AttentionTensors<Self>,
        (out, lse): (Lazy, Lazy),
        grad: Lazy,
        params: AttentionParams,
    ) -> [Lazy; 3] {
        let outputs = [&inputs.query, &inputs.key, &inputs.value].map(|tensor| (tensor.shape(), tensor.dtype()));
        let (recorded, mut tensors) = Recorded::split(inputs);
        tensors.extend([out, lse, grad]);
        let run = move |handles: &mut Handles, irs: &[TensorIr]| {
            let (inputs, rest) = recorded.resolve(handles, irs);
            let [out, lse, grad] = [0, 1, 2].map(|n| handles.float(&rest[n]));
            Ok(floats(Rocm::fused_attention_backward(inputs, (out, lse), grad, params)))
        };
        let gradients = record(tensors, outputs.into(), run);
        gradients.try_into().unwrap_or_else(|_| unreachable!("three outputs were described"))
    }
}

/// The backward step of attention.
#[derive(Debug)]
struct AttentionStep;

impl<B: AttentionOps> Backward<B, 3> for AttentionStep {
    /// Where queries, keys and values are kept, mask and bias, output and logarithms, parameters.
    type State = (
        [NodeId; 3],
        (Option<BoolTensor<B>>, Option<FloatTensor<B>>),
        (FloatTensor<B>, FloatTensor<B>),
        AttentionParams,
    );

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (kept, (mask, bias), saved, params) = ops.state;
        let [query, key, value] = kept.map(|id| checkpointer.retrieve_node_output::<FloatTensor<B>>(id));
        let inputs = AttentionTensors { query, key, value, mask, bias };
        let gradients = B::fused_attention_backward(inputs, saved, grad, params);
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

/// Asks whether a tensor has a gradient. It is prepared and never registered.
#[derive(Debug)]
struct Asked;

impl<B: Backend> Backward<B, 1> for Asked {
    type State = ();

    fn backward(self, _ops: Ops<(), 1>, _grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        unreachable!("the step is not registered")
    }
}

fn is_learned<B: Backend, C: CheckpointStrategy>(tensor: &FloatTensor<Autodiff<B, C>>) -> bool {
    let asked = <Asked as Backward<B, 1>>::prepare::<C>(Asked, [tensor.node()]);
    matches!(asked.compute_bound().stateful(), OpsKind::Tracked(_))
}

/// By the written-out operators, whose gradients Burn knows: for a bias that is learned, and head sizes that the kernel does not
/// have.
fn written_out<B: Backend, C: CheckpointStrategy>(
    inputs: AttentionTensors<Autodiff<B, C>>,
    params: &AttentionParams,
) -> FloatTensor<Autodiff<B, C>> {
    let plain = params.left.is_none() && params.right.is_none() && params.dropout.is_none();
    assert!(
        plain,
        "fused_attention: window and dropout must be none where the bias is learned or a head size is no multiple of 8 up to \
         256, got {params:?}"
    );
    let options = attention_options(params.scale, params.softcap, params.causal);
    let AttentionTensors { query, key, value, mask, bias } = inputs;
    attention_fallback::<Autodiff<B, C>>(query, key, value, mask, bias, options)
}

impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn fused_attention(inputs: AttentionTensors<Self>, params: AttentionParams) -> FloatTensor<Self> {
        let depth = |tensor: &FloatTensor<Self>| tensor.shape().to_vec().last().copied().unwrap_or(0);
        let fits = [&inputs.query, &inputs.value].iter().all(|tensor| kernel::takes_depth(depth(tensor)));
        let learned = inputs.bias.as_ref().is_some_and(is_learned::<B, C>);
        if learned || !fits {
            return written_out(inputs, &params);
        }
        let AttentionTensors { query, key, value, mask, bias } = inputs;
        let bias = bias.map(|bias| bias.into_primitive());
        let nodes = [query.node(), key.node(), value.node()];
        match AttentionStep.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let kept = [&query, &key, &value].map(|tensor| prep.checkpoint(tensor));
                let [query, key, value] = [query, key, value].map(|tensor| tensor.into_primitive());
                let inputs = AttentionTensors { query, key, value, mask: mask.clone(), bias: bias.clone() };
                let (out, lse) = B::fused_attention_with_lse(inputs, params);
                prep.finish((kept, (mask, bias), (out.clone(), lse), params), out)
            }
            OpsKind::UnTracked(prep) => {
                let [query, key, value] = [query, key, value].map(|tensor| tensor.into_primitive());
                prep.finish(B::fused_attention(AttentionTensors { query, key, value, mask, bias }, params))
            }
        }
    }

    fn fused_attention_with_lse(
        _inputs: AttentionTensors<Self>,
        _params: AttentionParams,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        panic!("fused_attention_with_lse: the logarithms have no gradient; call it on the inner backend")
    }

    fn fused_attention_backward(
        _inputs: AttentionTensors<Self>,
        _saved: (FloatTensor<Self>, FloatTensor<Self>),
        _grad: FloatTensor<Self>,
        _params: AttentionParams,
    ) -> [FloatTensor<Self>; 3] {
        panic!("fused_attention_backward: the gradient of a gradient is not implemented")
    }
}
