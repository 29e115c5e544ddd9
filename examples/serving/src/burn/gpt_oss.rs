//! GPT-OSS's shape: sinks beside the keys, a window in every other layer, and experts in MXFP4 with biases and a clamped gate.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rocfire_burn_nn::{
    ByExpert, CacheLayout, CodedMatrices, Format, GateParams, GroupedEpilogue, KvCache, MatrixCoding, PagedParams,
    RmsNorm, RopeFrequencies, RopeScaling, RopeStyle, RotaryEncoding, RouteForm, ScaleKind, Score, gate,
    grouped_matmul_coded, route,
};

use super::batch::{Batch, choose};
use super::{OFF, ROPE_BASE, Source, turn};
use crate::Result;
use crate::engine::{Limits, Model, Output, Step};
use crate::weights::Weights;

/// Elements of K that share a scale.
pub(crate) const BLOCK: usize = 32;

/// A model's sizes.
#[derive(Clone, Copy, Debug)]
pub struct GptOssConfig {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Channels of a token, a multiple of 32.
    pub width: usize,
    /// Layers; the first, the third, ... have a window.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Channels of a head.
    pub depth: usize,
    /// Keys that a window has, the query's own among them.
    pub window: usize,
    /// Experts.
    pub experts: usize,
    /// Of which a token has so many.
    pub chosen: usize,
    /// Channels within an expert, a multiple of 32.
    pub hidden: usize,
}

impl GptOssConfig {
    /// Of a layer.
    pub(crate) fn window_of(&self, layer: usize) -> Option<usize> {
        layer.is_multiple_of(2).then_some(self.window)
    }
}

/// MXFP4 as checkpoints have it: of each output, codes along K, two in a byte, and a scale for 32 of them.
const MXFP4: MatrixCoding =
    MatrixCoding { format: Format::E2M1, block: [BLOCK, 1], kind: ScaleKind::E8M0, is_transposed: true };

/// Random codes, `[experts, N, K / 2]`, and scales, `[experts, N, K / 32]`, of matrices `[experts, K, N]`.
pub(crate) fn mxfp4(weights: Weights, name: &str, [experts, k, n]: [usize; 3]) -> [Vec<u8>; 2] {
    let bytes = |part: &str, count: usize, low: f32, high: f32| {
        weights.between(&format!("{name}.{part}"), count, low, high).into_iter().map(|x| x as u8).collect()
    };
    // Scales of 2^-5 and 2^-4: what codes stand for is 2.9 in the mean.
    [bytes("codes", experts * n * k / 2, 0.0, 256.0), bytes("scales", experts * n * k / BLOCK, 122.0, 124.0)]
}

#[derive(Debug)]
struct Experts {
    router: Tensor<2>,
    router_bias: Tensor<1>,
    gate_up: CodedMatrices,
    gate_up_bias: Tensor<2>,
    down: CodedMatrices,
    down_bias: Tensor<2>,
    form: RouteForm,
}

impl Experts {
    fn new(source: &Source, name: &str, config: &GptOssConfig) -> Experts {
        let GptOssConfig { width, experts, chosen, hidden, .. } = *config;
        let coded = |part: &str, extents: [usize; 3]| {
            let [codes, scales] = mxfp4(source.weights, &format!("{name}.{part}"), extents);
            let of = |bytes: Vec<u8>, shape: [usize; 3]| {
                Tensor::<3, Int>::from_data(TensorData::new(bytes, shape), (&source.device, DType::U8))
            };
            let [of_codes, of_scales] = MXFP4.shapes(extents);
            CodedMatrices::from_codes(of(codes, of_codes), None, Some(of(scales, of_scales)), MXFP4)
        };
        let bias = |part: &str, columns: usize| {
            source.between(&format!("{name}.{part}"), experts * columns, -0.3, 0.3).reshape([experts, columns])
        };
        let mut form = RouteForm::new(experts, chosen, Score::Softmax);
        // The softmax over those chosen alone.
        form.renormalises = true;
        Experts {
            router: source.matrix(&format!("{name}.router"), [width, experts]),
            router_bias: source.between(&format!("{name}.router_bias"), experts, -0.3, 0.3),
            gate_up: coded("gate_up", [experts, width, 2 * hidden]),
            gate_up_bias: bias("gate_up_bias", 2 * hidden),
            down: coded("down", [experts, hidden, width]),
            down_bias: bias("down_bias", width),
            form,
        }
    }

    fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let logits = x.clone().matmul(self.router.clone()) + self.router_bias.clone().unsqueeze::<2>();
        let (shares, ids) = route(logits, self.form, None).ok_or(OFF)?;
        let by = ByExpert::new(ids.clone(), self.form.experts).ok_or(OFF)?;
        let product = by.matmul_coded(x, &self.gate_up, GroupedEpilogue::None, None).ok_or(OFF)?;
        // The expert of each place, and its bias.
        let of_places = ids.flatten::<1>(0, 1).select(0, by.order.clone());
        let hidden = gate(product + self.gate_up_bias.clone().select(0, of_places), GateParams::swiglu());
        let y = grouped_matmul_coded(hidden, &self.down, by.offsets.clone(), GroupedEpilogue::None, None).ok_or(OFF)?;
        Ok(by.combine(y, shares, Some(self.down_bias.clone())).ok_or(OFF)?)
    }
}

#[derive(Debug)]
struct Layer {
    norms: [RmsNorm; 2],
    qkv: Tensor<2>,
    qkv_bias: Tensor<1>,
    out: Tensor<2>,
    out_bias: Tensor<1>,
    /// A score of no key for each head.
    sinks: Tensor<1>,
    params: PagedParams,
    cache: KvCache,
    experts: Experts,
}

/// The model on the device, with its caches.
#[derive(Debug)]
pub struct GptOss {
    embedding: Tensor<2>,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Tensor<2>,
    rotary: RotaryEncoding,
    config: GptOssConfig,
    limits: Limits,
}

impl GptOss {
    /// A model with weights of a seed, and caches of the engine's extents.
    ///
    /// # Errors
    /// Another device than rocfire's.
    pub fn new(config: GptOssConfig, weights: Weights, limits: Limits, device: &Device) -> Result<GptOss> {
        let source = Source { weights, device: device.clone() };
        let GptOssConfig { vocabulary, width, layers, heads, kv_heads, depth, .. } = config;
        let layer = |at: usize| {
            let name = |part: &str| format!("layers.{at}.{part}");
            let columns = (heads + 2 * kv_heads) * depth;
            let extents = [limits.pages, limits.page, kv_heads, depth];
            let mut params = PagedParams::default();
            params.window = config.window_of(at);
            Ok::<_, &str>(Layer {
                norms: ["norm", "second_norm"].map(|part| source.rms_norm(&name(part), width)),
                qkv: source.matrix(&name("qkv"), [width, columns]),
                qkv_bias: source.between(&name("qkv_bias"), columns, -0.3, 0.3),
                out: source.matrix(&name("o"), [heads * depth, width]),
                out_bias: source.between(&name("o_bias"), width, -0.3, 0.3),
                sinks: source.between(&name("sinks"), heads, -1.0, 2.0),
                params,
                cache: KvCache::new(extents, CacheLayout::Nhd, None, DType::F32, device).ok_or(OFF)?,
                experts: Experts::new(&source, &name("experts"), &config),
            })
        };
        let frequencies = RopeFrequencies::new(depth, ROPE_BASE, RopeScaling::None)?;
        Ok(GptOss {
            embedding: source.embedding(vocabulary, width),
            layers: (0..layers).map(layer).collect::<Result<_, _>>()?,
            norm: source.rms_norm("norm", width),
            head: source.matrix("head", [width, vocabulary]),
            rotary: RotaryEncoding::new(&frequencies, limits.length(), RopeStyle::NeoX, device),
            config,
            limits,
        })
    }
}

impl Model for GptOss {
    fn step(&mut self, step: &Step) -> Result<Output> {
        let batch = Batch::new(step, self.limits, &self.head.device());
        let (GptOssConfig { heads, kv_heads, depth, .. }, rows) = (self.config, self.limits.rows);
        let mut x = self.embedding.clone().select(0, batch.tokens.clone());
        for layer in &mut self.layers {
            let qkv =
                layer.norms[0].forward(x.clone()).matmul(layer.qkv.clone()) + layer.qkv_bias.clone().unsqueeze::<2>();
            let qkv = qkv.reshape([rows, heads + 2 * kv_heads, depth]);
            let of = |first: usize, count: usize| qkv.clone().narrow(1, first, count);
            let (q, k) = (turn(&self.rotary, of(0, heads), &batch)?, turn(&self.rotary, of(heads, kv_heads), &batch)?);
            layer.cache.write(k, of(heads + kv_heads, kv_heads), batch.slots.clone());
            let y = layer.cache.attention(q, batch.sequences(), layer.params, None, Some(layer.sinks.clone()));
            x = x
                + y.reshape([rows, heads * depth]).matmul(layer.out.clone())
                + layer.out_bias.clone().unsqueeze::<2>();
            x = x.clone() + layer.experts.forward(layer.norms[1].forward(x))?;
        }
        let last = self.norm.forward(batch.last_of(x));
        choose(last.matmul(self.head.clone()), step)
    }
}
