//! DeepSeek's attention: of each token one latent row is kept, of which keys and values of all heads are made.

use candle_core::{D, DType, Result, Tensor};
use rocfire_candle::{CacheLayout, KvCache, RopeStyle, ScaleRule, rms_norm, rope_at, softmax};

use super::Source;
use super::batch::Batch;
use super::decoder::{Attends, Config, EPSILON};
use crate::engine::Limits;

/// Products around the latent rows, and their cache: latent rows lie where keys do, and the key that turns where values do.
#[derive(Debug)]
pub(crate) struct Latent {
    q_a: Tensor,
    q_norm: Tensor,
    q_b: Tensor,
    kv_a: Tensor,
    kv_norm: Tensor,
    /// `[rank, heads · 2 depth]`, of each head keys first.
    kv_b: Tensor,
    out: Tensor,
    cache: KvCache,
    heads: usize,
    depth: usize,
}

impl Latent {
    pub fn new(source: &Source, name: &str, config: &Config, limits: Limits) -> Result<Latent> {
        let Config { width, heads, depth, attends, .. } = *config;
        let Attends::Latent { query_rank, rank, turned } = attends else {
            candle_core::bail!("{name}: a model of latent rows, got {attends:?}")
        };
        let matrix = |part: &str, shape: [usize; 2]| source.matrix(&format!("{name}.{part}"), &shape);
        let pages =
            |channels: usize| Tensor::zeros((limits.pages, limits.page, 1, channels), DType::F32, &source.device);
        Ok(Latent {
            q_a: matrix("q_a", [width, query_rank])?,
            q_norm: source.norm(&format!("{name}.q_norm"), query_rank)?,
            q_b: matrix("q_b", [query_rank, heads * (depth + turned)])?,
            kv_a: matrix("kv_a", [width, rank + turned])?,
            kv_norm: source.norm(&format!("{name}.kv_norm"), rank)?,
            kv_b: matrix("kv_b", [rank, heads * 2 * depth])?,
            out: matrix("o", [heads * depth, width])?,
            cache: KvCache { k: pages(rank)?, v: pages(turned)?, codes: None, layout: CacheLayout::Nhd },
            heads,
            depth,
        })
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor, tables: [&Tensor; 2], batch: &Batch) -> Result<Tensor> {
        let (rows, rank, turned) = (x.dim(0)?, self.cache.k.dim(3)?, self.cache.v.dim(3)?);
        let turn = |x: Tensor| -> Result<Tensor> {
            let by_head = x.transpose(0, 1)?.unsqueeze(0)?;
            rope_at(&by_head, tables, RopeStyle::GptJ, &batch.positions)?.squeeze(0)?.transpose(0, 1)
        };
        let q = rms_norm(&x.matmul(&self.q_a)?, &self.q_norm, EPSILON)?.matmul(&self.q_b)?;
        let q = q.reshape((rows, self.heads, self.depth + turned))?;
        let q = Tensor::cat(&[q.narrow(2, 0, self.depth)?, turn(q.narrow(2, self.depth, turned)?)?], 2)?;
        let kv = x.matmul(&self.kv_a)?;
        let latent = rms_norm(&kv.narrow(1, 0, rank)?, &self.kv_norm, EPSILON)?.unsqueeze(1)?;
        let key = turn(kv.narrow(1, rank, turned)?.unsqueeze(1)?)?;
        self.cache.write(&latent, &key, &batch.slots, ScaleRule::Given)?;
        let y = attend(&q, &self.cache, &self.kv_b, batch)?;
        y.reshape((rows, self.heads * self.depth))?.matmul(&self.out)
    }
}

/// Attention of `q`, `[rows, heads, depth + turned]`, to the latent rows of each row's seat: `[rows, heads, depth]`.
/// Keys and values of all heads are written out; an operator that attends to latent rows themselves would take the place
/// of this function.
fn attend(q: &Tensor, cache: &KvCache, kv_b: &Tensor, batch: &Batch) -> Result<Tensor> {
    let (rows, heads, channels) = q.dims3()?;
    let (seats, most, turned) = (batch.limits.seats, batch.limits.length(), cache.v.dim(3)?);
    let (depth, device) = (channels - turned, q.device());
    let starts = Tensor::from_iter((0..=seats).map(|seat| (seat * most) as u32), device)?;
    let [latent, key] = cache.gather(&batch.sequences(), &starts, seats * most, DType::F32)?;
    // Rows behind a seat's last are zeros, and no row's keys.
    let kv = latent.squeeze(1)?.matmul(kv_b)?.reshape((seats * most, heads, 2 * depth))?;
    let key = key.broadcast_as((seats * most, heads, turned))?;
    let keys = Tensor::cat(&[kv.narrow(2, 0, depth)?, key], 2)?;
    // `[rows, heads, keys, channels]`.
    let of_rows = |x: Tensor| -> Result<Tensor> {
        let shape = (seats, most, heads, x.dim(2)?);
        x.contiguous()?.reshape(shape)?.index_select(&batch.seats, 0)?.transpose(1, 2)?.contiguous()
    };
    let (keys, values) = (of_rows(keys)?, of_rows(kv.narrow(2, depth, depth)?)?);
    let scores = q.unsqueeze(2)?.contiguous()?.matmul(&keys.t()?)?.affine(1.0 / (channels as f64).sqrt(), 0.0)?;
    let places = Tensor::arange(0_u32, most as u32, device)?;
    let positions = batch.positions.reshape((rows, 1, 1, 1))?.to_dtype(DType::U32)?;
    let sees = places.reshape((1, 1, 1, most))?.broadcast_le(&positions)?.broadcast_as(scores.shape())?;
    let lowest = Tensor::new(f32::NEG_INFINITY, device)?.broadcast_as(scores.shape())?;
    let weights = softmax(&sees.where_cond(&scores, &lowest)?, D::Minus1)?;
    weights.matmul(&values)?.squeeze(2)
}
