//! `softmax`, `log_softmax` and their gradients.

use rocfire_fusion::{Graph, Reduce, Unary};
use rocfire_hal::{DType, Layout, Stream, View, ViewMut};

use crate::Result;
use crate::family;
use crate::graphs::{self, Graphs, Maker, apart_or_same, float, same_shape};

/// `y = e^(x - max) / Σ e^(x - max)` along axis `dim`.
///
/// # Shapes
/// `x`, `y`: the same, any strides; `y` may be `x` itself.
/// # Types
/// `x` of any float, `y` of the same.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store. A row of nothing but minus infinity, or with a NaN, is NaN.
/// # Errors
/// `Shape` for shapes, types or memory that do not fit; `Unsupported` for what is no float; errors of compilation and launch.
pub fn softmax(stream: &Stream, x: View<'_>, dim: usize, y: ViewMut<'_>) -> Result<()> {
    rows(stream, Kind::Softmax, x, None, dim, y)
}

/// What [`softmax`] computes, over rows of `dtype` along the last axis: for who joins it to other graphs.
pub fn softmax_graph(dtype: DType) -> Graph {
    graph((Kind::Softmax, dtype))
}

/// The gradient of [`softmax`] from its result: `dx = y · (dy - Σ dy y)`.
///
/// # Errors
/// As [`softmax`], which shapes, types and numerics are those of, too.
pub fn softmax_backward(stream: &Stream, y: View<'_>, dy: View<'_>, dim: usize, dx: ViewMut<'_>) -> Result<()> {
    rows(stream, Kind::SoftmaxBackward, y, Some(dy), dim, dx)
}

/// `y = x - max - ln Σ e^(x - max)` along axis `dim`.
///
/// # Errors
/// As [`softmax`], which shapes, types and numerics are those of, too.
pub fn log_softmax(stream: &Stream, x: View<'_>, dim: usize, y: ViewMut<'_>) -> Result<()> {
    rows(stream, Kind::LogSoftmax, x, None, dim, y)
}

/// The gradient of [`log_softmax`] from its result: `dx = dy - e^y Σ dy`.
///
/// # Errors
/// As [`softmax`], which shapes, types and numerics are those of, too.
pub fn log_softmax_backward(stream: &Stream, y: View<'_>, dy: View<'_>, dim: usize, dx: ViewMut<'_>) -> Result<()> {
    rows(stream, Kind::LogSoftmaxBackward, y, Some(dy), dim, dx)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Softmax,
    LogSoftmax,
    SoftmaxBackward,
    LogSoftmaxBackward,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Softmax => "softmax",
            Kind::LogSoftmax => "log_softmax",
            Kind::SoftmaxBackward => "softmax_backward",
            Kind::LogSoftmaxBackward => "log_softmax_backward",
        }
    }

    /// The arguments' names: first input, second, output.
    const fn arguments(self) -> [&'static str; 3] {
        match self {
            Kind::Softmax | Kind::LogSoftmax => ["x", "", "y"],
            Kind::SoftmaxBackward | Kind::LogSoftmaxBackward => ["y", "dy", "dx"],
        }
    }
}

fn rows(
    stream: &Stream,
    kind: Kind,
    first: View<'_>,
    second: Option<View<'_>>,
    dim: usize,
    output: ViewMut<'_>,
) -> Result<()> {
    let (op, [first_arg, second_arg, output_arg]) = (kind.name(), kind.arguments());
    float(op, first_arg, stream, &first)?;
    family::axis(op, dim, first.layout().rank())?;
    for (arg, view) in [(second_arg, second.as_ref()), (output_arg, Some(&*output))] {
        let Some(view) = view else { continue };
        family::on_device(op, arg, stream, view)?;
        family::same_dtype(op, arg, view, first.dtype())?;
        same_shape(op, arg, view, first.shape())?;
    }
    family::writable(op, output_arg, &output)?;
    apart_or_same(op, first_arg, &output, &first)?;
    if let Some(second) = &second {
        apart_or_same(op, second_arg, &output, second)?;
    }
    static GRAPHS: Graphs<(Kind, DType)> = Graphs::new();
    let graph = GRAPHS.get((kind, first.dtype()), graph);
    let last = |layout: &Layout| layout.swap(dim, layout.rank() - 1);
    let turned = first.with_layout(last(first.layout())?)?;
    let layout = last(output.layout())?;
    let output = output.with_layout(layout)?;
    match second {
        Some(second) => {
            let second = second.with_layout(last(second.layout())?)?;
            graphs::run(stream, &graph, turned.shape(), &[turned, second], &[], &mut [output])
        }
        None => graphs::run(stream, &graph, turned.shape(), &[turned], &[], &mut [output]),
    }
}

fn graph((kind, dtype): (Kind, DType)) -> Graph {
    let make = Maker::of(kind.name(), dtype);
    let x = make.input(dtype);
    let exponentials = || {
        let shifted = x - x.reduce(Reduce::Max);
        let exp = make.exp(shifted);
        (shifted, exp, exp.reduce(Reduce::Sum))
    };
    let y = match kind {
        Kind::Softmax => {
            let (_, exp, total) = exponentials();
            make.div_by(exp, total)
        }
        Kind::LogSoftmax => {
            let (shifted, _, total) = exponentials();
            shifted - total.unary(Unary::Log)
        }
        Kind::SoftmaxBackward => {
            let dy = make.input(dtype);
            x * (dy - (dy * x).reduce(Reduce::Sum))
        }
        Kind::LogSoftmaxBackward => {
            let dy = make.input(dtype);
            let sum = dy.reduce(Reduce::Sum);
            dy - make.exp(x) * sum
        }
    };
    make.output(y, dtype);
    make.finish()
}
