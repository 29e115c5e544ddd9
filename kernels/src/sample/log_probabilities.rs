//! `log_probabilities`: the launcher of `log_probabilities.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{DType, Source, Stream, Tensor, View, ViewMut};

use super::top_k::{TopK, top_k};
use super::{THREADS, for_each, matrix, rows_of};
use crate::Result;
use crate::family::{self, BOX_LIMIT, KernelLaunch, Sources, c_type, shape};
use crate::sort::Order;

const OP: &str = "log_probabilities";

/// What is asked of each row: a token, the best, or both.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LogProbabilities<'a> {
    /// A token of each row, `[rows]`, i32, u32 or i64, and where its logarithm goes, `[rows]`, f32; one outside the row has -∞.
    pub chosen: Option<(View<'a>, ViewMut<'a>)>,
    /// One more than the tokens that are strictly likelier than that one, `[rows]`, i32; 0 of one outside the row.
    pub ranks: Option<ViewMut<'a>>,
    /// The likeliest, the best first: tokens, i32, and their logarithms, f32, `[rows, n]` with `n` from 1 to 2048.
    pub best: Option<(ViewMut<'a>, ViewMut<'a>)>,
}

/// Logarithms of the softmax of each row of logits, of the tokens that are asked for alone.
///
/// # Shapes
/// `x`: `[rows, vocabulary]`, rows contiguous, at any distance; the others as [`LogProbabilities`] says.
/// # Types
/// `x` f32, f16 or bf16.
/// # Numerics
/// Sums in f32. NaN has no share: its logarithm is -∞, and it is likelier than nothing. Of equals the first is better; places behind
/// a vocabulary of fewer than `n` have token -1 and -∞.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and where nothing is asked for; `Unsupported` for another type of `x`.
pub fn log_probabilities(stream: &Stream, x: View<'_>, asked: LogProbabilities<'_>) -> Result<()> {
    let [rows, count] = rows_of(OP, "x", stream, &x)?;
    if count == 0 || count >= BOX_LIMIT || rows >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("1 to {BOX_LIMIT} tokens and rows"), format!("[{rows}, {count}]")));
    }
    let LogProbabilities { chosen, ranks, best } = asked;
    let (tokens, chosen) = chosen.unzip();
    let (best_tokens, logs) = best.unzip();
    if tokens.is_none() && (best_tokens.is_none() || ranks.is_some()) {
        return Err(shape(OP, "chosen", "given where ranks are wanted, or the best are not", "none"));
    }
    let index = tokens.map_or(DType::I32, |tokens| if tokens.dtype() == DType::I64 { DType::I64 } else { DType::I32 });
    let indices = [DType::I32, DType::I64, DType::U32];
    let (token_address, token_stride) = for_each(OP, "chosen.tokens", stream, tokens, rows, &indices)?;
    let outputs = [("chosen.logs", &chosen), ("ranks", &ranks), ("best.tokens", &best_tokens), ("best.logs", &logs)];
    for (arg, output) in outputs {
        let Some(output) = output else { continue };
        family::writable(OP, arg, output)?;
        family::disjoint(OP, arg, output, &x)?;
    }
    let (chosen_address, chosen_stride) =
        for_each(OP, "chosen.logs", stream, chosen.as_ref().map(ViewMut::view), rows, &[DType::F32])?;
    let (rank_address, rank_stride) =
        for_each(OP, "ranks", stream, ranks.as_ref().map(ViewMut::view), rows, &[DType::I32])?;
    let n = best_tokens.as_ref().and_then(|tokens| tokens.shape().get(1).copied()).unwrap_or(0);
    let (log_address, log_stride) =
        matrix(OP, "best.logs", stream, logs.as_ref().map(ViewMut::view), [rows, n], &[DType::F32])?;
    if rows == 0 {
        return Ok(());
    }
    let numbers = match best_tokens {
        Some(tokens) => {
            let mut numbers = Tensor::empty(x.device(), &[rows, n], x.dtype())?;
            top_k(stream, x, &TopK::new(Order::Descending), tokens, Some(numbers.view_mut()))?;
            Some(numbers)
        }
        None => None,
    };
    static SOURCES: Sources<LogsKey> = Sources::new();
    let source = SOURCES.get(LogsKey { dtype: x.dtype(), index }, source);
    let args = LogProbabilitiesArgs {
        x: x.device_address(),
        tokens: token_address,
        best: numbers.as_ref().map_or(0, |numbers| numbers.view().device_address()),
        chosen: chosen_address,
        ranks: rank_address,
        logs: log_address,
        x_stride: x.layout().strides()[0],
        token_stride,
        best_stride: n as i64,
        chosen_stride,
        rank_stride,
        log_stride,
        count: count as u32,
        n: n as u32,
    };
    let outputs = [chosen.as_ref(), ranks.as_ref(), logs.as_ref()].map(|output| output.map(|view| view.buffer()));
    let any = outputs.into_iter().flatten().next().expect("an output is there, as checked");
    let written = outputs.map(|output| output.unwrap_or(any));
    let (grid, block) = ([rows, 1, 1], [THREADS, 1, 1]);
    // SAFETY:
    // - `LogProbabilitiesArgs` is the twin of the kernel's struct, sizes asserted on both sides. The kernel reads rows of `x`, a
    //   token of each and `n` numbers made for each: all inside checked views and the tensor of `numbers`. It follows no token
    //   outside its row.
    // - It writes what of the three outputs is given.
    unsafe { KernelLaunch::new(stream, &source, (OP, "log_probabilities_rows"), grid, block).run(&args, &written) }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LogsKey {
    pub dtype: DType,
    pub index: DType,
}

/// The source of one variant.
pub(crate) fn source(key: LogsKey) -> Source {
    let defines = [("LOGS_TYPE", c_type(key.dtype)), ("LOGS_INDEX", c_type(key.index))];
    Source::new(OP, concat!(include_str!("select.h"), include_str!("log_probabilities.hip")), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let indices = [DType::I32, DType::I64].into_iter();
    let indices = indices.filter(move |_| matches!(dtype, DType::F32 | DType::F16 | DType::BF16));
    indices.map(move |index| (OP, source(LogsKey { dtype, index })))
}

/// `LogProbabilitiesArgs` of `log_probabilities.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LogProbabilitiesArgs {
    x: u64,
    tokens: u64,
    best: u64,
    chosen: u64,
    ranks: u64,
    logs: u64,
    x_stride: i64,
    token_stride: i64,
    best_stride: i64,
    chosen_stride: i64,
    rank_stride: i64,
    log_stride: i64,
    count: u32,
    n: u32,
}
const _: () = assert!(size_of::<LogProbabilitiesArgs>() == 104);

#[cfg(test)]
mod tests;
