//! `attention`: the launcher of `attention.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::ArchInfo;
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Source, Stream, Tensor, View, ViewMut};

use super::problem::{Prepared, Problem, readable, strides};
use super::tile::{Tile, general_only};
use super::work::Each;
use super::{AttentionInputs, AttentionParams, aiter, plain};
use crate::Result;
use crate::family::{self, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape, sum_dtype};

const OP: &str = "attention";
/// Threads of `attention_combine`.
const COMBINE_BLOCK: usize = 256;
/// Queries per head up to which the heads that share their keys go to one workgroup.
const PACKED_ROWS_MAX: usize = 16;
/// Split-K: keys are cut into slices of at least so many where workgroups are few: fewer than [`SLICED_GROUPS_MAX`], a fraction of
/// what a large card runs at once. A constant, since the slices decide the order of sums.
const SLICE_ROWS: usize = 256;
const SLICED_GROUPS_MAX: usize = 128;
/// Workgroups from which on a Q tile has twice the rows, where there is such a tile and a head has more queries than the smaller one: as
/// many waves as the smaller tile's [`SLICED_GROUPS_MAX`].
const WIDE_GROUPS_MIN: usize = SLICED_GROUPS_MAX / 2;
/// Most slices: beyond, adding them up costs more than it saves.
const SLICES_MAX: usize = 32;

/// `out = softmax(q · kᵀ · scale + bias) · v`, batched over heads.
///
/// # Shapes
/// Inputs as [`AttentionInputs`] says, head sizes multiples of 8 up to [`super::DEPTH_MAX`], that of `v` its own. `out`:
/// `[batches, heads, q_rows, value_depth]`, any strides; `lse`: `[batches, heads, q_rows]`, any strides: the natural logarithm
/// of the sum of exponentials. With `starts`, `out` and `lse` have one batch of all rows.
/// # Types
/// f64, f32, f16 or bf16, one for all; `lse` f32 (f64 for f64).
/// # Numerics
/// Products, exponentials and sums in f32 (f64 for f64); on the matrix unit weights are rounded to the inputs' type before
/// they multiply `v`. The order is a function of shapes and architecture. A row that sees nothing gives zeros, its `lse` minus
/// infinity. A NaN or infinity spoils its row, or all rows that see it. AITER's kernels, where they are installed and `aiter.rs` says
/// so, sum in an order of theirs, the same on every run; an infinite value spoils rows that see other keys of its tile, too.
/// # Errors
/// `Shape` for shapes that do not fit, outputs that overlap an input, more than 65535 heads; `Unsupported` for other types;
/// errors of compilation and launch.
pub fn attention(
    stream: &Stream,
    inputs: &AttentionInputs<'_>,
    params: &AttentionParams,
    mut out: ViewMut<'_>,
    mut lse: Option<ViewMut<'_>>,
) -> Result<()> {
    let prepared = Prepared::new(OP, stream, inputs, params)?;
    let rows = &inputs.q.shape()[..3];
    let with_depth = [rows[0], rows[1], rows[2], prepared.value_depth];
    check_output(OP, stream, OutputOf { arg: "out", view: &out, dtype: inputs.q.dtype(), shape: &with_depth })?;
    family::writable(OP, "out", &out)?;
    disjoint_from_inputs(OP, inputs, &out)?;
    if let Some(lse) = &lse {
        check_output(OP, stream, OutputOf { arg: "lse", view: lse, dtype: sum_dtype(inputs.q.dtype()), shape: rows })?;
        family::writable(OP, "lse", lse)?;
        disjoint_from_inputs(OP, inputs, lse)?;
        family::disjoint(OP, "lse", &out, lse)?;
    }
    if out.is_empty() || prepared.q_rows == 0 {
        return Ok(());
    }
    if !readable(&out) {
        let mut stand_in = Tensor::empty(out.device(), out.shape(), out.dtype())?;
        let lse = lse.as_mut().map(ViewMut::reborrow);
        Forward { stream, prepared: &prepared, params, out: stand_in.view_mut(), lse }.run()?;
        return family::copy_into(stream, stand_in.view(), out.reborrow());
    }
    Forward { stream, prepared: &prepared, params, out, lse }.run()
}

/// A tensor that the forward writes, or a gradient.
pub(crate) struct OutputOf<'a> {
    pub arg: &'static str,
    pub view: &'a View<'a>,
    pub dtype: DType,
    pub shape: &'a [usize],
}

/// Checks device, type and shape.
pub(crate) fn check_output(op: &'static str, stream: &Stream, output: OutputOf<'_>) -> Result<()> {
    let OutputOf { arg, view, dtype, shape: expected } = output;
    family::on_device(op, arg, stream, view)?;
    family::same_dtype(op, arg, view, dtype)?;
    if view.shape() == expected {
        return Ok(());
    }
    Err(shape(op, arg, format!("{expected:?}"), format!("{:?}", view.shape())))
}

/// Checks that an output shares no element with an input.
pub(crate) fn disjoint_from_inputs(op: &'static str, inputs: &AttentionInputs<'_>, view: &View<'_>) -> Result<()> {
    let AttentionInputs { q, k, v, mask, bias, starts: _, slopes, sinks } = inputs;
    let optional =
        [("mask", mask), ("bias", bias), ("slopes", slopes), ("sinks", sinks)].map(|(arg, view)| (arg, view.as_ref()));
    for (arg, other) in [("q", Some(q)), ("k", Some(k)), ("v", Some(v))].into_iter().chain(optional) {
        if let Some(other) = other {
            family::disjoint(op, arg, view, other)?;
        }
    }
    Ok(())
}

/// Strides of `[batches, heads, rows]`, 0 along axes of one index.
pub(crate) fn line_strides(view: &View<'_>) -> [i64; 3] {
    let layout = view.layout();
    std::array::from_fn(|axis| if layout.shape()[axis] == 1 { 0 } else { layout.strides()[axis] })
}

/// A checked call.
struct Forward<'a> {
    stream: &'a Stream,
    prepared: &'a Prepared<'a>,
    params: &'a AttentionParams,
    out: ViewMut<'a>,
    lse: Option<ViewMut<'a>>,
}

/// How keys are cut.
#[derive(Clone, Copy)]
pub(super) struct Slices {
    pub count: usize,
    pub rows: usize,
}

impl Forward<'_> {
    fn run(mut self) -> Result<()> {
        let p = self.prepared;
        let device = self.stream.device();
        let (info, dtype) = (device.arch().info(), p.inputs.q.dtype());
        let is_plain = self.lse.is_none() && plain::is_taken(info, p, self.params);
        if is_plain && slices(p, plain::groups(p)).is_none() {
            return plain::run(self.stream, p, &self.out);
        }
        if let Ok(call) = aiter::Call::of(p, &self.out.view(), self.lse.as_ref().map(|lse| lse.view()))
            && let Some(kernel) = call.kernel(&device)
        {
            return call.launch(self.stream, &kernel);
        }
        let depths = [Prepared::padded(p.depth), Prepared::padded(p.value_depth)];
        let Choice { tile, packed, grid, slices } = choice(info, device.config().matrix, p, depths);
        if grid[1] > GRID_YZ_MAX {
            return Err(shape(OP, "q", format!("at most {GRID_YZ_MAX} heads"), grid[1]));
        }
        let key = AttentionKey {
            dtype,
            depths,
            tile,
            extra: p.extra() || general_only(info, tile, depths),
            split: slices.is_some(),
        };
        static SOURCES: Sources<AttentionKey> = Sources::new();
        let source = SOURCES.get(key, source);
        let lds_bytes = tile.lds_bytes(dtype, depths, &depths[..1]) as u32;
        let run = Run { source: &source, tile, grid, packed, lds_bytes };
        let Some(slices) = slices else {
            let target = Target::of(&self.out.view(), self.lse.as_ref().map(|lse| lse.view()));
            return self.launch(&run, &target, Slices { count: 1, rows: 0 });
        };
        let lines = p.batches * p.heads * p.q_rows;
        let mut partial = Tensor::empty(&device, &[slices.count, lines, p.value_depth], sum_dtype(dtype))?;
        let mut states = Tensor::empty(&device, &[slices.count, lines, 2], sum_dtype(dtype))?;
        let depth = p.value_depth as i64;
        let (head, batch) = (p.q_rows as i64, (p.heads * p.q_rows) as i64);
        let target = Target {
            out: partial.view_mut().device_address(),
            lse: states.view_mut().device_address(),
            out_strides: [batch * depth, head * depth, depth, lines as i64 * depth],
            lse_strides: [batch * 2, head * 2, 2, lines as i64 * 2],
            out_buffer: partial.buffer(),
            lse_buffer: Some(states.buffer()),
            out_bytes: sum_dtype(dtype).size_bytes() as i64,
            lse_bytes: sum_dtype(dtype).size_bytes() as i64,
        };
        self.launch(&run, &target, slices)?;
        self.combine(&source, &partial, &states, slices.count, lines)
    }

    fn launch(&self, run: &Run<'_>, target: &Target<'_>, slices: Slices) -> Result<()> {
        let p = self.prepared;
        let wave_size = self.stream.device().arch().info().wave_size as usize;
        let most = (GRID_YZ_MAX / slices.count).max(1);
        for first in (0..p.batches).step_by(most) {
            let batches = most.min(p.batches - first);
            let mut problem = p.behind_batch(first);
            problem.first_batch = first as i32;
            let [mut out_batch, out_head, out_row, out_slice] = target.out_strides;
            let [mut lse_batch, lse_head, lse_row, lse_slice] = target.lse_strides;
            if p.inputs.starts.is_some() {
                (out_batch, lse_batch) = (0, 0);
            }
            let moved = |at: u64, stride: i64, size: i64| {
                if at == 0 { 0 } else { at.wrapping_add_signed(first as i64 * stride * size) }
            };
            let args = AttentionArgs {
                problem,
                out: moved(target.out, out_batch, target.out_bytes),
                lse: moved(target.lse, lse_batch, target.lse_bytes),
                out_batch,
                out_head,
                out_row,
                out_slice,
                lse_batch,
                lse_head,
                lse_row,
                lse_slice,
                packed: run.packed as i32,
                batches: batches as i32,
                slice_rows: slices.rows as i32,
                padding: 0,
            };
            let grid = [run.grid[0], run.grid[1], batches * slices.count];
            let (both, count) = target.written();
            let block = [run.tile.threads(wave_size), 1, 1];
            let shape = [p.batches, p.heads, p.q_rows, p.value_depth];
            let work = p.work(self.stream, &shape, batches, &Each::forward(p));
            let (name, args, written) = ((OP, "attention"), bytemuck::bytes_of(&args), &both[..count]);
            // SAFETY:
            // - `AttentionArgs` is the twin of the kernel's struct, sizes asserted on both sides. The views were checked to have
            //   the shapes that the extents in it say, with 16-byte rows, and lie inside their buffers; the kernel reads rows
            //   below those extents, starts below batches + 1 whose values it holds inside, and writes rows that are there.
            // - It writes `out` and `lse` only, which are in `written`.
            unsafe {
                KernelLaunch::new(self.stream, run.source, name, grid, block)
                    .with(run.lds_bytes, work)
                    .run_bytes(args, written)?
            };
        }
        Ok(())
    }

    fn combine(
        &mut self,
        source: &Source,
        partial: &Tensor,
        states: &Tensor,
        splits: usize,
        lines: usize,
    ) -> Result<()> {
        let p = self.prepared;
        let target = Target::of(&self.out.view(), self.lse.as_ref().map(|lse| lse.view()));
        let [out_batch, out_head, out_row, _] = target.out_strides;
        let [lse_batch, lse_head, lse_row, _] = target.lse_strides;
        let args = CombineArgs {
            slices: partial.view().device_address(),
            states: states.view().device_address(),
            out: target.out,
            lse: target.lse,
            sinks: p.problem.sinks,
            out_batch,
            out_head,
            out_row,
            lse_batch,
            lse_head,
            lse_row,
            splits: splits as i32,
            heads: p.heads as i32,
            q_rows: p.q_rows as i32,
            value_depth: p.value_depth as i32,
            rows: lines as i64,
        };
        let grid = [(lines * p.value_depth).div_ceil(COMBINE_BLOCK), 1, 1];
        let (both, count) = target.written();
        let shape = [splits, lines, p.value_depth];
        let work = Work { category: Category::Attention, shape: &shape, ..Work::default() };
        let name = (OP, "attention_combine");
        let (block, args) = ([COMBINE_BLOCK, 1, 1], bytemuck::bytes_of(&args));
        // SAFETY:
        // - `CombineArgs` is the twin of the kernel's struct; `partial` has splits x rows x value_depth elements, `states` two for
        //   each row, and `out` and `lse` are checked views of batches x heads x q_rows rows.
        // - It writes `out` and `lse` only.
        unsafe {
            KernelLaunch::new(self.stream, source, name, grid, block).with(0, work).run_bytes(args, &both[..count])?
        };
        Ok(())
    }
}

/// How tiles compute a forward.
pub(super) struct Choice {
    pub tile: Tile,
    /// Heads whose queries a workgroup has: few queries are filled up with those of other heads that share their keys.
    pub packed: usize,
    /// Tiles of queries and heads, or groups of heads.
    pub grid: [usize; 2],
    pub slices: Option<Slices>,
}

/// For padded head sizes.
pub(super) fn choice(info: &ArchInfo, matrix: bool, p: &Prepared<'_>, depths: [usize; 2]) -> Choice {
    let packed = if p.q_rows <= PACKED_ROWS_MAX { p.group } else { 1 };
    let rows = p.q_rows * packed;
    let tile = Tile::choose(info, matrix, p.inputs.q.dtype(), depths, rows);
    let tile = if p.extra() { tile.general() } else { tile };
    let grid = |tile: Tile| [rows.div_ceil(tile.resident_rows()), p.heads / packed];
    let groups = |tile: Tile| grid(tile).iter().product::<usize>() * p.batches;
    let slices = slices(p, groups(tile));
    let may_widen = !p.extra() && packed == 1 && slices.is_none() && rows > tile.resident_rows();
    let wide = tile.wide(info, p.inputs.q.dtype(), depths).filter(|&wide| may_widen && groups(wide) >= WIDE_GROUPS_MIN);
    let tile = wide.unwrap_or(tile);
    Choice { tile, packed, grid: grid(tile), slices }
}

/// Slices of the keys, where without them most of a card would be idle.
pub(super) fn slices(p: &Prepared<'_>, groups: usize) -> Option<Slices> {
    if p.inputs.starts.is_some() || groups >= SLICED_GROUPS_MAX || p.k_rows < 2 * SLICE_ROWS {
        return None;
    }
    let rows = p.k_rows.div_ceil(SLICES_MAX).next_multiple_of(SLICE_ROWS);
    Some(Slices { count: p.k_rows.div_ceil(rows), rows })
}

/// What launches have in common.
struct Run<'a> {
    source: &'a Source,
    tile: Tile,
    /// Tiles of queries and heads, or groups of heads.
    grid: [usize; 2],
    packed: usize,
    lds_bytes: u32,
}

/// Where a kernel writes: addresses, and strides of batch, head, row and slice.
struct Target<'a> {
    out: u64,
    lse: u64,
    out_strides: [i64; 4],
    lse_strides: [i64; 4],
    out_buffer: &'a rocfire_hal::Buffer,
    lse_buffer: Option<&'a rocfire_hal::Buffer>,
    out_bytes: i64,
    lse_bytes: i64,
}

impl<'a> Target<'a> {
    fn of(out: &View<'a>, lse: Option<View<'a>>) -> Target<'a> {
        let [batch, head, row, _] = strides(out);
        let mut lse_strides = [0; 4];
        if let Some(lse) = &lse {
            lse_strides[..3].copy_from_slice(&line_strides(lse));
        }
        Target {
            out: out.device_address(),
            lse: lse.as_ref().map_or(0, View::device_address),
            out_strides: [batch, head, row, 0],
            lse_strides,
            out_buffer: out.buffer(),
            lse_buffer: lse.as_ref().map(View::buffer),
            out_bytes: out.dtype().size_bytes() as i64,
            lse_bytes: lse.as_ref().map_or(0, |lse| lse.dtype().size_bytes() as i64),
        }
    }

    /// What is written, and how many of the two that is.
    fn written(&self) -> ([&'a rocfire_hal::Buffer; 2], usize) {
        let second = self.lse_buffer.unwrap_or(self.out_buffer);
        ([self.out_buffer, second], 1 + usize::from(self.lse_buffer.is_some()))
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttentionKey {
    pub dtype: DType,
    /// Padded head sizes of queries and keys, and of values.
    pub depths: [usize; 2],
    pub tile: Tile,
    pub extra: bool,
    pub split: bool,
}

/// The source of one variant.
pub(crate) fn source(key: AttentionKey) -> Source {
    const TEXT: &str = concat!(
        include_str!("tile.h"),
        include_str!("stages.h"),
        include_str!("fours.h"),
        include_str!("scores.h"),
        include_str!("blocks.h"),
        include_str!("attention.hip")
    );
    let numbers = [
        ("ATTENTION_D", key.depths[0]),
        ("ATTENTION_DV", key.depths[1]),
        ("ATTENTION_EXTRA", key.extra.into()),
        ("ATTENTION_SPLIT", key.split.into()),
    ];
    let types = [("ATTENTION_IN", c_type(key.dtype)), ("ATTENTION_REAL", c_type(sum_dtype(key.dtype)))];
    let tile = key.tile.defines().map(|(name, value)| (name, usize::from(value)));
    let numbers: Vec<(&str, String)> = numbers.into_iter().chain(tile).map(|(name, n)| (name, n.to_string())).collect();
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("attention", TEXT, &defines)
}

/// `AttentionArgs` of `attention.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AttentionArgs {
    problem: Problem,
    out: u64,
    lse: u64,
    out_batch: i64,
    out_head: i64,
    out_row: i64,
    out_slice: i64,
    lse_batch: i64,
    lse_head: i64,
    lse_row: i64,
    lse_slice: i64,
    packed: i32,
    batches: i32,
    slice_rows: i32,
    padding: i32,
}
const _: () = assert!(size_of::<AttentionArgs>() == size_of::<Problem>() + 96);

/// `AttentionCombineArgs` of `attention.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineArgs {
    slices: u64,
    states: u64,
    out: u64,
    lse: u64,
    sinks: u64,
    out_batch: i64,
    out_head: i64,
    out_row: i64,
    lse_batch: i64,
    lse_head: i64,
    lse_row: i64,
    splits: i32,
    heads: i32,
    q_rows: i32,
    value_depth: i32,
    rows: i64,
}
const _: () = assert!(size_of::<CombineArgs>() == 112);
