//! Burn 0.21 with its CUDA backend, fusion and autotuning on.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use peer as framework;
use peer::backend::{Autodiff, Cuda};
use peer::module::AutodiffModule;
use peer::nn::loss::CrossEntropyLossConfig;
use peer::optim::{AdamConfig, GradientsParams, Optimizer};
use peer::tensor::Int;

type Tensor<const D: usize> = peer::tensor::Tensor<Cuda, D>;
type Device = peer::tensor::Device<Cuda>;
type Gradients = Autodiff<Cuda>;
type Learned<const D: usize> = peer::tensor::Tensor<Gradients, D>;
type Ints<const D: usize> = peer::tensor::Tensor<Gradients, D, Int>;
type Linear = peer::nn::Linear<Gradients>;
type LayerNorm = peer::nn::LayerNorm<Gradients>;
type Embedding = peer::nn::Embedding<Gradients>;
type Attention = peer::nn::attention::MultiHeadAttention<Gradients>;
type CrossEntropy = peer::nn::loss::CrossEntropyLoss<Gradients>;
/// A step of an optimizer.
type Update<M> = Box<dyn FnMut(M, GradientsParams) -> M>;

#[path = "training.rs"]
mod training;
#[path = "workloads.rs"]
mod workloads;

pub use workloads::measure;

fn device() -> Device {
    Device::default()
}

/// The device as one that keeps what gradients need: here the type says it.
fn learning() -> Device {
    device()
}

fn adam<M: AutodiffModule<Gradients> + 'static>() -> Update<M> {
    let mut optimizer = AdamConfig::new().init();
    Box::new(move |model, gradients| optimizer.step(1e-3, model, gradients))
}

fn cross_entropy(device: &Device) -> CrossEntropy {
    CrossEntropyLossConfig::new().init(device)
}

/// What CubeCL writes for each kernel that it launches, when its configuration asks for it.
const EXECUTED: &str = "Executing ";
const CONFIGURATION: &str = "[profiling]\nlogger = { level = \"minimal\", stderr = true }\n";
/// Steps before those that are counted: what they tune and compile is in no later one.
const WARM: usize = 12;
const COUNTED: usize = 4;
const COUNTED_FROM_HERE: &str = "rocfire-peers: counted from here";

/// A folder that no project is above: CubeCL keeps what it tuned in the user's cache then, for every process of this
/// program. A folder in it has the configuration of the process whose log is read.
pub fn folder() -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir().join("rocfire-peers");
    std::fs::create_dir_all(folder.join("counted"))?;
    std::fs::write(folder.join("counted/cubecl.toml"), CONFIGURATION)?;
    Ok(folder)
}

/// Launches of a training step, by CubeCL's own log of another process.
pub fn launches(name: &str, divide: usize) -> std::io::Result<f64> {
    let arguments = [name, "--divide", &divide.to_string(), "--count-peer"];
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(arguments).current_dir(folder()?.join("counted")).output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), log.split_once(COUNTED_FROM_HERE)) {
        (true, Some((_, counted))) => {
            let count = counted.lines().filter(|line| line.contains(EXECUTED)).count();
            Ok(count as f64 / COUNTED as f64)
        }
        _ => Err(std::io::Error::other(log.into_owned())),
    }
}

/// Takes the steps that are counted, and those before them.
pub fn count(name: &str, divide: usize) {
    let mut step = workloads::step_of(name, divide);
    let mut take = |steps: usize| {
        for _ in 0..steps {
            step.run().into_data();
        }
        // The log is written by a thread of its own.
        std::thread::sleep(Duration::from_secs(1));
    };
    take(WARM);
    eprintln!("{COUNTED_FROM_HERE}");
    take(COUNTED);
}
