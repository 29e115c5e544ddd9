//! `attention_backward`: the launchers of `attention_backward.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Device, Function, Source, Stream, Tensor, View, ViewMut};

use super::attention::{OutputOf, check_output, disjoint_from_inputs, line_strides};
use super::choice::{self, Gradients};
use super::problem::{Prepared, Problem, readable, strides};
use super::tile::Tile;
use super::work::Each;
use super::{AttentionInputs, AttentionParams, aiter};
use crate::Result;
use crate::family::{self, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape, sum_dtype};

const OP: &str = "attention_backward";
/// Rows that a workgroup of `attention_delta` takes, and its threads.
const DELTA_ROWS: usize = 32;
const DELTA_BLOCK: usize = 256;

/// What the forward left, and the gradient of its output.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSaved<'a> {
    /// The output, as [`super::attention`] wrote it.
    pub out: View<'a>,
    /// The logarithms of sums, as [`super::attention`] wrote them.
    pub lse: View<'a>,
    /// The gradient of the output, of its shape.
    pub dout: View<'a>,
}

/// Gradients of [`super::attention`] with respect to queries, keys and values.
///
/// # Shapes
/// Inputs, `saved` and parameters as for the forward; `dq`, `dk`, `dv`: of the shapes of `q`, `k`, `v`, any strides. With
/// `starts`, rows that belong to no sequence are not written.
/// # Types
/// Those of the forward.
/// # Numerics
/// As the forward: weights are computed again from `lse`, in f32 (f64 for f64). Every element is summed by one workgroup in a
/// fixed order, over the heads that share keys first to last: the same bits on every run. AITER's kernels, where they are installed and
/// `aiter/backward.rs` says so, which it does with `ROCFIRE_DETERMINISTIC=0` only, add gradients of queries by float atomics, other last
/// bits each time, and round gradients of keys and values to the inputs' type for each head of queries before heads that share them are
/// added.
/// # Errors
/// As the forward.
pub fn attention_backward(
    stream: &Stream,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    params: &AttentionParams,
    gradients: [ViewMut<'_>; 3],
) -> Result<()> {
    let prepared = prepare(stream, inputs, saved, params)?;
    let dtype = inputs.q.dtype();
    for ((arg, view), input) in ["dq", "dk", "dv"].into_iter().zip(&gradients).zip([inputs.q, inputs.k, inputs.v]) {
        check_output(OP, stream, OutputOf { arg, view, dtype, shape: input.shape() })?;
        family::writable(OP, arg, view)?;
        disjoint_from_inputs(OP, inputs, view)?;
        for (saved_arg, other) in [("out", saved.out), ("lse", saved.lse), ("dout", saved.dout)] {
            family::disjoint(OP, saved_arg, view, &other)?;
        }
    }
    let stand_in = |gradient: &ViewMut<'_>| {
        let needed = !readable(gradient);
        needed.then(|| Tensor::empty(gradient.device(), gradient.shape(), dtype)).transpose()
    };
    let stand_ins = [stand_in(&gradients[0])?, stand_in(&gradients[1])?, stand_in(&gradients[2])?];
    let copied = |view: View<'_>| (!readable(&view)).then(|| family::contiguous(stream, view)).transpose();
    let (out, dout) = (copied(saved.out)?, copied(saved.dout)?);
    let target = |which: usize| stand_ins[which].as_ref().map_or_else(|| gradients[which].view(), Tensor::view);
    let backward = Backward {
        stream,
        prepared: &prepared,
        out: out.as_ref().map_or(saved.out, Tensor::view),
        dout: dout.as_ref().map_or(saved.dout, Tensor::view),
        lse: saved.lse,
        dq: target(0),
        dk: target(1),
        dv: target(2),
    };
    backward.run()?;
    for (stand_in, gradient) in stand_ins.iter().zip(gradients) {
        if let Some(stand_in) = stand_in {
            family::copy_into(stream, stand_in.view(), gradient)?;
        }
    }
    Ok(())
}

/// Gradient of [`super::attention`] with respect to the sinks: `-Σ exp(sink - lse) · Σ out ∘ dout` over batches and rows.
///
/// # Shapes
/// As [`attention_backward`]; `dsinks`: `[heads]`, contiguous, f32 (f64 for f64).
/// # Numerics
/// Summed by one workgroup for each head in a fixed order: the same bits on every run.
/// # Errors
/// As [`attention_backward`]; `Shape` where there are no sinks, or `starts`.
pub fn attention_backward_sinks(
    stream: &Stream,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    params: &AttentionParams,
    mut dsinks: ViewMut<'_>,
) -> Result<()> {
    let prepared = prepare(stream, inputs, saved, params)?;
    let (dtype, heads) = (inputs.q.dtype(), &inputs.q.shape()[1..2]);
    check_output(OP, stream, OutputOf { arg: "dsinks", view: &dsinks, dtype: sum_dtype(dtype), shape: heads })?;
    family::writable(OP, "dsinks", &dsinks)?;
    disjoint_from_inputs(OP, inputs, &dsinks)?;
    if inputs.sinks.is_none() || inputs.starts.is_some() {
        let got = if inputs.starts.is_some() { "starts" } else { "none" };
        return Err(shape(OP, "sinks", "some, and no starts", got));
    }
    if !dsinks.layout().is_contiguous() {
        return Err(shape(OP, "dsinks", "contiguous", format!("strides {:?}", dsinks.layout().strides())));
    }
    if dsinks.is_empty() {
        return Ok(());
    }
    let copied = |view: View<'_>| (!readable(&view)).then(|| family::contiguous(stream, view)).transpose();
    let (out, dout) = (copied(saved.out)?, copied(saved.dout)?);
    let (out, dout) = (out.as_ref().map_or(saved.out, Tensor::view), dout.as_ref().map_or(saved.dout, Tensor::view));
    // The other gradients are not asked for; nothing of this writes through their views.
    let unused = [inputs.q, inputs.k, inputs.v];
    let [dq, dk, dv] = unused;
    let backward = Backward { stream, prepared: &prepared, out, dout, lse: saved.lse, dq, dk, dv };
    backward.sinks(dsinks.reborrow())
}

/// The forward's inputs prepared again, what it left checked against them.
pub(super) fn prepare<'a>(
    stream: &Stream,
    inputs: &AttentionInputs<'a>,
    saved: &AttentionSaved<'_>,
    params: &AttentionParams,
) -> Result<Prepared<'a>> {
    let prepared = Prepared::new(OP, stream, inputs, params)?;
    let dtype = inputs.q.dtype();
    let rows = &inputs.q.shape()[..3];
    let with_depth = [rows[0], rows[1], rows[2], prepared.value_depth];
    for (arg, view) in [("out", &saved.out), ("dout", &saved.dout)] {
        check_output(OP, stream, OutputOf { arg, view, dtype, shape: &with_depth })?;
    }
    check_output(OP, stream, OutputOf { arg: "lse", view: &saved.lse, dtype: sum_dtype(dtype), shape: rows })?;
    Ok(prepared)
}

/// A checked call whose views the kernels can read and write.
struct Backward<'a> {
    stream: &'a Stream,
    prepared: &'a Prepared<'a>,
    out: View<'a>,
    dout: View<'a>,
    lse: View<'a>,
    dq: View<'a>,
    dk: View<'a>,
    dv: View<'a>,
}

impl Backward<'_> {
    fn run(&self) -> Result<()> {
        let p = self.prepared;
        let kv_heads = p.heads / p.group;
        let rows = self.out.shape()[..3].iter().product::<usize>();
        let device = self.stream.device();
        let delta = Tensor::empty(&device, &[rows.max(1)], sum_dtype(self.out.dtype()))?;
        if rows > 0 {
            self.delta(&delta)?;
        }
        if let Some((call, kernel)) = self.theirs(&device) {
            return call.launch(self.stream, &kernel, &delta);
        }
        let depths = [Prepared::padded(p.depth), Prepared::padded(p.value_depth)];
        let (dtype, extra, rows) = (self.out.dtype(), p.extra(), [p.q_rows, p.k_rows]);
        let gradients = Gradients { dtype, depths, extra, rows };
        let chosen = choice::decide(device.arch().info(), device.config().matrix, &gradients);
        if p.q_rows > 0 && !self.dq.is_empty() {
            let tiles = p.q_rows.div_ceil(chosen.queries.tile.resident_rows());
            self.launch(chosen.queries, [tiles, p.heads], &delta, &[self.dq.buffer()])?;
        }
        if p.k_rows > 0 && !self.dk.is_empty() {
            let both = [self.dk.buffer(), self.dv.buffer()];
            for key in chosen.keys.into_iter().flatten() {
                let written = match key.part {
                    Part::Values => &both[1..],
                    Part::Keys => &both[..1],
                    Part::Both | Part::Queries | Part::Delta => &both[..],
                };
                self.launch(key, [p.k_rows.div_ceil(key.tile.resident_rows()), kv_heads], &delta, written)?;
            }
        }
        Ok(())
    }

    /// AITER's kernel and its call, where it goes first and is there.
    fn theirs(&self, device: &Device) -> Option<(aiter::backward::Call<'_>, Function)> {
        let views = aiter::backward::Views { dout: self.dout, lse: self.lse, gradients: [self.dq, self.dk, self.dv] };
        let call = aiter::backward::Call::of(device, self.prepared, views).ok()?;
        let kernel = call.kernel(device)?;
        Some((call, kernel))
    }

    fn delta(&self, delta: &Tensor) -> Result<()> {
        let &[batches, heads, rows] = self.out.shape().first_chunk().expect("a checked output has four axes");
        if heads > GRID_YZ_MAX {
            return Err(shape(OP, "q", format!("at most {GRID_YZ_MAX} heads"), heads));
        }
        let source = sources(GradientKey::delta(self.out.dtype()));
        let (name, block) = ((OP, "attention_delta"), [DELTA_BLOCK, 1, 1]);
        for first in (0..batches).step_by(GRID_YZ_MAX) {
            let args = self.args(first, 0, delta);
            let grid = [rows.div_ceil(DELTA_ROWS), heads, GRID_YZ_MAX.min(batches - first)];
            let shape = [grid[2] * heads * rows, self.prepared.value_depth];
            let work = Work { category: Category::Attention, shape: &shape, ..Work::default() };
            // SAFETY:
            // - `GradientArgs` is the twin of the kernel's struct; `out` and `dout` are checked views of batches x heads x q_rows
            //   rows, of which there are some, and `delta` has an element for each.
            // - It writes `delta` only.
            unsafe {
                KernelLaunch::new(self.stream, &source, name, grid, block)
                    .with(0, work)
                    .run_bytes(bytemuck::bytes_of(&args), &[delta.buffer()])?
            };
        }
        Ok(())
    }

    fn sinks(&self, dsinks: ViewMut<'_>) -> Result<()> {
        let rows = self.out.shape()[..3].iter().product::<usize>();
        let delta = Tensor::empty(&self.stream.device(), &[rows.max(1)], sum_dtype(self.out.dtype()))?;
        if rows > 0 {
            self.delta(&delta)?;
        }
        let key = GradientKey::delta(self.out.dtype());
        let args = GradientArgs { dsinks: dsinks.device_address(), ..self.args(0, rows, &delta) };
        let (grid, block) = ([self.prepared.heads, 1, 1], [DELTA_BLOCK, 1, 1]);
        let (name, args) = ((OP, "attention_sinks"), bytemuck::bytes_of(&args));
        let shape = [rows, self.prepared.heads];
        let work = Work { category: Category::Attention, shape: &shape, ..Work::default() };
        // SAFETY:
        // - `GradientArgs` is the twin of the kernel's struct; `lse` is a checked view of batches x heads x q_rows, `delta` has an
        //   element for each, and `sinks` and `dsinks` one for every head: a workgroup's is below their number.
        // - It writes `dsinks` only.
        unsafe {
            KernelLaunch::new(self.stream, &sources(key), name, grid, block)
                .with(0, work)
                .run_bytes(args, &[dsinks.buffer()])?
        };
        Ok(())
    }

    fn launch(&self, key: GradientKey, grid: [usize; 2], delta: &Tensor, written: &[&Buffer]) -> Result<()> {
        let source = sources(key);
        let wave_size = self.stream.device().arch().info().wave_size as usize;
        let name = (OP, if key.part == Part::Queries { "attention_backward_q" } else { "attention_backward_kv" });
        let batches = self.prepared.batches;
        for first in (0..batches).step_by(GRID_YZ_MAX) {
            let args = self.args(first, 0, delta);
            let grid = [grid[0], grid[1], GRID_YZ_MAX.min(batches - first)];
            let block = [key.tile.threads(wave_size), 1, 1];
            let p = self.prepared;
            let shape = [p.batches, p.heads, p.q_rows, p.depth];
            let work = p.work(self.stream, &shape, grid[2], &key.part.each(p.depth, p.value_depth));
            let args = bytemuck::bytes_of(&args);
            let lds_bytes = key.tile.lds_bytes(key.dtype, key.depths, key.resident_in_lds()) as u32;
            // SAFETY:
            // - `GradientArgs` is the twin of the kernel's struct, sizes asserted on both sides. Views were checked to have the
            //   shapes that the extents in it say, with 16-byte rows, and lie inside their buffers; the kernel reads rows below
            //   those extents, and writes rows that are there.
            // - `written` lists the gradients that this part writes.
            unsafe {
                KernelLaunch::new(self.stream, &source, name, grid, block)
                    .with(lds_bytes, work)
                    .run_bytes(args, written)?
            };
        }
        Ok(())
    }

    /// The arguments for batches from `first` on.
    fn args(&self, first: usize, rows: usize, delta: &Tensor) -> GradientArgs {
        let p = self.prepared;
        let varied = p.inputs.starts.is_some();
        let moved = |view: &View<'_>, batch: i64| {
            let stride = if varied { 0 } else { batch };
            let bytes = first as i64 * stride * view.dtype().size_bytes() as i64;
            (view.device_address().wrapping_add_signed(bytes), stride)
        };
        let of = |view: &View<'_>| {
            let [batch, head, row, _] = strides(view);
            let (at, batch) = moved(view, batch);
            (at, batch, head, row)
        };
        let (out, out_batch, out_head, out_row) = of(&self.out);
        let (dout, dout_batch, dout_head, dout_row) = of(&self.dout);
        let (dq, dq_batch, dq_head, dq_row) = of(&self.dq);
        let (dk, dk_batch, dk_head, dk_row) = of(&self.dk);
        let (dv, dv_batch, dv_head, dv_row) = of(&self.dv);
        let [lse_batch, lse_head, lse_row] = line_strides(&self.lse);
        let (lse, lse_batch) = moved(&self.lse, lse_batch);
        let (heads, q_rows) = (self.out.shape()[1] as i64, self.out.shape()[2] as i64);
        let (delta, delta_batch) = moved(&delta.view(), heads * q_rows);
        GradientArgs {
            problem: p.behind_batch(first),
            out,
            dout,
            lse,
            delta,
            dq,
            dk,
            dv,
            out_batch,
            out_head,
            out_row,
            dout_batch,
            dout_head,
            dout_row,
            lse_batch,
            lse_head,
            lse_row,
            delta_batch,
            delta_head: q_rows,
            dq_batch,
            dq_head,
            dq_row,
            dk_batch,
            dk_head,
            dk_row,
            dv_batch,
            dv_head,
            dv_row,
            rows: rows as i64,
            dsinks: 0,
        }
    }
}

/// Which kernel a source has: `ATTENTION_PART`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Delta = 0,
    Queries = 1,
    Both = 2,
    Values = 3,
    Keys = 4,
}

impl Part {
    /// What it does: scores are multiplied anew, then what comes from the result's gradient.
    fn each(self, depth: usize, value_depth: usize) -> Each {
        let (pair, query, key) = match self {
            Part::Delta => (0, 2 * value_depth, 0),
            Part::Queries => (2 * depth + value_depth, 2 * depth + value_depth, depth + value_depth),
            Part::Both => (2 * (depth + value_depth), depth + value_depth, 2 * (depth + value_depth)),
            Part::Values => (depth + value_depth, depth + value_depth, depth + value_depth),
            Part::Keys => (2 * depth + value_depth, depth + value_depth, 2 * depth + value_depth),
        };
        Each { pair, query, key }
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GradientKey {
    pub dtype: DType,
    /// Padded head sizes of queries and keys, and of values.
    pub depths: [usize; 2],
    pub tile: Tile,
    pub extra: bool,
    pub part: Part,
}

impl GradientKey {
    /// Of the kernels that are not cut into tiles: head sizes do not matter to them, and one source of each type serves all.
    fn delta(dtype: DType) -> GradientKey {
        GradientKey { dtype, depths: [32, 32], tile: Tile::SMALLEST, extra: false, part: Part::Delta }
    }

    /// Depths of the resident operands: keys alone give the gradient of values.
    fn resident_in_lds(&self) -> &[usize] {
        if self.part == Part::Values { &self.depths[..1] } else { &self.depths }
    }
}

fn sources(key: GradientKey) -> std::sync::Arc<Source> {
    static SOURCES: Sources<GradientKey> = Sources::new();
    SOURCES.get(key, backward_source)
}

/// The source of one variant.
pub(crate) fn backward_source(key: GradientKey) -> Source {
    const TEXT: &str = concat!(
        include_str!("tile.h"),
        include_str!("stages.h"),
        include_str!("fours.h"),
        include_str!("scores.h"),
        include_str!("attention_backward.hip")
    );
    let numbers = [
        ("ATTENTION_D", key.depths[0]),
        ("ATTENTION_DV", key.depths[1]),
        ("ATTENTION_EXTRA", key.extra.into()),
        ("ATTENTION_PART", key.part as usize),
    ];
    let types = [("ATTENTION_IN", c_type(key.dtype)), ("ATTENTION_REAL", c_type(sum_dtype(key.dtype)))];
    let tile = key.tile.defines().map(|(name, value)| (name, usize::from(value)));
    let numbers: Vec<(&str, String)> = numbers.into_iter().chain(tile).map(|(name, n)| (name, n.to_string())).collect();
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("attention_backward", TEXT, &defines)
}

/// `GradientArgs` of `attention_backward.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GradientArgs {
    problem: Problem,
    out: u64,
    dout: u64,
    lse: u64,
    delta: u64,
    dq: u64,
    dk: u64,
    dv: u64,
    out_batch: i64,
    out_head: i64,
    out_row: i64,
    dout_batch: i64,
    dout_head: i64,
    dout_row: i64,
    lse_batch: i64,
    lse_head: i64,
    lse_row: i64,
    delta_batch: i64,
    delta_head: i64,
    dq_batch: i64,
    dq_head: i64,
    dq_row: i64,
    dk_batch: i64,
    dk_head: i64,
    dk_row: i64,
    dv_batch: i64,
    dv_head: i64,
    dv_row: i64,
    rows: i64,
    dsinks: u64,
}
const _: () = assert!(size_of::<GradientArgs>() == size_of::<Problem>() + 232);
