//! What a model is made of and fed with, on one of the devices.

use candle_core::{DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use serde::de::DeserializeOwned;
use serde_json::{json, Value};

use crate::models::Kind;
use crate::weights;

/// Tokens of the prompt, and steps of one token each after it.
const PROMPT: usize = 7;
const STEPS: usize = 3;
/// Tokens that there are.
pub const VOCABULARY: usize = 96;

/// One of the two devices, with the numbers to compute with.
pub struct Setup {
    /// Where.
    pub device: Device,
    /// What weights are.
    pub kind: Kind,
    /// Whether to attend by flash attention.
    pub flash: bool,
    /// The type to compute in, if that is not the weights' own: the weights and what goes in stay the same numbers.
    pub exact: Option<DType>,
    /// Which of many sets of weights.
    pub draw: u64,
}

impl Setup {
    /// The type to compute in.
    pub fn dtype(&self) -> DType {
        self.exact.unwrap_or(self.numbers_of())
    }

    /// The type whose numbers weights and what goes in are.
    fn numbers_of(&self) -> DType {
        match self.kind {
            Kind::Floats(dtype) => dtype,
            Kind::Gguf(_) => DType::F32,
        }
    }

    /// Weights by their names.
    pub fn weights(&self) -> VarBuilder<'static> {
        self.weights_without(&[])
    }

    /// Weights by their names, of which those that hold one of `without` are not there.
    pub fn weights_without(&self, without: &'static [&'static str]) -> VarBuilder<'static> {
        weights::builder(self.numbers_of(), self.dtype(), &self.device, without, self.draw)
    }

    /// A configuration: the words that most models of text share, with `own` put over them; null takes a word out.
    pub fn config<T: DeserializeOwned>(&self, own: Value) -> Result<T> {
        let mut words = json!({
            "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "norm_epsilon": 1e-5, "norm_eps": 1e-5,
            "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "use_bias": true,
            "tie_word_embeddings": false, "use_sliding_window": false, "max_window_layers": 2, "use_cache": true,
            "use_flash_attn": self.flash, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "type_vocab_size": 2,
            "initializer_range": 0.02, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "position_embedding_type": "absolute", "partial_rotary_factor": 0.5,
        });
        let all = words.as_object_mut().expect("an object was just written");
        for (word, value) in own.as_object().into_iter().flatten() {
            match value {
                Value::Null => all.remove(word),
                value => all.insert(word.clone(), value.clone()),
            };
        }
        serde_json::from_value(words).map_err(Error::wrap)
    }

    /// Ids of `count` tokens from place `first` of a text on, `[1, count]`.
    pub fn tokens(&self, first: usize, count: usize) -> Result<Tensor> {
        let id = |place: usize| ((place * place * 7 + place * 3 + 5) % VOCABULARY) as u32;
        let ids: Vec<u32> = (first..first + count).map(id).collect();
        Tensor::from_vec(ids, (1, count), &self.device)
    }

    /// A prompt, and steps with what was kept of the tokens before: `step` gets tokens and where they stand.
    pub fn text(&self, mut step: impl FnMut(&Tensor, usize) -> Result<Tensor>) -> Result<Vec<Tensor>> {
        let mut outputs = vec![step(&self.tokens(0, PROMPT)?, 0)?];
        for place in PROMPT..PROMPT + STEPS {
            outputs.push(step(&self.tokens(place, 1)?, place)?);
        }
        Ok(outputs)
    }

    /// A text of so many tokens, once.
    pub fn sentence(&self) -> Result<Tensor> {
        self.tokens(0, 2 * PROMPT)
    }

    /// Numbers from -1 to 1.
    pub fn numbers(&self, shape: &[usize]) -> Result<Tensor> {
        let mut state = 11;
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| (2.0 * weights::unit(&mut state) - 1.0) as f32).collect();
        let numbers = Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.numbers_of())?;
        numbers.to_dtype(self.dtype())?.to_device(&self.device)
    }
}
