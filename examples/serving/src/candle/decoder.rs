//! A decoder: Llama, Mixtral, Qwen3-MoE and DeepSeek-V3 by what its layers are made of.

use candle_core::{Error, Result, Tensor};
use rocfire_candle::{RopeFrequencies, RopeScaling, add_rms_norm, rms_norm, rope_tables};

use super::Source;
use super::attention::Attention;
use super::batch::{Batch, choose};
use super::feed_forward::FeedForward;
use super::latent::Latent;
use super::matrices::Stored;
use crate::engine::{Limits, Model, Output, Step};

/// Under the root of every norm.
pub(crate) const EPSILON: f64 = 1e-6;
/// By which places turn.
pub(crate) const ROPE_BASE: f64 = 10_000.0;

/// How layers attend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attends {
    /// Heads of queries share heads of keys.
    Grouped,
    /// The same with a norm of each head's queries and keys: Qwen3's.
    Normed,
    /// Keys and values of all heads are made of one latent row of a token: DeepSeek's. `depth` are the channels that
    /// do not turn, and those of a head's values.
    Latent {
        /// Channels of the latent row of a query.
        query_rank: usize,
        /// Channels of the latent row.
        rank: usize,
        /// Channels that turn, one key of them for all heads.
        turned: usize,
    },
}

/// How many experts there are, and how many a token has.
#[derive(Clone, Copy, Debug)]
pub struct Mixture {
    /// All.
    pub experts: usize,
    /// Of a token.
    pub chosen: usize,
}

/// What follows attention.
#[derive(Clone, Copy, Debug)]
pub enum Feeds {
    /// A gated block.
    Dense,
    /// Experts by softmax: Mixtral's and Qwen3's.
    Experts {
        /// How many.
        mixture: Mixture,
        /// Whether shares are divided by their sum.
        renormalises: bool,
    },
    /// Experts by sigmoid with a bias, of the best groups, beside a block for every token: DeepSeek-V3's.
    Grouped {
        /// How many.
        mixture: Mixture,
        /// Groups.
        groups: usize,
        /// Of which so many are kept.
        kept: usize,
        /// What shares are multiplied by.
        factor: f64,
    },
}

/// A model's sizes and parts.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Channels of a token.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Channels of a head.
    pub depth: usize,
    /// Channels within a gated block, or an expert.
    pub hidden: usize,
    /// Attention.
    pub attends: Attends,
    /// What follows it.
    pub feeds: Feeds,
    /// What matrices are in the checkpoint.
    pub stored: Stored,
    /// For contexts longer than trained on.
    pub scaling: RopeScaling<'static>,
}

impl Config {
    /// Channels of a head that turn.
    pub(crate) fn turned(&self) -> usize {
        match self.attends {
            Attends::Latent { turned, .. } => turned,
            _ => self.depth,
        }
    }
}

#[derive(Debug)]
enum Mixer {
    Grouped(Attention),
    Latent(Latent),
}

#[derive(Debug)]
struct Layer {
    norms: [Tensor; 2],
    mixer: Mixer,
    feed_forward: FeedForward,
}

/// The model on the device, with its caches.
#[derive(Debug)]
pub struct Decoder {
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    tables: [Tensor; 2],
    limits: Limits,
}

impl Decoder {
    /// A model with weights of a seed, and caches of the engine's extents.
    ///
    /// # Errors
    /// Out of memory; another device than rocfire's.
    pub fn new(
        config: &Config,
        weights: crate::weights::Weights,
        limits: Limits,
        device: &candle_core::Device,
    ) -> Result<Decoder> {
        let source = Source { weights, device: device.clone(), stored: config.stored };
        let frequencies = RopeFrequencies::new(config.turned(), ROPE_BASE, config.scaling).map_err(Error::wrap)?;
        let Config { vocabulary, width, layers, .. } = *config;
        let layer = |at: usize| -> Result<Layer> {
            let name = |part: &str| format!("layers.{at}.{part}");
            let mixer = match config.attends {
                Attends::Latent { .. } => {
                    Mixer::Latent(Latent::new(&source, &name("attention"), config, limits, frequencies.scores)?)
                }
                attends => {
                    let normed = attends == Attends::Normed;
                    Mixer::Grouped(Attention::new(
                        &source,
                        &name("attention"),
                        config,
                        limits,
                        (normed, frequencies.scores),
                    )?)
                }
            };
            let norms = [source.norm(&name("norm"), width)?, source.norm(&name("second_norm"), width)?];
            Ok(Layer { norms, mixer, feed_forward: FeedForward::new(&source, &name("feed_forward"), config)? })
        };
        Ok(Decoder {
            embedding: source.matrix("embedding", &[vocabulary, 1, width])?.squeeze(1)?,
            layers: (0..layers).map(layer).collect::<Result<_>>()?,
            norm: source.norm("norm", width)?,
            head: source.matrix("head", &[width, vocabulary])?,
            tables: rope_tables(&frequencies, limits.length(), device)?,
            limits,
        })
    }

    /// The logits of each seat's last row.
    fn logits(&self, batch: &Batch) -> Result<Tensor> {
        let tables = self.tables.each_ref();
        let mut x = self.embedding.index_select(&batch.tokens, 0)?;
        let mut added: Option<Tensor> = None;
        for Layer { norms: [first, second], mixer, feed_forward } in &self.layers {
            let normed = match added.take() {
                Some(added) => {
                    let [y, sum] = add_rms_norm(&x, &added, first, EPSILON)?;
                    x = sum;
                    y
                }
                None => rms_norm(&x, first, EPSILON)?,
            };
            let mixed = match mixer {
                Mixer::Grouped(attention) => attention.forward(&normed, tables, batch)?,
                Mixer::Latent(latent) => latent.forward(&normed, tables, batch)?,
            };
            let [y, sum] = add_rms_norm(&x, &mixed, second, EPSILON)?;
            x = sum;
            added = Some(feed_forward.forward(&y, batch)?);
        }
        if let Some(added) = added {
            x = (x + added)?;
        }
        rms_norm(&batch.last_of(&x)?, &self.norm, EPSILON)?.matmul(&self.head)
    }
}

impl Model for Decoder {
    fn step(&mut self, step: &Step) -> crate::Result<Output> {
        let batch = Batch::new(step, self.limits, self.head.device())?;
        Ok(choose(&self.logits(&batch)?, step)?)
    }
}
