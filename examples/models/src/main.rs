//! Trains ResNet-18 and a BERT-like encoder on the ROCm device and on Burn's CPU backend, and prints the losses side by side;
//! with `--time` times inference of a published model instead, and `train` trains one at its published size.

mod command;

use burn::tensor::{Device, FloatDType, Tensor};
use clap::Parser;
use models::{
    BertRun, BertSizes, Depth, Known, ResNetRun, ResNetSizes, bert_losses, largest_relative_difference, resnet_logits,
    resnet_losses, time,
};
use rocfire_burn::RocmDevice;

/// Trains ResNet-18 and a BERT-like encoder on the ROCm device and on Flex from the same weights and data, and prints the losses.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Training steps of each model, at least 1.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Decides weights and data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Height and width of the images.
    #[arg(long, default_value_t = 64)]
    side: usize,
    /// Channels of ResNet-18's first stage; the published model has 64.
    #[arg(long, default_value_t = 16)]
    width: usize,
    /// Images or texts in a batch.
    #[arg(long, default_value_t = 4)]
    batch: usize,
    /// Time inference of these models in f16, on images of 224 x 224 or texts of 128 words; `--batch` says how many.
    #[arg(long, value_enum, num_args = 1.., conflicts_with_all = ["steps", "seed", "side", "width"])]
    time: Vec<Known>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Trains a model of published size in mixed precision, and prints what a step costs.
    Train {
        #[command(subcommand)]
        what: command::What,
    },
}

/// Height and width of the images that published figures are of.
const SIDE: usize = 224;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { command, steps, seed, side, width, batch, time: timed } = Arguments::parse();
    if let Some(Command::Train { what }) = command {
        return command::run(&what);
    }
    let steps = steps as usize;
    let rocm = RocmDevice::default();
    let opened = rocm.open()?;
    if !timed.is_empty() {
        let mut device = Device::from(rocm.burn());
        device.configure(FloatDType::F16)?;
        for model in timed {
            let cost = time(model, batch, SIDE, &device, &|| {
                // What is timed runs the kernels of its shapes.
                opened.wait_for_compiles();
                opened.launches()
            })?;
            let milliseconds = cost.wall.as_secs_f64() * 1e3;
            let finite = if cost.is_finite { "" } else { ", and the result is not finite" };
            println!("{model:?}, f16, batch {batch}: {milliseconds:.3} ms, {} launches{finite}", cost.launches);
        }
        return Ok(());
    }
    let resnet = ResNetRun {
        sizes: ResNetSizes { depth: Depth::L18, width, classes: 10 },
        batch,
        side,
        steps,
        rate: 0.01,
        seed,
    };
    let sizes = BertSizes { vocabulary: 1024, context: 32, width: 128, heads: 4, layers: 2 };
    let bert = BertRun { sizes, batch, steps, rate: 1e-3, seed };
    compare("ResNet-18", rocm, &|device| resnet_losses(&resnet, device))?;
    compare("BERT-like encoder", rocm, &|device| bert_losses(&bert, device))?;

    let device = Device::from(rocm.burn());
    let (flex, _) = resnet_logits(&resnet, &Device::flex(), &|| 0)?;
    let (ours, launches) = resnet_logits(&resnet, &device, &|| opened.launches())?;
    let apart = flex.iter().zip(&ours).map(|(flex, ours)| (flex - ours).abs()).fold(0.0, f32::max);
    println!("ResNet-18, inference: {launches} launches; logits within {apart:.1e} of Flex's\n");

    let weight = Tensor::<4>::ones([16, 3, 3, 3], &device);
    for shape in [[4, 3, 224, 224], [8, 3, 112, 112]] {
        let before = opened.compiled();
        let options = burn::tensor::ops::ConvOptions::new([2, 2], [1, 1], [1, 1], 1);
        let y = burn::tensor::module::conv2d(Tensor::ones(shape, &device), weight.clone(), None, options);
        y.sum().try_into_data()?;
        let compiled = opened.compiled() - before;
        println!("convolution at {shape:?}: {compiled} kernels compiled that the cache on disk did not have");
    }
    Ok(())
}

/// Trains on both devices and prints a line per step.
fn compare(
    name: &str,
    rocm: RocmDevice,
    train: &dyn Fn(&Device) -> Result<Vec<f32>, models::Error>,
) -> Result<(), Box<dyn std::error::Error>> {
    let opened = rocm.open()?;
    let flex = train(&Device::flex())?;
    let before = opened.launches();
    let ours = train(&rocm.burn().into())?;
    let launches = opened.launches() - before;
    println!(
        "{name}: loss before each step\n{:>5} {:>12} {:>16} {:>11}",
        "step",
        "Flex",
        rocm.to_string(),
        "difference"
    );
    for (step, (flex, ours)) in flex.iter().zip(&ours).enumerate() {
        println!("{step:>5} {flex:>12.6} {ours:>16.6} {:>11.1e}", largest_relative_difference(&[*flex], &[*ours]));
    }
    let largest = largest_relative_difference(&flex, &ours);
    println!(
        "largest relative difference {largest:.1e}; {launches} launches, {} per step\n",
        launches / flex.len() as u64
    );
    Ok(())
}
