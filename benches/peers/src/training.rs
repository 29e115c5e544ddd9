//! Training steps of models of Burn's own modules; compiled against each Burn, whose names the parent module gives.

use super::framework::module::Param;
use super::framework::nn::attention::{MhaInput, MultiHeadAttentionConfig, generate_autoregressive_mask};
use super::framework::nn::{EmbeddingConfig, Gelu, LayerNormConfig, LinearConfig};
use super::framework::optim::GradientsParams;
use super::framework::tensor::{TensorData, activation};
use super::{Attention, CrossEntropy, Embedding, Ints, LayerNorm, Learned, Linear, Tensor, Update};

/// A training step, over and over on one batch.
pub trait Step {
    /// One step; the loss before it.
    fn run(&mut self) -> Tensor<1>;

    /// The sizes, for the table.
    fn shape(&self) -> String;
}

/// Layers with ReLU between, cross-entropy, Adam.
pub struct Perceptron {
    model: Vec<Linear>,
    update: Update<Vec<Linear>>,
    loss: CrossEntropy,
    images: Learned<2>,
    classes: Ints<1>,
    shape: String,
}

impl Perceptron {
    /// Layers of these widths, whose weights are the same on both sides.
    pub fn new(widths: &[usize], batch: usize) -> Perceptron {
        let device = super::learning();
        let layer = |pair: &[usize]| {
            let scale = 1.0 / (pair[0] as f32).sqrt();
            let weights: Vec<f32> = crate::values(pair[0] * pair[1]).into_iter().map(|value| value * scale).collect();
            let mut layer: Linear = LinearConfig::new(pair[0], pair[1]).init(&device);
            layer.weight = Param::from_data(TensorData::new(weights, [pair[0], pair[1]]), &device);
            layer.bias = Some(Param::from_data(TensorData::new(vec![0f32; pair[1]], [pair[1]]), &device));
            layer
        };
        let images = TensorData::new(crate::values(batch * widths[0]), [batch, widths[0]]);
        let classes: Vec<i32> = (0..batch).map(|row| (row % widths[widths.len() - 1]) as i32).collect();
        Perceptron {
            model: widths.windows(2).map(layer).collect(),
            update: super::adam(),
            loss: super::cross_entropy(&device),
            images: Learned::from_data(images, &device),
            classes: Ints::from_data(TensorData::new(classes, [batch]), &device),
            shape: format!("{batch} x {widths:?}"),
        }
    }
}

impl Step for Perceptron {
    fn run(&mut self) -> Tensor<1> {
        let mut x = self.images.clone();
        for (at, layer) in self.model.iter().enumerate() {
            x = layer.forward(x);
            if at + 1 < self.model.len() {
                x = activation::relu(x);
            }
        }
        let loss = self.loss.forward(x, self.classes.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        self.model = (self.update)(self.model.clone(), gradients);
        loss.inner()
    }

    fn shape(&self) -> String {
        self.shape.clone()
    }
}

/// A pre-norm block: norm, attention, norm, two layers with GELU between.
type Block = (LayerNorm, Attention, LayerNorm, Linear, Linear);

/// Embedding, blocks, norm and head. Tuples, since what derives a module names the crate `burn`.
pub type Decoder = (Embedding, Vec<Block>, LayerNorm, Linear);

/// The decoder of `examples/training_steps`: four blocks of width 256, eight heads, eight sequences of 128 tokens.
pub struct Transformer {
    model: Decoder,
    update: Update<Decoder>,
    loss: CrossEntropy,
    tokens: Ints<2>,
    targets: Ints<1>,
    shape: String,
}

impl Transformer {
    const BLOCKS: usize = 4;

    /// The model; width, vocabulary and context are divided by `divide`.
    pub fn new(divide: usize) -> Transformer {
        let device = &super::learning();
        let (heads, batch) = (8, 8);
        let [width, vocabulary, context] = [256, 512, 128].map(|extent: usize| (extent / divide).max(heads));
        let block = |_| -> Block {
            (
                LayerNormConfig::new(width).init(device),
                MultiHeadAttentionConfig::new(width, heads).with_dropout(0.0).init(device),
                LayerNormConfig::new(width).init(device),
                LinearConfig::new(width, 4 * width).init(device),
                LinearConfig::new(4 * width, width).init(device),
            )
        };
        let model: Decoder = (
            EmbeddingConfig::new(vocabulary, width).init(device),
            (0..Self::BLOCKS).map(block).collect(),
            LayerNormConfig::new(width).init(device),
            LinearConfig::new(width, vocabulary).init(device),
        );
        let count = batch * context;
        let ids = |seed: usize| -> Vec<i32> { (seed..count + seed).map(|i| (i * 7919 % vocabulary) as i32).collect() };
        Transformer {
            model,
            update: super::adam(),
            loss: super::cross_entropy(device),
            tokens: Ints::from_data(TensorData::new(ids(0), [batch, context]), device),
            targets: Ints::from_data(TensorData::new(ids(1), [count]), device),
            shape: format!("{} blocks, {batch} x {context} x {width}", Self::BLOCKS),
        }
    }
}

impl Step for Transformer {
    fn run(&mut self) -> Tensor<1> {
        let (embedding, blocks, norm, head) = &self.model;
        let mut x = embedding.forward(self.tokens.clone());
        for (norm_attention, attention, norm_mlp, mlp_in, mlp_out) in blocks {
            let [batch, context, _] = x.dims();
            let mask = generate_autoregressive_mask(batch, context, &x.device());
            let normed = norm_attention.forward(x.clone());
            x = x + attention.forward(MhaInput::self_attn(normed).mask_attn(mask)).context;
            let hidden = Gelu::new().forward(mlp_in.forward(norm_mlp.forward(x.clone())));
            x = x + mlp_out.forward(hidden);
        }
        let logits: Learned<2> = head.forward(norm.forward(x)).flatten(0, 1);
        let loss = self.loss.forward(logits, self.targets.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        self.model = (self.update)(self.model.clone(), gradients);
        loss.inner()
    }

    fn shape(&self) -> String {
        self.shape.clone()
    }
}
