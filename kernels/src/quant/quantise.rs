//! `quantise`: the launcher of `quantise.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::format::{CodeLayout, Format, Rounding, Scales};
use super::walk::{CodeWalk, walk};
use crate::Result;
use crate::family::{self, BLOCK, KernelLaunch, Sources, c_type, shape};

const OP: &str = "quantise";

/// How [`quantise`] makes codes.
#[derive(Clone, Copy, Debug)]
pub struct Coding<'a> {
    /// What a code means, and how codes lie in words of u8 or u32.
    pub layout: &'a CodeLayout,
    /// `None` stands for a scale of 1.
    pub scales: Option<&'a Scales<'a>>,
    /// Of whole numbers, and whether scales divide.
    pub rounding: Rounding,
    /// Whether whole numbers keep to a range that is the same on both sides of 0.
    pub symmetric: bool,
}

/// Codes of `x` for given scales: `words = encode(x · (1 / (global · scale)))`, or of the quotient as [`Coding`] says.
///
/// # Shapes
/// `x` any; `words` what the layout makes of it. Any strides.
/// # Numerics
/// `x` and scales as f32. Whole numbers as [`Coding`] says, clamped to the format's range; small floats to nearest, ties to even, saturating. NaN becomes NaN where the format has one, else 0.
/// Bits beyond the packed axis are 0.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ words or more; `Unsupported` for an `x` that is no float.
pub fn quantise(stream: &Stream, x: View<'_>, coding: &Coding<'_>, words: ViewMut<'_>) -> Result<()> {
    let Coding { layout, scales, rounding, symmetric } = *coding;
    check(OP, stream, &x, &words, layout, scales)?;
    family::writable(OP, "words", &words)?;
    family::disjoint(OP, "x", &words, &x)?;
    if x.is_empty() {
        return Ok(());
    }
    let walk = walk(OP, &x, &words, layout, scales, 0)?;
    static SOURCES: Sources<QuantiseKey> = Sources::new();
    let key = QuantiseKey { x: x.dtype(), word: walk.word, per: walk.per, format: layout.format, rounding };
    let source = SOURCES.get(key, source);
    let [least, most] = layout.format.range(symmetric);
    let args = QuantiseArgs {
        x: x.device_address(),
        words: words.device_address(),
        scales: scales.map_or(0, |scales| scales.view.device_address()),
        global: scales.and_then(|scales| scales.global).map_or(0, |global| global.device_address()),
        walk: walk.args,
        least,
        most,
        vector: u32::from(walk.vector),
        padding: 0,
    };
    let (grid, block) = ([walk.count.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
    // SAFETY:
    // - `QuantiseArgs` is the twin of the kernel's struct, sizes asserted on both sides. The walk visits the elements of `x`,
    //   the words of `words` and the grid of `scales`, whose shapes were checked against each other.
    // - It writes `words` only.
    unsafe { KernelLaunch::new(stream, &source, (OP, "quantise"), grid, block).run(&args, &[words.buffer()]) }
}

/// What both directions ask of their arguments.
pub(super) fn check(
    op: &'static str,
    stream: &Stream,
    x: &View<'_>,
    words: &View<'_>,
    layout: &CodeLayout,
    scales: Option<&Scales<'_>>,
) -> Result<()> {
    family::on_device(op, "x", stream, x)?;
    family::on_device(op, "words", stream, words)?;
    if !x.dtype().is_float() {
        return Err(Error::Unsupported { op, dtype: x.dtype(), arch: x.arch() }.into());
    }
    layout.check(op, words, x.shape())?;
    let Some(scales) = scales else { return Ok(()) };
    family::on_device(op, "scales", stream, &scales.view)?;
    if let Some(global) = &scales.global {
        family::on_device(op, "global", stream, global)?;
    }
    if x.is_empty() {
        return Ok(());
    }
    if scales.view.is_empty() {
        return Err(shape(op, "scales", "at least one", 0));
    }
    scales.check(op, x.shape())
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuantiseKey {
    pub x: DType,
    pub word: DType,
    pub per: usize,
    pub format: Format,
    pub rounding: Rounding,
}

/// The source of one variant.
pub(crate) fn source(key: QuantiseKey) -> Source {
    let per = key.per.to_string();
    let defines = [
        ("QUANT_X", c_type(key.x)),
        ("QUANT_WORD", c_type(key.word)),
        ("QUANT_PER", per.as_str()),
        ("QUANT_FORMAT", key.format.number()),
        ("QUANT_ROUND", key.rounding.c_type()),
        ("QUANT_DIVIDED", if key.rounding == Rounding::EvenQuotient { "1" } else { "0" }),
    ];
    Source::new("quantise", include_str!("quantise.hip"), &defines)
}

/// `QuantiseArgs` of `quantise.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct QuantiseArgs {
    x: u64,
    words: u64,
    scales: u64,
    global: u64,
    walk: CodeWalk,
    least: f32,
    most: f32,
    vector: u32,
    padding: u32,
}
const _: () = assert!(size_of::<QuantiseArgs>() == 448);
