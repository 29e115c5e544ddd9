//! A cache on pages as a value: written and attended to step by step, against attention over all keys in f64.

use std::ops::Range;

use burn::backend::FlexDevice;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{CacheLayout, Format, KvCache, LatentCache, PagedParams, Sequences};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DEPTH: usize = 16;
const BLOCK: usize = 4;
const PAGES: [i32; 4] = [7, 2, 5, 0];

fn device() -> Device {
    Device::from(RocmDevice::emulated("gfx942").unwrap().burn())
}

/// Numbers between -1 and 1 that have nothing to do with each other.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| (((seed * 7919 + at) as f32 * 12.9898).sin() * 43758.547).fract()).collect()
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], dtype: DType) -> Tensor<D> {
    Tensor::<D>::from_data(TensorData::new(values, shape), &device()).cast(dtype)
}

fn integers<const D: usize>(values: Vec<i32>, shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::<D, Int>::from_data(TensorData::new(values, shape), &device())
}

fn row(token: usize, of_values: bool) -> Vec<f32> {
    numbers(10 * token + usize::from(of_values), KV_HEADS * DEPTH)
}

fn query(token: usize) -> Vec<f32> {
    numbers(500_000 + token, HEADS * DEPTH)
}

fn slot(token: usize) -> i32 {
    PAGES[token / BLOCK] * BLOCK as i32 + (token % BLOCK) as i32
}

fn sequences(keys: usize) -> Sequences {
    Sequences {
        pages: integers(PAGES.to_vec(), [1, PAGES.len()]),
        lens: integers(vec![keys as i32], [1]),
        keys_most: PAGES.len() * BLOCK,
        queries: None,
    }
}

/// Writes tokens `from` to `to` and attends to all up to them.
fn step(cache: &mut KvCache, from: usize, to: usize, dtype: DType) -> Vec<f64> {
    let rows = |of_values| (from..to).flat_map(|token| row(token, of_values)).collect::<Vec<_>>();
    let shape = [to - from, KV_HEADS, DEPTH];
    let slots = integers((from..to).map(slot).collect(), [to - from]);
    cache.write(tensor(rows(false), shape, dtype), tensor(rows(true), shape, dtype), slots);
    let q = tensor((from..to).flat_map(query).collect(), [to - from, HEADS, DEPTH], dtype);
    let out = cache.attention(q, sequences(to), PagedParams::default(), None, None);
    out.into_data().convert::<f64>().try_into_vec::<f64>().unwrap()
}

fn expected(token: usize) -> Vec<f64> {
    let q = query(token);
    let mut out = Vec::new();
    for head in 0..HEADS {
        let first = head / (HEADS / KV_HEADS) * DEPTH;
        let part = |row: Vec<f32>| row[first..][..DEPTH].iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let score = |key: usize| -> f64 {
            let key = part(row(key, false));
            q[head * DEPTH..][..DEPTH].iter().zip(key).map(|(&a, b)| f64::from(a) * b).sum::<f64>() / 4.0
        };
        let weights: Vec<f64> = (0..=token).map(|key| score(key).exp()).collect();
        let total: f64 = weights.iter().sum();
        let values: Vec<Vec<f64>> = (0..=token).map(|key| part(row(key, true))).collect();
        out.extend((0..DEPTH).map(|d| weights.iter().zip(&values).map(|(w, v)| w * v[d]).sum::<f64>() / total));
    }
    out
}

fn near(got: &[f64], from: usize, tolerance: f64) {
    let row = HEADS * DEPTH;
    let want: Vec<f64> = (0..got.len() / row).flat_map(|token| expected(from + token)).collect();
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance, "token {}, {at}: {got}, not {want}", from + at / row);
    }
}

fn cache(layout: CacheLayout, format: Option<Format>, dtype: DType) -> KvCache {
    KvCache::new([8, BLOCK, KV_HEADS, DEPTH], layout, format, dtype, &device()).unwrap()
}

#[test]
fn steps_over_a_cache_are_attention_over_all_keys() {
    let forms = [
        (CacheLayout::Nhd, None, DType::F32, 1e-5),
        (CacheLayout::Hnd, None, DType::BF16, 3e-2),
        (CacheLayout::PackedBoth, None, DType::F32, 1e-5),
        (CacheLayout::Nhd, Some(Format::E4M3Fnuz), DType::F32, 5e-2),
    ];
    for (layout, format, dtype, tolerance) in forms {
        let mut cache = cache(layout, format, dtype);
        for (from, to) in [(0, 6), (6, 7), (7, 8), (8, 11)] {
            near(&step(&mut cache, from, to, dtype), from, tolerance);
        }
    }
}

#[test]
fn a_clone_stays_as_it_was() {
    let mut cache = cache(CacheLayout::Nhd, None, DType::F32);
    step(&mut cache, 0, 6, DType::F32);
    let before = cache.clone();
    let rows = tensor(vec![9.0; KV_HEADS * DEPTH], [1, KV_HEADS, DEPTH], DType::F32);
    cache.write(rows.clone(), rows, integers(vec![slot(2)], [1]));
    let keys = |cache: &KvCache| {
        let starts = integers(vec![0, 6], [2]);
        let [key, value] = cache.gather(sequences(6), starts, 6, DType::F32);
        [key, value].map(|x| x.into_data().try_into_vec::<f32>().unwrap())
    };
    let all = |of_values| (0..6).flat_map(|token| row(token, of_values)).collect::<Vec<_>>();
    assert_eq!(keys(&before), [all(false), all(true)]);
    let [key, _] = keys(&cache);
    assert_eq!(key[2 * KV_HEADS * DEPTH..3 * KV_HEADS * DEPTH], [9.0; KV_HEADS * DEPTH]);
}

#[test]
fn pages_are_copied() {
    let mut cache = cache(CacheLayout::Hnd, None, DType::F32);
    step(&mut cache, 0, 4, DType::F32);
    cache.copy_blocks(integers(vec![PAGES[0], 6], [1, 2]));
    let of = Sequences { pages: integers(vec![6], [1, 1]), ..sequences(4) };
    let [key, _] = cache.gather(of, integers(vec![0, 4], [2]), 4, DType::F32);
    let want: Vec<f32> = (0..4).flat_map(|token| row(token, false)).collect();
    assert_eq!(key.into_data().try_into_vec::<f32>().unwrap(), want);
}

const LATENT: usize = 128;

fn latent_row(token: usize, channels: usize) -> Vec<f32> {
    numbers(900_000 + token, channels)
}

/// Writes tokens of a sequence, as an operator has just made them.
fn write_latents(cache: &mut LatentCache, tokens: Range<usize>, channels: usize, dtype: DType) {
    let slots = integers(tokens.clone().map(slot).collect(), [tokens.len()]);
    let halves: Vec<f32> = tokens.clone().flat_map(|token| latent_row(token, channels)).map(|x| x / 2.0).collect();
    let rows = tensor(halves, [tokens.len(), channels], dtype) * 2.0;
    let rotated = rows.clone().narrow(1, LATENT, channels - LATENT);
    cache.write(rows.narrow(1, 0, LATENT), rotated, slots);
}

#[test]
fn latents_are_keys_and_values() {
    const SCALE: f64 = 0.2;
    let scale = Tensor::<1>::from_data(TensorData::new(vec![1.0f32 / 127.0], [1]), &device());
    let codes = Some((Format::I8, scale));
    // Eight heads and more of whole 64 channels are taken by the matrix unit.
    let forms = [
        (HEADS, 144, None, DType::F32, 1e-5),
        (HEADS, 144, None, DType::F16, 5e-3),
        (HEADS, 144, codes.clone(), DType::F32, 3e-2),
        (20, 192, None, DType::F16, 5e-3),
        (20, 192, codes, DType::F16, 3e-2),
    ];
    for (heads, channels, codes, dtype, tolerance) in forms {
        let extents = [8, BLOCK, LATENT, channels - LATENT];
        let mut cache = LatentCache::new(extents, codes, dtype, &device()).unwrap();
        for (from, to) in [(0, 6), (6, 7), (7, 10)] {
            write_latents(&mut cache, from..to, channels, dtype);
            let q: Vec<Vec<f32>> = (from * heads..to * heads).map(|row| numbers(700_000 + row, channels)).collect();
            let halves = q.iter().flatten().map(|x| x / 2.0).collect();
            let q_there = tensor(halves, [to - from, heads, channels], dtype) * 2.0;
            let mut params = PagedParams::default();
            params.scale = Some(SCALE);
            let out = cache.attention(q_there, sequences(to), params, None);
            assert_eq!(out.dims(), [to - from, heads, LATENT]);
            let out = out.into_data().convert::<f64>().try_into_vec::<f64>().unwrap();
            for (at, (q, got)) in q.iter().zip(out.chunks(LATENT)).enumerate() {
                let keys: Vec<Vec<f32>> = (0..=from + at / heads).map(|token| latent_row(token, channels)).collect();
                let product = |key: &Vec<f32>| q.iter().zip(key).map(|(&a, &b)| f64::from(a * b)).sum::<f64>();
                let weights: Vec<f64> = keys.iter().map(|key| (product(key) * SCALE).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (d, got) in got.iter().enumerate() {
                    let want = weights.iter().zip(&keys).map(|(w, key)| w * f64::from(key[d])).sum::<f64>() / total;
                    assert!((got - want).abs() <= tolerance, "{heads} {dtype:?}, row {at}, {d}: {got}, not {want}");
                }
            }
        }
    }
}

#[test]
fn latents_on_a_page_moved_elsewhere_are_those_written() {
    let mut cache = LatentCache::new([8, BLOCK, LATENT, 16], None, DType::F32, &device()).unwrap();
    write_latents(&mut cache, 0..4, LATENT + 16, DType::F32);
    cache.copy_blocks(integers(vec![PAGES[0], 6], [1, 2]));
    let of = Sequences { pages: integers(vec![6], [1, 1]), ..sequences(4) };
    let rows = cache.gather(of, integers(vec![0, 4], [2]), 4, DType::F32);
    let want: Vec<f32> = (0..4).flat_map(|token| latent_row(token, LATENT + 16)).collect();
    assert_eq!(rows.into_data().try_into_vec::<f32>().unwrap(), want);
}

#[test]
fn there_is_none_off_the_devices() {
    let flex = Device::from(FlexDevice);
    assert!(KvCache::new([2, BLOCK, 1, DEPTH], CacheLayout::Nhd, None, DType::F32, &flex).is_none());
}
