//! A small convolutional network, whose normalisation is by the statistics of the batch.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::model::{LEARNING_RATE, Step, indices};

/// Colours of the images.
const COLOURS: usize = 3;
/// Classes told apart.
const CLASSES: usize = 10;

#[derive(Module, Debug)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(channels: [usize; 2], device: &Device) -> ConvNorm {
        let conv = Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).with_bias(false);
        ConvNorm { conv: conv.init(device), norm: BatchNormConfig::new(channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

#[derive(Module, Debug)]
struct Network {
    first: ConvNorm,
    second: ConvNorm,
    third: ConvNorm,
    head: Linear,
}

impl Network {
    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = burn::tensor::activation::relu(self.first.forward(x));
        let inner = burn::tensor::activation::relu(self.second.forward(x.clone()));
        let x = burn::tensor::activation::relu(self.third.forward(inner) + x);
        self.head.forward(x.mean_dim(3).mean_dim(2).flatten(1, 3))
    }
}

/// The network's training.
pub struct Cnn {
    model: Network,
    optimizer: ModuleOptimizer,
    loss: CrossEntropyLoss,
    images: Tensor<4>,
    classes: Tensor<1, Int>,
}

impl Cnn {
    /// The model; of fewer channels and smaller images if `small`.
    pub fn new(device: &Device, small: bool) -> Cnn {
        let (batch, width, side) = if small { (4, 8, 8) } else { (64, 32, 32) };
        let device = device.clone().autodiff();
        let count = batch * COLOURS * side * side;
        let images: Vec<f32> = indices(count, 251).into_iter().map(|i| i as f32 / 251.0 - 0.5).collect();
        let layer = |channels| ConvNorm::new(channels, &device);
        Cnn {
            model: Network {
                first: layer([COLOURS, width]),
                second: layer([width, width]),
                third: layer([width, width]),
                head: LinearConfig::new(width, CLASSES).init(&device),
            },
            optimizer: AdamConfig::new().init(),
            loss: CrossEntropyLossConfig::new().init(&device),
            images: Tensor::from_data(TensorData::new(images, [batch, COLOURS, side, side]), &device),
            classes: Tensor::from_data(TensorData::new(indices(batch, CLASSES), [batch]), &device),
        }
    }
}

impl Step for Cnn {
    fn run(&mut self) -> Tensor<1> {
        let loss = self.loss.forward(self.model.forward(self.images.clone()), self.classes.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        self.model = self.optimizer.step(LEARNING_RATE, self.model.clone(), gradients);
        loss
    }
}
