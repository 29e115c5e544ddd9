//! `gate`: silu, gelu, swiglu … and multiply.

use rocfire_fusion::{Binary, Graph, Scalar, Term};
use rocfire_hal::{DType, Layout, Stream, View, ViewMut};

use super::Activation;
use crate::Result;
use crate::family::{self, shape};
use crate::graphs::{self, Graphs, Inputs, Maker, columns, float, same_shape};

const OP: &str = "gate";

/// Where gates and what they are multiplied by lie in a row of `2 n` columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GateLayout {
    /// First all gates, then the others.
    #[default]
    Halves,
    /// In turn, the gate first.
    Interleaved,
}

/// What is asked for besides `x`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct GateParams<'a> {
    /// Of the gate.
    pub activation: Activation,
    /// Where gates lie.
    pub layout: GateLayout,
    /// Holds gates to this at most, the others to this in size, before all else.
    pub limit: Option<f64>,
    /// Added to what the gate is multiplied by, behind the limit: 1 in GPT-OSS.
    pub offset: f64,
    /// What the result is multiplied by.
    pub scale: Option<f64>,
    /// Added to `x`, `[2 n]`, any float, lying as its columns do.
    pub bias: Option<View<'a>>,
}

impl<'a> GateParams<'a> {
    /// The activation of the first half, times the second.
    pub fn new(activation: Activation) -> GateParams<'a> {
        GateParams { activation, ..GateParams::default() }
    }

    /// GPT-OSS's: gates up to 7 and in turn with the others, which are held to ±7 and one is added.
    pub fn swiglu() -> GateParams<'a> {
        let (activation, layout) = (Activation::QuickGelu, GateLayout::Interleaved);
        GateParams { activation, layout, limit: Some(7.0), offset: 1.0, ..GateParams::default() }
    }
}

/// `y = activation(gate) · (up + offset) · scale`, gate and up being the two halves of `x + bias`.
///
/// # Shapes
/// `x`: `[.., 2 n]`; `y`: `[.., n]`; any strides, apart.
/// # Types
/// `x` of any float, `y` of the same.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store.
/// # Errors
/// `Shape` for shapes, types or memory that do not fit; `Unsupported` for what is no float; errors of compilation and launch.
pub fn gate(stream: &Stream, x: View<'_>, params: &GateParams<'_>, y: ViewMut<'_>) -> Result<()> {
    let n = check(OP, stream, &x, params)?;
    family::on_device(OP, "y", stream, &y)?;
    family::same_dtype(OP, "y", &y, x.dtype())?;
    check_half(OP, "y", &y, &x, n)?;
    family::writable(OP, "y", &y)?;
    family::disjoint(OP, "x", &y, &x)?;
    if let Some(bias) = &params.bias {
        family::disjoint(OP, "bias", &y, bias)?;
    }
    static GRAPHS: Graphs<GateKey> = Graphs::new();
    let graph = GRAPHS.get(GateKey::new(&x, params), graph);
    let [gates, ups] = halves(params.layout, x)?;
    let mut inputs = Inputs::<4>::new(gates);
    inputs.push(Some(ups));
    if let Some(bias) = params.bias {
        halves(params.layout, bias)?.into_iter().for_each(|half| inputs.push(Some(half)));
    }
    graphs::run(stream, &graph, gates.shape(), inputs.views(), &scalars(params), &mut [y])
}

/// Checks `x` and the bias; half the columns of `x`.
pub(crate) fn check(op: &'static str, stream: &Stream, x: &View<'_>, params: &GateParams<'_>) -> Result<usize> {
    float(op, "x", stream, x)?;
    let cols = columns(op, "x", x)?;
    if !cols.is_multiple_of(2) {
        return Err(shape(op, "x", "an even number of columns", cols));
    }
    if let Some(bias) = &params.bias {
        float(op, "bias", stream, bias)?;
        same_shape(op, "bias", bias, &[cols])?;
    }
    if let Some(limit) = params.limit
        && (limit.is_nan() || limit < 0.0)
    {
        return Err(shape(op, "params.limit", "a number that is not negative", limit));
    }
    Ok(cols / 2)
}

/// Checks `[.., n]` beside `x` of `[.., 2 n]`.
pub(super) fn check_half(op: &'static str, arg: &'static str, half: &View<'_>, x: &View<'_>, n: usize) -> Result<()> {
    let rows = &x.shape()[..x.shape().len() - 1];
    let fits = half.shape().split_last().is_some_and(|(&last, outer)| last == n && outer == rows);
    if fits { Ok(()) } else { Err(shape(op, arg, format!("{rows:?} and {n} columns"), format!("{:?}", half.shape()))) }
}

/// Views of the gates and of the others.
pub(super) fn halves(lies: GateLayout, x: View<'_>) -> Result<[View<'_>; 2]> {
    let [gates, ups] = half_layouts(lies, x.layout())?;
    Ok([x.with_layout(gates)?, x.with_layout(ups)?])
}

pub(super) fn half_layouts(lies: GateLayout, layout: &Layout) -> Result<[Layout; 2]> {
    let axis = layout.rank() - 1;
    let cols = layout.shape()[axis];
    Ok(match lies {
        GateLayout::Halves => [layout.slice(axis, 0, cols / 2, 1)?, layout.slice(axis, cols / 2, cols, 1)?],
        GateLayout::Interleaved => [layout.slice(axis, 0, cols, 2)?, layout.slice(axis, cols.min(1), cols, 2)?],
    })
}

/// Limit, offset and scale, whether they are used or not.
pub(super) fn scalars(params: &GateParams<'_>) -> [Scalar; 3] {
    [params.limit.unwrap_or(f64::INFINITY), params.offset, params.scale.unwrap_or(1.0)].map(Scalar::Float)
}

/// What varies in the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GateKey {
    pub x: DType,
    pub activation: Activation,
    pub limit: bool,
    pub scale: bool,
    pub bias: Option<DType>,
}

impl GateKey {
    pub(super) fn new(x: &View<'_>, params: &GateParams<'_>) -> GateKey {
        GateKey {
            x: x.dtype(),
            activation: params.activation,
            limit: params.limit.is_some(),
            scale: params.scale.is_some(),
            bias: params.bias.map(|bias| bias.dtype()),
        }
    }
}

/// The inputs of a gate as graphs read them.
pub(super) struct Halves<'g> {
    /// Before the limit, bias added.
    pub free: [Term<'g>; 2],
    /// Gate, and up with the offset.
    pub held: [Term<'g>; 2],
    pub limit: Term<'g>,
    pub scale: Term<'g>,
}

impl<'g> Halves<'g> {
    pub(super) fn new(make: &'g Maker, key: GateKey) -> Halves<'g> {
        let mut free = [(); 2].map(|()| make.input(key.x));
        if let Some(dtype) = key.bias {
            let bias = [(); 2].map(|()| make.input(dtype));
            free = [free[0] + bias[0], free[1] + bias[1]];
        }
        let [limit, offset, scale] = [(); 3].map(|()| make.scalar());
        let mut held = free;
        if key.limit {
            held = free.map(|half| half.binary(Binary::Min, limit));
            held[1] = held[1].binary(Binary::Max, -limit);
        }
        held[1] = held[1] + offset;
        Halves { free, held, limit, scale }
    }
}

fn graph(key: GateKey) -> Graph {
    let make = Maker::of(OP, key.x);
    let halves = Halves::new(&make, key);
    let y = key.activation.value(make.precision, halves.held[0]) * halves.held[1];
    make.output(if key.scale { y * halves.scale } else { y }, key.x);
    make.finish()
}
