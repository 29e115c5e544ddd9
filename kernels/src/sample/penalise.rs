//! `penalise`: the launcher of `penalise.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{for_each, matrix, rows_of};
use crate::Result;
use crate::family::{self, BLOCK, BOX_LIMIT, FastDiv, KernelLaunch, Sources, c_type, shape};

const OP: &str = "penalise";

/// Tokens of each row whose logits change, and by what. What has one element for each row may have any stride, 0 for one for all.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Penalties<'a> {
    /// `[rows, listed]`, i32: a token once in a row, those that were read and those that were written; what is outside the
    /// vocabulary, such as -1, is passed over.
    pub tokens: View<'a>,
    /// How often each was written, `[rows, listed]`, i32: 0 if not given, for what was only read.
    pub counts: Option<View<'a>>,
    /// What is added to each, `[rows, listed]`, f32.
    pub biases: Option<View<'a>>,
    /// What a logit above 0 is divided by, and another multiplied by, `[rows]`, f32.
    pub repetition: Option<View<'a>>,
    /// What is taken off for each time that a token was written, `[rows]`, f32.
    pub frequency: Option<View<'a>>,
    /// What is taken off for a token that was written, `[rows]`, f32.
    pub presence: Option<View<'a>>,
}

impl<'a> Penalties<'a> {
    /// Of these tokens, nothing yet.
    pub fn new(tokens: View<'a>) -> Penalties<'a> {
        Penalties { tokens, counts: None, biases: None, repetition: None, frequency: None, presence: None }
    }
}

/// Changes the logits of listed tokens: the repetition penalty, then those of frequency and presence, then the bias.
///
/// # Shapes
/// `x`: `[rows, vocabulary]`, rows contiguous, at any distance; the others as [`Penalties`] says.
/// # Types
/// `x` f32, f16 or bf16.
/// # Numerics
/// In f32 with one rounding. Of a token that a row lists twice, either change may be made, or both.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ entries or more; `Unsupported` for another type of `x`.
pub fn penalise(stream: &Stream, x: ViewMut<'_>, penalties: &Penalties<'_>) -> Result<()> {
    let [rows, count] = rows_of(OP, "x", stream, &x)?;
    family::writable(OP, "x", &x)?;
    let listed = penalties.tokens.shape().get(1).copied().unwrap_or(0);
    if count >= BOX_LIMIT || rows * listed >= BOX_LIMIT {
        return Err(shape(OP, "tokens", format!("fewer than {BOX_LIMIT} entries, and tokens"), rows * listed));
    }
    let entries = |arg, view: Option<View<'_>>, dtype| {
        if let Some(view) = &view {
            family::disjoint(OP, arg, &x, view)?;
        }
        matrix(OP, arg, stream, view, [rows, listed], &[dtype])
    };
    let factors = |arg, view: Option<View<'_>>| {
        if let Some(view) = &view {
            family::disjoint(OP, arg, &x, view)?;
        }
        for_each(OP, arg, stream, view, rows, &[DType::F32])
    };
    let (tokens, token_stride) = entries("tokens", Some(penalties.tokens), DType::I32)?;
    let (counts, count_stride) = entries("counts", penalties.counts, DType::I32)?;
    let (biases, bias_stride) = entries("biases", penalties.biases, DType::F32)?;
    let (repetitions, repetition_stride) = factors("repetition", penalties.repetition)?;
    let (frequencies, frequency_stride) = factors("frequency", penalties.frequency)?;
    let (presences, presence_stride) = factors("presence", penalties.presence)?;
    if rows * listed == 0 {
        return Ok(());
    }
    static SOURCES: Sources<DType> = Sources::new();
    let source = SOURCES.get(x.dtype(), source);
    let args = PenaliseArgs {
        x: x.device_address(),
        tokens,
        counts,
        biases,
        repetitions,
        frequencies,
        presences,
        x_stride: x.layout().strides()[0],
        token_stride,
        count_stride,
        bias_stride,
        repetition_stride,
        frequency_stride,
        presence_stride,
        count: count as u32,
        entries: (rows * listed) as u32,
        listed: FastDiv::new(listed),
        padding: 0,
    };
    let (grid, block) = ([(rows * listed).div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
    // SAFETY:
    // - `PenaliseArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads `listed` entries and one
    //   factor of each row, and touches elements of `x` below `count` of it: all inside checked views.
    // - It writes `x` only.
    unsafe { KernelLaunch::new(stream, &source, (OP, "penalise_entries"), grid, block).run(&args, &[x.buffer()]) }
}

/// The source of one type.
pub(crate) fn source(dtype: DType) -> Source {
    Source::new(OP, include_str!("penalise.hip"), &[("PENALISE_TYPE", c_type(dtype))])
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let is_there = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    is_there.then(|| (OP, source(dtype))).into_iter()
}

/// `PenaliseArgs` of `penalise.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PenaliseArgs {
    x: u64,
    tokens: u64,
    counts: u64,
    biases: u64,
    repetitions: u64,
    frequencies: u64,
    presences: u64,
    x_stride: i64,
    token_stride: i64,
    count_stride: i64,
    bias_stride: i64,
    repetition_stride: i64,
    frequency_stride: i64,
    presence_stride: i64,
    count: u32,
    entries: u32,
    listed: FastDiv,
    padding: u32,
}
const _: () = assert!(size_of::<PenaliseArgs>() == 136);

#[cfg(test)]
mod tests;
