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

    /// The normalisation computes in its own parameters' type, which is wider in mixed precision.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.conv.forward(x);
        let (own, wide) = (x.dtype(), self.norm.gamma.val().dtype());
        if own == wide { self.norm.forward(x) } else { self.norm.forward(x.cast(wide)).cast(own) }
    }

    /// Multiplications of the convolution for an image of `side`, and the side of the result.
    fn multiplications(&self, side: usize) -> (usize, usize) {
        let [outputs, inputs, height, width] = self.conv.weight.dims();
        let after = side.div_ceil(self.conv.stride[0]);
        (outputs * inputs * height * width * after * after, after)
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

    /// Multiplications for an image of `side`, and the side of the result.
    fn multiplications(&self, side: usize) -> (usize, usize) {
        let (mut count, mut after) = (0, side);
        for conv in self.inner.iter().chain([&self.last]) {
            let (more, smaller) = conv.multiplications(after);
            (count, after) = (count + more, smaller);
        }
        let around = self.around.as_ref().map_or(0, |conv| conv.multiplications(side).0);
        (count + around, after)
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

    /// Operations of a training step on so many images of `side`: two for each multiplication of convolutions and the last layer,
    /// three times, since backward is two products for each of forward's.
    pub fn operations(&self, images: usize, side: usize) -> f64 {
        let (mut count, after) = self.stem.multiplications(side);
        // The pool halves the image.
        let mut side = after.div_ceil(2);
        for block in &self.blocks {
            let (more, smaller) = block.multiplications(side);
            (count, side) = (count + more, smaller);
        }
        let [inputs, outputs] = self.head.weight.dims();
        6.0 * (count + inputs * outputs) as f64 * images as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resnet_50_is_four_billion_multiplications_an_image() {
        let sizes = ResNetSizes { depth: Depth::L50, width: 64, classes: 1000 };
        let operations = ResNet::new(&sizes, &Device::flex()).operations(1, 224);
        // Counts that are published for the variant whose 3 x 3 convolution halves the image lie between these.
        assert!((4.08e9..4.12e9).contains(&(operations / 6.0)), "{operations}");
    }
}
