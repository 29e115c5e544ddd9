//! `attention_plain`: the launcher of `plain.hip`, which [`attention`](super::attention()) takes where it pays.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{ArchInfo, Vendor};
use rocfire_hal::{DType, Device, Source, Stream, ViewMut};

use super::AttentionParams;
use super::problem::{ALL, Prepared, UNLIMITED, strides, takes_depth};
use super::tile::side;
use super::work::Each;
use crate::Result;
use crate::family::{GRID_YZ_MAX, KernelLaunch, Sources};

/// Head sizes that it has.
pub(crate) const DEPTHS: [usize; 2] = [32, 64];
/// Rows of the Q tile and of a KV tile, padding of their rows and of those of the weights: as in `plain.hip`.
const Q_TILE: usize = 32;
const KV_TILE: usize = 128;
const PADDING: usize = 4;
const WEIGHTS: usize = KV_TILE + 16;
const THREADS: usize = 128;
/// Queries from which on a workgroup's rows are half of them there.
const ROWS_LEAST: usize = 17;

/// Whether it computes this: f32 with a bias at most, where queries see all keys.
fn serves(p: &Prepared<'_>) -> bool {
    let problem = &p.problem;
    let only_bias = problem.mask == 0 && problem.softcap == 0.0 && problem.keep == ALL;
    p.inputs.q.dtype() == DType::F32
        && DEPTHS.contains(&p.depth)
        && p.value_depth == p.depth
        && only_bias
        && [problem.slopes, problem.sinks, problem.q_starts] == [0; 3]
        && [problem.left, problem.right] == [UNLIMITED; 2]
        && p.k_rows > 0
        && p.heads <= GRID_YZ_MAX
        && p.batches <= GRID_YZ_MAX
}

/// Whether it is taken for a forward without logarithms of sums: where asked for, or on NVIDIA's cards, where it was measured, for
/// enough queries.
pub(super) fn is_taken(info: &ArchInfo, p: &Prepared<'_>, params: &AttentionParams) -> bool {
    let pays = info.vendor == Vendor::Nvidia && p.q_rows >= ROWS_LEAST;
    params.plain.unwrap_or(pays) && serves(p)
}

/// Whether [`attention`](super::attention()) of rows of these heads is faster than two products with a softmax between them: on a matrix unit
/// that has the type, and by the kernel here on NVIDIA's cards.
pub fn is_fast(device: &Device, dtype: DType, [depth, value_depth]: [usize; 2]) -> bool {
    let info = device.arch().info();
    let is_plain = info.vendor == Vendor::Nvidia && dtype == DType::F32;
    let has_unit = device.config().matrix && side(info, dtype) > 0;
    let has_depths = [depth, value_depth].into_iter().all(takes_depth);
    has_depths && (has_unit || is_plain && DEPTHS.contains(&depth) && depth == value_depth)
}

/// Workgroups.
pub(super) fn groups(p: &Prepared<'_>) -> usize {
    p.q_rows.div_ceil(Q_TILE) * p.heads * p.batches
}

/// Computes `out`, whose rows lie in whole vectors.
///
/// # Errors
/// Those of compilation and launch.
pub(super) fn run(stream: &Stream, p: &Prepared<'_>, out: &ViewMut<'_>) -> Result<()> {
    static SOURCES: Sources<usize> = Sources::new();
    let source = SOURCES.get(p.depth, source);
    let [out_batch, out_head, out_row, _] = strides(&out.view());
    let problem = &p.problem;
    let args = PlainArgs {
        q: problem.q,
        k: problem.k,
        v: problem.v,
        bias: problem.bias,
        out: out.view().device_address(),
        q_strides: [problem.q_batch, problem.q_head, problem.q_row],
        k_strides: [problem.k_batch, problem.k_head, problem.k_row],
        v_strides: [problem.v_batch, problem.v_head, problem.v_row],
        out_strides: [out_batch, out_head, out_row],
        bias_strides: [problem.bias_batch, problem.bias_head, problem.bias_row, problem.bias_column],
        scale: problem.scale as f32,
        group: problem.group,
        q_rows: problem.q_rows,
        k_rows: problem.k_rows,
    };
    let grid = [p.q_rows.div_ceil(Q_TILE), p.heads, p.batches];
    let shape = [p.batches, p.heads, p.q_rows, p.value_depth];
    let work = p.work(stream, &shape, p.batches, &Each::forward(p));
    let (name, written) = (("attention", "attention_plain"), [out.view().buffer()]);
    let (lds_bytes, args) = (lds_bytes(p.depth) as u32, bytemuck::bytes_of(&args));
    // SAFETY:
    // - `PlainArgs` is the twin of the kernel's struct. The views were checked to have the shapes that the extents in it say, with
    //   rows of whole vectors, and lie inside their buffers; `out` is apart from them. The kernel reads and writes rows below those extents.
    // - It writes `out` only, which is in `written`.
    unsafe {
        KernelLaunch::new(stream, &source, name, grid, [THREADS, 1, 1]).with(lds_bytes, work).run_bytes(args, &written)
    }
}

fn lds_bytes(depth: usize) -> usize {
    size_of::<f32>() * ((KV_TILE + Q_TILE) * (depth + PADDING) + Q_TILE * WEIGHTS)
}

/// The source for a head size.
pub(crate) fn source(depth: usize) -> Source {
    let (depth, lds_bytes) = (depth.to_string(), lds_bytes(depth).to_string());
    let defines = [("ATTENTION_D", depth.as_str()), ("ATTENTION_LDS_BYTES", &lds_bytes)];
    Source::new("attention_plain", include_str!("plain.hip"), &defines)
}

/// `PlainArgs` of `plain.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PlainArgs {
    q: u64,
    k: u64,
    v: u64,
    bias: u64,
    out: u64,
    q_strides: [i64; 3],
    k_strides: [i64; 3],
    v_strides: [i64; 3],
    out_strides: [i64; 3],
    bias_strides: [i64; 4],
    scale: f32,
    group: i32,
    q_rows: i32,
    k_rows: i32,
}
const _: () = assert!(size_of::<PlainArgs>() == 184);
