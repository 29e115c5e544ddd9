//! The same training and the same questions on any device.

use std::time::Instant;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Error;
use crate::subject::Subject;

const LEARNING_RATE: f64 = 1e-3;

/// What a model came to on one device.
#[derive(Debug)]
pub struct Outcome {
    /// The device, in words.
    pub name: String,
    /// Logits of the first batch before training.
    pub logits: Vec<f32>,
    /// Loss at each step.
    pub losses: Vec<f32>,
    pub training: Cost,
    pub inference: Cost,
}

/// What a step takes.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Kernels launched in the last one; 0 where they cannot be counted.
    pub launches: u64,
    /// Mean time of those after the first, which compiles.
    pub seconds: f64,
}

/// Asks a model and trains it, `steps` times each, from weights that follow from `seed` alone: they are made on the CPU and
/// carried over.
///
/// # Errors
/// [`Error::Read`] if the device fails.
pub fn measure<S: Subject>(
    subject: &S,
    steps: usize,
    seed: u64,
    name: &str,
    device: &Device,
    launches: &dyn Fn() -> u64,
) -> Result<Outcome, Error> {
    let failed = |reason: String| Error::Read { device: name.to_owned(), reason };
    let learning = device.clone().autodiff();
    let mut model =
        models::started(seed, &learning, |device| subject.model(device)).map_err(|error| failed(error.to_string()))?;
    let random = ChaCha8Rng::seed_from_u64(seed);
    let asked = model.valid();
    let (input, _) = subject.batch(&mut random.clone(), device);
    let mut logits = Vec::new();
    let inference = timed(steps, launches, &mut |_| {
        logits = read(S::logits(&asked, input.clone()).flatten::<1>(0, 1))?;
        Ok(())
    })
    .map_err(failed)?;
    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&learning);
    let mut random = random;
    let mut losses = Vec::with_capacity(steps);
    let training = timed(steps, launches, &mut |_| {
        let (input, targets) = subject.batch(&mut random, &learning);
        let value = loss.forward(S::logits(&model, input), targets);
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(LEARNING_RATE, model.clone(), gradients);
        losses.extend(read(value.inner())?);
        Ok(())
    })
    .map_err(failed)?;
    Ok(Outcome { name: name.to_owned(), logits, losses, training, inference })
}

type Work<'a> = dyn FnMut(usize) -> Result<(), String> + 'a;

/// Runs something `steps` times.
fn timed(steps: usize, launches: &dyn Fn() -> u64, work: &mut Work<'_>) -> Result<Cost, String> {
    work(0)?;
    let start = Instant::now();
    let mut before = launches();
    for step in 1..steps {
        before = launches();
        work(step)?;
    }
    let seconds = start.elapsed().as_secs_f64() / steps.saturating_sub(1).max(1) as f64;
    Ok(Cost { launches: launches() - before, seconds })
}

fn read(tensor: Tensor<1>) -> Result<Vec<f32>, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    data.try_to_vec::<f32>().map_err(|error| format!("{error:?}"))
}
