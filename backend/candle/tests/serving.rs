//! A cache on pages, written and attended to step by step, against attention over all keys in f64.

mod common;

use candle_core::DType::{BF16, F32, I64};
use candle_core::{DType, Device, Tensor};
use common::gpu;
use rocfire_candle::{CacheLayout, Format, KvCache, LatentCache, PagedParams, ScaleRule, Sequences};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DEPTH: usize = 16;
const BLOCK: usize = 4;
/// Pages of each sequence, in their order.
const PAGES: [[u32; 5]; 2] = [[7, 2, 9, 0, 5], [1, 8, 3, 6, 4]];

/// Numbers between -1 and 1 that have nothing to do with each other.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    let number = |at: usize| ((seed * 7919 + at) as f32 * 12.9898).sin() * 43758.547;
    (0..count).map(|at| number(at).fract()).collect()
}

/// Keys or values of a token.
fn row(sequence: usize, token: usize, of_values: bool) -> Vec<f32> {
    numbers(1000 * sequence + 10 * token + usize::from(of_values), KV_HEADS * DEPTH)
}

fn query(sequence: usize, token: usize) -> Vec<f32> {
    numbers(500_000 + 1000 * sequence + token, HEADS * DEPTH)
}

/// What a query comes to.
fn expected(sequence: usize, token: usize, window: usize) -> Vec<f64> {
    let q = query(sequence, token);
    let mut out = Vec::new();
    for head in 0..HEADS {
        let own = head / (HEADS / KV_HEADS) * DEPTH..;
        let part = |row: &[f32]| row[own.start..][..DEPTH].iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let seen = (token + 1).saturating_sub(window)..token + 1;
        let score = |key: usize| -> f64 {
            let key = part(&row(sequence, key, false));
            q[head * DEPTH..][..DEPTH].iter().zip(key).map(|(&a, b)| f64::from(a) * b).sum::<f64>() / 4.0
        };
        let weights: Vec<f64> = seen.clone().map(|key| score(key).exp()).collect();
        let total: f64 = weights.iter().sum();
        let values: Vec<Vec<f64>> = seen.map(|key| part(&row(sequence, key, true))).collect();
        out.extend((0..DEPTH).map(|d| weights.iter().zip(&values).map(|(w, v)| w * v[d]).sum::<f64>() / total));
    }
    out
}

/// One forward of tokens `from` to `to` of the sequences that are in it; results of each.
fn forward(cache: &KvCache, batch: &[(usize, usize, usize)], dtype: DType, window: Option<usize>) -> Vec<Vec<f32>> {
    let device = gpu();
    let tokens: Vec<(usize, usize)> =
        batch.iter().flat_map(|&(sequence, from, to)| (from..to).map(move |token| (sequence, token))).collect();
    let of = |heads: usize, row: &dyn Fn(usize, usize) -> Vec<f32>| {
        let rows: Vec<f32> = tokens.iter().flat_map(|&(sequence, token)| row(sequence, token)).collect();
        Tensor::from_vec(rows, (tokens.len(), heads, DEPTH), &device).unwrap().to_dtype(dtype).unwrap()
    };
    let slot = |&(sequence, token): &(usize, usize)| {
        i64::from(PAGES[sequence][token / BLOCK]) * BLOCK as i64 + (token % BLOCK) as i64
    };
    let slots = Tensor::new(tokens.iter().map(slot).collect::<Vec<_>>(), &device).unwrap();
    let rule = if cache.codes.is_some() { ScaleRule::Token } else { ScaleRule::Given };
    let (key, value) = (of(KV_HEADS, &|s, t| row(s, t, false)), of(KV_HEADS, &|s, t| row(s, t, true)));
    cache.write(&key, &value, &slots, rule).unwrap();

    let pages: Vec<u32> = batch.iter().flat_map(|&(sequence, ..)| PAGES[sequence]).collect();
    let pages = Tensor::from_vec(pages, (batch.len(), PAGES[0].len()), &device).unwrap();
    let lens = Tensor::new(batch.iter().map(|&(_, _, to)| to as u32).collect::<Vec<_>>(), &device).unwrap();
    let starts = batch.iter().scan(0, |at, &(_, from, to)| {
        *at += (to - from) as u32;
        Some(*at)
    });
    let starts: Vec<u32> = std::iter::once(0).chain(starts).collect();
    let starts_there = Tensor::new(&starts[..], &device).unwrap();
    let most = batch.iter().map(|&(_, from, to)| to - from).max().unwrap();
    let queries = (most > 1).then_some((&starts_there, most));
    let of_batch = Sequences { pages: &pages, lens: &lens, keys_most: PAGES[0].len() * BLOCK, queries };
    let mut params = PagedParams::default();
    params.window = window;
    let out = cache.attention(&of(HEADS, &query), &of_batch, params, None, None).unwrap();
    let out = out.to_dtype(F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    starts
        .windows(2)
        .map(|bounds| out[bounds[0] as usize * HEADS * DEPTH..bounds[1] as usize * HEADS * DEPTH].to_vec())
        .collect()
}

fn near(got: &[f32], sequence: usize, from: usize, tolerance: f64, window: usize) {
    for (token, got) in got.chunks(HEADS * DEPTH).enumerate() {
        let want = expected(sequence, from + token, window);
        for (at, (&got, want)) in got.iter().zip(want).enumerate() {
            let off = (f64::from(got) - want).abs();
            assert!(off <= tolerance, "sequence {sequence}, token {}, {at}: {got}, not {want}", from + token);
        }
    }
}

fn cache(layout: CacheLayout, format: Option<Format>, dtype: DType) -> KvCache {
    KvCache::new([10, BLOCK, KV_HEADS, DEPTH], layout, format, dtype, &gpu()).unwrap()
}

#[test]
fn steps_over_a_cache_are_attention_over_all_keys() {
    let forms = [
        (CacheLayout::Nhd, None, F32, 1e-5),
        (CacheLayout::Hnd, None, BF16, 3e-2),
        (CacheLayout::Packed, None, F32, 1e-5),
        (CacheLayout::Nhd, Some(Format::E4M3), F32, 5e-2),
        (CacheLayout::Hnd, Some(Format::I8), F32, 2e-2),
    ];
    for (layout, format, dtype, tolerance) in forms {
        for window in [None, Some(3)] {
            let cache = cache(layout, format, dtype);
            let reach = window.unwrap_or(usize::MAX);
            // Both prompts at once, then a step of each, then more tokens of one beside a step of the other.
            for batch in [[(0, 0, 5), (1, 0, 9)], [(0, 5, 6), (1, 9, 10)], [(0, 6, 9), (1, 10, 11)]] {
                let results = forward(&cache, &batch, dtype, window);
                for ((sequence, from, _), got) in batch.into_iter().zip(results) {
                    near(&got, sequence, from, tolerance, reach);
                }
            }
        }
    }
}

#[test]
fn a_sequence_has_the_bits_that_it_has_alone() {
    let [alone, among] = [(); 2].map(|()| cache(CacheLayout::Nhd, None, BF16));
    for (from, to) in [(0, 5), (5, 6), (6, 7)] {
        let one = forward(&alone, &[(0, from, to)], BF16, None).remove(0);
        let both = forward(&among, &[(1, from, to + 3), (0, from, to)], BF16, None).remove(1);
        assert_eq!(one, both, "tokens {from} to {to}");
    }
}

#[test]
fn pages_are_copied_and_gathered() {
    let device = gpu();
    let cache = cache(CacheLayout::Hnd, None, F32);
    forward(&cache, &[(0, 0, 6)], F32, None);
    // The first page once more, where nobody wrote.
    cache.copy_blocks(&Tensor::new(&[[7i64, 4]], &device).unwrap()).unwrap();
    let pages = Tensor::new(&[[4u32, 2]], &device).unwrap();
    let (lens, starts) = (Tensor::new(&[6u32], &device).unwrap(), Tensor::new(&[1u32, 7], &device).unwrap());
    let of = Sequences { pages: &pages, lens: &lens, keys_most: 8, queries: None };
    let [key, value] = cache.gather(&of, &starts, 8, F32).unwrap();
    for (got, of_values) in [(key, false), (value, true)] {
        let got = got.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let want: Vec<f32> = (0..6).flat_map(|token| row(0, token, of_values)).collect();
        let (before, rest) = got.split_at(KV_HEADS * DEPTH);
        assert_eq!(rest[..want.len()], want);
        assert!(before.iter().chain(&rest[want.len()..]).all(|&x| x == 0.0), "rows of no sequence");
    }
}

/// A row of DeepSeek's: latent, then rotated channels.
const LATENT: usize = 512;
const CHANNELS: usize = 576;

fn latent_row(token: usize) -> Vec<f32> {
    numbers(900_000 + token, CHANNELS)
}

/// As numbers of a type.
fn rounded(values: Vec<f32>, dtype: DType) -> Vec<f32> {
    let there = Tensor::new(values, &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
    there.to_dtype(F32).unwrap().to_vec1().unwrap()
}

/// Steps of absorbed MLA, against attention by f64 over what the cache has of `latent_row`: codes, if it has a scale.
fn latent_steps(cache: &LatentCache, heads: usize, dtype: DType, scale: Option<f32>, tolerance: f64) {
    const SCALE: f64 = 0.11;
    let device = gpu();
    let held = |row| {
        let code = |x: f32| scale.map_or(x, |scale| (x / scale).round_ties_even() * scale);
        rounded(row, dtype).into_iter().map(code).collect::<Vec<_>>()
    };
    let pages = Tensor::new(&[PAGES[1]], &device).unwrap();
    let slot = |token: usize| i64::from(PAGES[1][token / BLOCK]) * BLOCK as i64 + (token % BLOCK) as i64;
    for (from, to) in [(0, 7), (7, 8), (8, 11)] {
        let count = to - from;
        let rows: Vec<f32> = (from..to).flat_map(latent_row).collect();
        let rows = Tensor::from_vec(rows, (count, CHANNELS), &device).unwrap().to_dtype(dtype).unwrap();
        let (latents, rotated) =
            (rows.narrow(1, 0, LATENT).unwrap(), rows.narrow(1, LATENT, CHANNELS - LATENT).unwrap());
        let slots = Tensor::new((from..to).map(slot).collect::<Vec<_>>(), &device).unwrap();
        cache.write(&latents, &rotated, &slots).unwrap();
        let q: Vec<Vec<f32>> =
            (from * heads..to * heads).map(|row| rounded(numbers(700_000 + row, CHANNELS), dtype)).collect();
        let q_there = Tensor::from_vec(q.concat(), (count, heads, CHANNELS), &device).unwrap();
        let lens = Tensor::new(&[to as u32], &device).unwrap();
        let of = Sequences { pages: &pages, lens: &lens, keys_most: PAGES[1].len() * BLOCK, queries: None };
        let mut params = PagedParams::default();
        params.scale = Some(SCALE);
        let out = cache.attention(&q_there.to_dtype(dtype).unwrap(), &of, params, None).unwrap();
        assert_eq!(out.dims(), [count, heads, LATENT]);
        let out = out.to_dtype(F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (row, (q, got)) in q.iter().zip(out.chunks(LATENT)).enumerate() {
            let keys: Vec<Vec<f32>> = (0..=from + row / heads).map(|token| held(latent_row(token))).collect();
            let score =
                |key: &Vec<f32>| q.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() * SCALE;
            let weights: Vec<f64> = keys.iter().map(|key| score(key).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (d, &got) in got.iter().enumerate() {
                let want = weights.iter().zip(&keys).map(|(w, key)| w * f64::from(key[d])).sum::<f64>() / total;
                assert!((f64::from(got) - want).abs() <= tolerance, "{dtype:?}, row {row}, {d}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn latents_are_keys_and_values() {
    let device = gpu();
    // Eight heads and more are taken by the matrix unit.
    for (heads, dtype, tolerance) in [(HEADS, F32, 1e-5), (HEADS, BF16, 4e-3), (20, BF16, 4e-3)] {
        let cache = LatentCache::new([10, BLOCK, LATENT, CHANNELS - LATENT], None, dtype, &device).unwrap();
        latent_steps(&cache, heads, dtype, None, tolerance);
    }
    // Numbers below 1 in codes of steps of 1/127.
    let scale = 1.0f32 / 127.0;
    for (heads, dtype, tolerance) in [(HEADS, F32, 1e-5), (20, BF16, 4e-3)] {
        let codes = Some((Format::I8, Tensor::new(&[scale], &device).unwrap()));
        let cache = LatentCache::new([10, BLOCK, LATENT, CHANNELS - LATENT], codes, dtype, &device).unwrap();
        latent_steps(&cache, heads, dtype, Some(scale), tolerance);
    }
}

#[test]
fn latents_are_copied_and_gathered() {
    let device = gpu();
    let cache = LatentCache::new([10, BLOCK, LATENT, CHANNELS - LATENT], None, F32, &device).unwrap();
    latent_steps(&cache, HEADS, F32, None, 1e-5);
    let [first, second] = [PAGES[1][0], PAGES[1][1]];
    cache.copy_blocks(&Tensor::new(&[[i64::from(first), 7]], &device).unwrap()).unwrap();
    let pages = Tensor::new(&[[7u32, second]], &device).unwrap();
    let (lens, starts) = (Tensor::new(&[6u32], &device).unwrap(), Tensor::new(&[0u32, 6], &device).unwrap());
    let of = Sequences { pages: &pages, lens: &lens, keys_most: 8, queries: None };
    let rows = cache.gather(&of, &starts, 6, F32).unwrap();
    assert_eq!(rows.to_vec2::<f32>().unwrap(), (0..6).map(latent_row).collect::<Vec<_>>());
}

#[test]
fn what_does_not_fit_is_an_error_with_its_name() {
    let device = gpu();
    let cache = cache(CacheLayout::Nhd, None, F32);
    let rows = Tensor::zeros((2, KV_HEADS, DEPTH), F32, &device).unwrap();
    let slots = Tensor::zeros(3, I64, &device).unwrap();
    let error = cache.write(&rows, &rows, &slots, ScaleRule::Given).unwrap_err().to_string();
    assert!(error.contains("cache_write: slots must be I32 or I64 [2]"), "{error}");
    let on_cpu = Tensor::zeros((2, KV_HEADS, DEPTH), F32, &Device::Cpu).unwrap();
    assert!(cache.write(&on_cpu, &rows, &slots, ScaleRule::Given).unwrap_err().to_string().contains("key"));
}
