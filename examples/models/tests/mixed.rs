//! Mixed precision, accumulation and checkpointing at tiny sizes on the emulated device.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use models::train::{
    Batches, Counters, ImageTask, Precision, Recipe, Rule, Schedule, Task, Trained, Trainer, WordTask, images, train,
    words,
};
use models::{Depth, Fused, Gpt, GptSizes, ResNet, ResNetSizes, largest_relative_difference, started};
use rocfire_burn::RocmDevice;

const SIZES: GptSizes = GptSizes { vocabulary: 64, context: 16, width: 32, heads: 4, layers: 2 };
const BATCHES: Batches = Batches { count: 3, batch: 4, parts: 1, seed: 5 };
const SEED: u64 = 3;

fn rocm() -> Device {
    Device::from(RocmDevice::emulated("gfx942").unwrap().burn()).autodiff()
}

fn recipe(precision: Precision, parts: usize) -> Recipe {
    Recipe {
        precision,
        accumulate: parts,
        clip: Some(1.0),
        loss_scale: if precision == Precision::F16 { 1024.0 } else { 1.0 },
        rule: Rule::AdamW { beta_1: 0.9, beta_2: 0.95, epsilon: 1e-8, decay: 0.1 },
        rate: 3e-3,
        warm_up: 2,
    }
}

fn gpt(device: &Device) -> Gpt {
    started(SEED, device, |device| Gpt::new(&SIZES, device)).unwrap()
}

fn task(parts: usize, fused: Fused, device: &Device) -> WordTask {
    let batches = Batches { parts, ..BATCHES };
    WordTask::new(&SIZES, &batches, &words(&batches, SIZES.context, SIZES.vocabulary), fused, device)
}

/// Values of all gradients, in the order of the parameters.
fn gradients(recipe: Recipe, fused: Fused, device: &Device) -> Vec<f32> {
    struct Values<'a>(&'a GradientsParams, Vec<f32>);
    impl ModuleVisitor for Values<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).expect("every parameter has a gradient");
            self.1.extend(gradient.into_data().iter::<f32>());
        }
    }
    let task = task(recipe.accumulate, fused, device);
    let trainer = Trainer::new(gpt(device), recipe);
    let (gradients, _) = trainer.gradients(|model, part| task.loss(model, 0, part));
    let mut values = Values(&gradients, Vec::new());
    trainer.copy().visit(&mut values);
    assert_eq!(values.1.len(), SIZES.weights());
    values.1
}

/// The root of the sum of squares of a difference, as a share of the reference's.
fn apart(reference: &[f32], other: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    assert_eq!(reference.len(), other.len());
    norm(&mut reference.iter().zip(other).map(|(a, b)| a - b)) / norm(&mut reference.iter().copied())
}

fn run<T: Task>(task: &T, model: T::Model, recipe: Recipe, steps: usize) -> Trained {
    train(task, Trainer::new(model, recipe), Schedule { steps, read_every: 2 }, &Counters::default).unwrap().1
}

#[test]
fn parts_of_a_batch_add_up_to_the_batch() {
    let device = rocm();
    for fused in [Fused::ALL, Fused::NONE] {
        let whole = gradients(recipe(Precision::F32, 1), fused, &device);
        let halves = gradients(recipe(Precision::F32, 2), fused, &device);
        // Sums of f32 in another order.
        let difference = apart(&whole, &halves);
        assert!(difference <= 1e-6, "{fused:?}: {difference:e}");
    }
    let whole = run(&task(1, Fused::ALL, &device), gpt(&device), recipe(Precision::F32, 1), 4);
    let halves = run(&task(2, Fused::ALL, &device), gpt(&device), recipe(Precision::F32, 2), 4);
    let difference = largest_relative_difference(&whole.losses, &halves.losses);
    assert!(difference <= 1e-5, "{difference:e}");
    let difference = largest_relative_difference(&whole.norms, &halves.norms);
    assert!(difference <= 1e-4, "{difference:e}");
}

#[test]
fn checkpointing_gives_the_same_gradients_bit_for_bit() {
    let device = rocm();
    for fused in [Fused::ALL, Fused::NONE] {
        for precision in [Precision::F32, Precision::Bf16] {
            let kept = gradients(recipe(precision, 1), fused, &device);
            let computed_again = gradients(recipe(precision, 1), fused, &device.clone().gradient_checkpointing());
            assert!(kept == computed_again, "{precision:?}, {fused:?}: {:e} apart", apart(&kept, &computed_again));
        }
    }
}

#[test]
fn mixed_precision_trains_as_f32_does() {
    let device = rocm();
    const STEPS: usize = 12;
    let f32 = run(&task(1, Fused::ALL, &device), gpt(&device), recipe(Precision::F32, 1), STEPS);
    assert!(f32.losses[0] - f32.losses[STEPS - 1] > 0.2, "training moves the loss: {:?}", f32.losses);
    for (precision, tolerance) in [(Precision::Bf16, 3e-3), (Precision::F16, 5e-4)] {
        let mixed = run(&task(1, Fused::ALL, &device), gpt(&device), recipe(precision, 1), STEPS);
        let difference = largest_relative_difference(&f32.losses, &mixed.losses);
        assert!(difference <= tolerance, "{precision:?}: {difference:e}: {:?}, {:?}", f32.losses, mixed.losses);
        let difference = largest_relative_difference(&f32.norms, &mixed.norms);
        assert!(difference <= 20.0 * tolerance, "{precision:?}: {difference:e}: {:?}, {:?}", f32.norms, mixed.norms);
    }
}

#[test]
fn a_training_twice_gives_the_same_bits() {
    let device = rocm();
    let once = || run(&task(2, Fused::ALL, &device), gpt(&device), recipe(Precision::Bf16, 2), 6);
    let (first, second) = (once(), once());
    assert_eq!(first.losses, second.losses);
    assert_eq!(first.norms, second.norms);
}

#[test]
fn burns_modules_and_the_fused_ones_train_alike() {
    let device = rocm();
    let fused = run(&task(1, Fused::ALL, &device), gpt(&device), recipe(Precision::F32, 1), 4);
    let plain = run(&task(1, Fused::NONE, &device), gpt(&device), recipe(Precision::F32, 1), 4);
    let difference = largest_relative_difference(&plain.losses, &fused.losses);
    assert!(difference <= 1e-5, "{difference:e}: {:?}, {:?}", plain.losses, fused.losses);
}

/// A network so small, normalised over so few, magnifies rounding: what is compared is where both begin, and that both learn.
#[test]
fn a_residual_network_learns_in_f16_as_in_f32() {
    let sizes = ResNetSizes { depth: Depth::L18, width: 8, classes: 10 };
    let batches = Batches { count: 1, batch: 4, parts: 1, seed: 1 };
    let (pixels, labels) = images(&batches, 32, sizes.classes);
    let device = rocm();
    let losses = |precision: Precision| {
        let rule = Rule::Sgd { momentum: 0.9, decay: 1e-4 };
        let recipe = Recipe { clip: None, rule, rate: 0.01, ..recipe(precision, 1) };
        let task = ImageTask::new(&batches, 32, (&pixels, &labels), precision.dtype(), &device);
        let model = started(SEED, &device, |device| ResNet::new(&sizes, device)).unwrap();
        let trained = run(&task, model, recipe, 6);
        assert!(trained.norms.is_empty(), "what is not clipped has no norm");
        trained.losses
    };
    let (wide, mixed) = (losses(Precision::F32), losses(Precision::F16));
    let difference = largest_relative_difference(&wide[..1], &mixed[..1]);
    assert!(difference <= 2e-3, "{difference:e}: {wide:?}, {mixed:?}");
    for losses in [wide, mixed] {
        assert!(losses[5] < 0.25 * losses[0], "training moves the loss: {losses:?}");
    }
}
