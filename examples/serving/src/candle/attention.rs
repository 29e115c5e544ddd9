//! Grouped-query attention over pages.

use candle_core::{DType, Result, Tensor};
use rocfire_candle::{CacheLayout, KvCache, PagedParams, RopeStyle, ScaleRule, rms_norm, rope_at};

use super::Source;
use super::batch::Batch;
use super::decoder::{Config, EPSILON};
use super::matrices::Linear;
use crate::engine::Limits;

/// Queries, keys and values by one product, turned by their places, and a cache of the keys and values.
#[derive(Debug)]
pub(crate) struct Attention {
    qkv: Linear,
    out: Linear,
    /// Norms of each head's queries and keys: Qwen3's.
    norms: Option<[Tensor; 2]>,
    cache: KvCache,
    heads: usize,
    /// Of scores.
    scale: f64,
}

impl Attention {
    /// `scores`: what the scaling of frequencies multiplies scores by.
    pub fn new(
        source: &Source,
        name: &str,
        config: &Config,
        limits: Limits,
        (normed, scores): (bool, f64),
    ) -> Result<Attention> {
        let Config { width, heads, kv_heads, depth, .. } = *config;
        let of = |part: &str, heads: usize| Linear::new(source, &format!("{name}.{part}"), [width, heads * depth]);
        let qkv = Linear::beside([of("q", heads)?, of("k", kv_heads)?, of("v", kv_heads)?])?;
        let norm = |part: &str| source.norm(&format!("{name}.{part}"), depth);
        let norms = normed.then(|| Ok::<_, candle_core::Error>([norm("q_norm")?, norm("k_norm")?])).transpose()?;
        let extents = [limits.pages, limits.page, kv_heads, depth];
        let cache = KvCache::new(extents, CacheLayout::Nhd, None, DType::F32, &source.device)?;
        let out = Linear::new(source, &format!("{name}.o"), [heads * depth, width])?;
        Ok(Attention { qkv, out, norms, cache, heads, scale: scores / (depth as f64).sqrt() })
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor, tables: [&Tensor; 2], batch: &Batch) -> Result<Tensor> {
        let (rows, kv_heads, depth) = (x.dim(0)?, self.cache.k.dim(2)?, self.cache.k.dim(3)?);
        let qkv = self.qkv.forward(x, batch)?.reshape((rows, self.heads + 2 * kv_heads, depth))?;
        let (q, k) = (qkv.narrow(1, 0, self.heads)?, qkv.narrow(1, self.heads, kv_heads)?);
        let v = qkv.narrow(1, self.heads + kv_heads, kv_heads)?;
        let (q, k) = match &self.norms {
            Some([of_q, of_k]) => (rms_norm(&q, of_q, EPSILON)?, rms_norm(&k, of_k, EPSILON)?),
            None => (q, k),
        };
        let turned = |x: Tensor| -> Result<Tensor> {
            let by_head = x.transpose(0, 1)?.unsqueeze(0)?;
            rope_at(&by_head, tables, RopeStyle::NeoX, &batch.positions)?.squeeze(0)?.transpose(0, 1)
        };
        self.cache.write(&turned(k)?, &v, &batch.slots, ScaleRule::Given)?;
        let mut params = PagedParams::default();
        params.scale = Some(self.scale);
        let y = self.cache.attention(&turned(q)?, &batch.sequences(), params, None, None)?;
        self.out.forward(&y.reshape((rows, self.heads * depth))?, batch)
    }
}
