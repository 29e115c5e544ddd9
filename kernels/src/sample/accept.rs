//! `accept`: the launchers of `accept.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::{THREADS, contiguous_rows, for_each, matrix};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, KernelLaunch, Sources, shape};

const OP: &str = "accept";

/// Tokens that a draft proposed, and how likely they are.
#[derive(Clone, Copy, Debug)]
pub struct Drafts<'a> {
    /// `[rows, n]`, i32; a row ends before the first that is outside the vocabulary, such as -1.
    pub tokens: View<'a>,
    /// The target's distribution before each token and behind the last, `[rows, n + 1, vocabulary]`, f32.
    pub target: View<'a>,
    /// The draft's before each token, `[rows, n, vocabulary]`, f32; if not given, its tokens were certain.
    pub draft: Option<View<'a>>,
}

/// Speculative sampling: keeps each row's drafts while `u < p / q`, and draws the token behind them, from `max(p - q, 0)` where a
/// draft was refused: what comes out is distributed as the target's own tokens.
///
/// # Shapes
/// `drafts` as [`Drafts`] says, distributions contiguous along the vocabulary; `seeds`, `offsets`: `[rows]`, i64 or u64; `tokens`:
/// `[rows, n + 1]`, i32: the drafts kept, the token behind them, -1; `counts`: `[rows]`, i32, how many were kept.
/// # Numerics
/// Random numbers are Philox's of seed and offset, none of those with which a draft was drawn: an offset belongs to one draw. A row
/// depends on nothing else. Distributions need not add up to 1 exactly; [`super::probabilities`] makes them.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit.
/// # Source
/// Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", ICML 2023.
pub fn accept(
    stream: &Stream,
    drafts: &Drafts<'_>,
    seeds: View<'_>,
    offsets: View<'_>,
    tokens: ViewMut<'_>,
    counts: ViewMut<'_>,
) -> Result<()> {
    let mut args = check(stream, &drafts.tokens, &tokens, &counts)?;
    let (rows, n) = (args.rows as usize, args.n as usize);
    let count = drafts.target.shape().last().copied().unwrap_or(0);
    if count == 0 || count >= BOX_LIMIT {
        return Err(shape(OP, "target", format!("a vocabulary of 1 to {BOX_LIMIT}"), count));
    }
    let (target, strides) = distributions(stream, "target", &drafts.target, [rows, n + 1, count])?;
    (args.target, args.target_row_stride, args.target_stride) = (target, strides[0], strides[1]);
    if let Some(view) = &drafts.draft {
        let (draft, strides) = distributions(stream, "draft", view, [rows, n, count])?;
        (args.draft, args.draft_row_stride, args.draft_stride) = (draft, strides[0], strides[1]);
    }
    let words = [DType::I64, DType::U64];
    (args.seeds, args.seed_stride) = for_each(OP, "seeds", stream, Some(seeds), rows, &words)?;
    (args.offsets, args.offset_stride) = for_each(OP, "offsets", stream, Some(offsets), rows, &words)?;
    args.count = count as u32;
    launch(stream, "accept_drawn", [rows, 1, 1], THREADS, &args, [&tokens, &counts])
}

/// The same where nothing is drawn: keeps each row's drafts while they are the target's tokens, and adds the target's own.
///
/// # Shapes
/// `drafts`: `[rows, n]`, i32, ended by what is negative; `targets`: `[rows, n + 1]`, i32, the target's token before each draft and
/// behind the last; `tokens` and `counts` as for [`accept`].
/// # Errors
/// As there.
pub fn accept_greedy(
    stream: &Stream,
    drafts: View<'_>,
    targets: View<'_>,
    tokens: ViewMut<'_>,
    counts: ViewMut<'_>,
) -> Result<()> {
    let mut args = check(stream, &drafts, &tokens, &counts)?;
    let (rows, n) = (args.rows as usize, args.n as usize);
    (args.targets, args.targets_stride) = matrix(OP, "targets", stream, Some(targets), [rows, n + 1], &[DType::I32])?;
    family::disjoint(OP, "targets", &tokens, &targets)?;
    launch(stream, "accept_equal", [rows.div_ceil(BLOCK), 1, 1], BLOCK, &args, [&tokens, &counts])
}

/// Checks drafts and outputs.
fn check(stream: &Stream, drafts: &View<'_>, tokens: &View<'_>, counts: &View<'_>) -> Result<AcceptArgs> {
    let &[rows, n] = drafts.shape() else {
        return Err(shape(OP, "drafts", "[rows, n]", format!("{:?}", drafts.shape())));
    };
    if rows >= BOX_LIMIT || n >= BOX_LIMIT {
        return Err(shape(OP, "drafts", format!("fewer than {BOX_LIMIT} rows and tokens"), rows.max(n)));
    }
    let ints = |arg, view: &View<'_>, expected| matrix(OP, arg, stream, Some(*view), expected, &[DType::I32]);
    let (drafts_address, draft_token_stride) = ints("drafts", drafts, [rows, n])?;
    let (tokens_address, token_stride) = ints("tokens", tokens, [rows, n + 1])?;
    let (counts_address, count_stride) = for_each(OP, "counts", stream, Some(*counts), rows, &[DType::I32])?;
    for (arg, output) in [("tokens", tokens), ("counts", counts)] {
        family::writable(OP, arg, output)?;
        family::disjoint(OP, arg, output, drafts)?;
    }
    family::disjoint(OP, "counts", counts, tokens)?;
    Ok(AcceptArgs {
        drafts: drafts_address,
        tokens: tokens_address,
        counts: counts_address,
        draft_token_stride,
        token_stride,
        count_stride,
        rows: rows as u32,
        n: n as u32,
        ..AcceptArgs::zeroed()
    })
}

/// Address and strides of distributions.
fn distributions(stream: &Stream, arg: &'static str, view: &View<'_>, expected: [usize; 3]) -> Result<(u64, [i64; 2])> {
    family::on_device(OP, arg, stream, view)?;
    if view.dtype() != DType::F32 {
        return Err(Error::Unsupported { op: OP, dtype: view.dtype(), arch: view.arch() }.into());
    }
    if view.shape() != expected {
        return Err(shape(OP, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
    }
    contiguous_rows(OP, arg, view)?;
    let strides = view.layout().strides();
    Ok((view.device_address(), [strides[0], strides[1]]))
}

fn launch(
    stream: &Stream,
    kernel: &'static str,
    grid: [usize; 3],
    block: usize,
    args: &AcceptArgs,
    [tokens, counts]: [&View<'_>; 2],
) -> Result<()> {
    if args.rows == 0 {
        return Ok(());
    }
    static SOURCES: Sources<()> = Sources::new();
    let source = SOURCES.get((), |()| source());
    let written = [tokens.buffer(), counts.buffer()];
    // SAFETY:
    // - `AcceptArgs` is the twin of the kernels' struct, sizes asserted on both sides. They read `n` drafts of each of `rows` rows
    //   and `n + 1` distributions of `count` or as many tokens, and follow no draft outside the vocabulary: all inside checked views.
    // - They write tokens and counts.
    unsafe { KernelLaunch::new(stream, &source, (OP, kernel), grid, [block, 1, 1]).run(args, &written) }
}

/// The one source.
pub(crate) fn source() -> Source {
    Source::new(OP, concat!(include_str!("select.h"), include_str!("accept.hip")), &[])
}

/// Its row of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    (dtype == DType::F32).then(|| (OP, source())).into_iter()
}

/// `AcceptArgs` of `accept.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AcceptArgs {
    drafts: u64,
    target: u64,
    draft: u64,
    targets: u64,
    seeds: u64,
    offsets: u64,
    tokens: u64,
    counts: u64,
    draft_token_stride: i64,
    target_row_stride: i64,
    target_stride: i64,
    draft_row_stride: i64,
    draft_stride: i64,
    targets_stride: i64,
    seed_stride: i64,
    offset_stride: i64,
    token_stride: i64,
    count_stride: i64,
    rows: u32,
    n: u32,
    count: u32,
    padding: u32,
}
const _: () = assert!(size_of::<AcceptArgs>() == 160);

#[cfg(test)]
mod tests;
