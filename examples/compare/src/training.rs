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
    /// Whose the device is.
    pub kind: Kind,
    /// The device, in words.
    pub name: String,
    /// Logits of the first batch before training.
    pub logits: Vec<f32>,
    /// Loss at each step.
    pub losses: Vec<f32>,
    pub training: Cost,
    pub inference: Cost,
}

/// Whose a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Burn's CPU backend.
    Flex,
    /// rocfire's.
    Ours,
    /// Burn's wgpu backend's.
    Wgpu,
}

/// What a device has done since it was opened; 0 of what it does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub launches: u64,
    /// Kernels that were compiled.
    pub compiled: u64,
    /// Seconds that compilers ran, those that ran at the same time each.
    pub compiling: f64,
}

/// What steps take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Kernels launched in the last one; 0 where they cannot be counted.
    pub launches: u64,
    /// Kernels compiled in all of them; 0 where they cannot be counted.
    pub compiled: u64,
    /// Seconds that compilers ran for them; 0 where they cannot be counted.
    pub compiling: f64,
    /// Seconds from the start of the first to the end of the last.
    pub cold: f64,
    /// Seconds of one once nothing compiles: the median of the last half, less those up to the last that compiled; `None` if that is
    /// all of them.
    pub warm: Option<f64>,
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
    (kind, name): (Kind, &str),
    device: &Device,
    counts: &dyn Fn() -> Counts,
) -> Result<Outcome, Error> {
    let failed = |reason: String| Error::Read { device: name.to_owned(), reason };
    let learning = device.clone().autodiff();
    let mut model =
        models::started(seed, &learning, |device| subject.model(device)).map_err(|error| failed(error.to_string()))?;
    let random = ChaCha8Rng::seed_from_u64(seed);
    let asked = model.valid();
    let (input, _) = subject.batch(&mut random.clone(), device);
    let mut logits = Vec::new();
    let inference = timed(steps, counts, &mut |_| {
        logits = read(S::logits(&asked, input.clone()).flatten::<1>(0, 1))?;
        Ok(())
    })
    .map_err(failed)?;
    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&learning);
    let mut random = random;
    let mut losses = Vec::with_capacity(steps);
    let training = timed(steps, counts, &mut |_| {
        let (input, targets) = subject.batch(&mut random, &learning);
        let value = loss.forward(S::logits(&model, input), targets);
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        model = optimizer.step(LEARNING_RATE, model.clone(), gradients);
        losses.extend(read(value.inner())?);
        Ok(())
    })
    .map_err(failed)?;
    Ok(Outcome { kind, name: name.to_owned(), logits, losses, training, inference })
}

type Work<'a> = dyn FnMut(usize) -> Result<(), String> + 'a;

/// Runs something `steps` times.
fn timed(steps: usize, counts: &dyn Fn() -> Counts, work: &mut Work<'_>) -> Result<Cost, String> {
    let (start, first) = (Instant::now(), counts());
    let mut each = Vec::with_capacity(steps);
    for step in 0..steps {
        let (before, begun) = (counts(), Instant::now());
        work(step)?;
        let (seconds, after) = (begun.elapsed().as_secs_f64(), counts());
        each.push((seconds, after.compiled > before.compiled, after.launches - before.launches));
    }
    let cold = start.elapsed().as_secs_f64();
    let launches = each.last().map_or(0, |&(_, _, launches)| launches);
    let last = counts();
    let (compiled, compiling) = (last.compiled - first.compiled, last.compiling - first.compiling);
    Ok(Cost { launches, compiled, compiling, cold, warm: warm(&each) })
}

/// The median of the last half of steps (seconds, whether they compiled), or of those behind the last that compiled.
fn warm(each: &[(f64, bool, u64)]) -> Option<f64> {
    let compiled = each.iter().rposition(|step| step.1).map_or(0, |step| step + 1);
    let mut seconds: Vec<f64> = each[compiled.max(each.len() / 2)..].iter().map(|step| step.0).collect();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

fn read(tensor: Tensor<1>) -> Result<Vec<f32>, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    data.try_to_vec::<f32>().map_err(|error| format!("{error:?}"))
}

#[cfg(test)]
mod tests {
    use super::warm;

    #[test]
    fn a_step_is_warm_in_the_last_half_and_behind_the_last_that_compiled() {
        let steps = |seconds: &[f64], compiled: &[usize]| -> Option<f64> {
            let each = seconds.iter().enumerate().map(|(n, &seconds)| (seconds, compiled.contains(&n), 1));
            warm(&each.collect::<Vec<_>>())
        };
        assert_eq!(steps(&[9.0, 8.0, 3.0, 1.0, 2.0], &[0]), Some(2.0));
        assert_eq!(steps(&[9.0, 8.0, 3.0, 1.0, 2.0], &[0, 3]), Some(2.0));
        assert_eq!(steps(&[9.0, 8.0, 3.0, 1.0, 7.0], &[]), Some(3.0));
        assert_eq!(steps(&[9.0, 8.0], &[0, 1]), None);
    }
}
