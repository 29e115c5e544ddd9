//! The same training on any device.

use std::time::Instant;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::store::{ModuleSnapshot, SafetensorsStore};
use burn::tensor::{Device, Int, Tensor, TensorData};
use char_transformer::{CONTEXT, CharTransformer, Corpus, sizes};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Error;

/// Windows in a batch.
const BATCH: usize = 8;
const LEARNING_RATE: f64 = 1e-3;

/// What a training came to on one device.
#[derive(Debug)]
pub struct Outcome {
    /// The device, in words.
    pub name: String,
    /// Logits of the first batch before training.
    pub logits: Vec<f32>,
    /// Loss at each step.
    pub losses: Vec<f32>,
    /// Kernels launched over all steps; 0 where they cannot be counted.
    pub launches: u64,
    /// Mean time of a step after the first, which compiles.
    pub seconds_per_step: f64,
}

/// Trains for `steps` from weights that follow from `seed` alone: they are made on Flex and carried over as
/// safetensors.
///
/// # Errors
/// [`Error::Read`] if the device fails.
pub fn train(
    corpus: &Corpus,
    steps: usize,
    seed: u64,
    name: &str,
    device: &Device,
    launches: &dyn Fn() -> u64,
) -> Result<Outcome, Error> {
    let failed = |reason: String| Error::Read { device: name.to_owned(), reason };
    let training = device.clone().autodiff();
    let mut model = CharTransformer::new(&sizes(corpus.vocabulary.len()), &training);
    let mut store = SafetensorsStore::from_bytes(Some(initial_weights(corpus, seed).map_err(failed)?));
    model.load_from(&mut store).map_err(|error| failed(error.to_string()))?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (inputs, _) = corpus.sample(&mut random.clone(), BATCH, CONTEXT);
    let logits = read(model.forward(tokens(inputs, device)).flatten::<1>(0, 2)).map_err(failed)?;
    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&training);
    let before = launches();
    let mut losses = Vec::with_capacity(steps);
    let mut start = Instant::now();
    for step in 0..steps {
        let (inputs, targets) = corpus.sample(&mut random, BATCH, CONTEXT);
        let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [BATCH * CONTEXT]), &training);
        let value = loss.forward(model.forward(tokens(inputs, &training)).flatten(0, 1), targets);
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(LEARNING_RATE, model, gradients);
        losses.extend(read(value.inner()).map_err(failed)?);
        if step == 0 {
            start = Instant::now();
        }
    }
    let seconds_per_step = start.elapsed().as_secs_f64() / steps.saturating_sub(1).max(1) as f64;
    Ok(Outcome { name: name.to_owned(), logits, losses, launches: launches() - before, seconds_per_step })
}

fn initial_weights(corpus: &Corpus, seed: u64) -> Result<Vec<u8>, String> {
    let device = Device::flex();
    device.seed(seed);
    let model = CharTransformer::new(&sizes(corpus.vocabulary.len()), &device);
    let mut store = SafetensorsStore::from_bytes(None);
    model.save_into(&mut store).map_err(|error| error.to_string())?;
    store.get_bytes().map_err(|error| error.to_string())
}

fn tokens(inputs: Vec<i32>, device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(inputs, [BATCH, CONTEXT]), device)
}

fn read(tensor: Tensor<1>) -> Result<Vec<f32>, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    data.try_to_vec::<f32>().map_err(|error| format!("{error:?}"))
}
