//! `route`: the launcher of `route.hip`, and of `route_lists.hip` where that is made for the call.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{Arch, Matrix};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::{EXPERTS_MAX, capacities, capacity, matrix, vector};
use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};

const OP: &str = "route";
/// Waves of a workgroup, a token each.
const WAVES: usize = 4;
/// Choices of a token, a lane of the narrowest wave each; groups too.
const LANES: usize = 32;

/// Choices and experts of a token in `route_lists`, at most, and tokens of its workgroups: one wave, so that few tokens are on many units.
const LISTS_CHOICES: usize = 8;
const LISTS_EXPERTS: usize = 256;
const LISTS_TOKENS: usize = 4;

/// What a logit is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Score {
    /// The softmax over all experts.
    #[default]
    Softmax,
    /// The sigmoid.
    Sigmoid,
    /// `√log(1 + eˣ)`.
    SqrtSoftplus,
}

/// What a group of experts is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupScore {
    /// Its largest.
    #[default]
    Largest,
    /// The sum of its two largest.
    TwoLargest,
}

/// Neighbouring experts of which only the best groups' are chosen; the others' count as -∞, so that no expert of a group that is
/// left out is chosen before one of a group that is not.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// How many groups there are: they divide the experts.
    pub count: usize,
    /// How many are kept.
    pub kept: usize,
    /// What a group is worth.
    pub score: GroupScore,
}

/// What a shared expert's share is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SharedScore {
    /// Nothing: it is 1.
    #[default]
    One,
    /// The sigmoid of a column of its own behind the experts'.
    Sigmoid,
    /// The softmax over such columns.
    Softmax,
}

/// Experts that every token has, behind the others: numbers `experts..`, in the places behind those chosen.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// How many.
    pub count: usize,
    /// Their shares.
    pub score: SharedScore,
}

/// Experts by a table instead of by their logits.
#[derive(Clone, Copy, Debug)]
pub struct Hash<'a> {
    /// `[.., k]`, i32: a number outside the experts becomes -1, with share 0.
    pub table: View<'a>,
    /// The table's row of each token, `[tokens]`, i32.
    pub rows: View<'a>,
}

/// How experts are chosen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RouteParams<'a> {
    /// How many of the columns are experts'; the rest are shared ones'.
    pub experts: usize,
    /// What a logit is worth.
    pub score: Score,
    /// What is added to choose by, not to the shares: `[experts]`, f32.
    pub bias: Option<View<'a>>,
    /// Groups.
    pub groups: Option<Groups>,
    /// Whether shares are divided by their sum.
    pub renormalises: bool,
    /// What shares are multiplied by.
    pub factor: f64,
    /// Experts of every token.
    pub shared: Option<Shared>,
    /// Experts by a table.
    pub hash: Option<Hash<'a>>,
    /// How many tokens count, `[1]`, i32; the others have ids -1 and shares 0.
    pub tokens: Option<View<'a>>,
}

impl RouteParams<'_> {
    /// By the score alone.
    pub fn new(experts: usize, score: Score) -> RouteParams<'static> {
        RouteParams {
            experts,
            score,
            bias: None,
            groups: None,
            renormalises: false,
            factor: 1.0,
            shared: None,
            hash: None,
            tokens: None,
        }
    }
}

/// The `k` best experts of each token, the best first, and their shares.
///
/// # Shapes
/// `x`: `[tokens, experts]`, with the columns of shared experts behind where their score has some; `shares`, `ids`: `[tokens, k +
/// shared]`; rows contiguous, at any distance. At most 1024 experts, 32 choices and 32 groups.
/// # Types
/// `x` f32, f16 or bf16; `shares` f32, `ids` i32.
/// # Numerics
/// In f32. Without a bias experts are chosen by their logits, which no score makes equal. Of equals the lowest number is chosen. NaN
/// comes after all others and has share 0. Sums that shares are divided by are 10⁻²⁰ at least.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, more choices than experts of the kept groups, groups that do not divide them; `Unsupported`
/// for another type of `x`.
pub fn route(
    stream: &Stream,
    x: View<'_>,
    params: &RouteParams<'_>,
    shares: ViewMut<'_>,
    ids: ViewMut<'_>,
) -> Result<()> {
    let (args, tokens) = check(stream, &x, params, &shares, &ids)?;
    if tokens == 0 {
        return Ok(());
    }
    static SOURCES: Sources<RouteKey> = Sources::new();
    let lists = takes_lists(stream, params, args.k as usize);
    let key = RouteKey { dtype: x.dtype(), capacity: capacity(params.experts), score: params.score, lists };
    let source = SOURCES.get(key, source);
    let (kernel, per_group) = if lists { ("route_lists", LISTS_TOKENS) } else { ("route_tokens", WAVES) };
    let (grid, block) = ([tokens.div_ceil(per_group), 1, 1], [key.waves() * wave_size(stream), 1, 1]);
    let written = [shares.buffer(), ids.buffer()];
    // SAFETY:
    // - `RouteArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads each token's row of `x`, the
    //   bias, the table's row that is there, and writes `k + shared` shares and ids of each: all inside checked views.
    // - Both outputs are named.
    unsafe { KernelLaunch::new(stream, &source, (OP, kernel), grid, block).run(&args, &written) }
}

/// Whether `route_lists` is made for a call: on CDNA 2 and newer, whose doubles are as fast as floats.
fn takes_lists(stream: &Stream, params: &RouteParams<'_>, k: usize) -> bool {
    let is_plain = params.bias.is_none() && params.groups.is_none() && params.shared.is_none() && params.hash.is_none();
    let has_doubles = matches!(stream.device().arch().info().matrix, Matrix::Mfma(2..));
    is_plain && has_doubles && k <= LISTS_CHOICES && params.experts <= LISTS_EXPERTS
}

fn wave_size(stream: &Stream) -> usize {
    stream.device().arch().info().wave_size as usize
}

/// Checks the arguments; how many tokens there are.
fn check(
    stream: &Stream,
    x: &View<'_>,
    params: &RouteParams<'_>,
    shares: &View<'_>,
    ids: &View<'_>,
) -> Result<(RouteArgs, usize)> {
    let shared = params.shared.map_or(0, |shared| shared.count);
    let shared_score = params.shared.map_or(SharedScore::One, |shared| shared.score);
    let (tokens, slots) = (ids.shape().first().copied().unwrap_or(0), ids.shape().get(1).copied().unwrap_or(0));
    let (experts, k) = (params.experts, slots.saturating_sub(shared));
    if experts == 0 || experts > EXPERTS_MAX || tokens >= BOX_LIMIT {
        let got = format!("{experts} of {tokens} tokens");
        return Err(shape(OP, "experts", format!("1 to {EXPERTS_MAX} of fewer than {BOX_LIMIT} tokens"), got));
    }
    if k == 0 || k > experts || slots > LANES {
        let expected = format!("1 to {experts} choices and {shared} shared experts, at most {LANES}");
        return Err(shape(OP, "ids", expected, format!("{:?}", ids.shape())));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: x.dtype(), arch: x.arch() }.into());
    }
    let columns = experts + if shared_score == SharedScore::One { 0 } else { shared };
    let (x_address, x_stride) = matrix(OP, "x", stream, x, [tokens, columns], &[x.dtype()])?;
    let (ids_address, id_stride) = matrix(OP, "ids", stream, ids, [tokens, slots], &[DType::I32])?;
    let (shares_address, share_stride) = matrix(OP, "shares", stream, shares, [tokens, slots], &[DType::F32])?;
    for (arg, output) in [("ids", ids), ("shares", shares)] {
        family::writable(OP, arg, output)?;
        family::disjoint(OP, arg, output, x)?;
    }
    family::disjoint(OP, "ids", ids, shares)?;
    let groups = params.groups.unwrap_or(Groups { count: 1, kept: 1, score: GroupScore::Largest });
    let fits = groups.count > 0 && groups.count <= LANES && experts.is_multiple_of(groups.count);
    if !fits || groups.kept > groups.count || k * groups.count > groups.kept * experts {
        let expected = format!("some of 1 to {LANES} groups that divide {experts} experts, with {k} experts at least");
        return Err(shape(OP, "groups", expected, format!("{} of {}", groups.kept, groups.count)));
    }
    let bias = vector(OP, "bias", stream, params.bias, experts, DType::F32)?;
    let count = vector(OP, "tokens", stream, params.tokens, 1, DType::I32)?;
    let (mut table, mut table_stride, mut rows, mut rows_count) = (0, 0, 0, 0);
    if let Some(hash) = &params.hash {
        rows_count = hash.table.shape().first().copied().unwrap_or(0);
        (table, table_stride) = matrix(OP, "hash.table", stream, &hash.table, [rows_count, k], &[DType::I32])?;
        rows = vector(OP, "hash.rows", stream, Some(hash.rows), tokens, DType::I32)?;
    }
    let wave = wave_size(stream);
    let args = RouteArgs {
        x: x_address,
        bias,
        count,
        table,
        table_rows: rows,
        shares: shares_address,
        ids: ids_address,
        x_stride,
        table_stride,
        share_stride,
        id_stride,
        tokens: tokens as u32,
        experts: experts as u32,
        k: k as u32,
        shared: shared as u32,
        groups: groups.count as u32,
        groups_kept: groups.kept as u32,
        group_size: (experts / groups.count) as u32,
        by_two: u32::from(groups.score == GroupScore::TwoLargest),
        renormalises: u32::from(params.renormalises),
        shared_score: match shared_score {
            SharedScore::One => 0,
            SharedScore::Sigmoid => 1,
            SharedScore::Softmax => 2,
        },
        table_rows_count: rows_count as u32,
        parts_log2: (wave / groups.count.next_power_of_two()).trailing_zeros(),
        factor: params.factor as f32,
        size: FastDiv::new(experts / groups.count),
        x_is_whole: is_whole(x, experts).into(),
        unused: 0,
    };
    Ok((args, tokens))
}

/// Whether pieces of four logits are aligned, and none of them has logits of some experts and something else.
fn is_whole(x: &View<'_>, experts: usize) -> bool {
    let bytes = 4 * x.dtype().size_bytes() as u64;
    let row_bytes = x.layout().strides()[0].unsigned_abs() * x.dtype().size_bytes() as u64;
    experts.is_multiple_of(4) && x.device_address().is_multiple_of(bytes) && row_bytes.is_multiple_of(bytes)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RouteKey {
    pub dtype: DType,
    /// Experts that it is made for.
    pub capacity: usize,
    pub score: Score,
    /// Whether it is `route_lists`.
    pub lists: bool,
}

impl RouteKey {
    /// Waves of a workgroup.
    fn waves(self) -> usize {
        if self.lists { 1 } else { WAVES }
    }
}

/// The source of one variant.
pub(crate) fn source(key: RouteKey) -> Source {
    let (experts, waves) = (key.capacity.to_string(), key.waves().to_string());
    let score = match key.score {
        Score::Softmax => "0",
        Score::Sigmoid => "1",
        Score::SqrtSoftplus => "2",
    };
    let defines = [
        ("ROUTE_TYPE", c_type(key.dtype)),
        ("ROUTE_EXPERTS", experts.as_str()),
        ("ROUTE_SCORE", score),
        ("ROUTE_WAVES", waves.as_str()),
    ];
    let text = match key.lists {
        true => concat!(include_str!("route.h"), include_str!("route_lists.hip")),
        false => concat!(include_str!("route.h"), include_str!("route.hip")),
    };
    Source::new(OP, text, &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let scores = [Score::Softmax, Score::Sigmoid, Score::SqrtSoftplus].into_iter();
    let scores = scores.filter(move |_| matches!(dtype, DType::F32 | DType::F16 | DType::BF16));
    let has_lists = matches!(arch.info().matrix, Matrix::Mfma(2..));
    let kinds = scores.flat_map(|score| capacities().map(move |capacity| (score, capacity)));
    kinds.flat_map(move |(score, capacity)| {
        let lists = [false, true].into_iter().filter(move |lists| !lists || has_lists && capacity <= LISTS_EXPERTS);
        lists.map(move |lists| (OP, source(RouteKey { dtype, capacity, score, lists })))
    })
}

/// `RouteArgs` of `route.h`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RouteArgs {
    x: u64,
    bias: u64,
    count: u64,
    table: u64,
    table_rows: u64,
    shares: u64,
    ids: u64,
    x_stride: i64,
    table_stride: i64,
    share_stride: i64,
    id_stride: i64,
    tokens: u32,
    experts: u32,
    k: u32,
    shared: u32,
    groups: u32,
    groups_kept: u32,
    group_size: u32,
    by_two: u32,
    renormalises: u32,
    shared_score: u32,
    table_rows_count: u32,
    parts_log2: u32,
    factor: f32,
    size: FastDiv,
    x_is_whole: u32,
    unused: u32,
}
const _: () = assert!(size_of::<RouteArgs>() == 160);

#[cfg(test)]
mod tests;
