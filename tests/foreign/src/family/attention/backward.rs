//! `bwd_hd{64,128,192,192_hd128}_{bf16,fp16}[_causal[_br]][_swa]_{a16,a32}…`: gradients of attention. AMD's host prepares the row
//! sums of gradient times output; gradients of keys and values are by head of the queries.

use std::path::Path;

use super::{Forward, Mask, Shape, Tensor};
use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object};
use crate::number::{Half, Random, distance};

/// Elements of 16 bits.
const BYTES: usize = 2;

/// How a kernel's arguments are laid out, by their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// 352: one length for all sequences, whole tiles.
    Whole,
    /// 272: any lengths of queries and keys; 288 with a window.
    Padded,
    /// 248: sequences told by where they start.
    Packed,
    /// 704: gfx950's own, for all of these.
    Own,
}

/// What a code object's name says.
#[derive(Clone, Copy, Debug)]
struct Kind {
    layout: Layout,
    format: Half,
    d: usize,
    dv: usize,
    mask: Mask,
    /// Whether the gradient of the queries is summed in f32.
    sums_in_f32: bool,
    /// Whether heads may have fewer elements.
    pads_heads: bool,
    is_packed: bool,
    /// Keys of a workgroup.
    tile: usize,
}

impl Kind {
    fn of(object: &Object) -> Option<Kind> {
        let name = object.name.strip_prefix("fmha_v3_bwd/bwd_hd").filter(|name| !name.contains("shuffle"))?;
        let (is_packed, has) = (name.contains("_group"), |part: &str| name.contains(part));
        let (d, dv) = match name {
            _ if has("192_hd128") => (192, 128),
            _ if name.starts_with("192") => (192, 192),
            _ if name.starts_with("128") => (128, 128),
            _ => (64, 64),
        };
        let mask = match name {
            _ if has("_swa") => Mask::Window { left: 40, right: 9 },
            _ if has("_causal_br") => Mask::BottomRight,
            _ if has("_causal") => Mask::TopLeft,
            _ => Mask::None,
        };
        let own = object.arch == "gfx950" && !has("_swa") && (d == 128 || dv == 128);
        let layout = match name {
            _ if own => Layout::Own,
            _ if is_packed => Layout::Packed,
            _ if has("pssk") => Layout::Padded,
            _ => Layout::Whole,
        };
        let tile = match (layout, d, dv) {
            (Layout::Own, 128, _) => 256,
            (_, 192, 192) => 64,
            _ => 192,
        };
        let format = if has("bf16") { Half::Bf16 } else { Half::F16 };
        let (sums_in_f32, pads_heads) = (has("_a32"), has("ddv"));
        Some(Kind { layout, format, d, dv, mask, sums_in_f32, pads_heads, is_packed, tile })
    }

    /// Rows of a sequence that gfx950's sums for the gradient of the queries have: whole pieces where these are of 16 bits.
    fn rows_of_sums(&self, queries: usize) -> usize {
        if self.sums_in_f32 { queries } else { queries.next_multiple_of(16) }
    }

    /// A shape of this kind, its heads of so many elements fewer than the kernel's.
    fn shape(&self, sequences: &[(usize, usize)], [heads, kv_heads]: [usize; 2], less: usize) -> Shape {
        Shape {
            sequences: sequences.to_vec(),
            heads,
            kv_heads,
            d: self.d - less,
            dv: self.dv - less,
            mask: self.mask,
            is_packed: self.is_packed,
            room: 0,
        }
    }

    fn shapes(&self) -> Vec<Shape> {
        let whole = self.shape(&[(self.tile.max(128), self.tile.max(128)); 1], [2, 2], 0);
        let less = if self.pads_heads { 24 } else { 0 };
        match self.layout {
            Layout::Whole => vec![whole, self.shape(&[(2 * self.tile, 2 * self.tile); 2], [1, 1], less)],
            _ if self.is_packed => vec![whole, self.shape(&[(67, 70), (130, 141), (33, 210)], [4, 2], less)],
            _ => {
                let mut shapes = vec![whole, self.shape(&[(97, 131); 2], [4, 2], less)];
                // With a window they read past the sums of the last rows, and pass on what is no number there.
                if matches!(self.mask, Mask::Window { .. }) {
                    shapes.push(Shape { room: 64, ..shapes[1].clone() });
                }
                shapes
            }
        }
    }

    fn case(self, object: &Object, shape: Shape) -> Case {
        Case {
            object: object.clone(),
            family: "attention backward",
            shape: shape.text(),
            tolerance: 1e-2,
            // The others differ in how they round.
            is_checked: self.d == 128
                && (self.format == Half::F16 || object.name.contains("_rtne") || object.arch == "gfx950"),
            run: {
                let path = object.path.clone();
                Box::new(move |bench| run(bench, self, &shape, &path))
            },
        }
    }
}

/// The cases of a code object.
pub fn cases(object: &Object) -> Vec<Case> {
    let Some(kind) = Kind::of(object) else { return Vec::new() };
    kind.shapes().into_iter().map(|shape| kind.case(object, shape)).collect()
}

/// A case of these queries and keys of each sequence, and of these heads of queries and of keys.
pub fn of(object: &Object, sequences: &[(usize, usize)], heads: [usize; 2]) -> Option<Case> {
    let kind = Kind::of(object)?;
    Some(kind.case(object, kind.shape(sequences, heads, 0)))
}

/// The inputs of a launch on the device, in the order of the arguments.
struct Inputs {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gradient: Tensor,
    forward: Forward,
    /// Sums over a head of gradient times output, placed like the sums of exponentials.
    row_sums: Vec<f64>,
}

impl Inputs {
    fn random(kind: Kind, shape: &Shape) -> Inputs {
        let (mut random, format) = (Random::new(7), kind.format);
        let mut tensor = |count: usize| Tensor::random(&mut random, format, count);
        let q = tensor(shape.queries() * shape.heads * shape.d);
        let k = tensor(shape.keys() * shape.kv_heads * shape.d);
        let v = tensor(shape.keys() * shape.kv_heads * shape.dv);
        let gradient = tensor(shape.queries() * shape.heads * shape.dv);
        let forward = shape.forward(&q.values, &k.values, &v.values);
        let mut row_sums = vec![0.0; shape.queries() * shape.heads];
        let starts = shape.starts(false);
        for (sequence, &(queries, _)) in shape.sequences.iter().enumerate() {
            for (query, head) in (0..queries).flat_map(|query| (0..shape.heads).map(move |head| (query, head))) {
                let at = ((starts[sequence] as usize + query) * shape.heads + head) * shape.dv;
                let products = (at..at + shape.dv).map(|at| gradient.values[at] * forward.out[at]);
                row_sums[shape.row_sum_at(sequence, head, query)] = products.sum();
            }
        }
        Inputs { q, k, v, gradient, forward, row_sums }
    }
}

/// Gradients in f64, of the queries packed like these, of keys and values by head of the queries.
struct Gradients {
    dq: Vec<f64>,
    dk: Vec<f64>,
    dv: Vec<f64>,
}

impl Gradients {
    fn of(shape: &Shape, inputs: &Inputs) -> Gradients {
        let Shape { heads, kv_heads, d, dv, .. } = *shape;
        let mut sums = Gradients {
            dq: vec![0.0; shape.queries() * heads * d],
            dk: vec![0.0; shape.keys() * heads * d],
            dv: vec![0.0; shape.keys() * heads * dv],
        };
        let (starts, key_starts) = (shape.starts(false), shape.starts(true));
        for (sequence, &(queries, keys)) in shape.sequences.iter().enumerate() {
            for head in 0..heads {
                let weights = &inputs.forward.weights[sequence * heads + head];
                for (query, key) in (0..queries).flat_map(|query| (0..keys).map(move |key| (query, key))) {
                    let weight = weights[query * keys + key];
                    if weight == 0.0 {
                        continue;
                    }
                    let row = (starts[sequence] as usize + query) * heads + head;
                    let column = key_starts[sequence] as usize + key;
                    let kv = column * kv_heads + head / (heads / kv_heads);
                    let own = column * heads + head;
                    let (gradient, value) =
                        (&inputs.gradient.values[row * dv..][..dv], &inputs.v.values[kv * dv..][..dv]);
                    let dot: f64 = gradient.iter().zip(value).map(|(a, b)| a * b).sum();
                    let score =
                        weight * (dot - inputs.row_sums[shape.row_sum_at(sequence, head, query)]) * shape.scale();
                    let sum = sums.dv[own * dv..][..dv].iter_mut();
                    sum.zip(gradient).for_each(|(sum, gradient)| *sum += weight * gradient);
                    for i in 0..d {
                        sums.dq[row * d + i] += score * inputs.k.values[kv * d + i];
                        sums.dk[own * d + i] += score * inputs.q.values[row * d + i];
                    }
                }
            }
        }
        sums
    }
}

/// The strides in bytes of packed tensors of this shape.
struct Strides {
    /// Head, sequence, row.
    q: [usize; 3],
    k: [usize; 3],
    v: [usize; 3],
    gradient: [usize; 3],
    dk: [usize; 3],
    dv: [usize; 3],
    row_sums: usize,
}

impl Strides {
    fn of(shape: &Shape) -> Strides {
        let (queries, keys) = (shape.longest_queries(), shape.longest_keys());
        let strides = |rows: usize, heads: usize, width: usize| {
            [BYTES * width, BYTES * rows * heads * width, BYTES * heads * width]
        };
        Strides {
            q: strides(queries, shape.heads, shape.d),
            k: strides(keys, shape.kv_heads, shape.d),
            v: strides(keys, shape.kv_heads, shape.dv),
            gradient: strides(queries, shape.heads, shape.dv),
            dk: strides(keys, shape.heads, shape.d),
            dv: strides(keys, shape.heads, shape.dv),
            row_sums: 4 * if shape.is_packed { shape.queries() } else { queries },
        }
    }
}

/// Addresses that a launch gets.
struct Addresses {
    /// dQ, dK, dV, Q, K, V, dO, sums of exponentials, sums of rows.
    tensors: [u64; 9],
    /// Where the queries and the keys start.
    starts: [u64; 2],
}

fn arguments(kind: Kind, shape: &Shape, at: &Addresses, declared: usize) -> Arguments {
    let slot = if matches!(kind.layout, Layout::Whole | Layout::Own) { 16 } else { 8 };
    let pointers: Vec<(usize, u64)> = at.tensors.iter().enumerate().map(|(i, &address)| (slot * i, address)).collect();
    let arguments = Arguments::new(declared).pointers(&pointers);
    let (queries, keys) = (shape.longest_queries(), shape.longest_keys());
    let (strides, ratio) = (Strides::of(shape), shape.heads / shape.kv_heads);
    let (scale, log2e) = (shape.scale() as f32, std::f32::consts::LOG2_E);
    // Three strides at the same distance from each other.
    let three = |at: usize, step: usize, of: [usize; 3]| [(at, of[0]), (at + step, of[1]), (at + 2 * step, of[2])];
    match kind.layout {
        Layout::Whole => arguments
            .float(144, scale)
            .float(160, log2e)
            .words(&[(176, queries), (192, kind.tile * strides.k[2])])
            .words(&three(208, 16, strides.q))
            .words(&[(256, ratio)])
            .words(&three(272, 16, strides.k))
            .words(&[(320, strides.dk[2]), (336, shape.d)]),
        Layout::Padded => {
            let all = [strides.q, strides.k, strides.v, strides.gradient, strides.dk, strides.dv];
            let words = [(88, ratio), (96, queries), (104, keys), (112, shape.d), (120, shape.heads)];
            let start = arguments.float(72, scale).float(80, log2e).words(&words);
            let start = all.iter().enumerate().fold(start, |words, (i, of)| words.words(&three(128 + 24 * i, 8, *of)));
            match shape.mask {
                Mask::Window { left, right } => start.words(&[
                    (272, (1 + right + keys).wrapping_sub(queries)),
                    (280, (1 + left + queries).wrapping_sub(keys)),
                ]),
                _ => start,
            }
        }
        Layout::Packed => {
            let all = [strides.q, strides.k, strides.v, strides.gradient, strides.dk, strides.dv];
            let start = arguments
                .pointers(&[(72, at.starts[0]), (80, at.starts[1]), (88, at.starts[0]), (96, at.starts[1])])
                .float(104, scale)
                .float(112, log2e)
                .words(&[(120, ratio), (128, strides.row_sums), (136, shape.keys()), (240, shape.d)]);
            let two = |words: Arguments, (i, of): (usize, &[usize; 3])| {
                words.words(&[(144 + 16 * i, of[0]), (152 + 16 * i, of[2])])
            };
            all.iter().enumerate().fold(start, two)
        }
        Layout::Own => arguments
            .float(144, scale)
            .float(160, log2e)
            .words(&[(176, queries), (192, kind.tile * strides.k[2])])
            .words(&three(208, 16, strides.q))
            .words(&[(256, ratio)])
            .words(&three(272, 16, strides.k))
            .words(&[(320, strides.dk[2]), (336, keys), (352, shape.d), (368, shape.dv), (384, shape.heads)])
            .words(&three(400, 16, strides.v))
            .words(&three(448, 16, strides.gradient))
            .words(&[(496, strides.dk[0]), (512, strides.dk[1])])
            .words(&three(528, 16, strides.dv))
            .words(&[(576, strides.row_sums), (656, kind.rows_of_sums(queries))])
            .pointers(&[(592, at.starts[0]), (608, at.starts[1]), (624, at.starts[0]), (640, at.starts[1])]),
    }
}

fn run(bench: &Bench, kind: Kind, shape: &Shape, path: &Path) -> Result<f64, Unrun> {
    let inputs = Inputs::random(kind, shape);
    let room = std::iter::repeat_n(0.0, shape.room / 4);
    let with_room =
        |values: &[f64]| -> Vec<f32> { values.iter().map(|&value| value as f32).chain(room.clone()).collect() };
    // gfx950's sums of 16 bits are in an order of its own, in whole pieces of 16 rows and heads of 128.
    let in_pieces = kind.layout == Layout::Own && !kind.sums_in_f32;
    let rows =
        if in_pieces { shape.sequences.len() * kind.rows_of_sums(shape.longest_queries()) } else { shape.queries() };
    let width = if in_pieces { kind.d } else { shape.d };
    let sum_bytes = if kind.sums_in_f32 { 4 } else { BYTES };
    let sums = bench.zeros(sum_bytes * rows * shape.heads * width)?;
    let (dk, dv) = (
        bench.output(BYTES * shape.keys() * shape.heads * shape.d)?,
        bench.output(BYTES * shape.keys() * shape.heads * shape.dv)?,
    );
    let tensors = [
        sums,
        dk,
        dv,
        bench.upload(&inputs.q.bits)?,
        bench.upload(&inputs.k.bits)?,
        bench.upload(&inputs.v.bits)?,
        bench.upload(&inputs.gradient.bits)?,
        bench.upload(&with_room(&inputs.forward.log_sums))?,
        bench.upload(&with_room(&inputs.row_sums))?,
    ];
    let starts = [bench.upload(&shape.starts(false))?, bench.upload(&shape.starts(true))?];
    let tiles = shape.longest_keys().div_ceil(kind.tile);
    let tiles = if matches!(kind.mask, Mask::TopLeft | Mask::BottomRight) { tiles.div_ceil(2) } else { tiles };
    let arguments = arguments(kind, shape, &Addresses { tensors, starts }, bench.argument_bytes());
    bench.launch([tiles, shape.heads, shape.sequences.len()], 256, &arguments)?;
    let reference = Gradients::of(shape, &inputs);
    let halves = |address, count| bench.download::<u16>(address, count).map(|bits| kind.format.values(&bits));
    let found_dq = match kind.sums_in_f32 {
        true => by_rows(shape, &bench.download::<f32>(sums, reference.dq.len())?),
        false if in_pieces => {
            let dq = put_in_order(bench, kind, shape, path, sums)?;
            halves(dq, reference.dq.len())?
        }
        false => halves(sums, reference.dq.len())?,
    };
    let far = [
        distance(&found_dq, &reference.dq),
        distance(&halves(dk, reference.dk.len())?, &reference.dk),
        distance(&halves(dv, reference.dv.len())?, &reference.dv),
    ];
    Ok(far.into_iter().fold(0.0, f64::max))
}

/// The sums in f32, which are head by head, packed like the queries.
fn by_rows(shape: &Shape, sums: &[f32]) -> Vec<f64> {
    let mut rows = vec![0.0; sums.len()];
    let (starts, d) = (shape.starts(false), shape.d);
    for (sequence, &(queries, _)) in shape.sequences.iter().enumerate() {
        for (query, head) in (0..queries).flat_map(|query| (0..shape.heads).map(move |head| (query, head))) {
            let from = d * shape.row_sum_at(sequence, head, query);
            let to = d * ((starts[sequence] as usize + query) * shape.heads + head);
            for i in 0..d {
                rows[to + i] = f64::from(sums[from + i]);
            }
        }
    }
    rows
}

/// Rows of a workgroup of `dq_shuffle`.
const SHUFFLED_ROWS: usize = 64;

/// Runs the kernel that brings gfx950's sums of 16 bits into order; the address of the gradient.
fn put_in_order(bench: &Bench, kind: Kind, shape: &Shape, path: &Path, sums: u64) -> Result<u64, Unrun> {
    let name = format!("bwd_hd{}_dq_shuffle{}.co", kind.d, if shape.is_packed { "_group" } else { "" });
    let dq = bench.output(BYTES * shape.queries() * shape.heads * shape.d)?;
    let starts = bench.upload(&shape.starts(false))?;
    let queries = shape.longest_queries();
    let padded = kind.rows_of_sums(queries);
    let row = BYTES * shape.heads * shape.d;
    let arguments = Arguments::new(224)
        .pointers(&[(0, sums), (16, dq), (176, starts), (192, starts)])
        .words(&[(32, SHUFFLED_ROWS * row)])
        .words(&[(48, BYTES * padded * kind.d), (64, BYTES * shape.heads * padded * kind.d), (80, BYTES * kind.d)])
        .words(&[
            (96, BYTES * shape.d),
            (112, queries * row),
            (128, row),
            (144, queries),
            (160, shape.d),
            (208, queries),
        ]);
    let grid = [queries.div_ceil(SHUFFLED_ROWS), shape.heads, shape.sequences.len()];
    bench.launch_other(&path.with_file_name(name), grid, 256, &arguments)?;
    Ok(dq)
}
