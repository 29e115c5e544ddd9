//! Text generation: the likeliest token, again and again.

use std::path::Path;

use candle_core::{D, DType, Device, Result as CandleResult, Tensor};
use tokenizers::Tokenizer;

use crate::Result;

/// What a generation gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The tokens behind the prompt.
    pub tokens: Vec<u32>,
    /// Prompt and tokens as text.
    pub text: String,
}

/// Reads `tokenizer.json` of a model's folder.
///
/// # Errors
/// It is not there, or not a tokenizer.
pub fn tokenizer(folder: &Path) -> Result<Tokenizer> {
    let path = folder.join("tokenizer.json");
    Tokenizer::from_file(&path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Asks a model for the likeliest token, `count` times or until it ends the text. `forward` takes new tokens, `[1, n]`, and the
/// number of those before them, and gives what it thinks of the next, `[1, vocabulary]`.
///
/// # Errors
/// The tokenizer's and the model's.
pub fn greedy(
    tokenizer: &Tokenizer,
    device: &Device,
    prompt: &str,
    count: usize,
    end: &[u32],
    mut forward: impl FnMut(&Tensor, usize) -> CandleResult<Tensor>,
) -> Result<Generated> {
    let mut all = tokenizer.encode(prompt, true)?.get_ids().to_vec();
    let (prompted, mut seen) = (all.len(), 0);
    while all.len() < prompted + count {
        let new = Tensor::new(&all[seen..], device)?.unsqueeze(0)?;
        let logits = forward(&new, seen)?;
        seen = all.len();
        let next = logits.to_dtype(DType::F32)?.squeeze(0)?.argmax(D::Minus1)?.to_scalar::<u32>()?;
        all.push(next);
        if end.contains(&next) {
            break;
        }
    }
    Ok(Generated { text: tokenizer.decode(&all, true)?, tokens: all.split_off(prompted) })
}
