//! Kernels of rows as graphs: reductions as Candle defines them, softmax, norms.

use rocfire_fusion::{Compare, Graph, Reduce, Unary, Value};
use rocfire_hal::DType;
use rocfire_kernels::norm::{NormKind, norm_graph};
use rocfire_kernels::softmax::softmax_graph;

use super::Words;
use crate::table::{Entry, Family};

/// What the kernel of an entry computes; `None` for one of another kind. A norm that is bare has no weights.
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

/// NaN is as on Candle's CPU device: the extremes of a line that begins with it are NaN, and their place the first; elsewhere it is
/// passed over. So of floats the first element of each line is an input too.
fn reduction(word: &str, of: DType) -> Graph {
    let mut graph = Graph::new("candle_reduce");
    let g = &mut graph;
    let mut x = g.input(of);
    let op = match word {
        "sum" => Reduce::Sum,
        "max" | "argmax" => Reduce::Max,
        _ => Reduce::Min,
    };
    let mut first = None;
    if of.is_float() && op != Reduce::Sum {
        first = Some(g.row_input(of));
        let (is_nan, least) =
            (g.unary(Unary::IsNan, x), if op == Reduce::Max { -f64::INFINITY } else { f64::INFINITY });
        let least = g.constant(of, least);
        x = g.select(is_nan, least, x);
    }
    let mut result = g.reduce(op, x);
    let is_place = word.starts_with("arg");
    if is_place {
        result = place(g, x, result);
    }
    if let Some(first) = first {
        let is_nan = g.unary(Unary::IsNan, first);
        let given = if is_place { g.constant(DType::I64, 0) } else { first };
        result = g.select(is_nan, given, result);
    }
    let result = if is_place { g.cast(result, DType::U32) } else { result };
    g.output(result);
    graph
}

/// Where the first element of a line is that equals a number.
fn place(g: &mut Graph, x: Value, number: Value) -> Value {
    let (here, beyond) = (g.index(0), g.constant(DType::I64, i64::MAX));
    let is_it = g.compare(Compare::Eq, x, number);
    let found = g.select(is_it, here, beyond);
    g.reduce(Reduce::Min, found)
}
