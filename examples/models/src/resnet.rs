//! ResNet-18 (arXiv:1512.03385, table 1 and section 4.1).

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Device, Tensor};

/// Blocks of each of the four stages.
const BLOCKS: [usize; 4] = [2, 2, 2, 2];
/// Colours of the input.
const COLOURS: usize = 3;

/// The sizes of a [`ResNet18`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResNetSizes {
    /// Channels of the first stage; each later one has twice as many. The published model has 64.
    pub width: usize,
    /// Classes told apart.
    pub classes: usize,
}

/// A convolution without bias and its normalisation.
#[derive(Module, Debug)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> ConvNorm {
        let room = kernel / 2;
        let conv = Conv2dConfig::new(channels, [kernel, kernel])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(room, room, room, room))
            .with_bias(false)
            .init(device);
        ConvNorm { conv, norm: BatchNormConfig::new(channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

/// Two convolutions beside a way around them.
#[derive(Module, Debug)]
struct Block {
    first: ConvNorm,
    second: ConvNorm,
    relu: Relu,
    around: Option<ConvNorm>,
}

impl Block {
    fn new(channels: [usize; 2], stride: usize, device: &Device) -> Block {
        let [input, output] = channels;
        let fits = input == output && stride == 1;
        Block {
            first: ConvNorm::new([input, output], 3, stride, device),
            second: ConvNorm::new([output, output], 3, 1, device),
            relu: Relu::new(),
            around: (!fits).then(|| ConvNorm::new([input, output], 1, stride, device)),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let inner = self.relu.forward(self.first.forward(x.clone()));
        let around = match &self.around {
            Some(around) => around.forward(x),
            None => x,
        };
        self.relu.forward(self.second.forward(inner) + around)
    }
}

/// The image classifier.
#[derive(Module, Debug)]
pub struct ResNet18 {
    stem: ConvNorm,
    relu: Relu,
    pool: MaxPool2d,
    blocks: Vec<Block>,
    mean: AdaptiveAvgPool2d,
    head: Linear,
}

impl ResNet18 {
    /// A fresh model; its weights follow from the device's seed.
    pub fn new(sizes: &ResNetSizes, device: &Device) -> ResNet18 {
        let pool =
            MaxPool2dConfig::new([3, 3]).with_strides([2, 2]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
        let mut channels = sizes.width;
        let mut blocks = Vec::new();
        for (stage, count) in BLOCKS.into_iter().enumerate() {
            for number in 0..count {
                let halves = stage > 0 && number == 0;
                let output = sizes.width << stage;
                blocks.push(Block::new([channels, output], if halves { 2 } else { 1 }, device));
                channels = output;
            }
        }
        ResNet18 {
            stem: ConvNorm::new([COLOURS, sizes.width], 7, 2, device),
            relu: Relu::new(),
            pool: pool.init(),
            blocks,
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(channels, sizes.classes).init(device),
        }
    }

    /// Logits of each class: `[batch, 3, height, width]` → `[batch, classes]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut x = self.pool.forward(self.relu.forward(self.stem.forward(images)));
        for block in &self.blocks {
            x = block.forward(x);
        }
        self.head.forward(self.mean.forward(x).flatten(1, 3))
    }
}
