//! Burn modules over rocfire's fused operators.
//!
//! Burn takes attention apart in training, and writes it out in its own modules: the scores lie in memory twice, once for the
//! gradient. What is here does the same mathematics through [`rocfire_burn::attention`], whose forward and backward keep one
//! number per row:
//!
//! - [`MultiHeadAttention`] has the parameters of `burn::nn::attention::MultiHeadAttention` under the same names, so that a
//!   record of one loads into the other.
//! - [`attention`] is the operator itself, on tensors of `burn::Tensor`'s.
//! - [`RmsNorm`], [`LayerNorm`], [`GroupNorm`], [`RotaryEncoding`], [`GatedMlp`] and [`CrossEntropyLoss`] are Burn's modules, a launch
//!   each, with gradients; [`gate`], [`softmax`] and [`log_softmax`] their functions. Norms load Burn's records.
//! - [`Experts`] are the blocks of a mixture of experts, with gradients, over [`ByExpert`] and [`grouped_matmul`]; [`route`] chooses
//!   experts of tokens. [`QuantExperts`] are the same of codes, [`CodedMatrices`], [`ScaledExperts`] of codes by codes,
//!   [`GgufExperts`] of blocks of GGUF.
//! - [`sample`] draws tokens by top-k, top-p, min-p and masks; [`penalise`], [`log_probabilities`], [`top_k`] and [`accept`] are
//!   beside it.
//! - [`QuantLinear`] multiplies codes by codes; [`Coded`] is what it reads; [`hadamard()`] spreads outliers before.
//! - [`States`] are what layers of Mamba and of the gated delta rule leave behind of each sequence, by slot.
//! - [`KvCache`] keeps keys and values on pages, for serving: written in place, attended to in one launch; [`LatentCache`] keeps MLA's latents.
//! - [`custom()`] calls a kernel of one's own on tensors of `burn::Tensor`'s.
//!
//! The crate lies above `burn`, which the crate that Burn's slot is made of cannot: a model depends on both. Modules run on
//! every device of Burn's; off rocfire's they are written out as Burn writes them.
//!
//! ```no_run
//! use burn::nn::attention::MultiHeadAttentionConfig;
//! use burn::tensor::{Device, Distribution, Tensor};
//! use rocfire_burn_nn::{MhaInput, MultiHeadAttention};
//!
//! let device: Device = Device::default().autodiff();
//! let attention = MultiHeadAttention::new(&MultiHeadAttentionConfig::new(64, 4), &device);
//! let x = Tensor::<3>::random([2, 16, 64], Distribution::Default, &device);
//! let y = attention.forward(MhaInput::self_attn(x).causal()).context;
//! # let _ = y;
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod attention;
mod cache;
mod coded_experts;
mod custom;
mod dispatch;
mod experts;
mod gated;
mod gguf;
mod hadamard;
mod loss;
mod multi_head;
mod norm;
mod quantised;
mod recurrent;
mod rope;
mod scaled_experts;
mod tokens;

pub use attention::{AttentionInputs, attention};
pub use cache::{AbsorbInputs, KvCache, LatentCache, Sequences};
pub use coded_experts::{CodedMatrices, QuantExperts, grouped_matmul_coded};
pub use custom::custom;
pub use experts::{ByExpert, Experts, grouped_matmul};
pub use gated::{GatedMlp, gate, log_softmax, softmax};
pub use gguf::{GgufExperts, GgufLinear, GgufMatrices, grouped_matmul_gguf, listed_matmul_gguf, matmul_gguf};
pub use hadamard::hadamard;
pub use loss::CrossEntropyLoss;
pub use multi_head::{MhaInput, MhaOutput, MultiHeadAttention};
pub use norm::{GroupNorm, LayerNorm, RmsNorm};
pub use quantised::{Coded, QuantLinear, Scales};
pub use recurrent::{DeltaGates, ScanInputs, StateSequences, States};
pub use rocfire_burn::attention::{AttentionParams, Dropout};
pub use rocfire_burn::custom::operators::{
    Activation, CacheLayout, Coding, DeltaParams, EndActivation, Format, GateLayout, GateParams, Gguf, Granularity,
    GroupScore, GroupedEpilogue, Groups, MatrixCoding, MatrixLayout, MxRounding, Order, PagedParams, RopeFrequencies,
    RopeScaling, RopeStyle, RouteForm, ScaleKind, Score, Shared, SharedScore,
};
pub use rope::RotaryEncoding;
pub use scaled_experts::{ScaledExperts, grouped_matmul_scaled};
pub use tokens::{
    LogProbabilities, Penalties, Sampling, accept, accept_greedy, log_probabilities, penalise, probabilities, route,
    sample, top_k,
};

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;
use rocfire_burn::custom::operators::Operator;

/// What an operator gives; `None` off rocfire's devices.
fn run(operator: Operator, inputs: Vec<DispatchTensor>) -> Option<Vec<DispatchTensor>> {
    custom(&operator.into(), inputs, &[])
}

/// The first output of a call, which is of floats.
fn one<const D: usize>(outputs: Option<Vec<DispatchTensor>>) -> Option<Tensor<D>> {
    outputs.and_then(|outputs| outputs.into_iter().next()).map(Tensor::from_dispatch)
}
