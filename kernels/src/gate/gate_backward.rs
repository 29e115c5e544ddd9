//! `gate_backward`: the gradient of [`gate`](super::gate()).

use rocfire_fusion::{Compare, Graph, Unary};
use rocfire_hal::{Stream, Tensor, View, ViewMut};

use super::gate::{GateKey, GateParams, Halves, check, check_half, half_layouts, halves, scalars};
use crate::Result;
use crate::family;
use crate::graphs::{self, Graphs, Inputs, Maker, same_shape};

const OP: &str = "gate_backward";

/// `dx`, the gradient of both halves of `x`, which is that of the bias's elements too, one row each.
///
/// # Shapes
/// `x`, `dx`: `[.., 2 n]`; `dy`: `[.., n]`; one type, any strides; `dx` apart from the others.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store. Beyond the limit the slope is 0, at the limit itself it is that inside.
/// # Errors
/// As [`gate`](super::gate()).
pub fn gate_backward(
    stream: &Stream,
    x: View<'_>,
    params: &GateParams<'_>,
    dy: View<'_>,
    dx: ViewMut<'_>,
) -> Result<()> {
    let n = check(OP, stream, &x, params)?;
    for (arg, view) in [("dy", &dy), ("dx", &*dx)] {
        family::on_device(OP, arg, stream, view)?;
        family::same_dtype(OP, arg, view, x.dtype())?;
    }
    check_half(OP, "dy", &dy, &x, n)?;
    same_shape(OP, "dx", &dx, x.shape())?;
    family::writable(OP, "dx", &dx)?;
    for (arg, view) in [("x", Some(&x)), ("dy", Some(&dy)), ("bias", params.bias.as_ref())] {
        if let Some(view) = view {
            family::disjoint(OP, arg, &dx, view)?;
        }
    }
    static GRAPHS: Graphs<GateKey> = Graphs::new();
    let graph = GRAPHS.get(GateKey::new(&x, params), graph);
    let [gates, ups] = halves(params.layout, x)?;
    let mut inputs = Inputs::<5>::new(gates);
    inputs.push(Some(ups));
    if let Some(bias) = params.bias {
        halves(params.layout, bias)?.into_iter().for_each(|half| inputs.push(Some(half)));
    }
    inputs.push(Some(dy));
    let [d_gates, d_ups] = half_layouts(params.layout, dx.layout())?;
    // A second handle to the same memory: the halves share no element.
    let mut ups = Tensor::from_buffer(dx.buffer().clone(), d_ups, dx.dtype())?;
    let outputs = &mut [dx.with_layout(d_gates)?, ups.view_mut()];
    graphs::run(stream, &graph, gates.shape(), inputs.views(), &scalars(params), outputs)
}

fn graph(key: GateKey) -> Graph {
    let make = Maker::of(OP, key.x);
    let Halves { free, held, limit, scale } = Halves::new(&make, key);
    let mut dy = make.input(key.x);
    if key.scale {
        dy = dy * scale;
    }
    let (value, slope) = key.activation.both(make.precision, held[0]);
    let (mut gate, mut up) = (dy * held[1] * slope, dy * value);
    if key.limit {
        let zero = make.constant(0.0);
        gate = free[0].is(Compare::Gt, limit).choose(zero, gate);
        up = free[1].unary(Unary::Abs).is(Compare::Gt, limit).choose(zero, up);
    }
    make.output(gate, key.x);
    make.output(up, key.x);
    make.finish()
}
