//! What MLA runs around its cache of latents, at DeepSeek's sizes: attention to chosen rows, queries absorbed and rows written, rows
//! expanded to keys and values.

use std::rc::Rc;

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::attention::{PagedInputs, PagedParams, paged_attention};
use rocfire_kernels::cache::{Cache, CacheMut, Pages};
use rocfire_kernels::mla::{AbsorbInputs, ExpandInputs, ExpandWeight, absorb, expand};
use rocfire_kernels::rope::RopeStyle;

use crate::op::{Error, Make, Op, ROTATION_BYTES, compare, elements, filled, tolerance};

const HEADS: usize = 128;
/// Channels of a query that do not turn, as many as a value has, those that turn, and of a latent.
const FIXED: usize = 128;
const TURNED: usize = 64;
const LATENT: usize = 512;
const ROW: usize = LATENT + TURNED;
const BLOCK: usize = 64;

pub const OPS: &[Make] = &[
    ("mla sparse decode bf16", |d, n| sparse(d, n, [64, 2048])),
    ("mla absorb bf16", |d, n| absorbed(d, n, 64)),
    ("mla absorb bf16", |d, n| absorbed(d, n, 4096)),
    ("mla expand bf16", |d, n| expanded(d, n, 8192)),
];

fn integers(device: &Device, shape: &[usize], values: impl Iterator<Item = usize>) -> Result<Tensor, Error> {
    let bytes: Vec<u8> = values.flat_map(|value| (value as i32).to_le_bytes()).collect();
    Ok(Tensor::from_bytes(device, shape, DType::I32, &bytes)?)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Part of a tensor of bf16.
fn part(x: &Tensor, first: usize, count: usize) -> Result<Vec<f64>, Error> {
    Ok(elements(&x.to_bytes()?, DType::BF16, first, count))
}

/// Each of `tokens` queries attends to `chosen` rows of a pool.
fn sparse(device: &Device, name: &'static str, [tokens, chosen]: [usize; 2]) -> Result<Op, Error> {
    let pool = tokens * chosen;
    let sets = ROTATION_BYTES.div_ceil(pool * ROW * 2).max(2);
    let caches = (0..sets as u64)
        .map(|seed| filled(device, &[pool / BLOCK, BLOCK, ROW], DType::BF16, seed + 1))
        .collect::<Result<Vec<_>, _>>()?;
    // An odd step goes through all of a power of two.
    let slot = move |n: usize| n * 7919 % pool;
    let slots = integers(device, &[tokens, chosen], (0..pool).map(slot))?;
    let q = filled(device, &[tokens, HEADS, ROW], DType::BF16, 100)?;
    let out = Tensor::empty(device, &[tokens, HEADS, LATENT], DType::BF16)?;
    let all = Rc::new((device.clone(), caches, slots, q, out));
    let of_check = all.clone();
    let launch = move |n: usize| -> Result<(), Error> {
        let (device, caches, slots, q, out) = &*all;
        let cache = Cache::latent(caches[n % caches.len()].view(), LATENT, None)?;
        let read = PagedInputs::new(q.view(), cache, Pages::Slots { slots: slots.view(), lens: None }, chosen);
        let mut out = out.clone();
        Ok(paged_attention(device.stream(), &read, &PagedParams::default(), out.view_mut(), None, None)?)
    };
    let check = move || -> Result<(), Error> {
        let (_, caches, _, q, out) = &*of_check;
        let (token, head) = (tokens - 1, HEADS / 2);
        let own = part(q, (token * HEADS + head) * ROW, ROW)?;
        let rows = caches[0].to_bytes()?;
        let rows = (0..chosen).map(|n| elements(&rows, DType::BF16, slot(token * chosen + n) * ROW, ROW));
        let rows: Vec<Vec<f64>> = rows.collect();
        let scores: Vec<f64> = rows.iter().map(|row| dot(&own, row) / (ROW as f64).sqrt()).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let value = |channel: usize| weights.iter().zip(&rows).map(|(w, row)| w * row[channel]).sum::<f64>() / total;
        let expected: Vec<f64> = (0..LATENT).map(value).collect();
        compare(&part(out, (token * HEADS + head) * LATENT, LATENT)?, &expected, tolerance(DType::BF16))
    };
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{tokens}x{chosen} of {pool} {HEADS}x{ROW}/{LATENT}"),
        bytes: (2 * (pool * ROW + tokens * HEADS * (ROW + LATENT))) as f64,
        flops: 2.0 * (pool * HEADS * (ROW + LATENT)) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn absorbed(device: &Device, name: &'static str, tokens: usize) -> Result<Op, Error> {
    let weights = (0..ROTATION_BYTES.div_ceil(2 * HEADS * FIXED * LATENT) as u64)
        .map(|seed| filled(device, &[HEADS, FIXED, LATENT], DType::BF16, seed + 1))
        .collect::<Result<Vec<_>, _>>()?;
    let q = filled(device, &[tokens, HEADS, FIXED + TURNED], DType::BF16, 1000)?;
    let rows = filled(device, &[tokens, ROW], DType::BF16, 1001)?;
    let norm = filled(device, &[LATENT], DType::BF16, 1002)?;
    let table = filled(device, &[tokens, TURNED / 2], DType::F32, 1003)?;
    let numbers = integers(device, &[tokens], 0..tokens)?;
    let cache = Tensor::empty(device, &[tokens.div_ceil(BLOCK), BLOCK, ROW], DType::BF16)?;
    let out = Tensor::empty(device, &[tokens, HEADS, ROW], DType::BF16)?;
    let all = Rc::new((device.clone(), weights, [q, rows, norm, table, numbers, cache, out]));
    let of_check = all.clone();
    let launch = move |n: usize| -> Result<(), Error> {
        let (device, weights, [q, rows, norm, table, numbers, cache, out]) = &*all;
        let slice = |from, to| Ok::<_, Error>(rows.view().with_layout(rows.layout().slice(1, from, to, 1)?)?);
        let inputs = AbsorbInputs {
            q: q.view(),
            weight: weights[n % weights.len()].view(),
            latents: slice(0, LATENT)?,
            keys: slice(LATENT, ROW)?,
            norm: Some((norm.view(), 1e-6)),
            tables: [table.view(); 2],
            style: RopeStyle::GptJ,
            positions: numbers.view(),
            slots: numbers.view(),
        };
        let (mut cache, mut out) = (cache.clone(), out.clone());
        let mut cache = CacheMut::latent(cache.view_mut(), LATENT, None)?;
        Ok(absorb(device.stream(), &inputs, out.view_mut(), &mut cache)?)
    };
    let check = move || -> Result<(), Error> {
        let (_, weights, [q, rows, norm, .., cache, out]) = &*of_check;
        let (token, head) = (tokens - 1, HEADS / 2);
        let own = part(q, (token * HEADS + head) * (FIXED + TURNED), FIXED)?;
        let weight = part(&weights[0], head * FIXED * LATENT, FIXED * LATENT)?;
        let product = |to: usize| own.iter().enumerate().map(|(n, x)| x * weight[n * LATENT + to]).sum();
        let expected: Vec<f64> = (0..LATENT).map(product).collect();
        compare(&part(out, (token * HEADS + head) * ROW, LATENT)?, &expected, tolerance(DType::BF16))?;
        let (latent, norm) = (part(rows, token * ROW, LATENT)?, part(norm, 0, LATENT)?);
        let root = 1.0 / (dot(&latent, &latent) / LATENT as f64 + 1e-6).sqrt();
        let expected: Vec<f64> = latent.iter().zip(&norm).map(|(x, w)| x * root * w).collect();
        compare(&part(cache, token * ROW, LATENT)?, &expected, tolerance(DType::BF16))
    };
    let of_rows = tokens * (HEADS * (FIXED + TURNED + ROW) + 2 * ROW);
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{tokens}x{HEADS}x({FIXED}+{TURNED}) to {LATENT}"),
        bytes: (2 * (HEADS * FIXED * LATENT + of_rows)) as f64,
        flops: 2.0 * (tokens * HEADS * FIXED * LATENT) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn expanded(device: &Device, name: &'static str, rows: usize) -> Result<Op, Error> {
    let cache = filled(device, &[rows / BLOCK, BLOCK, ROW], DType::BF16, 1)?;
    let weight = filled(device, &[HEADS, 2 * FIXED, LATENT], DType::BF16, 2)?;
    let pages = integers(device, &[1, rows / BLOCK], 0..rows / BLOCK)?;
    let (lens, starts) = (integers(device, &[1], [rows].into_iter())?, integers(device, &[2], [0, rows].into_iter())?);
    let keys = Tensor::empty(device, &[rows, HEADS, FIXED + TURNED], DType::BF16)?;
    let values = Tensor::empty(device, &[rows, HEADS, FIXED], DType::BF16)?;
    let all = Rc::new((device.clone(), [cache, weight, pages, lens, starts, keys, values]));
    let of_check = all.clone();
    let launch = move |_: usize| -> Result<(), Error> {
        let (device, [cache, weight, pages, lens, starts, keys, values]) = &*all;
        let inputs = ExpandInputs {
            cache: Cache::latent(cache.view(), LATENT, None)?,
            pages: Pages::Table { pages: pages.view(), lens: lens.view() },
            starts: starts.view(),
            keys_most: rows,
            weight: ExpandWeight::Floats(weight.view()),
        };
        let (mut keys, mut values) = (keys.clone(), values.clone());
        Ok(expand(device.stream(), &inputs, keys.view_mut(), values.view_mut(), None)?)
    };
    let check = move || -> Result<(), Error> {
        let (_, [cache, weight, .., keys, values]) = &*of_check;
        let (row, head) = (rows - 1, HEADS / 2);
        let held = part(cache, row * ROW, ROW)?;
        let weight = part(weight, head * 2 * FIXED * LATENT, 2 * FIXED * LATENT)?;
        let products: Vec<f64> = weight.chunks(LATENT).map(|weight| dot(weight, &held[..LATENT])).collect();
        let at = row * HEADS + head;
        compare(&part(keys, at * (FIXED + TURNED), FIXED)?, &products[..FIXED], tolerance(DType::BF16))?;
        compare(&part(keys, at * (FIXED + TURNED) + FIXED, TURNED)?, &held[LATENT..], 0.0)?;
        compare(&part(values, at * FIXED, FIXED)?, &products[FIXED..], tolerance(DType::BF16))
    };
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{rows}x{LATENT} to {HEADS}x({FIXED}+{TURNED}, {FIXED})"),
        bytes: (2 * (rows * ROW + HEADS * 2 * FIXED * LATENT + rows * HEADS * (2 * FIXED + TURNED))) as f64,
        flops: 2.0 * (rows * HEADS * 2 * FIXED * LATENT) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}
