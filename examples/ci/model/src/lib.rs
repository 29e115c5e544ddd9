//! A perceptron that learns which of two points of a plane lies farther out.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor, TensorData};

/// Points of a batch.
const POINTS: usize = 64;

/// Two layers.
#[derive(Module, Debug)]
pub struct Perceptron {
    first: Linear,
    second: Linear,
    relu: Relu,
}

impl Perceptron {
    /// With random weights.
    pub fn new(device: &Device) -> Perceptron {
        let (first, second) = (LinearConfig::new(4, 32).init(device), LinearConfig::new(32, 1).init(device));
        Perceptron { first, second, relu: Relu::new() }
    }

    /// `[points, 4]` to `[points, 1]`.
    pub fn forward(&self, points: Tensor<2>) -> Tensor<2> {
        self.second.forward(self.relu.forward(self.first.forward(points)))
    }
}

/// Pairs of points, and by how much the first one lies farther out than the second.
pub fn batch(device: &Device) -> (Tensor<2>, Tensor<2>) {
    // The fractions of multiples of an irrational number are spread evenly.
    let points: Vec<f32> = (1..=POINTS * 4).map(|i| (i as f64 * 0.618_033_988_75).fract() as f32 * 2.0 - 1.0).collect();
    let farther = |p: &[f32]| p[0] * p[0] + p[1] * p[1] - p[2] * p[2] - p[3] * p[3];
    let answers: Vec<f32> = points.chunks(4).map(farther).collect();
    (
        Tensor::from_data(TensorData::new(points, [POINTS, 4]), device),
        Tensor::from_data(TensorData::new(answers, [POINTS, 1]), device),
    )
}

/// The loss before each of so many steps.
pub fn train(device: &Device, steps: usize) -> Vec<f32> {
    let device = device.clone().autodiff();
    let (points, answers) = batch(&device);
    let (mut model, mut optimizer) = (Perceptron::new(&device), AdamConfig::new().init());
    let step = |_| {
        let loss = (model.forward(points.clone()) - answers.clone()).powf_scalar(2.0).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(0.01, model.clone(), gradients);
        loss.inner().into_data().iter::<f32>().next().expect("a loss is one number")
    };
    (0..steps).map(step).collect()
}
