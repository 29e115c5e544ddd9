//! The models by name, at sizes that an emulated card decodes in seconds.

use burn::backend::FlexDevice;
use burn::tensor::Device;
use rocfire_burn::RocmDevice;
use rocfire_candle::RopeScaling;

use crate::burn::{GptOss, GptOssConfig, PlainGptOss, PlainQwen3Next, Qwen3Next, Qwen3NextConfig};
use crate::candle::{Attends, Config, Decoder, Feeds, Mixture, PlainDecoder, Stored};
use crate::engine::{Limits, Model};
use crate::weights::Weights;
use crate::{Plain, Result};

/// Names of all models.
pub const NAMES: [&str; 6] = ["llama", "mixtral", "qwen3-moe", "deepseek-v3", "gpt-oss", "qwen3-next"];

/// The engine's extents: few, so that requests wait for seats, for rows and for pages.
pub const LIMITS: Limits = Limits { rows: 12, seats: 3, pages: 20, page: 4, pages_each: 8 };

/// A model, the same written plainly, and where the first is.
pub struct Served {
    /// On the device.
    pub model: Box<dyn Model>,
    /// On the CPU.
    pub plain: Box<dyn Plain>,
    /// The device, in words.
    pub device: String,
}

/// Builds a model of [`NAMES`] for an engine of these extents.
///
/// # Errors
/// Another name; a device that cannot be opened.
pub fn build(name: &str, limits: Limits) -> Result<Served> {
    let weights = Weights { seed: 42 };
    let rocm = RocmDevice::default();
    let (device, flex) = (Device::from(rocm), Device::from(FlexDevice));
    let (model, plain): (Box<dyn Model>, Box<dyn Plain>) = match name {
        "gpt-oss" => {
            let model = GptOss::new(GPT_OSS, weights, limits, &device)?;
            (Box::new(model), Box::new(PlainGptOss::new(GPT_OSS, weights, &flex)))
        }
        "qwen3-next" => {
            let model = Qwen3Next::new(QWEN3_NEXT, weights, limits, &device)?;
            (Box::new(model), Box::new(PlainQwen3Next::new(QWEN3_NEXT, weights, &flex)))
        }
        _ => return candle(decoder(name)?, weights, limits),
    };
    Ok(Served { model, plain, device: rocm.to_string() })
}

const GPT_OSS: GptOssConfig = GptOssConfig {
    vocabulary: 96,
    width: 64,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    depth: 16,
    window: 5,
    experts: 4,
    chosen: 2,
    hidden: 32,
};

const QWEN3_NEXT: Qwen3NextConfig = Qwen3NextConfig {
    vocabulary: 96,
    width: 64,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    depth: 16,
    turned: 8,
    key_heads: 2,
    value_heads: 4,
    channels: 16,
    experts: 6,
    chosen: 2,
    hidden: 32,
};

fn decoder(name: &str) -> Result<Config> {
    let llama = Config {
        vocabulary: 96,
        width: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        depth: 16,
        hidden: 96,
        attends: Attends::Grouped,
        feeds: Feeds::Dense,
        stored: Stored::Floats,
        scaling: RopeScaling::None,
    };
    let mixture = |experts, chosen| Mixture { experts, chosen };
    let feeds = |mixture, renormalises| Feeds::Experts { mixture, renormalises };
    Ok(match name {
        "llama" => llama,
        "mixtral" => Config { feeds: feeds(mixture(4, 2), true), ..llama },
        "qwen3-moe" => Config { attends: Attends::Normed, hidden: 32, feeds: feeds(mixture(8, 3), false), ..llama },
        "deepseek-v3" => Config {
            // Of most matrices more than one block, the last one smaller.
            width: 160,
            attends: Attends::Latent { query_rank: 136, rank: 32, turned: 8 },
            hidden: 144,
            stored: Stored::Blocks,
            // As in its `config.json`.
            scaling: RopeScaling::DeepSeekYarn {
                factor: 40.0,
                trained: 4096.0,
                fast: 32.0,
                slow: 1.0,
                mscale: 1.0,
                mscale_all_dim: 1.0,
            },
            feeds: Feeds::Grouped { mixture: mixture(16, 4), groups: 4, kept: 2, factor: 2.5 },
            ..llama
        },
        _ => return Err(format!("there is no {name}, but {}", NAMES.join(", ")).into()),
    })
}

fn candle(config: Config, weights: Weights, limits: Limits) -> Result<Served> {
    let found = rocfire_candle::device()?;
    Ok(Served {
        model: Box::new(Decoder::new(&config, weights, limits, &found.device)?),
        plain: Box::new(PlainDecoder::new(config, weights, &candle_core::Device::Cpu)),
        device: found.to_string(),
    })
}
