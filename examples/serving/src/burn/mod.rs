//! Models written with Burn's tensors.

mod batch;
mod gpt_oss;
mod plain;
mod qwen3_next;

pub use gpt_oss::{GptOss, GptOssConfig};
pub use plain::{PlainGptOss, PlainQwen3Next};
pub use qwen3_next::{Qwen3Next, Qwen3NextConfig};

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use rocfire_burn_nn::{RmsNorm, RotaryEncoding};

use crate::weights::Weights;

/// Under the root of every norm.
pub(crate) const EPSILON: f64 = 1e-6;
/// By which places turn.
pub(crate) const ROPE_BASE: f64 = 10_000.0;

/// Where a model's weights come from, and where they go.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub weights: Weights,
    pub device: Device,
}

impl Source {
    fn matrix<const D: usize>(&self, name: &str, shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.weights.matrix(name, &shape), shape), &self.device)
    }

    fn between(&self, name: &str, width: usize, low: f32, high: f32) -> Tensor<1> {
        Tensor::from_data(TensorData::new(self.weights.between(name, width, low, high), [width]), &self.device)
    }

    /// Factors of a norm.
    fn norm(&self, name: &str, width: usize) -> Tensor<1> {
        self.between(name, width, 0.5, 1.5)
    }

    fn rms_norm(&self, name: &str, width: usize) -> RmsNorm {
        RmsNorm { gamma: Param::from_tensor(self.norm(name, width)), epsilon: EPSILON }
    }

    fn embedding(&self, vocabulary: usize, width: usize) -> Tensor<2> {
        self.matrix("embedding", [vocabulary, 1, width]).squeeze_dim(1)
    }
}

/// Turns `[rows, heads, depth]` by each row's place.
fn turn(rotary: &RotaryEncoding, x: Tensor<3>, batch: &batch::Batch) -> crate::Result<Tensor<3>> {
    let by_head = x.swap_dims(0, 1).unsqueeze::<4>();
    let turned = rotary.forward_at(by_head, batch.positions.clone()).ok_or(OFF)?;
    Ok(turned.squeeze_dim::<3>(0).swap_dims(0, 1))
}

/// What is said where an operator has nothing to give.
const OFF: &str = "the model must be on a device of rocfire's";
