//! `absorb`: a product by heads, and the launcher of `absorb.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Layout, Source, Stream, View, ViewMut};

use super::{by_head, check_rows, of_one_head, own_product};
use crate::Result;
use crate::cache::{CacheKey, CacheMut, FORMATS, PlaneArgs, RowsArgs, ScaleArgs};
use crate::family::{self, BLOCK, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};
use crate::gemm::gemm;
use crate::quant::Format;
use crate::rope::RopeStyle;

const OP: &str = "absorb";
/// Pairs of a lane: `PAIRS` of `absorb.hip`.
const PAIRS: usize = 4;
/// Channels of a latent at most: eight of each thread.
const LATENT_MAX: usize = 8 * BLOCK;
/// Most tokens of a launch: HIP's limit along the first axis, in threads.
const TOKENS_MAX: usize = (1 << 24) - 1;

/// What [`absorb`] reads. Last axes are contiguous, rows any distance apart, as where they are slices of a product.
#[derive(Clone, Copy, Debug)]
pub struct AbsorbInputs<'a> {
    /// Queries, `[tokens, heads, channels]`: those that do not turn, then those that do.
    pub q: View<'a>,
    /// What brings a head's channels that do not turn to latents, `[heads, channels, latent]`, any strides: the keys' part of the
    /// matrix that makes keys and values of latents.
    pub weight: View<'a>,
    /// `[tokens, latent]`.
    pub latents: View<'a>,
    /// The channels that turn of the key that all heads share, `[tokens, turned]`.
    pub keys: View<'a>,
    /// RMSNorm of the latents: its weight, `[latent]`, contiguous, and what is added under the root. `None`: they are as the cache is to
    /// have them.
    pub norm: Option<(View<'a>, f64)>,
    /// Cosines and sines, `[positions, turned / 2]`, f32, contiguous ([`rope_table`](crate::rope::rope_table)). A position outside takes the
    /// nearest row.
    pub tables: [View<'a>; 2],
    /// Which elements form a pair.
    pub style: RopeStyle,
    /// `[tokens]`, I32 or I64.
    pub positions: View<'a>,
    /// `[tokens]`, I32 or I64; nothing is written for one below 0.
    pub slots: View<'a>,
}

/// Queries of absorbed MLA, and the rows of their tokens written into the cache: `out` is for each head `[q · weight | turned(q)]`, a row of the
/// cache `[norm(latent) | turned(key)]`. Two launches: a product by heads, whose results go where queries are read, and everything
/// else. One launch would move the same bytes.
///
/// # Shapes
/// Inputs as [`AbsorbInputs`] says; `out`: `[tokens, heads, latent + turned]`, the last axis contiguous; `cache`: of
/// [`CacheMut::latent`], of the same channels. `turned` a multiple of 8, `latent` at most 2048.
/// # Types
/// f32, f16 or bf16, all alike; the cache's own where it has no codes.
/// # Numerics
/// Products are [`gemm`]'s own, never a vendor's: a token's bits do not depend on the others. The rest in f32, with one rounding at the
/// store: a norm or a turn is not rounded before it is coded. A slot behind the last is passed over, and the next read or wait tells of it.
/// # Errors
/// `Shape` for shapes, strides and types that do not fit, for an output that overlaps an input; `Unsupported` for other types; errors of
/// compilation and launch.
pub fn absorb(
    stream: &Stream,
    inputs: &AbsorbInputs<'_>,
    mut out: ViewMut<'_>,
    cache: &mut CacheMut<'_>,
) -> Result<()> {
    let call = Call::new(stream, inputs, &out, cache)?;
    let Some(args) = call.args else { return Ok(()) };
    let (q, [tokens, heads, fixed]) = (inputs.q, call.extents);
    if heads > 0 {
        let to = by_head(out.layout(), 0, call.latent)?;
        let a = q.with_layout(by_head(q.layout(), 0, fixed)?)?;
        gemm(stream, a, inputs.weight, out.reborrow().with_layout(to)?, &own_product())?;
    }
    static SOURCES: Sources<AbsorbKey> = Sources::new();
    let source = SOURCES.get(call.key, source);
    let parts = (heads * args.chunks_of_head()).div_ceil(BLOCK);
    let bytes = tokens * (2 * heads + 2) * 2 * args.half as usize * q.dtype().size_bytes()
        + 2 * inputs.latents.len() * q.dtype().size_bytes();
    let work = Work { category: Category::Other, shape: q.shape(), bytes: bytes as u64, ..Work::default() };
    let written = [out.buffer(), cache.cache().k.buffer(), cache.cache().v.buffer()];
    // SAFETY:
    // - `AbsorbArgs` is the twin of the kernel's struct, sizes asserted on both sides. Rows of tokens and heads are inside the checked
    //   views, rows of tables are held inside of them, and slots from 0 to `slots_end` are rows of the cache and of its scales.
    // - It writes `out` and both planes: what is listed.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "absorb"), [tokens, 1 + parts, 1], [BLOCK, 1, 1])
            .with(0, work)
            .run(&args, &written)
    }
}

/// A checked call.
struct Call {
    key: AbsorbKey,
    /// `None`: there is nothing to do.
    args: Option<AbsorbArgs>,
    /// Tokens, heads, channels of a query that do not turn.
    extents: [usize; 3],
    latent: usize,
}

impl Call {
    fn new(stream: &Stream, inputs: &AbsorbInputs<'_>, out: &ViewMut<'_>, cache: &CacheMut<'_>) -> Result<Call> {
        let (q, dtype, cache) = (&inputs.q, inputs.q.dtype(), cache.cache());
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(Error::Unsupported { op: OP, dtype, arch: q.arch() }.into());
        }
        cache.on_device(OP, stream)?;
        if !cache.is_latent {
            return Err(shape(OP, "cache", "a cache of latents", "one of keys and values"));
        }
        let [_, latent, turned] = cache.heads();
        let [tokens, heads, channels] = <[usize; 3]>::try_from(q.shape())
            .map_err(|_| shape(OP, "q", "[tokens, heads, channels]", format!("{:?}", q.shape())))?;
        if channels <= turned {
            return Err(shape(OP, "q", format!("more channels than the {turned} that turn"), channels));
        }
        let fixed = channels - turned;
        if latent > LATENT_MAX {
            return Err(shape(OP, "cache", format!("latents of at most {LATENT_MAX} channels"), latent));
        }
        let cache_dtype = if cache.codes.is_some() { dtype } else { cache.k.dtype() };
        let rows: [(&'static str, &View<'_>, &[usize]); 5] = [
            ("q", q, &[tokens, heads, channels]),
            ("out", out, &[tokens, heads, latent + turned]),
            ("latents", &inputs.latents, &[tokens, latent]),
            ("keys", &inputs.keys, &[tokens, turned]),
            ("weight", &inputs.weight, &[heads, fixed, latent]),
        ];
        check_rows(OP, stream, cache_dtype, &rows)?;
        let line = |arg: &'static str, view: &View<'_>, dtype: DType, expected: &[usize]| -> Result<()> {
            family::on_device(OP, arg, stream, view)?;
            family::same_dtype(OP, arg, view, dtype)?;
            if view.shape() != expected || !view.layout().is_contiguous() {
                let got = format!("{:?}, strides {:?}", view.shape(), view.layout().strides());
                return Err(shape(OP, arg, format!("{expected:?}, contiguous"), got));
            }
            Ok(())
        };
        if let Some((weight, epsilon)) = &inputs.norm {
            line("norm", weight, dtype, &[latent])?;
            if epsilon.is_nan() || *epsilon < 0.0 {
                return Err(shape(OP, "norm", "an epsilon that is not negative", epsilon));
            }
        }
        let [cosines, sines] = &inputs.tables;
        let lines = cosines.shape().first().copied().unwrap_or(0).max(1);
        line("cosines", cosines, DType::F32, &[lines, turned / 2])?;
        line("sines", sines, DType::F32, &[lines, turned / 2])?;
        for (arg, view) in [("positions", &inputs.positions), ("slots", &inputs.slots)] {
            family::on_device(OP, arg, stream, view)?;
            if view.shape() != [tokens] || !matches!(view.dtype(), DType::I32 | DType::I64) {
                let got = format!("{} {:?}", view.dtype(), view.shape());
                return Err(shape(OP, arg, format!("I32 or I64 [{tokens}]"), got));
            }
        }
        family::writable(OP, "out", out)?;
        let others =
            [q, &inputs.weight, &inputs.latents, &inputs.keys, cosines, sines, &inputs.positions, &inputs.slots];
        for input in others.into_iter().chain(inputs.norm.as_ref().map(|(weight, _)| weight)) {
            family::disjoint(OP, "out", out, input)?;
            cache.disjoint(OP, input)?;
        }
        cache.disjoint(OP, out)?;
        let parts = (heads * turned / 2 / PAIRS).div_ceil(BLOCK);
        if tokens > TOKENS_MAX || parts >= GRID_YZ_MAX {
            let expected =
                format!("at most {TOKENS_MAX} tokens, fewer than {GRID_YZ_MAX} workgroups of a token's heads");
            return Err(shape(OP, "q", expected, format!("{:?}", q.shape())));
        }
        let key = AbsorbKey {
            cache: cache.key(),
            dtype,
            position: inputs.positions.dtype(),
            slot: inputs.slots.dtype(),
            style: inputs.style,
        };
        let args = (tokens > 0).then(|| AbsorbArgs::new(inputs, out, cache, fixed)).transpose()?;
        Ok(Call { key, args, extents: [tokens, heads, fixed], latent })
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AbsorbKey {
    cache: CacheKey,
    dtype: DType,
    position: DType,
    slot: DType,
    style: RopeStyle,
}

fn source(key: AbsorbKey) -> Source {
    const TEXT: &str = concat!(
        include_str!("../cache/cache.h"),
        include_str!("../cache/code.h"),
        include_str!("../cache/words.h"),
        include_str!("absorb.hip")
    );
    let own = [
        ("ABSORB_IN", c_type(key.dtype)),
        ("ABSORB_POSITION", c_type(key.position)),
        ("ABSORB_SLOT", c_type(key.slot)),
        ("ABSORB_PAIRS", if key.style == RopeStyle::GptJ { "1" } else { "0" }),
    ];
    let defines: Vec<(&str, &str)> = key.cache.defines().into_iter().chain(own).collect();
    Source::new(OP, TEXT, &defines)
}

/// Its rows of the registry: as they are, and codes of each format.
pub(super) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let coded = |format: Format| CacheKey { dtype: DType::U8, format: Some(format) };
    let all = std::iter::once(CacheKey { dtype, format: None }).chain(FORMATS.map(coded));
    all.enumerate().map(move |(turn, cache)| {
        let [position, slot] = [turn, turn / 2].map(|turn| [DType::I32, DType::I64][turn % 2]);
        let style = [RopeStyle::GptJ, RopeStyle::NeoX][turn % 2];
        (OP, source(AbsorbKey { cache, dtype, position, slot, style }))
    })
}

/// `AbsorbArgs` of `absorb.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AbsorbArgs {
    q: RowsArgs,
    out: RowsArgs,
    latent: RowsArgs,
    key: RowsArgs,
    weight: RowsArgs,
    plane: [PlaneArgs; 2],
    scales: ScaleArgs,
    cosines: u64,
    sines: u64,
    positions: u64,
    slots: u64,
    position_stride: i64,
    slot_stride: i64,
    table_rows: i64,
    chunks: FastDiv,
    block: FastDiv,
    epsilon: f32,
    heads: u32,
    half: u32,
    slots_end: u32,
}
const _: () = assert!(size_of::<AbsorbArgs>() == 432);

impl AbsorbArgs {
    fn new(
        inputs: &AbsorbInputs<'_>,
        out: &View<'_>,
        cache: &crate::cache::Cache<'_>,
        fixed: usize,
    ) -> Result<AbsorbArgs> {
        let AbsorbInputs { q, tables: [cosines, sines], positions, slots, .. } = inputs;
        let [pages, block] = cache.pages();
        let [_, latent, turned] = cache.heads();
        let behind = |view: &View<'_>, first| -> Result<RowsArgs> {
            let part = view.layout().slice(2, first, first + turned, 1)?;
            Ok(RowsArgs::new(&view.with_layout(part)?))
        };
        let norm = inputs.norm.map(|(weight, epsilon)| -> Result<_> {
            let row = Layout::strided(&[1, latent], &[latent as i64, 1], weight.layout().offset())?;
            Ok((RowsArgs::new(&of_one_head(&weight.with_layout(row)?)?), epsilon))
        });
        let (weight, epsilon) = norm.transpose()?.unwrap_or((RowsArgs::zeroed(), 0.0));
        Ok(AbsorbArgs {
            q: behind(q, fixed)?,
            out: behind(out, latent)?,
            latent: RowsArgs::new(&of_one_head(&inputs.latents)?),
            key: RowsArgs::new(&of_one_head(&inputs.keys)?),
            weight,
            plane: cache.planes(),
            scales: cache.scales()[0],
            cosines: cosines.device_address(),
            sines: sines.device_address(),
            positions: positions.device_address(),
            slots: slots.device_address(),
            position_stride: positions.layout().strides()[0],
            slot_stride: slots.layout().strides()[0],
            table_rows: cosines.shape()[0] as i64,
            chunks: FastDiv::new(turned / 2 / PAIRS),
            block: FastDiv::new(block),
            epsilon: epsilon as f32,
            heads: q.shape()[1] as u32,
            half: (turned / 2) as u32,
            slots_end: (pages * block) as u32,
        })
    }

    fn chunks_of_head(&self) -> usize {
        self.half as usize / PAIRS
    }
}
