//! Writing on: one character at a time, drawn from the model's own distribution.

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::model::{CharTransformer, Sizes};
use crate::text::encode;

/// Below 1 the likelier characters are preferred; 0.8 reads best at this size.
const TEMPERATURE: f64 = 0.8;

/// Writes `length` characters after `prompt`, which may be empty.
///
/// The window is always the whole context, filled up behind the text: attention is causal, so what stands there is not
/// seen, and every call has one shape.
///
/// # Errors
/// [`Error::Prompt`] for an unknown character, [`Error::Device`].
pub fn generate(
    model: &CharTransformer,
    sizes: &Sizes,
    vocabulary: &[char],
    prompt: &str,
    length: usize,
    seed: u64,
    device: &Device,
) -> Result<String> {
    let mut tokens = encode(vocabulary, prompt)?;
    if tokens.is_empty() {
        tokens.push(encode(vocabulary, "\n").map_or(0, |newline| newline[0]));
    }
    let seen = tokens.len();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..length {
        let window = &tokens[tokens.len().saturating_sub(sizes.context)..];
        let logits = last_logits(model, sizes, window, device)?;
        tokens.push(draw(&logits, random.random::<f64>()) as u16);
    }
    Ok(tokens[seen..].iter().map(|&token| vocabulary[usize::from(token)]).collect())
}

fn last_logits(model: &CharTransformer, sizes: &Sizes, window: &[u16], device: &Device) -> Result<Vec<f32>> {
    let mut inputs = vec![0_i32; sizes.context];
    for (input, &token) in inputs.iter_mut().zip(window) {
        *input = i32::from(token);
    }
    let inputs = Tensor::<2, Int>::from_data(TensorData::new(inputs, [1, sizes.context]), device);
    let last = window.len() - 1;
    let logits = model.forward(inputs).slice([0..1, last..last + 1, 0..sizes.vocabulary]);
    let data = logits.try_into_data().map_err(|error| Error::Device(error.to_string()))?;
    data.try_to_vec::<f32>().map_err(|error| Error::Device(format!("{error:?}")))
}

/// The index at which the cumulative probability of the softmax passes `point`, in f64 so that every host draws alike.
fn draw(logits: &[f32], point: f64) -> usize {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit - most) / TEMPERATURE).exp()).collect();
    let mut left = point * weights.iter().sum::<f64>();
    for (index, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return index;
        }
    }
    weights.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_follows_the_probabilities() {
        let logits = [0.0, f32::NEG_INFINITY, (2.0_f32).ln() * TEMPERATURE as f32];
        assert_eq!(draw(&logits, 0.0), 0);
        assert_eq!(draw(&logits, 0.32), 0);
        assert_eq!(draw(&logits, 0.34), 2);
        assert_eq!(draw(&logits, 0.999), 2);
    }
}
