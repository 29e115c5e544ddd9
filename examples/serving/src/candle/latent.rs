//! DeepSeek's attention, absorbed: of each token one latent row is kept, which every head's queries read as key and as value.

use candle_core::{DType, Result, Tensor};
use rocfire_candle::{AbsorbInputs, LatentCache, PagedParams, RopeStyle, rms_norm};

use super::Source;
use super::batch::Batch;
use super::decoder::{Attends, Config, EPSILON};
use super::matrices::{Linear, numbers};
use crate::engine::Limits;

/// Products around the latent rows, and their cache.
#[derive(Debug)]
pub(crate) struct Latent {
    q_a: Linear,
    q_norm: Tensor,
    q_b: Linear,
    kv_a: Linear,
    kv_norm: Tensor,
    /// What makes a head's keys of latents, `[heads, depth, rank]`: queries are brought to latents by it.
    keys: Tensor,
    /// What makes a head's values of latents, `[heads, rank, depth]`.
    values: Tensor,
    out: Linear,
    cache: LatentCache,
    heads: usize,
    depth: usize,
    /// Of scores.
    scale: f64,
}

impl Latent {
    /// `scores`: what the scaling of frequencies multiplies scores by.
    pub fn new(source: &Source, name: &str, config: &Config, limits: Limits, scores: f64) -> Result<Latent> {
        let Config { width, heads, depth, attends, .. } = *config;
        let Attends::Latent { query_rank, rank, turned } = attends else {
            candle_core::bail!("{name}: a model of latent rows, got {attends:?}")
        };
        let linear = |part: &str, shape: [usize; 2]| Linear::new(source, &format!("{name}.{part}"), shape);
        // Of each head keys first. Blocks of codes know nothing of heads: the two halves are numbers.
        let kv_b = numbers(source, &format!("{name}.kv_b"), [1, rank, heads * 2 * depth])?;
        let kv_b = kv_b.reshape((rank, heads, 2 * depth))?;
        let extents = [limits.pages, limits.page, rank, turned];
        Ok(Latent {
            q_a: linear("q_a", [width, query_rank])?,
            q_norm: source.norm(&format!("{name}.q_norm"), query_rank)?,
            q_b: linear("q_b", [query_rank, heads * (depth + turned)])?,
            kv_a: linear("kv_a", [width, rank + turned])?,
            kv_norm: source.norm(&format!("{name}.kv_norm"), rank)?,
            keys: kv_b.narrow(2, 0, depth)?.permute((1, 2, 0))?.contiguous()?,
            values: kv_b.narrow(2, depth, depth)?.transpose(0, 1)?.contiguous()?,
            out: linear("o", [heads * depth, width])?,
            cache: LatentCache::new(extents, None, DType::F32, &source.device)?,
            heads,
            depth,
            // That of the keys that are not written out.
            scale: scores / ((depth + turned) as f64).sqrt(),
        })
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor, tables: [&Tensor; 2], batch: &Batch) -> Result<Tensor> {
        let (rows, rank) = (x.dim(0)?, self.cache.latent);
        let turned = self.cache.rows.dim(2)? - rank;
        let q = rms_norm(&self.q_a.forward(x, batch)?, &self.q_norm, EPSILON)?;
        let (q, kv) = (self.q_b.forward(&q, batch)?, self.kv_a.forward(x, batch)?);
        let q = self.cache.absorb(&AbsorbInputs {
            q: &q.reshape((rows, self.heads, self.depth + turned))?,
            weight: &self.keys,
            latents: &kv.narrow(1, 0, rank)?,
            keys: &kv.narrow(1, rank, turned)?,
            norm: Some((&self.kv_norm, EPSILON)),
            tables,
            style: RopeStyle::GptJ,
            positions: &batch.positions.squeeze(0)?,
            slots: &batch.slots,
        })?;
        let mut params = PagedParams::default();
        params.scale = Some(self.scale);
        let y = self.cache.attention(&q, &batch.sequences(), params, None)?;
        let y = y.transpose(0, 1)?.contiguous()?.matmul(&self.values)?.transpose(0, 1)?;
        self.out.forward(&y.reshape((rows, self.heads * self.depth))?, batch)
    }
}
