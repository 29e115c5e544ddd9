//! Model code of candle-transformers, unmodified, on rocfire's devices.
//!
//! | module | model | weights |
//! | --- | --- | --- |
//! | [`llama`] | Llama, text generation | safetensors |
//! | [`quantized`] | Llama of few bits, text generation | GGUF |
//! | [`bert`] | BERT, sentence embeddings | safetensors |
//! | [`train`] | a perceptron on points, AdamW | none |
//! | [`mod@bench`] | Llama-3.2-1B's and BERT-base's shapes, timed | random |
//!
//! Each loads what a real model has on disk. [`tiny`] makes such a folder on the spot: a tokenizer trained on a page of text
//! and random weights, so that everything runs anywhere, and gives on the device what Candle's CPU device gives.

pub mod bench;
pub mod bert;
pub mod generate;
pub mod llama;
pub mod quantized;
pub mod tiny;
pub mod train;

/// What can go wrong in an example: anything.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
