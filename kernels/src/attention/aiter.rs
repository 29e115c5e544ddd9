//! When AITER's kernels compute [`attention`](super::attention()), and how they are launched; `backward.rs` has its gradients.
//!
//! What they are exact for: bf16, heads of 128 for keys and values, every query seeing all keys or, causal, no more queries than keys;
//! any number of rows, heads that share keys, strides of whole vectors below 2³² bytes ([`Call::of`] has it to the last condition).
//! No mask, bias, slopes, sinks, soft-cap, window, dropout or sequences of different lengths: whether where a sequence begins lies
//! inside of the tensor only the device knows, and these kernels do not hold it there.
//!
//! When they pay: from [`ROWS_LEAST`] queries on, half of a workgroup's tile, unless ours would cut the keys into slices because
//! there are too few workgroups for a card: theirs are half as many. They add nothing by atomics, so deterministic runs have them.
//!
//! Of what a query does not see in a tile that it sees some of, these kernels multiply values by zero: an infinity there makes NaN of
//! its row, as it does of rows that see it.

use rocfire_hal::profile::Work;
use rocfire_hal::{Buffer, DType, Device, Function, Launch, Stream, View};

use super::attention::{line_strides, slices};
use super::problem::{Prepared, UNLIMITED, strides};
use super::work::Each;
use crate::Result;
use crate::aiter::{FORWARD_BLOCK, Forward, ForwardArgs, Lines, Role};
use crate::attached::Attached;
use crate::family::GRID_YZ_MAX;

/// The head size.
const DEPTH: usize = 128;
const BYTES: i64 = DType::BF16.size_bytes() as i64;
/// Queries from which on a workgroup's rows are half of them there.
pub(super) const ROWS_LEAST: usize = 128;
/// Rows beyond the last that addresses are made for, of a tile and of the tiles that are loaded ahead of it.
const ROWS_BEYOND: i64 = 512;
/// Bytes below which the rows of a head end, so that no 32-bit place wraps into what is there.
const ROWS_END: i64 = 1 << 31;
/// The kernels hide by the lowest f32 divided by the scale, and divide by it: within these both are far from their ends.
const SCALES: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

const FAR: &str = "rows lie further apart than 32 bits reach, or overlap";

/// Why they go first, in words.
pub(super) const WHY: &str = "from 128 queries on, where ours do not cut the keys into slices";

/// A forward that they are exact for.
pub(super) struct Call<'a> {
    prepared: &'a Prepared<'a>,
    forward: Forward,
    out: &'a Buffer,
    lse: Option<&'a Buffer>,
}

impl<'a> Call<'a> {
    /// The call, if they are exact for it and it pays, whether or not they are there; else what speaks against it. `out` lies in
    /// whole vectors.
    pub fn of(p: &'a Prepared<'a>, out: &View<'a>, lse: Option<View<'a>>) -> Result<Call<'a>, &'static str> {
        if let Some(against) = against(p) {
            return Err(against);
        }
        let problem = &p.problem;
        let (heads, kv_heads) = (p.heads, p.heads / p.group);
        let lines = |strides, heads, rows| lines(strides, p.batches, heads, rows).ok_or(FAR);
        let [out_batch, out_head, out_row, _] = strides(out);
        let lse_head = match &lse {
            Some(lse) => lse_head(p, line_strides(lse)).ok_or("logarithms of sums lie apart")?,
            None => 0,
        };
        let forward = Forward {
            out: out.device_address(),
            q: problem.q,
            k: problem.k,
            v: problem.v,
            lse: lse.as_ref().map_or(0, |lse| lse.device_address()),
            starts: [0; 2],
            out_lines: lines([out_batch, out_head, out_row], heads, p.q_rows)?,
            q_lines: lines([problem.q_batch, problem.q_head, problem.q_row], heads, p.q_rows)?,
            k_lines: lines([problem.k_batch, problem.k_head, problem.k_row], kv_heads, p.k_rows)?,
            v_lines: lines([problem.v_batch, problem.v_head, problem.v_row], kv_heads, p.k_rows)?,
            lse_head,
            heads: heads as u32,
            group: p.group as u32,
            rows: [p.q_rows as u32, p.k_rows as u32],
            depths: [DEPTH as u32; 2],
            scale: problem.scale as f32,
            causal: problem.right == 0,
        };
        Ok(Call { prepared: p, forward, out: out.buffer(), lse: lse.as_ref().map(View::buffer) })
    }

    /// What its kernel is listed for.
    pub fn role(&self) -> Role {
        if self.forward.causal { Role::AttentionCausal } else { Role::Attention }
    }

    /// The kernel, if the device has it.
    pub fn kernel(&self, device: &Device) -> Option<Function> {
        Attached::of(device).aiter(device).kernel(device, self.role(), size_of::<ForwardArgs>())
    }

    /// Launches it.
    ///
    /// # Errors
    /// Those of the launch.
    pub fn launch(&self, stream: &Stream, kernel: &Function) -> Result<()> {
        let p = self.prepared;
        let shape = [p.batches, p.heads, p.q_rows, p.value_depth];
        let work: Work<'_> = p.work(stream, &shape, p.batches, &Each::forward(p));
        let outputs = [self.out, self.lse.unwrap_or(self.out)];
        let args = self.forward.args();
        let launch = Launch {
            label: "attention",
            grid: [self.forward.tiles(), p.heads as u32, p.batches as u32],
            block: [FORWARD_BLOCK, 1, 1],
            lds_bytes: 0,
            args: bytemuck::bytes_of(&args),
            outputs: &outputs[..1 + usize::from(self.lse.is_some())],
            work,
        };
        // SAFETY:
        // - `ForwardArgs` is what this kernel takes, whose code object is known by its hash; its size was compared with what the
        //   code object says. Addresses are of views whose shapes were checked, of the extents in it, with rows of whole vectors
        //   that do not overlap; `of` has seen that no offset the kernel makes of strides and extents passes 32 bits, so that its
        //   range checks hold it to rows that are there. `out` and `lse` are apart from the inputs.
        // - It writes `out` and `lse` only.
        unsafe { stream.launch(kernel, &launch)? };
        Ok(())
    }
}

/// What of a call the kernels do not compute, wherever it lies, or what makes ours the faster ones.
fn against(p: &Prepared<'_>) -> Option<&'static str> {
    let groups = p.q_rows.div_ceil(ROWS_LEAST) * p.heads * p.batches;
    let pays = [
        (p.q_rows >= ROWS_LEAST, "fewer than 128 queries"),
        (slices(p, groups).is_none(), "so few workgroups that ours cut the keys into slices"),
    ];
    first_against(conditions(p).into_iter().chain(pays))
}

/// What of a call the kernels compute, forward or backward, wherever it lies.
fn conditions(p: &Prepared<'_>) -> [(bool, &'static str); 9] {
    let problem = &p.problem;
    let sees_all = problem.left == UNLIMITED && problem.right == UNLIMITED;
    let is_causal = problem.left == UNLIMITED && problem.right == 0;
    [
        (p.inputs.q.dtype() == DType::BF16, "not bf16"),
        ([p.depth, p.value_depth] == [DEPTH; 2], "heads are not of 128"),
        (!p.extra() && problem.sinks == 0, "scores have more to them than a scale"),
        (problem.q_starts == 0, "sequences of different lengths"),
        (sees_all || is_causal, "a window"),
        // A causal query before the first key sees none, and its result is not zeros.
        (sees_all || p.q_rows <= p.k_rows, "causal, and more queries than keys"),
        (p.k_rows > 0, "no keys"),
        (SCALES.contains(&problem.scale), "an uncommon scale"),
        (p.heads <= GRID_YZ_MAX && p.batches <= GRID_YZ_MAX, "more heads or batches than a grid has"),
    ]
}

/// The first condition that does not hold.
fn first_against(conditions: impl IntoIterator<Item = (bool, &'static str)>) -> Option<&'static str> {
    conditions.into_iter().find_map(|(holds, against)| (!holds).then_some(against))
}

/// Where the rows of a tensor lie, in bytes, if the kernels' 32-bit arithmetic reaches all of it.
fn lines([batch, head, row]: [i64; 3], batches: usize, heads: usize, rows: usize) -> Option<Lines> {
    // The stride of an axis of one row says nothing, but a head's bytes are counted by it.
    let row = if rows == 1 { DEPTH as i64 } else { row };
    let [batch, head, row] = [batch, head, row].map(|stride| stride.checked_mul(BYTES));
    let (batch, head, row) = (batch?, head?, row?);
    let rows_end = (rows as i64 + ROWS_BEYOND).checked_mul(row)?;
    let start = (batches as i64 - 1).checked_mul(batch)?.checked_add((heads as i64 - 1).checked_mul(head)?)?;
    let fits = row >= DEPTH as i64 * BYTES && rows_end < ROWS_END && start <= i64::from(u32::MAX);
    let [batch, head, row] = [batch, head, row].map(|stride| u32::try_from(stride).ok());
    fits.then_some(Lines { batch: batch?, head: head?, row: row? })
}

/// From one head's logarithms to the next one's, in bytes, if they lie as the kernels write them: rows behind each other, heads
/// anywhere apart, batches as far as all heads.
fn lse_head(p: &Prepared<'_>, [batch, head, row]: [i64; 3]) -> Option<u32> {
    let heads = p.heads as i64;
    let head = match (p.heads, p.batches) {
        (1, 1) => p.q_rows as i64,
        (1, _) => batch,
        _ => head,
    };
    let is_dense = row == 1 || p.q_rows == 1;
    let follows = p.batches == 1 || batch == heads.checked_mul(head)?;
    let bytes = head.checked_mul(size_of::<f32>() as i64)?;
    let end = bytes.checked_mul(heads)?.checked_mul(p.batches as i64)?;
    (is_dense && follows && head >= p.q_rows as i64 && end < ROWS_END).then(|| u32::try_from(bytes).ok()).flatten()
}

pub(super) mod backward;

#[cfg(test)]
mod tests;
