//! What serving runs beside products: decoding over a cache on pages, tokens written into it, sequences gathered from it.
//!
//! Pages lie in no order. Lengths are balanced, or those of one long sequence among short ones. Bytes count keys and values once.

use std::rc::Rc;

use half::bf16;
use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::attention::{PagedInputs, PagedParams, paged_attention};
use rocfire_kernels::cache::{Cache, CacheCodes, CacheLayout, CacheMut, LatentCodes, Pages, ScaleRule, gather, write};
use rocfire_kernels::quant::Format;

use crate::op::{Error, Make, Op, ROTATION_BYTES, compare, filled, tolerance};

const KV_HEADS: usize = 8;
const DEPTH: usize = 128;
const BLOCK: usize = 16;
const SEQUENCES: usize = 64;
/// Rows whose results are compared with the reference.
const CHECKED: usize = 4;

/// Heads, and how keys and values lie.
#[derive(Clone, Copy)]
struct Form {
    heads: usize,
    kv_heads: usize,
    /// Channels of keys and of values.
    depths: [usize; 2],
    layout: CacheLayout,
    format: Option<Format>,
    /// Whether values are the first channels of keys.
    is_latent: bool,
}

const GROUPED: Form = Form {
    heads: 32,
    kv_heads: KV_HEADS,
    depths: [DEPTH, DEPTH],
    layout: CacheLayout::Nhd,
    format: None,
    is_latent: false,
};
/// DeepSeek's, absorbed.
const LATENT: Form = Form { heads: 128, kv_heads: 1, depths: [576, 512], is_latent: true, ..GROUPED };
const FP8: Option<Format> = Some(Format::E4M3);

/// Keys of each sequence.
#[derive(Clone, Copy)]
enum Lengths {
    Alike(usize),
    /// One of so many, the others of so many.
    OneLong(usize, usize),
}

pub const OPS: &[Make] = &[
    ("paged decode bf16", |d, n| decode(d, n, Lengths::Alike(4096), GROUPED)),
    ("paged decode bf16", |d, n| decode(d, n, Lengths::Alike(1528), GROUPED)),
    ("paged decode bf16, one long", |d, n| decode(d, n, Lengths::OneLong(65536, 512), GROUPED)),
    ("paged decode bf16 HND", |d, n| decode(d, n, Lengths::Alike(4096), Form { layout: CacheLayout::Hnd, ..GROUPED })),
    ("paged decode bf16 packed", |d, n| {
        decode(d, n, Lengths::Alike(4096), Form { layout: CacheLayout::Packed, ..GROUPED })
    }),
    ("paged decode fp8", |d, n| decode(d, n, Lengths::Alike(4096), Form { format: FP8, ..GROUPED })),
    ("paged decode i8", |d, n| decode(d, n, Lengths::Alike(4096), Form { format: Some(Format::I8), ..GROUPED })),
    ("mla decode bf16", |d, n| decode(d, n, Lengths::Alike(4096), LATENT)),
    ("mla decode bf16", |d, n| decode(d, n, Lengths::Alike(4096), Form { heads: 16, ..LATENT })),
    ("mla decode fp8", |d, n| decode(d, n, Lengths::Alike(4096), Form { format: FP8, ..LATENT })),
    ("cache write bf16", |d, n| written(d, n, None)),
    ("cache write fp8", |d, n| written(d, n, FP8)),
    ("cache gather bf16", |d, n| gathered(d, n, None)),
    ("cache gather fp8", |d, n| gathered(d, n, FP8)),
];

impl Lengths {
    fn all(self) -> Vec<usize> {
        match self {
            Lengths::Alike(keys) => vec![keys; SEQUENCES],
            Lengths::OneLong(long, short) => {
                (0..SEQUENCES).map(|sequence| if sequence == SEQUENCES / 2 { long } else { short }).collect()
            }
        }
    }

    fn text(self, form: Form) -> String {
        let Form { heads, kv_heads, depths: [depth, _], .. } = form;
        match self {
            Lengths::Alike(keys) => format!("{SEQUENCES}x{keys} {heads}/{kv_heads}x{depth}"),
            Lengths::OneLong(long, short) => {
                format!("{long}, {}x{short} {heads}/{kv_heads}x{depth}", SEQUENCES - 1)
            }
        }
    }
}

fn integers(device: &Device, shape: &[usize], values: impl Iterator<Item = usize>) -> Result<Tensor, Error> {
    let bytes: Vec<u8> = values.flat_map(|value| (value as i32).to_le_bytes()).collect();
    Ok(Tensor::from_bytes(device, shape, DType::I32, &bytes)?)
}

/// A cache that holds so many keys of each sequence, and where they are.
struct Paged {
    form: Form,
    lens: Vec<usize>,
    numbers: Vec<Vec<usize>>,
    k: Tensor,
    v: Tensor,
    scale: Tensor,
    table: Tensor,
    lens_there: Tensor,
}

impl Paged {
    fn new(device: &Device, lens: &[usize], form: Form, seed: u64) -> Result<Paged, Error> {
        let Form { kv_heads, depths: [depth, _], layout, format, .. } = form;
        let dtype = if format.is_some() { DType::U8 } else { DType::BF16 };
        let pages: usize = lens.iter().map(|len| len.div_ceil(BLOCK)).sum();
        // A number that has nothing in common with that of pages steps through all of them.
        let step = (1..).map(|n| 7919 + 2 * n).find(|step| gcd(*step, pages) == 1).expect("there is a prime");
        let mut next = 0;
        let mut page = || {
            next += 1;
            next * step % pages
        };
        let numbers: Vec<Vec<usize>> =
            lens.iter().map(|len| (0..len.div_ceil(BLOCK)).map(|_| page()).collect()).collect();
        let width = numbers.iter().map(Vec::len).max().unwrap_or(0);
        let row = |pages: &Vec<usize>| (0..width).map(|n| pages.get(n).copied().unwrap_or(0)).collect::<Vec<_>>();
        let table = integers(device, &[lens.len(), width], numbers.iter().flat_map(row))?;
        let lens_there = integers(device, &[lens.len()], lens.iter().copied())?;
        let [k_shape, v_shape] = layout.shapes([pages, BLOCK, kv_heads, depth], dtype);
        let plane = |shape: &[usize], seed: u64| -> Result<Tensor, Error> {
            if format.is_none() {
                return filled(device, shape, dtype, seed);
            }
            // Every code but those of no number, in turn.
            let count = shape.iter().product::<usize>();
            let bytes: Vec<u8> = (0..count).map(|n| (n * 37 % 127) as u8 | ((n & 1) << 7) as u8).collect();
            Ok(Tensor::from_bytes(device, shape, dtype, &bytes)?)
        };
        let k = plane(&k_shape, seed)?;
        let v = if form.is_latent { k.clone() } else { plane(&v_shape, seed + 1)? };
        let scale = Tensor::from_bytes(device, &[1], DType::F32, &0.004f32.to_le_bytes())?;
        Ok(Paged { form, lens: lens.to_vec(), numbers, k, v, scale, table, lens_there })
    }

    fn codes(&self) -> Option<CacheCodes<'_>> {
        let scale = self.scale.view();
        self.form.format.map(|format| CacheCodes { format, k_scales: scale, v_scales: scale })
    }

    fn cache(&self) -> Result<Cache<'_>, Error> {
        let Form { depths: [_, latent], layout, format, is_latent, .. } = self.form;
        if is_latent {
            let codes = format.map(|format| LatentCodes { format, scales: self.scale.view() });
            return Ok(Cache::latent(self.k.view(), latent, codes)?);
        }
        Ok(Cache::new(self.k.view(), self.v.view(), layout, self.codes())?)
    }

    fn pages(&self) -> Pages<'_> {
        Pages::Table { pages: self.table.view(), lens: self.lens_there.view() }
    }

    fn most(&self) -> usize {
        self.lens.iter().copied().max().unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        let Form { kv_heads, depths: [depth, value_depth], is_latent, .. } = self.form;
        let channels = if is_latent { depth } else { depth + value_depth };
        self.lens.iter().sum::<usize>() * kv_heads * channels * self.k.dtype().size_bytes()
    }

    /// A key's head as numbers, of the bytes of a plane that has channels in rows.
    fn row(&self, bytes: &[u8], sequence: usize, key: usize, head: usize) -> Vec<f64> {
        let Form { kv_heads, depths: [depth, _], layout, .. } = self.form;
        let (page, offset) = (self.numbers[sequence][key / BLOCK], key % BLOCK);
        let at = match layout {
            CacheLayout::Hnd => ((page * kv_heads + head) * BLOCK + offset) * depth,
            _ => ((page * BLOCK + offset) * kv_heads + head) * depth,
        };
        (at..at + depth).map(|at| self.number(bytes, at)).collect()
    }

    fn number(&self, bytes: &[u8], at: usize) -> f64 {
        let scale = f64::from(0.004f32);
        match self.form.format {
            None => bf16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f64(),
            Some(Format::I8) => f64::from(bytes[at] as i8) * scale,
            Some(_) => {
                let (exponent, fraction) = (i32::from(bytes[at] >> 3 & 15), f64::from(bytes[at] & 7));
                let size = if exponent == 0 { fraction / 8.0 } else { 1.0 + fraction / 8.0 };
                let size = size * 2f64.powi(exponent.max(1) - 7) * scale;
                if bytes[at] & 0x80 != 0 { -size } else { size }
            }
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn decode(device: &Device, name: &'static str, lengths: Lengths, form: Form) -> Result<Op, Error> {
    let Form { heads, depths: [depth, value_depth], .. } = form;
    let lens = lengths.all();
    let first = Paged::new(device, &lens, form, 1)?;
    let (bytes, count) = (first.bytes(), ROTATION_BYTES.div_ceil(first.bytes()).max(2));
    let mut sets = vec![first];
    for set in 1..count {
        sets.push(Paged::new(device, &lens, form, 10 * set as u64)?);
    }
    let q = filled(device, &[SEQUENCES, heads, depth], DType::BF16, 5)?;
    let out = Tensor::empty(device, &[SEQUENCES, heads, value_depth], DType::BF16)?;
    let all = Rc::new((device.clone(), sets, q, out));
    let of_check = all.clone();
    let launch = move |n: usize| -> Result<(), Error> {
        let (device, sets, q, out) = &*all;
        let set = &sets[n % sets.len()];
        let read = PagedInputs::new(q.view(), set.cache()?, set.pages(), set.most());
        let mut out = out.clone();
        Ok(paged_attention(device.stream(), &read, &PagedParams::default(), out.view_mut(), None, None)?)
    };
    let check = move || -> Result<(), Error> {
        let (_, sets, q, out) = &*of_check;
        check_decode(&sets[0], q, out)
    };
    let keys: usize = lens.iter().sum();
    Ok(Op {
        name: name.to_owned(),
        shape: lengths.text(form),
        bytes: (bytes + SEQUENCES * heads * (depth + value_depth) * 2) as f64,
        flops: 2.0 * (keys * heads * (depth + value_depth)) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn check_decode(set: &Paged, q: &Tensor, out: &Tensor) -> Result<(), Error> {
    let Form { heads, kv_heads, depths: [depth, value_depth], layout, .. } = set.form;
    if layout == CacheLayout::Packed {
        // The cases of the tests have this layout; here rows would be gathered element by element.
        return Ok(());
    }
    let [k, v, q, out] = [&set.k, &set.v, q, out].map(Tensor::to_bytes);
    let (k, v, q, out) = (k?, v?, q?, out?);
    let float = |bytes: &[u8], at: usize| bf16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f64();
    for number in 0..CHECKED {
        let sequence = (SEQUENCES - 1) * number / (CHECKED - 1);
        let head = (heads - 1) * number / (CHECKED - 1);
        let (row, kv_head) = (sequence * heads + head, head / (heads / kv_heads));
        let own: Vec<f64> = (row * depth..(row + 1) * depth).map(|at| float(&q, at)).collect();
        let score = |key: usize| -> f64 {
            let row = set.row(&k, sequence, key, kv_head);
            own.iter().zip(row).map(|(a, b)| a * b).sum::<f64>() / (depth as f64).sqrt()
        };
        let scores: Vec<f64> = (0..set.lens[sequence]).map(score).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut expected = vec![0.0; value_depth];
        for (key, weight) in weights.iter().enumerate() {
            let row = set.row(&v, sequence, key, kv_head);
            expected.iter_mut().zip(row).for_each(|(sum, v)| *sum += weight / total * v);
        }
        let got: Vec<f64> = (row * value_depth..(row + 1) * value_depth).map(|at| float(&out, at)).collect();
        compare(&got, &expected, tolerance(DType::BF16))?;
    }
    Ok(())
}

/// Tokens of a large prompt.
const TOKENS: usize = 32768;

fn written(device: &Device, name: &'static str, format: Option<Format>) -> Result<Op, Error> {
    let make = |seed: u64| -> Result<_, Error> {
        let set = Paged::new(device, &[TOKENS], Form { format, ..GROUPED }, seed)?;
        let rows = filled(device, &[TOKENS, 2 * KV_HEADS, DEPTH], DType::BF16, seed + 2)?;
        Ok((set, rows))
    };
    let sets = (0..8).map(|set| make(4 * set + 1)).collect::<Result<Vec<_>, _>>()?;
    let slots: Vec<u8> = (0..TOKENS)
        .flat_map(|token| ((sets[0].0.numbers[0][token / BLOCK] * BLOCK + token % BLOCK) as i64).to_le_bytes())
        .collect();
    let slots = Tensor::from_bytes(device, &[TOKENS], DType::I64, &slots)?;
    let all = Rc::new((device.clone(), sets, slots));
    let of_check = all.clone();
    let launch = move |n: usize| -> Result<(), Error> {
        let (device, sets, slots) = &*all;
        let (set, rows) = &sets[n % sets.len()];
        let half = |first: usize| rows.layout().slice(1, first, first + KV_HEADS, 1);
        let (key, value) = (rows.view().with_layout(half(0)?)?, rows.view().with_layout(half(KV_HEADS)?)?);
        let (mut k, mut v) = (set.k.clone(), set.v.clone());
        let mut cache = CacheMut::new(k.view_mut(), v.view_mut(), set.form.layout, set.codes())?;
        Ok(write(device.stream(), key, value, &mut cache, slots.view(), ScaleRule::Given)?)
    };
    let check = move || -> Result<(), Error> {
        let (set, rows) = &of_check.1[0];
        let (k, rows) = (set.k.to_bytes()?, rows.to_bytes()?);
        for token in [0, TOKENS / 3, TOKENS - 1] {
            let at = token * 2 * KV_HEADS * DEPTH;
            let float = |at: usize| bf16::from_le_bytes([rows[2 * at], rows[2 * at + 1]]).to_f64();
            let expected: Vec<f64> = (at..at + DEPTH).map(float).collect();
            let allowed = if set.form.format.is_some() { 0.05 } else { 0.0 };
            let reach = if set.form.format.is_some() { f64::from(0.004f32) * 448.0 } else { f64::MAX };
            let expected: Vec<f64> = expected.iter().map(|x| x.clamp(-reach, reach)).collect();
            compare(&set.row(&k, 0, token, 0), &expected, allowed)?;
        }
        Ok(())
    };
    let elements = 2 * TOKENS * KV_HEADS * DEPTH;
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{TOKENS}x{KV_HEADS}x{DEPTH}"),
        bytes: (elements * (2 + if format.is_some() { 1 } else { 2 })) as f64,
        flops: 0.0,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn gathered(device: &Device, name: &'static str, format: Option<Format>) -> Result<Op, Error> {
    let lens = [4096; 16];
    let rows: usize = lens.iter().sum();
    let sets = (0..4)
        .map(|set| Paged::new(device, &lens, Form { format, ..GROUPED }, 4 * set + 1))
        .collect::<Result<Vec<_>, _>>()?;
    let starts = integers(device, &[lens.len() + 1], (0..=lens.len()).map(|sequence| sequence * lens[0]))?;
    let empty = || Tensor::empty(device, &[rows, KV_HEADS, DEPTH], DType::BF16);
    let outputs = (0..4).map(|_| Ok([empty()?, empty()?])).collect::<Result<Vec<_>, Error>>()?;
    let all = Rc::new((device.clone(), sets, starts, outputs));
    let of_check = all.clone();
    let launch = move |n: usize| -> Result<(), Error> {
        let (device, sets, starts, outputs) = &*all;
        let (set, [key, value]) = (&sets[n % sets.len()], &outputs[n % sets.len()]);
        let (mut key, mut value) = (key.clone(), value.clone());
        let stream = device.stream();
        Ok(gather(stream, &set.cache()?, &set.pages(), starts.view(), set.most(), key.view_mut(), value.view_mut())?)
    };
    let check = move || -> Result<(), Error> {
        let (set, v, out) = (&of_check.1[0], of_check.1[0].v.to_bytes()?, of_check.3[0][1].to_bytes()?);
        for (sequence, key) in [(0, 0), (3, 1000), (15, 4095)] {
            let at = (sequence * lens[0] + key) * KV_HEADS * DEPTH;
            let got: Vec<f64> =
                (at..at + DEPTH).map(|at| bf16::from_le_bytes([out[2 * at], out[2 * at + 1]]).to_f64()).collect();
            compare(&got, &set.row(&v, sequence, key, 0), if set.form.format.is_some() { 0.005 } else { 0.0 })?;
        }
        Ok(())
    };
    let elements = 2 * rows * KV_HEADS * DEPTH;
    Ok(Op {
        name: name.to_owned(),
        shape: format!("16x4096x{KV_HEADS}x{DEPTH}"),
        bytes: (elements * (2 + if format.is_some() { 1 } else { 2 })) as f64,
        flops: 0.0,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}
