//! Launches and time of a training step of ordinary Burn models.
//!
//! `training-steps mlp`, `cnn` or `transformer`; `--plans` prints what was fused, what was not, and why. Fusion is a
//! setting of the process, so the figures without it come from a second one. On `ROCFIRE_DEVICE=noop:gfx942` nothing runs,
//! and the time is the host's alone.

mod cnn;
mod model;
mod other;

use std::time::{Duration, Instant};

use burn::tensor::Device;
use clap::{Parser, ValueEnum};
use rocfire_burn::{Recorded, RocmDevice, recorded};
use rocfire_hal::replay::Replays;

use cnn::Cnn;
use model::{Mlp, Step, Transformer, read};

/// Trains a model for some steps and prints what one costs.
#[derive(Parser, Debug)]
struct Arguments {
    /// Which model.
    model: Model,
    /// Steps to take the median of.
    #[arg(long, default_value_t = 3)]
    steps: usize,
    /// Steps before those, which compile and plan.
    #[arg(long, default_value_t = 2)]
    warm_up: usize,
    /// Sizes that an emulated device computes in seconds.
    #[arg(long)]
    small: bool,
    /// Prints every plan of the fusion, with the share of the host's time.
    #[arg(long)]
    plans: bool,
    /// Prints this process's figures only.
    #[arg(long)]
    alone: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// 784-256-256-10 with ReLU and Adam, batches of 256.
    Mlp,
    /// Three convolutions with batch normalisation and ReLU, one of them beside a residual, a linear layer and Adam: 32 channels,
    /// batches of 64 images of 32 x 32; small 8, four of 8 x 8.
    Cnn,
    /// Four pre-norm blocks with Adam: width 256, eight heads, eight sequences of 128; small 64, four, two of 16.
    Transformer,
}

/// What one step took.
struct Cost {
    launches: u64,
    operators: u64,
    wall: Duration,
    /// In the model, in Burn's crates and in the recorder.
    recording: Duration,
    planning: Duration,
    /// In plans, less their launches.
    running: Duration,
    launching: Duration,
    /// In operators that no kernel computes together with others.
    alone: Duration,
    /// For the device, with the loss on its way.
    waiting: Duration,
    replays: Replays,
}

impl Cost {
    /// Runs a step and reads its loss.
    fn of(step: &mut dyn Step, rocm: RocmDevice) -> (Cost, f32) {
        let launches = || rocm.open().map_or(0, |open| open.launches());
        let replays = || rocm.open().map(|open| open.stream().replays()).unwrap_or_default();
        let spent = |recorded: Recorded| recorded.planning + recorded.running + recorded.running_alone;
        let (launched, replayed, before, start) = (launches(), replays(), recorded(&rocm), Instant::now());
        let loss = step.run();
        let (called, between) = (start.elapsed(), recorded(&rocm));
        let loss = read(loss);
        let (wall, after) = (start.elapsed(), recorded(&rocm));
        let launching = after.launching - before.launching;
        let cost = Cost {
            launches: launches() - launched,
            operators: after.operators - before.operators,
            wall,
            recording: called.saturating_sub(spent(between) - spent(before)),
            planning: after.planning - before.planning,
            running: (after.running - before.running).saturating_sub(launching),
            launching,
            alone: after.running_alone - before.running_alone,
            waiting: (wall - called).saturating_sub(spent(after) - spent(between)),
            replays: replays().since(&replayed),
        };
        (cost, loss)
    }
}

fn main() {
    let arguments = Arguments::parse();
    let rocm = RocmDevice::default();
    let device: Device = rocm.burn().into();
    let mut step: Box<dyn Step> = match arguments.model {
        Model::Mlp => Box::new(Mlp::new(&device, arguments.small)),
        Model::Cnn => Box::new(Cnn::new(&device, arguments.small)),
        Model::Transformer => Box::new(Transformer::new(&device, arguments.small)),
    };
    for _ in 0..arguments.warm_up {
        read(step.run());
    }
    if let Ok(opened) = rocm.open() {
        // Steps that are timed run the kernels of their shapes.
        opened.wait_for_compiles();
    }
    let steps = (0..arguments.steps.max(1)).map(|_| Cost::of(step.as_mut(), rocm));
    let (mut costs, losses): (Vec<Cost>, Vec<f32>) = steps.unzip();
    let count = costs.iter().map(|cost| cost.launches).max().unwrap_or_default();
    costs.sort_by_key(|cost| cost.wall);
    let median = &costs[costs.len() / 2];
    println!("device {device:?}, {rocm}");
    println!("launches {count}");
    if !arguments.alone {
        other::compare();
    }
    println!(
        "operators recorded {}, {:.1} for each launch",
        median.operators,
        median.operators as f64 / count.max(1) as f64
    );
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    println!("median of {} steps {:.3} ms, the loss read in each", costs.len(), milliseconds(median.wall));
    println!(
        "host: recording {:.3} ms, the model and Burn's crates among it; planning {:.3}; plans {:.3}, and {:.3} in their launches; \
         operators by themselves {:.3}; waiting for the loss {:.3}",
        milliseconds(median.recording),
        milliseconds(median.planning),
        milliseconds(median.running),
        milliseconds(median.launching),
        milliseconds(median.alone),
        milliseconds(median.waiting),
    );
    let Replays { replays, launches, updates, .. } = median.replays;
    println!("replayed {launches} of the launches in {replays} graphs, {updates} of them with other arguments");
    println!("loss {}", losses.last().copied().unwrap_or(f32::NAN));
    if arguments.plans {
        print!("{}", rocfire_burn::explain());
    }
}
