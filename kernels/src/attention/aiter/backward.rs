//! When AITER's kernels compute [`attention_backward`](super::super::attention_backward()), and how they are launched.
//!
//! What they are exact for is what those of the forward are, with the logarithms of sums laid out as these write them, every head of
//! keys' and values' gradients below 2³² bytes, and of queries and the result's gradient all heads in a row or no row across heads, as
//! gfx950's descriptors are made ([`Call::of`] has it to the last condition). Not in the list is gfx950's kernel for a causal mask: its
//! waves race on LDS with more than one tile of keys, which the emulator's check shows.
//!
//! The gradients of queries are added in f32 by atomics, in whatever order workgroups come: two runs differ in last bits. So theirs are
//! taken only where it was said that bits may differ (`ROCFIRE_DETERMINISTIC=0`); what no setting says keeps ours.
//!
//! When they pay: they compute the scores once for all gradients, ours twice, in five products for seven. For that the sums of queries'
//! gradients are set to zeros, added to and rounded, and where heads share keys, each head of queries has gradients of keys and values
//! of its own in bf16, which a launch adds. From [`ROWS_LEAST`] queries and keys on, more than half a tile of keys and eight steps of a
//! workgroup, the first is little. The second is a KiB a key and head beside 1280 operations a key, head and query: on a card of 100
//! operations a byte, an eighth of it with [`SHARED_ROWS_LEAST`] queries, and half of it with 128.
//!
//! What a query does not see in a tile that it sees some of is multiplied by a weight of zero: an infinity or a NaN there spoils what it
//! meets, as it does with those that see it.

use rocfire_arch::Family;
use rocfire_fusion::Reduce;
use rocfire_hal::{DType, Device, Function, Launch, Stream, Tensor, View};

use super::super::attention::line_strides;
use super::super::problem::{Prepared, strides};
use super::super::work::Each;
use super::{DEPTH, FAR, ROWS_BEYOND, ROWS_LEAST, conditions, first_against, lines, lse_head};
use crate::Result;
use crate::aiter::{BACKWARD_BLOCK, Backward, BackwardForm, Lines, Role};
use crate::attached::Attached;
use crate::graphs::{self, Graphs, Maker};

/// Bytes of a row's elements.
const ROW_BYTES: u64 = (DEPTH * DType::BF16.size_bytes()) as u64;
/// Queries from which on the gradients of keys that heads share are worth the launch that adds them.
pub(in super::super) const SHARED_ROWS_LEAST: usize = 512;

/// Why they go first, in words.
pub(in super::super) const WHY: &str =
    "from 128 queries and keys on, 512 queries where heads share keys; bits may differ";

/// What the forward left and the gradients, all in whole vectors.
#[derive(Clone, Copy)]
pub(in super::super) struct Views<'a> {
    pub dout: View<'a>,
    pub lse: View<'a>,
    /// Of queries, keys, values.
    pub gradients: [View<'a>; 3],
}

/// Gradients that they are exact for.
pub(in super::super) struct Call<'a> {
    prepared: &'a Prepared<'a>,
    views: Views<'a>,
    /// What is known before there is memory for sums.
    backward: Backward,
}

impl<'a> Call<'a> {
    /// The call, if they are exact for it, it pays and bits may differ, whether or not they are there; else what speaks against it.
    pub fn of(device: &Device, p: &'a Prepared<'a>, views: Views<'a>) -> Result<Call<'a>, &'static str> {
        let may_differ = device.config().deterministic == Some(false);
        if let Some(against) = against(p, may_differ) {
            return Err(against);
        }
        let Views { dout, lse, gradients: [_, dk, dv] } = views;
        let problem = &p.problem;
        let (heads, kv_heads) = (p.heads, p.heads / p.group);
        let of_keys = |strides| lines(strides, p.batches, kv_heads, p.k_rows).ok_or(FAR);
        let of_queries = |strides| lines_of_queries(strides, p).ok_or(FAR);
        let first = |view: &View<'_>| {
            let [batch, head, row, _] = strides(view);
            [batch, head, row]
        };
        let written = |view: &View<'_>| {
            // Where heads share keys, each head of queries has a tensor of its own.
            let own = [heads * p.k_rows * DEPTH, p.k_rows * DEPTH, DEPTH].map(|stride| stride as i64);
            lines_written(if p.group == 1 { first(view) } else { own }, p).ok_or(FAR)
        };
        if lse_head(p, line_strides(&lse)) != Some(4 * p.q_rows as u32) {
            return Err("logarithms of sums lie apart");
        }
        // As for the logarithms, with heads of 128 for each.
        let sums_bytes = (p.batches * p.heads * DEPTH * size_of::<f32>()).checked_mul(p.q_rows);
        if sums_bytes.is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return Err(FAR);
        }
        let form = form(device);
        let backward = Backward {
            form,
            tile: form.tile(),
            dq: 0,
            dk: dk.device_address(),
            dv: dv.device_address(),
            q: problem.q,
            k: problem.k,
            v: problem.v,
            dout: dout.device_address(),
            lse: lse.device_address(),
            delta: 0,
            starts: [0; 2],
            q_lines: of_queries([problem.q_batch, problem.q_head, problem.q_row])?,
            k_lines: of_keys([problem.k_batch, problem.k_head, problem.k_row])?,
            v_lines: of_keys([problem.v_batch, problem.v_head, problem.v_row])?,
            dout_lines: of_queries(first(&dout))?,
            dk_lines: written(&dk)?,
            dv_lines: written(&dv)?,
            lse_head: 4 * p.q_rows as u32,
            heads: heads as u32,
            group: p.group as u32,
            rows: [p.q_rows as u32, p.k_rows as u32],
            rows_of_sums: p.q_rows as u32,
            depths: [DEPTH as u32; 2],
            scale: problem.scale as f32,
            causal: problem.right == 0,
        };
        Ok(Call { prepared: p, views, backward })
    }

    /// What its kernel is listed for.
    pub fn role(&self) -> Role {
        if self.backward.causal { Role::GradientsCausal } else { Role::Gradients }
    }

    /// The kernel, if the device has it.
    pub fn kernel(&self, device: &Device) -> Option<Function> {
        Attached::of(device).aiter(device).kernel(device, self.role(), self.backward.form.args_bytes())
    }

    /// Launches it, and what rounds its sums. `delta`: the sums of gradient times result, rows behind rows.
    ///
    /// # Errors
    /// Those of the launches, and of memory for the sums.
    pub fn launch(self, stream: &Stream, kernel: &Function, delta: &Tensor) -> Result<()> {
        let (p, device) = (self.prepared, stream.device());
        let [dq, dk, dv] = self.views.gradients;
        let sums = Tensor::empty(&device, &[p.batches, p.heads, p.q_rows, DEPTH], DType::F32)?;
        let by_head = || {
            let shape = [p.batches, p.heads / p.group, p.group, p.k_rows, DEPTH];
            (p.group > 1).then(|| Tensor::empty(&device, &shape, DType::BF16)).transpose()
        };
        let [of_keys, of_values] = [by_head()?, by_head()?];
        let [to_keys, to_values] = [(&of_keys, dk), (&of_values, dv)]
            .map(|(by_head, view)| by_head.as_ref().map_or(view, |tensor| tensor.view()));
        stream.fill(sums.buffer(), 0, 0, sums.layout().len() as u64 * size_of::<f32>() as u64)?;
        let backward = Backward {
            dq: sums.view().device_address(),
            dk: to_keys.device_address(),
            dv: to_values.device_address(),
            delta: delta.view().device_address(),
            ..self.backward
        };
        let shape = [p.batches, p.heads, p.q_rows, p.depth];
        let both = 2 * (p.depth + p.value_depth);
        let each = Each { pair: both + p.depth, query: both, key: both };
        let args = backward.args();
        let launch = Launch {
            label: "attention_backward",
            grid: [backward.tiles(), p.heads as u32, p.batches as u32],
            block: [BACKWARD_BLOCK, 1, 1],
            lds_bytes: 0,
            args: args.bytes(),
            outputs: &[sums.buffer(), to_keys.buffer(), to_values.buffer()],
            work: p.work(stream, &shape, p.batches, &each),
        };
        // SAFETY:
        // - `BackwardArgs` is what this kernel takes, whose code object is known by its hash; its size was compared with what the
        //   code object says. Addresses are of views whose shapes were checked, of the extents in it, with rows of whole vectors
        //   that do not overlap, and of memory made above; `of` has seen that no offset the kernel makes of strides and extents
        //   passes 32 bits, so that its range checks hold it to rows that are there. What it writes is apart from the inputs.
        // - It writes what `outputs` lists only.
        unsafe { stream.launch(kernel, &launch)? };
        rounded(stream, &sums, dq)?;
        for (by_head, view) in [(of_keys, dk), (of_values, dv)] {
            if let Some(by_head) = by_head {
                added(stream, &by_head, view)?;
            }
        }
        Ok(())
    }
}

/// What of a call the kernels do not compute, wherever it lies, or why ours are to be taken.
fn against(p: &Prepared<'_>, may_differ: bool) -> Option<&'static str> {
    let pays = [
        (p.batches > 0 && p.heads > 0, "no queries"),
        (p.q_rows >= ROWS_LEAST, "fewer than 128 queries"),
        (p.k_rows >= ROWS_LEAST, "fewer than 128 keys"),
        (p.group == 1 || p.q_rows >= SHARED_ROWS_LEAST, "fewer than 512 queries, and heads that share keys"),
        (may_differ, "its atomics give other bits on every run, which ROCFIRE_DETERMINISTIC=0 would allow"),
    ];
    first_against(conditions(p).into_iter().chain(pays))
}

/// The arguments that a device's kernels take.
fn form(device: &Device) -> BackwardForm {
    if device.arch().info().family == Family::Cdna4 { BackwardForm::Long } else { BackwardForm::Short }
}

/// Where rows of queries lie, if gfx950's range checks hold it to them: where rows are further apart than heads or batches, these count
/// from the first one's, and a row has to hold all of them.
fn lines_of_queries(strides: [i64; 3], p: &Prepared<'_>) -> Option<Lines> {
    let found = lines(strides, p.batches, p.heads, p.q_rows)?;
    let Lines { batch, head, row } = found;
    let last = |count: usize, stride: u32| if row > stride { (count as u64 - 1) * u64::from(stride) } else { 0 };
    let before = last(p.batches, batch) + last(p.heads, head);
    (before == 0 || before + ROW_BYTES <= u64::from(row)).then_some(found)
}

/// Where rows of the gradients of keys or values lie, by head of the queries, if all of them and a tile more end below 2³² bytes.
fn lines_written(strides: [i64; 3], p: &Prepared<'_>) -> Option<Lines> {
    let found = lines(strides, p.batches, p.heads, p.k_rows)?;
    let Lines { batch, head, row } = found;
    let rows = (p.k_rows as u64 + ROWS_BEYOND as u64) * u64::from(row);
    let end = (p.batches as u64 - 1) * u64::from(batch) + (p.heads as u64 - 1) * u64::from(head) + rows;
    (end <= u64::from(u32::MAX)).then_some(found)
}

/// Sums of the queries' gradients in the inputs' type.
fn rounded(stream: &Stream, sums: &Tensor, dq: View<'_>) -> Result<()> {
    static GRAPHS: Graphs<()> = Graphs::new();
    let graph = GRAPHS.get((), |()| {
        let make = Maker::new("attention_gradient_rounded", DType::F32);
        make.output(make.input(DType::F32), DType::BF16);
        make.finish()
    });
    graphs::run(stream, &graph, sums.shape(), &[sums.view()], &[], &mut [handle(dq)?.view_mut()])
}

/// Gradients of keys or values, `[batches, heads, group, rows, depth]`, added over the group in f32.
fn added(stream: &Stream, by_head: &Tensor, gradient: View<'_>) -> Result<()> {
    static GRAPHS: Graphs<()> = Graphs::new();
    let graph = GRAPHS.get((), |()| {
        let make = Maker::new("attention_gradients_added", DType::F32);
        make.output(make.input(DType::BF16).reduce(Reduce::Sum), DType::BF16);
        make.finish()
    });
    let turned = by_head.with_layout(by_head.layout().swap(2, 3)?.swap(3, 4)?)?;
    graphs::run(stream, &graph, turned.shape(), &[turned.view()], &[], &mut [handle(gradient)?.view_mut()])
}

/// A handle of a gradient that is checked and ours to write.
fn handle(gradient: View<'_>) -> Result<Tensor> {
    Ok(Tensor::from_buffer(gradient.buffer().clone(), *gradient.layout(), gradient.dtype())?)
}

#[cfg(test)]
mod tests;
