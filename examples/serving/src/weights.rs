//! Random weights of a fixed seed: a name and a shape say which.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Weights by name, the same on every device and for every framework.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Another seed is another model.
    pub seed: u64,
}

impl Weights {
    /// A matrix, or one for each expert: `[.., inputs, outputs]`, around 0, such that a product keeps the size of its input.
    pub fn matrix(&self, name: &str, shape: &[usize]) -> Vec<f32> {
        let inputs = shape.iter().rev().nth(1).copied().unwrap_or(1);
        let most = (3.0 / inputs as f32).sqrt();
        self.between(name, shape.iter().product(), -most, most)
    }

    /// Numbers from `low` to `high`.
    pub fn between(&self, name: &str, count: usize, low: f32, high: f32) -> Vec<f32> {
        // The hash of Fowler, Noll and Vo.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ name.bytes().fold(0xcbf2_9ce4_8422_2325, hash));
        (0..count).map(|_| random.random_range(low..high)).collect()
    }
}
