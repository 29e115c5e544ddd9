//! The same models written plainly: every token over the whole text before it, dense experts, on any device of Burn's.

use burn::tensor::activation::{sigmoid, silu, softmax, softplus};
use burn::tensor::{Device, Int, Tensor, TensorData};

use super::gpt_oss::{BLOCK, mxfp4};
use super::qwen3_next::TAPS;
use super::{EPSILON, GptOssConfig, Qwen3NextConfig, ROPE_BASE, Source};
use crate::weights::Weights;
use crate::{Plain, Result};

/// GPT-OSS's shape, of the same weights.
#[derive(Debug)]
pub struct PlainGptOss {
    source: Source,
    config: GptOssConfig,
}

/// Qwen3-Next's shape, of the same weights.
#[derive(Debug)]
pub struct PlainQwen3Next {
    source: Source,
    config: Qwen3NextConfig,
}

fn rms_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>) -> Tensor<D> {
    let root = (x.clone().powi_scalar(2).mean_dim(D - 1) + EPSILON).sqrt();
    x / root * weight.unsqueeze::<D>()
}

/// Turns the first channels of `[tokens, heads, depth]` by the place of each token, a pair being half of them apart.
fn turn(x: Tensor<3>, turned: usize) -> Tensor<3> {
    let [tokens, heads, depth] = x.dims();
    let half = turned / 2;
    let table = |of: fn(f64) -> f64| {
        let inverse = |pair: usize| ROPE_BASE.powf(-2.0 * pair as f64 / turned as f64);
        let values = (0..tokens).flat_map(|at| (0..half).map(move |pair| of(at as f64 * inverse(pair)) as f32));
        Tensor::<3>::from_data(TensorData::new(values.collect::<Vec<_>>(), [tokens, 1, half]), &x.device())
            .expand([tokens, heads, half])
    };
    let (cosines, sines) = (table(f64::cos), table(f64::sin));
    let (a, b) = (x.clone().narrow(2, 0, half), x.clone().narrow(2, half, half));
    let mut parts = vec![a.clone() * cosines.clone() - b.clone() * sines.clone(), b * cosines + a * sines];
    if depth > turned {
        parts.push(x.narrow(2, turned, depth - turned));
    }
    Tensor::cat(parts, 2)
}

/// Causal attention of `[tokens, heads, depth]` to heads of keys and values that are shared, within a window, beside sinks.
fn attend(q: Tensor<3>, [k, v]: [Tensor<3>; 2], window: Option<usize>, sinks: Option<Tensor<1>>) -> Tensor<2> {
    let ([tokens, heads, depth], kv_heads, device) = (q.dims(), k.dims()[1], q.device());
    let shared = |x: Tensor<3>| {
        let each = heads / kv_heads;
        let x = x.unsqueeze_dim::<4>(2).expand([tokens, kv_heads, each, depth]).reshape([tokens, heads, depth]);
        x.swap_dims(0, 1)
    };
    let scores = q.swap_dims(0, 1).matmul(shared(k).transpose()) / (depth as f64).sqrt();
    let hides = |at: usize| {
        let (row, key) = (at / tokens, at % tokens);
        let hides = key > row || window.is_some_and(|window| key + window <= row);
        if hides { f32::NEG_INFINITY } else { 0.0 }
    };
    let mask: Vec<f32> = (0..tokens * tokens).map(hides).collect();
    let mut scores = scores + Tensor::<2>::from_data(TensorData::new(mask, [tokens, tokens]), &device).unsqueeze::<3>();
    if let Some(sinks) = sinks {
        let sinks = sinks.reshape([heads, 1, 1]).expand([heads, tokens, 1]);
        scores = Tensor::cat(vec![scores, sinks], 2);
    }
    let weights = softmax(scores, 2).narrow(2, 0, tokens);
    weights.matmul(shared(v)).swap_dims(0, 1).reshape([tokens, heads * depth])
}

/// The softmax of the largest logits of each row, divided by its sum, and 0 for the others: `[rows, columns]`.
fn shares(logits: Tensor<2>, chosen: usize) -> Tensor<2> {
    let least = logits.clone().sort_descending(1).narrow(1, chosen - 1, 1);
    let left_out = logits.clone().lower(least.expand(logits.dims()));
    softmax(logits.mask_fill(left_out, f32::NEG_INFINITY), 1)
}

/// An expert's matrix.
fn of_expert(x: &Tensor<3>, expert: usize) -> Tensor<2> {
    x.clone().narrow(0, expert, 1).squeeze_dim(0)
}

/// What MXFP4 codes stand for, `[experts, K, N]`.
fn decoded(source: &Source, name: &str, extents @ [experts, k, n]: [usize; 3]) -> Tensor<3> {
    let [codes, scales] = mxfp4(source.weights, name, extents);
    let number = |at: usize| {
        let code = codes[at / 2] >> (at % 2 * 4) & 15;
        let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
        let scale = 2.0_f32.powi(i32::from(scales[at / BLOCK]) - 127);
        if code & 8 == 0 { size * scale } else { -size * scale }
    };
    let numbers: Vec<f32> = (0..experts * n * k).map(number).collect();
    Tensor::<3>::from_data(TensorData::new(numbers, [experts, n, k]), &source.device).transpose()
}

fn embedded(source: &Source, tokens: &[u32], [vocabulary, width]: [usize; 2]) -> Tensor<2> {
    let ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
    let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [tokens.len()]), &source.device);
    source.embedding(vocabulary, width).select(0, ids)
}

fn last_logits(source: &Source, x: Tensor<2>, vocabulary: usize) -> Result<Vec<f32>> {
    let [tokens, width] = x.dims();
    let last = rms_norm(x.narrow(0, tokens - 1, 1), source.norm("norm", width));
    let logits = last.matmul(source.matrix("head", [width, vocabulary])).try_into_data();
    let logits = logits.map_err(|error| error.to_string())?.try_to_vec();
    Ok(logits.map_err(|error| format!("{error:?}"))?)
}

impl PlainGptOss {
    /// The model of a seed.
    pub fn new(config: GptOssConfig, weights: Weights, device: &Device) -> PlainGptOss {
        PlainGptOss { source: Source { weights, device: device.clone() }, config }
    }

    fn attention(&self, layer: usize, x: Tensor<2>) -> Tensor<2> {
        let (source, [tokens, width]) = (&self.source, x.dims());
        let GptOssConfig { heads, kv_heads, depth, .. } = self.config;
        let name = |part: &str| format!("layers.{layer}.{part}");
        let columns = (heads + 2 * kv_heads) * depth;
        let qkv = x.matmul(source.matrix(&name("qkv"), [width, columns]))
            + source.between(&name("qkv_bias"), columns, -0.3, 0.3).unsqueeze::<2>();
        let qkv = qkv.reshape([tokens, heads + 2 * kv_heads, depth]);
        let of = |first: usize, count: usize| qkv.clone().narrow(1, first, count);
        let kv = [turn(of(heads, kv_heads), depth), of(heads + kv_heads, kv_heads)];
        let sinks = source.between(&name("sinks"), heads, -1.0, 2.0);
        let y = attend(turn(of(0, heads), depth), kv, self.config.window_of(layer), Some(sinks));
        y.matmul(source.matrix(&name("o"), [heads * depth, width]))
            + source.between(&name("o_bias"), width, -0.3, 0.3).unsqueeze::<2>()
    }

    fn experts(&self, layer: usize, x: Tensor<2>) -> Tensor<2> {
        let (source, [tokens, width]) = (&self.source, x.dims());
        let GptOssConfig { experts, chosen, hidden, .. } = self.config;
        let name = |part: &str| format!("layers.{layer}.experts.{part}");
        let bias = |part: &str, count: usize| source.between(&name(part), count, -0.3, 0.3);
        let logits = x.clone().matmul(source.matrix(&name("router"), [width, experts]));
        let shares = shares(logits + bias("router_bias", experts).unsqueeze::<2>(), chosen);
        let gate_up = decoded(source, &name("gate_up"), [experts, width, 2 * hidden]);
        let down = decoded(source, &name("down"), [experts, hidden, width]);
        let gate_up_bias = bias("gate_up_bias", experts * 2 * hidden).reshape([experts, 2 * hidden]);
        let down_bias = bias("down_bias", experts * width).reshape([experts, width]);
        let mut y = x.zeros_like();
        for expert in 0..experts {
            let both = x.clone().matmul(of_expert(&gate_up, expert)) + gate_up_bias.clone().narrow(0, expert, 1);
            let both = both.reshape([tokens, hidden, 2]);
            let gate = both.clone().narrow(2, 0, 1).squeeze_dim::<2>(2).clamp_max(7.0);
            let up = both.narrow(2, 1, 1).squeeze_dim::<2>(2).clamp(-7.0, 7.0);
            let inner = gate.clone() * sigmoid(gate * 1.702) * (up + 1.0);
            let of = inner.matmul(of_expert(&down, expert)) + down_bias.clone().narrow(0, expert, 1);
            y = y + of * shares.clone().narrow(1, expert, 1);
        }
        y
    }
}

impl Plain for PlainGptOss {
    fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let GptOssConfig { vocabulary, width, layers, .. } = self.config;
        let mut x = embedded(&self.source, tokens, [vocabulary, width]);
        for layer in 0..layers {
            let norm = |part: &str| self.source.norm(&format!("layers.{layer}.{part}"), width);
            x = x.clone() + self.attention(layer, rms_norm(x, norm("norm")));
            x = x.clone() + self.experts(layer, rms_norm(x, norm("second_norm")));
        }
        last_logits(&self.source, x, vocabulary)
    }
}

impl PlainQwen3Next {
    /// The model of a seed.
    pub fn new(config: Qwen3NextConfig, weights: Weights, device: &Device) -> PlainQwen3Next {
        PlainQwen3Next { source: Source { weights, device: device.clone() }, config }
    }

    fn attention(&self, layer: usize, x: Tensor<2>) -> Tensor<2> {
        let (source, [tokens, width]) = (&self.source, x.dims());
        let Qwen3NextConfig { heads, kv_heads, depth, turned, .. } = self.config;
        let name = |part: &str| format!("layers.{layer}.attention.{part}");
        let product = |part: &str, columns: usize| x.clone().matmul(source.matrix(&name(part), [width, columns]));
        let norm = |part: &str| source.norm(&name(part), depth);
        let q = product("q", heads * depth).reshape([tokens, heads, depth]);
        let kv = product("kv", 2 * kv_heads * depth).reshape([tokens, 2 * kv_heads, depth]);
        let k = turn(rms_norm(kv.clone().narrow(1, 0, kv_heads), norm("k_norm")), turned);
        let q = turn(rms_norm(q, norm("q_norm")), turned);
        let y = attend(q, [k, kv.narrow(1, kv_heads, kv_heads)], None, None);
        (y * sigmoid(product("gate", heads * depth))).matmul(source.matrix(&name("o"), [heads * depth, width]))
    }

    /// The delta rule token by token, heads as a batch.
    fn delta(&self, layer: usize, x: Tensor<2>) -> Tensor<2> {
        let (source, [tokens, width]) = (&self.source, x.dims());
        let Qwen3NextConfig { key_heads, value_heads, channels, .. } = self.config;
        let name = |part: &str| format!("layers.{layer}.delta.{part}");
        let product = |part: &str, columns: usize| x.clone().matmul(source.matrix(&name(part), [width, columns]));
        let between = |part: &str, low, high| source.between(&name(part), value_heads, low, high).unsqueeze::<2>();
        let mixed = self.config.mixed();
        let before = Tensor::<2>::zeros([TAPS - 1, mixed], &source.device);
        let inputs = Tensor::cat(vec![before, product("qkv", mixed)], 0);
        let taps: Tensor<2> = source.matrix(&name("taps"), [TAPS, mixed]);
        let tap = |at: usize| inputs.clone().narrow(0, at, tokens) * taps.clone().narrow(0, at, 1);
        let convolved = silu((1..TAPS).fold(tap(0), |sum, at| sum + tap(at)));
        let part = |first: usize, heads: usize| {
            let x = convolved.clone().narrow(1, first * channels, heads * channels).reshape([tokens, heads, channels]);
            let each = value_heads / heads;
            let x = x.unsqueeze_dim::<4>(2).expand([tokens, heads, each, channels]);
            x.reshape([tokens, value_heads, channels])
        };
        let unit = |x: Tensor<3>| x.clone() / (x.powi_scalar(2).sum_dim(2) + 1e-6).sqrt();
        let (q, k) = (unit(part(0, key_heads)) / (channels as f64).sqrt(), unit(part(key_heads, key_heads)));
        let v = part(2 * key_heads, value_heads);
        let steps = softplus(product("a", value_heads) + between("dt_bias", -1.0, 1.0), 1.0);
        let decays = (between("a_log", -2.0, 1.0).exp() * steps).neg().exp();
        let strengths = sigmoid(product("b", value_heads));
        let mut state = Tensor::<3>::zeros([value_heads, channels, channels], &source.device);
        let mut rows = Vec::new();
        for token in 0..tokens {
            let row = |x: &Tensor<3>| x.clone().narrow(0, token, 1).reshape([value_heads, 1, channels]);
            let number = |x: &Tensor<2>| x.clone().narrow(0, token, 1).reshape([value_heads, 1, 1]);
            state = state * number(&decays);
            let missing = row(&v) - row(&k).matmul(state.clone());
            state = state + row(&k).transpose().matmul(missing * number(&strengths));
            rows.push(row(&q).matmul(state.clone()).reshape([1, value_heads, channels]));
        }
        let y = rms_norm(Tensor::cat(rows, 0), source.norm(&name("norm"), channels));
        let of_values = value_heads * channels;
        let y = y.reshape([tokens, of_values]) * silu(product("z", of_values));
        y.matmul(source.matrix(&name("o"), [of_values, width]))
    }

    fn experts(&self, layer: usize, x: Tensor<2>) -> Tensor<2> {
        let (source, [_, width]) = (&self.source, x.dims());
        let Qwen3NextConfig { experts, chosen, hidden, .. } = self.config;
        let name = |part: &str| format!("layers.{layer}.{part}");
        let logits = x.clone().matmul(source.matrix(&name("router"), [width, experts + 1]));
        let own = sigmoid(logits.clone().narrow(1, experts, 1));
        let shares = Tensor::cat(vec![shares(logits.narrow(1, 0, experts), chosen), own], 1);
        let [gate, up] = ["gate", "up"].map(|part| source.matrix(&name(part), [experts + 1, width, hidden]));
        let down = source.matrix(&name("down"), [experts + 1, hidden, width]);
        let mut y = x.zeros_like();
        for expert in 0..=experts {
            let [gate, up] = [&gate, &up].map(|of| x.clone().matmul(of_expert(of, expert)));
            y = y + (silu(gate) * up).matmul(of_expert(&down, expert)) * shares.clone().narrow(1, expert, 1);
        }
        y
    }
}

impl Plain for PlainQwen3Next {
    fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let Qwen3NextConfig { vocabulary, width, layers, .. } = self.config;
        let mut x = embedded(&self.source, tokens, [vocabulary, width]);
        for layer in 0..layers {
            let norm = |part: &str| self.source.norm(&format!("layers.{layer}.{part}"), width);
            let normed = rms_norm(x.clone(), norm("norm"));
            x = x + match self.config.attends(layer) {
                true => self.attention(layer, normed),
                false => self.delta(layer, normed),
            };
            x = x.clone() + self.experts(layer, rms_norm(x, norm("second_norm")));
        }
        last_logits(&self.source, x, vocabulary)
    }
}
