//! `paged_attention`: the launcher of `paged.hip`, with products on the matrix unit, of a wave's own keys (`paged_matrix.h`, on CDNA
//! `paged_pairs.h`) or of tiles that all waves share (`paged_tiles.h`, on CDNA `paged_latents.h`, on Hopper `paged_hopper.h`), or by lanes
//! (`paged_lanes.h`).

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{Arch, ArchInfo, Matrix};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Error, Source, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::cache::{self, Cache, CacheKey, CacheLayout, PageArgs, Pages, PlaneArgs, ScaleArgs};
use crate::family::{self, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};
use crate::quant::{CodeLayout, Format, ScaleKind, Scales, dequantise};

pub use aiter::explain_paged;
use hopper::Hopper;
use latents::Latents;
pub(super) use registry::sources;
use tiles::Tiles;

const OP: &str = "paged_attention";
/// Keys of a split. A constant: splits decide the order of sums, which must not depend on what else is in a batch. Half as many cost
/// 25% of a full
/// card's time (H200, `paged decode bf16`), as much as finding a split's keys and adding it up takes.
const SPLIT: usize = 512;
/// The same of a cache of latents, whose rows are as long as the values of several heads: what splits write and read again would be
/// as much as half of the keys.
const LATENT_SPLIT: usize = 1024;
/// Threads of a workgroup, channels of a lane.
const THREADS: usize = 128;
const CHANNELS: usize = 8;
/// Rows of a workgroup on the vector units at most: queries and sums of eight would leave no registers for the keys on gfx906 and RDNA. How many
/// there are changes no bit.
const LANE_ROWS_MAX: usize = 4;
/// Channels of a head that the matrix unit's products are made for.
const MATRIX_DEPTHS: [usize; 2] = [64, 128];
/// Lanes of a team: the narrowest wave bounds them, and so head sizes.
const TEAMS: [usize; 4] = [4, 8, 16, 32];
/// Channels of a value at most: four of each thread that adds up splits.
pub const PAGED_VALUE_DEPTH_MAX: usize = 4 * THREADS;
/// Workgroups of a launch at most; each goes on to further splits. More than any card runs at once, few enough to cost nothing where
/// lengths
/// are shorter than their bound.
const GROUPS_MAX: usize = 8192;
/// Workgroups of a unit, of codes.
const CODED_GROUPS: usize = 4;
/// Workgroups of each place for one, where they take several splits.
const ROUNDS_LEAST: usize = 3;

/// Which queries a sequence has.
#[derive(Clone, Copy, Debug)]
pub enum Queries<'a> {
    /// As many each, one sequence after the other: one for plain decoding.
    Each(usize),
    /// Their own numbers: those of sequence s are tokens `starts[s]` to `starts[s + 1]`.
    Starts {
        /// I32, `[sequences + 1]`, contiguous.
        starts: View<'a>,
        /// At least those of the sequence with the most; further ones are not computed.
        most: usize,
    },
}

impl Queries<'_> {
    fn most(&self) -> usize {
        match *self {
            Queries::Each(count) => count,
            Queries::Starts { most, .. } => most,
        }
    }
}

/// What queries of codes stand for.
#[derive(Clone, Copy, Debug)]
pub struct QueryCodes<'a> {
    /// How a code is a number, of 8 bits.
    pub format: Format,
    /// The factor of all: f32, one element.
    pub scale: View<'a>,
}

impl QueryCodes<'_> {
    /// Writes the numbers, each rounded to the type of `to`.
    fn decode(&self, stream: &Stream, codes: View<'_>, to: ViewMut<'_>) -> Result<()> {
        let scales = Scales { view: self.scale, kind: ScaleKind::F32, block: &[], global: None };
        dequantise(stream, codes, &CodeLayout::bytes(self.format), Some(&scales), to)
    }
}

/// What paged attention reads.
#[derive(Clone, Copy, Debug)]
pub struct PagedInputs<'a> {
    /// `[tokens, heads, channels]`, the last axis contiguous: the last queries of each sequence, whose own keys are in the cache.
    pub q: View<'a>,
    /// Where `q` is codes, u8.
    pub q_codes: Option<QueryCodes<'a>>,
    /// Which tokens are whose.
    pub queries: Queries<'a>,
    /// Keys and values, of a number of heads that divides that of the queries.
    pub cache: Cache<'a>,
    /// The pages of each sequence, or the slots that each query sees: [`Pages::Slots`] has a row for each token.
    pub pages: Pages<'a>,
    /// At least the keys of the longest sequence, or slots of a row; those beyond are not seen. Splits, and with them the workspace, are made for so many.
    pub keys_most: usize,
    /// ALiBi: a score loses the slope of its head for every key between its key and the query's own place. `[heads]`, f32, contiguous.
    pub slopes: Option<View<'a>>,
    /// Of every head a score of no key, which takes its share of the weights. As `slopes`.
    pub sinks: Option<View<'a>>,
    /// Added to the scores of the forward's own keys, those from `keys - queries` on: f32 `[tokens, columns]`, the last axis
    /// contiguous, column 0 being the sequence's first
    /// own key, with at least as many columns as a sequence has queries. Minus infinity hides: a tree of guesses.
    pub bias: Option<View<'a>>,
}

impl<'a> PagedInputs<'a> {
    /// One query for each sequence, no slopes, sinks or bias.
    pub fn new(q: View<'a>, cache: Cache<'a>, pages: Pages<'a>, keys_most: usize) -> PagedInputs<'a> {
        let (queries, q_codes) = (Queries::Each(1), None);
        PagedInputs { q, q_codes, queries, cache, pages, keys_most, slopes: None, sinks: None, bias: None }
    }

    fn by_slots(&self) -> bool {
        matches!(self.pages, Pages::Slots { .. })
    }
}

/// What is done to the scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PagedParams {
    /// Factor of the products; `None`: `1 / sqrt(channels)`.
    pub scale: Option<f64>,
    /// `c`: scores become `c · tanh(score / c)`, before anything is added or hidden.
    pub softcap: Option<f64>,
    /// How many keys a query sees at most, its own among them; `None`: all up to its own.
    pub window: Option<usize>,
}

/// f32 elements of a workspace for [`paged_attention`], at the worst lengths: 0 where no sequence can have several splits.
pub fn paged_workspace(inputs: &PagedInputs<'_>, params: &PagedParams) -> usize {
    let splits = splits_most(inputs, params);
    let [tokens, heads, _] = <[usize; 3]>::try_from(inputs.q.shape()).unwrap_or([0; 3]);
    if splits <= 1 { 0 } else { splits * tokens * heads * (inputs.cache.heads()[2] + 2) }
}

fn splits_most(inputs: &PagedInputs<'_>, params: &PagedParams) -> usize {
    let split = split_of(&inputs.cache);
    let all = inputs.keys_most.div_ceil(split);
    // Keys that a sequence's queries see together begin anywhere in a split.
    params.window.map_or(all, |window| all.min((window + inputs.queries.most()).div_ceil(split) + 1))
}

fn split_of(cache: &Cache<'_>) -> usize {
    if cache.is_latent { LATENT_SPLIT } else { SPLIT }
}

/// Attention of the last queries of sequences over a cache on pages: query `i` of a sequence's `n` has place `keys - n + i` and sees
/// keys up to
/// it. Lengths, pages and numbers of queries are in device memory; launches depend on the bounds alone.
///
/// # Shapes
/// Inputs as [`PagedInputs`] says, channels of heads 8, 16, … 576, those of values their own, up to 512: absorbed MLA has
/// a cache of [`Cache::latent`], and the model's own scale. `out`: `[tokens, heads, value
/// channels]`, the last axis
/// contiguous; `lse`: `[tokens, heads]`, f32, any strides: the natural logarithm of the sum of exponentials. Tokens of no sequence
/// are left as they are. `workspace`: f32, contiguous, at least [`paged_workspace`] elements; `None`: it is allocated.
/// # Types
/// f32, f16 or bf16, one for queries, output and cache; a cache of codes with any of them. Queries of codes become those of the output's
/// type by a launch of its own, in memory of the pool: a row of them is read by as many workgroups as there are splits of its keys.
/// # Numerics
/// Products, exponentials and sums in f32; on the matrix unit weights are rounded to the type of `q` before they multiply values.
/// Keys are cut into splits of 512, of latents 1024, from the sequence's first on, which are added up in order: a
/// sequence's results are the same bits whatever else is in the batch, where it is in it, and which queries come in one launch. A
/// query that sees nothing gives zeros and an `lse` of minus infinity; that of a sequence without keys reads nothing. A page number
/// outside
/// the cache hides its keys, and the next read or wait tells of it; a slot behind the last, too, one below 0 is passed over. A NaN spoils
/// the rows that see it. With `ROCFIRE_AITER_DECODE=1`, where AITER's kernels are taken (`paged/aiter.rs`), bits depend on how many sequences
/// there are, over latents on `keys_most` too.
/// # Errors
/// `Shape` for shapes, types and strides that do not fit, for a cache whose rows do not begin at multiples of 16 bytes (8 for
/// codes), for outputs that overlap an
/// input, for places of keys among slots, which have none: several queries of a row, a window, slopes, a bias; `Unsupported` for other types; errors of compilation and launch.
pub fn paged_attention(
    stream: &Stream,
    inputs: &PagedInputs<'_>,
    params: &PagedParams,
    out: ViewMut<'_>,
    lse: Option<ViewMut<'_>>,
    workspace: Option<ViewMut<'_>>,
) -> Result<()> {
    let numbers = match &inputs.q_codes {
        Some(codes) if codes.format.bits() != 8 => {
            return Err(shape(OP, "q_codes", "a format of 8 bits", format!("{:?}", codes.format)));
        }
        Some(_) => Some(Tensor::empty(&stream.device(), inputs.q.shape(), out.dtype())?),
        None => None,
    };
    let (codes, q_codes) = (inputs.q, inputs.q_codes);
    let inputs = &PagedInputs { q: numbers.as_ref().map_or(codes, Tensor::view), q_codes: None, ..*inputs };
    let call = Call::new(stream, inputs, params, &out, lse.as_ref())?;
    if let (Some(q_codes), Some(numbers)) = (&q_codes, &numbers) {
        for output in [Some(out.view()), lse.as_ref().map(|lse| lse.view())].into_iter().flatten() {
            family::disjoint(OP, "q", &output, &codes)?;
            family::disjoint(OP, "q_codes", &output, &q_codes.scale)?;
        }
        q_codes.decode(stream, codes, numbers.view().writable())?;
    }
    if call.items == 0 {
        return Ok(());
    }
    let needed = paged_workspace(inputs, params);
    let given = match &workspace {
        Some(given) if needed > 0 => Some(checked_workspace(stream, inputs, &out, lse.as_ref(), given, needed)?),
        _ => None,
    };
    if aiter::launched(stream, inputs, params, &call, &out, lse.as_ref().map(|lse| lse.view()).as_ref())? {
        return Ok(());
    }
    let mut args = call.args;
    let allocated;
    let memory = match given {
        None if needed > 0 => {
            allocated = Tensor::empty(&stream.device(), &[needed], DType::F32)?;
            Some(allocated.view())
        }
        given => given,
    };
    if let Some(memory) = &memory {
        // Of 16 bytes first.
        args.parts = memory.device_address();
        let lines = splits_most(inputs, params) * args.tokens as usize * args.heads as usize;
        args.states = args.parts + (lines * args.v.depth as usize * size_of::<f32>()) as u64;
    }
    static SOURCES: Sources<PagedKey> = Sources::new();
    let source = SOURCES.get(call.key, source);
    let lse_buffer = lse.as_ref().map_or(out.buffer(), |lse| lse.buffer());
    let parts_buffer = memory.as_ref().map_or(out.buffer(), View::buffer);
    let written: [&Buffer; 3] = [out.buffer(), lse_buffer, parts_buffer];
    let work = Work { category: Category::Attention, shape: inputs.q.shape(), ..Work::default() };
    let launch = |kernel: &str, groups: usize, lds_bytes: u32| {
        // SAFETY:
        // - `PagedArgs` is the twin of the kernels' struct, sizes asserted on both sides. Tokens are held below those of `q`, `out`
        // and `lse`,
        //   pages outside the cache are not followed, entries of `pages` are read up to a sequence's last key; splits of a sequence
        //   are at most those that the workspace was made for, as its keys are held below the bound.
        // - They write `out`, `lse` and the workspace only.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, kernel), [groups, 1, 1], [call.key.threads(), 1, 1])
                .with(lds_bytes, work)
                .run(&args, &written)
        }
    };
    launch("paged", args.groups as usize, call.key.lds_bytes())?;
    if memory.is_some() {
        launch("paged_combine", args.tokens as usize * args.heads as usize, 0)?;
    }
    Ok(())
}

/// The workspace, if it will do.
fn checked_workspace<'a>(
    stream: &Stream,
    inputs: &PagedInputs<'_>,
    out: &View<'_>,
    lse: Option<&ViewMut<'_>>,
    given: &ViewMut<'a>,
    needed: usize,
) -> Result<View<'a>> {
    family::on_device(OP, "workspace", stream, given)?;
    family::same_dtype(OP, "workspace", given, DType::F32)?;
    if given.len() < needed || !given.layout().is_contiguous() {
        let got = format!("{:?}, strides {:?}", given.shape(), given.layout().strides());
        return Err(shape(OP, "workspace", format!("{needed} elements, contiguous"), got));
    }
    for view in [Some(inputs.q), Some(*out), lse.map(|lse| lse.view())].iter().flatten() {
        family::disjoint(OP, "workspace", given, view)?;
    }
    inputs.cache.disjoint(OP, given)?;
    Ok(given.view())
}

/// A checked call.
struct Call {
    key: PagedKey,
    args: PagedArgs,
    /// Splits of rows, at the worst lengths.
    items: usize,
}

impl Call {
    fn new(
        stream: &Stream,
        inputs: &PagedInputs<'_>,
        params: &PagedParams,
        out: &View<'_>,
        lse: Option<&ViewMut<'_>>,
    ) -> Result<Call> {
        let PagedInputs { q, cache, pages, keys_most, .. } = inputs;
        let dtype = q.dtype();
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(Error::Unsupported { op: OP, dtype, arch: q.arch() }.into());
        }
        cache.on_device(OP, stream)?;
        let [kv_heads, depth, value_depth] = cache.heads();
        let [tokens, heads, _] = <[usize; 3]>::try_from(q.shape())
            .map_err(|_| shape(OP, "q", "[tokens, heads, channels]", format!("{:?}", q.shape())))?;
        for (arg, view, depth) in [("q", q, depth), ("out", out, value_depth)] {
            rows(stream, arg, view, dtype, [tokens, heads, depth])?;
        }
        if cache.codes.is_none() && cache.k.dtype() != dtype {
            return Err(shape(OP, "cache", dtype, cache.k.dtype()));
        }
        if kv_heads == 0 || heads % kv_heads != 0 {
            return Err(shape(OP, "cache", format!("a number of heads that divides {heads}"), kv_heads));
        }
        if value_depth > PAGED_VALUE_DEPTH_MAX {
            return Err(shape(OP, "cache", format!("values of at most {PAGED_VALUE_DEPTH_MAX} channels"), value_depth));
        }
        let device = stream.device();
        let key = PagedKey::of(device.arch().info(), device.config().matrix, inputs);
        let planes = cache.planes();
        if planes[0].whole & 1 == 0 || !key.across && planes[1].whole & 1 == 0 {
            let got = format!("strides {:?} and {:?}", cache.k.layout().strides(), cache.v.layout().strides());
            return Err(shape(OP, "cache", "rows that begin at multiples of 16 bytes, 8 for codes", got));
        }
        let sequences = pages.sequences();
        let starts = check_queries(stream, &inputs.queries, sequences, tokens)?;
        let mut args = PagedArgs::zeroed();
        args.pages = pages.args(OP, stream, cache.pages(), *keys_most)?;
        for (arg, to, view) in [("slopes", &mut args.slopes, &inputs.slopes), ("sinks", &mut args.sinks, &inputs.sinks)]
        {
            let Some(view) = view else { continue };
            family::on_device(OP, arg, stream, view)?;
            family::same_dtype(OP, arg, view, DType::F32)?;
            if view.shape() != [heads] || !view.layout().is_contiguous() {
                let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
                return Err(shape(OP, arg, format!("[{heads}], contiguous"), got));
            }
            *to = view.device_address();
        }
        if inputs.by_slots() {
            let has_places = [
                ("queries", !matches!(inputs.queries, Queries::Each(1))),
                ("window", params.window.is_some()),
                ("slopes", inputs.slopes.is_some()),
                ("bias", inputs.bias.is_some()),
            ];
            if let Some((arg, _)) = has_places.into_iter().find(|(_, is_there)| *is_there) {
                return Err(shape(OP, arg, "one query for a row of slots, whose keys have no places", "more"));
            }
        }
        let q_most = inputs.queries.most();
        if let Some(bias) = &inputs.bias {
            family::on_device(OP, "bias", stream, bias)?;
            family::same_dtype(OP, "bias", bias, DType::F32)?;
            let fits = matches!(*bias.shape(), [rows, columns] if rows == tokens && columns >= q_most);
            if !fits || bias.layout().strides()[1] != 1 {
                let got = format!("{:?}, strides {:?}", bias.shape(), bias.layout().strides());
                return Err(shape(OP, "bias", format!("[{tokens}, {q_most} or more], the last axis contiguous"), got));
            }
            (args.bias, args.bias_token) = (bias.device_address(), bias.layout().strides()[0]);
        }
        args.set_params(params, depth)?;
        if let Some(lse) = lse {
            family::on_device(OP, "lse", stream, lse)?;
            family::same_dtype(OP, "lse", lse, DType::F32)?;
            if lse.shape() != [tokens, heads] {
                return Err(shape(OP, "lse", format!("[{tokens}, {heads}]"), format!("{:?}", lse.shape())));
            }
            family::writable(OP, "lse", lse)?;
            family::disjoint(OP, "lse", out, lse)?;
            let strides = lse.layout().strides();
            (args.lse, args.lse_token, args.lse_head) = (lse.device_address(), strides[0], strides[1]);
        }
        family::writable(OP, "out", out)?;
        for output in std::iter::once(out).chain(lse.map(|lse| &**lse)) {
            family::disjoint(OP, "q", output, q)?;
            cache.disjoint(OP, output)?;
            for (arg, input) in [("slopes", inputs.slopes), ("sinks", inputs.sinks), ("bias", inputs.bias)] {
                if let Some(input) = input {
                    family::disjoint(OP, arg, output, &input)?;
                }
            }
        }
        let group = heads / kv_heads;
        let chunks = (q_most * group).div_ceil(key.rows);
        // A sequence without keys has a split too: it writes zeros.
        let splits = splits_most(inputs, params).max(1);
        let run_shift = key.run_shift(stream, sequences * splits * chunks * kv_heads);
        let items = sequences * splits.div_ceil(1 << run_shift) * chunks * kv_heads;
        if items >= BOX_LIMIT || tokens * heads >= BOX_LIMIT {
            return Err(shape(OP, "q", format!("fewer than {BOX_LIMIT} splits of heads"), items.max(tokens * heads)));
        }
        [args.k, args.v] = planes;
        [args.k_scales, args.v_scales] = cache.scales();
        (args.q, args.out, args.q_starts) = (q.device_address(), out.device_address(), starts);
        (args.q_token, args.q_head) = (q.layout().strides()[0], q.layout().strides()[1]);
        (args.out_token, args.out_head) = (out.layout().strides()[0], out.layout().strides()[1]);
        args.q_is_whole = is_whole(q).into();
        (args.tokens, args.heads, args.q_most) = (tokens as u32, heads as u32, q_most as u32);
        (args.group, args.chunks, args.kv_heads) = (FastDiv::new(group), FastDiv::new(chunks), FastDiv::new(kv_heads));
        args.groups = items.min(GROUPS_MAX) as u32;
        args.splits = splits_most(inputs, params) as u32;
        args.run_shift = run_shift;
        args.has_extras = (params.softcap.is_some() || args.slopes != 0 || args.bias != 0).into();
        Ok(Call { key, args, items: if tokens == 0 || heads == 0 { 0 } else { items } })
    }
}

/// Checks rows of heads.
fn rows(stream: &Stream, arg: &'static str, view: &View<'_>, dtype: DType, expected: [usize; 3]) -> Result<()> {
    family::on_device(OP, arg, stream, view)?;
    family::same_dtype(OP, arg, view, dtype)?;
    if view.shape() != expected {
        return Err(shape(OP, arg, format!("{expected:?}"), format!("{:?}", view.shape())));
    }
    if view.layout().strides()[2] != 1 {
        return Err(shape(OP, arg, "a last axis of stride 1", view.layout().strides()[2]));
    }
    Ok(())
}

/// The address of the starts, or 0.
fn check_queries(stream: &Stream, queries: &Queries<'_>, sequences: usize, tokens: usize) -> Result<u64> {
    match queries {
        Queries::Each(count) if sequences.checked_mul(*count) == Some(tokens) => Ok(0),
        Queries::Each(count) => {
            Err(shape(OP, "q", format!("{count} tokens for each of {sequences} sequences"), tokens))
        }
        Queries::Starts { starts, most } => {
            family::on_device(OP, "queries", stream, starts)?;
            family::same_dtype(OP, "queries", starts, DType::I32)?;
            if starts.shape() != [sequences + 1] || !starts.layout().is_contiguous() {
                let got = format!("{:?}, strides {:?}", starts.shape(), starts.layout().strides());
                return Err(shape(OP, "queries", format!("[{}], contiguous", sequences + 1), got));
            }
            if *most == 0 && tokens > 0 {
                return Err(shape(OP, "queries.most", "at least 1", 0));
            }
            Ok(starts.device_address())
        }
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PagedKey {
    cache: CacheKey,
    q: DType,
    team: usize,
    /// Eight channels of each lane of a team at once: so often for a key, and for a value.
    turns: [usize; 2],
    rows: usize,
    /// Keys of a split.
    split: usize,
    /// Whether tokens are neighbours in the plane of values.
    across: bool,
    /// Whether keys are found by slots.
    slots: bool,
    scales: CodeScales,
    way: Way,
}

/// Scales of codes, numbers of `paged.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CodeScales {
    /// No codes.
    None,
    /// One for all keys and one for all values of a head: they multiply sums.
    OfHeads,
    /// Of blocks, or of tokens: they multiply scores and weights.
    OfKeys,
}

impl CodeScales {
    /// Those of a cache. [`Way::Tiles`] takes all as if they were of keys.
    fn of(cache: &Cache<'_>) -> CodeScales {
        if cache.codes.is_none() {
            return CodeScales::None;
        }
        let alike = cache.scales().iter().all(|scales| scales.page == 0 && scales.token == 0);
        if alike { CodeScales::OfHeads } else { CodeScales::OfKeys }
    }
}

/// What computes a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// The vector units.
    Lanes,
    /// The matrix unit, each wave with keys of its own.
    Matrix,
    /// The same with two tiles of keys at once.
    Pairs {
        /// Whether each tile is on one page, and keys and values are as far apart.
        whole_pages: bool,
    },
    /// The matrix unit, all waves with the same tile of keys.
    Tiles(Tiles),
    /// The same by Hopper's own products.
    Hopper(Hopper),
    /// The same on CDNA.
    Latents(Latents),
}

impl PagedKey {
    fn of(info: &ArchInfo, matrix: bool, inputs: &PagedInputs<'_>) -> PagedKey {
        let PagedInputs { q, cache, .. } = inputs;
        let [kv_heads, depth, value_depth] = cache.heads();
        let group = q.shape().get(1).copied().unwrap_or(0) / kv_heads.max(1);
        let depths = [depth, value_depth];
        let across = matches!(cache.layout, CacheLayout::Packed | CacheLayout::PackedBoth);
        let dtype = q.dtype();
        let key = PagedKey::by_lanes(cache.key(), dtype, depths, split_of(cache), across);
        let key = PagedKey { slots: inputs.by_slots(), ..key };
        if matrix && cache.is_latent && q.shape().len() == 3 && is_whole(q) {
            let is_coded = cache.codes.is_some();
            if let Some(hopper) = Hopper::of(info, dtype, is_coded, group, depths) {
                return PagedKey { rows: Hopper::ROWS, way: Way::Hopper(hopper), ..key };
            }
            if let Some(latents) = Latents::of(info, dtype, group, group * inputs.queries.most(), depths, is_coded) {
                return PagedKey { rows: latents.rows, way: Way::Latents(latents), ..key };
            }
            if let Some(tiles) = Tiles::of(info, dtype, is_coded, group, depths) {
                return PagedKey { rows: tiles.rows, way: Way::Tiles(tiles), ..key };
            }
        }
        let key = PagedKey { scales: CodeScales::of(cache), ..key };
        if matrix
            && !across
            && depth == value_depth
            && cache.planes().iter().all(is_aligned)
            && let Some(way) = matrix_way(info, dtype, depth, has_whole_pages(inputs))
        {
            let rows = matrix_rows(way, group * inputs.queries.most());
            return PagedKey { rows, way, ..key };
        }
        let rows = (group * inputs.queries.most()).next_power_of_two().min(lane_rows_most(key.turns));
        PagedKey { rows, ..key }
    }

    /// For one row.
    fn by_lanes(cache: CacheKey, q: DType, depths: [usize; 2], split: usize, across: bool) -> PagedKey {
        let lanes = depths.map(|depth| depth.div_ceil(CHANNELS));
        let team = TEAMS.into_iter().find(|&team| lanes[0].max(lanes[1]) <= team).unwrap_or(TEAMS[3]);
        let turns = lanes.map(|lanes| lanes.div_ceil(team));
        let scales = if cache.format.is_some() { CodeScales::OfKeys } else { CodeScales::None };
        PagedKey { cache, q, team, turns, rows: 1, split, across, slots: false, scales, way: Way::Lanes }
    }

    fn threads(&self) -> usize {
        match self.way {
            Way::Lanes | Way::Matrix | Way::Pairs { .. } => THREADS,
            Way::Tiles(_) => Tiles::THREADS,
            Way::Hopper(_) => Hopper::THREADS,
            Way::Latents(_) => Latents::THREADS,
        }
    }

    /// Splits that a workgroup takes one after another, as a power of two. Finding their sequence takes a twentieth of the time of a split of
    /// codes, so two share it where enough workgroups are left for several rounds. A split of floats is twice as many bytes, and gains less
    /// than longer rounds lose. On an H200 in us, 64 sequences of 4096 keys, by 1, 2 and 4 splits: codes 173, 169, 167, bf16 275, 279, 287.
    fn run_shift(&self, stream: &Stream, splits: usize) -> u32 {
        let in_turn = matches!(self.way, Way::Lanes | Way::Matrix | Way::Pairs { .. })
            && self.turns == [1, 1]
            && self.scales != CodeScales::None;
        u32::from(in_turn && splits >= 2 * ROUNDS_LEAST * family::slots(&stream.device(), CODED_GROUPS))
    }

    /// Dynamic LDS of a workgroup.
    fn lds_bytes(&self) -> u32 {
        match self.way {
            Way::Lanes | Way::Matrix | Way::Pairs { .. } => 0,
            Way::Tiles(tiles) => tiles.lds_bytes() as u32,
            Way::Hopper(hopper) => hopper.lds_bytes() as u32,
            Way::Latents(latents) => latents.lds_bytes() as u32,
        }
    }
}

/// Rows of a workgroup on the vector units at most: long rows want the registers of several.
fn lane_rows_most(turns: [usize; 2]) -> usize {
    if turns == [1, 1] { LANE_ROWS_MAX } else { LANE_ROWS_MAX / 2 }
}

/// Whether rows of heads begin at multiples of 16 bytes.
fn is_whole(q: &View<'_>) -> bool {
    let size = q.dtype().size_bytes() as i64;
    let strides = q.layout().strides();
    q.device_address().is_multiple_of(16) && strides[..2].iter().all(|stride| stride * size % 16 == 0)
}

/// Whether keys begin at multiples of 16 elements, and of 16 bytes.
fn is_aligned(plane: &PlaneArgs) -> bool {
    let strides = [plane.page, plane.head, plane.run, plane.token, plane.chunk];
    plane.at.is_multiple_of(16) && strides.into_iter().all(|stride| stride % 16 == 0)
}

/// Keys of a tile of the matrix unit's.
const TILE: usize = 16;

/// Whether each tile of keys is on one page, keys and values lie alike, scales of both too, and what is within a tile is told by 32 bits.
fn has_whole_pages(inputs: &PagedInputs<'_>) -> bool {
    let cache = &inputs.cache;
    let strides = |plane: &PlaneArgs| (plane.page, plane.head, plane.token, plane.run_shift, plane.chunk_shift);
    let of_scales = |scales: &ScaleArgs| (scales.page, scales.head, scales.token);
    let ([k, v], [k_scales, v_scales]) = (cache.planes(), cache.scales());
    let within = (0..1 << 24).contains(&k.token);
    let in_rows = matches!(cache.layout, CacheLayout::Nhd | CacheLayout::Hnd);
    let alike = strides(&k) == strides(&v) && of_scales(&k_scales) == of_scales(&v_scales);
    in_rows && alike && within && !inputs.by_slots() && cache.extents.block.is_multiple_of(TILE)
}

/// How products of 16 keys are the matrix unit's, `None` where it has none that are taken. Of the first CDNA's, bf16 lacks the depth.
fn matrix_way(info: &ArchInfo, q: DType, depth: usize, whole_pages: bool) -> Option<Way> {
    let fits = matches!(q, DType::F16 | DType::BF16) && MATRIX_DEPTHS.contains(&depth);
    match info.matrix {
        Matrix::Mfma(generation) if fits && generation >= 2 => Some(Way::Pairs { whole_pages }),
        Matrix::MmaSync if fits => Some(Way::Matrix),
        _ => None,
    }
}

/// Rows of a workgroup there, for so many of a sequence and head of keys. On CDNA eight have the bits that they have among sixteen.
fn matrix_rows(way: Way, rows: usize) -> usize {
    if matches!(way, Way::Pairs { .. }) && rows > 8 { 16 } else { 8 }
}

fn source(key: PagedKey) -> Source {
    macro_rules! with {
        ($($header:literal),+) => {
            concat!(
                include_str!("../cache/cache.h"),
                include_str!("../cache/code.h"),
                include_str!("paged.h"),
                $(include_str!($header),)+
                include_str!("paged.hip")
            )
        };
    }
    let (number, text) = match key.way {
        Way::Lanes => (0, with!("paged_lanes.h")),
        Way::Matrix => (1, with!("paged_part.h", "paged_matrix.h")),
        Way::Tiles(_) => (2, with!("paged_tiles.h")),
        Way::Hopper(_) => (3, with!("paged_hopper.h")),
        Way::Pairs { .. } => (4, with!("paged_part.h", "paged_pairs.h")),
        Way::Latents(_) => (5, with!("paged_latents.h")),
    };
    // Workgroups that a multiprocessor of NVIDIA's is to have registers for, without spilling any.
    let groups = match key.cache.format {
        _ if matches!(key.way, Way::Tiles(_) | Way::Hopper(_) | Way::Latents(_)) => 1,
        _ if key.turns != [1, 1] => 2,
        None if key.rows >= LANE_ROWS_MAX => 3,
        _ => CODED_GROUPS,
    };
    let numbers = [
        ("PAGED_TEAM", key.team),
        ("PAGED_K_TURNS", key.turns[0]),
        ("PAGED_V_TURNS", key.turns[1]),
        ("PAGED_ROWS", key.rows),
        ("PAGED_SPLIT", key.split),
        ("PAGED_THREADS", key.threads()),
        ("PAGED_ACROSS", key.across.into()),
        ("PAGED_SLOTS", key.slots.into()),
        ("PAGED_SCALES", key.scales as usize),
        ("PAGED_WAY", number),
        ("PAGED_WHOLE_PAGES", matches!(key.way, Way::Pairs { whole_pages: true }).into()),
        ("PAGED_GROUPS", groups),
    ];
    let tiles = match key.way {
        Way::Lanes | Way::Matrix | Way::Pairs { .. } => Vec::new(),
        Way::Tiles(tiles) => tiles.defines().to_vec(),
        Way::Hopper(hopper) => hopper.defines().to_vec(),
        Way::Latents(latents) => latents.defines().to_vec(),
    };
    let numbers: Vec<_> = numbers.into_iter().chain(tiles).map(|(name, value)| (name, value.to_string())).collect();
    let own = numbers.iter().map(|(name, value)| (*name, value.as_str()));
    let defines: Vec<(&str, &str)> =
        key.cache.defines().into_iter().chain([("PAGED_IN", c_type(key.q))]).chain(own).collect();
    Source::new(OP, text, &defines)
}

/// `PagedArgs` of `paged.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PagedArgs {
    q: u64,
    out: u64,
    lse: u64,
    parts: u64,
    states: u64,
    slopes: u64,
    sinks: u64,
    bias: u64,
    q_starts: u64,
    k: PlaneArgs,
    v: PlaneArgs,
    k_scales: ScaleArgs,
    v_scales: ScaleArgs,
    pages: PageArgs,
    q_token: i64,
    q_head: i64,
    out_token: i64,
    out_head: i64,
    lse_token: i64,
    lse_head: i64,
    bias_token: i64,
    group: FastDiv,
    chunks: FastDiv,
    kv_heads: FastDiv,
    scale: f32,
    softcap: f32,
    window: i32,
    tokens: u32,
    heads: u32,
    q_most: u32,
    q_is_whole: u32,
    groups: u32,
    splits: u32,
    run_shift: u32,
    has_extras: u32,
}
const _: () = assert!(size_of::<PagedArgs>() == 480);

impl PagedArgs {
    fn set_params(&mut self, params: &PagedParams, depth: usize) -> Result<()> {
        if let Some(softcap) = params.softcap.filter(|softcap| softcap.is_nan() || *softcap <= 0.0) {
            return Err(shape(OP, "softcap", "positive", softcap));
        }
        if params.window == Some(0) {
            return Err(shape(OP, "window", "at least 1", 0));
        }
        // More than any number of keys, and places less it are still numbers.
        const UNLIMITED: usize = 1 << 30;
        self.scale = params.scale.unwrap_or_else(|| 1.0 / (depth as f64).sqrt()) as f32;
        self.softcap = params.softcap.unwrap_or(0.0) as f32;
        self.window = params.window.unwrap_or(UNLIMITED).min(UNLIMITED) as i32;
        Ok(())
    }
}

mod aiter;
mod hopper;
mod latents;
mod registry;
mod tiles;

#[cfg(test)]
mod tests;
