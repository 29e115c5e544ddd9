//! The model: a small decoder-only transformer, of Burn's own modules and nothing else.
//!
//! Nothing here knows of rocfire. The shape is GPT-2's (pre-norm blocks, learned positions), at a size that an emulated
//! card trains in minutes.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask};
use burn::nn::{Embedding, EmbeddingConfig, Gelu, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};

/// Standard deviation of the initial weights, near 1/√width. GPT-2's 0.02 is meant for a width of 768: at 96 it costs
/// about a hundred steps (validation 2.25 instead of 2.07 nats after 400).
const INITIAL_STD: f64 = 0.08;

/// The sizes of a [`CharTransformer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Distinct characters.
    pub vocabulary: usize,
    /// Characters that a prediction can see.
    pub context: usize,
    /// Width of the residual stream; a multiple of `heads`.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks.
    pub layers: usize,
}

/// One block: attention, then a GELU MLP, each on a normalised copy of the residual stream.
#[derive(Module, Debug)]
struct Block {
    norm_attention: LayerNorm,
    attention: MultiHeadAttention,
    norm_mlp: LayerNorm,
    mlp_in: Linear,
    gelu: Gelu,
    mlp_out: Linear,
}

impl Block {
    fn new(sizes: &Sizes, device: &Device) -> Block {
        // GPT-2's rule: what is added to the residual stream starts smaller the more layers add to it.
        let residual = normal(INITIAL_STD / (2.0 * sizes.layers as f64).sqrt());
        Block {
            norm_attention: LayerNormConfig::new(sizes.width).init(device),
            attention: MultiHeadAttentionConfig::new(sizes.width, sizes.heads)
                .with_dropout(0.0)
                .with_initializer(normal(INITIAL_STD))
                .init(device),
            norm_mlp: LayerNormConfig::new(sizes.width).init(device),
            mlp_in: LinearConfig::new(sizes.width, 4 * sizes.width).with_initializer(normal(INITIAL_STD)).init(device),
            gelu: Gelu::new(),
            mlp_out: LinearConfig::new(4 * sizes.width, sizes.width).with_initializer(residual).init(device),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, context, _] = x.dims();
        let mask = generate_autoregressive_mask(batch, context, &x.device());
        let attended =
            self.attention.forward(MhaInput::self_attn(self.norm_attention.forward(x.clone())).mask_attn(mask));
        let x = x + attended.context;
        let hidden = self.gelu.forward(self.mlp_in.forward(self.norm_mlp.forward(x.clone())));
        x + self.mlp_out.forward(hidden)
    }
}

/// A character-level language model.
#[derive(Module, Debug)]
pub struct CharTransformer {
    token: Embedding,
    position: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl CharTransformer {
    /// A fresh model; its weights follow from the device's seed.
    pub fn new(sizes: &Sizes, device: &Device) -> CharTransformer {
        CharTransformer {
            token: EmbeddingConfig::new(sizes.vocabulary, sizes.width)
                .with_initializer(normal(INITIAL_STD))
                .init(device),
            position: EmbeddingConfig::new(sizes.context, sizes.width)
                .with_initializer(normal(INITIAL_STD))
                .init(device),
            blocks: (0..sizes.layers).map(|_| Block::new(sizes, device)).collect(),
            norm: LayerNormConfig::new(sizes.width).init(device),
            head: LinearConfig::new(sizes.width, sizes.vocabulary).with_initializer(normal(INITIAL_STD)).init(device),
        }
    }

    /// Logits for the character after each position: `[batch, context]` → `[batch, context, vocabulary]`.
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [_, context] = tokens.dims();
        let positions = Tensor::arange(0..context as i64, &tokens.device()).unsqueeze::<2>();
        let mut x = self.token.forward(tokens) + self.position.forward(positions);
        for block in &self.blocks {
            x = block.forward(x);
        }
        self.head.forward(self.norm.forward(x))
    }
}

fn normal(std: f64) -> Initializer {
    Initializer::Normal { mean: 0.0, std }
}
