//! Burn 0.21 with its CUDA backend, fusion and autotuning on.

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
/// Steps of the shorter and of the longer process; both start with the same work.
const STEPS: [usize; 2] = [12, 16];

/// Launches of a training step, by CubeCL's own log: what a process of more steps launches beyond one of fewer.
pub fn launches(name: &str, divide: usize) -> std::io::Result<u64> {
    let folder = std::env::temp_dir().join("rocfire-peers");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("cubecl.toml"), CONFIGURATION)?;
    let count = |steps: usize| -> std::io::Result<u64> {
        let program = std::env::current_exe()?;
        let arguments = [name, "--divide", &divide.to_string(), "--peer-steps", &steps.to_string()];
        let output = Command::new(program).args(arguments).current_dir(&folder).output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(log.lines().filter(|line| line.contains(EXECUTED)).count() as u64),
            false => Err(std::io::Error::other(log.into_owned())),
        }
    };
    // What is tried out while tuning is kept for the next processes.
    count(STEPS[0])?;
    let [fewer, more] = STEPS.map(count);
    Ok((more? - fewer?) / (STEPS[1] - STEPS[0]) as u64)
}

/// Takes steps, for a process that counts.
pub fn steps(name: &str, divide: usize, count: usize) {
    let mut step = workloads::step_of(name, divide);
    for _ in 0..count {
        step.run().into_data();
    }
    // The log is written by a thread of its own.
    std::thread::sleep(Duration::from_secs(1));
}
