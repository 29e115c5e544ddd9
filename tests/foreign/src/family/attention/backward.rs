//! `bwd_hd{64,128,192,192_hd128}_{bf16,fp16}[_causal[_br]][_swa]_{a16,a32}…`: gradients of attention. AMD's host prepares the row
//! sums of gradient times output; gradients of keys and values are by head of the queries. What those that take any lengths are given is
//! what `attention_backward` of `rocfire-kernels` gives them.

use std::path::Path;

use rocfire_kernels::aiter::{BACKWARD_BLOCK, Backward, BackwardForm, Lines};

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
            _ if self.is_packed => {
                let tiles = self.shape(&[(290, 389), (33, 210)], [2, 1], 0);
                vec![whole, self.shape(&[(67, 70), (130, 141), (33, 210)], [4, 2], less), tiles]
            }
            _ => {
                let mut shapes = vec![whole, self.shape(&[(97, 131); 2], [4, 2], less)];
                // With a window they read past the sums of the last rows, and pass on what is no number there.
                shapes.push(match self.mask {
                    Mask::Window { .. } => Shape { room: 64, ..shapes[1].clone() },
                    _ => self.shape(&[(257, 389)], [2, 1], 0),
                });
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

/// Where the rows of packed tensors of this shape lie.
struct Placed {
    q: Lines,
    k: Lines,
    v: Lines,
    gradient: Lines,
    dk: Lines,
    dv: Lines,
    row_sums: usize,
}

impl Placed {
    fn of(shape: &Shape) -> Placed {
        let (queries, keys) = (shape.longest_queries(), shape.longest_keys());
        let lines = |rows: usize, heads: usize, width: usize| {
            let [head, batch, row] = [width, rows * heads * width, heads * width].map(|count| (BYTES * count) as u32);
            Lines { batch, head, row }
        };
        Placed {
            q: lines(queries, shape.heads, shape.d),
            k: lines(keys, shape.kv_heads, shape.d),
            v: lines(keys, shape.kv_heads, shape.dv),
            gradient: lines(queries, shape.heads, shape.dv),
            dk: lines(keys, shape.heads, shape.d),
            dv: lines(keys, shape.heads, shape.dv),
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

/// The call of the kernels that operators launch, too.
fn backward(kind: Kind, shape: &Shape, at: &Addresses, form: BackwardForm) -> Backward {
    let placed = Placed::of(shape);
    let [dq, dk, dv, q, k, v, dout, lse, delta] = at.tensors;
    let queries = shape.longest_queries();
    Backward {
        form,
        tile: kind.tile as u32,
        dq,
        dk,
        dv,
        q,
        k,
        v,
        dout,
        lse,
        delta,
        starts: at.starts,
        q_lines: placed.q,
        k_lines: placed.k,
        v_lines: placed.v,
        dout_lines: placed.gradient,
        dk_lines: placed.dk,
        dv_lines: placed.dv,
        lse_head: placed.row_sums as u32,
        heads: shape.heads as u32,
        group: (shape.heads / shape.kv_heads) as u32,
        rows: [queries as u32, shape.longest_keys() as u32],
        rows_of_sums: kind.rows_of_sums(queries) as u32,
        depths: [shape.d as u32, shape.dv as u32],
        scale: shape.scale() as f32,
        causal: matches!(kind.mask, Mask::TopLeft | Mask::BottomRight),
    }
}

fn arguments(kind: Kind, shape: &Shape, at: &Addresses, declared: usize) -> Arguments {
    match kind.layout {
        Layout::Padded => {
            let args = backward(kind, shape, at, BackwardForm::Short).args();
            let Mask::Window { left, right } = shape.mask else { return Arguments::new(declared).bytes(args.bytes()) };
            let (queries, keys) = (shape.longest_queries(), shape.longest_keys());
            Arguments::new(declared).bytes(args.bytes()).words(&[
                (272, (1 + right + keys).wrapping_sub(queries)),
                (280, (1 + left + queries).wrapping_sub(keys)),
            ])
        }
        Layout::Own => Arguments::new(declared).bytes(backward(kind, shape, at, BackwardForm::Long).args().bytes()),
        Layout::Whole | Layout::Packed => others(kind, shape, at, declared),
    }
}

/// The arguments of kernels that no operator launches.
fn others(kind: Kind, shape: &Shape, at: &Addresses, declared: usize) -> Arguments {
    let slot = if kind.layout == Layout::Whole { 16 } else { 8 };
    let pointers: Vec<(usize, u64)> = at.tensors.iter().enumerate().map(|(i, &address)| (slot * i, address)).collect();
    let arguments = Arguments::new(declared).pointers(&pointers);
    let (placed, ratio) = (Placed::of(shape), shape.heads / shape.kv_heads);
    let (scale, log2e) = (shape.scale() as f32, std::f32::consts::LOG2_E);
    let number = |word: u32| word as usize;
    // Three strides, 16 bytes from each other.
    let three = |at: usize, of: Lines| [(at, number(of.head)), (at + 16, number(of.batch)), (at + 32, number(of.row))];
    if kind.layout == Layout::Whole {
        return arguments
            .float(144, scale)
            .float(160, log2e)
            .words(&[(176, shape.longest_queries()), (192, kind.tile * number(placed.k.row))])
            .words(&three(208, placed.q))
            .words(&[(256, ratio)])
            .words(&three(272, placed.k))
            .words(&[(320, number(placed.dk.row)), (336, shape.d)]);
    }
    let all = [placed.q, placed.k, placed.v, placed.gradient, placed.dk, placed.dv];
    let start = arguments
        .pointers(&[(72, at.starts[0]), (80, at.starts[1]), (88, at.starts[0]), (96, at.starts[1])])
        .float(104, scale)
        .float(112, log2e)
        .words(&[(120, ratio), (128, placed.row_sums), (136, shape.keys()), (240, shape.d)]);
    let two = |words: Arguments, (i, of): (usize, &Lines)| {
        words.words(&[(144 + 16 * i, number(of.head)), (152 + 16 * i, number(of.row))])
    };
    all.iter().enumerate().fold(start, two)
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
    let at = Addresses { tensors, starts };
    let tiles = backward(kind, shape, &at, BackwardForm::Short).tiles() as usize;
    let arguments = arguments(kind, shape, &at, bench.argument_bytes());
    bench.launch([tiles, shape.heads, shape.sequences.len()], BACKWARD_BLOCK, &arguments)?;
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
