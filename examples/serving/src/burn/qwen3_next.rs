//! Qwen3-Next's shape: layers of the gated delta rule behind a causal convolution, every other one attention with a
//! gate, experts beside a shared one with a gate of its own.

use burn::module::Param;
use burn::tensor::activation::{sigmoid, silu};
use burn::tensor::{DType, Device, Tensor};
use rocfire_burn_nn::{
    Activation, CacheLayout, DeltaGates, DeltaParams, Experts, KvCache, PagedParams, RmsNorm, RopeFrequencies,
    RopeScaling, RopeStyle, RotaryEncoding, RouteForm, Score, Shared, SharedScore, States, route,
};

use super::batch::{Batch, choose};
use super::{OFF, ROPE_BASE, Source, turn};
use crate::Result;
use crate::engine::{Limits, Model, Output, Step};
use crate::weights::Weights;

/// Tokens that a convolution sees.
pub(crate) const TAPS: usize = 4;

/// A model's sizes.
#[derive(Clone, Copy, Debug)]
pub struct Qwen3NextConfig {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Channels of a token.
    pub width: usize,
    /// Layers; the second, the fourth, ... attend.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Channels of a head.
    pub depth: usize,
    /// Of which so many turn.
    pub turned: usize,
    /// Heads of queries and keys of a delta rule.
    pub key_heads: usize,
    /// Heads of its values.
    pub value_heads: usize,
    /// Channels of either.
    pub channels: usize,
    /// Experts, the shared one not counted.
    pub experts: usize,
    /// Of which a token has so many.
    pub chosen: usize,
    /// Channels within an expert.
    pub hidden: usize,
}

impl Qwen3NextConfig {
    /// Whether a layer attends to keys.
    pub(crate) fn attends(&self, layer: usize) -> bool {
        !layer.is_multiple_of(2)
    }

    /// Channels of the queries, keys and values of a delta rule.
    pub(crate) fn mixed(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.channels
    }
}

#[derive(Debug)]
struct Delta {
    qkv: Tensor<2>,
    z: Tensor<2>,
    a: Tensor<2>,
    b: Tensor<2>,
    taps: Tensor<2>,
    a_log: Tensor<1>,
    dt_bias: Tensor<1>,
    norm: RmsNorm,
    out: Tensor<2>,
    /// `[seats, channels, TAPS - 1]`.
    inputs: States<3>,
    /// `[seats, heads, channels, channels]`.
    states: States<4>,
}

impl Delta {
    fn new(source: &Source, name: &str, config: &Qwen3NextConfig, limits: Limits) -> Result<Delta> {
        let Qwen3NextConfig { width, value_heads, channels, .. } = *config;
        let matrix = |part: &str, shape: [usize; 2]| source.matrix(&format!("{name}.{part}"), shape);
        let of_values = value_heads * channels;
        let device = &source.device;
        let between = |part: &str, low, high| source.between(&format!("{name}.{part}"), value_heads, low, high);
        Ok(Delta {
            qkv: matrix("qkv", [width, config.mixed()]),
            z: matrix("z", [width, of_values]),
            a: matrix("a", [width, value_heads]),
            b: matrix("b", [width, value_heads]),
            taps: matrix("taps", [TAPS, config.mixed()]).transpose(),
            a_log: between("a_log", -2.0, 1.0),
            dt_bias: between("dt_bias", -1.0, 1.0),
            norm: source.rms_norm(&format!("{name}.norm"), channels),
            out: matrix("o", [of_values, width]),
            inputs: States::<3>::new([limits.seats, config.mixed(), TAPS - 1], DType::F32, device).ok_or(OFF)?,
            states: States::<4>::new([limits.seats, value_heads, channels, channels], DType::F32, device).ok_or(OFF)?,
        })
    }

    fn forward(&mut self, x: Tensor<2>, config: &Qwen3NextConfig, batch: &Batch, longest: usize) -> Tensor<2> {
        let Qwen3NextConfig { key_heads, value_heads, channels, .. } = *config;
        let (rows, of) = (x.dims()[0], batch.states());
        let mixed = self.inputs.causal_conv(x.clone().matmul(self.qkv.clone()), self.taps.clone(), None, &of, true);
        let part = |first: usize, heads: usize| {
            mixed.clone().narrow(1, first * channels, heads * channels).reshape([rows, heads, channels])
        };
        let qkv = [part(0, key_heads), part(key_heads, key_heads), part(2 * key_heads, value_heads)];
        let made = [&self.a, &self.b].map(|weight| x.clone().matmul(weight.clone()));
        let gates = DeltaGates::Made(made, [self.a_log.clone(), self.dt_bias.clone()]);
        let mut params = DeltaParams::default();
        params.normalises = true;
        let y = self.norm.forward(self.states.delta_rule(qkv, gates, &of, longest, params));
        (y.reshape([rows, value_heads * channels]) * silu(x.matmul(self.z.clone()))).matmul(self.out.clone())
    }
}

#[derive(Debug)]
struct Attention {
    q: Tensor<2>,
    gate: Tensor<2>,
    kv: Tensor<2>,
    norms: [RmsNorm; 2],
    out: Tensor<2>,
    cache: KvCache,
}

impl Attention {
    fn new(source: &Source, name: &str, config: &Qwen3NextConfig, limits: Limits) -> Result<Attention> {
        let Qwen3NextConfig { width, heads, kv_heads, depth, .. } = *config;
        let matrix = |part: &str, shape: [usize; 2]| source.matrix(&format!("{name}.{part}"), shape);
        let extents = [limits.pages, limits.page, kv_heads, depth];
        Ok(Attention {
            q: matrix("q", [width, heads * depth]),
            gate: matrix("gate", [width, heads * depth]),
            kv: matrix("kv", [width, 2 * kv_heads * depth]),
            norms: ["q_norm", "k_norm"].map(|part| source.rms_norm(&format!("{name}.{part}"), depth)),
            out: matrix("o", [heads * depth, width]),
            cache: KvCache::new(extents, CacheLayout::Nhd, None, DType::F32, &source.device).ok_or(OFF)?,
        })
    }

    fn forward(
        &mut self,
        x: Tensor<2>,
        config: &Qwen3NextConfig,
        rotary: &RotaryEncoding,
        batch: &Batch,
    ) -> Result<Tensor<2>> {
        let (Qwen3NextConfig { heads, kv_heads, depth, .. }, rows) = (*config, x.dims()[0]);
        let q = x.clone().matmul(self.q.clone()).reshape([rows, heads, depth]);
        let kv = x.clone().matmul(self.kv.clone()).reshape([rows, 2 * kv_heads, depth]);
        let k = self.norms[1].forward(kv.clone().narrow(1, 0, kv_heads));
        let q = turn(rotary, self.norms[0].forward(q), batch)?;
        self.cache.write(turn(rotary, k, batch)?, kv.narrow(1, kv_heads, kv_heads), batch.slots.clone());
        let y = self.cache.attention(q, batch.sequences(), PagedParams::default(), None, None);
        let gate = sigmoid(x.matmul(self.gate.clone()));
        Ok((y.reshape([rows, heads * depth]) * gate).matmul(self.out.clone()))
    }
}

#[derive(Debug)]
enum Mixer {
    Delta(Box<Delta>),
    Attention(Box<Attention>),
}

#[derive(Debug)]
struct Layer {
    norms: [RmsNorm; 2],
    mixer: Mixer,
    /// A column for each expert, the shared one's last.
    router: Tensor<2>,
    experts: Experts,
}

/// The model on the device, with its caches and states.
#[derive(Debug)]
pub struct Qwen3Next {
    embedding: Tensor<2>,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Tensor<2>,
    rotary: RotaryEncoding,
    config: Qwen3NextConfig,
    limits: Limits,
    form: RouteForm,
}

impl Qwen3Next {
    /// A model with weights of a seed, caches and states of the engine's extents.
    ///
    /// # Errors
    /// Another device than rocfire's.
    pub fn new(config: Qwen3NextConfig, weights: Weights, limits: Limits, device: &Device) -> Result<Qwen3Next> {
        let source = Source { weights, device: device.clone() };
        let Qwen3NextConfig { vocabulary, width, layers, turned, experts, chosen, hidden, .. } = config;
        let layer = |at: usize| -> Result<Layer> {
            let name = |part: &str| format!("layers.{at}.{part}");
            let mixer = match config.attends(at) {
                true => Mixer::Attention(Box::new(Attention::new(&source, &name("attention"), &config, limits)?)),
                false => Mixer::Delta(Box::new(Delta::new(&source, &name("delta"), &config, limits)?)),
            };
            let matrices = |part: &str, shape: [usize; 3]| Param::from_tensor(source.matrix(&name(part), shape));
            let (inward, outward) = ([experts + 1, width, hidden], [experts + 1, hidden, width]);
            let experts_of = Experts {
                gate: matrices("gate", inward),
                up: matrices("up", inward),
                down: matrices("down", outward),
                activation: Activation::Silu,
            };
            let norms = ["norm", "second_norm"].map(|part| source.rms_norm(&name(part), width));
            Ok(Layer {
                norms,
                mixer,
                router: source.matrix(&name("router"), [width, experts + 1]),
                experts: experts_of,
            })
        };
        let mut form = RouteForm::new(experts, chosen, Score::Softmax);
        form.renormalises = true;
        form.shared = Some(Shared { count: 1, score: SharedScore::Sigmoid });
        let frequencies = RopeFrequencies::new(turned, ROPE_BASE, RopeScaling::None)?;
        Ok(Qwen3Next {
            embedding: source.embedding(vocabulary, width),
            layers: (0..layers).map(layer).collect::<Result<_>>()?,
            norm: source.rms_norm("norm", width),
            head: source.matrix("head", [width, vocabulary]),
            rotary: RotaryEncoding::new(&frequencies, limits.length(), RopeStyle::NeoX, device),
            config,
            limits,
            form,
        })
    }
}

impl Model for Qwen3Next {
    fn step(&mut self, step: &Step) -> Result<Output> {
        let batch = Batch::new(step, self.limits, &self.head.device());
        let config = &self.config;
        let mut x = self.embedding.clone().select(0, batch.tokens.clone());
        for Layer { norms: [first, second], mixer, router, experts } in &mut self.layers {
            let normed = first.forward(x.clone());
            x = x + match mixer {
                Mixer::Delta(delta) => delta.forward(normed, config, &batch, self.limits.rows),
                Mixer::Attention(attention) => attention.forward(normed, config, &self.rotary, &batch)?,
            };
            let normed = second.forward(x.clone());
            let (shares, ids) = route(normed.clone().matmul(router.clone()), self.form, None).ok_or(OFF)?;
            x = x + experts.forward(normed, ids, shares);
        }
        let last = self.norm.forward(batch.last_of(x));
        choose(last.matmul(self.head.clone()), step)
    }
}
