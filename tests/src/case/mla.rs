//! What stands around a cache of latents: queries absorbed and rows written, keys and values of all heads made of rows.

use rocfire_fusion::eager::copy_into;
use rocfire_hal::{DType, Layout, Stream, Tensor};
use rocfire_kernels::cache::{Cache, CacheLayout, CacheMut, LatentCodes};
use rocfire_kernels::mla::{AbsorbInputs, ExpandInputs, ExpandWeight, absorb, expand};
use rocfire_kernels::quant::{self, CodeLayout, CodedMatrix, Format, ScaleKind};
use rocfire_kernels::rope::RopeStyle;

use super::cache::{Form, Scales, page_arrays, page_numbers, pages_of};
use super::grouped_codes::{number, numbers};
use super::{Call, Case, Failure};
use crate::data::{Array, Placement};
use crate::oracle::dot;

const TYPES: [DType; 3] = [DType::BF16, DType::F16, DType::F32];
const EPSILON: f64 = 1e-5;
const POSITIONS: usize = 19;
/// Rows are slices of rows that have more in them.
const BESIDE: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Spec {
    tokens: usize,
    heads: usize,
    /// Channels of a query that do not turn, those that do, and of a latent.
    channels: [usize; 3],
    block: usize,
    codes: Option<(Format, Scales)>,
    style: RopeStyle,
    has_norm: bool,
    /// Whether a row begins at any element.
    is_odd: bool,
    /// Whether a token is not a number.
    has_nan: bool,
}

const PLAIN: Spec = Spec {
    tokens: 5,
    heads: 4,
    channels: [24, 16, 40],
    block: 16,
    codes: None,
    style: RopeStyle::GptJ,
    has_norm: true,
    is_odd: false,
    has_nan: false,
};
/// DeepSeek's.
const DEEP: Spec = Spec { heads: 16, channels: [128, 64, 512], block: 64, ..PLAIN };

/// A token, none, a prime, around a tile of rows and a wave; few channels, many; heads of several workgroups.
const SPECS: [Spec; 12] = [
    Spec { tokens: 1, heads: 1, channels: [8, 8, 8], block: 1, ..PLAIN },
    Spec { tokens: 0, ..PLAIN },
    PLAIN,
    Spec { tokens: 37, style: RopeStyle::NeoX, has_norm: false, block: 7, ..PLAIN },
    Spec { tokens: 31, is_odd: true, style: RopeStyle::NeoX, ..PLAIN },
    Spec { tokens: 65, heads: 3, is_odd: true, ..PLAIN },
    Spec { tokens: 4, has_nan: true, has_norm: false, ..PLAIN },
    Spec { tokens: 1, ..DEEP },
    Spec { tokens: 33, heads: 5, style: RopeStyle::NeoX, ..DEEP },
    Spec { tokens: 3, heads: 130, channels: [8, 64, 16], ..PLAIN },
    Spec { tokens: 6, heads: 2, codes: Some((Format::E4M3, Scales::Tensor)), ..DEEP },
    Spec { tokens: 9, codes: Some((Format::I8, Scales::Token)), style: RopeStyle::NeoX, has_norm: false, ..PLAIN },
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, spec) in SPECS.into_iter().enumerate() {
        for step in 0..2 {
            cases.push(absorbed(TYPES[(turn + step) % 3], spec));
        }
    }
    for (turn, of) in EXPANDED.into_iter().enumerate() {
        for step in 0..2 {
            cases.push(expanded(TYPES[(turn + step) % 3], of));
        }
    }
    cases
}

impl Spec {
    fn form(&self) -> Form {
        let [_, turned, latent] = self.channels;
        let Spec { block, codes, .. } = *self;
        let pages = (self.tokens + 2).div_ceil(block) | 1;
        Form { pages, block, heads: 1, depths: [latent + turned, latent], layout: CacheLayout::Nhd, codes }
    }

    fn name(&self) -> String {
        let Spec { tokens, heads, channels: [fixed, turned, latent], .. } = self;
        let mut name =
            format!("{tokens}x{heads}x({fixed}+{turned}) to {latent} {:?} in {}", self.style, self.form().name());
        let named = [(self.has_norm, " normed"), (self.is_odd, " odd"), (self.has_nan, " NaN")];
        named.iter().filter(|(is_there, _)| *is_there).for_each(|(_, word)| name.push_str(word));
        name
    }

    fn beside(&self) -> usize {
        BESIDE + usize::from(self.is_odd)
    }

    /// Every third token has none, and the others the last ones from the end.
    fn slot(&self, token: usize) -> Option<usize> {
        let form = self.form();
        (token % 3 != 1).then(|| form.pages * form.block - 1 - token)
    }

    fn position(token: usize) -> usize {
        token * 7 % POSITIONS
    }

    /// Rows of `each` elements in a longer one.
    fn rows(&self, dtype: DType, each: usize, seed: u64) -> Array {
        let row = each + self.beside();
        let mut rows = Array::random(&[self.tokens * row + BESIDE], dtype, seed);
        if self.has_nan {
            rows.values[self.beside() + 2 * row..][..each].fill(f64::NAN);
        }
        rows
    }
}

/// Channels turned by a row of the tables.
fn turned(x: &[f64], style: RopeStyle, [cosines, sines]: [&[f64]; 2]) -> Vec<f64> {
    let half = x.len() / 2;
    let mut y = x.to_vec();
    for i in 0..half {
        let (a, b) = match style {
            RopeStyle::NeoX => (i, i + half),
            RopeStyle::GptJ => (2 * i, 2 * i + 1),
        };
        y[a] = x[a] * cosines[i] - x[b] * sines[i];
        y[b] = x[b] * cosines[i] + x[a] * sines[i];
    }
    y
}

fn absorbed_oracle(spec: &Spec, inputs: &[Array]) -> Vec<Vec<f64>> {
    let ([fixed, turns, latent], beside, form) = (spec.channels, spec.beside(), spec.form());
    let row =
        |array: usize, token: usize, each: usize| &inputs[array].values[beside + token * (each + beside)..][..each];
    let table = |token: usize| {
        let first = Spec::position(token) * turns / 2;
        [5, 6].map(|array: usize| &inputs[array].values[first..][..turns / 2])
    };
    let (mut out, mut cache) = (Vec::new(), inputs[9].values.to_vec());
    for token in 0..spec.tokens {
        let q = row(0, token, spec.heads * (fixed + turns));
        for (head, q) in q.chunks(fixed + turns).enumerate() {
            let weight = |channel: usize, to: usize| inputs[1].values[(head * fixed + channel) * latent + to];
            out.extend((0..latent).map(|to| dot((0..fixed).map(|channel| (q[channel], weight(channel, to))))));
            out.extend(turned(&q[fixed..], spec.style, table(token)));
        }
        let Some(slot) = spec.slot(token) else { continue };
        let mut line = row(2, token, latent).to_vec();
        if spec.has_norm {
            let mean = dot(line.iter().map(|&x| (x, x))) / latent as f64;
            let root = 1.0 / (mean + EPSILON).sqrt();
            line.iter_mut().zip(&inputs[4].values).for_each(|(x, weight)| *x *= root * weight);
        }
        line.extend(turned(row(3, token, turns), spec.style, table(token)));
        let scale = spec.codes.map_or(1.0, |_| form.scale(&inputs[10], slot, 0));
        for (x, to) in line.iter().zip(&mut cache[slot * (latent + turns)..]) {
            *to = if spec.codes.is_some() { form.encode(*x as f32 * (1.0 / scale as f32)) } else { *x };
        }
    }
    vec![out, cache]
}

fn absorbed(dtype: DType, spec: Spec) -> Case {
    let (form, [fixed, turns, latent]) = (spec.form(), spec.channels);
    let Spec { tokens, heads, .. } = spec;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [out, rows] = outputs else { unreachable!("two outputs are asked for below") };
        copy_into(inputs[9].view(), rows.view_mut())?;
        let beside = spec.beside();
        let sliced = |array: usize, shape: &[usize], strides: &[i64]| -> Result<Tensor, Failure> {
            Ok(inputs[array].with_layout(Layout::strided(shape, strides, beside as i64)?)?)
        };
        let row = |each: usize| (each + beside) as i64;
        let channels = fixed + turns;
        let q = sliced(0, &[tokens, heads, channels], &[row(heads * channels), channels as i64, 1])?;
        let latents = sliced(2, &[tokens, latent], &[row(latent), 1])?;
        let keys = sliced(3, &[tokens, turns], &[row(turns), 1])?;
        let read = AbsorbInputs {
            q: q.view(),
            weight: inputs[1].view(),
            latents: latents.view(),
            keys: keys.view(),
            norm: spec.has_norm.then(|| (inputs[4].view(), EPSILON)),
            tables: [inputs[5].view(), inputs[6].view()],
            style: spec.style,
            positions: inputs[7].view(),
            slots: inputs[8].view(),
        };
        let codes = spec.codes.map(|(format, _)| LatentCodes { format, scales: inputs[10].view() });
        let mut cache = CacheMut::latent(rows.view_mut(), latent, codes)?;
        Ok(absorb(stream, &read, out.view_mut(), &mut cache)?)
    };
    let whole =
        |is_wide: bool, values: Vec<f64>| Array::new(&[tokens], if is_wide { DType::I64 } else { DType::I32 }, values);
    let of_cache = form.arrays(dtype, 10);
    let rows = Array::new(&[form.pages, form.block, latent + turns], of_cache[0].dtype, of_cache[0].values.to_vec());
    let mut inputs = vec![
        spec.rows(dtype, heads * (fixed + turns), 1),
        Array::random(&[heads, fixed, latent], dtype, 2),
        spec.rows(dtype, latent, 3),
        spec.rows(dtype, turns, 4),
        Array::random(&[latent], dtype, 5),
        Array::random(&[POSITIONS, turns / 2], DType::F32, 6),
        Array::random(&[POSITIONS, turns / 2], DType::F32, 7),
        whole(tokens.is_multiple_of(2), (0..tokens).map(|token| Spec::position(token) as f64).collect()),
        whole(
            tokens.is_multiple_of(3),
            (0..tokens).map(|token| spec.slot(token).map_or(-1.0, |slot| slot as f64)).collect(),
        ),
        rows,
    ];
    inputs.extend(spec.codes.map(|_| of_cache[2].clone()));
    let outputs = vec![(vec![tokens, heads, latent + turns], dtype), (inputs[9].shape.clone(), inputs[9].dtype)];
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let call = Call { inputs, outputs, launch, oracle: move |inputs: &[Array]| absorbed_oracle(&spec, inputs) };
    let flops = 2.0 * (tokens * heads * fixed * latent) as f64;
    Case::new("absorb", dtype, spec.name(), flops, call).summing(fixed)
}

/// Keys of sequences, heads, and channels of a key that do not turn, of a value, those that turn, and of a latent.
#[derive(Clone, Copy, Debug)]
struct Expanded {
    lens: &'static [usize],
    heads: usize,
    channels: [usize; 4],
    block: usize,
    codes: Option<(Format, Scales)>,
    is_list: bool,
    weight: Option<Weight>,
}

/// Codes of the matrix, a row for each output.
#[derive(Clone, Copy, Debug)]
struct Weight {
    format: Format,
    /// Outputs and channels of a latent that share a scale.
    block: [usize; 2],
    kind: ScaleKind,
}

impl Weight {
    fn layout(&self, latent: usize) -> CodeLayout {
        match self.format.bits() {
            8 => CodeLayout::bytes(self.format),
            _ => CodeLayout::packed(self.format, 1, latent),
        }
    }

    /// Codes and scales of so many outputs.
    fn arrays(&self, outputs: usize, latent: usize) -> [Array; 2] {
        let (layout, all) = (self.layout(latent), numbers(self.format));
        let (per, shape) = (layout.per_word(DType::U8), layout.words_shape(&[outputs, latent], DType::U8));
        let code = |at: usize| all[(at * 7 + at / latent * 5 + at % latent / 32) % all.len()].0;
        let word = |at: usize| f64::from((0..per).map(|i| code(at * per + i) << (i * self.format.bits())).sum::<u32>());
        let grid = [outputs.div_ceil(self.block[0]), latent.div_ceil(self.block[1])];
        let scale = |at: usize| match self.kind {
            ScaleKind::E8M0 => 119.0 + (at % 5) as f64,
            _ => (1 + at % 13) as f64 / 64.0,
        };
        let scales = (0..grid[0] * grid[1]).map(scale).collect();
        let words = (0..shape[0] * shape[1]).map(word).collect();
        [Array::new(&shape, DType::U8, words), Array::new(&grid, self.kind.dtype(), scales)]
    }

    /// The number at an output and a channel, as the type of the results has it.
    fn number(&self, dtype: DType, [words, scales]: [&Array; 2], [output, channel]: [usize; 2], latent: usize) -> f64 {
        let (bits, per) = (self.format.bits(), self.layout(latent).per_word(DType::U8));
        let at = output * latent + channel;
        let code = words.values[at / per] as u32 >> (at % per * bits) & ((1 << bits) - 1);
        let scale = scales.values[output / self.block[0] * latent.div_ceil(self.block[1]) + channel / self.block[1]];
        let scale = if self.kind == ScaleKind::E8M0 { 2f64.powf(scale - 127.0) } else { scale };
        let number = number(self.format, code).expect("the codes were taken from those that are numbers");
        Array::new(&[1], dtype, vec![number * scale]).values[0]
    }
}

const SMALL: Expanded =
    Expanded { lens: &[5], heads: 2, channels: [24, 32, 16, 40], block: 16, codes: None, is_list: false, weight: None };
/// As DeepSeek-V3's checkpoints have it.
const BLOCKS: Weight = Weight { format: Format::E4M3, block: [128, 128], kind: ScaleKind::F32 };
/// DeepSeek's.
const LARGE: Expanded = Expanded { heads: 3, channels: [128, 128, 64, 512], block: 64, ..SMALL };

/// A row, none, a prime, sequences around a wave and pages.
const EXPANDED: [Expanded; 12] = [
    Expanded { lens: &[1], heads: 1, channels: [8, 8, 8, 8], block: 1, ..SMALL },
    Expanded { lens: &[0, 0], ..SMALL },
    Expanded { lens: &[37, 0, 1], is_list: true, ..SMALL },
    Expanded { lens: &[31, 33], block: 7, ..SMALL },
    Expanded { lens: &[63, 65], heads: 5, ..SMALL },
    Expanded { lens: &[70, 3], ..LARGE },
    Expanded { lens: &[20], codes: Some((Format::E4M3, Scales::Tensor)), ..LARGE },
    Expanded { lens: &[20, 2], codes: Some((Format::I8, Scales::Token)), ..SMALL },
    // Matrices of codes: by blocks that are no head's own, of heads, by row, microscaled.
    Expanded { lens: &[7, 0, 12], heads: 5, weight: Some(BLOCKS), ..SMALL },
    Expanded { lens: &[70], weight: Some(BLOCKS), codes: Some((Format::E4M3, Scales::Tensor)), ..LARGE },
    Expanded { lens: &[33], weight: Some(Weight { block: [1, 40], ..BLOCKS }), ..SMALL },
    Expanded {
        lens: &[3, 300],
        channels: [24, 32, 16, 64],
        weight: Some(Weight { format: Format::E2M1, block: [1, 32], kind: ScaleKind::E8M0 }),
        ..SMALL
    },
];

impl Expanded {
    fn form(&self) -> Form {
        let ([_, _, turned, latent], block) = (self.channels, self.block);
        let used: usize = self.lens.iter().map(|len| len.div_ceil(block)).sum();
        let depths = [latent + turned, latent];
        Form { pages: (used + 2) | 1, block, heads: 1, depths, layout: CacheLayout::Nhd, codes: self.codes }
    }

    fn oracle(&self, dtype: DType, inputs: &[Array]) -> Vec<Vec<f64>> {
        let ([fixed, of_value, turned, latent], form) = (self.channels, self.form());
        let numbers = page_numbers(&form, self.lens);
        let matrix: Vec<f64> = match self.weight {
            None => inputs[0].values.to_vec(),
            Some(weight) => {
                let coded = [&inputs[0], inputs.last().expect("scales come last")];
                let outputs = self.heads * (fixed + of_value);
                let at = |at: usize| weight.number(dtype, coded, [at / latent, at % latent], latent);
                (0..outputs * latent).map(at).collect()
            }
        };
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (sequence, &len) in self.lens.iter().enumerate() {
            for key in 0..len {
                let slot = numbers[sequence][key / form.block] * form.block + key % form.block;
                let scale = form.codes.map_or(1.0, |_| form.scale(&inputs[2], slot, 0));
                let element = |channel: usize| {
                    let x = form.decode(inputs[1].values[slot * (latent + turned) + channel]) * scale;
                    // Of codes, what is gathered is rounded.
                    if form.codes.is_some() { Array::new(&[1], dtype, vec![x]).values[0] } else { x }
                };
                let row: Vec<f64> = (0..latent + turned).map(element).collect();
                for head in 0..self.heads {
                    let product = |channel: usize| {
                        let first = (head * (fixed + of_value) + channel) * latent;
                        dot(row[..latent].iter().zip(&matrix[first..]).map(|(&a, &b)| (a, b)))
                    };
                    keys.extend((0..fixed).map(product));
                    keys.extend(&row[latent..]);
                    values.extend((fixed..fixed + of_value).map(product));
                }
            }
        }
        vec![keys, values]
    }
}

fn expanded(dtype: DType, of: Expanded) -> Case {
    let (form, [fixed, of_value, turned, latent], heads) = (of.form(), of.channels, of.heads);
    let rows: usize = of.lens.iter().sum();
    let most = of.lens.iter().copied().max().unwrap_or(0);
    let starts = 2 + usize::from(of.codes.is_some());
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let codes = of.codes.map(|(format, _)| LatentCodes { format, scales: inputs[2].view() });
        let (scales, others) = match of.weight {
            None => (None, inputs),
            Some(_) => inputs.split_last().map(|(scales, others)| (Some(scales), others)).ok_or("scales come last")?,
        };
        let (layout, block) = (of.weight.map(|weight| weight.layout(latent)), of.weight.map(|weight| weight.block));
        let scales = of.weight.zip(scales).zip(block.as_ref()).map(|((weight, scales), block)| quant::Scales {
            view: scales.view(),
            kind: weight.kind,
            block,
            global: None,
        });
        let read = ExpandInputs {
            cache: Cache::latent(inputs[1].view(), latent, codes)?,
            pages: pages_of(&others[starts + 1..]),
            starts: inputs[starts].view(),
            keys_most: most,
            weight: match &layout {
                None => ExpandWeight::Floats(inputs[0].view()),
                Some(layout) => {
                    ExpandWeight::Coded(CodedMatrix { words: inputs[0].view(), layout, scales: scales.as_ref() })
                }
            },
        };
        let [keys, values] = outputs else { unreachable!("two outputs are asked for below") };
        Ok(expand(stream, &read, keys.view_mut(), values.view_mut(), None)?)
    };
    let of_cache = form.arrays(dtype, 20);
    let shape = [form.pages, form.block, latent + turned];
    let firsts = of.lens.iter().scan(0, |at, len| {
        *at += len;
        Some(*at as f64)
    });
    let firsts: Vec<f64> = std::iter::once(0.0).chain(firsts).collect();
    let [matrix, scales] = match of.weight {
        None => [Some(Array::random(&[heads, fixed + of_value, latent], dtype, 1)), None],
        Some(weight) => weight.arrays(heads * (fixed + of_value), latent).map(Some),
    };
    let mut inputs: Vec<Array> = matrix.into_iter().collect();
    inputs.extend([Array::new(&shape, of_cache[0].dtype, of_cache[0].values.to_vec())]);
    inputs.extend(of.codes.map(|_| of_cache[2].clone()));
    inputs.push(Array::new(&[firsts.len()], DType::I32, firsts));
    inputs.extend(page_arrays(&form, of.lens, of.is_list));
    inputs.extend(scales);
    let inputs = inputs.into_iter().map(|array| (array, Placement::Contiguous)).collect();
    let outputs = vec![(vec![rows, heads, fixed + turned], dtype), (vec![rows, heads, of_value], dtype)];
    let call = Call { inputs, outputs, launch, oracle: move |inputs: &[Array]| of.oracle(dtype, inputs) };
    let flops = 2.0 * (rows * heads * (fixed + of_value) * latent) as f64;
    let list = if of.is_list { " by lists" } else { "" };
    let weight = of.weight.map_or(String::new(), |Weight { format, block, .. }| format!(" by {format:?} {block:?}"));
    let name = format!("{:?} {heads}x({fixed}+{turned}, {of_value}) of {}{list}{weight}", of.lens, form.name());
    Case::new("expand", dtype, name, flops, call).summing(latent)
}
