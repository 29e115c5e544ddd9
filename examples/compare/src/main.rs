//! Unmodified Burn models on three devices in one process: ours, Burn's wgpu, Burn's CPU backend Flex.
//!
//! Same weights, same batches, asked and trained. Printed are the largest differences from Flex, launches, kernels compiled on ours and on
//! wgpu, and, only where ours is a real GPU, times: what the emulator takes says nothing of a card. Compilers are the host's, so how long
//! ours ran is printed anywhere. Without a Vulkan adapter the package that provides a software one is named and the comparison goes on
//! without wgpu. The first steps are cold for both with an empty cache of ours: `ROCFIRE_CACHE_DIR=$(mktemp -d) cargo compare`.

mod counted;
mod picture;
mod subject;
mod training;

use std::path::PathBuf;

use burn::tensor::{Device, DeviceKind, DeviceType};
use char_transformer::Corpus;
use clap::{Parser, ValueEnum};
use rocfire_burn::RocmDevice;

use subject::{Characters, Images, Perceptron, ResNet, Sequences, Subject};
use training::{Cost, Counts, Kind, Outcome};

/// A model to compare.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// The character-level transformer of the demo.
    Characters,
    /// A perceptron 784-256-256-10, batch 256.
    Mlp,
    /// A small convolutional network on images of 28 x 28.
    Cnn,
    /// One block of a transformer encoder of width 128.
    Block,
    /// ResNet-18 of a quarter of the channels on images of 64 x 64.
    Resnet18,
}

impl Model {
    fn title(self) -> &'static str {
        match self {
            Model::Characters => "character transformer",
            Model::Mlp => "perceptron",
            Model::Cnn => "convolutional network",
            Model::Block => "transformer block",
            Model::Resnet18 => "ResNet-18",
        }
    }
}

/// Asks and trains models with the same weights and batches on the ROCm device, on wgpu and on Flex.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which models; all of them if none is named.
    #[arg(value_enum)]
    models: Vec<Model>,
    /// Steps of each kind on each device, at least 2: the first ones compile.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..))]
    steps: u32,
    /// Decides weights and batches.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the picture goes.
    #[arg(long, default_value = "target/compare/losses.png", value_name = "FILE")]
    out: PathBuf,
}

/// What ends the comparison early.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// What wgpu compiles cannot be counted.
    #[error("cannot count wgpu's kernels: {0}")]
    Counting(String),
    /// The text, the weights or a device.
    #[error(transparent)]
    Demo(#[from] char_transformer::Error),
    /// Ours could not be opened.
    #[error(transparent)]
    Device(#[from] rocfire_burn::Error),
    /// A tensor could not be read.
    #[error("{device}: {reason}")]
    Read {
        /// On which device.
        device: String,
        /// What it said.
        reason: String,
    },
    /// The picture could not be written.
    #[error("cannot draw {path}: {reason}", path = path.display())]
    Picture {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(run(&Arguments::parse())?)
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    counted::begin().map_err(Error::Counting)?;
    let rocm = RocmDevice::default();
    let opened = rocm.open()?;
    let mut devices =
        vec![(Kind::Flex, "Flex".to_owned(), Device::flex()), (Kind::Ours, rocm.to_string(), rocm.into())];
    match wgpu() {
        Some(device) => devices.push((Kind::Wgpu, format!("wgpu ({})", name_of(&device)), device)),
        None => eprintln!(
            "no Vulkan adapter: install your GPU's driver, or `apt-get install mesa-vulkan-drivers libvulkan1` for a \
             software one; comparing with Flex only"
        ),
    }
    let chosen = if arguments.models.is_empty() { Model::value_variants() } else { &arguments.models };
    let counts = |kind: Kind| match kind {
        Kind::Flex => Counts::default(),
        Kind::Ours => {
            let stats = opened.compile_stats();
            Counts { launches: opened.launches(), compiled: stats.compiled, compiling: stats.compiling.as_secs_f64() }
        }
        Kind::Wgpu => Counts { compiled: counted::compiled(), ..Counts::default() },
    };
    let run = Run { steps: arguments.steps as usize, seed: arguments.seed, devices, counts: &counts };
    let mut compared = Vec::new();
    for &model in chosen {
        let outcomes = match model {
            Model::Characters => run.outcomes(model, &Characters(Corpus::embedded(char_transformer::CONTEXT)?))?,
            Model::Mlp => run.outcomes(model, &Perceptron)?,
            Model::Cnn => run.outcomes(model, &Images)?,
            Model::Block => run.outcomes(model, &Sequences)?,
            Model::Resnet18 => run.outcomes(model, &ResNet)?,
        };
        print_table(model.title(), &outcomes, rocm.is_gpu()?);
        compared.push((model.title(), outcomes));
    }
    println!(
        "Δ: largest absolute difference from {}; output: logits of the first batch before training;",
        run.devices[0].1
    );
    println!("loss: over all steps. launches: kernels of one step, counted on our device only.");
    println!("compiled: kernels compiled in all {} steps, and seconds that our compilers ran for them,", run.steps);
    println!("those that ran at the same time each. cold: seconds of all these steps; warm: median seconds");
    println!("of a step of the last half, behind the last that compiled.");
    picture::draw(&compared, &arguments.out)?;
    println!("picture: {}", arguments.out.display());
    Ok(())
}

/// What all models have in common.
struct Run<'a> {
    steps: usize,
    seed: u64,
    devices: Vec<(Kind, String, Device)>,
    counts: &'a dyn Fn(Kind) -> Counts,
}

impl Run<'_> {
    fn outcomes<S: Subject>(&self, model: Model, subject: &S) -> Result<Vec<Outcome>, Error> {
        let one = |(kind, name, device): &(Kind, String, Device)| {
            eprintln!("{}: {} steps on {name}", model.title(), self.steps);
            let counts = || (self.counts)(*kind);
            training::measure(subject, self.steps, self.seed, (*kind, name), device, &counts)
        };
        self.devices.iter().map(one).collect()
    }
}

/// Burn's default wgpu device, if there is any adapter at all.
fn wgpu() -> Option<Device> {
    let any = !Device::enumerate(DeviceType::Wgpu).into_vec().is_empty();
    any.then(|| Device::wgpu(DeviceKind::DefaultDevice))
}

fn name_of(device: &Device) -> String {
    device.identity().map_or_else(|| "unnamed adapter".to_owned(), |identity| identity.name)
}

/// Differences are from the first outcome; times are printed only for real hardware, and not of what gave NaN.
fn print_table(title: &str, outcomes: &[Outcome], timed: bool) {
    let reference = &outcomes[0];
    let times =
        |header: &str| if timed { format!(" {:>15} {:>10}", format!("{header} cold"), "warm") } else { String::new() };
    println!(
        "{title}\n{:<40} {:>10} {:>11} {:>11} {:>15} {:>15} {:>15} {:>15}{}{}",
        "device",
        "last loss",
        "Δ output",
        "Δ loss",
        "train launches",
        "infer launches",
        "train compiled",
        "infer compiled",
        times("train"),
        times("infer")
    );
    for outcome in outcomes {
        let launches = |cost: Cost| if cost.launches == 0 { "-".to_owned() } else { cost.launches.to_string() };
        let is_nan = outcome.logits.iter().chain(&outcome.losses).any(|value| value.is_nan());
        let times = |cost: Cost| match (timed, is_nan) {
            (false, _) => String::new(),
            (true, true) => format!(" {:>15} {:>10}", "NaN, not timed", "-"),
            (true, false) => {
                let warm = cost.warm.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.5}"));
                format!(" {:>15.3} {warm:>10}", cost.cold)
            }
        };
        let compiled = |cost: Cost| match outcome.kind {
            Kind::Flex => "-".to_owned(),
            Kind::Ours => format!("{} ({:.2} s)", cost.compiled, cost.compiling),
            Kind::Wgpu => cost.compiled.to_string(),
        };
        println!(
            "{:<40} {:>10.6} {:>11.3e} {:>11.3e} {:>15} {:>15} {:>15} {:>15}{}{}",
            outcome.name,
            outcome.losses.last().copied().unwrap_or(f32::NAN),
            largest_difference(&outcome.logits, &reference.logits),
            largest_difference(&outcome.losses, &reference.losses),
            launches(outcome.training),
            launches(outcome.inference),
            compiled(outcome.training),
            compiled(outcome.inference),
            times(outcome.training),
            times(outcome.inference),
        );
    }
    if timed {
        print_share(outcomes);
    }
    println!();
}

/// What our cold steps take of wgpu's.
fn print_share(outcomes: &[Outcome]) {
    let of = |kind: Kind| outcomes.iter().find(|outcome| outcome.kind == kind);
    if let (Some(ours), Some(wgpu)) = (of(Kind::Ours), of(Kind::Wgpu)) {
        let [train, infer] = [|outcome: &Outcome| outcome.training.cold, |outcome: &Outcome| outcome.inference.cold]
            .map(|cold| cold(ours) / cold(wgpu));
        println!("our cold steps take {train:.2} of wgpu's to train, {infer:.2} to infer");
    }
}

/// The largest distance; infinite when one is NaN where the other is not, or when the lengths differ.
fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    let difference = |(a, b): (&f32, &f32)| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        (false, false) => (a - b).abs(),
        _ => f32::INFINITY,
    };
    if a.len() != b.len() { f32::INFINITY } else { a.iter().zip(b).map(difference).fold(0.0, f32::max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_do_not_hide_nan_or_missing_values() {
        assert_eq!(largest_difference(&[1.0, 2.0], &[1.0, 2.5]), 0.5);
        assert_eq!(largest_difference(&[f32::NAN], &[1.0]), f32::INFINITY);
        assert_eq!(largest_difference(&[f32::NAN], &[f32::NAN]), 0.0);
        assert_eq!(largest_difference(&[1.0], &[]), f32::INFINITY);
    }
}
