//! Models whose matrices are of GGUF's types: files written on the spot, read as a user's.

use std::collections::HashMap;
use std::io::Cursor;

use candle_core::quantized::{gguf_file, GgmlDType, QTensor};
use candle_core::{Error, Result, Shape, Tensor};
use candle_transformers::models as of;

use super::{Kind, Model, Ways};
use crate::setup::{Setup, VOCABULARY};
use crate::weights;

const HIDDEN: usize = 64;
const FEED_FORWARD: usize = 96;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const HEAD: usize = HIDDEN / HEADS;

/// Tensors of a file: names and shapes.
type Shapes = Vec<(String, Vec<usize>)>;

/// A file in memory: numbers of its head under `architecture`, and tensors, of which matrices are quantised.
fn file(setup: &Setup, architecture: &str, numbers: &[(&str, f32)], shapes: &Shapes) -> Result<Cursor<Vec<u8>>> {
    let Kind::Gguf(dtype) = setup.kind else { return Err(Error::Msg("weights of GGUF have a type of it".to_owned())) };
    let mut head =
        HashMap::from([("general.architecture".to_owned(), gguf_file::Value::String(architecture.to_owned()))]);
    for &(name, value) in numbers {
        let value =
            if value.fract() == 0.0 { gguf_file::Value::U32(value as u32) } else { gguf_file::Value::F32(value) };
        head.insert(format!("{architecture}.{name}"), value);
    }
    // Numbers that are whole and still floats.
    head.insert(format!("{architecture}.rope.freq_base"), gguf_file::Value::F32(10000.0));
    let tensor = |(name, shape): &(String, Vec<usize>)| {
        let dtype = if shape.len() == 2 { dtype } else { GgmlDType::F32 };
        QTensor::quantize(&weights::named(name, &Shape::from(shape.as_slice()))?, dtype)
    };
    let tensors: Vec<QTensor> = shapes.iter().map(tensor).collect::<Result<_>>()?;
    let named: Vec<(&str, &QTensor)> = shapes.iter().map(|(name, _)| name.as_str()).zip(&tensors).collect();
    let head: Vec<(&str, &gguf_file::Value)> = head.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let mut bytes = Cursor::new(Vec::new());
    gguf_file::write(&mut bytes, &head, &named)?;
    bytes.set_position(0);
    Ok(bytes)
}

/// What most files have, and in each layer `own` beside it.
fn shapes(own: &[(&str, &[usize])]) -> Shapes {
    let keys = KEY_HEADS * HEAD;
    let layer: [(&str, &[usize]); 9] = [
        ("attn_q.weight", &[HIDDEN, HIDDEN]),
        ("attn_k.weight", &[keys, HIDDEN]),
        ("attn_v.weight", &[keys, HIDDEN]),
        ("attn_output.weight", &[HIDDEN, HIDDEN]),
        ("ffn_gate.weight", &[FEED_FORWARD, HIDDEN]),
        ("ffn_up.weight", &[FEED_FORWARD, HIDDEN]),
        ("ffn_down.weight", &[HIDDEN, FEED_FORWARD]),
        ("attn_norm.weight", &[HIDDEN]),
        ("ffn_norm.weight", &[HIDDEN]),
    ];
    let layers = (0..LAYERS).flat_map(|at| {
        let own = own.iter().chain(layer.iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name)));
        own.map(move |(name, shape)| (format!("blk.{at}.{name}"), shape.to_vec())).collect::<Shapes>()
    });
    let rest = [
        ("token_embd.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("output_norm.weight".to_owned(), vec![HIDDEN]),
        ("output.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
    ];
    layers.chain(rest).collect()
}

/// What most files say.
fn numbers() -> Vec<(&'static str, f32)> {
    vec![
        ("block_count", LAYERS as f32),
        ("embedding_length", HIDDEN as f32),
        ("feed_forward_length", FEED_FORWARD as f32),
        ("context_length", 64.0),
        ("attention.head_count", HEADS as f32),
        ("attention.head_count_kv", KEY_HEADS as f32),
        ("attention.key_length", HEAD as f32),
        ("attention.value_length", HEAD as f32),
        ("attention.sliding_window", 16.0),
        ("rope.dimension_count", HEAD as f32),
        ("attention.layer_norm_rms_epsilon", 1e-5),
        ("attention.layer_norm_epsilon", 1e-5),
    ]
}

/// A model of such a file: `$of`'s `ModelWeights` by its `from_gguf`, whose further arguments follow.
macro_rules! gguf {
    ($name:literal, $architecture:literal, $own:expr, |$content:ident, $file:ident, $setup:ident| $load:expr) => {
        Model {
            name: $name,
            ways: Ways::Gguf,
            run: |$setup: &Setup| -> Result<Vec<Tensor>> {
                let mut $file = file($setup, $architecture, &numbers(), &shapes($own))?;
                let $content = gguf_file::Content::read(&mut $file)?;
                let mut model = $load?;
                $setup.text(|tokens, place| model.forward(tokens, place))
            },
        }
    };
}

pub(super) const MODELS: &[Model] = &[
    gguf!("quantized_llama", "llama", &[], |content, file, setup| {
        of::quantized_llama::ModelWeights::from_gguf(content, &mut file, &setup.device)
    }),
    gguf!(
        "quantized_qwen2",
        "qwen2",
        &[("attn_q.bias", &[HIDDEN]), ("attn_k.bias", &[KEY_HEADS * HEAD]), ("attn_v.bias", &[KEY_HEADS * HEAD])],
        |content, file, setup| of::quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &setup.device)
    ),
    gguf!(
        "quantized_qwen3",
        "qwen3",
        &[("attn_q_norm.weight", &[HEAD]), ("attn_k_norm.weight", &[HEAD])],
        |content, file, setup| of::quantized_qwen3::ModelWeights::from_gguf(content, &mut file, &setup.device)
    ),
    gguf!(
        "quantized_phi3",
        "phi3",
        &[
            ("attn_qkv.weight", &[HIDDEN + 2 * KEY_HEADS * HEAD, HIDDEN]),
            ("ffn_up.weight", &[2 * FEED_FORWARD, HIDDEN])
        ],
        |content, file, setup| of::quantized_phi3::ModelWeights::from_gguf(false, content, &mut file, &setup.device)
    ),
    gguf!(
        "quantized_gemma3",
        "gemma3",
        &[
            ("attn_q_norm.weight", &[HEAD]),
            ("attn_k_norm.weight", &[HEAD]),
            ("post_attention_norm.weight", &[HIDDEN]),
            ("post_ffw_norm.weight", &[HIDDEN])
        ],
        |content, file, setup| of::quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &setup.device)
    ),
];
