//! The models, of Burn's own modules, and one step of each.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::{Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig, Relu};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// A training step, over and over on one batch.
pub trait Step {
    /// One step, which Burn records; the loss before it.
    fn run(&mut self) -> Tensor<1>;
}

pub const LEARNING_RATE: f64 = 1e-3;

/// Numbers without a pattern that a model could learn from their order: multiples of a prime.
pub fn indices(count: usize, below: usize) -> Vec<i32> {
    (0..count).map(|i| (i * 7919 % below) as i32).collect()
}

/// The number, waited for.
pub fn read(loss: Tensor<1>) -> f32 {
    loss.inner().into_data().iter::<f32>().next().expect("a loss is one number")
}

#[derive(Module, Debug)]
struct Layers {
    layers: Vec<Linear>,
    relu: Relu,
}

impl Layers {
    fn forward(&self, mut x: Tensor<2>) -> Tensor<2> {
        for (at, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x);
            if at + 1 < self.layers.len() {
                x = self.relu.forward(x);
            }
        }
        x
    }
}

/// A perceptron of three layers.
pub struct Mlp {
    model: Layers,
    optimizer: ModuleOptimizer,
    loss: CrossEntropyLoss,
    images: Tensor<2>,
    classes: Tensor<1, Int>,
}

impl Mlp {
    /// The model; of smaller layers and batches if `small`.
    pub fn new(device: &Device, small: bool) -> Mlp {
        let (batch, widths) = if small { (24, [40, 32, 32, 10]) } else { (256, [784, 256, 256, 10]) };
        let device = device.clone().autodiff();
        let pairs = widths.windows(2);
        let layers = pairs.map(|pair| LinearConfig::new(pair[0], pair[1]).init(&device)).collect();
        let images: Vec<f32> = indices(batch * widths[0], 251).into_iter().map(|i| i as f32 / 251.0 - 0.5).collect();
        Mlp {
            model: Layers { layers, relu: Relu::new() },
            optimizer: AdamConfig::new().init(),
            loss: CrossEntropyLossConfig::new().init(&device),
            images: Tensor::from_data(TensorData::new(images, [batch, widths[0]]), &device),
            classes: Tensor::from_data(TensorData::new(indices(batch, widths[3]), [batch]), &device),
        }
    }
}

impl Step for Mlp {
    fn run(&mut self) -> Tensor<1> {
        let loss = self.loss.forward(self.model.forward(self.images.clone()), self.classes.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        self.model = self.optimizer.step(LEARNING_RATE, self.model.clone(), gradients);
        loss
    }
}

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
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, context, _] = x.dims();
        let mask = generate_autoregressive_mask(batch, context, &x.device());
        let normed = self.norm_attention.forward(x.clone());
        let x = x + self.attention.forward(MhaInput::self_attn(normed).mask_attn(mask)).context;
        let hidden = self.gelu.forward(self.mlp_in.forward(self.norm_mlp.forward(x.clone())));
        x + self.mlp_out.forward(hidden)
    }
}

#[derive(Module, Debug)]
struct Decoder {
    token: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

/// A decoder of four pre-norm blocks.
pub struct Transformer {
    model: Decoder,
    optimizer: ModuleOptimizer,
    loss: CrossEntropyLoss,
    tokens: Tensor<2, Int>,
    targets: Tensor<1, Int>,
}

impl Transformer {
    const BLOCKS: usize = 4;

    /// The model; narrow and with short sequences if `small`.
    pub fn new(device: &Device, small: bool) -> Transformer {
        let device = &device.clone().autodiff();
        let [width, heads, vocabulary, batch, context] = if small { [64, 4, 48, 2, 16] } else { [256, 8, 512, 8, 128] };
        let block = |_| Block {
            norm_attention: LayerNormConfig::new(width).init(device),
            attention: MultiHeadAttentionConfig::new(width, heads).with_dropout(0.0).init(device),
            norm_mlp: LayerNormConfig::new(width).init(device),
            mlp_in: LinearConfig::new(width, 4 * width).init(device),
            gelu: Gelu::new(),
            mlp_out: LinearConfig::new(4 * width, width).init(device),
        };
        let model = Decoder {
            token: EmbeddingConfig::new(vocabulary, width).init(device),
            blocks: (0..Self::BLOCKS).map(block).collect(),
            norm: LayerNormConfig::new(width).init(device),
            head: LinearConfig::new(width, vocabulary).init(device),
        };
        let count = batch * context;
        let ids = |seed: usize| indices(count + seed, vocabulary).split_off(seed);
        Transformer {
            model,
            optimizer: AdamConfig::new().init(),
            loss: CrossEntropyLossConfig::new().init(device),
            tokens: Tensor::from_data(TensorData::new(ids(0), [batch, context]), device),
            targets: Tensor::from_data(TensorData::new(ids(1), [count]), device),
        }
    }
}

impl Step for Transformer {
    fn run(&mut self) -> Tensor<1> {
        let mut x = self.model.token.forward(self.tokens.clone());
        for block in &self.model.blocks {
            x = block.forward(x);
        }
        let logits: Tensor<2> = self.model.head.forward(self.model.norm.forward(x)).flatten(0, 1);
        let loss = self.loss.forward(logits, self.targets.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        self.model = self.optimizer.step(LEARNING_RATE, self.model.clone(), gradients);
        loss
    }
}
