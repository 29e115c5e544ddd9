//! Attention of several heads with its projections: Burn's module, over the fused operator.
//!
//! Fields that hold parameters have Burn's names, which are what a record goes by. The weights of the heads are never a
//! tensor, so [`MhaOutput`] has none; whoever reads them wants Burn's module.

use burn::backend::DispatchDevice;
use burn::module::Module;
use burn::nn::attention::{MultiHeadAttention as BurnAttention, MultiHeadAttentionConfig};
use burn::nn::{Dropout as BurnDropout, Gelu, Linear};
use burn::tensor::activation::{quiet_softmax, softmax};
use burn::tensor::{Bool, Device, Tensor};
use rocfire_burn::attention::{AttentionParams, Dropout, next_draw};
use rocfire_burn::{RocmDevice, in_slot};

use crate::attention::{AttentionInputs, attention};

/// Scores that are filled with at most this have a weight of zero beside any score that is not: the exponential of the
/// difference is below f64's least number unless the others are below -250.
const FILLED_MOST: f64 = -1.0e3;

/// Multi-head attention with the parameters of [`BurnAttention`].
///
/// On rocfire's devices the heads' attention is one launch, forward, and its gradient a few, without the scores in memory;
/// elsewhere, with quiet softmax, with head sizes that are no multiple of 8 up to 256, and where masked scores are filled with
/// more than -1000, it is written out as Burn writes it. Otherwise a masked score counts as minus infinity. The one difference:
/// a row that sees nothing is zeros before the last projection, where Burn's is the mean of the values.
///
/// Dropout draws other numbers than Burn's, with the same probability.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// Projects queries, `[d_model, d_model]`.
    pub query: Linear,
    /// Projects keys, `[d_model, d_model]`.
    pub key: Linear,
    /// Projects values, `[d_model, d_model]`.
    pub value: Linear,
    /// Projects what the heads give, `[d_model, d_model]`.
    pub output: Linear,
    /// Drops weights in training.
    pub dropout: BurnDropout,
    /// Features.
    pub d_model: usize,
    /// Heads.
    pub n_heads: usize,
    /// Features of a head.
    pub d_k: usize,
    /// What masked scores are filled with where attention is written out.
    pub min_float: f64,
    /// Whether a row's weights may sum to less than 1.
    pub quiet_softmax: bool,
}

/// What [`MultiHeadAttention::forward`] reads.
#[derive(Clone, Debug)]
pub struct MhaInput {
    query: Tensor<3>,
    key: Tensor<3>,
    value: Tensor<3>,
    mask_pad: Option<Tensor<2, Bool>>,
    mask_attn: Option<Tensor<3, Bool>>,
    is_causal: bool,
}

/// What [`MultiHeadAttention::forward`] gives.
#[derive(Clone, Debug)]
pub struct MhaOutput {
    /// `[batch, rows, d_model]`.
    pub context: Tensor<3>,
}

impl MhaInput {
    /// Queries, keys and values from one tensor, `[batch, rows, d_model]`.
    pub fn self_attn(tensor: Tensor<3>) -> MhaInput {
        MhaInput::new(tensor.clone(), tensor.clone(), tensor)
    }

    /// Queries `[batch, rows, d_model]`, keys and values `[batch, columns, d_model]`.
    pub fn new(query: Tensor<3>, key: Tensor<3>, value: Tensor<3>) -> MhaInput {
        MhaInput { query, key, value, mask_pad: None, mask_attn: None, is_causal: false }
    }

    /// Keys that are not seen, `[batch, columns]`.
    pub fn mask_pad(self, mask_pad: Tensor<2, Bool>) -> MhaInput {
        MhaInput { mask_pad: Some(mask_pad), ..self }
    }

    /// Keys that are not seen by a query, `[batch, rows, columns]`.
    pub fn mask_attn(self, mask_attn: Tensor<3, Bool>) -> MhaInput {
        MhaInput { mask_attn: Some(mask_attn), ..self }
    }

    /// A query sees keys up to its own place, the last query's being the last key's. What a mask of
    /// `generate_autoregressive_mask` says, without its memory and without computing what it hides.
    pub fn causal(self) -> MhaInput {
        MhaInput { is_causal: true, ..self }
    }

    /// Keys that are not seen, as one mask that broadcasts to the scores.
    fn mask(&self) -> Option<Tensor<4, Bool>> {
        let pad = self.mask_pad.as_ref().map(|mask| mask.clone().unsqueeze_dims::<4>(&[1, 1]));
        let own = self.mask_attn.as_ref().map(|mask| mask.clone().unsqueeze_dim::<4>(1));
        match (pad, own) {
            (Some(pad), Some(own)) => Some(pad.expand(own.dims()).bool_or(own)),
            (pad, own) => pad.or(own),
        }
    }

    fn check(&self, d_model: usize) {
        let [batch, rows, _] = self.query.dims();
        let [_, columns, _] = self.key.dims();
        let expect = |what: &str, expected: &[usize], got: &[usize]| {
            assert_eq!(got, expected, "MultiHeadAttention: {what} must be of shape {expected:?}, got {got:?}");
        };
        expect("query", &[batch, rows, d_model], &self.query.dims());
        expect("key", &[batch, columns, d_model], &self.key.dims());
        expect("value", &[batch, columns, d_model], &self.value.dims());
        if let Some(mask) = &self.mask_pad {
            expect("mask_pad", &[batch, columns], &mask.dims());
        }
        if let Some(mask) = &self.mask_attn {
            expect("mask_attn", &[batch, rows, columns], &mask.dims());
        }
    }
}

impl MultiHeadAttention {
    /// A module with fresh weights.
    pub fn new(config: &MultiHeadAttentionConfig, device: &Device) -> MultiHeadAttention {
        config.init(device).into()
    }

    /// Attends.
    ///
    /// # Panics
    /// If the input's shapes do not fit each other or `d_model`.
    pub fn forward(&self, input: MhaInput) -> MhaOutput {
        input.check(self.d_model);
        let [batch, rows, d_model] = input.query.dims();
        let mask = input.mask();
        let query = self.heads(input.query, &self.query);
        let key = self.heads(input.key, &self.key);
        let value = self.heads(input.value, &self.value);
        let inputs = AttentionInputs { query, key, value, mask, bias: None, sinks: None };
        let context = self.attend(inputs, input.is_causal);
        let context = context.swap_dims(1, 2).reshape([batch, rows, d_model]);
        MhaOutput { context: self.output.forward(context) }
    }

    fn heads(&self, x: Tensor<3>, linear: &Linear) -> Tensor<4> {
        let [batch, rows, _] = x.dims();
        linear.forward(x).reshape([batch, rows, self.n_heads, self.d_k]).swap_dims(1, 2)
    }

    fn attend(&self, inputs: AttentionInputs, is_causal: bool) -> Tensor<4> {
        let is_fused = !self.quiet_softmax && (inputs.mask.is_none() || self.min_float <= FILLED_MOST);
        let fused = is_fused.then(|| {
            let mut params = AttentionParams::default();
            params.causal = is_causal;
            params.dropout = self.draw(&inputs.query.device());
            attention(inputs.clone(), params)
        });
        fused.flatten().unwrap_or_else(|| self.written_out(inputs, is_causal))
    }

    /// The draw of a training step, under the conditions under which Burn's dropout drops.
    fn draw(&self, device: &Device) -> Option<Dropout> {
        let drops = self.dropout.training.is_enabled() && self.dropout.prob > 0.0 && device.is_autodiff();
        let device = drops.then(|| rocm(device)).flatten()?;
        Some(Dropout { probability: self.dropout.prob, seed: next_draw(&device) })
    }

    fn written_out(&self, inputs: AttentionInputs, is_causal: bool) -> Tensor<4> {
        let AttentionInputs { query, key, value, mask, .. } = inputs;
        let mut scores = query.matmul(key.transpose()).div_scalar((self.d_k as f32).sqrt());
        if let Some(mask) = mask {
            scores = scores.mask_fill(mask, self.min_float);
        }
        if is_causal {
            let [_, _, rows, columns] = scores.dims();
            let ahead = columns as i64 - rows as i64;
            let mask = Tensor::<2, Bool>::tril_mask([rows, columns], ahead, &scores.device());
            scores = scores.mask_fill(mask.unsqueeze::<4>(), self.min_float);
        }
        let weights = if self.quiet_softmax { quiet_softmax(scores, 3) } else { softmax(scores, 3) };
        self.dropout.forward(weights).matmul(value)
    }
}

/// The device of rocfire's that Burn's stands for.
fn rocm(device: &Device) -> Option<RocmDevice> {
    match device.clone().inner().as_dispatch() {
        in_slot!(DispatchDevice, device) => Some(RocmDevice::of_burn(device)),
        _ => None,
    }
}

impl From<BurnAttention> for MultiHeadAttention {
    /// The same parameters.
    fn from(module: BurnAttention) -> MultiHeadAttention {
        MultiHeadAttention {
            query: module.query,
            key: module.key,
            value: module.value,
            output: module.output,
            dropout: module.dropout,
            d_model: module.d_model,
            n_heads: module.n_heads,
            d_k: module.d_k,
            min_float: module.min_float,
            quiet_softmax: module.quiet_softmax,
        }
    }
}

impl From<MultiHeadAttention> for BurnAttention {
    /// The same parameters.
    fn from(module: MultiHeadAttention) -> BurnAttention {
        BurnAttention {
            query: module.query,
            key: module.key,
            value: module.value,
            output: module.output,
            dropout: module.dropout,
            activation: Gelu::new(),
            d_model: module.d_model,
            n_heads: module.n_heads,
            d_k: module.d_k,
            min_float: module.min_float,
            quiet_softmax: module.quiet_softmax,
        }
    }
}
