//! `random`: the launchers of `random.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Source, Stream, ViewMut};

use crate::Result;
use crate::family::{self, BLOCK, KernelLaunch, Sources, c_type, shape};

const OP: &str = "random";
/// Workgroups of one launch, so that a grid has fewer than 2³² threads; each lane draws two or four elements.
const GROUPS_MAX: usize = (1 << 24) - 1;

/// Names a stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed {
    /// The user's seed: Philox's key.
    pub seed: u64,
    /// Which draw under this seed; two draws with different offsets share no numbers.
    pub offset: u64,
}

/// Fills `out` with draws from `[low, high)`; integers from `low` up to `high - 1`, both ends truncated first. Where
/// `low = high`, every element is `low`.
///
/// # Shapes
/// `out` any shape, contiguous.
/// # Types
/// Any but `Bool`.
/// # Errors
/// `Shape` unless `out` is contiguous and `low <= high` are finite; `Unsupported` for `Bool`.
pub fn uniform(stream: &Stream, seed: Seed, low: f64, high: f64, out: ViewMut<'_>) -> Result<()> {
    let dtype = out.dtype();
    // NaN fails too.
    let ordered = low <= high && low.is_finite() && high.is_finite();
    if !ordered {
        return Err(shape(OP, "low..high", "finite, in ascending order", format!("{low}..{high}")));
    }
    if dtype == DType::Bool {
        return Err(Error::Unsupported { op: OP, dtype, arch: out.arch() }.into());
    }
    let (low_int, range) = if dtype == DType::U64 {
        (low as u64 as i64, (high as u64).wrapping_sub(low as u64))
    } else {
        (low as i64, (high as i64).wrapping_sub(low as i64) as u64)
    };
    fill(stream, Draw::Uniform, seed, RandomArgs { a: low, b: high, low: low_int, range, ..RandomArgs::zeroed() }, out)
}

/// Fills `out` with draws from the normal distribution; integers are truncated.
///
/// # Shapes
/// `out` any shape, contiguous.
/// # Types
/// Any but `Bool`; 53-bit uniforms for f64 and 64-bit integers, 24-bit ones else.
/// # Errors
/// `Shape` unless `out` is contiguous; `Unsupported` for `Bool`.
pub fn normal(stream: &Stream, seed: Seed, mean: f64, deviation: f64, out: ViewMut<'_>) -> Result<()> {
    if out.dtype() == DType::Bool {
        return Err(Error::Unsupported { op: OP, dtype: DType::Bool, arch: out.arch() }.into());
    }
    fill(stream, Draw::Normal, seed, RandomArgs { a: mean, b: deviation, ..RandomArgs::zeroed() }, out)
}

/// Fills `out` with 1 with the given probability (to 32 bits), else 0.
///
/// # Shapes
/// `out` any shape, contiguous.
/// # Types
/// Any.
/// # Errors
/// `Shape` unless `out` is contiguous and `0 <= probability <= 1`.
pub fn bernoulli(stream: &Stream, seed: Seed, probability: f64, out: ViewMut<'_>) -> Result<()> {
    if !(0.0..=1.0).contains(&probability) {
        return Err(shape(OP, "probability", "0 to 1", probability));
    }
    let threshold = (probability * 4_294_967_296.0).round() as u64;
    fill(stream, Draw::Bernoulli, seed, RandomArgs { threshold, ..RandomArgs::zeroed() }, out)
}

fn fill(stream: &Stream, draw: Draw, seed: Seed, parameters: RandomArgs, out: ViewMut<'_>) -> Result<()> {
    family::on_device(OP, "out", stream, &out)?;
    if !out.layout().is_contiguous() {
        return Err(shape(OP, "out", "contiguous", format!("strides {:?}", out.layout().strides())));
    }
    if out.is_empty() {
        return Ok(());
    }
    static SOURCES: Sources<RandomKey> = Sources::new();
    let key = RandomKey { dtype: out.dtype(), draw };
    let source = SOURCES.get(key, source);
    let count = out.len();
    let replay = stream.replay_address().unwrap_or(0);
    let per_group = BLOCK * key.per_lane();
    // Every launch starts at a whole block of the generator, whose number it adds.
    for first in (0..count).step_by(GROUPS_MAX * per_group) {
        let args = RandomArgs {
            out: out.device_address(),
            seed: seed.seed,
            offset: seed.offset,
            count: count as u64,
            first_block: (first / key.per_lane()) as u64,
            replay,
            ..parameters
        };
        let grid = [(count - first).div_ceil(per_group).min(GROUPS_MAX), 1, 1];
        // SAFETY:
        // - `RandomArgs` is the twin of the kernel's struct, sizes asserted on both sides; the kernel writes elements below
        //   `count` of a contiguous view, and reads the word of a graph that records this launch.
        // - It writes `out` only.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, "random_fill"), grid, [BLOCK, 1, 1]).run(&args, &[out.buffer()])?
        };
    }
    Ok(())
}

/// The distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Draw {
    Uniform,
    Normal,
    Bernoulli,
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RandomKey {
    pub dtype: DType,
    pub draw: Draw,
}

impl RandomKey {
    /// Elements that one block of the generator makes.
    fn per_lane(self) -> usize {
        if self.dtype.size_bytes() == 8 && self.draw != Draw::Bernoulli { 2 } else { 4 }
    }
}

/// The source of one variant.
pub(crate) fn source(key: RandomKey) -> Source {
    let class = match (key.dtype, key.dtype.size_bytes()) {
        (DType::F32 | DType::F16 | DType::BF16, _) => "0",
        (DType::F64, _) => "1",
        (_, 8) => "3",
        (_, _) => "2",
    };
    let kind = match key.draw {
        Draw::Uniform => "0",
        Draw::Normal => "1",
        Draw::Bernoulli => "2",
    };
    let defines = [("RANDOM_TYPE", c_type(key.dtype)), ("RANDOM_KIND", kind), ("RANDOM_CLASS", class)];
    Source::new("random", include_str!("random.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let draws = [Draw::Uniform, Draw::Normal, Draw::Bernoulli].into_iter();
    let draws = draws.filter(move |&draw| draw == Draw::Bernoulli || dtype != DType::Bool);
    draws.map(move |draw| (OP, source(RandomKey { dtype, draw })))
}

/// `RandomArgs` of `random.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RandomArgs {
    out: u64,
    seed: u64,
    offset: u64,
    count: u64,
    first_block: u64,
    a: f64,
    b: f64,
    low: i64,
    range: u64,
    threshold: u64,
    /// Where a replayed graph finds what to add to `offset`; 0 for nowhere.
    replay: u64,
}
const _: () = assert!(size_of::<RandomArgs>() == 88);

#[cfg(test)]
mod tests;
