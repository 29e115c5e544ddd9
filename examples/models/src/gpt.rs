//! A decoder of GPT-2's shape: learned places, pre-norm blocks, a head that shares the words' embedding.
//!
//! The parameters are those of Burn's own modules. What computes with them is chosen by [`Fused`]: Burn's modules, or those of
//! `rocfire-burn-nn` over the same parameters, which are a launch each.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Gelu, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::module::linear;
use burn::tensor::{Bool, DType, Device, Int, Tensor};

/// Standard deviation of the initial weights, GPT-2's.
const INITIAL_STD: f64 = 0.02;
/// Added to variances under the root; Burn's default and PyTorch's.
const EPSILON: f64 = 1e-5;

/// The sizes of a [`Gpt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptSizes {
    /// Rows of the embedding; at least the distinct words.
    pub vocabulary: usize,
    /// Most words that a prediction can see.
    pub context: usize,
    /// Width of the residual stream; a multiple of `heads`.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks.
    pub layers: usize,
}

impl GptSizes {
    /// GPT-2's smallest, 124 million weights. Its 50,257 words are padded to the next multiple of 64, as is usual.
    pub const SMALL: GptSizes = GptSizes { vocabulary: 50_304, context: 1024, width: 768, heads: 12, layers: 12 };

    /// All weights.
    pub fn weights(&self) -> usize {
        // Four projections, an MLP four times as wide, two norms; biases with each.
        let block = 12 * self.width * self.width + 13 * self.width;
        (self.vocabulary + self.context) * self.width + self.layers * block + 2 * self.width
    }

    /// Operations of a training step on so many words, `6 N + 12 · layers · width · context` a word: `N` are the weights but those of
    /// the places, which no product reads; attention is counted without its mask, as is usual.
    pub fn operations(&self, words: usize) -> f64 {
        let in_products = self.weights() - self.context * self.width;
        let attention = 12 * self.layers * self.width * self.context;
        (6 * in_products + attention) as f64 * words as f64
    }
}

/// What `rocfire-burn-nn` computes in place of Burn's own modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fused {
    /// Attention without its scores in memory.
    pub attention: bool,
    /// Norms of rows.
    pub norms: bool,
    /// Cross-entropy without anything of the logits' size but their gradient.
    pub loss: bool,
}

impl Fused {
    /// All of it.
    pub const ALL: Fused = Fused { attention: true, norms: true, loss: true };
    /// Nothing: Burn's modules throughout.
    pub const NONE: Fused = Fused { attention: false, norms: false, loss: false };

    fn norm(self, norm: &LayerNorm, x: Tensor<3>) -> Tensor<3> {
        if !self.norms {
            return norm.forward(x);
        }
        let fused = rocfire_burn_nn::LayerNorm { gamma: norm.gamma.clone(), beta: norm.beta.clone(), epsilon: EPSILON };
        fused.forward(x)
    }

    /// Causal attention; `mask` is there where it is Burn's.
    fn attend(self, attention: &MultiHeadAttention, x: Tensor<3>, mask: Option<Tensor<3, Bool>>) -> Tensor<3> {
        match mask {
            Some(mask) => attention.forward(MhaInput::self_attn(x).mask_attn(mask)).context,
            None => {
                let fused = rocfire_burn_nn::MultiHeadAttention::from(attention.clone());
                fused.forward(rocfire_burn_nn::MhaInput::self_attn(x).causal()).context
            }
        }
    }
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
    fn new(sizes: &GptSizes, device: &Device) -> Block {
        let norm = || LayerNormConfig::new(sizes.width).with_epsilon(EPSILON).init(device);
        // GPT-2's rule: what is added to the residual stream starts smaller the more layers add to it.
        let residual = normal(INITIAL_STD / (2.0 * sizes.layers as f64).sqrt());
        let mut attention = MultiHeadAttentionConfig::new(sizes.width, sizes.heads)
            .with_dropout(0.0)
            .with_initializer(normal(INITIAL_STD))
            .init(device);
        attention.output = LinearConfig::new(sizes.width, sizes.width).with_initializer(residual.clone()).init(device);
        Block {
            norm_attention: norm(),
            attention,
            norm_mlp: norm(),
            mlp_in: LinearConfig::new(sizes.width, 4 * sizes.width).with_initializer(normal(INITIAL_STD)).init(device),
            gelu: Gelu::new(),
            mlp_out: LinearConfig::new(4 * sizes.width, sizes.width).with_initializer(residual).init(device),
        }
    }

    fn forward(&self, x: Tensor<3>, mask: Option<Tensor<3, Bool>>, fused: Fused) -> Tensor<3> {
        let x = x.clone() + fused.attend(&self.attention, fused.norm(&self.norm_attention, x), mask);
        let hidden = self.gelu.forward(self.mlp_in.forward(fused.norm(&self.norm_mlp, x.clone())));
        x + self.mlp_out.forward(hidden)
    }
}

/// A language model without dropout.
#[derive(Module, Debug)]
pub struct Gpt {
    words: Embedding,
    places: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Gpt {
    /// A fresh model; its weights follow from the device's seed.
    pub fn new(sizes: &GptSizes, device: &Device) -> Gpt {
        let embedding =
            |count| EmbeddingConfig::new(count, sizes.width).with_initializer(normal(INITIAL_STD)).init(device);
        Gpt {
            words: embedding(sizes.vocabulary),
            places: embedding(sizes.context),
            blocks: (0..sizes.layers).map(|_| Block::new(sizes, device)).collect(),
            norm: LayerNormConfig::new(sizes.width).with_epsilon(EPSILON).init(device),
        }
    }

    /// Logits of the word after each place: `[batch, context]` → `[batch · context, vocabulary]`.
    pub fn forward(&self, words: Tensor<2, Int>, fused: Fused) -> Tensor<2> {
        let [batch, context] = words.dims();
        let device = words.device();
        let places = Tensor::arange(0..context as i64, &device).unsqueeze::<2>();
        let mask = (!fused.attention).then(|| generate_autoregressive_mask(batch, context, &device));
        let mut x = self.words.forward(words) + self.places.forward(places);
        for block in &self.blocks {
            x = block.forward(x, mask.clone(), fused);
        }
        let x: Tensor<2> = fused.norm(&self.norm, x).flatten(0, 1);
        linear(x, self.words.weight.val().transpose(), None)
    }

    /// The mean loss, `[1]`, in f32: of bf16 logits it would be known to three digits. `targets` are `[batch · context]`.
    pub fn loss(&self, words: Tensor<2, Int>, targets: Tensor<1, Int>, fused: Fused) -> Tensor<1> {
        let logits = self.forward(words, fused);
        let config = CrossEntropyLossConfig::new();
        if fused.loss {
            let loss = rocfire_burn_nn::CrossEntropyLoss::new(&config, &logits.device());
            return loss.forward_wide(logits, targets);
        }
        let loss = config.init(&logits.device());
        loss.forward(logits.cast(DType::F32), targets)
    }
}

fn normal(std: f64) -> Initializer {
    Initializer::Normal { mean: 0.0, std }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_has_124_million_weights() {
        let sizes = GptSizes { vocabulary: 50_257, ..GptSizes::SMALL };
        assert_eq!(sizes.weights(), 124_439_808);
        let tiny = GptSizes { vocabulary: 64, context: 16, width: 32, heads: 4, layers: 2 };
        assert_eq!(Gpt::new(&tiny, &Device::flex()).num_params(), tiny.weights());
    }
}
