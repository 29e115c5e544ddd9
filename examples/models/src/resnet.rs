//! Residual networks (arXiv:1512.03385, table 1 and section 4.1). Where a block halves the image, its 3 x 3 convolution does.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Device, Tensor};

/// Colours of the input.
const COLOURS: usize = 3;
/// How many times its inner channels a narrowing block gives.
const EXPANSION: usize = 4;

/// How many layers a [`ResNet`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Blocks of two convolutions.
    L18,
    /// Blocks that narrow, convolve and widen.
    L50,
    /// The same.
    L152,
}

impl Depth {
    /// Blocks of each of the four stages.
    fn blocks(self) -> [usize; 4] {
        match self {
            Depth::L18 => [2, 2, 2, 2],
            Depth::L50 => [3, 4, 6, 3],
            Depth::L152 => [3, 8, 36, 3],
        }
    }

    /// How many times its inner channels a block gives.
    fn expansion(self) -> usize {
        if self == Depth::L18 { 1 } else { EXPANSION }
    }
}

/// The sizes of a [`ResNet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResNetSizes {
    /// Layers.
    pub depth: Depth,
    /// Inner channels of the first stage; each later one has twice as many. The published models have 64.
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

/// Convolutions beside a way around them.
#[derive(Module, Debug)]
struct Block {
    inner: Vec<ConvNorm>,
    last: ConvNorm,
    relu: Relu,
    around: Option<ConvNorm>,
}

impl Block {
    /// A block of `inner` channels inside.
    fn new(depth: Depth, input: usize, inner: usize, stride: usize, device: &Device) -> Block {
        let output = inner * depth.expansion();
        let conv = |channels, kernel, stride| ConvNorm::new(channels, kernel, stride, device);
        let (first, last) = match depth {
            Depth::L18 => (vec![conv([input, inner], 3, stride)], conv([inner, output], 3, 1)),
            _ => (vec![conv([input, inner], 1, 1), conv([inner, inner], 3, stride)], conv([inner, output], 1, 1)),
        };
        let fits = input == output && stride == 1;
        Block { inner: first, last, relu: Relu::new(), around: (!fits).then(|| conv([input, output], 1, stride)) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let inner = self.inner.iter().fold(x.clone(), |x, conv| self.relu.forward(conv.forward(x)));
        let around = match &self.around {
            Some(around) => around.forward(x),
            None => x,
        };
        self.relu.forward(self.last.forward(inner) + around)
    }
}

/// The image classifier.
#[derive(Module, Debug)]
pub struct ResNet {
    stem: ConvNorm,
    relu: Relu,
    pool: MaxPool2d,
    blocks: Vec<Block>,
    mean: AdaptiveAvgPool2d,
    head: Linear,
}

impl ResNet {
    /// A fresh model; its weights follow from the device's seed.
    pub fn new(sizes: &ResNetSizes, device: &Device) -> ResNet {
        let pool =
            MaxPool2dConfig::new([3, 3]).with_strides([2, 2]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
        let mut channels = sizes.width;
        let mut blocks = Vec::new();
        for (stage, count) in sizes.depth.blocks().into_iter().enumerate() {
            for number in 0..count {
                let halves = stage > 0 && number == 0;
                let inner = sizes.width << stage;
                blocks.push(Block::new(sizes.depth, channels, inner, if halves { 2 } else { 1 }, device));
                channels = inner * sizes.depth.expansion();
            }
        }
        ResNet {
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
