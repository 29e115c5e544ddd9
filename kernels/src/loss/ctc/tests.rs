use super::*;
use crate::testing::{Lie, Numbers, device, read, tensor};
use rocfire_hal::{Device, Tensor};

const STEPS: usize = 5;
const BATCH: usize = 4;
const CLASSES: usize = 3;
const SYMBOLS: usize = 2;
/// The last has a repeated symbol, which needs a blank between; the third has no symbols at all.
const TARGETS: [[f64; SYMBOLS]; BATCH] = [[1.0, 2.0], [2.0, 0.0], [1.0, 1.0], [1.0, 1.0]];
const TARGET_LENGTHS: [f64; BATCH] = [2.0, 1.0, 0.0, 2.0];
const INPUT_LENGTHS: [f64; BATCH] = [5.0, 3.0, 4.0, 5.0];

/// Log-probabilities that sum to one over the classes.
fn log_probs() -> Vec<f64> {
    let mut numbers = Numbers::new(7);
    let mut probs: Vec<f64> = (0..STEPS * BATCH * CLASSES).map(|_| 0.1 + numbers.below(90) as f64 / 100.0).collect();
    for row in probs.chunks_mut(CLASSES) {
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|p| *p = (*p / sum).ln());
    }
    probs
}

/// The probability of a target: the sum over every path of labels that reads as it, repeats merged and blanks dropped.
fn probability(log_probs: &[f64], sample: usize, steps: usize, target: &[usize]) -> f64 {
    let paths = CLASSES.pow(steps as u32);
    let mut sum = 0.0;
    for path in 0..paths {
        let labels: Vec<usize> = (0..steps).map(|t| path / CLASSES.pow(t as u32) % CLASSES).collect();
        let mut read: Vec<usize> = labels.clone();
        read.dedup();
        read.retain(|&label| label != 0);
        if read == target {
            let log: f64 = (0..steps).map(|t| log_probs[(t * BATCH + sample) * CLASSES + labels[t]]).sum();
            sum += log.exp();
        }
    }
    sum
}

struct Inputs {
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
}

impl Inputs {
    fn new(device: &Device, dtype: DType, lie: Lie, targets: &[f64]) -> Inputs {
        let ints = |shape: &[usize], values: &[f64]| tensor(device, shape, DType::I32, values, Lie::Plain);
        Inputs {
            log_probs: tensor(device, &[STEPS, BATCH, CLASSES], dtype, &log_probs(), lie),
            targets: ints(&[BATCH, SYMBOLS], targets),
            input_lengths: ints(&[BATCH], &INPUT_LENGTHS),
            target_lengths: ints(&[BATCH], &TARGET_LENGTHS),
        }
    }

    fn ctc(&self) -> Ctc<'_> {
        Ctc {
            log_probs: self.log_probs.view(),
            targets: self.targets.view(),
            input_lengths: self.input_lengths.view(),
            target_lengths: self.target_lengths.view(),
            blank: 0,
        }
    }
}

fn states(device: &Device, dtype: DType) -> Tensor {
    Tensor::empty(device, &[STEPS, BATCH, 2 * SYMBOLS + 1], wide(dtype)).unwrap()
}

#[test]
fn the_loss_is_that_of_every_path_that_reads_as_the_target() {
    let device = device();
    for (dtype, lie, within) in
        [(DType::F64, Lie::Plain, 1e-12), (DType::F32, Lie::Swapped, 1e-5), (DType::BF16, Lie::Sparse, 5e-2)]
    {
        let inputs = Inputs::new(&device, dtype, lie, &TARGETS.concat());
        let (mut alpha, mut loss) = (states(&device, dtype), Tensor::empty(&device, &[BATCH], dtype).unwrap());
        ctc_alpha(device.stream(), &inputs.ctc(), alpha.view_mut(), loss.view_mut()).unwrap();
        for (sample, got) in read(&loss).into_iter().enumerate() {
            let target: Vec<usize> =
                TARGETS[sample][..TARGET_LENGTHS[sample] as usize].iter().map(|&label| label as usize).collect();
            let want = -probability(&log_probs(), sample, INPUT_LENGTHS[sample] as usize, &target).ln();
            assert!((got - want).abs() <= within * want.abs().max(1.0), "{dtype}, sample {sample}: {got}, not {want}");
        }
    }
}

#[test]
fn both_recursions_agree_on_the_probability_at_every_step() {
    let device = device();
    let inputs = Inputs::new(&device, DType::F64, Lie::Plain, &TARGETS.concat());
    let (mut alpha, mut loss) = (states(&device, DType::F64), Tensor::empty(&device, &[BATCH], DType::F64).unwrap());
    let mut beta = states(&device, DType::F64);
    ctc_alpha(device.stream(), &inputs.ctc(), alpha.view_mut(), loss.view_mut()).unwrap();
    ctc_beta(device.stream(), &inputs.ctc(), beta.view_mut()).unwrap();
    let (alpha, beta, loss, log_probs) = (read(&alpha), read(&beta), read(&loss), log_probs());
    for sample in 0..BATCH {
        for t in 0..INPUT_LENGTHS[sample] as usize {
            let sum: f64 = (0..2 * SYMBOLS + 1)
                .map(|s| {
                    let label = if s % 2 == 1 { TARGETS[sample][s / 2] as usize } else { 0 };
                    let at = (t * BATCH + sample) * (2 * SYMBOLS + 1) + s;
                    (alpha[at] + beta[at] - log_probs[(t * BATCH + sample) * CLASSES + label]).exp()
                })
                .sum();
            assert!((sum.ln() + loss[sample]).abs() < 1e-12, "sample {sample} at step {t}: {sum}");
        }
    }
}

#[test]
fn what_cannot_be_spelt_has_an_infinite_loss() {
    let device = device();
    // A label that is no class, and one below all.
    let inputs = Inputs::new(&device, DType::F32, Lie::Plain, &[7.0, 2.0, -1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    let (mut alpha, mut loss) = (states(&device, DType::F32), Tensor::empty(&device, &[BATCH], DType::F32).unwrap());
    ctc_alpha(device.stream(), &inputs.ctc(), alpha.view_mut(), loss.view_mut()).unwrap();
    let loss = read(&loss);
    assert!(loss[0] == f64::INFINITY && loss[1] == f64::INFINITY && loss[2].is_finite(), "{loss:?}");
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let inputs = Inputs::new(&device, DType::F32, Lie::Plain, &TARGETS.concat());
    let refused = |ctc: Ctc<'_>, beta: &mut Tensor, part: &str| {
        let error = ctc_beta(device.stream(), &ctc, beta.view_mut()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    let mut beta = states(&device, DType::F32);
    refused(Ctc { blank: 3, ..inputs.ctc() }, &mut beta, "blank must be below 3");
    refused(Ctc { targets: inputs.input_lengths.view(), ..inputs.ctc() }, &mut beta, "targets must be [4, 0]");
    refused(Ctc { log_probs: inputs.targets.view(), ..inputs.ctc() }, &mut beta, "no i32 kernel");
    refused(inputs.ctc(), &mut states(&device, DType::F64), "states must be f32");
}
