//! One unmodified Burn model on three devices in one process: ours, Burn's wgpu, Burn's CPU backend Flex.
//!
//! Same weights, same batches. Printed are the largest differences from Flex, launches, and, only where ours is a real
//! GPU, times: what the emulator takes says nothing of a card. Without a Vulkan adapter the package that provides a
//! software one is named and the comparison goes on without wgpu.

mod picture;
mod training;

use std::path::PathBuf;

use burn::tensor::{Device, DeviceKind, DeviceType};
use char_transformer::Corpus;
use clap::Parser;
use rocfire_burn::RocmDevice;

use training::Outcome;

/// Trains one model with the same weights and batches on the ROCm device, on wgpu and on Flex.
#[derive(Debug, Parser)]
struct Arguments {
    /// Training steps on each device, at least 1.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
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
    let rocm = RocmDevice::default();
    let opened = rocm.open()?;
    let corpus = Corpus::embedded(char_transformer::CONTEXT)?;
    let mut devices = vec![("Flex".to_owned(), Device::flex()), (rocm.to_string(), rocm.into())];
    match wgpu() {
        Some(device) => devices.push((format!("wgpu ({})", name_of(&device)), device)),
        None => eprintln!(
            "no Vulkan adapter: install your GPU's driver, or `apt-get install mesa-vulkan-drivers libvulkan1` for a \
             software one; comparing with Flex only"
        ),
    }
    let steps = arguments.steps as usize;
    let mut outcomes = Vec::new();
    for (name, device) in &devices {
        eprintln!("{steps} steps on {name}");
        outcomes.push(training::train(&corpus, steps, arguments.seed, name, device, &|| opened.launches())?);
    }
    print_table(&outcomes, rocm.is_gpu()?);
    picture::draw(&outcomes, &arguments.out)?;
    println!("picture: {}", arguments.out.display());
    Ok(())
}

/// Burn's default wgpu device, if there is any adapter at all.
fn wgpu() -> Option<Device> {
    let any = !Device::enumerate(DeviceType::Wgpu).into_vec().is_empty();
    any.then(|| Device::wgpu(DeviceKind::DefaultDevice))
}

fn name_of(device: &Device) -> String {
    device.identity().map_or_else(|| "unnamed adapter".to_owned(), |identity| identity.name)
}

/// Differences are from the first outcome; times are printed only for real hardware.
fn print_table(outcomes: &[Outcome], timed: bool) {
    let reference = &outcomes[0];
    println!(
        "{:<40} {:>10} {:>12} {:>12} {:>9}{}",
        "device",
        "last loss",
        "Δ output",
        "Δ loss",
        "launches",
        if timed { "   s/step" } else { "" }
    );
    for outcome in outcomes {
        let launches = if outcome.launches == 0 { "-".to_owned() } else { outcome.launches.to_string() };
        let time = if timed { format!("{:9.4}", outcome.seconds_per_step) } else { String::new() };
        println!(
            "{:<40} {:>10.6} {:>12.3e} {:>12.3e} {:>9}{time}",
            outcome.name,
            outcome.losses.last().copied().unwrap_or(f32::NAN),
            largest_difference(&outcome.logits, &reference.logits),
            largest_difference(&outcome.losses, &reference.losses),
            launches,
        );
    }
    println!(
        "Δ: largest absolute difference from {}; output: logits of the first batch before training;",
        reference.name
    );
    println!("loss: over all steps. launches: kernels over all steps, counted on our device only.");
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
