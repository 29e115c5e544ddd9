//! Burn's activations, a launch each.
//!
//! 16-bit floats are computed in f32 and rounded once, at the end. The softmax family reduces rows, any axis being the last
//! by a view. `Fused` and `Autodiff` take most of these apart before they get here; what they make of them is recognised
//! by the fusers.

use burn_backend::Scalar as BurnScalar;
use burn_backend::ops::ActivationOps;
use rocfire_fusion::{Binary, Compare, Graph, Reduce, Scalar, Unary, Value};
use rocfire_hal::Tensor;

use super::elementwise::scalar;
use super::{fused, out, reduce};
use crate::error::Result;
use crate::{Rocm, RocmTensor};

/// One launch over the broadcast of `inputs`, which `body` sees widened; its result is rounded to the first one's type.
fn chain<const N: usize, const S: usize>(
    name: &'static str,
    inputs: [&Tensor; N],
    scalars: [Scalar; S],
    body: impl FnOnce(&mut Graph, [Value; N], [Value; S]) -> Value,
) -> Result<Tensor> {
    let dtype = inputs[0].dtype();
    let graph = fused::graph(name, &[dtype], |g| {
        let values = inputs.map(|x| {
            let value = g.input(x.dtype());
            fused::to(g, value, fused::wide(x.dtype()))
        });
        let scalars = [(); S].map(|()| g.scalar(fused::wide(dtype)));
        let result = body(g, values, scalars);
        let result = fused::to(g, result, dtype);
        g.output(result);
    });
    fused::elementwise(&graph, &inputs, &scalars, dtype)
}

fn constant(g: &mut Graph, like: Value, number: f64) -> Value {
    let dtype = g.dtype(like);
    g.constant(dtype, number)
}

/// `(1 + erf(x / √2)) / 2`: how much of a normal distribution lies below `x`.
fn normal_below(g: &mut Graph, x: Value) -> Value {
    let root = constant(g, x, std::f64::consts::SQRT_2);
    let (one, half) = (constant(g, x, 1.0), constant(g, x, 0.5));
    let scaled = g.binary(Binary::Div, x, root);
    let erf = g.unary(Unary::Erf, scaled);
    let shifted = g.binary(Binary::Add, one, erf);
    g.binary(Binary::Mul, half, shifted)
}

/// `1 / (1 + e^-x)`.
fn logistic(g: &mut Graph, x: Value) -> Value {
    let one = constant(g, x, 1.0);
    let negative = g.unary(Unary::Neg, x);
    let exp = g.unary(Unary::Exp, negative);
    let below = g.binary(Binary::Add, one, exp);
    g.unary(Unary::Recip, below)
}

/// `a` where `x >= 0`, else `b`.
fn unless_negative(g: &mut Graph, x: Value, a: Value, b: Value) -> Value {
    let zero = constant(g, x, 0.0);
    let condition = g.compare(Compare::Ge, x, zero);
    g.select(condition, a, b)
}

/// A launch over the rows of `axis`, whose result `body` computes from the elements less the row's maximum.
fn shifted_rows(
    name: &'static str,
    x: &Tensor,
    axis: usize,
    body: impl FnOnce(&mut Graph, Value) -> Value,
) -> Result<Tensor> {
    let dtype = x.dtype();
    let graph = fused::graph(name, &[dtype], |g| {
        let x = g.input(dtype);
        let x = fused::to(g, x, fused::wide(dtype));
        let largest = g.reduce(Reduce::Max, x);
        let shifted = g.binary(Binary::Sub, x, largest);
        let result = body(g, shifted);
        let result = fused::to(g, result, dtype);
        g.output(result);
    });
    let (rows, axes) = reduce::axis_last(x, axis)?;
    reduce::axis_back(&fused::elementwise(&graph, &[&rows], &[], dtype)?, &axes)
}

impl ActivationOps<Rocm> for Rocm {
    fn relu(tensor: RocmTensor) -> RocmTensor {
        out(super::elementwise::binary_scalar(Binary::Max, tensor.as_inner(), Scalar::Int(0)))
    }

    fn relu_backward(output: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("relu_backward", [output.as_inner(), grad.as_inner()], [], |g, [output, grad], []| {
            let zero = constant(g, output, 0.0);
            let off = g.compare(Compare::Le, output, zero);
            g.select(off, zero, grad)
        }))
    }

    fn leaky_relu(tensor: RocmTensor, negative_slope: BurnScalar) -> RocmTensor {
        out(chain("leaky_relu", [tensor.as_inner()], [scalar(negative_slope)], |g, [x], [slope]| {
            let scaled = g.binary(Binary::Mul, x, slope);
            unless_negative(g, x, x, scaled)
        }))
    }

    fn prelu(tensor: RocmTensor, alpha: RocmTensor) -> RocmTensor {
        out(chain("prelu", [tensor.as_inner(), alpha.as_inner()], [], |g, [x, alpha], []| {
            let scaled = g.binary(Binary::Mul, x, alpha);
            unless_negative(g, x, x, scaled)
        }))
    }

    fn gelu(tensor: RocmTensor) -> RocmTensor {
        out(chain("gelu", [tensor.as_inner()], [], |g, [x], []| {
            let below = normal_below(g, x);
            g.binary(Binary::Mul, x, below)
        }))
    }

    /// The derivative of [`ActivationOps::gelu`] itself, where Burn's default is that of its approximation by tanh.
    fn gelu_backward(x: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("gelu_backward", [x.as_inner(), grad.as_inner()], [], |g, [x, grad], []| {
            let below = normal_below(g, x);
            let square = g.binary(Binary::Mul, x, x);
            let minus_half = constant(g, x, -0.5);
            let exponent = g.binary(Binary::Mul, square, minus_half);
            let bell = g.unary(Unary::Exp, exponent);
            let height = constant(g, x, 1.0 / (2.0 * std::f64::consts::PI).sqrt());
            let density = g.binary(Binary::Mul, bell, height);
            let moved = g.binary(Binary::Mul, x, density);
            let slope = g.binary(Binary::Add, below, moved);
            g.binary(Binary::Mul, grad, slope)
        }))
    }

    fn sigmoid(tensor: RocmTensor) -> RocmTensor {
        out(chain("sigmoid", [tensor.as_inner()], [], |g, [x], []| logistic(g, x)))
    }

    fn sigmoid_backward(output: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("sigmoid_backward", [output.as_inner(), grad.as_inner()], [], |g, [output, grad], []| {
            let one = constant(g, output, 1.0);
            let rest = g.binary(Binary::Sub, one, output);
            let slope = g.binary(Binary::Mul, output, rest);
            g.binary(Binary::Mul, grad, slope)
        }))
    }

    fn hard_sigmoid(tensor: RocmTensor, alpha: BurnScalar, beta: BurnScalar) -> RocmTensor {
        let scalars = [scalar(alpha), scalar(beta)];
        out(chain("hard_sigmoid", [tensor.as_inner()], scalars, |g, [x], [alpha, beta]| {
            let line = g.binary(Binary::Mul, x, alpha);
            let line = g.binary(Binary::Add, line, beta);
            let (zero, one) = (constant(g, x, 0.0), constant(g, x, 1.0));
            let above = g.binary(Binary::Max, line, zero);
            g.binary(Binary::Min, above, one)
        }))
    }

    /// `min(x, 0) - log(1 + e^-|x|)`: nothing overflows.
    fn log_sigmoid(tensor: RocmTensor) -> RocmTensor {
        out(chain("log_sigmoid", [tensor.as_inner()], [], |g, [x], []| {
            let zero = constant(g, x, 0.0);
            let magnitude = g.unary(Unary::Abs, x);
            let negative = g.unary(Unary::Neg, magnitude);
            let exp = g.unary(Unary::Exp, negative);
            let log = g.unary(Unary::Log1p, exp);
            let low = g.binary(Binary::Min, x, zero);
            g.binary(Binary::Sub, low, log)
        }))
    }

    fn log_sigmoid_backward(x: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("log_sigmoid_backward", [x.as_inner(), grad.as_inner()], [], |g, [x, grad], []| {
            let negative = g.unary(Unary::Neg, x);
            let slope = logistic(g, negative);
            g.binary(Binary::Mul, grad, slope)
        }))
    }

    fn softmax(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(shifted_rows("softmax", tensor.as_inner(), dim, |g, shifted| {
            let exp = g.unary(Unary::Exp, shifted);
            let sum = g.reduce(Reduce::Sum, exp);
            g.binary(Binary::Div, exp, sum)
        }))
    }

    fn log_softmax(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(shifted_rows("log_softmax", tensor.as_inner(), dim, |g, shifted| {
            let exp = g.unary(Unary::Exp, shifted);
            let sum = g.reduce(Reduce::Sum, exp);
            let log = g.unary(Unary::Log, sum);
            g.binary(Binary::Sub, shifted, log)
        }))
    }
}
