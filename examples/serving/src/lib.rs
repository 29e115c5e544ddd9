//! Whole models of recent shapes, tiny and with random weights, served as an engine serves them: keys on pages, states in pools,
//! requests that join and leave between steps. Beside each stands the same model written plainly, every token over the whole text
//! before it, for Candle's CPU device or Burn's Flex: the tokens are equal.
//!
//! [`engine`] is the scheduler. Models of `candle` are written with Candle's tensors and `rocfire_candle`, those of
//! `burn` with Burn's and `rocfire_burn_nn`. Everything computes in f32.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod burn;
pub mod candle;
pub mod catalogue;
pub mod engine;
pub mod weights;

/// Errors of either framework, as they say them.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// A model that is written plainly.
pub trait Plain {
    /// Logits behind the last of these tokens.
    ///
    /// # Errors
    /// The framework's.
    fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>>;
}
