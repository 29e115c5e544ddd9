//! Training and validation: batches, AdamW, a warm-up and a cosine, and what is shown meanwhile.

use std::time::Instant;

use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::model::{CharTransformer, Sizes};
use crate::progress::Progress;
use crate::text::Corpus;

/// Windows in a batch.
const BATCH: usize = 8;
/// Windows of held-out text that the model is judged by.
const VALIDATION_WINDOWS: usize = 128;
/// Steps over which the learning rate rises.
const WARM_UP_STEPS: usize = 20;
/// The learning rate at its highest. AdamW at this width takes it; twice as much diverges on some seeds.
const LEARNING_RATE: f64 = 4e-3;
/// The learning rate at the end, as a share of the highest.
const LAST_SHARE: f64 = 0.05;

/// What training came to.
#[derive(Debug)]
pub struct Trained {
    /// The model, without gradients.
    pub model: CharTransformer,
    /// Training loss of each step, nats per character.
    pub losses: Vec<f32>,
    /// Loss on the held-out windows, nats per character.
    pub validation_loss: f64,
    /// The bigram model's loss on the same characters.
    pub bigram_loss: f64,
}

/// Trains a model from `seed`. `launches` reads the device's launch counter.
///
/// # Errors
/// [`Error::Device`] with what the device said.
pub fn train(
    corpus: &Corpus,
    sizes: &Sizes,
    steps: usize,
    seed: u64,
    device: &Device,
    launches: &dyn Fn() -> u64,
) -> Result<Trained> {
    device.seed(seed);
    let training = device.clone().autodiff();
    let mut model = CharTransformer::new(sizes, &training);
    let mut optimizer = AdamWConfig::new().with_weight_decay(0.01).with_beta_2(0.99).init();
    let loss = CrossEntropyLossConfig::new().init(&training);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut losses = Vec::with_capacity(steps);
    let mut progress = Progress::new(steps, BATCH * sizes.context);
    for step in 0..steps {
        let (start, before) = (Instant::now(), launches());
        let (inputs, targets) = corpus.sample(&mut random, BATCH, sizes.context);
        let value = step_loss(&model, &loss, inputs, targets, sizes.context, &training);
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(learning_rate(step, steps), model, gradients);
        let value = read(value.inner())?;
        losses.push(value);
        progress.step(value, start.elapsed(), launches() - before);
    }
    progress.finish();
    let model = model.valid();
    let (inputs, targets) = corpus.validation_windows(VALIDATION_WINDOWS, sizes.context);
    let bigram_loss = corpus.bigram_loss(&inputs, &targets);
    let validation_loss = validate(&model, sizes.context, &inputs, &targets, device)?;
    Ok(Trained { model, losses, validation_loss, bigram_loss })
}

/// The learning rate of a step: a straight rise, then half a cosine down.
fn learning_rate(step: usize, steps: usize) -> f64 {
    if step < WARM_UP_STEPS {
        return LEARNING_RATE * (step + 1) as f64 / WARM_UP_STEPS as f64;
    }
    let done = (step - WARM_UP_STEPS) as f64 / (steps - WARM_UP_STEPS) as f64;
    let share = LAST_SHARE + (1.0 - LAST_SHARE) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
    LEARNING_RATE * share
}

fn validate(model: &CharTransformer, context: usize, inputs: &[i32], targets: &[i32], device: &Device) -> Result<f64> {
    let loss = CrossEntropyLossConfig::new().init(device);
    let batch = BATCH * context;
    let mut sum = 0.0;
    for (inputs, targets) in inputs.chunks(batch).zip(targets.chunks(batch)) {
        let value = step_loss(model, &loss, inputs.to_vec(), targets.to_vec(), context, device);
        sum += f64::from(read(value)?) * inputs.len() as f64;
    }
    Ok(sum / inputs.len() as f64)
}

fn step_loss(
    model: &CharTransformer,
    loss: &CrossEntropyLoss,
    inputs: Vec<i32>,
    targets: Vec<i32>,
    context: usize,
    device: &Device,
) -> Tensor<1> {
    let batch = inputs.len() / context;
    let inputs = Tensor::<2, Int>::from_data(TensorData::new(inputs, [batch, context]), device);
    let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [batch * context]), device);
    let logits: Tensor<2> = model.forward(inputs).flatten(0, 1);
    loss.forward(logits, targets)
}

fn read(value: Tensor<1>) -> Result<f32> {
    let data = value.try_into_data().map_err(|error| Error::Device(error.to_string()))?;
    data.as_slice::<f32>()
        .ok()
        .and_then(|values| values.first().copied())
        .ok_or_else(|| Error::Device(format!("a loss came back as {:?}", data.dtype())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_rises_then_falls_to_its_last_share() {
        let steps = 200;
        let rates: Vec<f64> = (0..steps).map(|step| learning_rate(step, steps)).collect();
        assert!(rates[..WARM_UP_STEPS].is_sorted());
        assert_eq!(rates[WARM_UP_STEPS - 1], LEARNING_RATE);
        assert!(rates[WARM_UP_STEPS..].iter().rev().is_sorted());
        assert!((rates[steps - 1] / LEARNING_RATE - LAST_SHARE).abs() < 0.01);
    }

    #[test]
    fn fewer_steps_than_the_warm_up_still_have_a_rate() {
        assert!((0..5).all(|step| learning_rate(step, 5).is_finite()));
    }
}
