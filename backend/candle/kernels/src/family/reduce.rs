//! Kernels of rows as graphs: reductions as Candle defines them, softmax, norms.

use rocfire_fusion::{Compare, Draft, Graph, Reduce, Unary};
use rocfire_hal::DType;
use rocfire_kernels::norm::{NormKind, norm_graph};
use rocfire_kernels::softmax::softmax_graph;

use super::Words;
use crate::table::{Entry, Family};

/// The graph of an entry whose kernel looks at whole rows, without weights for a norm that `is_bare`; `None` for any other kernel.
pub(super) fn graph(entry: &'static Entry, is_bare: bool) -> Option<Graph> {
    let words = Words(&entry.words);
    let of = words.dtype_of_last()?;
    let with = !is_bare;
    Some(match entry.family {
        Family::Softmax => softmax_graph(of),
        Family::RmsNorm => norm_graph(NormKind::Rms, of, with, false),
        Family::LayerNorm => norm_graph(NormKind::Layer, of, with, with),
        Family::SumSmall => reduction("sum", of),
        Family::Reduce | Family::Argument => reduction(words.word(0), of),
        _ => return None,
    })
}

/// The graph of a reduction. NaN counts as on Candle's CPU device: where a line begins with it, the extreme is NaN and its index 0;
/// elsewhere it is passed over. So extremes of floats take the first element of each line as another input.
fn reduction(word: &str, of: DType) -> Graph {
    let op = match word {
        "sum" => Reduce::Sum,
        "max" | "argmax" => Reduce::Max,
        _ => Reduce::Min,
    };
    let is_place = word.starts_with("arg");
    Draft::graph("candle_reduce", |g| {
        let mut x = g.input(of);
        let mut first = None;
        if of.is_float() && op != Reduce::Sum {
            first = Some(g.row_input(of));
            let least = if op == Reduce::Max { -f64::INFINITY } else { f64::INFINITY };
            x = x.unary(Unary::IsNan).choose(x.number(least), x);
        }
        let mut result = x.reduce(op);
        if is_place {
            // The index of the first element that equals the extreme.
            let here = g.index(0);
            result = x.is(Compare::Eq, result).choose(here, here.number(i64::MAX)).reduce(Reduce::Min);
        }
        if let Some(first) = first {
            let given = if is_place { result.number(0) } else { first };
            result = first.unary(Unary::IsNan).choose(given, result);
        }
        if is_place { result.cast(DType::U32) } else { result }
    })
}
