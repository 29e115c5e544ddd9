//! What is compared: models of ordinary Burn modules with data for them.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::store::ModuleSnapshot;
use burn::tensor::{Device, Int, Tensor, TensorData};
use char_transformer::{CONTEXT, CharTransformer, Corpus, sizes};
use models::{Depth, ResNetSizes};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A classifier and its data.
pub trait Subject {
    /// The model.
    type Model: Module + ModuleSnapshot;
    /// What it takes.
    type Input: Clone;

    /// A fresh model; its weights follow from the device's seed.
    fn model(&self, device: &Device) -> Self::Model;

    /// A batch, and the class of each row of the logits.
    fn batch(&self, random: &mut ChaCha8Rng, device: &Device) -> (Self::Input, Tensor<1, Int>);

    /// `[rows, classes]`.
    fn logits(model: &Self::Model, input: Self::Input) -> Tensor<2>;
}

/// The transformer of the demo on its text.
pub struct Characters(pub Corpus);

impl Characters {
    /// Windows in a batch.
    const BATCH: usize = 8;
}

impl Subject for Characters {
    type Model = CharTransformer;
    type Input = Tensor<2, Int>;

    fn model(&self, device: &Device) -> CharTransformer {
        CharTransformer::new(&sizes(self.0.vocabulary.len()), device)
    }

    fn batch(&self, random: &mut ChaCha8Rng, device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
        let (inputs, targets) = self.0.sample(random, Self::BATCH, CONTEXT);
        let inputs = Tensor::from_data(TensorData::new(inputs, [Self::BATCH, CONTEXT]), device);
        (inputs, Tensor::from_data(TensorData::new(targets, [Self::BATCH * CONTEXT]), device))
    }

    fn logits(model: &CharTransformer, input: Tensor<2, Int>) -> Tensor<2> {
        model.forward(input).flatten(0, 1)
    }
}

/// A perceptron of three layers on vectors.
pub struct Perceptron;

impl Perceptron {
    const BATCH: usize = 256;
    const WIDTHS: [usize; 4] = [784, 256, 256, CLASSES];
}

/// Layers with ReLU between them.
#[derive(Module, Debug)]
pub struct Layers {
    layers: Vec<Linear>,
    relu: Relu,
}

impl Subject for Perceptron {
    type Model = Layers;
    type Input = Tensor<2>;

    fn model(&self, device: &Device) -> Layers {
        let layer = |pair: &[usize]| LinearConfig::new(pair[0], pair[1]).init(device);
        Layers { layers: Self::WIDTHS.windows(2).map(layer).collect(), relu: Relu::new() }
    }

    fn batch(&self, random: &mut ChaCha8Rng, device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
        (uniform(random, [Self::BATCH, Self::WIDTHS[0]], device), classes(random, Self::BATCH, device))
    }

    fn logits(model: &Layers, mut x: Tensor<2>) -> Tensor<2> {
        for (at, layer) in model.layers.iter().enumerate() {
            x = layer.forward(x);
            if at + 1 < model.layers.len() {
                x = model.relu.forward(x);
            }
        }
        x
    }
}

/// Two convolutions with pools, then a layer, on images of 28 x 28.
pub struct Images;

impl Images {
    const BATCH: usize = 16;
    const SIDE: usize = 28;
    const CHANNELS: [usize; 3] = [1, 16, 32];
}

/// The convolutional network.
#[derive(Module, Debug)]
pub struct Convolutions {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    relu: Relu,
    head: Linear,
}

impl Subject for Images {
    type Model = Convolutions;
    type Input = Tensor<4>;

    fn model(&self, device: &Device) -> Convolutions {
        let conv = |from: usize, to: usize| {
            Conv2dConfig::new([from, to], [3, 3]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        let [colours, first, second] = Self::CHANNELS;
        let side = Self::SIDE / 4;
        Convolutions {
            first: conv(colours, first),
            second: conv(first, second),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            relu: Relu::new(),
            head: LinearConfig::new(second * side * side, CLASSES).init(device),
        }
    }

    fn batch(&self, random: &mut ChaCha8Rng, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        let shape = [Self::BATCH, Self::CHANNELS[0], Self::SIDE, Self::SIDE];
        (uniform(random, shape, device), classes(random, Self::BATCH, device))
    }

    fn logits(model: &Convolutions, images: Tensor<4>) -> Tensor<2> {
        let x = model.pool.forward(model.relu.forward(model.first.forward(images)));
        let x = model.pool.forward(model.relu.forward(model.second.forward(x)));
        model.head.forward(x.flatten(1, 3))
    }
}

/// One block of a transformer on sequences of vectors, each position with a class of its own.
pub struct Sequences;

impl Sequences {
    const BATCH: usize = 4;
    const LENGTH: usize = 64;
    const WIDTH: usize = 128;
    const HEADS: usize = 4;
}

/// The block with its head.
#[derive(Module, Debug)]
pub struct Block {
    encoder: TransformerEncoder,
    head: Linear,
}

impl Subject for Sequences {
    type Model = Block;
    type Input = Tensor<3>;

    fn model(&self, device: &Device) -> Block {
        // Dropout would draw other numbers on each device.
        let encoder = TransformerEncoderConfig::new(Self::WIDTH, 4 * Self::WIDTH, Self::HEADS, 1).with_dropout(0.0);
        Block { encoder: encoder.init(device), head: LinearConfig::new(Self::WIDTH, CLASSES).init(device) }
    }

    fn batch(&self, random: &mut ChaCha8Rng, device: &Device) -> (Tensor<3>, Tensor<1, Int>) {
        let shape = [Self::BATCH, Self::LENGTH, Self::WIDTH];
        (uniform(random, shape, device), classes(random, Self::BATCH * Self::LENGTH, device))
    }

    fn logits(model: &Block, input: Tensor<3>) -> Tensor<2> {
        model.head.forward(model.encoder.forward(TransformerEncoderInput::new(input))).flatten(0, 1)
    }
}

/// ResNet-18 with a quarter of the published channels, on images of 64 x 64.
pub struct ResNet;

impl ResNet {
    const BATCH: usize = 4;
    const SIDE: usize = 64;
    const SIZES: ResNetSizes = ResNetSizes { depth: Depth::L18, width: 16, classes: CLASSES };
}

impl Subject for ResNet {
    type Model = models::ResNet;
    type Input = Tensor<4>;

    fn model(&self, device: &Device) -> models::ResNet {
        models::ResNet::new(&Self::SIZES, device)
    }

    fn batch(&self, random: &mut ChaCha8Rng, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        (uniform(random, [Self::BATCH, 3, Self::SIDE, Self::SIDE], device), classes(random, Self::BATCH, device))
    }

    fn logits(model: &models::ResNet, images: Tensor<4>) -> Tensor<2> {
        model.forward(images)
    }
}

/// Of every model but the demo's.
const CLASSES: usize = 10;

/// Values of -1 to 1.
fn uniform<const D: usize>(random: &mut ChaCha8Rng, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.random::<f32>() * 2.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn classes(random: &mut ChaCha8Rng, count: usize, device: &Device) -> Tensor<1, Int> {
    let values: Vec<i32> = (0..count).map(|_| random.random_range(0..CLASSES as i32)).collect();
    Tensor::from_data(TensorData::new(values, [count]), device)
}
