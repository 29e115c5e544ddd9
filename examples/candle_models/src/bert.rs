//! BERT from safetensors: a vector for a sentence.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use tokenizers::Tokenizer;

use crate::Result;
use crate::generate::tokenizer;
use crate::llama::safetensors;

/// A loaded model.
pub struct Model {
    bert: BertModel,
    tokenizer: Tokenizer,
    device: Device,
}

impl Model {
    /// Loads `config.json`, `tokenizer.json` and every `*.safetensors` of a folder, as Hugging Face has them.
    ///
    /// # Errors
    /// A file that is missing or wrong; no room on the device.
    pub fn load(folder: &Path, dtype: DType, device: &Device) -> Result<Model> {
        let config: Config = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
        // SAFETY: nobody writes the files while the program runs.
        let weights = unsafe { VarBuilder::from_mmaped_safetensors(&safetensors(folder)?, dtype, device)? };
        Ok(Model { bert: BertModel::load(weights, &config)?, tokenizer: tokenizer(folder)?, device: device.clone() })
    }

    /// A vector of length 1 for each sentence: the mean over its tokens. Sentences are padded to the longest, and what was
    /// padded counts for nothing.
    ///
    /// # Errors
    /// The model's and the tokenizer's.
    pub fn embed(&self, sentences: &[&str]) -> Result<Vec<Vec<f32>>> {
        let encoded = self.tokenizer.encode_batch(sentences.to_vec(), true)?;
        let longest = encoded.iter().map(|sentence| sentence.len()).max().unwrap_or(0);
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for sentence in &encoded {
            let padding = longest - sentence.len();
            ids.extend_from_slice(sentence.get_ids());
            ids.extend(std::iter::repeat_n(0, padding));
            mask.extend(std::iter::repeat_n(1_u32, sentence.len()));
            mask.extend(std::iter::repeat_n(0, padding));
        }
        let shape = (encoded.len(), longest);
        let ids = Tensor::from_vec(ids, shape, &self.device)?;
        let mask = Tensor::from_vec(mask, shape, &self.device)?;
        let states = self.bert.forward(&ids, &ids.zeros_like()?, Some(&mask))?.to_dtype(DType::F32)?;
        let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
        let mean = states.broadcast_mul(&mask)?.sum(1)?.broadcast_div(&mask.sum(1)?)?;
        let length = mean.sqr()?.sum_keepdim(1)?.sqrt()?;
        Ok(mean.broadcast_div(&length)?.to_vec2()?)
    }
}
