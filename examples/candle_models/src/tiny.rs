//! A small model on disk, made on the spot: a tokenizer trained on a page of text, random weights that follow from a seed.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::{bert, llama};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Model as _, Tokenizer, TokenizerBuilder};

use crate::Result;

/// The text that the tokenizer is trained on.
const TEXT: &str = include_str!("../../char_transformer/text/northanger_abbey.txt");
/// Characters of it: a page.
const PAGE: usize = 20_000;
/// Tokens: the bytes, a few special ones, and the commonest pieces of words.
const VOCABULARY: usize = 320;
/// What weights follow from.
const SEED: u64 = 42;

/// A byte-level BPE tokenizer trained on a page of text, as `tokenizer.json` of a folder; gives its number of tokens.
fn tokenizer(folder: &Path) -> Result<usize> {
    let special = ["<s>", "</s>"].map(|token| AddedToken::from(token, true));
    let alphabet = ByteLevel::alphabet().into_iter().collect();
    let mut trainer = BpeTrainerBuilder::new()
        .vocab_size(VOCABULARY)
        .show_progress(false)
        .special_tokens(special.to_vec())
        .initial_alphabet(alphabet)
        .build();
    let mut tokenizer = TokenizerBuilder::new()
        .with_model(BPE::default())
        .with_normalizer(None::<tokenizers::NormalizerWrapper>)
        .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
        .with_post_processor(None::<tokenizers::PostProcessorWrapper>)
        .with_decoder(Some(ByteLevel::new(false, true, true)))
        .build()?;
    let page: String = TEXT.chars().take(PAGE).collect();
    tokenizer.train(&mut trainer, page.lines())?;
    tokenizer.save(folder.join("tokenizer.json"), false)?;
    let tokens = tokenizer.get_model().get_vocab_size();
    Tokenizer::from_file(folder.join("tokenizer.json"))?;
    Ok(tokens)
}

/// Draws every variable of a map anew, in the order of their names: uniform, with the spread that keeps a layer's output as
/// large as its input, times `gain`. Norms' weights (vectors named `…norm.weight`) are 1 and biases small.
pub(crate) fn draw(variables: &VarMap, random: &mut ChaCha8Rng, gain: f32) -> Result<()> {
    let data = variables.data().lock().map_err(|_| "the map was left in the middle of a change")?;
    let mut named: Vec<(&String, &Var)> = data.iter().collect();
    named.sort_by_key(|(name, _)| *name);
    for (name, variable) in named {
        variable.set(&drawn(name, variable.dims(), random, gain)?.to_device(variable.device())?)?;
    }
    Ok(())
}

fn drawn(name: &str, shape: &[usize], random: &mut ChaCha8Rng, gain: f32) -> Result<Tensor> {
    let is_norm = name.to_lowercase().contains("norm");
    let spread = match shape {
        [_, inputs] => gain * (3.0 / *inputs as f32).sqrt(),
        _ => 0.1,
    };
    let middle = if is_norm && name.ends_with("weight") { 1.0 } else { 0.0 };
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| middle + random.random_range(-spread..spread)).collect();
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

/// Weights of whatever `load` asks for, as `model.safetensors` of a folder.
fn weights(folder: &Path, load: impl Fn(VarBuilder<'_>) -> candle_core::Result<()>) -> Result<()> {
    let variables = VarMap::new();
    load(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
    draw(&variables, &mut ChaCha8Rng::seed_from_u64(SEED), 1.0)?;
    Ok(variables.save(folder.join("model.safetensors"))?)
}

/// A Llama of two layers: four heads of 16 over two of keys, with files as Hugging Face has them.
///
/// # Errors
/// The folder cannot be written.
pub fn llama(folder: &Path) -> Result<()> {
    let config = json!({
        "hidden_size": 64, "intermediate_size": 96, "vocab_size": tokenizer(folder)?, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": false,
    });
    std::fs::write(folder.join("config.json"), serde_json::to_string_pretty(&config)?)?;
    let config = serde_json::from_value::<llama::LlamaConfig>(config)?.into_config(false);
    weights(folder, |builder| llama::Llama::load(builder, &config).map(|_| ()))
}

/// A BERT of two layers: four heads of 12.
///
/// # Errors
/// The folder cannot be written.
pub fn bert(folder: &Path) -> Result<()> {
    let config = json!({
        "vocab_size": tokenizer(folder)?, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 80, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "max_position_embeddings": 64,
        "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "model_type": "bert",
    });
    std::fs::write(folder.join("config.json"), serde_json::to_string_pretty(&config)?)?;
    let config: bert::Config = serde_json::from_value(config)?;
    weights(folder, |builder| bert::BertModel::load(builder, &config).map(|_| ()))
}

/// A Llama of two layers in Q4_K, with Q6_K for the output as llama.cpp's `Q4_K_M` has it; gives the GGUF file's path.
///
/// # Errors
/// The folder cannot be written.
pub fn quantized(folder: &Path) -> Result<PathBuf> {
    // Blocks of Q4_K have 256 numbers.
    const HIDDEN: usize = 256;
    const FEED_FORWARD: usize = 512;
    const LAYERS: usize = 2;
    let (heads, key_heads) = (4, 2);
    let vocabulary = tokenizer(folder)?;
    let mut shapes: Vec<(String, Vec<usize>, GgmlDType)> = vec![
        ("token_embd.weight".into(), vec![vocabulary, HIDDEN], GgmlDType::Q4K),
        ("output_norm.weight".into(), vec![HIDDEN], GgmlDType::F32),
        ("output.weight".into(), vec![vocabulary, HIDDEN], GgmlDType::Q6K),
    ];
    for layer in 0..LAYERS {
        let keys = HIDDEN / heads * key_heads;
        let matrices = [
            ("attn_q", HIDDEN, HIDDEN),
            ("attn_k", keys, HIDDEN),
            ("attn_v", keys, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_gate", FEED_FORWARD, HIDDEN),
            ("ffn_up", FEED_FORWARD, HIDDEN),
            ("ffn_down", HIDDEN, FEED_FORWARD),
        ];
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        shapes.extend(matrices.map(|(part, rows, columns)| (name(part), vec![rows, columns], GgmlDType::Q4K)));
        shapes.extend(["attn_norm", "ffn_norm"].map(|part| (name(part), vec![HIDDEN], GgmlDType::F32)));
    }
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut tensors = Vec::new();
    for (name, shape, dtype) in &shapes {
        tensors.push((name.as_str(), QTensor::quantize(&drawn(name, shape, &mut random, 1.0)?, *dtype)?));
    }
    let number = |value: usize| gguf_file::Value::U32(value as u32);
    let metadata: HashMap<&str, gguf_file::Value> = HashMap::from([
        ("general.architecture", gguf_file::Value::String("llama".to_owned())),
        ("llama.block_count", number(LAYERS)),
        ("llama.embedding_length", number(HIDDEN)),
        ("llama.feed_forward_length", number(FEED_FORWARD)),
        ("llama.attention.head_count", number(heads)),
        ("llama.attention.head_count_kv", number(key_heads)),
        ("llama.rope.dimension_count", number(HIDDEN / heads)),
        ("llama.attention.layer_norm_rms_epsilon", gguf_file::Value::F32(1e-5)),
    ]);
    let metadata: Vec<(&str, &gguf_file::Value)> = metadata.iter().map(|(name, value)| (*name, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let path = folder.join("tiny-q4_k.gguf");
    gguf_file::write(&mut File::create(&path)?, &metadata, &tensors)?;
    Ok(path)
}
