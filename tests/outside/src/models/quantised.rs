//! Models whose matrices are of GGUF's types: files written on the spot, read as a user's. What a file holds is written here
//! where the model has names of its own, and asked of the model of floats where it has the same ones.

use std::collections::HashMap;
use std::io::Cursor;

use candle_core::quantized::{gguf_file, GgmlDType, QTensor};
use candle_core::{Device, Error, Result, Shape, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models as of;
use candle_transformers::quantized_var_builder;
use serde_json::json;

use super::{decoders, images, Kind, Model, Ways};
use crate::setup::{Setup, VOCABULARY};
use crate::weights;

const LAYERS: usize = 2;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
/// What types with blocks of 32 need, and what those with blocks of 256 do.
const SMALL: usize = 64;
const LARGE: usize = 256;
const HEAD: usize = SMALL / HEADS;

/// Tensors of a file: names and shapes.
type Shapes = Vec<(String, Vec<usize>)>;

/// A file in memory: what its head says beside `architecture`'s name, and tensors, of which matrices are quantised if their
/// rows are whole blocks.
fn file(
    setup: &Setup,
    architecture: &str,
    numbers: Vec<(&str, gguf_file::Value)>,
    shapes: &Shapes,
) -> Result<Cursor<Vec<u8>>> {
    let Kind::Gguf(dtype) = setup.kind else { return Err(Error::Msg("weights of GGUF have a type of it".to_owned())) };
    let mut head =
        HashMap::from([("general.architecture".to_owned(), gguf_file::Value::String(architecture.to_owned()))]);
    head.extend(numbers.into_iter().map(|(name, value)| (format!("{architecture}.{name}"), value)));
    let tensor = |(name, shape): &(String, Vec<usize>)| {
        let whole = matches!(shape[..], [_, columns] if columns % dtype.block_size() == 0);
        let weight = weights::named(name, &Shape::from(shape.as_slice()), setup.draw)?;
        match setup.exact {
            _ if !whole => QTensor::quantize(&weight, GgmlDType::F32),
            None => QTensor::quantize(&weight, dtype),
            // The same numbers as floats, so that activations are not rounded to 8 bits.
            Some(_) => {
                let rounded = QTensor::quantize(&weight, dtype)?.dequantize(&Device::Cpu)?;
                QTensor::quantize(&rounded, GgmlDType::F32)
            }
        }
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
fn shapes(hidden: usize, own: &[(&str, &[usize])]) -> Shapes {
    let (keys, inner) = (KEY_HEADS * hidden / HEADS, 2 * hidden);
    let layer: [(&str, &[usize]); 9] = [
        ("attn_q.weight", &[hidden, hidden]),
        ("attn_k.weight", &[keys, hidden]),
        ("attn_v.weight", &[keys, hidden]),
        ("attn_output.weight", &[hidden, hidden]),
        ("ffn_gate.weight", &[inner, hidden]),
        ("ffn_up.weight", &[inner, hidden]),
        ("ffn_down.weight", &[hidden, inner]),
        ("attn_norm.weight", &[hidden]),
        ("ffn_norm.weight", &[hidden]),
    ];
    let layers = (0..LAYERS).flat_map(|at| {
        let own = own.iter().chain(layer.iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name)));
        own.map(move |(name, shape)| (format!("blk.{at}.{name}"), shape.to_vec())).collect::<Shapes>()
    });
    let rest = [
        ("token_embd.weight".to_owned(), vec![VOCABULARY, hidden]),
        ("output_norm.weight".to_owned(), vec![hidden]),
        ("output_norm.bias".to_owned(), vec![hidden]),
        ("output.weight".to_owned(), vec![VOCABULARY, hidden]),
        ("output.bias".to_owned(), vec![VOCABULARY]),
    ];
    layers.chain(rest).collect()
}

/// What most files say.
fn numbers(hidden: usize) -> Vec<(&'static str, gguf_file::Value)> {
    let whole = [
        ("block_count", LAYERS),
        ("embedding_length", hidden),
        ("feed_forward_length", 2 * hidden),
        ("context_length", 64),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KEY_HEADS),
        ("attention.key_length", hidden / HEADS),
        ("attention.value_length", hidden / HEADS),
        ("attention.sliding_window", 64),
        ("rope.dimension_count", hidden / HEADS),
        ("shortconv.l_cache", 3),
    ];
    let floats = [
        ("rope.freq_base", 10000.0),
        ("attention.layer_norm_rms_epsilon", 1e-5),
        ("attention.layer_norm_epsilon", 1e-5),
    ];
    let whole = whole.into_iter().map(|(name, value)| (name, gguf_file::Value::U32(value as u32)));
    whole.chain(floats.into_iter().map(|(name, value)| (name, gguf_file::Value::F32(value)))).collect()
}

/// Weights of GGUF by the names that a model of floats asks for.
fn same_names(
    setup: &Setup,
    load: impl FnOnce(VarBuilder<'static>) -> Result<()>,
) -> Result<quantized_var_builder::VarBuilder> {
    let file = file(setup, "any", Vec::new(), &weights::asked(load)?)?;
    quantized_var_builder::VarBuilder::from_gguf_buffer(file.get_ref(), &setup.device)
}

/// A model of such a file: `$of`'s `ModelWeights` by its `from_gguf`, whose further arguments follow.
macro_rules! gguf {
    ($name:literal, $architecture:literal, $own:expr, |$content:ident, $file:ident, $setup:ident| $load:expr) => {
        gguf!($name, Ways::Gguf, SMALL, $architecture, $own, |$content, $file, $setup| $load)
    };
    ($name:literal, $ways:expr, $hidden:expr, $architecture:literal, $own:expr,
     |$content:ident, $file:ident, $setup:ident| $load:expr) => {
        Model {
            name: $name,
            ways: $ways,
            run: |$setup: &Setup| -> Result<Vec<Tensor>> {
                let mut $file = file($setup, $architecture, numbers($hidden), &shapes($hidden, $own))?;
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
    gguf!("quantized_llama large", Ways::GgufLarge, LARGE, "llama", &[], |content, file, setup| {
        of::quantized_llama::ModelWeights::from_gguf(content, &mut file, &setup.device)
    }),
    gguf!(
        "quantized_qwen2",
        "qwen2",
        &[("attn_q.bias", &[SMALL]), ("attn_k.bias", &[KEY_HEADS * HEAD]), ("attn_v.bias", &[KEY_HEADS * HEAD])],
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
        &[("attn_qkv.weight", &[SMALL + 2 * KEY_HEADS * HEAD, SMALL]), ("ffn_up.weight", &[4 * SMALL, SMALL])],
        |content, file, setup| of::quantized_phi3::ModelWeights::from_gguf(false, content, &mut file, &setup.device)
    ),
    gguf!(
        "quantized_gemma3",
        "gemma3",
        &[
            ("attn_q_norm.weight", &[HEAD]),
            ("attn_k_norm.weight", &[HEAD]),
            ("post_attention_norm.weight", &[SMALL]),
            ("post_ffw_norm.weight", &[SMALL])
        ],
        |content, file, setup| of::quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &setup.device)
    ),
    row("quantized_phi", |setup| {
        let own: &[(&str, &[usize])] = &[
            ("attn_qkv.weight", &[3 * SMALL, SMALL]),
            ("attn_qkv.bias", &[3 * SMALL]),
            ("attn_output.bias", &[SMALL]),
            ("attn_norm.bias", &[SMALL]),
            ("ffn_up.bias", &[2 * SMALL]),
            ("ffn_down.bias", &[SMALL]),
        ];
        let mut numbers = numbers(SMALL);
        // The last one of a name counts.
        numbers.push(("attention.head_count_kv", gguf_file::Value::U32(HEADS as u32)));
        let mut file = file(setup, "phi2", numbers, &shapes(SMALL, own))?;
        let content = gguf_file::Content::read(&mut file)?;
        let mut model = of::quantized_phi::ModelWeights::from_gguf(content, &mut file, &setup.device)?;
        setup.text(|tokens, place| model.forward(tokens, place))
    }),
    gguf!(
        "quantized_glm4",
        "glm4",
        &[
            ("ffn_up.weight", &[4 * SMALL, SMALL]),
            ("post_attention_norm.weight", &[SMALL]),
            ("post_ffw_norm.weight", &[SMALL])
        ],
        |content, file, setup| {
            of::quantized_glm4::ModelWeights::from_gguf(content, &mut file, &setup.device, candle_core::DType::F32)
        }
    ),
    gguf!(
        "quantized_lfm2",
        "lfm2",
        &[("attn_q_norm.weight", &[HEAD]), ("attn_k_norm.weight", &[HEAD])],
        |content, file, setup| of::quantized_lfm2::ModelWeights::from_gguf(content, &mut file, &setup.device)
    ),
    row("quantized_mistral", |setup| {
        let config = setup.config(json!({ "intermediate_size": 128 }))?;
        let weights = same_names(setup, |names| of::mistral::Model::new(&config, names).map(drop))?;
        let mut model = of::quantized_mistral::Model::new(&config, weights)?;
        setup.text(|tokens, place| model.forward(tokens, place))
    }),
    row("quantized_stable_lm", |setup| {
        let config = setup.config(json!({ "intermediate_size": 128 }))?;
        let weights = same_names(setup, |names| of::stable_lm::Model::new(&config, names).map(drop))?;
        let mut model = of::quantized_stable_lm::Model::new(&config, weights)?;
        setup.text(|tokens, place| model.forward(tokens, place))
    }),
    row("quantized_mixformer", |setup| {
        use of::mixformer::MixFormerSequentialForCausalLM as OfFloats;
        let config = setup.config(decoders::mixformer())?;
        let weights = same_names(setup, |names| OfFloats::new(&config, names).map(drop))?;
        let mut model = of::quantized_mixformer::MixFormerSequentialForCausalLM::new(&config, weights)?;
        setup.text(|tokens, _| model.forward(tokens))
    }),
    row("quantized_llama2_c", |setup| {
        let config = decoders::llama2_c();
        let weights = same_names(setup, |names| of::llama2_c::Llama::load(names, config.clone()).map(drop))?;
        let model = of::quantized_llama2_c::QLlama::load(weights, config.clone())?;
        let mut cache = of::llama2_c::Cache::new(true, &config, setup.weights().pp("rot"))?;
        setup.text(|tokens, place| model.forward(tokens, place, &mut cache))
    }),
    row("quantized_recurrent_gemma", |setup| {
        let config = setup.config(decoders::recurrent_gemma())?;
        let weights = same_names(setup, |names| of::recurrent_gemma::Model::new(&config, names).map(drop))?;
        let mut model = of::quantized_recurrent_gemma::Model::new(&config, weights)?;
        setup.text(|tokens, place| model.forward(tokens, place))
    }),
    row("quantized_rwkv_v5", |setup| {
        let config = setup.config(decoders::rwkv())?;
        let weights = same_names(setup, |names| of::rwkv_v5::Model::new(&config, names).map(drop))?;
        let model = of::quantized_rwkv_v5::Model::new(&config, weights)?;
        let mut state = of::rwkv_v5::State::new(1, &config, &setup.device)?;
        (0..6).map(|place| model.forward(&setup.tokens(place, 1)?, &mut state)).collect()
    }),
    row("quantized_rwkv_v6", |setup| {
        let config = setup.config(decoders::rwkv())?;
        let weights = same_names(setup, |names| of::rwkv_v6::Model::new(&config, names).map(drop))?;
        let model = of::quantized_rwkv_v6::Model::new(&config, weights)?;
        let mut state = of::rwkv_v5::State::new(1, &config, &setup.device)?;
        (0..6).map(|place| model.forward(&setup.tokens(place, 1)?, &mut state)).collect()
    }),
    row("quantized_t5", |setup| {
        let config = setup.config(decoders::t5())?;
        let of_floats = setup.config(decoders::t5())?;
        let weights = same_names(setup, |names| of::t5::T5ForConditionalGeneration::load(names, &of_floats).map(drop))?;
        let mut model = of::quantized_t5::T5ForConditionalGeneration::load(weights, &config)?;
        let read = model.encode(&setup.sentence()?)?;
        let step = |place| model.decode(&setup.tokens(place, 1)?, &read);
        let written: Vec<Tensor> = (0..4).map(step).collect::<Result<_>>()?;
        Ok(std::iter::once(read.clone()).chain(written).collect())
    }),
    row("quantized_blip", |setup| {
        let config = setup.config(images::blip())?;
        let weights = same_names(setup, |names| of::blip::BlipForConditionalGeneration::new(&config, names).map(drop))?;
        let mut model = of::quantized_blip::BlipForConditionalGeneration::new(&config, weights)?;
        let seen = setup.numbers(&[1, 3, 32, 32])?.apply(model.vision_model())?;
        let read = setup.text(|tokens, _| model.text_decoder().forward(tokens, &seen))?;
        Ok(std::iter::once(seen.clone()).chain(read).collect())
    }),
];

const fn row(name: &'static str, run: fn(&Setup) -> Result<Vec<Tensor>>) -> Model {
    Model { name, ways: Ways::Gguf, run }
}
