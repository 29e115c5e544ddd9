//! `dequantise`: the launcher of `dequantise.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::format::{CodeLayout, Format, ScaleKind, Scales};
use super::quantise::check;
use super::walk::{CodeWalk, Span, walk};
use crate::Result;
use crate::family::{self, BLOCK, KernelLaunch, Sources, c_type};

const OP: &str = "dequantise";
/// Bytes that a lane writes at once, where neighbouring words have codes for as many: of more, lanes side by side would write apart.
const LANE_BYTES: usize = 16;

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
    let walk = walk(OP, &x, &words, layout, scales, LANE_BYTES / x.dtype().size_bytes())?;
    static SOURCES: Sources<DequantiseKey> = Sources::new();
    let key = DequantiseKey {
        x: x.dtype(),
        word: walk.word,
        words: walk.wide,
        per: walk.per,
        format: layout.format,
        axes: if walk.axes() > 2 { 0 } else { walk.axes() },
        vector: walk.vector,
        scale: scales.map_or(ScaleKind::F32, |scales| scales.kind),
        span: walk.span(scales),
    };
    let source = SOURCES.get(key, source);
    let args = DequantiseArgs {
        x: x.device_address(),
        words: words.device_address(),
        scales: scales.map_or(0, |scales| scales.view.device_address()),
        global: scales.and_then(|scales| scales.global).map_or(0, |global| global.device_address()),
        walk: walk.args,
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
    /// Words of a lane, and codes of all of them.
    pub words: usize,
    pub per: usize,
    pub format: Format,
    /// Of the walk, 0 for more than two.
    pub axes: usize,
    /// Whether elements of a lane lie side by side.
    pub vector: bool,
    pub scale: ScaleKind,
    pub span: Span,
}

/// The source of one variant.
pub(crate) fn source(key: DequantiseKey) -> Source {
    let [words, per, axes, kind] =
        [key.words, key.per, key.axes, key.scale.number() as usize].map(|number| number.to_string());
    let defines = [
        ("QUANT_X", c_type(key.x)),
        ("QUANT_WORD", c_type(key.word)),
        ("QUANT_WORDS", words.as_str()),
        ("QUANT_PER", per.as_str()),
        ("QUANT_FORMAT", key.format.number()),
        ("QUANT_AXES", axes.as_str()),
        ("QUANT_VECTOR", if key.vector { "1" } else { "0" }),
        ("QUANT_SCALE", c_type(key.scale.dtype())),
        ("QUANT_KIND", kind.as_str()),
        ("QUANT_SPAN", ["0", "1", "2"][key.span as usize]),
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
}
const _: () = assert!(size_of::<DequantiseArgs>() == 432);
