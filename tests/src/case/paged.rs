//! Attention over a cache on pages: lengths around splits and pages, shared heads, several queries, every layout and format, all that
//! hides a key, slots in place of pages.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::attention::{PagedInputs, PagedParams, Queries, QueryCodes, paged_attention};
use rocfire_kernels::cache::{Cache, CacheLayout, LatentCodes, Pages};
use rocfire_kernels::quant::Format;

use super::cache::{Form, Scales, page_arrays, page_numbers, pages_of};
use super::grouped_codes::{number, numbers};
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};
use crate::oracle::{dot, sum};

/// By what keys are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Table,
    List,
    /// Every third slot is no key. Rows end in no keys, or are as long as they say.
    Slots {
        has_lens: bool,
    },
}

/// What a case asks for.
#[derive(Clone, Copy, Debug)]
struct Spec {
    /// Queries and keys of each sequence.
    sequences: &'static [(usize, usize)],
    heads: usize,
    kv_heads: usize,
    depths: [usize; 2],
    block: usize,
    layout: CacheLayout,
    codes: Option<(Format, Scales)>,
    found: Found,
    softcap: Option<f64>,
    window: Option<usize>,
    slopes: bool,
    sinks: bool,
    /// Whether the forward's own keys have a bias, which hides some.
    bias: bool,
    /// Whether values are the first channels of keys, in one plane.
    latent: bool,
    /// Of queries that are codes.
    q_format: Option<Format>,
    /// Whether logarithms of sums are asked for.
    lse: bool,
}

const PLAIN: Spec = Spec {
    sequences: &[(1, 57)],
    heads: 4,
    kv_heads: 1,
    depths: [64, 64],
    block: 16,
    layout: CacheLayout::Nhd,
    codes: None,
    found: Found::Table,
    softcap: None,
    window: None,
    slopes: false,
    sinks: false,
    bias: false,
    latent: false,
    q_format: None,
    lse: true,
};

/// MLA, absorbed: every head reads the one row of a key.
const LATENT: Spec = Spec { heads: 16, depths: [576, 512], latent: true, ..PLAIN };

const SLOTS: Found = Found::Slots { has_lens: true };
/// The same of chosen keys.
const SPARSE: Spec = Spec { found: Found::Slots { has_lens: false }, ..LATENT };

const fn coded(spec: Spec, format: Format, scales: Scales) -> Spec {
    Spec { codes: Some((format, scales)), ..spec }
}

/// A key, none, around a page, around a split, many splits; every head size's team, every number of rows.
const SIZES: [Spec; 76] = [
    Spec { sequences: &[(1, 3), (1, 5)], heads: 2, depths: [8, 8], block: 4, ..PLAIN },
    Spec { sequences: &[(1, 1)], heads: 1, ..PLAIN },
    PLAIN,
    Spec { sequences: &[(1, 7), (1, 0), (1, 26)], heads: 8, depths: [128, 128], ..PLAIN },
    Spec { sequences: &[(1, 109), (1, 511), (1, 512), (1, 513)], heads: 4, kv_heads: 2, ..PLAIN },
    Spec { sequences: &[(1, 577), (1, 128)], heads: 16, kv_heads: 2, depths: [128, 128], block: 32, ..PLAIN },
    Spec { sequences: &[(1, 1300)], heads: 4, kv_heads: 1, depths: [128, 128], ..PLAIN },
    Spec { sequences: &[(1, 530), (1, 3)], heads: 2, depths: [256, 256], found: Found::List, ..PLAIN },
    Spec { sequences: &[(1, 40), (1, 17)], heads: 10, depths: [128, 128], block: 1, found: Found::List, ..PLAIN },
    Spec { sequences: &[(1, 70)], heads: 6, kv_heads: 3, depths: [32, 32], ..PLAIN },
    Spec { sequences: &[(1, 300)], depths: [80, 80], block: 7, ..PLAIN },
    Spec { sequences: &[(1, 65)], depths: [192, 128], ..PLAIN },
    Spec { sequences: &[(1, 65)], depths: [96, 112], heads: 32, kv_heads: 4, ..PLAIN },
    Spec { sequences: &[(1, 270)], depths: [8, 8], heads: 2, ..PLAIN },
    Spec { sequences: &[(1, 270)], layout: CacheLayout::Hnd, ..PLAIN },
    Spec { sequences: &[(1, 270), (1, 31)], layout: CacheLayout::Packed, ..PLAIN },
    Spec { sequences: &[(1, 270)], layout: CacheLayout::PackedBoth, depths: [128, 128], ..PLAIN },
    Spec { sequences: &[(1, 30)], layout: CacheLayout::Packed, block: 6, ..PLAIN },
    // Several queries, of which the first see less; more of them than keys; sequences of their own numbers.
    Spec { sequences: &[(2, 513), (2, 40)], depths: [128, 128], ..PLAIN },
    Spec { sequences: &[(4, 58), (4, 2)], heads: 8, kv_heads: 4, ..PLAIN },
    Spec { sequences: &[(1, 58), (3, 600), (0, 9), (7, 7)], heads: 2, ..PLAIN },
    Spec { sequences: &[(40, 300), (1, 20)], heads: 2, kv_heads: 2, depths: [32, 32], ..PLAIN },
    Spec { sequences: &[(4, 290), (4, 33)], bias: true, ..PLAIN },
    Spec { sequences: &[(1, 300), (1, 12)], window: Some(10), ..PLAIN },
    Spec { sequences: &[(3, 1100)], window: Some(600), ..PLAIN },
    Spec { sequences: &[(1, 300)], softcap: Some(1.5), window: Some(200), slopes: true, ..PLAIN },
    Spec { sequences: &[(2, 600), (2, 0)], heads: 2, sinks: true, slopes: true, ..PLAIN },
    Spec { sequences: &[(1, 100), (1, 0)], sinks: true, softcap: Some(30.0), depths: [128, 128], ..PLAIN },
    coded(Spec { sequences: &[(1, 582), (1, 5)], depths: [128, 128], ..PLAIN }, Format::E4M3, Scales::Tensor),
    coded(Spec { sequences: &[(1, 282), (1, 5)], ..PLAIN }, Format::E4M3Fnuz, Scales::Token),
    coded(Spec { sequences: &[(1, 100)], heads: 8, kv_heads: 4, ..PLAIN }, Format::I8, Scales::Token),
    coded(Spec { sequences: &[(2, 300)], layout: CacheLayout::Packed, ..PLAIN }, Format::E4M3, Scales::Block),
    coded(Spec { sequences: &[(1, 90)], layout: CacheLayout::PackedBoth, ..PLAIN }, Format::I8, Scales::Tensor),
    coded(
        Spec { sequences: &[(1, 90)], layout: CacheLayout::Hnd, depths: [256, 256], ..PLAIN },
        Format::E5M2,
        Scales::Token,
    ),
    coded(Spec { sequences: &[(1, 90), (1, 0)], sinks: true, ..PLAIN }, Format::E5M2Fnuz, Scales::Block),
    // Heads above 256: of several turns of a team.
    Spec { sequences: &[(1, 70), (1, 3)], heads: 2, depths: [512, 512], ..PLAIN },
    Spec { sequences: &[(2, 33)], heads: 2, depths: [264, 64], block: 5, ..PLAIN },
    Spec { sequences: &[(1, 40)], heads: 2, depths: [320, 296], layout: CacheLayout::Packed, ..PLAIN },
    coded(
        Spec { sequences: &[(1, 40)], depths: [512, 512], layout: CacheLayout::Hnd, ..PLAIN },
        Format::I8,
        Scales::Token,
    ),
    Spec { sequences: &[(1, 21), (1, 0), (1, 64)], block: 1, found: Found::List, ..LATENT },
    Spec { sequences: &[(1, 600)], heads: 3, ..LATENT },
    Spec { sequences: &[(2, 65), (1, 9)], block: 64, heads: 17, ..LATENT },
    Spec { sequences: &[(4, 30)], softcap: Some(2.0), sinks: true, window: Some(20), heads: 4, ..LATENT },
    Spec { sequences: &[(1, 50)], depths: [256, 128], ..LATENT },
    coded(Spec { sequences: &[(1, 90)], heads: 8, ..LATENT }, Format::E4M3, Scales::Tensor),
    // More rows than a workgroup has; several of its groups of them, and all that hides a key there.
    Spec { sequences: &[(1, 70), (1, 0), (1, 1)], heads: 128, depths: [192, 128], ..LATENT },
    Spec { sequences: &[(3, 1100), (1, 33)], heads: 24, depths: [320, 256], window: Some(1030), block: 64, ..LATENT },
    Spec { sequences: &[(5, 90), (5, 3)], depths: [192, 128], bias: true, slopes: true, softcap: Some(3.0), ..LATENT },
    coded(
        Spec { sequences: &[(2, 70), (2, 1)], heads: 40, depths: [192, 128], sinks: true, ..LATENT },
        Format::I8,
        Scales::Tensor,
    ),
    // A slot, none of several, a prime, around a tile of keys, around a wave, around a split; lanes and tiles.
    Spec { sequences: &[(1, 1)], heads: 1, ..SPARSE },
    Spec { sequences: &[(1, 31), (1, 0), (1, 33)], heads: 3, ..SPARSE },
    Spec { sequences: &[(1, 31), (1, 1), (1, 33), (1, 2)], block: 1, ..SPARSE },
    Spec { sequences: &[(1, 63), (1, 0), (1, 65)], heads: 128, depths: [192, 128], ..SPARSE },
    Spec { sequences: &[(1, 1023), (1, 1025)], heads: 17, depths: [192, 128], found: SLOTS, sinks: true, ..SPARSE },
    Spec { sequences: &[(1, 0), (1, 0)], found: SLOTS, depths: [192, 128], ..SPARSE },
    Spec { sequences: &[(1, 1030)], heads: 2, softcap: Some(2.0), depths: [192, 128], found: SLOTS, ..SPARSE },
    coded(Spec { sequences: &[(1, 70), (1, 9)], heads: 24, block: 64, ..SPARSE }, Format::E4M3, Scales::Tensor),
    Spec { sequences: &[(1, 37), (1, 127)], kv_heads: 2, layout: CacheLayout::Packed, found: SLOTS, ..PLAIN },
    // Queries of codes, by a cache of codes and of floats.
    coded(Spec { sequences: &[(1, 70), (1, 0)], q_format: Some(Format::E4M3), ..LATENT }, Format::E4M3, Scales::Tensor),
    Spec { sequences: &[(2, 33)], depths: [192, 128], q_format: Some(Format::E4M3Fnuz), ..LATENT },
    Spec { sequences: &[(1, 9)], q_format: Some(Format::E5M2), sinks: true, ..PLAIN },
    // Several tiles of keys, and all that hides one, with the models' channels.
    Spec { sequences: &[(2, 150), (1, 64)], heads: 40, window: Some(100), ..LATENT },
    Spec { sequences: &[(3, 90)], heads: 24, bias: true, slopes: true, sinks: true, ..LATENT },
    // A tile that begins where the first query's window does: the last one sees only a part of it.
    Spec { sequences: &[(4, 290)], window: Some(159), ..PLAIN },
    // One scale for all keys.
    coded(
        Spec { sequences: &[(1, 582), (1, 0)], depths: [128, 128], sinks: true, ..PLAIN },
        Format::I8,
        Scales::Tensor,
    ),
    coded(
        Spec { sequences: &[(4, 290), (4, 33)], bias: true, window: Some(70), ..PLAIN },
        Format::E5M2,
        Scales::Tensor,
    ),
    // Of each head two workgroups, that have two splits and one.
    coded(
        Spec { sequences: &[(1, 1300), (1, 3), (1, 513)], heads: 4, kv_heads: 4, ..PLAIN },
        Format::E4M3,
        Scales::Tensor,
    ),
    coded(Spec { sequences: &[(2, 90)], depths: [40, 24], softcap: Some(1.5), ..PLAIN }, Format::I8, Scales::Tensor),
    // More splits than one wave adds up alone.
    Spec { sequences: &[(1, 4611), (1, 4096)], heads: 2, ..PLAIN },
    // Whole tiles with a scale for each key, over several splits; and pages that have half of a tile.
    coded(
        Spec {
            sequences: &[(1, 1100), (1, 3), (3, 600)],
            heads: 16,
            kv_heads: 2,
            depths: [128, 128],
            block: 32,
            ..PLAIN
        },
        Format::E4M3Fnuz,
        Scales::Token,
    ),
    Spec { sequences: &[(1, 700), (5, 40)], heads: 8, kv_heads: 2, depths: [128, 128], block: 8, ..PLAIN },
    // Without logarithms of sums; heads enough for a whole card, as AITER's kernel has them.
    Spec { sequences: &[(1, 33), (1, 0)], layout: CacheLayout::Hnd, found: Found::List, lse: false, ..PLAIN },
    Spec {
        sequences: &MANY,
        heads: 64,
        kv_heads: 8,
        depths: [128, 128],
        layout: CacheLayout::PackedBoth,
        lse: false,
        ..PLAIN
    },
    // More latents than are found at once, of 16 rows and of 32; values of other lanes' channels, and codes of 64 rows.
    Spec { sequences: &[(1, 1100), (2, 70)], depths: [320, 256], window: Some(1060), ..LATENT },
    Spec { sequences: &[(1, 45)], heads: 33, depths: [448, 384], softcap: Some(3.0), ..LATENT },
    coded(Spec { sequences: &[(1, 66)], heads: 72, ..LATENT }, Format::E4M3Fnuz, Scales::Token),
];

/// Lengths around pages, around tiles of 256 keys and of 512, and none; 38 by 8 heads of keys are the units of an MI300X.
const MANY: [(usize, usize); 38] = {
    let mut all = [(1, 1); 38];
    let lens = [770, 0, 256, 257, 16, 17, 15, 513, 0, 33];
    let mut at = 0;
    while at < all.len() {
        all[at].1 = if at < lens.len() { lens[at] } else { at % 12 };
        at += 1;
    }
    all
};

const TYPES: [DType; 3] = [DType::BF16, DType::F16, DType::F32];
/// Of queries that are codes, which are up to 16.
const Q_SCALE: f64 = 0.078125;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, spec) in SIZES.into_iter().enumerate() {
        cases.push(paged(TYPES[turn % 3], spec));
        if turn % 3 == 1 {
            cases.push(paged(TYPES[(turn + 1) % 3], spec));
        }
    }
    cases
}

impl Spec {
    fn lens(&self) -> Vec<usize> {
        self.sequences.iter().map(|&(_, keys)| keys).collect()
    }

    fn tokens(&self) -> usize {
        self.sequences.iter().map(|&(queries, _)| queries).sum()
    }

    fn q_most(&self) -> usize {
        self.sequences.iter().map(|&(queries, _)| queries).max().unwrap_or(0)
    }

    fn is_ragged(&self) -> bool {
        self.sequences.iter().any(|&(queries, _)| queries != self.q_most())
    }

    /// The slots of each sequence's keys, `None` where one is no key.
    fn slots(&self) -> Vec<Vec<Option<usize>>> {
        let (form, lens) = (self.form(), self.lens());
        let numbers = page_numbers(&form, &lens);
        let is_key = |key: usize| !matches!(self.found, Found::Slots { .. }) || key % 3 != 1;
        let slot = |pages: &[usize], key: usize| pages[key / form.block] * form.block + key % form.block;
        let of =
            |(pages, len): (Vec<usize>, usize)| (0..len).map(|key| is_key(key).then(|| slot(&pages, key))).collect();
        numbers.into_iter().zip(lens).map(of).collect()
    }

    /// What says where keys are.
    fn found(&self) -> Vec<Array> {
        let lens = self.lens();
        let Found::Slots { has_lens } = self.found else {
            return page_arrays(&self.form(), &lens, self.found == Found::List);
        };
        let width = self.keys_most() + 1;
        // Behind a row's last of so many is anything.
        let mut table = vec![if has_lens { 1e6 } else { -1.0 }; lens.len() * width];
        for (sequence, slots) in self.slots().iter().enumerate() {
            let slots = slots.iter().map(|slot| slot.map_or(-7.0, |slot| slot as f64));
            slots.enumerate().for_each(|(n, slot)| table[sequence * width + n] = slot);
        }
        let of_lens = || Array::new(&[lens.len()], DType::I32, lens.iter().map(|&len| len as f64).collect());
        let table = Array::new(&[lens.len(), width], DType::I32, table);
        std::iter::once(table).chain(has_lens.then(of_lens)).collect()
    }

    fn found_count(&self) -> usize {
        match self.found {
            Found::List => 3,
            Found::Table | Found::Slots { has_lens: true } => 2,
            Found::Slots { has_lens: false } => 1,
        }
    }

    fn keys_most(&self) -> usize {
        self.lens().into_iter().max().unwrap_or(0)
    }

    fn form(&self) -> Form {
        let used: usize = self.lens().iter().map(|len| len.div_ceil(self.block)).sum();
        // An odd number, and pages that nobody has.
        let pages = (used + 2) | 1;
        let Spec { block, kv_heads: heads, depths, layout, codes, .. } = *self;
        Form { pages, block, heads, depths, layout, codes }
    }

    fn name(&self) -> String {
        let sequences = match self.sequences.len() {
            count if count > 8 => format!("{count} of at most {} keys", self.keys_most()),
            _ => format!("{:?}", self.sequences),
        };
        let mut name = format!("{sequences} {}/{} {}", self.heads, self.kv_heads, self.form().name());
        let named = [
            (self.found == Found::List, " by lists"),
            (self.found == Found::Slots { has_lens: false }, " by slots"),
            (self.found == Found::Slots { has_lens: true }, " by slots and their number"),
            (self.softcap.is_some(), " softcap"),
            (self.window.is_some(), " window"),
            (self.slopes, " slopes"),
            (self.sinks, " sinks"),
            (self.bias, " bias"),
            (self.latent, " latent"),
            (self.q_format.is_some(), " asked by codes"),
            (!self.lse, " without logarithms"),
        ];
        named.iter().filter(|(is_there, _)| *is_there).for_each(|(_, word)| name.push_str(word));
        name
    }

    /// A code's number, times the scale.
    fn query(&self, dtype: DType, value: f64) -> f64 {
        let Some(format) = self.q_format else { return value };
        let number = number(format, value as u32).expect("codes were taken from those that are numbers");
        Array::new(&[1], dtype, vec![number * Q_SCALE]).values[0]
    }

    /// Queries, then the cache, pages, and what else there is.
    fn inputs(&self, dtype: DType) -> Vec<Array> {
        let form = self.form();
        let shape = [self.tokens(), self.heads, self.depths[0]];
        let q = match self.q_format.map(numbers) {
            None => Array::random(&shape, dtype, 1),
            Some(all) => {
                let code = |at: usize| f64::from(all[(at * 37 + at / 64 * 5) % all.len()].0);
                Array::new(&shape, DType::U8, (0..shape.iter().product()).map(code).collect())
            }
        };
        let mut inputs = vec![q];
        let mut cache = form.arrays(dtype, 50);
        if self.codes.is_none() {
            // What no sequence has is not a number: it is not read, or does not count.
            let mut is_used = vec![false; form.pages * form.block];
            self.slots().into_iter().flatten().flatten().for_each(|slot| is_used[slot] = true);
            for slot in (0..is_used.len()).filter(|&slot| !is_used[slot]) {
                for (plane, array) in cache[..2].iter_mut().enumerate() {
                    for head in 0..form.heads {
                        for channel in 0..form.depths[plane] {
                            array.values[form.at(plane, dtype, [slot, head, channel])] = f64::NAN;
                        }
                    }
                }
            }
        }
        inputs.extend(cache);
        inputs.extend(self.found());
        let starts = self.sequences.iter().scan(0, |at, (queries, _)| {
            *at += queries;
            Some(*at as f64)
        });
        let starts: Vec<f64> = std::iter::once(0.0).chain(starts).collect();
        inputs.push(Array::new(&[starts.len()], DType::I32, starts));
        let of_heads = |seed, by: f64| {
            let random = Array::random(&[self.heads], DType::F32, seed);
            Array::new(&[self.heads], DType::F32, random.values.iter().map(|x| x.abs() * by).collect())
        };
        inputs.extend(self.slopes.then(|| of_heads(7, 1.0 / 16.0)));
        inputs.extend(self.sinks.then(|| of_heads(8, 1.0)));
        inputs.extend(self.bias.then(|| {
            let mut bias = Array::random(&[self.tokens(), self.q_most()], DType::F32, 9);
            // A query does not see the one before it; it sees itself.
            for token in 0..self.tokens() {
                let own = token % self.q_most();
                if own > 0 {
                    bias.values[token * self.q_most() + own - 1] = f64::NEG_INFINITY;
                }
            }
            bias
        }));
        inputs.extend(self.q_format.map(|_| Array::new(&[1], DType::F32, vec![Q_SCALE])));
        inputs
    }

    /// Where slopes, sinks and bias are among the inputs.
    fn optional(&self, first: usize) -> [Option<usize>; 3] {
        let mut next = first;
        [self.slopes, self.sinks, self.bias].map(|is_there| {
            next += usize::from(is_there);
            is_there.then_some(next - 1)
        })
    }
}

fn oracle(spec: &Spec, dtype: DType, inputs: &[Array], [first_cache, _, others]: [usize; 3]) -> Vec<Vec<f64>> {
    let (form, slots) = (spec.form(), spec.slots());
    let cache = &inputs[first_cache..];
    let [slopes, sinks, bias] = spec.optional(others).map(|place| place.map(|place| &inputs[place].values));
    let [k_depth, v_depth] = spec.depths;
    let (mut out, mut lses) = (Vec::new(), Vec::new());
    let mut token = 0;
    for (sequence, &(queries, keys)) in spec.sequences.iter().enumerate() {
        for query in 0..queries {
            for head in 0..spec.heads {
                let kv_head = head / (spec.heads / spec.kv_heads);
                let place = keys as i64 - queries as i64 + query as i64;
                let own = keys as i64 - queries as i64;
                let element = |plane: usize, slot: usize, channel: usize| {
                    let plane = if spec.latent { 0 } else { plane };
                    let scale = form.codes.map_or(1.0, |_| form.scale(&cache[2 + plane], slot, kv_head));
                    form.decode(cache[plane].values[form.at(plane, dtype, [slot, kv_head, channel])]) * scale
                };
                let least = spec.window.map_or(0, |window| (place + 1 - window as i64).max(0));
                let mut seen = Vec::new();
                for key in least..=place {
                    let row = (token * spec.heads + head) * k_depth;
                    let Some(at) = slots[sequence][key as usize] else { continue };
                    let product =
                        dot((0..k_depth).map(|d| (spec.query(dtype, inputs[0].values[row + d]), element(0, at, d))));
                    let mut score = product / (k_depth as f64).sqrt();
                    score = spec.softcap.map_or(score, |cap| cap * (score / cap).tanh());
                    score -= slopes.map_or(0.0, |slopes| slopes[head] * (place - key) as f64);
                    if key >= own {
                        let columns = spec.q_most();
                        score += bias.map_or(0.0, |bias| bias[token * columns + (key - own) as usize]);
                    }
                    seen.push((at, score));
                }
                let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| sinks[head]);
                let most = seen.iter().map(|&(_, score)| score).fold(sink, f64::max);
                let exp: Vec<f64> = seen.iter().map(|&(_, score)| (score - most).exp()).collect();
                let total = sum(&exp) + if sinks.is_some() { (sink - most).exp() } else { 0.0 };
                lses.push(if most == f64::NEG_INFINITY { most } else { most + total.ln() });
                for d in 0..v_depth {
                    let pairs = seen.iter().zip(&exp).map(|(&(slot, _), exp)| (exp / total, element(1, slot, d)));
                    out.push(dot(pairs));
                }
            }
            token += 1;
        }
    }
    if spec.lse { vec![out, lses] } else { vec![out] }
}

fn paged(dtype: DType, spec: Spec) -> Case {
    let form = spec.form();
    let cache_len = form.arrays(dtype, 50).len();
    let pages = 1 + cache_len;
    let starts = pages + spec.found_count();
    let most = spec.keys_most();
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let cache = match spec.codes {
            _ if !spec.latent => form.cache(&inputs[1..pages])?,
            codes => {
                let codes = codes.map(|(format, _)| LatentCodes { format, scales: inputs[3].view() });
                Cache::latent(inputs[1].view(), spec.depths[1], codes)?
            }
        };
        let found = match spec.found {
            Found::Slots { has_lens } => {
                Pages::Slots { slots: inputs[pages].view(), lens: has_lens.then(|| inputs[pages + 1].view()) }
            }
            Found::Table | Found::List => pages_of(&inputs[pages..starts]),
        };
        let mut read = PagedInputs::new(inputs[0].view(), cache, found, most.max(1));
        read.queries = match spec.is_ragged() {
            true => Queries::Starts { starts: inputs[starts].view(), most: spec.q_most() },
            false => Queries::Each(spec.q_most()),
        };
        [read.slopes, read.sinks, read.bias] =
            spec.optional(starts + 1).map(|place| place.map(|place| inputs[place].view()));
        let scale = inputs.last().ok_or("there are inputs")?;
        read.q_codes = spec.q_format.map(|format| QueryCodes { format, scale: scale.view() });
        let mut params = PagedParams::default();
        (params.softcap, params.window) = (spec.softcap, spec.window);
        let [out, rest @ ..] = outputs else { unreachable!("one output or two are asked for below") };
        let lse = rest.first_mut().map(|lse| lse.view_mut());
        Ok(paged_attention(stream, &read, &params, out.view_mut(), lse, None)?)
    };
    let inputs = spec.inputs(dtype).into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let lse = spec.lse.then(|| (vec![spec.tokens(), spec.heads], DType::F32));
    let outputs = std::iter::once((vec![spec.tokens(), spec.heads, spec.depths[1]], dtype)).chain(lse).collect();
    let oracle = move |inputs: &[Array]| oracle(&spec, dtype, inputs, [1, pages, starts + 1]);
    let pairs: usize = spec.sequences.iter().map(|(queries, keys)| queries * keys * spec.heads).sum();
    let flops = 2.0 * (pairs * spec.depths.iter().sum::<usize>()) as f64;
    let call = Call { inputs, outputs, launch, oracle };
    Case::new("paged_attention", dtype, spec.name(), flops, call).summing(spec.depths[0] + most)
}
