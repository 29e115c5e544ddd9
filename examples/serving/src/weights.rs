//! Random weights of a fixed seed: a name and a shape say which.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Outputs, and inputs, that share a scale.
pub const BLOCK: usize = 128;

/// Matrices as DeepSeek-V3's checkpoints have them, a code times the scale of its block of 128 x 128: `weight` and `weight_scale_inv`.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// E4M3, `[count, outputs, inputs]`.
    pub codes: Vec<u8>,
    /// `[count, ceil(outputs / 128), ceil(inputs / 128)]`.
    pub scales: Vec<f32>,
}

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

    /// Codes of a matrix, or of one for each expert, `[count, inputs, outputs]`: its numbers are 2/3 of those of [`Weights::matrix`] in the mean.
    pub fn blocks(&self, name: &str, [count, inputs, outputs]: [usize; 3]) -> Blocks {
        // Every code but the two that are no numbers, 127 and 255.
        let code = |code: f32| if code < 127.0 { code as u8 } else { code as u8 + 1 };
        let codes = self.between(&format!("{name}.weight"), count * outputs * inputs, 0.0, 254.0);
        // The root of the mean square of codes is 100.
        let scale = 0.01 / (inputs as f32).sqrt();
        let scales = count * outputs.div_ceil(BLOCK) * inputs.div_ceil(BLOCK);
        let scales = self.between(&format!("{name}.weight_scale_inv"), scales, 0.3 * scale, scale);
        Blocks { codes: codes.into_iter().map(code).collect(), scales }
    }

    /// Numbers from `low` to `high`.
    pub fn between(&self, name: &str, count: usize, low: f32, high: f32) -> Vec<f32> {
        // The hash of Fowler, Noll and Vo.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ name.bytes().fold(0xcbf2_9ce4_8422_2325, hash));
        (0..count).map(|_| random.random_range(low..high)).collect()
    }
}
