//! Mixtures of experts in one launch: tokens sorted by expert, a product, an activation, a second product, weighed and summed.

use super::{number_after, tile};
use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object};
use crate::number::{Byte, Half, Random, distance, shuffled};

/// Rows that share a scale, and columns, where scales are by block.
const BLOCK: usize = 128;
/// Rows of sorted tokens that one expert takes at a time.
const ROWS: usize = 32;

/// What weights and tokens are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scales {
    /// 16 bits, no scales.
    None,
    /// A scale for each token and each row of a weight.
    Rows(Byte),
    /// A scale for each token and 128 of its elements, and for each 128 x 128 of a weight.
    Blocks(Byte),
}

/// What a code object's name says.
#[derive(Clone, Copy, Debug)]
struct Kind {
    scales: Scales,
    /// The result's format, and that of 16-bit weights.
    format: Half,
    is_gelu: bool,
    /// Whether the first product has a gate and a factor.
    is_gated: bool,
    /// Whether a token's weight is applied before the activation.
    weighs_first: bool,
    /// Whether tokens are quantised for each expert, and the activation has factors of its own.
    is_smooth: bool,
    is_persistent: bool,
    /// Columns of the first product of a workgroup.
    columns: usize,
}

impl Kind {
    fn of(object: &Object) -> Option<Kind> {
        let name = object.stem();
        let has = |part: &str| name.contains(part);
        if !name.starts_with("fmoe_") || object.name.starts_with("fmoe_2stages") {
            return None;
        }
        // Kernels that quantise in front, and those of four bits, are not described.
        if has("smf") || has("fp4") || has("int4") {
            return None;
        }
        let fp8 = Byte::fp8(object.arch);
        let scales = match name {
            "fmoe_b16" | "fmoe_f16" => Scales::None,
            _ if has("noquant") => Scales::None,
            _ if has("blockscale") => Scales::Blocks(fp8),
            _ if has("nt8") => Scales::Rows(Byte::Int),
            _ => Scales::Rows(fp8),
        };
        let columns = number_after(name, "subGU_").or_else(|| tile(name)?.last().copied()).unwrap_or(512);
        Some(Kind {
            scales,
            format: if has("fmoe_fp16") || has("fmoe_f16") { Half::F16 } else { Half::Bf16 },
            is_gelu: has("gelu") || name == "fmoe_b16" || name == "fmoe_f16",
            is_gated: has("g1u1"),
            weighs_first: has("tkw1"),
            // Those without gate take factors always.
            is_smooth: has("multix") || has("nt8") && !has("g1u1"),
            is_persistent: has("_ps_") || name.ends_with("_ps"),
            columns,
        })
    }

    fn activation(&self, x: f64) -> f64 {
        match self.is_gelu {
            true => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            false => x / (1.0 + (-x).exp()),
        }
    }

    /// Whether it loads the next piece of a token's elements behind the last one too.
    fn reads_ahead(&self) -> bool {
        self.scales == Scales::Rows(Byte::Int) && !self.is_gated
    }

    fn element_bytes(&self) -> usize {
        if self.scales == Scales::None { 2 } else { 1 }
    }
}

/// The cases of a code object.
pub fn cases(object: &Object) -> Vec<Case> {
    let Some(kind) = Kind::of(object) else { return Vec::new() };
    let tolerance = match kind.scales {
        Scales::None => 1e-2,
        Scales::Rows(Byte::Int) => 1e-2,
        _ => 5e-2,
    };
    let case = |shape: Shape| {
        let Shape { tokens, experts, chosen, dim, inter, room } = shape;
        let behind = if room > 0 { ", room behind the tokens" } else { "" };
        Case {
            object: object.clone(),
            family: "experts",
            shape: format!("tokens {tokens}, experts {chosen} of {experts}, {dim} x {inter}{behind}"),
            tolerance,
            // There are many of them, and they differ in width, conversions and activations only.
            is_checked: shape.experts == 1
                && shape.room == 0
                && kind.columns == 256
                && kind.format == Half::Bf16
                && !kind.is_gelu
                && !kind.is_persistent,
            run: Box::new(move |bench| run(bench, kind, shape)),
        }
    };
    let shape = |tokens, experts, chosen, parts, room| {
        let (dim, inter) = (512, parts * kind.columns);
        Shape { tokens, experts, chosen, dim, inter, room }
    };
    let mut shapes = vec![shape(32, 1, 1, 1, 0), shape(19, 3, 2, 2, 0)];
    if kind.reads_ahead() {
        shapes[1].room = 512;
        shapes.push(Shape { room: 512, ..shapes[0] });
    }
    if object.stem() == "fmoe_bf16_pertokenFp8_g1u1_silu_1tg_32x256" {
        shapes.push(Shape { dim: 256, ..shape(33, 2, 1, 1, 0) });
    }
    // Of seven widths three have the ragged shape too.
    if ![128, 256, 512].contains(&kind.columns) {
        shapes.remove(1);
    }
    shapes.into_iter().map(case).collect()
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    tokens: usize,
    experts: usize,
    /// Experts of a token.
    chosen: usize,
    dim: usize,
    inter: usize,
    /// Bytes behind the last token.
    room: usize,
}

/// A matrix: bytes as they are in memory, scales, and what they stand for.
struct Matrix {
    bytes: Vec<u8>,
    scales: Vec<f32>,
    values: Vec<f64>,
}

impl Matrix {
    /// Rows of `width`, whose values are of about `size`. `block` rows and 128 columns share a scale where scales are by block.
    fn random(random: &mut Random, kind: Kind, rows: usize, width: usize, size: f64, block: usize) -> Matrix {
        let narrow = match kind.scales {
            Scales::None => {
                let (bits, values) = kind.format.rounded(&random.normals(rows * width, size));
                let bytes = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
                return Matrix { bytes, scales: Vec::new(), values };
            }
            Scales::Rows(narrow) | Scales::Blocks(narrow) => narrow,
        };
        // Of fp8 those below one, without minus zero, which is no number in one of the two.
        let code = |byte: u8| if narrow == Byte::Int { byte } else { (byte & 0xbf) * u8::from(byte & 0xbf != 0x80) };
        let bytes: Vec<u8> = random.bytes(rows * width).into_iter().map(code).collect();
        let mean_square = (0..=255).map(|byte| narrow.value(code(byte)).powi(2)).sum::<f64>() / 256.0;
        let scale = size / mean_square.sqrt();
        let (count, by_block) = match kind.scales {
            Scales::Blocks(_) => (rows.div_ceil(block) * (width / BLOCK), true),
            _ => (rows, false),
        };
        let scales: Vec<f32> = (0..count).map(|_| (scale * (0.5 + random.uniform())) as f32).collect();
        let value = |at: usize| {
            let (row, column) = (at / width, at % width);
            let scale = if by_block { scales[row / block * (width / BLOCK) + column / BLOCK] } else { scales[row] };
            narrow.value(bytes[at]) * f64::from(scale)
        };
        Matrix { values: (0..bytes.len()).map(value).collect(), bytes, scales }
    }

    /// The bytes as kernels want weights.
    fn shuffled(&self, kind: Kind, width: usize) -> Vec<u8> {
        match kind.element_bytes() {
            1 => shuffled(&self.bytes, width, 16, 32),
            _ => {
                let words: Vec<u16> =
                    self.bytes.chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]])).collect();
                shuffled(&words, width, 16, 16).iter().flat_map(|word| word.to_le_bytes()).collect()
            }
        }
    }
}

/// Tokens by expert, in blocks of [`ROWS`].
struct Sorted {
    ids: Vec<u32>,
    weights: Vec<f32>,
    experts: Vec<u32>,
}

impl Sorted {
    /// `choices` has for each token the experts and weights.
    fn new(choices: &[Vec<(usize, f32)>], experts: usize, chosen: usize) -> Sorted {
        let mut sorted = Sorted { ids: Vec::new(), weights: Vec::new(), experts: Vec::new() };
        for expert in 0..experts {
            let first = sorted.ids.len();
            for (token, choice) in choices.iter().enumerate() {
                for (slot, &(_, weight)) in choice.iter().enumerate().filter(|(_, (of, _))| *of == expert) {
                    sorted.ids.push((slot << 24 | token) as u32);
                    sorted.weights.push(weight);
                }
            }
            let blocks = (sorted.ids.len() - first).div_ceil(ROWS);
            sorted.ids.resize(first + blocks * ROWS, (chosen << 24 | choices.len()) as u32);
            sorted.weights.resize(first + blocks * ROWS, 0.0);
            sorted.experts.extend(vec![expert as u32; blocks]);
        }
        sorted
    }
}

fn run(bench: &Bench, kind: Kind, shape: Shape) -> Result<f64, Unrun> {
    let Shape { tokens, experts, chosen, dim, inter, .. } = shape;
    let mut random = Random::new(10);
    let choices: Vec<Vec<(usize, f32)>> = (0..tokens)
        .map(|_| {
            let order = random.order(experts);
            order[..chosen].iter().map(|&expert| (expert, (0.25 + 0.5 * random.uniform()) as f32)).collect()
        })
        .collect();
    // Quantised for each expert, a token has a row for each of its choices: all first choices first.
    let rows = if kind.is_smooth { tokens * chosen } else { tokens };
    let parts = if kind.is_gated { 2 } else { 1 };
    let x = Matrix::random(&mut random, kind, rows, dim, 1.0, 1);
    let first = Matrix::random(&mut random, kind, experts * parts * inter, dim, 1.0 / (dim as f64).sqrt(), BLOCK);
    let second = Matrix::random(&mut random, kind, experts * dim, inter, 1.0 / (inter as f64).sqrt(), BLOCK);
    let smooth: Vec<f32> = (0..experts * inter).map(|_| (0.5 + random.uniform()) as f32).collect();
    // The scales of tokens by block are transposed.
    let x_scales: Vec<f32> = match kind.scales {
        Scales::Blocks(_) => {
            let blocks = dim / BLOCK;
            (0..blocks * rows).map(|at| x.scales[at % rows * blocks + at / rows]).collect()
        }
        _ => x.scales.clone(),
    };
    let sorted = Sorted::new(&choices, experts, chosen);
    let out = bench.zeros(2 * tokens * dim)?;
    let wide = kind.element_bytes();
    let column_tiles = inter.div_ceil(kind.columns);
    let groups = 2 * column_tiles;
    let per_expert = |scales: &[f32]| 4 * scales.len() / experts;
    let has_scales = kind.scales != Scales::None;
    let upload = |values: &[f32]| if has_scales { bench.upload(values) } else { Ok(0) };
    let arguments = Arguments::new(448)
        .pointers(&[
            (0, out),
            (16, bench.upload_with_room(&x.bytes, shape.room)?),
            (32, bench.upload(&first.shuffled(kind, dim))?),
        ])
        .pointers(&[(48, bench.upload(&[sorted.ids.len() as u32, tokens as u32])?)])
        .pointers(&[(64, bench.upload(&second.shuffled(kind, inter))?), (80, upload(&x_scales)?)])
        .pointers(&[(96, upload(&first.scales)?), (112, upload(&second.scales)?)])
        .pointers(&[(128, if kind.is_smooth { bench.upload(&smooth)? } else { 0 }), (144, bench.upload(&sorted.ids)?)])
        .pointers(&[(160, bench.upload(&sorted.weights)?), (176, bench.upload(&sorted.experts)?)])
        .words(&[(192, dim), (208, inter), (224, tokens), (240, experts), (256, wide * dim), (272, wide * dim)])
        .words(&[(288, wide * inter), (304, 2 * dim), (320, wide * dim * inter * parts), (336, wide * inter * dim)])
        .words(&[(352, per_expert(&first.scales)), (368, per_expert(&second.scales)), (384, 4 * inter), (400, chosen)])
        .words(&[(416, groups), (432, column_tiles)])
        .cut(bench.argument_bytes());
    let grid = if kind.is_persistent { [groups, 1, 1] } else { [column_tiles, sorted.experts.len(), 1] };
    bench.launch(grid, 256, &arguments)?;
    let mut reference = vec![0.0; tokens * dim];
    for (token, choice) in choices.iter().enumerate() {
        for (slot, &(expert, weight)) in choice.iter().enumerate() {
            let row = if kind.is_smooth { slot * tokens + token } else { token };
            let (row, weight) = (&x.values[row * dim..][..dim], f64::from(weight));
            let early = if kind.weighs_first { weight } else { 1.0 };
            let product = |column: usize| {
                let at = (expert * parts * inter + column) * dim;
                early * row.iter().zip(&first.values[at..at + dim]).map(|(a, b)| a * b).sum::<f64>()
            };
            let between: Vec<f64> = (0..inter)
                .map(|column| {
                    let factor = if kind.is_gated { product(inter + column) } else { 1.0 };
                    let smooth = if kind.is_smooth { f64::from(smooth[expert * inter + column]) } else { 1.0 };
                    kind.activation(product(column)) * factor * smooth
                })
                .collect();
            // The int8 kernels quantise each tile of a row, and cut where they could round: no value is larger for it.
            let mut between = between;
            if kind.scales == Scales::Rows(Byte::Int) {
                for tile in between.chunks_mut(kind.columns) {
                    let largest = tile.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
                    let scale = largest / Byte::Int.largest();
                    tile.iter_mut().for_each(|value| *value = (*value / scale).trunc() * scale);
                }
            }
            let late = if kind.weighs_first { 1.0 } else { weight };
            for column in 0..dim {
                let at = (expert * dim + column) * inter;
                let sum: f64 = between.iter().zip(&second.values[at..at + inter]).map(|(a, b)| a * b).sum();
                reference[token * dim + column] += late * sum;
            }
        }
    }
    Ok(distance(&kind.format.values(&bench.download(out, tokens * dim)?), &reference))
}
