//! Gradients of custom kernels, as their users give them.

use std::fmt;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, TensorMetadata};

use super::{CustomKernel, CustomOps, CustomScalar, CustomTensor};

/// The most float inputs of a kernel that has a gradient: Burn counts an operation's parents at compile time.
const MOST_INPUTS: usize = 8;

/// What the gradient of a call is computed from.
#[derive(Clone, Debug)]
pub struct Saved<B: Backend> {
    /// The call's inputs.
    pub inputs: Vec<CustomTensor<B>>,
    /// Its outputs.
    pub outputs: Vec<CustomTensor<B>>,
    /// Its scalars.
    pub scalars: Vec<CustomScalar>,
    /// Which of the float inputs, in their order, a gradient is asked for.
    pub needed: Vec<bool>,
}

/// How the gradient of a [`CustomKernel`] is computed.
///
/// Only the first output has a gradient, and must be of floats; others are constants that the gradient may read, such as a maximum
/// or a sum that it would have to compute again. A [`CustomKernel`] is a gradient too: it is called with the inputs, the outputs and
/// the first output's gradient, the same scalars, and gives a gradient for each float input.
pub trait CustomGradient: Clone + fmt::Debug + Send + Sync + 'static {
    /// For each float input of the call, in their order, the gradient of what is differentiated, of the input's shape and type; `None`
    /// for an input on which the output does not depend. `grad` is the gradient of the first output.
    fn backward<B: CustomOps>(&self, saved: Saved<B>, grad: FloatTensor<B>) -> Vec<Option<FloatTensor<B>>>;

    /// Whether there is none.
    #[doc(hidden)]
    fn is_none(&self) -> bool {
        false
    }
}

/// The gradient of a kernel that has none: calling it on a tensor that is tracked is a panic with the kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoGradient;

impl CustomGradient for NoGradient {
    fn backward<B: CustomOps>(&self, _saved: Saved<B>, _grad: FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> {
        unreachable!("a call of a kernel without a gradient is not tracked")
    }

    fn is_none(&self) -> bool {
        true
    }
}

impl<G: CustomGradient> CustomGradient for CustomKernel<G> {
    fn backward<B: CustomOps>(&self, saved: Saved<B>, grad: FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> {
        let inputs = saved.inputs.into_iter().chain(saved.outputs).chain([CustomTensor::Float(grad)]).collect();
        let gradients = B::custom(self, inputs, &saved.scalars);
        gradients.into_iter().map(|gradient| Some(gradient.into_float())).collect()
    }
}

/// The backward step of a call with `N` float inputs.
#[derive(Debug)]
struct CustomBackward<G>(CustomKernel<G>);

impl<B: CustomOps, G: CustomGradient, const N: usize> Backward<B, N> for CustomBackward<G> {
    /// `needed` is not known before the step.
    type State = Saved<B>;

    fn backward(self, ops: Ops<Saved<B>, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let needed = ops.parents.iter().map(Option::is_some).collect();
        let saved = Saved { needed, ..ops.state };
        let floats: Vec<_> = saved.inputs.iter().filter(|x| is_float(x)).map(CustomTensor::spec).collect();
        let name = self.0.name();
        let gradients = self.0.gradient.backward(saved, grad);
        assert_eq!(gradients.len(), N, "{name}: one gradient for each float input");
        for ((node, gradient), input) in ops.parents.into_iter().zip(gradients).zip(floats) {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                let (shape, dtype) = (gradient.shape(), gradient.dtype());
                let fits = shape == input.shape && dtype == input.dtype;
                assert!(
                    fits,
                    "{name}: a gradient must be {:?} {:?}, got {shape:?} {dtype:?}",
                    input.shape, input.dtype
                );
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

fn is_float<B: Backend>(tensor: &CustomTensor<B>) -> bool {
    matches!(tensor, CustomTensor::Float(_))
}

/// The inputs without what tracks them.
fn untracked<B: Backend, C: CheckpointStrategy>(inputs: Vec<CustomTensor<Autodiff<B, C>>>) -> Vec<CustomTensor<B>> {
    let one = |input| match input {
        CustomTensor::Float(tensor) => CustomTensor::Float(Autodiff::<B, C>::inner(tensor)),
        CustomTensor::Int(tensor) => CustomTensor::Int(tensor),
        CustomTensor::Bool(tensor) => CustomTensor::Bool(tensor),
    };
    inputs.into_iter().map(one).collect()
}

/// Outputs as constants.
fn constants<B: Backend, C: CheckpointStrategy>(
    outputs: impl Iterator<Item = CustomTensor<B>>,
) -> impl Iterator<Item = CustomTensor<Autodiff<B, C>>> {
    outputs.map(|output| match output {
        CustomTensor::Float(tensor) => CustomTensor::Float(Autodiff::<B, C>::from_inner(tensor)),
        CustomTensor::Int(tensor) => CustomTensor::Int(tensor),
        CustomTensor::Bool(tensor) => CustomTensor::Bool(tensor),
    })
}

/// A call with `N` float inputs.
fn call<B: CustomOps, C: CheckpointStrategy, G: CustomGradient, const N: usize>(
    kernel: &CustomKernel<G>,
    inputs: Vec<CustomTensor<Autodiff<B, C>>>,
    scalars: &[CustomScalar],
) -> Vec<CustomTensor<Autodiff<B, C>>> {
    let node = |input: &CustomTensor<Autodiff<B, C>>| match input {
        CustomTensor::Float(tensor) => Some(tensor.node()),
        CustomTensor::Int(_) | CustomTensor::Bool(_) => None,
    };
    let nodes: Vec<_> = inputs.iter().filter_map(node).collect();
    let nodes: [_; N] = nodes.try_into().unwrap_or_else(|_| unreachable!("the caller has counted them"));
    let step: CustomBackward<G> = CustomBackward(kernel.clone());
    match <CustomBackward<G> as Backward<B, N>>::prepare::<C>(step, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let name = kernel.name();
            assert!(!kernel.gradient.is_none(), "{name}: an input is tracked, and the kernel was given no gradient");
            let inputs = untracked(inputs);
            let outputs = B::custom(kernel, inputs.clone(), scalars);
            let Some(CustomTensor::Float(first)) = outputs.first().cloned() else {
                panic!("{name}: the first output of a kernel with a gradient must be of floats");
            };
            let rest = constants::<B, C>(outputs.clone().into_iter().skip(1));
            let saved = Saved { inputs, outputs, scalars: scalars.to_vec(), needed: Vec::new() };
            std::iter::once(CustomTensor::Float(prep.finish(saved, first))).chain(rest).collect()
        }
        OpsKind::UnTracked(prep) => {
            let mut outputs = B::custom(kernel, untracked(inputs), scalars).into_iter();
            let first = match outputs.next() {
                // Burn wants to hear of the operation, though nothing follows from it.
                Some(CustomTensor::Float(tensor)) => vec![CustomTensor::Float(prep.finish(tensor))],
                other => constants::<B, C>(other.into_iter()).collect(),
            };
            first.into_iter().chain(constants::<B, C>(outputs)).collect()
        }
    }
}

impl<B: CustomOps, C: CheckpointStrategy> CustomOps for Autodiff<B, C> {
    fn custom<G: CustomGradient>(
        kernel: &CustomKernel<G>,
        inputs: Vec<CustomTensor<Self>>,
        scalars: &[CustomScalar],
    ) -> Vec<CustomTensor<Self>> {
        let floats = inputs.iter().filter(|x| is_float(x)).count();
        let call = match floats {
            0 => return constants::<B, C>(B::custom(kernel, untracked(inputs), scalars).into_iter()).collect(),
            1 => call::<B, C, G, 1>,
            2 => call::<B, C, G, 2>,
            3 => call::<B, C, G, 3>,
            4 => call::<B, C, G, 4>,
            5 => call::<B, C, G, 5>,
            6 => call::<B, C, G, 6>,
            7 => call::<B, C, G, 7>,
            MOST_INPUTS => call::<B, C, G, MOST_INPUTS>,
            _ => panic!("{}: at most {MOST_INPUTS} float inputs can be differentiated, got {floats}", kernel.name()),
        };
        call(kernel, inputs, scalars)
    }
}
