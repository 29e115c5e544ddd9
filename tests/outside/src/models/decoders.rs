//! Models that write text: a prompt, then tokens one by one with what was kept of those before.

use candle_core::Tensor;
use candle_transformers::models as of;
use serde_json::json;

use super::{Model, Ways};

/// A model whose `new` takes a configuration and weights, whose `forward` tokens and their place.
macro_rules! usual {
    ($name:literal, $ways:expr, $model:ty, $own:tt) => {
        Model {
            name: $name,
            ways: $ways,
            run: |setup| {
                let mut model = <$model>::new(&setup.config(json!($own))?, setup.weights())?;
                setup.text(|tokens, place| model.forward(tokens, place))
            },
        }
    };
}

/// One whose `new` takes whether to attend by flash attention.
macro_rules! flash_first {
    ($name:literal, $ways:expr, $model:ty, $own:tt) => {
        Model {
            name: $name,
            ways: $ways,
            run: |setup| {
                let mut model = <$model>::new(setup.flash, &setup.config(json!($own))?, setup.weights())?;
                setup.text(|tokens, place| model.forward(tokens, place))
            },
        }
    };
}

pub(super) const MODELS: &[Model] = &[
    flash_first!("gemma", Ways::Flash, of::gemma::Model, { "hidden_act": "gelu" }),
    // Its way by flash attention leaves out the cap of the scores.
    flash_first!("gemma2", Ways::Plain, of::gemma2::Model, {
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0, "sliding_window": 4
    }),
    flash_first!("gemma2 uncapped", Ways::Flash, of::gemma2::Model, {
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": null, "sliding_window": 64
    }),
    // With more heads of keys it hands its cache values that are not contiguous, which that refuses.
    flash_first!("gemma3", Ways::Flash, of::gemma3::Model, {
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "sliding_window": 64, "num_key_value_heads": 1,
        "sliding_window_pattern": 2, "rope_local_base_freq": 10000.0
    }),
    usual!("gemma4", Ways::Plain, of::gemma4::text::TextModel, {
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "sliding_window": 64,
        "final_logit_softcapping": 30.0, "global_head_dim": 32, "layer_types": ["sliding_attention", "full_attention"]
    }),
    usual!("helium", Ways::Flash, of::helium::Model, {}),
    usual!("mistral", Ways::Flash, of::mistral::Model, {}),
    usual!("mixtral", Ways::Flash, of::mixtral::Model, {
        "sliding_window": 4096, "num_experts_per_tok": 2, "num_local_experts": 4
    }),
    usual!("olmo", Ways::Plain, of::olmo::Model, { "clip_qkv": 8.0 }),
    usual!("olmo2", Ways::Plain, of::olmo2::Model, {}),
    usual!("phi3", Ways::Plain, of::phi3::Model, { "partial_rotary_factor": null }),
    usual!("qwen2", Ways::Plain, of::qwen2::ModelForCausalLM, { "sliding_window": 4096 }),
    usual!("qwen2_moe", Ways::Plain, of::qwen2_moe::Model, {
        "sliding_window": 4096, "decoder_sparse_step": 1, "moe_intermediate_size": 32, "num_experts": 4,
        "shared_expert_intermediate_size": 64, "num_experts_per_tok": 2, "norm_topk_prob": true
    }),
    usual!("qwen3", Ways::Plain, of::qwen3::ModelForCausalLM, {}),
    usual!("qwen3_moe", Ways::Plain, of::qwen3_moe::ModelForCausalLM, {
        "decoder_sparse_step": 1, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2,
        "norm_topk_prob": true
    }),
    usual!("smollm3", Ways::Plain, of::smol::smollm3::ModelForCausalLM, { "no_rope_layer_interval": 2 }),
    usual!("stable_lm", Ways::Flash, of::stable_lm::Model, {}),
    usual!("starcoder2", Ways::Plain, of::starcoder2::Model, {}),
    usual!("glm4_new", Ways::Plain, of::glm4_new::ModelForCausalLM, {}),
    usual!("based", Ways::Plain, of::based::Model, {
        "n_embd": 64, "n_inner": 128, "n_layer": 3, "n_head": 4, "rotary_emb_base": 10000.0,
        "alt_mixer_layers": [1], "alt_mixer_2_layers": [2],
        "alt_mixer": { "num_heads": 4, "feature_dim": 8, "feature_map": { "input_dim": 8 } },
        "alt_mixer_2": { "num_heads": 4, "window_size": 16 }
    }),
    usual!("deepseek2", Ways::Plain, of::deepseek2::DeepSeekV2, {
        "moe_intermediate_size": 32, "n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "first_k_dense_replace": 1, "q_lora_rank": 24, "qk_rope_head_dim": 8, "kv_lora_rank": 16, "v_head_dim": 16,
        "qk_nope_head_dim": 8, "n_group": 2, "topk_group": 1
    }),
    Model {
        name: "recurrent_gemma",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(recurrent_gemma())?;
            let mut model = of::recurrent_gemma::Model::new(&config, setup.weights())?;
            setup.text(|tokens, place| model.forward(tokens, place))
        },
    },
    Model {
        name: "phi",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({ "hidden_act": "gelu", "qk_layernorm": false }))?;
            let mut model = of::phi::Model::new(&config, setup.weights())?;
            setup.text(|tokens, _| model.forward(tokens))
        },
    },
    Model {
        name: "falcon",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({
                "hidden_dropout": 0.0, "attention_dropout": 0.0, "alibi": false, "new_decoder_architecture": false,
                "multi_query": true, "parallel_attn": true, "bias": false
            }))?;
            let mut model = of::falcon::Falcon::load(setup.weights(), config)?;
            setup.text(|tokens, _| model.forward(tokens))
        },
    },
    Model {
        name: "mixformer",
        ways: Ways::Plain,
        run: |setup| {
            let mut model =
                of::mixformer::MixFormerSequentialForCausalLM::new(&setup.config(mixformer())?, setup.weights())?;
            setup.text(|tokens, _| model.forward(tokens))
        },
    },
    Model {
        name: "chatglm",
        ways: Ways::Plain,
        run: |setup| {
            let config = of::chatglm::Config {
                num_layers: 2,
                padded_vocab_size: 96,
                hidden_size: 64,
                ffn_hidden_size: 96,
                kv_channels: 16,
                num_attention_heads: 4,
                seq_length: 64,
                ..of::chatglm::Config::glm3_6b()
            };
            let mut model = of::chatglm::Model::new(&config, setup.weights())?;
            setup.text(|tokens, _| model.forward(tokens))
        },
    },
    Model {
        name: "codegeex4",
        ways: Ways::Plain,
        run: |setup| {
            let mut model = of::codegeex4_9b::Model::new(&setup.config(glm())?, setup.weights())?;
            setup.text(|tokens, _| model.forward(tokens))
        },
    },
    Model {
        name: "granitemoehybrid",
        ways: Ways::Flash,
        run: |setup| {
            let config: of::granitemoehybrid::GraniteMoeHybridConfig = setup.config(json!({
                "attention_multiplier": 0.25, "embedding_multiplier": 2.0, "residual_multiplier": 0.5, "logits_scaling": 3.0,
                "shared_intermediate_size": 48
            }))?;
            let config = config.into_config(setup.flash);
            let model = of::granitemoehybrid::GraniteMoeHybrid::load(setup.weights(), &config)?;
            let mut cache =
                of::granitemoehybrid::GraniteMoeHybridCache::new(true, setup.dtype(), &config, &setup.device)?;
            setup.text(|tokens, place| model.forward(tokens, place, &mut cache))
        },
    },
    Model {
        name: "lfm2",
        ways: Ways::Flash,
        run: |setup| {
            let config: of::lfm2::Lfm2Config = setup.config(json!({
                "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "block_multiple_of": 32
            }))?;
            let config = config.into_config(setup.flash);
            let model = of::lfm2::Model::new(&config, setup.weights())?;
            let mut cache = of::lfm2::Cache::new(true, setup.dtype(), &config, &setup.device)?;
            setup.text(|tokens, place| model.forward(tokens, place, &mut cache))
        },
    },
    Model {
        name: "bigcode",
        ways: Ways::Plain,
        run: |setup| {
            let config = of::bigcode::Config {
                vocab_size: 96,
                max_position_embeddings: 64,
                num_hidden_layers: 2,
                hidden_size: 64,
                layer_norm_epsilon: 1e-5,
                n_inner: Some(96),
                num_attention_heads: 4,
                multi_query: true,
                use_cache: true,
            };
            let mut model = of::bigcode::GPTBigCode::load(setup.weights(), config)?;
            setup.text(|tokens, place| model.forward(tokens, place))
        },
    },
    Model {
        name: "glm4",
        ways: Ways::Plain,
        run: |setup| {
            let mut model = of::glm4::Model::new(&setup.config(glm())?, setup.weights())?;
            setup.text(|tokens, _| model.forward(tokens))
        },
    },
    Model {
        name: "llama",
        ways: Ways::Flash,
        run: |setup| {
            let config: of::llama::LlamaConfig = setup.config(json!({}))?;
            let config = config.into_config(setup.flash);
            let model = of::llama::Llama::load(setup.weights(), &config)?;
            let mut cache = of::llama::Cache::new(true, setup.dtype(), &config, &setup.device)?;
            setup.text(|tokens, place| model.forward(tokens, place, &mut cache))
        },
    },
    Model {
        name: "granite",
        ways: Ways::Flash,
        run: |setup| {
            let config: of::granite::GraniteConfig = setup.config(json!({}))?;
            let config = config.into_config(setup.flash);
            let model = of::granite::Granite::load(setup.weights(), &config)?;
            let mut cache = of::granite::Cache::new(true, setup.dtype(), &config, &setup.device)?;
            setup.text(|tokens, place| model.forward(tokens, place, &mut cache))
        },
    },
    Model {
        name: "llama2_c",
        ways: Ways::Plain,
        run: |setup| {
            let config = llama2_c();
            let model = of::llama2_c::Llama::load(setup.weights(), config.clone())?;
            let mut cache = of::llama2_c::Cache::new(true, &config, setup.weights().pp("rot"))?;
            setup.text(|tokens, place| model.forward(tokens, place, &mut cache))
        },
    },
    Model {
        name: "mamba",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({ "d_model": 64, "n_layer": 2, "pad_vocab_size_multiple": 8 }))?;
            let model = of::mamba::Model::new(&config, setup.weights())?;
            let mut state = of::mamba::State::new(1, &config, setup.dtype(), &setup.device)?;
            let step = |place| model.forward(&setup.tokens(place, 1)?.flatten_all()?, &mut state);
            (0..6).map(step).collect()
        },
    },
    Model {
        name: "mamba2",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({ "pad_vocab_size_multiple": 8, "state_size": 16 }))?;
            let model = of::mamba2::Model::new(&config, setup.weights())?;
            let mut state = of::mamba2::State::new(1, &config, setup.dtype(), &setup.device)?;
            let prompt = model.forward_prefill(&setup.tokens(0, 8)?, &mut state, 4)?;
            let step = |place| model.forward(&setup.tokens(place, 1)?.flatten_all()?, &mut state);
            std::iter::once(Ok(prompt)).chain((8..11).map(step)).collect()
        },
    },
    Model {
        name: "rwkv_v5",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(rwkv())?;
            let model = of::rwkv_v5::Model::new(&config, setup.weights())?;
            let mut state = of::rwkv_v5::State::new(1, &config, &setup.device)?;
            (0..6).map(|place| model.forward(&setup.tokens(place, 1)?, &mut state)).collect()
        },
    },
    Model {
        name: "rwkv_v6",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(rwkv())?;
            let model = of::rwkv_v6::Model::new(&config, setup.weights())?;
            let mut state = of::rwkv_v6::State::new(1, &config, &setup.device)?;
            (0..6).map(|place| model.forward(&setup.tokens(place, 1)?, &mut state)).collect()
        },
    },
    Model {
        name: "t5",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(t5())?;
            let mut model = of::t5::T5ForConditionalGeneration::load(setup.weights(), &config)?;
            let read = model.encode(&setup.sentence()?)?;
            let step = |place| model.decode(&setup.tokens(place, 1)?, &read);
            let written: Vec<Tensor> = (0..4).map(step).collect::<Result<_, _>>()?;
            Ok(std::iter::once(read.clone()).chain(written).collect())
        },
    },
    Model {
        name: "marian",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({
                "encoder_layers": 2, "encoder_ffn_dim": 96, "encoder_attention_heads": 4, "decoder_layers": 2,
                "decoder_ffn_dim": 96, "decoder_attention_heads": 4, "is_encoder_decoder": true,
                "activation_function": "silu", "d_model": 64, "decoder_start_token_id": 0, "scale_embedding": true,
                "forced_eos_token_id": 1, "share_encoder_decoder_embeddings": true
            }))?;
            let mut model = of::marian::MTModel::new(&config, setup.weights())?;
            let read = model.encoder().forward(&setup.sentence()?, 0)?;
            let step = |place| model.decode(&setup.tokens(place, 1)?, &read, place);
            let written: Vec<Tensor> = (0..4).map(step).collect::<Result<_, _>>()?;
            Ok(std::iter::once(read.clone()).chain(written).collect())
        },
    },
];

fn glm() -> serde_json::Value {
    json!({
        "num_layers": 2, "padded_vocab_size": 96, "ffn_hidden_size": 96, "kv_channels": 16, "seq_length": 64,
        "layernorm_epsilon": 1e-5, "rmsnorm": true, "apply_residual_connection_post_layernorm": false,
        "post_layer_norm": true, "add_bias_linear": false, "add_qkv_bias": true, "bias_dropout_fusion": true,
        "multi_query_attention": true, "multi_query_group_num": 2, "apply_query_key_layer_scaling": true,
        "attention_softmax_in_fp32": true, "fp32_residual_connection": false, "head_dim": null
    })
}

/// MixFormer's configuration.
pub(super) fn mixformer() -> serde_json::Value {
    json!({
        "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_inner": 128, "n_head": 4, "rotary_dim": 8,
        "activation_function": "gelu", "pad_vocab_size_multiple": 32
    })
}

/// That of the model in C.
pub(super) fn llama2_c() -> of::llama2_c::Config {
    of::llama2_c::Config {
        dim: 64,
        hidden_dim: 128,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        vocab_size: 96,
        seq_len: 32,
        norm_eps: 1e-5,
    }
}

/// RecurrentGemma's.
pub(super) fn recurrent_gemma() -> serde_json::Value {
    json!({
        "attention_window_size": 16, "conv1d_width": 4, "logits_soft_cap": 30.0, "num_hidden_layers": 3,
        "hidden_activation": "gelu_pytorch_tanh", "block_types": ["recurrent", "recurrent", "attention"],
        "intermediate_size": 128
    })
}

/// RWKV's.
pub(super) fn rwkv() -> serde_json::Value {
    json!({
        "attention_hidden_size": 64, "num_attention_heads": 16, "head_size": 16, "rescale_every": 6, "intermediate_size": 128
    })
}

/// T5's configuration.
pub(super) fn t5() -> serde_json::Value {
    json!({
        "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8,
        "dropout_rate": 0.0, "initializer_factor": 1.0, "feed_forward_proj": "gated-gelu", "is_encoder_decoder": true,
        "decoder_start_token_id": 0
    })
}
