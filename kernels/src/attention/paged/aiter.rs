//! When AITER's kernel computes [`paged_attention`](super::paged_attention), and how it is launched; over latents: `latents.rs`.
//!
//! What it computes: bf16, heads of 128, eight of queries for each of keys, one query of each sequence, pages of 16 in
//! [`CacheLayout::PackedBoth`] by a table ([`against`] and [`Theirs::of`] have it to the last condition). No codes, logarithms of sums,
//! window, soft-cap, slopes, sinks or bias.
//!
//! What `paged_aiter.hip` does around it, as the kernel trusts what it is given: lengths are held to what tables and `keys_most` have, and a
//! sequence whose pages are not all there is none of its (`paged_hold`); rows of a sequence in which a NaN came out are computed again
//! (`paged_again`): the kernel gives it for a sequence of no keys, and where a number that is none lies behind a sequence's last key, or
//! on page 0. Both cost little more than their launches.
//!
//! When it pays: where each compute unit has a sequence's head of keys. It does not split keys, so with fewer most units would idle.
//! That makes the choice one by the number of sequences, and a sequence's bits with it, which is against what
//! [`paged_attention`](super::paged_attention) promises: it is taken only where `ROCFIRE_AITER_DECODE=1` asks for it. Of those that
//! it computes, a sequence's bits do not depend on the others.

use std::fmt::Write;

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Device, Function, Launch, Source, Stream, Tensor, View};

use latents::Latents;

use super::{Call, OP, PagedInputs, PagedParams, Queries, Way, is_whole, splits_most};
use crate::Result;
use crate::aiter::{PAGED_BLOCK, PagedDecode, PagedDecodeArgs, Role};
use crate::attached::Attached;
use crate::cache::{CacheKey, CacheLayout, PageArgs, Pages, PlaneArgs};
use crate::family::{GRID_YZ_MAX, KernelLaunch, Sources};

/// The head size, tokens of a page, heads of queries for each of keys.
const DEPTH: usize = 128;
const PAGE: usize = 16;
const GROUP: usize = 8;
const BYTES: i64 = DType::BF16.size_bytes() as i64;
/// Elements of 16 bytes.
const PIECE: i64 = 16 / BYTES;
/// What a page's number, and the bytes from one page to the next, are below: a product of both is made of 24 bits each.
const FACTORS_END: i64 = 1 << 24;
/// Bytes that the ranges of keys and of values have, from a head of page 0 on.
const RANGE: i64 = 1 << 31;
/// The kernel's largest score is one before the scale: it is a positive one, far from the ends of f32.
const SCALES: std::ops::RangeInclusive<f32> = 1e-6..=1e6;
/// Threads of the workgroups before and after it.
const THREADS: usize = 256;

/// Launches the one for a call, if there is one that goes first; whether it did.
///
/// # Errors
/// Those of compilation and launch.
pub(super) fn launched(
    stream: &Stream,
    inputs: &PagedInputs<'_>,
    params: &PagedParams,
    call: &Call,
    out: &View<'_>,
    lse: Option<&View<'_>>,
) -> Result<bool> {
    let device = stream.device();
    if inputs.cache.is_latent {
        let Ok(theirs) = Latents::of(inputs, params, call, out, lse) else { return Ok(false) };
        let Some(kernel) = theirs.kernel(&device) else { return Ok(false) };
        return theirs.launch(stream, &kernel).map(|()| true);
    }
    let Ok(theirs) = Theirs::of(inputs, params, call, out) else { return Ok(false) };
    let Some(kernel) = theirs.kernel(&device) else { return Ok(false) };
    theirs.launch(stream, &kernel).map(|()| true)
}

/// A decoding that the kernel computes.
pub(super) struct Theirs<'a> {
    inputs: &'a PagedInputs<'a>,
    call: &'a Call,
    decode: PagedDecode,
    sequences: usize,
    out: &'a Buffer,
}

impl<'a> Theirs<'a> {
    /// The call, if the kernel computes it and is asked for it, whether or not it is there; else what speaks against it.
    pub fn of(
        inputs: &'a PagedInputs<'a>,
        params: &PagedParams,
        call: &'a Call,
        out: &View<'a>,
    ) -> Result<Theirs<'a>, &'static str> {
        if let Some(against) = against(inputs, params, call) {
            return Err(against);
        }
        let Pages::Table { pages, lens } = &inputs.pages else { return Err("pages by lists or slots") };
        let (sequences, [kv_heads, ..]) = (inputs.pages.sequences(), inputs.cache.heads());
        let rows = |token: i64| reached(token.checked_mul(BYTES)?, sequences);
        let far = "strides that the kernel does not have, or that 32 bits do not reach";
        let heads = (kv_heads * GROUP) as i64;
        let args = &call.args;
        let is_dense = [args.q_head, args.out_head] == [DEPTH as i64; 2] && args.out_token == heads * DEPTH as i64;
        let is_whole = is_whole(&inputs.q) && out.device_address().is_multiple_of(16);
        rows(args.out_token).filter(|_| is_dense && is_whole).ok_or(far)?;
        let [page, head] = planes(&args.k, &args.v, inputs.cache.extents.blocks, kv_heads).ok_or(far)?;
        let row = if sequences > 1 { pages.layout().strides()[0] } else { 0 };
        reached(row.checked_mul(size_of::<i32>() as i64).ok_or(far)?, sequences).ok_or(far)?;
        let decode = PagedDecode {
            out: out.device_address(),
            q: inputs.q.device_address(),
            k: args.k.at,
            v: args.v.at,
            table: pages.device_address(),
            lens: lens.device_address(),
            scales: [0; 2],
            q_starts: 0,
            scale: args.scale,
            table_row: row as u32,
            kv_heads: kv_heads as u32,
            group: GROUP as u32,
            q_row: rows(args.q_token).ok_or(far)?,
            page,
            head,
        };
        Ok(Theirs { inputs, call, decode, sequences, out: out.buffer() })
    }

    /// The kernel, if the device has it.
    pub fn kernel(&self, device: &Device) -> Option<Function> {
        Attached::of(device).aiter(device).kernel(device, Role::PagedDecode, size_of::<PagedDecodeArgs>())
    }

    /// Launches it, and what is done before and after.
    ///
    /// # Errors
    /// Those of compilation and launch.
    pub fn launch(&self, stream: &Stream, kernel: &Function) -> Result<()> {
        let kv_heads = self.decode.kv_heads as usize;
        let held = Tensor::empty(&stream.device(), &[self.sequences], DType::I32)?;
        let around = AroundArgs {
            q: self.decode.q,
            out: self.decode.out,
            held: held.view().device_address(),
            k: self.call.args.k,
            v: self.call.args.v,
            pages: self.call.args.pages,
            q_token: self.call.args.q_token,
            scale: self.decode.scale,
            heads: self.decode.kv_heads * self.decode.group,
        };
        static SOURCES: Sources<CacheKey> = Sources::new();
        let source = SOURCES.get(self.inputs.cache.key(), source);
        let work = Work { category: Category::Attention, shape: self.inputs.q.shape(), ..Work::default() };
        let launch = |name: &str, grid: [usize; 3], written: &Buffer| {
            // SAFETY:
            // - `AroundArgs` is the twin of the kernels' struct, sizes asserted on both sides. Grids are of the sequences and heads that were
            //   checked, pages outside the cache are not followed, entries of the table are read up to a sequence's last page.
            // - `paged_hold` writes `held`, `paged_again` `out`.
            unsafe {
                KernelLaunch::new(stream, &source, (OP, name), grid, [THREADS, 1, 1])
                    .with(0, work)
                    .run(&around, &[written])
            }
        };
        launch("paged_hold", [self.sequences, 1, 1], held.buffer())?;
        let args = PagedDecode { lens: held.view().device_address(), ..self.decode }.args();
        let theirs = Launch {
            label: OP,
            grid: [self.decode.kv_heads, self.sequences as u32, 1],
            block: [PAGED_BLOCK, 1, 1],
            lds_bytes: 0,
            args: bytemuck::bytes_of(&args),
            outputs: &[self.out],
            work,
        };
        // SAFETY:
        // - `PagedDecodeArgs` is what this kernel takes, whose code object is known by its hash; its size was compared with what the
        //   code object says. Addresses are of views whose shapes were checked; `of` has seen that no offset the kernel makes of strides and
        //   extents passes 32 bits. Lengths are those that `paged_hold` has held to the table's rows, none where a page is outside the
        //   cache, whose first page is there. `out` is apart from the inputs.
        // - It writes `out` only.
        unsafe { stream.launch(kernel, &theirs)? };
        launch("paged_again", [kv_heads, self.sequences, 1], self.out)
    }
}

/// What of a call the kernel does not compute, wherever it lies, or what makes ours the better ones.
fn against(inputs: &PagedInputs<'_>, params: &PagedParams, call: &Call) -> Option<&'static str> {
    let PagedInputs { q, cache, pages, .. } = inputs;
    let [kv_heads, depth, value_depth] = cache.heads();
    let (sequences, device) = (pages.sequences(), q.buffer().device());
    let units = device.info().compute_units as usize;
    let conditions = [
        (q.dtype() == DType::BF16 && cache.codes.is_none(), "not bf16, or codes"),
        (cache.layout == CacheLayout::PackedBoth && !cache.is_latent, "values are not packed as keys are"),
        ([depth, value_depth] == [DEPTH; 2], "heads are not of 128"),
        (q.shape()[1] == kv_heads * GROUP, "not eight heads of queries for each of keys"),
        (cache.extents.block == PAGE && cache.extents.blocks > 0, "pages are not of 16 keys"),
        (matches!(pages, Pages::Table { .. }), "pages by lists or slots"),
        (matches!(inputs.queries, Queries::Each(1)), "not one query of each sequence"),
        (is_plain(inputs, params), "scores have more to them than a scale"),
        (call.args.lse == 0, "logarithms of sums"),
        (SCALES.contains(&call.args.scale), "an uncommon scale"),
        (sequences <= GRID_YZ_MAX, "more sequences than a grid has"),
        (sequences * kv_heads >= units, "fewer heads of keys, of all sequences, than compute units"),
        (
            device.config().aiter_decode,
            "a sequence's bits would depend on the batch, which ROCFIRE_AITER_DECODE=1 allows",
        ),
    ];
    conditions.into_iter().find_map(|(holds, against)| (!holds).then_some(against))
}

/// Whether scores are products and a scale.
fn is_plain(inputs: &PagedInputs<'_>, params: &PagedParams) -> bool {
    let PagedInputs { slopes, sinks, bias, .. } = inputs;
    params.softcap.is_none() && params.window.is_none() && [slopes, sinks, bias].iter().all(|more| more.is_none())
}

/// A stride of bytes, if so many of it end within 32 bits.
fn reached(stride: i64, count: usize) -> Option<u32> {
    let end = stride.checked_mul(i64::try_from(count).ok()?)?;
    (stride >= 0 && end <= i64::from(u32::MAX)).then(|| u32::try_from(stride).ok()).flatten()
}

/// Bytes from page to page and from head to head, if keys and values lie as the kernel reads them and its arithmetic reaches them.
fn planes(k: &PlaneArgs, v: &PlaneArgs, blocks: usize, heads: usize) -> Option<[u32; 2]> {
    let inner = [[k.chunk, k.token, k.channel], [v.run, v.channel, v.token]];
    let lie = inner == [[PIECE * PAGE as i64, PIECE, 1], [PIECE * DEPTH as i64, PIECE, 1]];
    // The stride of an axis of one says nothing.
    let of = |plane: &PlaneArgs| [if blocks == 1 { 0 } else { plane.page }, if heads == 1 { 0 } else { plane.head }];
    let [page, head] = of(k).map(|stride| stride.checked_mul(BYTES));
    let (page, head) = (page?, head?);
    let pages_end = page.checked_mul(blocks as i64 - 1)?.checked_add((PAGE * DEPTH) as i64 * BYTES)?;
    let fits = (0..FACTORS_END).contains(&page) && blocks as i64 <= FACTORS_END && pages_end <= RANGE;
    let head = reached(head, heads)?;
    (lie && of(k) == of(v) && fits).then(|| u32::try_from(page).ok()).flatten().map(|page| [page, head])
}

/// Which kernel [`paged_attention`](super::paged_attention) takes for these inputs on a device, and why. Computes nothing.
///
/// # Errors
/// As [`paged_attention`](super::paged_attention), of its inputs and parameters.
pub fn explain_paged(
    device: &Device,
    inputs: &PagedInputs<'_>,
    params: &PagedParams,
    out: View<'_>,
    lse: Option<View<'_>>,
) -> Result<String> {
    let lse = lse.map(View::writable);
    let call = Call::new(device.stream(), inputs, params, &out, lse.as_ref())?;
    let ([kv_heads, depth, value_depth], [pages, page]) = (inputs.cache.heads(), inputs.cache.pages());
    let mut text = format!(
        "paged_attention {} {} sequences of at most {} keys, heads {}/{kv_heads} of {depth}/{value_depth}, {pages} pages of {page}, {:?} on {}, {} \
         compute units\n",
        inputs.q.dtype(),
        inputs.pages.sequences(),
        inputs.keys_most,
        inputs.q.shape()[1],
        inputs.cache.layout,
        device.arch(),
        device.info().compute_units
    );
    let theirs = theirs(device, inputs, params, &call, &out, lse.as_ref().map(|lse| lse.view()).as_ref());
    let way = match call.key.way {
        Way::Lanes => "by multiply-add",
        Way::Matrix | Way::Pairs { .. } => "on the matrix unit, each wave with keys of its own",
        Way::Tiles(_) | Way::Hopper(_) | Way::Latents(_) => "on the matrix unit, all waves with the same keys",
    };
    let (rows, split, splits) = (call.key.rows, call.key.split, splits_most(inputs, params).max(1));
    write!(
        text,
        "  AITER       {theirs}\n  ours        {way}, {rows} rows of a workgroup\n  workgroups  {} for splits of {split} keys, {splits} of a \
         sequence at most",
        call.args.groups
    )
    .expect("a string takes text");
    Ok(text)
}

/// What becomes of a call by AITER's kernels, and why.
fn theirs(
    device: &Device,
    inputs: &PagedInputs<'_>,
    params: &PagedParams,
    call: &Call,
    out: &View<'_>,
    lse: Option<&View<'_>>,
) -> String {
    let (role, kernel, why) = if inputs.cache.is_latent {
        match Latents::of(inputs, params, call, out, lse) {
            Ok(theirs) => {
                let why = format!("ROCFIRE_AITER_DECODE=1 asks for it, {} splits of a sequence", theirs.splits());
                (theirs.role(), theirs.kernel(device), why)
            }
            Err(against) => return format!("not for this: {against}"),
        }
    } else {
        match Theirs::of(inputs, params, call, out) {
            Ok(theirs) => (Role::PagedDecode, theirs.kernel(device), "each compute unit has a head of keys".to_owned()),
            Err(against) => return format!("not for this: {against}"),
        }
    };
    match kernel {
        Some(kernel) => format!("{}, which goes first: {why}", kernel.name()),
        None => format!("would go first, but {}", Attached::of(device).aiter(device).absence(device, role)),
    }
}

fn source(key: CacheKey) -> Source {
    Source::new(OP, concat!(include_str!("../../cache/cache.h"), include_str!("../paged_aiter.hip")), &key.defines())
}

/// Its row of the registry, of the architectures that there are kernels of AITER's for.
pub(super) fn sources(info: &ArchInfo, dtype: DType) -> impl Iterator<Item = Source> {
    let is_there = matches!(info.matrix, Matrix::Mfma(generation) if generation >= 3) && dtype == DType::BF16;
    let both = || [source(CacheKey { dtype, format: None }), latents::sources()];
    is_there.then(both).into_iter().flatten()
}

/// `PagedAroundArgs` of `paged_aiter.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AroundArgs {
    q: u64,
    out: u64,
    held: u64,
    k: PlaneArgs,
    v: PlaneArgs,
    pages: PageArgs,
    q_token: i64,
    scale: f32,
    heads: u32,
}
const _: () = assert!(size_of::<AroundArgs>() == 248);

mod latents;

#[cfg(test)]
mod tests;
