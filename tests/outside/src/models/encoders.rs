//! Models that read a text as a whole.

use candle_core::{DType, Result, Tensor};
use candle_nn::Module;
use candle_transformers::models as of;
use serde_json::json;

use super::{Model, Ways};
use crate::setup::Setup;

/// The tokens of a sentence, with which of two sentences each is of.
fn sentence(setup: &Setup) -> Result<(Tensor, Tensor)> {
    let tokens = setup.sentence()?;
    let types = tokens.zeros_like()?;
    Ok((tokens, types))
}

/// A mask that lets everything pass.
fn all(tokens: &Tensor, dtype: DType) -> Result<Tensor> {
    tokens.ones_like()?.to_dtype(dtype)
}

const fn row(name: &'static str, run: fn(&Setup) -> Result<Vec<Tensor>>) -> Model {
    Model { name, ways: Ways::Plain, run }
}

pub(super) const MODELS: &[Model] = &[
    row("bert", |setup| {
        let model = of::bert::BertModel::load(setup.weights(), &setup.config(json!({ "hidden_act": "gelu" }))?)?;
        let (tokens, types) = sentence(setup)?;
        Ok(vec![model.forward(&tokens, &types, None)?])
    }),
    row("distilbert", |setup| {
        let config = setup.config(json!({
            "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "activation": "gelu"
        }))?;
        let model = of::distilbert::DistilBertModel::load(setup.weights(), &config)?;
        let tokens = setup.sentence()?;
        let mask = Tensor::zeros((tokens.dim(1)?, tokens.dim(1)?), DType::U8, &setup.device)?;
        Ok(vec![model.forward(&tokens, &mask)?])
    }),
    row("xlm_roberta", |setup| {
        let config = setup.config(json!({ "hidden_act": "gelu" }))?;
        let model = of::xlm_roberta::XLMRobertaModel::new(&config, setup.weights())?;
        let (tokens, types) = sentence(setup)?;
        let mask = all(&tokens, setup.dtype())?;
        Ok(vec![model.forward(&tokens, &mask, &types, None, None, None)?])
    }),
    row("jina_bert", |setup| {
        let config = setup.config(json!({ "hidden_act": "gelu", "position_embedding_type": "alibi" }))?;
        let model = of::jina_bert::BertModel::new(setup.weights(), &config)?;
        Ok(vec![model.forward(&setup.sentence()?)?])
    }),
    row("modernbert", |setup| {
        let config = setup.config(json!({
            "global_attn_every_n_layers": 2, "global_rope_theta": 160000.0, "local_attention": 4,
            "local_rope_theta": 10000.0
        }))?;
        let model = of::modernbert::ModernBert::load(setup.weights(), &config)?;
        let tokens = setup.sentence()?;
        let mask = all(&tokens, DType::F32)?;
        Ok(vec![model.forward(&tokens, &mask)?])
    }),
    row("nomic_bert", |setup| {
        let config = setup.config(json!({
            "n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 96, "n_positions": 64, "rotary_emb_fraction": 1.0,
            "rotary_emb_base": 1000.0, "rotary_emb_interleaved": false, "qkv_proj_bias": false, "mlp_fc1_bias": false,
            "mlp_fc2_bias": false, "activation_function": "swiglu", "prenorm": false
        }))?;
        let model = of::nomic_bert::NomicBertModel::load(setup.weights(), &config)?;
        Ok(vec![model.forward(&setup.sentence()?, None, None)?])
    }),
    row("debertav2", |setup| {
        let config = setup.config(json!({
            "hidden_act": "gelu", "relative_attention": true, "position_buckets": 8, "max_relative_positions": -1,
            "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": false
        }))?;
        let model = of::debertav2::DebertaV2Model::load(setup.weights(), &config)?;
        Ok(vec![model.forward(&setup.sentence()?, None, None)?])
    }),
    row("t5 encoder", |setup| {
        let mut model = of::t5::T5EncoderModel::load(setup.weights(), &setup.config(super::decoders::t5())?)?;
        Ok(vec![model.forward(&setup.sentence()?)?])
    }),
    row("clip text", |setup| {
        let config = of::clip::text_model::ClipTextConfig {
            vocab_size: 96,
            embed_dim: 64,
            activation: of::clip::text_model::Activation::QuickGelu,
            intermediate_size: 96,
            max_position_embeddings: 64,
            pad_with: None,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            projection_dim: 32,
        };
        let model = of::clip::text_model::ClipTextTransformer::new(setup.weights(), &config)?;
        Ok(vec![model.forward(&setup.sentence()?)?])
    }),
    row("siglip text", |setup| {
        let config = setup.config(json!({ "hidden_act": "gelu_pytorch_tanh" }))?;
        let model = of::siglip::TextModel::new(&config, setup.weights())?;
        Ok(vec![model.forward(&setup.sentence()?)?])
    }),
];
