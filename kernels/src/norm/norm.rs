//! `norm`: RMSNorm and LayerNorm of rows.

use rocfire_fusion::{Graph, Reduce, Scalar, Term, Unary};
use rocfire_hal::{DType, Stream, View, ViewMut};

use crate::Result;
use crate::family::{self, shape};
use crate::gate::Activation;
use crate::graphs::{self, Graphs, Inputs, Maker, apart_or_same, columns, float, same_shape, wide};

const OP: &str = "norm";

/// What a row is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// The root of the mean of its squares.
    Rms,
    /// The standard deviation, after its mean is taken off.
    Layer,
}

/// What is asked for besides `x`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NormParams<'a> {
    /// What a row is divided by.
    pub kind: NormKind,
    /// Added to the mean square, or the variance, under the root.
    pub epsilon: f64,
    /// Factors of the columns, `[cols]`, any float.
    pub weight: Option<View<'a>>,
    /// Whether the factors are `1 + weight`, as Gemma has it.
    pub one_plus: bool,
    /// Added to the columns, `[cols]`, any float.
    pub bias: Option<View<'a>>,
    /// Added to `x` before all else: of `x`'s shape and type.
    pub residual: Option<View<'a>>,
    /// What the result is multiplied by: an activation of a tensor of `x`'s shape and type.
    pub gate: Option<(Activation, View<'a>)>,
}

impl<'a> NormParams<'a> {
    /// A norm without weight, bias, residual and gate.
    pub fn new(kind: NormKind, epsilon: f64) -> NormParams<'a> {
        NormParams { kind, epsilon, weight: None, one_plus: false, bias: None, residual: None, gate: None }
    }
}

/// `y = (s - mean) / √(variance + ε) · weight + bias`, and `· activation(gate)`, where `s = x + residual`; for
/// [`NormKind::Rms`] the mean is taken for 0.
///
/// # Shapes
/// `x`, `y`, `sum`: `[.., cols]`, any strides; the others as [`NormParams`] says. `y` and `sum` may be `x` or the residual
/// themselves. Any number of columns.
/// # Types
/// `x` of any float, `y` and `sum` of the same.
/// # Numerics
/// `s` is rounded to its type first, as if it had been stored; all else in f32 (f64 for f64) with one rounding at the store. The
/// order of sums is a function of the number of columns.
/// # Errors
/// `Shape` for shapes, types or memory that do not fit; `Unsupported` for what is no float; errors of compilation and launch.
pub fn norm(
    stream: &Stream,
    x: View<'_>,
    params: &NormParams<'_>,
    y: ViewMut<'_>,
    sum: Option<ViewMut<'_>>,
) -> Result<()> {
    check(OP, stream, &x, params)?;
    for (arg, output) in [("y", Some(&y)), ("sum", sum.as_ref())] {
        let Some(output) = output else { continue };
        check_output(OP, arg, stream, output, &x, params)?;
    }
    if let Some(sum) = &sum {
        family::disjoint(OP, "sum", &y, sum)?;
    }
    static GRAPHS: Graphs<NormKey> = Graphs::new();
    let key = NormKey::new(&x, params, sum.is_some());
    let graph = GRAPHS.get(key, graph);
    let mut inputs = Inputs::<5>::new(x);
    inputs.push(params.residual);
    inputs.push(params.weight);
    inputs.push(params.bias);
    inputs.push(params.gate.map(|(_, gate)| gate));
    let scalars = [Scalar::Float(params.epsilon)];
    match sum {
        Some(sum) => graphs::run(stream, &graph, x.shape(), inputs.views(), &scalars, &mut [y, sum]),
        None => graphs::run(stream, &graph, x.shape(), inputs.views(), &scalars, &mut [y]),
    }
}

/// What [`norm`] computes, over rows of `dtype` along the last axis, with inputs `x`, weight and bias and the scalar ε: for who joins
/// it to other graphs.
pub fn norm_graph(kind: NormKind, dtype: DType, weight: bool, bias: bool) -> Graph {
    let of = |has: bool| has.then_some(dtype);
    let (weight, bias) = (of(weight), of(bias));
    graph(NormKey { kind, x: dtype, weight, one_plus: false, bias, residual: false, gate: None, sum: false })
}

/// Checks `x` and what the parameters hold.
pub(crate) fn check(op: &'static str, stream: &Stream, x: &View<'_>, params: &NormParams<'_>) -> Result<()> {
    float(op, "x", stream, x)?;
    let cols = columns(op, "x", x)?;
    for (arg, view) in [("weight", &params.weight), ("bias", &params.bias)] {
        if let Some(view) = view {
            float(op, arg, stream, view)?;
            same_shape(op, arg, view, &[cols])?;
        }
    }
    let gate = params.gate.map(|(_, gate)| gate);
    for (arg, view) in [("residual", &params.residual), ("gate", &gate)] {
        if let Some(view) = view {
            family::on_device(op, arg, stream, view)?;
            family::same_dtype(op, arg, view, x.dtype())?;
            same_shape(op, arg, view, x.shape())?;
        }
    }
    if params.one_plus && params.weight.is_none() {
        return Err(shape(op, "weight", "a weight to add 1 to", "none"));
    }
    if params.epsilon.is_nan() || params.epsilon < 0.0 {
        return Err(shape(op, "epsilon", "a number that is not negative", params.epsilon));
    }
    Ok(())
}

/// Checks an output of `x`'s shape and type against all that is read.
pub(crate) fn check_output(
    op: &'static str,
    arg: &'static str,
    stream: &Stream,
    output: &View<'_>,
    x: &View<'_>,
    params: &NormParams<'_>,
) -> Result<()> {
    family::on_device(op, arg, stream, output)?;
    family::same_dtype(op, arg, output, x.dtype())?;
    same_shape(op, arg, output, x.shape())?;
    family::writable(op, arg, output)?;
    apart_or_same(op, "x", output, x)?;
    for (arg, view) in [("residual", params.residual), ("gate", params.gate.map(|(_, gate)| gate))] {
        if let Some(view) = view {
            apart_or_same(op, arg, output, &view)?;
        }
    }
    for (arg, view) in [("weight", params.weight), ("bias", params.bias)] {
        if let Some(view) = view {
            family::disjoint(op, arg, output, &view)?;
        }
    }
    Ok(())
}

/// What varies in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NormKey {
    kind: NormKind,
    x: DType,
    weight: Option<DType>,
    one_plus: bool,
    bias: Option<DType>,
    residual: bool,
    gate: Option<Activation>,
    sum: bool,
}

impl NormKey {
    fn new(x: &View<'_>, params: &NormParams<'_>, sum: bool) -> NormKey {
        NormKey {
            kind: params.kind,
            x: x.dtype(),
            weight: params.weight.map(|view| view.dtype()),
            one_plus: params.one_plus,
            bias: params.bias.map(|view| view.dtype()),
            residual: params.residual.is_some(),
            gate: params.gate.map(|(activation, _)| activation),
            sum,
        }
    }
}

fn graph(key: NormKey) -> Graph {
    let make = Maker::of(OP, key.x);
    let mut x = make.input(key.x);
    let mut stored = None;
    if key.residual {
        let rounded = (x + make.input(key.x)).cast(key.x);
        stored = Some(rounded);
        x = rounded.cast(wide(key.x));
    }
    let weight = key.weight.map(|dtype| factor(&make, dtype, key.one_plus));
    let bias = key.bias.map(|dtype| make.input(dtype));
    let gate = key.gate.map(|activation| (activation, make.input(key.x)));
    let mut y = Normal::new(key.kind, x, make.scalar()).value;
    y = weight.map_or(y, |weight| y * weight);
    y = bias.map_or(y, |bias| y + bias);
    y = gate.map_or(y, |(activation, gate)| y * activation.value(make.precision, gate));
    make.output(y, key.x);
    if key.sum {
        make.output(stored.unwrap_or(x), key.x);
    }
    make.finish()
}

/// The factors of columns: the next input, or one more.
pub(super) fn factor(make: &Maker, dtype: DType, one_plus: bool) -> Term<'_> {
    let weight = make.input(dtype);
    if one_plus { 1.0 + weight } else { weight }
}

/// A row brought to size 1.
pub(super) struct Normal<'g> {
    /// `(x - mean) · inverse`.
    pub value: Term<'g>,
    /// One over the root, per row.
    pub inverse: Term<'g>,
    /// Per row, of [`NormKind::Layer`] only.
    pub mean: Option<Term<'g>>,
}

impl<'g> Normal<'g> {
    pub(super) fn new(kind: NormKind, x: Term<'g>, epsilon: Term<'g>) -> Normal<'g> {
        let mean = (kind == NormKind::Layer).then(|| x.reduce(Reduce::Mean));
        let centred = mean.map_or(x, |mean| x - mean);
        let inverse = ((centred * centred).reduce(Reduce::Mean) + epsilon).unary(Unary::Rsqrt);
        Normal { value: centred * inverse, inverse, mean }
    }
}
