//! What attention is asked to do: its inputs and parameters, checked and brought into `Problem` of `scores.h`.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Scalar;
use rocfire_hal::{DType, Error, Stream, Tensor, View};

use super::tile;
use crate::Result;
use crate::family::{self, shape, sum_dtype};
use crate::graphs::{self, Graphs, Inputs, Maker};
use crate::random::Seed;

/// Elements from one row to the next are less: places in a tile of rows, in bytes, are numbers of 31 bits.
const ROW_STRIDE_MAX: i64 = 1 << 22;
/// The largest head size.
pub const DEPTH_MAX: usize = 256;
/// Head sizes are multiples of this.
const DEPTH_STEP: usize = 8;
/// Whether the kernels have a head size.
pub fn takes_depth(depth: usize) -> bool {
    depth > 0 && depth.is_multiple_of(DEPTH_STEP) && depth <= DEPTH_MAX
}

/// Depths are padded to a multiple of this in registers and LDS.
const DEPTH_PADDING: usize = 32;
/// Most rows of queries or keys: places are compared in 32 bits.
const ROWS_MAX: usize = 1 << 29;
/// More than any distance between two rows.
pub(super) const UNLIMITED: i32 = 1 << 30;

/// The tensors that attention reads.
///
/// # Shapes
/// `q`: `[batches, heads, q_rows, depth]`; `k`: `[batches, kv_heads, k_rows, depth]`; `v`: `[batches, kv_heads, k_rows,
/// value_depth]`, where `kv_heads` divides `heads`: head `h` reads head `h / (heads / kv_heads)` of keys. Any strides, so a
/// tensor `[batches, rows, heads, depth]` is passed as its view with two axes swapped. `mask` (true: hidden, or what
/// [`AttentionParams::masked`] says) and `bias` (added to the scaled scores) broadcast to `[batches, heads, q_rows, k_rows]`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a> {
    /// Queries.
    pub q: View<'a>,
    /// Keys.
    pub k: View<'a>,
    /// Values.
    pub v: View<'a>,
    /// What is masked, `Bool`.
    pub mask: Option<View<'a>>,
    /// What is added to the scores; of the inputs' type or any other float.
    pub bias: Option<View<'a>>,
    /// Batches of different lengths, one after the other along the rows of a single batch.
    pub starts: Option<Starts<'a>>,
    /// ALiBi: a score loses the slope of its query's head for every key between its key and the query's own place, the last
    /// query's being the last key's. `[heads]`, contiguous, f32 (f64 for f64).
    pub slopes: Option<View<'a>>,
    /// Of every query head a score of no key and no value, which takes its share of the weights. As `slopes`.
    pub sinks: Option<View<'a>>,
}

/// Where the batches begin that lie one after the other: `q`, `k` and `v` then have one batch of all rows, and there is neither
/// mask nor bias.
#[derive(Clone, Copy, Debug)]
pub struct Starts<'a> {
    /// `I32`, contiguous, `[batches + 1]`: rows of batch b are `q[b]` to `q[b + 1]`. Values outside of the tensor are held
    /// inside.
    pub q: View<'a>,
    /// The same for keys and values.
    pub k: View<'a>,
    /// At least the rows of the longest batch of queries; rows beyond are not computed.
    pub q_rows_most: usize,
    /// At least the rows of the longest batch of keys.
    pub k_rows_most: usize,
}

/// What is done to the scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AttentionParams {
    /// Factor of the products; `None`: `1 / sqrt(depth)`.
    pub scale: Option<f64>,
    /// `c`: scores become `c · tanh(score / c)`.
    pub softcap: Option<f64>,
    /// What a score gets added where the mask is true; `None`: it is hidden.
    pub masked: Option<f64>,
    /// Whether a query sees only keys up to its own place, the last query's being the last key's.
    pub causal: bool,
    /// How many keys before its own place a query sees; `None`: all.
    pub left: Option<usize>,
    /// How many keys behind its own place a query sees; `None`: all.
    pub right: Option<usize>,
    /// Weights that are dropped.
    pub dropout: Option<Dropout>,
    /// Whether a forward of f32 with heads of 32 or 64, and at most a bias, is computed by the kernel of multiply-add that is
    /// for these alone; `None`: by shape and architecture.
    pub plain: Option<bool>,
}

/// Weights are dropped with a probability, and the others divided by what is left of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Of being dropped: at least 0, below 1.
    pub probability: f64,
    /// Names the draws: forward and gradient must be given the same.
    pub seed: Seed,
}

/// The inputs, in layouts that the kernels read, and their sizes.
pub(crate) struct Prepared<'a> {
    pub inputs: AttentionInputs<'a>,
    // What had to be copied, kept until the launches are queued.
    _copies: [Option<Tensor>; 3],
    _bias_copies: [Option<Tensor>; 2],
    pub batches: usize,
    pub heads: usize,
    pub group: usize,
    /// Of one batch: the most, where batches differ.
    pub q_rows: usize,
    pub k_rows: usize,
    pub depth: usize,
    pub value_depth: usize,
    pub problem: Problem,
}

impl<'a> Prepared<'a> {
    /// Checks all that does not concern an output.
    pub fn new(
        op: &'static str,
        stream: &Stream,
        inputs: &AttentionInputs<'a>,
        params: &AttentionParams,
    ) -> Result<Prepared<'a>> {
        check_inputs(op, stream, inputs)?;
        check_params(op, params)?;
        let (q, k, v) = (inputs.q, inputs.k, inputs.v);
        let [single, heads, q_rows, depth] = extents(op, "q", &q)?;
        let [_, kv_heads, k_rows, _] = extents(op, "k", &k)?;
        let value_depth = v.shape()[3];
        let mut copies = [None, None, None];
        for (copy, view) in copies.iter_mut().zip([q, k, v]) {
            if !readable(&view) {
                *copy = Some(family::contiguous(stream, view)?);
            }
        }
        let read = |which: usize, own: View<'a>| {
            copies[which].as_ref().map_or((own.device_address(), strides(&own)), |c: &Tensor| {
                (c.view().device_address(), strides(&c.view()))
            })
        };
        let [(q_at, q_by), (k_at, k_by), (v_at, v_by)] = [read(0, q), read(1, k), read(2, v)];
        let mut problem = Problem { q: q_at, k: k_at, v: v_at, ..Problem::zeroed() };
        [problem.q_batch, problem.q_head, problem.q_row, _] = q_by;
        [problem.k_batch, problem.k_head, problem.k_row, _] = k_by;
        [problem.v_batch, problem.v_head, problem.v_row, _] = v_by;

        problem.set_params(params, depth);
        let scores = [single, heads, q_rows, k_rows];
        let real = sum_dtype(q.dtype());
        let (mut mask, mut bias, mut made, mut bias_copy) = (inputs.mask, inputs.bias, None, None);
        let device = stream.device();
        let reads_ahead = tile::copies(device.arch().info(), device.config().matrix, q.dtype());
        if let Some(filled) = mask.filter(|_| !reads_ahead && !hides(problem.masked, real)) {
            for (arg, view) in [("mask", Some(filled)), ("bias", bias)] {
                view.map(|view| expanded(op, arg, view, &scores)).transpose()?;
            }
            let sum: &Tensor = made.insert(added(op, stream, filled, problem.masked, bias, real)?);
            (mask, bias) = (None, Some(sum.view()));
        }
        if let Some(mask) = mask {
            let mask = expanded(op, "mask", mask, &scores)?;
            problem.mask = mask.device_address();
            [problem.mask_batch, problem.mask_head, problem.mask_row, problem.mask_column] = strides(&mask);
        }
        if let Some(bias) = bias {
            if bias.dtype() != q.dtype() && bias.dtype() != real {
                bias_copy = Some(family::cast(stream, bias, real)?);
            }
            let bias = expanded(op, "bias", bias_copy.as_ref().map_or(bias, |copy: &Tensor| copy.view()), &scores)?;
            problem.bias = bias.device_address();
            problem.bias_wide = i32::from(bias.dtype() == real);
            [problem.bias_batch, problem.bias_head, problem.bias_row, problem.bias_column] = strides(&bias);
        }
        let (mut batches, mut q_rows_most, mut k_rows_most) = (single, q_rows, k_rows);
        if let Some(starts) = inputs.starts {
            batches = starts.q.len() - 1;
            (q_rows_most, k_rows_most) = (starts.q_rows_most.min(q_rows), starts.k_rows_most.min(k_rows));
            (problem.q_starts, problem.k_starts) = (starts.q.device_address(), starts.k.device_address());
        }
        let per_head = |view: Option<View<'_>>| view.map_or(0, |view| view.device_address());
        (problem.slopes, problem.sinks) = (per_head(inputs.slopes), per_head(inputs.sinks));
        problem.heads = heads as i32;
        problem.group = (heads / kv_heads.max(1)).max(1) as i32;
        (problem.q_rows, problem.k_rows) = (q_rows as i32, k_rows as i32);
        (problem.depth, problem.value_depth) = (depth as i32, value_depth as i32);
        Ok(Prepared {
            inputs: *inputs,
            _copies: copies,
            _bias_copies: [made, bias_copy],
            batches,
            heads,
            group: problem.group as usize,
            q_rows: q_rows_most,
            k_rows: k_rows_most,
            depth,
            value_depth,
            problem,
        })
    }

    /// The arguments for batches from `first` on.
    pub fn behind_batch(&self, first: usize) -> Problem {
        let mut problem = self.problem;
        problem.first_batch = first as i32;
        if self.inputs.starts.is_some() {
            problem.q_starts += 4 * first as u64;
            problem.k_starts += 4 * first as u64;
            // All batches lie in the one.
            (problem.q_batch, problem.k_batch, problem.v_batch) = (0, 0, 0);
            return problem;
        }
        let size = self.inputs.q.dtype().size_bytes() as i64;
        let bias_size = if problem.bias_wide == 1 { size.max(4) } else { size };
        let move_by = |at: &mut u64, stride: i64, size: i64| *at = at.wrapping_add_signed(first as i64 * stride * size);
        move_by(&mut problem.q, problem.q_batch, size);
        move_by(&mut problem.k, problem.k_batch, size);
        move_by(&mut problem.v, problem.v_batch, size);
        if problem.mask != 0 {
            move_by(&mut problem.mask, problem.mask_batch, 1);
        }
        if problem.bias != 0 {
            move_by(&mut problem.bias, problem.bias_batch, bias_size);
        }
        problem
    }

    /// Whether the kernels need what `ATTENTION_EXTRA` adds.
    pub fn extra(&self) -> bool {
        let p = &self.problem;
        let positive = p.scale > 0.0;
        p.mask != 0 || p.bias != 0 || p.slopes != 0 || p.softcap != 0.0 || p.keep != ALL || !positive
    }

    /// A padded depth.
    pub fn padded(depth: usize) -> usize {
        depth.next_multiple_of(DEPTH_PADDING)
    }
}

fn check_inputs(op: &'static str, stream: &Stream, inputs: &AttentionInputs<'_>) -> Result<()> {
    let AttentionInputs { q, k, v, .. } = inputs;
    if !q.dtype().is_float() {
        return Err(Error::Unsupported { op, dtype: q.dtype(), arch: q.arch() }.into());
    }
    for (arg, view) in [("q", q), ("k", k), ("v", v)] {
        family::on_device(op, arg, stream, view)?;
        family::same_dtype(op, arg, view, q.dtype())?;
    }
    let [batches, heads, q_rows, depth] = extents(op, "q", q)?;
    let [k_batches, kv_heads, k_rows, k_depth] = extents(op, "k", k)?;
    let value_depth = extents(op, "v", v)?[3];
    if k_batches != batches || k_depth != depth {
        let expected = format!("[{batches}, kv_heads, k_rows, {depth}]");
        return Err(shape(op, "k", expected, format!("{:?}", k.shape())));
    }
    if kv_heads == 0 && heads > 0 || kv_heads > 0 && heads % kv_heads != 0 {
        return Err(shape(op, "k", format!("a number of heads that divides {heads}"), kv_heads));
    }
    if v.shape()[..3] != [batches, kv_heads, k_rows] {
        let expected = format!("[{batches}, {kv_heads}, {k_rows}, value_depth]");
        return Err(shape(op, "v", expected, format!("{:?}", v.shape())));
    }
    for (arg, depth) in [("q", depth), ("v", value_depth)] {
        if !takes_depth(depth) {
            return Err(shape(op, arg, format!("a head size of {DEPTH_STEP}, 16, … {DEPTH_MAX}"), depth));
        }
    }
    for (arg, rows) in [("q", q_rows), ("k", k_rows)] {
        if rows > ROWS_MAX {
            return Err(shape(op, arg, format!("at most {ROWS_MAX} rows"), rows));
        }
    }
    if let Some(mask) = &inputs.mask {
        family::on_device(op, "mask", stream, mask)?;
        family::same_dtype(op, "mask", mask, DType::Bool)?;
    }
    if let Some(bias) = &inputs.bias {
        family::on_device(op, "bias", stream, bias)?;
        if !bias.dtype().is_float() {
            return Err(shape(op, "bias", "a float", bias.dtype()));
        }
    }
    let real = sum_dtype(q.dtype());
    for (arg, view) in [("slopes", &inputs.slopes), ("sinks", &inputs.sinks)] {
        let Some(view) = view else { continue };
        family::on_device(op, arg, stream, view)?;
        family::same_dtype(op, arg, view, real)?;
        if view.shape() != [heads] || !view.layout().is_contiguous() {
            let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
            return Err(shape(op, arg, format!("[{heads}], contiguous"), got));
        }
    }
    let Some(starts) = &inputs.starts else { return Ok(()) };
    for (arg, view) in [("starts.q", &starts.q), ("starts.k", &starts.k)] {
        family::on_device(op, arg, stream, view)?;
        family::same_dtype(op, arg, view, DType::I32)?;
        if view.layout().rank() != 1
            || view.is_empty()
            || view.len() != starts.q.len()
            || !view.layout().is_contiguous()
        {
            let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
            return Err(shape(op, arg, "[batches + 1], contiguous, as long as the other", got));
        }
    }
    if batches != 1 {
        return Err(shape(op, "q", "one batch of all rows, where starts are given", batches));
    }
    match (&inputs.mask, &inputs.bias) {
        (None, None) => Ok(()),
        _ => Err(shape(op, "mask, bias", "none, where starts are given", "one")),
    }
}

fn check_params(op: &'static str, params: &AttentionParams) -> Result<()> {
    if let Some(softcap) = params.softcap.filter(|softcap| softcap.is_nan() || *softcap <= 0.0) {
        return Err(shape(op, "softcap", "positive", softcap));
    }
    if let Some(masked) = params.masked.filter(|masked| masked.is_nan()) {
        return Err(shape(op, "masked", "a number", masked));
    }
    match params.dropout {
        Some(dropout) if !(0.0..1.0).contains(&dropout.probability) => {
            Err(shape(op, "dropout.probability", "at least 0 and below 1", dropout.probability))
        }
        _ => Ok(()),
    }
}

/// The extents of a tensor of four axes.
pub(crate) fn extents(op: &'static str, arg: &'static str, view: &View<'_>) -> Result<[usize; 4]> {
    <[usize; 4]>::try_from(view.shape())
        .map_err(|_| shape(op, arg, "[batches, heads, rows, depth]", format!("{:?}", view.shape())))
}

/// Strides, in elements; 0 along axes of one index.
pub(crate) fn strides(view: &View<'_>) -> [i64; 4] {
    let layout = view.layout();
    std::array::from_fn(|axis| if layout.shape()[axis] == 1 { 0 } else { layout.strides()[axis] })
}

/// Whether rows can be moved 16 bytes at once.
pub(crate) fn readable(view: &View<'_>) -> bool {
    let vector = (16 / view.dtype().size_bytes()) as i64;
    let [batch, head, row, column] = strides(view);
    let whole = [batch, head, row].iter().all(|stride| stride % vector == 0);
    let near = view.shape()[2] <= 1 || (view.shape()[3] as i64..ROW_STRIDE_MAX).contains(&row);
    view.is_empty() || column == 1 && whole && near && view.device_address().is_multiple_of(16)
}

/// Whether what a masked score gets added leaves nothing of it.
fn hides(by: f64, real: DType) -> bool {
    if real == DType::F64 { by == f64::NEG_INFINITY } else { by as f32 == f32::NEG_INFINITY }
}

/// What is added to the scores, of a mask whose scores get `by` and of a bias: of the smallest shape that both broadcast to.
/// Beside a mask that hides, a number for what is masked costs a kernel a register that the tightest do not have; only those
/// that read masks ahead take it.
fn added(
    op: &'static str,
    stream: &Stream,
    mask: View<'_>,
    by: f64,
    bias: Option<View<'_>>,
    real: DType,
) -> Result<Tensor> {
    static GRAPHS: Graphs<(DType, Option<DType>)> = Graphs::new();
    let graph = GRAPHS.get((real, bias.map(|bias| bias.dtype())), |(real, bias)| {
        let make = Maker::new("attention_added", real);
        let masked = make.draft.input(DType::Bool);
        let bias = bias.map(|dtype| make.input(dtype));
        let filled = masked.choose(make.scalar(), make.constant(0.0));
        make.output(bias.map_or(filled, |bias| filled + bias), real);
        make.finish()
    });
    let shape = broadcast(mask.shape(), bias.as_ref().map_or(&[], |bias| bias.shape()));
    let mut inputs = Inputs::<2>::new(expanded(op, "mask", mask, &shape)?);
    inputs.push(bias.map(|bias| expanded(op, "bias", bias, &shape)).transpose()?);
    let mut made = Tensor::empty(&stream.device(), &shape, real)?;
    graphs::run(stream, &graph, &shape, inputs.views(), &[Scalar::Float(by)], &mut [made.view_mut()])?;
    Ok(made)
}

/// The smallest shape that two broadcast to, which broadcast to scores.
fn broadcast(a: &[usize], b: &[usize]) -> [usize; 4] {
    let extent = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(4).map_or(1, |axis| shape[axis]);
    // An extent of 0 goes before 1.
    std::array::from_fn(|axis| if extent(a, axis) == 1 { extent(b, axis) } else { extent(a, axis) })
}

fn expanded<'a>(op: &'static str, arg: &'static str, view: View<'a>, scores: &[usize]) -> Result<View<'a>> {
    let layout = view
        .layout()
        .expand(scores)
        .map_err(|_| shape(op, arg, format!("a shape that broadcasts to {scores:?}"), format!("{:?}", view.shape())))?;
    Ok(view.with_layout(layout)?)
}

/// `keep` where nothing is dropped.
pub(super) const ALL: u64 = 1 << 32;

/// `Problem` of `scores.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Problem {
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub mask: u64,
    pub bias: u64,
    pub q_starts: u64,
    pub k_starts: u64,
    pub slopes: u64,
    pub sinks: u64,
    pub q_batch: i64,
    pub q_head: i64,
    pub q_row: i64,
    pub k_batch: i64,
    pub k_head: i64,
    pub k_row: i64,
    pub v_batch: i64,
    pub v_head: i64,
    pub v_row: i64,
    pub mask_batch: i64,
    pub mask_head: i64,
    pub mask_row: i64,
    pub mask_column: i64,
    pub bias_batch: i64,
    pub bias_head: i64,
    pub bias_row: i64,
    pub bias_column: i64,
    pub scale: f64,
    pub softcap: f64,
    pub keep_scale: f64,
    pub seed: u64,
    pub offset: u64,
    pub keep: u64,
    pub heads: i32,
    pub group: i32,
    pub q_rows: i32,
    pub k_rows: i32,
    pub depth: i32,
    pub value_depth: i32,
    pub left: i32,
    pub right: i32,
    pub bias_wide: i32,
    pub first_batch: i32,
    pub masked: f64,
}
const _: () = assert!(size_of::<Problem>() == 304);

impl Problem {
    fn set_params(&mut self, params: &AttentionParams, depth: usize) {
        let limit = |rows: Option<usize>| rows.map_or(UNLIMITED, |rows| rows.min(UNLIMITED as usize) as i32);
        (self.left, self.right) = (limit(params.left), limit(params.right));
        if params.causal {
            self.right = 0;
        }
        self.scale = params.scale.unwrap_or_else(|| 1.0 / (depth as f64).sqrt());
        self.softcap = params.softcap.unwrap_or(0.0);
        self.masked = params.masked.unwrap_or(f64::NEG_INFINITY);
        (self.keep, self.keep_scale) = (ALL, 1.0);
        if let Some(dropout) = params.dropout {
            self.keep = ((1.0 - dropout.probability) * ALL as f64).round() as u64;
            self.keep_scale = 1.0 / (1.0 - dropout.probability);
            (self.seed, self.offset) = (dropout.seed.seed, dropout.seed.offset);
        }
    }
}
