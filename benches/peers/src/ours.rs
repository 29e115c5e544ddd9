//! rocfire, behind the patched Burn 0.22.

use burn as framework;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int};
use rocfire_burn::RocmDevice;

type Tensor<const D: usize> = burn::tensor::Tensor<D>;
type Learned<const D: usize> = burn::tensor::Tensor<D>;
type Ints<const D: usize> = burn::tensor::Tensor<D, Int>;
type Linear = burn::nn::Linear;
type LayerNorm = burn::nn::LayerNorm;
type Embedding = burn::nn::Embedding;
type Attention = burn::nn::attention::MultiHeadAttention;
type CrossEntropy = burn::nn::loss::CrossEntropyLoss;
/// A step of an optimizer.
type Update<M> = Box<dyn FnMut(M, GradientsParams) -> M>;

#[path = "training.rs"]
mod training;
#[path = "workloads.rs"]
mod workloads;

pub use workloads::measure;

fn device() -> Device {
    RocmDevice::default().into()
}

/// The device as one that keeps what gradients need.
fn learning() -> Device {
    device().autodiff()
}

fn adam<M: Module + 'static>() -> Update<M> {
    let mut optimizer = AdamConfig::new().init();
    Box::new(move |model, gradients| optimizer.step(1e-3, model, gradients))
}

fn cross_entropy(device: &Device) -> CrossEntropy {
    CrossEntropyLossConfig::new().init(device)
}

/// Launches of a training step.
pub fn launches(name: &str, divide: usize) -> u64 {
    let count = || RocmDevice::default().open().map_or(0, |open| open.launches());
    let mut step = workloads::step_of(name, divide);
    let mut last = 0;
    for _ in 0..4 {
        let before = count();
        step.run().into_data();
        last = count() - before;
    }
    last
}
