//! A BERT-like encoder (arXiv:1810.04805): embeddings of words, places and segments, post-norm layers, a head for words.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Bool, Device, Int, Tensor};

/// Segments of an input: the first and the second sentence.
const SEGMENTS: usize = 2;

/// The sizes of a [`Bert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BertSizes {
    /// Distinct words.
    pub vocabulary: usize,
    /// Most words of an input.
    pub context: usize,
    /// Width of the residual stream; a multiple of `heads`.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Layers.
    pub layers: usize,
}

impl BertSizes {
    /// The published base model.
    pub const BASE: BertSizes = BertSizes { vocabulary: 30_522, context: 512, width: 768, heads: 12, layers: 12 };
    /// The published large model.
    pub const LARGE: BertSizes = BertSizes { width: 1024, heads: 16, layers: 24, ..BertSizes::BASE };
}

/// The encoder with its head.
#[derive(Module, Debug)]
pub struct Bert {
    words: Embedding,
    places: Embedding,
    segments: Embedding,
    norm: LayerNorm,
    encoder: TransformerEncoder,
    transform: Linear,
    gelu: Gelu,
    head_norm: LayerNorm,
    head: Linear,
}

impl Bert {
    /// A fresh model without dropout; its weights follow from the device's seed.
    pub fn new(sizes: &BertSizes, device: &Device) -> Bert {
        let embedding = |count| EmbeddingConfig::new(count, sizes.width).init(device);
        let encoder = TransformerEncoderConfig::new(sizes.width, 4 * sizes.width, sizes.heads, sizes.layers);
        Bert {
            words: embedding(sizes.vocabulary),
            places: embedding(sizes.context),
            segments: embedding(SEGMENTS),
            norm: LayerNormConfig::new(sizes.width).init(device),
            encoder: encoder.with_dropout(0.0).init(device),
            transform: LinearConfig::new(sizes.width, sizes.width).init(device),
            gelu: Gelu::new(),
            head_norm: LayerNormConfig::new(sizes.width).init(device),
            head: LinearConfig::new(sizes.width, sizes.vocabulary).init(device),
        }
    }

    /// What the layers make of the words: `words`, `segments`, `padding` (true where there is no word) `[batch, context]` →
    /// `[batch, context, width]`.
    pub fn encode(&self, words: Tensor<2, Int>, segments: Tensor<2, Int>, padding: Tensor<2, Bool>) -> Tensor<3> {
        let [_, context] = words.dims();
        let places = Tensor::arange(0..context as i64, &words.device()).unsqueeze::<2>();
        let x = self.words.forward(words) + self.places.forward(places) + self.segments.forward(segments);
        self.encoder.forward(TransformerEncoderInput::new(self.norm.forward(x)).mask_pad(padding))
    }

    /// Logits of the word at each place, `[batch, context, vocabulary]`, of what [`Bert::encode`] takes.
    pub fn forward(&self, words: Tensor<2, Int>, segments: Tensor<2, Int>, padding: Tensor<2, Bool>) -> Tensor<3> {
        let encoded = self.encode(words, segments, padding);
        self.head.forward(self.head_norm.forward(self.gelu.forward(self.transform.forward(encoded))))
    }
}
