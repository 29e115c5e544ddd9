//! Decoding with keys and values in pages: attention with heads of their own (`pa`), and with latent ones (`mla`). What the former are
//! given is what `paged_attention` of `rocfire-kernels` gives them.

use rocfire_kernels::aiter::{LATENT_BLOCK, LatentDecode, PAGED_BLOCK, PagedDecode};

use super::number_after;
use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object};
use crate::number::{Byte, Half, Random, distance};

/// The cases of a code object.
pub fn cases(object: &Object) -> Vec<Case> {
    match object.name.split_once('/') {
        Some(("pa", _)) => heads(object),
        Some(("mla", _)) => latent(object),
        _ => Vec::new(),
    }
}

/// Elements of a head.
const D: usize = 128;

/// A launch of `pa_{bf16,fp16}_{noquant,pertokenFp8,pertokenInt8}_gqa{8,10,16}_…`.
#[derive(Clone, Debug)]
struct Heads {
    format: Half,
    /// What keys and values are in, where not in `format`.
    narrow: Option<Byte>,
    /// Heads of queries for each of keys.
    group: usize,
    kv_heads: usize,
    /// Keys of a page.
    page: usize,
    /// Queries of a sequence.
    queries: usize,
    /// Whether the last query sees more than those before it.
    is_causal: bool,
    /// Keys of each sequence.
    contexts: Vec<usize>,
}

/// The one that launchers take.
const TAKEN: &str = "pa/pa_bf16_noquant_gqa8_1tg_4w.co";

fn heads(object: &Object) -> Vec<Case> {
    let lengths: [&[usize]; 3] = [&[256, 256], &[300, 77, 16, 129], &[1301, 800, 513]];
    // From 512 keys on page numbers are loaded in the main loop.
    let count = if object.name == TAKEN { 3 } else { 2 };
    lengths.into_iter().take(count).filter_map(|contexts| of_heads(object, contexts, 2)).collect()
}

/// A case of so many keys of each sequence, and so many heads of keys.
pub fn of_heads(object: &Object, contexts: &[usize], kv_heads: usize) -> Option<Case> {
    let name = object.stem();
    let (group, has) = (number_after(name, "_gqa")?, |part: &str| name.contains(part));
    let narrow = match name {
        _ if has("Fp8") => Some(Byte::fp8(object.arch)),
        _ if has("Int8") => Some(Byte::Int),
        _ => None,
    };
    let queries = number_after(name, "_qlen").unwrap_or(if has("_mtp") { 2 } else { 1 });
    let page = if has("_qlen") { 1024 } else { 16 };
    let launch = Heads {
        format: if has("_bf16") { Half::Bf16 } else { Half::F16 },
        narrow,
        group,
        kv_heads,
        page,
        queries,
        is_causal: has("_msk1"),
        contexts: contexts.to_vec(),
    };
    Some(Case {
        object: object.clone(),
        family: "paged attention",
        shape: format!("keys {contexts:?}, pages of {page}, heads {}/{kv_heads}, queries {queries}", group * kv_heads),
        tolerance: match narrow {
            None => 1e-2,
            Some(Byte::Int) => 2e-2,
            Some(_) => 5e-2,
        },
        is_checked: true,
        run: Box::new(move |bench| launch.run(bench)),
    })
}

/// Keys or values: codes, a scale for each row of a head, and what they stand for.
struct Cache {
    /// Bytes as they are in memory.
    bytes: Vec<u8>,
    /// By page, head and row.
    scales: Vec<f32>,
    /// By page, head, row and element.
    values: Vec<f64>,
}

impl Heads {
    /// Random keys (`transposed` false: pieces of elements in order of rows) or values (pieces of rows in order of elements).
    fn cache(&self, random: &mut Random, pages: usize, transposed: bool) -> Cache {
        let rows = pages * self.kv_heads * self.page;
        let raw = random.normals(rows * D, 1.0);
        let (mut values, mut scales) = (Vec::with_capacity(raw.len()), Vec::with_capacity(rows));
        let mut codes: Vec<[u8; 2]> = Vec::with_capacity(raw.len());
        match self.narrow {
            None => {
                let (bits, rounded) = self.format.rounded(&raw);
                values = rounded;
                codes.extend(bits.iter().map(|bits| bits.to_le_bytes()));
            }
            Some(format) => {
                for row in raw.chunks_exact(D) {
                    let largest = row.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
                    let scale = (largest / format.largest()) as f32;
                    let scaled: Vec<f64> = row.iter().map(|value| value / f64::from(scale)).collect();
                    let whole: Vec<f64> =
                        if format == Byte::Int { scaled.iter().map(|v| v.round()).collect() } else { scaled };
                    let (bytes, rounded) = format.rounded(&whole);
                    scales.push(scale);
                    values.extend(rounded.iter().map(|value| value * f64::from(scale)));
                    codes.extend(bytes.iter().map(|&byte| [byte, 0]));
                }
            }
        }
        let width = if self.narrow.is_some() { 1 } else { 2 };
        let piece = 16 / width;
        let mut bytes = Vec::with_capacity(codes.len() * width);
        for head in codes.chunks_exact(self.page * D) {
            let mut push = |row: usize, element: usize| bytes.extend_from_slice(&head[row * D + element][..width]);
            if transposed {
                for (first, element) in (0..self.page).step_by(piece).flat_map(|first| (0..D).map(move |e| (first, e)))
                {
                    (first..first + piece).for_each(|row| push(row, element));
                }
            } else {
                for (first, row) in (0..D).step_by(piece).flat_map(|first| (0..self.page).map(move |row| (first, row)))
                {
                    (first..first + piece).for_each(|element| push(row, element));
                }
            }
        }
        Cache { bytes, scales, values }
    }

    fn run(&self, bench: &Bench) -> Result<f64, Unrun> {
        let mut random = Random::new(8);
        let (batch, heads) = (self.contexts.len(), self.group * self.kv_heads);
        let pages_of = |context: usize| context.div_ceil(self.page);
        let table_row = self.contexts.iter().map(|&context| pages_of(context)).max().unwrap_or(0);
        let pages: usize = self.contexts.iter().map(|&context| pages_of(context)).sum();
        let mut order = random.order(pages).into_iter();
        let mut table = vec![0u32; batch * table_row];
        for (sequence, &context) in self.contexts.iter().enumerate() {
            for page in 0..pages_of(context) {
                table[sequence * table_row + page] = order.next().unwrap_or(0) as u32;
            }
        }
        let (q, q_values) = self.format.rounded(&random.normals(batch * self.queries * heads * D, 1.0));
        let (keys, values) = (self.cache(&mut random, pages, false), self.cache(&mut random, pages, true));
        let out = bench.output(2 * q.len())?;
        let contexts: Vec<u32> = self.contexts.iter().map(|&context| context as u32).collect();
        let starts: Vec<u32> = (0..=batch).map(|sequence| (sequence * self.queries) as u32).collect();
        let (k_scales, v_scales) = match self.narrow {
            Some(_) => (bench.upload(&keys.scales)?, bench.upload(&values.scales)?),
            None => (0, 0),
        };
        let head_bytes = self.page * D * if self.narrow.is_some() { 1 } else { 2 };
        let starts = if bench.argument_bytes() > 240 { bench.upload(&starts)? } else { 0 };
        let decode = PagedDecode {
            out,
            q: bench.upload(&q)?,
            k: bench.upload(&keys.bytes)?,
            v: bench.upload(&values.bytes)?,
            table: bench.upload(&table)?,
            lens: bench.upload(&contexts)?,
            scales: [k_scales, v_scales],
            q_starts: starts,
            scale: 1.0 / (D as f32).sqrt(),
            table_row: table_row as u32,
            kv_heads: self.kv_heads as u32,
            group: self.group as u32,
            q_row: (2 * heads * D) as u32,
            page: (self.kv_heads * head_bytes) as u32,
            head: head_bytes as u32,
        };
        let arguments = Arguments::of(&decode.args()).cut(bench.argument_bytes());
        bench.launch([self.kv_heads, batch, 1], PAGED_BLOCK, &arguments)?;
        let mut reference = Vec::with_capacity(q.len());
        for (row, query) in q_values.chunks_exact(D).enumerate() {
            let (token, head) = (row / heads, row % heads);
            let (sequence, nth) = (token / self.queries, token % self.queries);
            let behind = if self.is_causal { self.queries - 1 - nth } else { 0 };
            let at = |key: usize| {
                let page = table[sequence * table_row + key / self.page] as usize;
                ((page * self.kv_heads + head / self.group) * self.page + key % self.page) * D
            };
            let seen = self.contexts[sequence] - behind;
            let key = |key: usize| &keys.values[at(key)..][..D];
            let value = |key: usize| &values.values[at(key)..][..D];
            // The int8 kernels quantise queries and weights, and cut where they could round: no value is larger for it.
            let whole = |values: &[f64]| -> Vec<f64> {
                let step = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs())) / Byte::Int.largest();
                values.iter().map(|value| (value / step).trunc() * step).collect()
            };
            let query = if self.narrow == Some(Byte::Int) { &whole(query) } else { query };
            let cut = |weights: &mut [f64]| {
                if self.narrow == Some(Byte::Int) {
                    let scale = |key: usize| f64::from(values.scales[at(key) / D]);
                    let scaled: Vec<f64> = (0..seen).map(|key| weights[key] * scale(key)).collect();
                    for (key, value) in whole(&scaled).into_iter().enumerate() {
                        weights[key] = value / scale(key);
                    }
                }
            };
            reference.extend(attend(query, seen, key, value, 1.0 / (D as f64).sqrt(), cut).0);
        }
        Ok(distance(&self.format.values(&bench.download(out, q.len())?), &reference))
    }
}

/// One query's attention, and the natural logarithm of its sum of exponentials.
fn attend<'a>(
    query: &[f64],
    keys: usize,
    key: impl Fn(usize) -> &'a [f64],
    value: impl Fn(usize) -> &'a [f64],
    scale: f64,
    narrow: impl Fn(&mut [f64]),
) -> (Vec<f64>, f64) {
    let score = |at: usize| query.iter().zip(key(at)).map(|(a, b)| a * b).sum::<f64>() * scale;
    let scores: Vec<f64> = (0..keys).map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    narrow(&mut weights);
    let mut out = vec![0.0; value(0).len()];
    for (at, weight) in weights.iter().enumerate() {
        out.iter_mut().zip(value(at)).for_each(|(out, value)| *out += weight / sum * value);
    }
    (out, largest + sum.ln())
}

/// Elements of a latent key, and of the value that it begins with.
const LATENT: usize = 576;
const LATENT_VALUE: usize = 512;

/// A launch of `mla_{a16w16,a16w8,a8w8}_…` that splits the keys.
#[derive(Clone, Debug)]
struct Latent {
    /// fp8 of the queries, and of keys and values; bf16 where there is none.
    queries_in: Option<Byte>,
    keys_in: Option<Byte>,
    heads: usize,
    /// Queries of a sequence.
    queries: usize,
    is_causal: bool,
    /// Rows of queries of a workgroup.
    rows: usize,
    splits: usize,
    page: usize,
    contexts: Vec<usize>,
}

fn latent(object: &Object) -> Vec<Case> {
    let name = object.stem();
    // Persistent ones take a work list, and prefill is another operation.
    if name.contains("_ps") || name.contains("_pfl_") {
        return Vec::new();
    }
    vec![of_latent(object, &[256], 2), of_latent(object, &[200, 333], 2)]
}

/// A case of so many keys of each sequence, in so many parts.
pub fn of_latent(object: &Object, contexts: &[usize], splits: usize) -> Case {
    let name = object.stem();
    let has = |part: &str| name.contains(part);
    let fp8 = Byte::fp8(object.arch);
    let heads = if has("mqa128") || has("qh128") { 128 } else { 16 };
    let queries = match number_after(name, "_qseqlen") {
        Some(queries) => queries,
        None if has("m16x4") => 3,
        None if has("qh16_m32x4") => 6,
        None => 1,
    };
    let launch = Latent {
        queries_in: has("a8w8").then_some(fp8),
        keys_in: (has("a8w8") || has("a16w8")).then_some(fp8),
        heads,
        queries,
        is_causal: queries > 1,
        rows: if has("subQ16") { 16 } else { 128 },
        splits,
        page: 1,
        contexts: contexts.to_vec(),
    };
    Case {
        object: object.clone(),
        family: "latent attention",
        shape: format!("keys {contexts:?}, pages of 1, heads {heads}, queries {queries}, parts {splits}"),
        tolerance: if has("a8w8") { 5e-2 } else { 1e-2 },
        is_checked: true,
        run: Box::new(move |bench| launch.run(bench)),
    }
}

/// Values in fp8 or bf16: the bytes, and what they stand for.
fn narrowed(values: &[f64], format: Option<Byte>) -> (Vec<u8>, Vec<f64>) {
    match format {
        Some(format) => format.rounded(values),
        None => {
            let (bits, values) = Half::Bf16.rounded(values);
            (bits.iter().flat_map(|bits| bits.to_le_bytes()).collect(), values)
        }
    }
}

impl Latent {
    fn run(&self, bench: &Bench) -> Result<f64, Unrun> {
        let mut random = Random::new(9);
        let (batch, rows) = (self.contexts.len(), self.contexts.len() * self.queries * self.heads);
        let pages_of = |context: usize| context.div_ceil(self.page);
        let pages: usize = self.contexts.iter().map(|&context| pages_of(context)).sum();
        let order: Vec<u32> = random.order(pages).into_iter().map(|page| page as u32).collect();
        let mut starts = vec![0u32];
        self.contexts.iter().for_each(|&context| starts.push(starts[starts.len() - 1] + pages_of(context) as u32));
        let last: Vec<u32> =
            self.contexts.iter().map(|&context| (context - (pages_of(context) - 1) * self.page) as u32).collect();
        let (q, q_values) = narrowed(&random.normals(rows * LATENT, 1.0), self.queries_in);
        let (kv, kv_values) = narrowed(&random.normals(pages * self.page * LATENT, 1.0), self.keys_in);
        let (q_scale, kv_scale) = (0.75f32, 1.25f32);
        let scale = 1.0 / (192f64).sqrt();
        // Parts that no keys fall to are not written: they weigh nothing.
        let parts = rows * self.splits;
        let (out, sums) = (bench.zeros(4 * parts * LATENT_VALUE)?, bench.upload(&vec![f32::NEG_INFINITY; parts])?);
        let query_starts: Vec<u32> = (0..=batch).map(|sequence| (sequence * self.queries) as u32).collect();
        let split_starts: Vec<u32> = (0..=batch).map(|sequence| (sequence * self.splits) as u32).collect();
        let whole = bench.output(2 * rows * LATENT_VALUE)?;
        let widths = [self.queries_in, self.keys_in].map(|format| if format.is_some() { 1 } else { 2 });
        let decode = LatentDecode {
            parts: out,
            lse: sums,
            q: bench.upload(&q)?,
            rows: bench.upload(&kv)?,
            starts: bench.upload(&starts)?,
            list: bench.upload(&order)?,
            last: bench.upload(&last)?,
            q_starts: bench.upload(&query_starts)?,
            split_starts: bench.upload(&split_starts)?,
            whole,
            scales: [bench.upload(&[q_scale])?, bench.upload(&[kv_scale])?],
            scale: scale as f32,
            heads: (self.heads * self.queries) as u32,
            splits: self.splits as u32,
            q_row: (self.queries * self.heads * LATENT * widths[0]) as u32,
            row: (self.page * LATENT * widths[1]) as u32,
            page_shift: self.page.ilog2(),
        };
        let arguments = Arguments::of(&decode.args()).cut(bench.argument_bytes());
        let grid = [(self.queries * self.heads).div_ceil(self.rows), batch, self.splits];
        bench.launch(grid, LATENT_BLOCK, &arguments)?;
        let (q_scale, kv_scale) = match self.queries_in {
            Some(_) => (f64::from(q_scale), f64::from(kv_scale)),
            None => (1.0, 1.0),
        };
        let found_sums = bench.download::<f32>(sums, parts)?;
        let found_parts = bench.download::<f32>(out, parts * LATENT_VALUE)?;
        let (mut found, mut reference) = (Vec::new(), Vec::new());
        for (row, query) in q_values.chunks_exact(LATENT).enumerate() {
            let (token, head) = (row / self.heads, row % self.heads);
            let (sequence, nth) = (token / self.queries, token % self.queries);
            let behind = if self.is_causal { self.queries - 1 - nth } else { 0 };
            let at = |key: usize| {
                let page = order[starts[sequence] as usize + key / self.page] as usize;
                (page * self.page + key % self.page) * LATENT
            };
            let seen = self.contexts[sequence] - behind;
            let key = |key: usize| &kv_values[at(key)..][..LATENT];
            let value = |key: usize| &kv_values[at(key)..][..LATENT_VALUE];
            let (values, _) = attend(query, seen, key, value, scale * q_scale * kv_scale, |_| ());
            reference.extend(values.iter().map(|value| value * kv_scale));
            // The parts, put together as AMD's host does.
            let place = |split: usize| (token * self.splits + split) * self.heads + head;
            let sums: Vec<f64> = (0..self.splits).map(|split| f64::from(found_sums[place(split)])).collect();
            let largest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = sums.iter().map(|sum| (sum - largest).exp()).sum();
            let part = |split: usize, i: usize| f64::from(found_parts[place(split) * LATENT_VALUE + i]);
            found.extend((0..LATENT_VALUE).map(|i| {
                (0..self.splits).map(|split| (sums[split] - largest).exp() / total * part(split, i)).sum::<f64>()
            }));
        }
        Ok(distance(&found, &reference))
    }
}
