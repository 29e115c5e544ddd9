//! The same computation gives the same bits, and takes as many launches, whatever was done before it in the process, and in
//! another process.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::{Init, VarBuilder, var_builder::SimpleBackend};
use candle_transformers::models::{bert, deepseek2, llama, qwen2_moe};
use serde_json::json;

/// Weights that follow from their names.
struct Weights;

impl SimpleBackend for Weights {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        let is_norm = name.contains("norm") || name.contains("LayerNorm");
        let (middle, spread) = match shape.dims() {
            [_, inputs] => (0.0, (3.0 / *inputs as f64).sqrt()),
            _ if is_norm && name.ends_with("weight") => (1.0, 0.1),
            _ => (0.0, 0.1),
        };
        let mut state = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let values: Vec<f32> =
            (0..shape.elem_count()).map(|_| (middle + spread * (2.0 * draw() - 1.0)) as f32).collect();
        Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("{name}: its shape must be said")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

const IDS: [u32; 9] = [3, 1, 4, 1, 5, 9, 2, 6, 5];

/// Logits of a prompt, and of the next token.
type Run = Box<dyn FnMut() -> Result<Vec<Tensor>>>;

/// A model by its name: what runs it once.
fn model(name: &str, dtype: DType, device: &Device) -> Result<Run> {
    let weights = VarBuilder::from_backend(Box::new(Weights), dtype, device.clone());
    let ids = Tensor::new(&IDS, device)?.unsqueeze(0)?;
    let next = Tensor::new(&[[7_u32]], device)?;
    Ok(match name {
        "llama" => {
            let config = json!({
                "hidden_size": 64, "intermediate_size": 96, "vocab_size": 40, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                "max_position_embeddings": 64,
            });
            let config = serde_json::from_value::<llama::LlamaConfig>(config).unwrap().into_config(false);
            let (model, device) = (llama::Llama::load(weights, &config)?, device.clone());
            Box::new(move || {
                let mut cache = llama::Cache::new(true, dtype, &config, &device)?;
                Ok(vec![model.forward(&ids, 0, &mut cache)?, model.forward(&next, IDS.len(), &mut cache)?])
            })
        }
        "bert" => {
            let config = json!({
                "vocab_size": 40, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                "intermediate_size": 80, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
                "max_position_embeddings": 64, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
                "pad_token_id": 0, "model_type": "bert",
            });
            let model = bert::BertModel::load(weights, &serde_json::from_value(config).unwrap())?;
            Box::new(move || {
                let types = ids.zeros_like()?;
                Ok(vec![model.forward(&ids, &types, None)?, model.forward(&next, &next.zeros_like()?, None)?])
            })
        }
        "qwen2_moe" => {
            let config = json!({
                "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 64,
                "max_window_layers": 2, "tie_word_embeddings": false, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
                "use_sliding_window": false, "hidden_act": "silu", "decoder_sparse_step": 1,
                "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "num_experts_per_tok": 2,
                "num_experts": 4, "norm_topk_prob": true,
            });
            let mut model = qwen2_moe::Model::new(&serde_json::from_value(config).unwrap(), weights)?;
            Box::new(move || {
                model.clear_kv_cache();
                Ok(vec![model.forward(&ids, 0)?, model.forward(&next, IDS.len())?])
            })
        }
        "deepseek2" => {
            let config = json!({
                "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32,
                "num_hidden_layers": 2, "num_attention_heads": 4, "n_shared_experts": 1, "n_routed_experts": 4,
                "num_experts_per_tok": 2, "first_k_dense_replace": 1, "max_position_embeddings": 64,
                "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_bias": false, "q_lora_rank": 24,
                "qk_rope_head_dim": 8, "kv_lora_rank": 16, "v_head_dim": 16, "qk_nope_head_dim": 16, "n_group": 1,
                "topk_group": 1,
            });
            let config: deepseek2::DeepSeekV2Config = serde_json::from_value(config).unwrap();
            let mut model = deepseek2::DeepSeekV2::new(&config, weights)?;
            Box::new(move || {
                model.clear_kv_cache();
                Ok(vec![model.forward(&ids, 0)?, model.forward(&next, IDS.len())?])
            })
        }
        _ => candle_core::bail!("no model {name}"),
    })
}

/// All bits of what a run gives.
fn bits(run: &mut Run) -> Result<Vec<u32>> {
    let host = |tensor: Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
    let all = run()?.into_iter().map(host).collect::<Result<Vec<_>>>()?.concat();
    assert!(all.iter().all(|number| number.is_finite()), "{all:?}");
    Ok(all.into_iter().map(f32::to_bits).collect())
}

/// Launches that wait when a computation begins: from none to more than ever wait.
const WAITING: [usize; 8] = [0, 1, 3, 7, 13, 22, 41, 90];
/// A chain gets its kernel when it has come three times.
const SETTLES_AFTER: usize = 3;

/// Runs a model often, in a different state each time; gives its bits, and how many launches it takes in the end.
fn repeated(name: &str, dtype: DType, device: &Device, times: usize) -> Result<(Vec<u32>, u64)> {
    let mut run = model(name, dtype, device)?;
    let opened = device.as_cuda_device()?.cuda_stream().context().device().clone();
    let (mut first, mut launches, mut held) = (None, None, Vec::new());
    for (number, waiting) in WAITING.into_iter().enumerate().take(times) {
        // The pool is full of holes, empty, or as it is.
        match number % 3 {
            0 => held.extend((0..9).map(|size| Tensor::zeros(1 + 700 * size, DType::F32, device))),
            1 => {
                let mut at = 0;
                held.retain(|_| {
                    at += 1;
                    at % 2 == 0
                });
            }
            _ => opened.trim_memory().map_err(candle_core::Error::wrap)?,
        }
        let other = Tensor::zeros(33, DType::F32, device)?;
        let mut last = other.clone();
        for at in 0..waiting {
            last = if at % 4 == 3 { last.sum_keepdim(0)?.broadcast_add(&other)? } else { (last * 0.5)? };
        }
        let got = bits(&mut run)?;
        assert_eq!(&got, first.get_or_insert_with(|| got.clone()), "{name} in {dtype:?}, run {number}: bits");
        if number >= SETTLES_AFTER {
            let before = rocfire_candle::launches(device)?;
            assert_eq!(&bits(&mut run)?, &got, "{name} in {dtype:?}, run {number} once more: bits");
            let took = rocfire_candle::launches(device)? - before;
            assert_eq!(took, *launches.get_or_insert(took), "{name} in {dtype:?}, run {number}: launches");
        }
    }
    Ok((first.unwrap_or_default(), launches.unwrap_or_default()))
}

const MODELS: [&str; 4] = ["llama", "bert", "qwen2_moe", "deepseek2"];

#[test]
fn models_give_the_same_bits_each_time() {
    const TEST: &str = "models_give_the_same_bits_each_time";
    const CHILD: &str = "TEST_IN_ANOTHER_PROCESS";
    let is_child = std::env::var_os(CHILD).is_some();
    // A device of its own, since launches are counted.
    let device = Device::new_cuda(1).unwrap();
    let times = if is_child { SETTLES_AFTER + 1 } else { WAITING.len() };
    let kinds = MODELS.into_iter().flat_map(|name| [DType::F32, DType::BF16].map(|dtype| (name, dtype)));
    // Candle's BERT multiplies its mask with the least f32, which 16 bits do not have.
    let all: Vec<String> = kinds
        .filter(|&kind| kind != ("bert", DType::BF16))
        .map(|(name, dtype)| {
            let (bits, launches) = repeated(name, dtype, &device, times).unwrap();
            format!("model {name} {dtype:?} {launches} {bits:x?}")
        })
        .collect();
    if is_child {
        all.iter().for_each(|line| println!("\n{line}"));
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args([TEST, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let other: Vec<&str> = said.lines().filter(|line| line.starts_with("model ")).collect();
    assert_eq!(other, all, "in another process");
}

#[test]
fn joined_or_not_models_give_the_same_bits() {
    const TEST: &str = "joined_or_not_models_give_the_same_bits";
    const CHILD: &str = "TEST_WITHOUT_JOINS";
    let device = Device::new_cuda(2).unwrap();
    let once = |name| bits(&mut model(name, DType::F32, &device).unwrap()).unwrap();
    let all: Vec<String> = MODELS.into_iter().map(|name| format!("model {name} {:x?}", once(name))).collect();
    if std::env::var_os(CHILD).is_some() {
        all.iter().for_each(|line| println!("\n{line}"));
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child.args([TEST, "--exact", "--nocapture"]).env(CHILD, "1").env("ROCFIRE_FUSION", "0");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let other: Vec<&str> = said.lines().filter(|line| line.starts_with("model ")).collect();
    assert_eq!(other, all, "one by one");
}
