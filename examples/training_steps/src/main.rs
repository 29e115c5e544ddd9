//! Launches and time of a training step of ordinary Burn models.
//!
//! `training-steps mlp`, `cnn` or `transformer`; `--plans` prints what was fused, what was not, and why. Fusion is a
//! setting of the process, so the figures without it come from a second one; what Burn recorded is read in a third from
//! Burn's own log. On `ROCFIRE_DEVICE=noop:gfx942` nothing runs, and the time is the host's alone.

mod cnn;
mod model;
mod other;

use std::time::{Duration, Instant};

use burn::tensor::Device;
use clap::{Parser, ValueEnum};
use rocfire_burn::RocmDevice;

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
    wall: Duration,
    /// Until the model's thread had recorded the step: in Burn's crates, all of it.
    recorded: Duration,
    /// In the plans of rocfire's fusion and what they launch, on the thread in which Burn executes what was recorded.
    planned: Duration,
}

fn main() {
    let arguments = Arguments::parse();
    let rocm = RocmDevice::default();
    let device: Device = rocm.into();
    let mut step: Box<dyn Step> = match arguments.model {
        Model::Mlp => Box::new(Mlp::new(&device, arguments.small)),
        Model::Cnn => Box::new(Cnn::new(&device, arguments.small)),
        Model::Transformer => Box::new(Transformer::new(&device, arguments.small)),
    };
    let launches = || rocm.open().map_or(0, |open| open.launches());
    let planned = || rocfire_burn::plans().iter().map(rocfire_burn::PlanReport::host_time).sum::<Duration>();
    for _ in 0..arguments.warm_up {
        read(step.run());
    }
    let mut costs: Vec<Cost> = Vec::new();
    let mut loss = f32::NAN;
    for _ in 0..arguments.steps.max(1) {
        other::mark();
        let (launched, in_plans, start) = (launches(), planned(), Instant::now());
        let recording = step.run();
        let recorded = start.elapsed();
        loss = read(recording);
        let wall = start.elapsed();
        costs.push(Cost { launches: launches() - launched, wall, recorded, planned: planned() - in_plans });
    }
    other::mark();
    let count = costs.iter().map(|cost| cost.launches).max().unwrap_or_default();
    costs.sort_by_key(|cost| cost.wall);
    let median = &costs[costs.len() / 2];
    println!("device {device:?}, {rocm}");
    println!("launches {count}");
    if !arguments.alone {
        other::compare(count);
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    println!("median of {} steps {:.3} ms, the loss read in each", costs.len(), milliseconds(median.wall));
    println!(
        "host: {:.3} ms until the model's thread had recorded it, all in Burn's crates; beside that and behind it, on the thread that \
         executes, {:.3} ms in rocfire's plans and launches, the rest in Burn's crates or waiting for the device",
        milliseconds(median.recorded),
        milliseconds(median.planned)
    );
    println!("loss {loss}");
    if arguments.plans {
        print!("{}", rocfire_burn::explain());
    }
}
