//! Llama of few bits from GGUF.

use std::fs::File;
use std::path::Path;

use candle_core::Device;
use candle_core::quantized::gguf_file::Content;
use candle_transformers::models::quantized_llama::ModelWeights;
use tokenizers::Tokenizer;

use crate::Result;
use crate::generate::{Generated, greedy, tokenizer};

/// A loaded model.
#[derive(Debug)]
pub struct Model {
    weights: ModelWeights,
    tokenizer: Tokenizer,
    device: Device,
}

impl Model {
    /// Loads a GGUF file, and `tokenizer.json` beside it.
    ///
    /// # Errors
    /// A file that is missing or wrong; no room on the device.
    pub fn load(gguf: &Path, device: &Device) -> Result<Model> {
        let mut file = File::open(gguf).map_err(|error| format!("{}: {error}", gguf.display()))?;
        let content = Content::read(&mut file).map_err(|error| error.with_path(gguf))?;
        let weights = ModelWeights::from_gguf(content, &mut file, device)?;
        let folder = gguf.parent().unwrap_or_else(|| Path::new("."));
        Ok(Model { weights, tokenizer: tokenizer(folder)?, device: device.clone() })
    }

    /// The likeliest continuation.
    ///
    /// # Errors
    /// The model's and the tokenizer's.
    pub fn generate(&mut self, prompt: &str, count: usize) -> Result<Generated> {
        let end: Vec<u32> = ["</s>", "<|eot_id|>"].iter().filter_map(|end| self.tokenizer.token_to_id(end)).collect();
        self.weights.clear_kv_cache();
        greedy(&self.tokenizer, &self.device, prompt, count, &end, |tokens, seen| self.weights.forward(tokens, seen))
    }

    /// What the model thinks of the token behind a text, `[vocabulary]`.
    ///
    /// # Errors
    /// The model's and the tokenizer's.
    pub fn logits(&mut self, prompt: &str) -> Result<Vec<f32>> {
        let tokens = self.tokenizer.encode(prompt, true)?.get_ids().to_vec();
        self.weights.clear_kv_cache();
        let tokens = candle_core::Tensor::new(tokens, &self.device)?.unsqueeze(0)?;
        Ok(self.weights.forward(&tokens, 0)?.squeeze(0)?.to_vec1()?)
    }
}
