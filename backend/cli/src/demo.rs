//! `rocfire demo`: trains the character transformer of `examples/char_transformer`, or lets its weights write on.

use std::path::PathBuf;

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[cfg_attr(not(feature = "demo"), allow(dead_code))] // Without Burn only the answer below is left.
pub struct Arguments {
    /// Train on these UTF-8 files instead of the embedded text.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    text: Vec<PathBuf>,
    /// Training steps.
    #[arg(long)]
    steps: Option<usize>,
    /// Decides initial weights, batches and the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not draw the loss curve.
    #[arg(long)]
    no_plot: bool,
    /// Where the loss curve and the weights go.
    #[arg(long, default_value = "target/demo", value_name = "FOLDER")]
    out: PathBuf,
    /// Do not train: load these weights and go on writing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "steps", "no_plot", "out"])]
    generate: Option<PathBuf>,
    /// What the weights go on from.
    #[arg(long, default_value = "", requires = "generate")]
    prompt: String,
    /// Do not install anything: end with the command to run instead.
    #[arg(long)]
    no_install: bool,
}

/// Runs the demo.
///
/// # Errors
/// What is missing, what is wrong with the text or the weights, or what the device said.
#[cfg(feature = "demo")]
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    use rocfire_burn::RocmDevice;

    let device = RocmDevice::default();
    let opened = device.open()?;
    // NVIDIA's kernels are compiled by its own library, and with a pack no compiler is needed.
    let is_amd = opened.arch().info().vendor == rocfire_arch::Vendor::Amd;
    if is_amd && !rocfire_hal::compile::is_packed(opened.arch(), opened.config()) {
        crate::install::ensure(crate::install::Need::Compiler, arguments.no_install)?;
    }
    crate::progress::show_compiles(None);
    eprintln!("device: {device}");
    let outcome = write_or_train(arguments, device);
    // With ROCFIRE_PROFILE=modelled.
    if let Some(kernels) = opened.modelled() {
        println!("\n{}", rocfire_hal::modelled::summary(&kernels));
    }
    outcome
}

#[cfg(feature = "demo")]
fn write_or_train(arguments: &Arguments, device: rocfire_burn::RocmDevice) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(weights) = &arguments.generate {
        return Ok(char_transformer::go_on(device, weights, &arguments.prompt, arguments.seed)?);
    }
    let options = char_transformer::Options {
        text: arguments.text.clone(),
        steps: arguments.steps.unwrap_or(char_transformer::Options::STEPS),
        seed: arguments.seed,
        plot: !arguments.no_plot,
        folder: arguments.out.clone(),
    };
    Ok(char_transformer::run(device, &options)?)
}

/// Without Burn there is nothing to train with.
///
/// # Errors
/// Always: the answer names the command that builds it.
#[cfg(not(feature = "demo"))]
pub fn run(_: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    Err("this command was built without Burn; run `cargo demo`, or build it with `--features demo`".into())
}
