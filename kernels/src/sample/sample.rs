//! `sample`: the launchers of `sample.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, View, ViewMut};

use super::{THREADS, for_each, matrix, rows_of};
use crate::Result;
use crate::family::{self, BOX_LIMIT, KernelLaunch, Sources, c_type, shape};

const OP: &str = "sample";
/// Tokens of a row: a bin counts them in 20 bits.
const TOKENS_LIMIT: usize = 1 << 20;
/// Tokens of a word of the mask.
const WORD: usize = 32;

/// What rows hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Logits, whose softmax is the distribution.
    #[default]
    Logits,
    /// Probabilities, which need not add up to 1; what is negative counts as 0.
    Probabilities,
}

/// Who decides.
#[derive(Clone, Copy, Debug, Default)]
pub enum Draw<'a> {
    /// Nobody: the first of the largest.
    #[default]
    Greedy,
    /// Philox, a stream of random numbers for each row.
    Seeds {
        /// The key of each row, `[rows]`, i64 or u64.
        seeds: View<'a>,
        /// Which draw under it, `[rows]`, i64 or u64: the caller advances it for every token.
        offsets: View<'a>,
    },
    /// Numbers of the exponential distribution, `[rows, tokens]`, f32.
    Noise(View<'a>),
}

/// What is left of each row, and who draws. What has one element for each row may have any stride, 0 for one for all.
///
/// A token stays if fewer than `top_k` tokens are strictly likelier, if those that are have less than `top_p` of the sum of all
/// that the mask leaves, and if it is at least `min_p` times as likely as the likeliest: all three by the same distribution. The
/// likeliest stays always, and its equals.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SampleParams<'a> {
    /// What rows hold.
    pub form: Form,
    /// What logits are divided by, f32: 1 if not given, 10⁻⁵ at least; a row is greedy where it is not above 0.
    pub temperature: Option<View<'a>>,
    /// i32; what is not above 0 keeps all.
    pub top_k: Option<View<'a>>,
    /// f32; what is not below 1 keeps all.
    pub top_p: Option<View<'a>>,
    /// f32; what is not above 0 keeps all.
    pub min_p: Option<View<'a>>,
    /// Bits, 1 for a token that may be taken, `[rows, tokens / 32 rounded up]`, i32 or u32: token `n` is bit `n % 32` of word
    /// `n / 32`.
    pub mask: Option<View<'a>>,
    /// Which row of the numbers each row reads, i32: several may read one. If not given, its own.
    pub rows: Option<View<'a>>,
    /// Who draws.
    pub draw: Draw<'a>,
}

/// `tokens[r]` = a token drawn from what the parameters leave of row `r`.
///
/// # Shapes
/// `x`: `[rows, vocabulary]` of fewer than 2²⁰, rows contiguous, at any distance; `tokens`: `[rows]`, or as many as `params.rows`.
/// # Types
/// `x` f32, f16 or bf16, probabilities f32; `tokens` i32, i64 or u32.
/// # Numerics
/// A token is drawn by the largest `p / e`, `e` of the exponential distribution: its own word of Philox's block, so that the result
/// depends on seed, offset and the row alone. NaN and what the mask leaves out are not taken; where nothing is left, and for a row of
/// `params.rows` that there is not, the token is 0. Of equals the first is taken.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, an empty vocabulary, a temperature for probabilities; `Unsupported` for
/// another type of `x`.
pub fn sample(stream: &Stream, x: View<'_>, params: &SampleParams<'_>, tokens: ViewMut<'_>) -> Result<()> {
    let rows = tokens.shape().first().copied().unwrap_or(0);
    let mut args = check(stream, &x, params, rows)?;
    let indices = [DType::I32, DType::I64, DType::U32];
    (args.tokens, args.token_stride) = for_each(OP, "tokens", stream, Some(tokens.view()), rows, &indices)?;
    family::writable(OP, "tokens", &tokens)?;
    family::disjoint(OP, "tokens", &tokens, &x)?;
    // A token has the same bits with and without a sign.
    let index = if tokens.dtype() == DType::I64 { DType::I64 } else { DType::I32 };
    let key = SampleKey { dtype: x.dtype(), form: params.form, writes: Writes::Tokens(index) };
    launch(stream, key, rows, &args, &tokens)
}

/// `out[r]` = the distribution that the parameters leave of row `r`: probabilities of what stays, which add up to 1, and zeros. Of a
/// greedy row its token has 1. Who draws makes no difference.
///
/// # Shapes
/// `x` as for [`sample`]; `out`: `[rows, vocabulary]`, f32, rows contiguous.
/// # Numerics
/// As there; zeros where nothing is left.
/// # Errors
/// As there.
pub fn probabilities(stream: &Stream, x: View<'_>, params: &SampleParams<'_>, out: ViewMut<'_>) -> Result<()> {
    let rows = out.shape().first().copied().unwrap_or(0);
    let mut args = check(stream, &x, params, rows)?;
    let expected = [rows, args.count as usize];
    (args.out, args.out_stride) = matrix(OP, "out", stream, Some(out.view()), expected, &[DType::F32])?;
    family::writable(OP, "out", &out)?;
    family::disjoint(OP, "out", &out, &x)?;
    let key = SampleKey { dtype: x.dtype(), form: params.form, writes: Writes::Distributions };
    launch(stream, key, rows, &args, &out)
}

/// Checks what goes in.
fn check(stream: &Stream, x: &View<'_>, params: &SampleParams<'_>, rows: usize) -> Result<SampleArgs> {
    let [x_rows, count] = rows_of(OP, "x", stream, x)?;
    if count == 0 || count >= TOKENS_LIMIT {
        return Err(shape(OP, "x", format!("rows of 1 to {} tokens", TOKENS_LIMIT - 1), count));
    }
    if x_rows >= BOX_LIMIT || rows >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} rows"), x_rows.max(rows)));
    }
    if params.rows.is_none() && x_rows != rows {
        return Err(shape(OP, "x", format!("{rows} rows, as the output"), x_rows));
    }
    if params.form == Form::Probabilities {
        family::same_dtype(OP, "x", x, DType::F32)?;
        if params.temperature.is_some() {
            return Err(shape(OP, "temperature", "none, where rows hold probabilities", "one"));
        }
    }
    let floats = |arg, view| for_each(OP, arg, stream, view, rows, &[DType::F32]);
    let ints = |arg, view| for_each(OP, arg, stream, view, rows, &[DType::I32]);
    let words = |arg, view| for_each(OP, arg, stream, view, rows, &[DType::I64, DType::U64]);
    let (temperatures, temperature_stride) = floats("temperature", params.temperature)?;
    let (top_ks, top_k_stride) = ints("top_k", params.top_k)?;
    let (top_ps, top_p_stride) = floats("top_p", params.top_p)?;
    let (min_ps, min_p_stride) = floats("min_p", params.min_p)?;
    let (rows_address, rows_stride) = ints("rows", params.rows)?;
    let bits = [DType::I32, DType::U32];
    let (mask, mask_stride) = matrix(OP, "mask", stream, params.mask, [rows, count.div_ceil(WORD)], &bits)?;
    let (seeds, offsets, noise) = match params.draw {
        Draw::Greedy => (None, None, None),
        Draw::Seeds { seeds, offsets } => (Some(seeds), Some(offsets), None),
        Draw::Noise(noise) => (None, None, Some(noise)),
    };
    let (seeds, seed_stride) = words("seeds", seeds)?;
    let (offsets, offset_stride) = words("offsets", offsets)?;
    let (noise, noise_stride) = matrix(OP, "noise", stream, noise, [rows, count], &[DType::F32])?;
    Ok(SampleArgs {
        x: x.device_address(),
        rows: rows_address,
        temperatures,
        top_ks,
        top_ps,
        min_ps,
        mask,
        seeds,
        offsets,
        noise,
        tokens: 0,
        out: 0,
        x_stride: x.layout().strides()[0],
        rows_stride,
        temperature_stride,
        top_k_stride,
        top_p_stride,
        min_p_stride,
        mask_stride,
        seed_stride,
        offset_stride,
        noise_stride,
        token_stride: 0,
        out_stride: 0,
        count: count as u32,
        x_rows: x_rows as u32,
    })
}

fn launch(stream: &Stream, key: SampleKey, rows: usize, args: &SampleArgs, out: &View<'_>) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    static SOURCES: Sources<SampleKey> = Sources::new();
    let source = SOURCES.get(key, source);
    let (grid, block) = ([rows, 1, 1], [THREADS, 1, 1]);
    // SAFETY:
    // - `SampleArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads `count` elements of rows of
    //   `x` below `x_rows`, and of what else is given one element, or one row, for each workgroup: all inside checked views.
    // - It writes a token, or a row of the distribution, of the one output.
    unsafe { KernelLaunch::new(stream, &source, (OP, "sample_rows"), grid, block).run(args, &[out.buffer()]) }
}

/// What a kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Writes {
    Tokens(DType),
    Distributions,
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SampleKey {
    pub dtype: DType,
    pub form: Form,
    pub writes: Writes,
}

/// The source of one variant.
pub(crate) fn source(key: SampleKey) -> Source {
    let (writes, index) = match key.writes {
        Writes::Tokens(dtype) => ("0", dtype),
        Writes::Distributions => ("1", DType::I32),
    };
    let form = match key.form {
        Form::Logits => "0",
        Form::Probabilities => "1",
    };
    let defines = [
        ("SAMPLE_TYPE", c_type(key.dtype)),
        ("SAMPLE_INDEX", c_type(index)),
        ("SAMPLE_FORM", form),
        ("SAMPLE_WRITES", writes),
    ];
    Source::new("sample", concat!(include_str!("select.h"), include_str!("sample.hip")), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let forms = [Form::Logits, Form::Probabilities].into_iter();
    let forms = forms.filter(move |&form| match form {
        Form::Logits => matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
        Form::Probabilities => dtype == DType::F32,
    });
    forms.flat_map(move |form| {
        let indices = [DType::I32, DType::I64].map(Writes::Tokens);
        let writes = indices.into_iter().chain([Writes::Distributions]);
        writes.map(move |writes| (OP, source(SampleKey { dtype, form, writes })))
    })
}

/// `SampleArgs` of `sample.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SampleArgs {
    x: u64,
    rows: u64,
    temperatures: u64,
    top_ks: u64,
    top_ps: u64,
    min_ps: u64,
    mask: u64,
    seeds: u64,
    offsets: u64,
    noise: u64,
    tokens: u64,
    out: u64,
    x_stride: i64,
    rows_stride: i64,
    temperature_stride: i64,
    top_k_stride: i64,
    top_p_stride: i64,
    min_p_stride: i64,
    mask_stride: i64,
    seed_stride: i64,
    offset_stride: i64,
    noise_stride: i64,
    token_stride: i64,
    out_stride: i64,
    count: u32,
    x_rows: u32,
}
const _: () = assert!(size_of::<SampleArgs>() == 200);

#[cfg(test)]
mod tests;
