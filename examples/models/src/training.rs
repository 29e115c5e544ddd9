//! A few training steps on any device, from weights and data that follow from a seed.

use std::sync::{Mutex, PoisonError};

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams, SgdConfig};
use burn::store::{ModuleSnapshot, SafetensorsStore};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Bert, BertSizes, Error, ResNet, ResNetSizes};

/// A training of [`ResNet`]: plain gradient descent on one batch.
#[derive(Clone, Copy, Debug)]
pub struct ResNetRun {
    /// Of the model.
    pub sizes: ResNetSizes,
    /// Images in the batch; each is of another class, as far as there are classes.
    pub batch: usize,
    /// Height and width of an image.
    pub side: usize,
    /// Training steps.
    pub steps: usize,
    /// How far a step goes.
    pub rate: f64,
    /// Decides weights and images.
    pub seed: u64,
}

impl ResNetRun {
    /// Images and their classes.
    fn inputs(&self, device: &Device) -> (Tensor<4>, Vec<i32>) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let shape = [self.batch, 3, self.side, self.side];
        let pixels: Vec<f32> = (0..shape.iter().product()).map(|_| random.random::<f32>() * 2.0 - 1.0).collect();
        let classes = (0..self.batch).map(|image| (image % self.sizes.classes) as i32).collect();
        (Tensor::from_data(TensorData::new(pixels, shape), device), classes)
    }
}

/// A training of [`Bert`]: AdamW on one batch, whose words the model learns to repeat. The last words of the last input are padding.
#[derive(Clone, Copy, Debug)]
pub struct BertRun {
    /// Of the model; every input is as long as its context.
    pub sizes: BertSizes,
    /// Inputs in the batch.
    pub batch: usize,
    /// Training steps.
    pub steps: usize,
    /// How far a step goes.
    pub rate: f64,
    /// Decides weights and words.
    pub seed: u64,
}

/// Words of padding at the end of the last input.
const PADDING: usize = 3;

/// The loss before each step.
///
/// # Errors
/// [`Error`].
pub fn resnet_losses(run: &ResNetRun, device: &Device) -> Result<Vec<f32>, Error> {
    let device = device.clone().autodiff();
    let mut model = started(run.seed, &device, |device| ResNet::new(&run.sizes, device))?;
    let (images, classes) = run.inputs(&device);
    let targets = Tensor::<1, Int>::from_data(TensorData::new(classes, [run.batch]), &device);
    let loss = CrossEntropyLossConfig::new().init(&device);
    let mut optimizer = SgdConfig::new().init();
    let mut losses = Vec::with_capacity(run.steps);
    for step in 0..run.steps {
        let value = loss.forward(model.forward(images.clone()), targets.clone());
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(run.rate, model, gradients);
        losses.push(read(value, step)?);
    }
    Ok(losses)
}

/// Logits of the images by the fresh model in inference, batch normalisation by its running statistics, and how many launches
/// `launches` saw while they were computed for the second time.
///
/// # Errors
/// [`Error`].
pub fn resnet_logits(run: &ResNetRun, device: &Device, launches: &dyn Fn() -> u64) -> Result<(Vec<f32>, u64), Error> {
    let model = started(run.seed, device, |device| ResNet::new(&run.sizes, device))?;
    let mut logits = Vec::new();
    let mut counted = 0;
    for step in 0..2 {
        let failed = |reason: String| Error::Read { step, reason };
        let (images, _) = run.inputs(device);
        device.sync().map_err(|error| failed(error.to_string()))?;
        let before = launches();
        let data = model.forward(images).try_into_data().map_err(|error| failed(error.to_string()))?;
        counted = launches() - before;
        logits = data.try_to_vec::<f32>().map_err(|error| failed(format!("{error:?}")))?;
    }
    Ok((logits, counted))
}

/// The loss before each step.
///
/// # Errors
/// [`Error`].
pub fn bert_losses(run: &BertRun, device: &Device) -> Result<Vec<f32>, Error> {
    let device = device.clone().autodiff();
    let mut model = started(run.seed, &device, |device| Bert::new(&run.sizes, device))?;
    let mut random = ChaCha8Rng::seed_from_u64(run.seed);
    let (shape, count) = ([run.batch, run.sizes.context], run.batch * run.sizes.context);
    let words: Vec<i32> = (0..count).map(|_| random.random_range(0..run.sizes.vocabulary as i32)).collect();
    let halves: Vec<i32> = (0..count).map(|n| i32::from(n % run.sizes.context >= run.sizes.context / 2)).collect();
    let ends: Vec<bool> = (0..count).map(|n| n + PADDING >= count).collect();
    let words = Tensor::<2, Int>::from_data(TensorData::new(words, shape), &device);
    let segments = Tensor::<2, Int>::from_data(TensorData::new(halves, shape), &device);
    let padding = Tensor::<2, Bool>::from_data(TensorData::new(ends, shape), &device);
    let loss = CrossEntropyLossConfig::new().init(&device);
    let mut optimizer = AdamWConfig::new().init();
    let mut losses = Vec::with_capacity(run.steps);
    for step in 0..run.steps {
        let logits = model.forward(words.clone(), segments.clone(), padding.clone());
        let value = loss.forward(logits.flatten::<2>(0, 1), words.clone().flatten::<1>(0, 1));
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(run.rate, model, gradients);
        losses.push(read(value, step)?);
    }
    Ok(losses)
}

/// How far the losses of two trainings are apart, as a share of the first's; infinite where one has a NaN or fewer steps.
pub fn largest_relative_difference(reference: &[f32], other: &[f32]) -> f32 {
    if reference.len() != other.len() {
        return f32::INFINITY;
    }
    let apart = |(a, b): (&f32, &f32)| {
        let difference = (a - b).abs() / a.abs();
        if difference.is_nan() { f32::INFINITY } else { difference }
    };
    reference.iter().zip(other).map(apart).fold(0.0, f32::max)
}

/// A model whose weights were made on the CPU: devices draw different random numbers from one seed.
///
/// # Errors
/// [`Error::Weights`].
pub fn started<M: ModuleSnapshot>(seed: u64, device: &Device, new: impl Fn(&Device) -> M) -> Result<M, Error> {
    let failed = |action, reason: &dyn std::fmt::Display| Error::Weights { action, reason: reason.to_string() };
    // One seed is the whole process's: whoever draws in between would change the weights.
    static DRAWING: Mutex<()> = Mutex::new(());
    let _guard = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = Device::flex();
    cpu.seed(seed);
    let mut store = SafetensorsStore::from_bytes(None);
    new(&cpu).save_into(&mut store).map_err(|error| failed("save", &error))?;
    let bytes = store.get_bytes().map_err(|error| failed("save", &error))?;
    let mut model = new(device);
    model.load_from(&mut SafetensorsStore::from_bytes(Some(bytes))).map_err(|error| failed("load", &error))?;
    Ok(model)
}

fn read(loss: Tensor<1>, step: usize) -> Result<f32, Error> {
    let failed = |reason: String| Error::Read { step, reason };
    let data = loss.inner().try_into_data().map_err(|error| failed(error.to_string()))?;
    data.try_to_vec::<f32>()
        .map_err(|error| failed(format!("{error:?}")))?
        .first()
        .copied()
        .ok_or_else(|| failed("it is empty".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_and_hide_neither_nan_nor_missing_steps() {
        assert_eq!(largest_relative_difference(&[2.0, 4.0], &[2.0, 5.0]), 0.25);
        assert_eq!(largest_relative_difference(&[1.0], &[f32::NAN]), f32::INFINITY);
        assert_eq!(largest_relative_difference(&[1.0], &[]), f32::INFINITY);
    }
}
