//! The same decoders written plainly: every token over the whole text before it, dense experts, on any device of Candle's.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::{sigmoid, silu, softmax};
use rocfire_candle::RopeScaling;

use super::Source;
use super::decoder::{Attends, Config, EPSILON, Feeds, ROPE_BASE};
use super::matrices::numbers;
use crate::Plain;
use crate::weights::Weights;

/// A model of the same weights.
#[derive(Debug)]
pub struct PlainDecoder {
    source: Source,
    config: Config,
}

fn rms_norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean + EPSILON)?.sqrt()?)?.broadcast_mul(weight)
}

/// Frequencies as `modeling_deepseek.py` of DeepSeek-V3 has them, for weights of both kinds of channels that are one.
#[derive(Clone, Copy)]
struct Yarn {
    factor: f64,
    trained: f64,
    fast: f64,
    slow: f64,
    mscale: f64,
}

impl Yarn {
    fn of(scaling: RopeScaling<'_>) -> Result<Option<Yarn>> {
        match scaling {
            RopeScaling::None => Ok(None),
            RopeScaling::DeepSeekYarn { factor, trained, fast, slow, mscale, mscale_all_dim }
                if mscale == mscale_all_dim =>
            {
                Ok(Some(Yarn { factor, trained, fast, slow, mscale }))
            }
            other => candle_core::bail!("written plainly there are none but DeepSeek-V3's frequencies, got {other:?}"),
        }
    }

    /// `yarn_get_mscale`.
    fn weight(&self) -> f64 {
        1.0 + 0.1 * self.mscale * self.factor.ln()
    }

    /// A frequency between that trained and one that is `factor` times slower.
    fn stretched(&self, trained: f64, pair: usize, depth: usize) -> f64 {
        // `yarn_find_correction_dim`
        let dim = |turns: f64| {
            let longest = self.trained / (turns * 2.0 * std::f64::consts::PI);
            depth as f64 * longest.ln() / (2.0 * ROPE_BASE.ln())
        };
        let (low, high) = (dim(self.fast).floor().max(0.0), dim(self.slow).ceil().min(depth as f64 - 1.0));
        let ramp = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
        trained * (1.0 - ramp) + trained / self.factor * ramp
    }
}

/// Turns `[tokens, heads, depth]` by the place of each token; a pair are elements a half apart, or neighbours.
fn turn(x: &Tensor, are_neighbours: bool, yarn: Option<Yarn>) -> Result<Tensor> {
    let (tokens, heads, depth) = x.dims3()?;
    let half = depth / 2;
    let table = |of: fn(f64) -> f64| {
        let inverse = |pair: usize| {
            let trained = ROPE_BASE.powf(-2.0 * pair as f64 / depth as f64);
            yarn.map_or(trained, |yarn| yarn.stretched(trained, pair, depth))
        };
        let values = (0..tokens).flat_map(|at| (0..half).map(move |pair| of(at as f64 * inverse(pair)) as f32));
        Tensor::from_vec(values.collect::<Vec<_>>(), (tokens, 1, half), x.device())
    };
    let (cosines, sines) = (table(f64::cos)?, table(f64::sin)?);
    let (a, b) = if are_neighbours {
        let pairs = x.reshape((tokens, heads, half, 2))?;
        (pairs.narrow(3, 0, 1)?.squeeze(3)?, pairs.narrow(3, 1, 1)?.squeeze(3)?)
    } else {
        (x.narrow(2, 0, half)?, x.narrow(2, half, half)?)
    };
    let first = (a.broadcast_mul(&cosines)? - b.broadcast_mul(&sines)?)?;
    let second = (b.broadcast_mul(&cosines)? + a.broadcast_mul(&sines)?)?;
    if are_neighbours {
        return Tensor::stack(&[first, second], 3)?.reshape((tokens, heads, depth));
    }
    Tensor::cat(&[first, second], 2)
}

/// Causal attention of `[tokens, heads, channels]`, as many heads of keys and values.
fn attend(q: &Tensor, k: &Tensor, v: &Tensor, yarn: Option<Yarn>) -> Result<Tensor> {
    let factor = yarn.map_or(1.0, |yarn| yarn.weight().powi(2));
    let (tokens, heads, channels) = q.dims3()?;
    let by_head = |x: &Tensor| x.transpose(0, 1)?.contiguous();
    let scores = (by_head(q)?.matmul(&by_head(k)?.t()?)? * (factor / (channels as f64).sqrt()))?;
    let hides = |at: usize| if at % tokens > at / tokens { f32::NEG_INFINITY } else { 0.0 };
    let mask = Tensor::from_vec((0..tokens * tokens).map(hides).collect::<Vec<_>>(), (tokens, tokens), q.device())?;
    let weights = softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    weights.matmul(&by_head(v)?)?.transpose(0, 1)?.reshape((tokens, heads * v.dim(2)?))
}

impl PlainDecoder {
    /// The model of a seed.
    pub fn new(config: Config, weights: Weights, device: &Device) -> PlainDecoder {
        PlainDecoder { source: Source { weights, device: device.clone(), stored: config.stored }, config }
    }

    fn matrix(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.source.matrix(name, shape)
    }

    /// What codes may stand for.
    fn numbers(&self, name: &str, [inputs, outputs]: [usize; 2]) -> Result<Tensor> {
        numbers(&self.source, name, [1, inputs, outputs])?.squeeze(0)
    }

    fn grouped(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let Config { width, heads, kv_heads, depth, attends, .. } = self.config;
        let (tokens, yarn) = (x.dim(0)?, Yarn::of(self.config.scaling)?);
        let of = |part: &str, heads: usize| {
            let weight = self.numbers(&format!("{name}.{part}"), [width, heads * depth])?;
            x.matmul(&weight)?.reshape((tokens, heads, depth))
        };
        let normed = |x: Tensor, part: &str| match attends {
            Attends::Normed => rms_norm(&x, &self.source.norm(&format!("{name}.{part}"), depth)?),
            _ => Ok(x),
        };
        let shared = |x: Tensor| {
            let each = heads / kv_heads;
            x.unsqueeze(2)?.broadcast_as((tokens, kv_heads, each, depth))?.reshape((tokens, heads, depth))
        };
        let q = turn(&normed(of("q", heads)?, "q_norm")?, false, yarn)?;
        let k = turn(&normed(of("k", kv_heads)?, "k_norm")?, false, yarn)?;
        let y = attend(&q, &shared(k)?, &shared(of("v", kv_heads)?)?, yarn)?;
        y.matmul(&self.numbers(&format!("{name}.o"), [heads * depth, width])?)
    }

    fn latent(&self, name: &str, x: &Tensor, [query_rank, rank, turned]: [usize; 3]) -> Result<Tensor> {
        let Config { width, heads, depth, .. } = self.config;
        let (tokens, yarn) = (x.dim(0)?, Yarn::of(self.config.scaling)?);
        let matrix = |part: &str, shape: [usize; 2]| self.numbers(&format!("{name}.{part}"), shape);
        let norm = |part: &str, width: usize| self.source.norm(&format!("{name}.{part}"), width);
        let q = rms_norm(&x.matmul(&matrix("q_a", [width, query_rank])?)?, &norm("q_norm", query_rank)?)?;
        let q = q.matmul(&matrix("q_b", [query_rank, heads * (depth + turned)])?)?;
        let q = q.reshape((tokens, heads, depth + turned))?;
        let kv = x.matmul(&matrix("kv_a", [width, rank + turned])?)?;
        let latent = rms_norm(&kv.narrow(1, 0, rank)?, &norm("kv_norm", rank)?)?;
        let of_heads = latent.matmul(&matrix("kv_b", [rank, heads * 2 * depth])?)?;
        let of_heads = of_heads.reshape((tokens, heads, 2 * depth))?;
        let key = turn(&kv.narrow(1, rank, turned)?.unsqueeze(1)?.contiguous()?, true, yarn)?;
        let key = key.broadcast_as((tokens, heads, turned))?;
        let k = Tensor::cat(&[of_heads.narrow(2, 0, depth)?, key], 2)?;
        let turned = turn(&q.narrow(2, depth, turned)?.contiguous()?, true, yarn)?;
        let q = Tensor::cat(&[q.narrow(2, 0, depth)?, turned], 2)?;
        attend(&q, &k, &of_heads.narrow(2, depth, depth)?, yarn)?.matmul(&matrix("o", [heads * depth, width])?)
    }

    fn gated(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let Config { width, hidden, .. } = self.config;
        let of = |part: &str| x.matmul(&self.numbers(&format!("{name}.{part}"), [width, hidden])?);
        (silu(&of("gate")?)? * of("up")?)?.matmul(&self.numbers(&format!("{name}.down"), [hidden, width])?)
    }

    /// Every token through every expert, times its share, which is mostly 0.
    fn experts(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let Config { width, hidden, feeds, .. } = self.config;
        let mixture = match feeds {
            Feeds::Dense => return self.gated(name, x),
            Feeds::Experts { mixture, .. } | Feeds::Grouped { mixture, .. } => mixture,
        };
        let logits = x.matmul(&self.matrix(&format!("{name}.router"), &[width, mixture.experts])?)?;
        let scores = match feeds {
            Feeds::Grouped { .. } => sigmoid(&logits)?,
            _ => softmax(&logits, D::Minus1)?,
        };
        let bias = match feeds {
            Feeds::Grouped { .. } => self.source.weights.between(&format!("{name}.bias"), mixture.experts, -0.2, 0.2),
            _ => vec![0.0; mixture.experts],
        };
        let scores: Vec<Vec<f32>> = scores.to_vec2()?;
        let shares: Vec<f32> = scores.iter().flat_map(|scores| shares(scores, &bias, feeds, mixture.chosen)).collect();
        let shares = Tensor::from_vec(shares, (x.dim(0)?, mixture.experts), x.device())?;
        let [inward, outward] = [[mixture.experts, width, hidden], [mixture.experts, hidden, width]];
        let of = |part: &str, extents: [usize; 3]| numbers(&self.source, &format!("{name}.{part}"), extents);
        let (gate, up, down) = (of("gate", inward)?, of("up", inward)?, of("down", outward)?);
        let mut y = x.zeros_like()?;
        for expert in 0..mixture.experts {
            let hidden = (silu(&x.matmul(&gate.get(expert)?)?)? * x.matmul(&up.get(expert)?)?)?;
            let of = hidden.matmul(&down.get(expert)?)?.broadcast_mul(&shares.narrow(1, expert, 1)?)?;
            y = (y + of)?;
        }
        match feeds {
            Feeds::Grouped { .. } => y + self.gated(&format!("{name}.shared"), x)?,
            _ => Ok(y),
        }
    }
}

/// The share of each expert, 0 for those that are not chosen.
fn shares(scores: &[f32], bias: &[f32], feeds: Feeds, chosen: usize) -> Vec<f32> {
    let mut by: Vec<f32> = scores.iter().zip(bias).map(|(score, bias)| score + bias).collect();
    let best = |by: &[f32], count: usize| {
        let mut order: Vec<usize> = (0..by.len()).collect();
        order.sort_by(|&a, &b| by[b].total_cmp(&by[a]));
        order.truncate(count);
        order
    };
    let (mut renormalises, mut times) = (true, 1.0);
    match feeds {
        Feeds::Grouped { groups, kept, factor, .. } => {
            times = factor as f32;
            let size = by.len() / groups;
            let worth = |group: &[f32]| best(group, 2).iter().map(|&at| group[at]).sum::<f32>();
            let worths: Vec<f32> = by.chunks(size).map(worth).collect();
            let kept = best(&worths, kept);
            let left_out = (0..by.len()).filter(|at| !kept.contains(&(at / size)));
            left_out.for_each(|at| by[at] = f32::NEG_INFINITY);
        }
        Feeds::Experts { renormalises: divides, .. } => renormalises = divides,
        Feeds::Dense => {}
    }
    let chosen = best(&by, chosen);
    let sum: f32 = if renormalises { chosen.iter().map(|&at| scores[at]).sum() } else { 1.0 };
    let share = |at: usize| if chosen.contains(&at) { scores[at] / sum * times } else { 0.0 };
    (0..scores.len()).map(share).collect()
}

impl PlainDecoder {
    fn last_logits(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let Config { vocabulary, width, layers, attends, .. } = self.config;
        let embedding = self.matrix("embedding", &[vocabulary, 1, width])?.squeeze(1)?;
        let mut x = embedding.index_select(&Tensor::new(tokens, &self.source.device)?, 0)?;
        for at in 0..layers {
            let name = |part: &str| format!("layers.{at}.{part}");
            let normed = rms_norm(&x, &self.source.norm(&name("norm"), width)?)?;
            x = match attends {
                Attends::Latent { query_rank, rank, turned } => {
                    (x + self.latent(&name("attention"), &normed, [query_rank, rank, turned])?)?
                }
                _ => (x + self.grouped(&name("attention"), &normed)?)?,
            };
            let normed = rms_norm(&x, &self.source.norm(&name("second_norm"), width)?)?;
            x = (x + self.experts(&name("feed_forward"), &normed)?)?;
        }
        let last = rms_norm(&x.narrow(0, tokens.len() - 1, 1)?, &self.source.norm("norm", width)?)?;
        last.matmul(&self.matrix("head", &[width, vocabulary])?)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
    }
}

impl Plain for PlainDecoder {
    fn logits(&self, tokens: &[u32]) -> crate::Result<Vec<f32>> {
        Ok(self.last_logits(tokens)?)
    }
}
