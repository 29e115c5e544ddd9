//! Candle on AMD GPUs: which device was found, and what Candle lacks there.
//!
//! Candle's own crates need nothing of this one: with two patches its `Device::new_cuda(0)` is rocfire's device (see
//! `cudarc`'s page). [`device`] opens it and says what it is. A patch that is missing, or of another source, stops the
//! build here: the types would be two.
//!
//! [`flash_attn`] is attention in one kernel, which Candle has for CUDA in a crate of its own. `candle-flash-attn` is a
//! package here too, for models that ask for it by name (`use_flash_attn`): a third patch.
//!
//! [`sample`] draws tokens by top-k, top-p, min-p and masks, [`penalise`], [`log_probabilities`] and [`accept`] are beside it;
//! [`route`] and [`sort_by_expert`] choose experts of tokens, and [`experts`] are what they go through,
//! [`experts_gguf`] those of a quantised checkpoint, [`experts_scaled`] those of codes by codes.
//!
//! Norms with and without a residual, softmax, gates, rotary embeddings, Hadamard transforms, cross-entropy and products of groups are
//! functions on Candle's tensors, a launch each, with gradients where the kernels have them; [`QuantLinear`] multiplies
//! codes by codes, and [`Coded`] is what it reads. [`LatentCache`] is one of MLA's latents, [`KvCache`] a cache of keys and values on pages, written, read and attended to in
//! place; [`causal_conv`], [`selective_scan`] and [`delta_rule`] go on from states of sequences in a pool. They run on rocfire's devices only: elsewhere they are errors.

mod attention;
mod cache;
mod device;
mod experts;
mod gguf;
mod operators;
mod quantised;
mod record;
mod recurrent;
mod scaled_experts;
mod storage;
mod tokens;

pub use attention::{FlashAttention, flash_attn, flash_attn_windowed, flash_attn_windowed_softcap};
pub use cache::{AbsorbInputs, CacheLayout, KvCache, LatentCache, PagedParams, ScaleRule, Sequences};
pub use device::{Found, device, launches, wait_for_compiles};
pub use experts::{
    CodedMatrices, combine, expert_matmul, expert_matmul_coded, experts, experts_coded, grouped_matmul_coded,
};
pub use gguf::{GgufMatrices, expert_matmul_gguf, experts_gguf, grouped_matmul_gguf, matmul_gguf};
pub use operators::{
    Activation, GateLayout, GateParams, GroupedEpilogue, RopeFrequencies, RopeScaling, RopeStyle, add_layer_norm,
    add_rms_norm, cross_entropy, gate, gated_mlp, group_norm, grouped_matmul, hadamard, layer_norm, log_softmax,
    rms_norm, rope, rope_at, rope_tables, softmax,
};
pub use quantised::{Coded, Coding, EndActivation, Format, Granularity, MxRounding, QuantLinear};
pub use recurrent::{DeltaGates, DeltaParams, ScanInputs, StateSequences, causal_conv, delta_rule, selective_scan};
pub use rocfire_hal::{DeviceId, DeviceInfo, DriverKind};
pub use rocfire_kernels::experts::{GroupScore, Groups, Score, Shared, SharedScore};
pub use rocfire_kernels::operators::{MatrixCoding, MatrixLayout};
pub use rocfire_kernels::quant::{Gguf, ScaleKind};
pub use scaled_experts::{expert_matmul_scaled, experts_scaled, grouped_matmul_scaled};
pub use tokens::{
    ByExpert, LogProbabilities, Order, Penalties, RouteForm, Sampling, accept, accept_greedy, log_probabilities,
    penalise, probabilities, route, sample, sort_by_expert, top_k,
};
