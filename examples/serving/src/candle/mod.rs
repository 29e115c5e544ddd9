//! Models written with Candle's tensors.

mod attention;
mod batch;
mod decoder;
mod feed_forward;
mod latent;
mod matrices;
mod plain;

pub use decoder::{Attends, Config, Decoder, Feeds, Mixture};
pub use matrices::Stored;
pub use plain::PlainDecoder;

use candle_core::{Device, Result, Tensor};

use crate::weights::Weights;

/// Where a model's weights come from, and where they go.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub weights: Weights,
    pub device: Device,
    pub stored: Stored,
}

impl Source {
    fn matrix(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_vec(self.weights.matrix(name, shape), shape, &self.device)
    }

    /// Factors of a norm.
    fn norm(&self, name: &str, width: usize) -> Result<Tensor> {
        Tensor::from_vec(self.weights.between(name, width, 0.5, 1.5), width, &self.device)
    }
}
