//! When AITER's kernels compute [`paged_attention`](crate::attention::paged_attention) over a cache of latents, and how they are launched.
//!
//! What they compute: bf16, keys of 576 channels of which 512 are values, 16 or 128 heads of queries, one query of each sequence,
//! pages of any number of tokens by a table or a list, logarithms of sums too ([`against`] and [`Latents::of`] have it to the last
//! condition). No codes, slots, window, soft-cap, slopes, sinks or bias.
//!
//! What `latents_aiter.hip` does around them: their list of rows is made of the pages (`latents_count`, `latents_list`), with each number held
//! to what is there, and without keys whose page is not; what their splits leave is added up (`latents_merge`), and a row in which a
//! NaN came out is computed again: the kernels give it where a number that is none lies on row 0 of the cache.
//!
//! When it pays: nobody knows. By what the emulator counts (`tests/against.md`) ours are behind in one or two figures of nine, which are
//! waits and bytes asked for, and ahead in others. There are as many splits as AMD's host would choose, by the number of sequences and the
//! bound of their keys, so that a sequence's bits depend on these, which is against what `paged_attention` promises: they are taken only
//! where `ROCFIRE_AITER_DECODE=1` asks for them. No sum is by atomics.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Device, Function, Launch, Source, Stream, Tensor, View};

use super::super::{Call, OP, PagedInputs, PagedParams, Queries, is_whole};
use super::{BYTES, FACTORS_END, SCALES, THREADS, is_plain, reached};
use crate::Result;
use crate::aiter::{LATENT_BLOCK, LatentDecode, LatentForm, Role};
use crate::attached::Attached;
use crate::cache::{CacheKey, PageArgs, Pages, PlaneArgs};
use crate::family::{GRID_YZ_MAX, KernelLaunch, Sources};

/// Channels of a key and of the values that it begins with.
const DEPTHS: [usize; 2] = [576, 512];
/// Bytes that the range of the rows has, from the cache's first on.
const RANGE: i64 = (1 << 32) - 16;
/// Entries that the list may have: their places are told in 32 bits of bytes.
const LIST_END: usize = 1 << 30;
/// Keys that a workgroup of `latents_list` has.
const LIST_KEYS: usize = 2048;
/// Splits that AMD's host takes at most.
const SPLITS_MOST: usize = 16;
/// What a split costs more than its keys, in keys, as AMD's host has it.
const SPLIT_KEYS: f64 = 84.1;

/// A decoding that the kernels compute.
pub(in crate::attention::paged) struct Latents<'a> {
    inputs: &'a PagedInputs<'a>,
    call: &'a Call,
    form: LatentForm,
    splits: usize,
    /// Elements from row to row, and rows from page to page.
    rows: [i64; 2],
    written: [&'a Buffer; 2],
}

impl<'a> Latents<'a> {
    /// The call, if the kernels compute it and are asked for it, whether or not they are there; else what speaks against it.
    pub fn of(
        inputs: &'a PagedInputs<'a>,
        params: &PagedParams,
        call: &'a Call,
        out: &View<'a>,
        lse: Option<&View<'a>>,
    ) -> Result<Latents<'a>, &'static str> {
        let form = match inputs.q.shape()[1] {
            16 => LatentForm::Few,
            128 => LatentForm::Many,
            _ => return Err("not 16 or 128 heads of queries"),
        };
        if let Some(against) = against(inputs, params, call) {
            return Err(against);
        }
        let far = "strides that the kernel does not have, or that 32 bits do not reach";
        let sequences = inputs.pages.sequences();
        let dense = (form.heads() * DEPTHS[0]) as i64;
        let is_dense = call.args.q_head == DEPTHS[0] as i64
            && (form == LatentForm::Few || sequences == 1 || call.args.q_token == dense);
        reached(call.args.q_token.checked_mul(BYTES).ok_or(far)?, sequences)
            .filter(|_| is_dense && is_whole(&inputs.q))
            .ok_or(far)?;
        let extents = &inputs.cache.extents;
        let rows = rows(&call.args.k, [extents.blocks, extents.block]).ok_or(far)?;
        let units = inputs.q.buffer().device().info().compute_units as usize;
        let splits = splits(sequences, inputs.keys_most, form.turn(), units).max(form.splits_least());
        if !has_room(sequences * splits * form.heads(), sequences * inputs.keys_most) {
            return Err("more keys or splits than 32 bits reach");
        }
        let written = [out.buffer(), lse.map_or(out.buffer(), |lse| lse.buffer())];
        Ok(Latents { inputs, call, form, splits, rows, written })
    }

    pub fn role(&self) -> Role {
        match self.form {
            LatentForm::Few => Role::LatentDecodeFew,
            LatentForm::Many => Role::LatentDecodeMany,
        }
    }

    /// Splits of a sequence.
    pub fn splits(&self) -> usize {
        self.splits
    }

    /// The kernel, if the device has it.
    pub fn kernel(&self, device: &Device) -> Option<Function> {
        Attached::of(device).aiter(device).kernel(device, self.role(), self.form.args_bytes())
    }

    /// Launches it, and what is done before and after.
    ///
    /// # Errors
    /// Those of compilation and launch.
    pub fn launch(&self, stream: &Stream, kernel: &Function) -> Result<()> {
        let (sequences, heads, keys_most) = (self.inputs.pages.sequences(), self.form.heads(), self.inputs.keys_most);
        let args = &self.call.args;
        let device = stream.device();
        // Keys of each sequence, where its entries of the list begin, where its queries do; the list.
        let numbers = Tensor::empty(&device, &[3 * sequences + 2 + sequences * keys_most], DType::I32)?;
        let lines = sequences * self.splits * heads;
        let floats = Tensor::empty(&device, &[lines * (DEPTHS[1] + 1)], DType::F32)?;
        let (held, parts) = (numbers.view().device_address(), floats.view().device_address());
        let number = |at: usize| held + (at * size_of::<i32>()) as u64;
        let around = AroundArgs {
            q: args.q,
            rows: args.k.at,
            parts,
            sums: parts + (lines * DEPTHS[1] * size_of::<f32>()) as u64,
            out: args.out,
            lse: args.lse,
            held,
            starts: number(sequences),
            q_starts: number(2 * sequences + 1),
            list: number(3 * sequences + 2),
            pages: args.pages,
            q_token: args.q_token,
            row: self.rows[0],
            out_token: args.out_token,
            out_head: args.out_head,
            lse_token: args.lse_token,
            lse_head: args.lse_head,
            scale: args.scale,
            heads: heads as u32,
            splits: self.splits as u32,
            turn: self.form.turn() as u32,
            page_rows: self.rows[1] as u32,
            padding: 0,
        };
        static SOURCES: Sources<CacheKey> = Sources::new();
        let source = SOURCES.get(self.inputs.cache.key(), source);
        let work = Work { category: Category::Attention, shape: self.inputs.q.shape(), ..Work::default() };
        let launch = |name: &str, grid: [usize; 3], written: &[&Buffer]| {
            // SAFETY:
            // - `AroundArgs` is the twin of the kernels' struct, sizes asserted on both sides. Grids are of the sequences and heads that were
            //   checked, pages outside the cache are not followed, entries of pages are read up to a sequence's last one; of keys there are no
            //   more than `keys_most` for each sequence, for which the list has room.
            // - `latents_count` and `latents_list` write `numbers`, `latents_merge` the result and logarithms.
            unsafe {
                KernelLaunch::new(stream, &source, (OP, name), grid, [THREADS, 1, 1])
                    .with(0, work)
                    .run(&around, written)
            }
        };
        launch("latents_count", [sequences, 1, 1], &[numbers.buffer()])?;
        launch("latents_list", [keys_most.div_ceil(LIST_KEYS), sequences, 1], &[numbers.buffer()])?;
        let decode = LatentDecode {
            parts,
            lse: around.sums,
            q: args.q,
            rows: args.k.at,
            starts: around.starts,
            list: around.list,
            last: held,
            q_starts: around.q_starts,
            scale: args.scale,
            heads: heads as u32,
            splits: self.splits as u32,
            q_row: (args.q_token * BYTES) as u32,
            row: (self.rows[0] * BYTES) as u32,
            ..LatentDecode::default()
        };
        let args = decode.args();
        let theirs = Launch {
            label: OP,
            grid: [1, sequences as u32, self.splits as u32],
            block: [LATENT_BLOCK, 1, 1],
            lds_bytes: 0,
            args: &bytemuck::bytes_of(&args)[..self.form.args_bytes()],
            outputs: &[floats.buffer()],
            work,
        };
        // SAFETY:
        // - These are the first of `LatentDecodeArgs` that this kernel takes, whose code object is known by its hash; their size was compared
        //   with what the code object says. Addresses are of views whose shapes were checked; `of` has seen that no offset the kernel makes of
        //   strides and extents passes 32 bits. The list was made just before, of rows that are there, and of their numbers where each
        //   sequence's begin; row 0, which is read besides, is there too. Parts and sums are of as many lines as grid and heads say.
        // - It writes these only.
        unsafe { stream.launch(kernel, &theirs)? };
        launch("latents_merge", [heads, sequences, 1], &self.written)
    }
}

/// What of a call the kernels do not compute, wherever it lies, or what makes ours the better ones.
fn against(inputs: &PagedInputs<'_>, params: &PagedParams, call: &Call) -> Option<&'static str> {
    let PagedInputs { q, cache, pages, .. } = inputs;
    let conditions = [
        (q.dtype() == DType::BF16 && cache.codes.is_none(), "not bf16, or codes"),
        (cache.heads() == [1, DEPTHS[0], DEPTHS[1]], "latents are not of 576 channels, 512 of them values"),
        (cache.extents.blocks > 0, "no pages"),
        (!matches!(pages, Pages::Slots { .. }), "keys by slots"),
        (matches!(inputs.queries, Queries::Each(1)), "not one query of each sequence"),
        (is_plain(inputs, params), "scores have more to them than a scale"),
        (SCALES.contains(&call.args.scale), "an uncommon scale"),
        (pages.sequences() <= GRID_YZ_MAX, "more sequences than a grid has"),
        (
            q.buffer().device().config().aiter_decode,
            "a sequence's bits would depend on the batch, which ROCFIRE_AITER_DECODE=1 allows",
        ),
    ];
    conditions.into_iter().find_map(|(holds, against)| (!holds).then_some(against))
}

/// Elements from row to row, and rows from page to page, if the kernels' arithmetic reaches all rows.
fn rows(plane: &PlaneArgs, [blocks, block]: [usize; 2]) -> Option<[i64; 2]> {
    // The stride of an axis of one says nothing.
    let row = match (blocks, block) {
        (1, 1) => DEPTHS[0] as i64,
        (_, 1) => plane.page,
        _ => plane.token,
    };
    let page = if blocks == 1 || block == 1 { block as i64 * row } else { plane.page };
    if row <= 0 || page < 0 || page % row != 0 {
        return None;
    }
    let page_rows = page / row;
    let last = page_rows.checked_mul(blocks as i64 - 1)?.checked_add(block as i64 - 1)?;
    let bytes = row.checked_mul(BYTES)?;
    let end = last.checked_mul(bytes)?.checked_add(DEPTHS[0] as i64 * BYTES)?;
    (bytes < FACTORS_END && last < FACTORS_END && end <= RANGE).then_some([row, page_rows])
}

/// Whether 32 bits reach the results of so many lines, and the places of so many keys.
fn has_room(lines: usize, keys: usize) -> bool {
    lines * DEPTHS[1] * size_of::<f32>() <= u32::MAX as usize && keys < LIST_END
}

/// Splits of each of so many sequences of at most so many keys, for a card of so many units: those that keep its units the busiest, a
/// split costing some keys, as AMD's host has it (`get_meta_param` of `aiter/mla.py`); no more than have a turn of keys.
fn splits(sequences: usize, keys_most: usize, turn: usize, units: usize) -> usize {
    let worth = |splits: usize| {
        let groups = (sequences * splits) as f64;
        let rounds = (sequences * splits).div_ceil(units) * units;
        groups / rounds as f64 * keys_most as f64 / (keys_most as f64 + SPLIT_KEYS * splits as f64)
    };
    let better = |best: usize, splits: usize| if worth(splits) > worth(best) { splits } else { best };
    (2..=SPLITS_MOST.min(keys_most.div_ceil(turn))).fold(1, better)
}

fn source(key: CacheKey) -> Source {
    let text = concat!(include_str!("../../../cache/cache.h"), include_str!("../../latents_aiter.hip"));
    Source::new(OP, text, &key.defines())
}

/// Its source, of the architectures that there are kernels of AITER's for.
pub(super) fn sources() -> Source {
    source(CacheKey { dtype: DType::BF16, format: None })
}

/// `LatentsAroundArgs` of `latents_aiter.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AroundArgs {
    q: u64,
    rows: u64,
    parts: u64,
    sums: u64,
    out: u64,
    lse: u64,
    held: u64,
    starts: u64,
    q_starts: u64,
    list: u64,
    pages: PageArgs,
    q_token: i64,
    row: i64,
    out_token: i64,
    out_head: i64,
    lse_token: i64,
    lse_head: i64,
    scale: f32,
    heads: u32,
    splits: u32,
    turn: u32,
    page_rows: u32,
    padding: u32,
}
const _: () = assert!(size_of::<AroundArgs>() == 216);

#[cfg(test)]
mod tests;
