//! Llama from safetensors.

use std::path::Path;

use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama, LlamaConfig, LlamaEosToks};
use tokenizers::Tokenizer;

use crate::Result;
use crate::generate::{Generated, greedy, tokenizer};

/// A loaded model.
#[derive(Debug)]
pub struct Model {
    llama: Llama,
    config: Config,
    tokenizer: Tokenizer,
    device: Device,
    dtype: DType,
}

impl Model {
    /// Loads `config.json`, `tokenizer.json` and every `*.safetensors` of a folder, as Hugging Face has them.
    ///
    /// # Errors
    /// A file that is missing or wrong; no room on the device.
    pub fn load(folder: &Path, dtype: DType, device: &Device) -> Result<Model> {
        let config: LlamaConfig = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
        let config = config.into_config(false);
        // SAFETY: nobody writes the files while the program runs.
        let weights = unsafe { VarBuilder::from_mmaped_safetensors(&safetensors(folder)?, dtype, device)? };
        let llama = Llama::load(weights, &config)?;
        Ok(Model { llama, config, tokenizer: tokenizer(folder)?, device: device.clone(), dtype })
    }

    /// The likeliest continuation.
    ///
    /// # Errors
    /// The model's and the tokenizer's.
    pub fn generate(&self, prompt: &str, count: usize) -> Result<Generated> {
        let mut cache = Cache::new(true, self.dtype, &self.config, &self.device)?;
        let end = match &self.config.eos_token_id {
            Some(LlamaEosToks::Single(token)) => vec![*token],
            Some(LlamaEosToks::Multiple(tokens)) => tokens.clone(),
            None => Vec::new(),
        };
        greedy(&self.tokenizer, &self.device, prompt, count, &end, |tokens, seen| {
            self.llama.forward(tokens, seen, &mut cache)
        })
    }
}

/// The weights of a folder, in the order of their names.
pub(crate) fn safetensors(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!("{} has no *.safetensors", folder.display()).into());
    }
    Ok(files)
}
