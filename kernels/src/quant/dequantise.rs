//! `dequantise`: the launcher of `dequantise.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::format::{CodeLayout, Format, Scales};
use super::quantise::check;
use super::walk::{CodeWalk, walk};
use crate::Result;
use crate::family::{self, BLOCK, KernelLaunch, Sources, c_type};

const OP: &str = "dequantise";

/// The numbers that codes stand for: `x = global · scale · decode(words)`.
///
/// # Shapes
/// `x` any; `words` what `layout` makes of it, u8 or u32. Any strides. No `scales` stands for a scale of 1.
/// # Numerics
/// Products in f32, the two scales first; one rounding to the type of `x`.
/// # Errors
/// As [`quantise`](super::quantise).
pub fn dequantise(
    stream: &Stream,
    words: View<'_>,
    layout: &CodeLayout,
    scales: Option<&Scales<'_>>,
    x: ViewMut<'_>,
) -> Result<()> {
    check(OP, stream, &x, &words, layout, scales)?;
    family::writable(OP, "x", &x)?;
    family::disjoint(OP, "words", &x, &words)?;
    if x.is_empty() {
        return Ok(());
    }
    let walk = walk(OP, &x, &words, layout, scales)?;
    static SOURCES: Sources<DequantiseKey> = Sources::new();
    let key = DequantiseKey { x: x.dtype(), word: walk.word, per: walk.per, format: layout.format };
    let source = SOURCES.get(key, source);
    let args = DequantiseArgs {
        x: x.device_address(),
        words: words.device_address(),
        scales: scales.map_or(0, |scales| scales.view.device_address()),
        global: scales.and_then(|scales| scales.global).map_or(0, |global| global.device_address()),
        walk: walk.args,
        vector: u32::from(walk.vector),
        padding: 0,
    };
    let (grid, block) = ([walk.count.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
    // A profile shows by the shape whether a weight is written out.
    let work = Work { category: Category::Elementwise, shape: x.shape(), ..Work::default() };
    let args = bytemuck::bytes_of(&args);
    // SAFETY:
    // - `DequantiseArgs` is the twin of the kernel's struct, sizes asserted on both sides; what the walk visits was checked as
    //   for `quantise`.
    // - It writes `x` only.
    unsafe {
        KernelLaunch::new(stream, &source, (OP, "dequantise"), grid, block).with(0, work).run_bytes(args, &[x.buffer()])
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DequantiseKey {
    pub x: DType,
    pub word: DType,
    pub per: usize,
    pub format: Format,
}

/// The source of one variant.
pub(crate) fn source(key: DequantiseKey) -> Source {
    let per = key.per.to_string();
    let defines = [
        ("QUANT_X", c_type(key.x)),
        ("QUANT_WORD", c_type(key.word)),
        ("QUANT_PER", per.as_str()),
        ("QUANT_FORMAT", key.format.number()),
    ];
    Source::new("dequantise", include_str!("dequantise.hip"), &defines)
}

/// `DequantiseArgs` of `dequantise.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct DequantiseArgs {
    x: u64,
    words: u64,
    scales: u64,
    global: u64,
    walk: CodeWalk,
    vector: u32,
    padding: u32,
}
const _: () = assert!(size_of::<DequantiseArgs>() == 440);
