//! Burn's activations, a launch each.
//!
//! 16-bit floats are computed in f32 and rounded once, at the end. The softmax family reduces rows, any axis being the last
//! by a view. `Fused` and `Autodiff` take most of these apart before they get here; what they make of them is recognised
//! by the fusers.

use burn_backend::Scalar as BurnScalar;
use burn_backend::ops::ActivationOps;
use rocfire_fusion::{Binary, Compare, Reduce, Scalar, Term, Unary, eager};
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
    body: impl for<'g> FnOnce([Term<'g>; N], [Term<'g>; S]) -> Term<'g>,
) -> Result<Tensor> {
    let dtype = inputs[0].dtype();
    let graph = fused::graph(name, &[dtype], |g| {
        let values = inputs.map(|x| g.input(x.dtype()).cast(fused::wide(x.dtype())));
        body(values, [(); S].map(|()| g.scalar(fused::wide(dtype)))).cast(dtype)
    });
    fused::elementwise(&graph, &inputs, &scalars, dtype)
}

/// `(1 + erf(x / √2)) / 2`: how much of a normal distribution lies below `x`. Divided, as in Burn's own definition, so that GELU gives the
/// same bits whether Burn takes it apart or not.
fn normal_below(x: Term<'_>) -> Term<'_> {
    0.5 * (1.0 + (x / std::f64::consts::SQRT_2).unary(Unary::Erf))
}

/// `1 / (1 + e^-x)`.
fn logistic(x: Term<'_>) -> Term<'_> {
    (1.0 + (-x).unary(Unary::Exp)).unary(Unary::Recip)
}

/// `x` where `x >= 0`, else `factor · x`.
fn leaky<'g>(x: Term<'g>, factor: Term<'g>) -> Term<'g> {
    x.is(Compare::Ge, x.number(0.0)).choose(x, x * factor)
}

/// A launch over the rows of `axis`, whose result `body` computes from the elements less the row's maximum.
fn shifted_rows(
    name: &'static str,
    x: &Tensor,
    axis: usize,
    body: impl FnOnce(Term<'_>) -> Term<'_>,
) -> Result<Tensor> {
    let dtype = x.dtype();
    let graph = fused::graph(name, &[dtype], |g| {
        let x = g.input(dtype).cast(fused::wide(dtype));
        body(x - x.reduce(Reduce::Max)).cast(dtype)
    });
    let (rows, axes) = reduce::axis_last(x, axis)?;
    reduce::axis_back(&fused::elementwise(&graph, &[&rows], &[], dtype)?, &axes)
}

impl ActivationOps<Rocm> for Rocm {
    fn relu(tensor: RocmTensor) -> RocmTensor {
        out(eager::binary_scalar(Binary::Max, tensor.as_inner(), Scalar::Int(0)))
    }

    fn relu_backward(output: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("relu_backward", [output.as_inner(), grad.as_inner()], [], |[output, grad], []| {
            let zero = output.number(0.0);
            output.is(Compare::Le, zero).choose(zero, grad)
        }))
    }

    fn leaky_relu(tensor: RocmTensor, negative_slope: BurnScalar) -> RocmTensor {
        out(chain("leaky_relu", [tensor.as_inner()], [scalar(negative_slope)], |[x], [slope]| leaky(x, slope)))
    }

    fn prelu(tensor: RocmTensor, alpha: RocmTensor) -> RocmTensor {
        out(chain("prelu", [tensor.as_inner(), alpha.as_inner()], [], |[x, alpha], []| leaky(x, alpha)))
    }

    fn gelu(tensor: RocmTensor) -> RocmTensor {
        out(chain("gelu", [tensor.as_inner()], [], |[x], []| x * normal_below(x)))
    }

    /// The derivative of [`ActivationOps::gelu`] itself, where Burn's default is that of its approximation by tanh.
    fn gelu_backward(x: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("gelu_backward", [x.as_inner(), grad.as_inner()], [], |[x, grad], []| {
            let below = normal_below(x);
            let density = (x * x * -0.5).unary(Unary::Exp) * (1.0 / (2.0 * std::f64::consts::PI).sqrt());
            grad * (below + x * density)
        }))
    }

    fn sigmoid(tensor: RocmTensor) -> RocmTensor {
        out(chain("sigmoid", [tensor.as_inner()], [], |[x], []| logistic(x)))
    }

    fn sigmoid_backward(output: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("sigmoid_backward", [output.as_inner(), grad.as_inner()], [], |[output, grad], []| {
            grad * (output * (1.0 - output))
        }))
    }

    fn hard_sigmoid(tensor: RocmTensor, alpha: BurnScalar, beta: BurnScalar) -> RocmTensor {
        let scalars = [scalar(alpha), scalar(beta)];
        out(chain("hard_sigmoid", [tensor.as_inner()], scalars, |[x], [alpha, beta]| {
            (x * alpha + beta).binary(Binary::Max, x.number(0.0)).binary(Binary::Min, x.number(1.0))
        }))
    }

    /// `min(x, 0) - log(1 + e^-|x|)`: nothing overflows.
    fn log_sigmoid(tensor: RocmTensor) -> RocmTensor {
        out(chain("log_sigmoid", [tensor.as_inner()], [], |[x], []| {
            let log = (-x.unary(Unary::Abs)).unary(Unary::Exp).unary(Unary::Log1p);
            x.binary(Binary::Min, x.number(0.0)) - log
        }))
    }

    fn log_sigmoid_backward(x: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(chain("log_sigmoid_backward", [x.as_inner(), grad.as_inner()], [], |[x, grad], []| grad * logistic(-x)))
    }

    fn softmax(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(shifted_rows("softmax", tensor.as_inner(), dim, |shifted| {
            let exp = shifted.unary(Unary::Exp);
            exp / exp.reduce(Reduce::Sum)
        }))
    }

    fn log_softmax(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(shifted_rows("log_softmax", tensor.as_inner(), dim, |shifted| {
            shifted - shifted.unary(Unary::Exp).reduce(Reduce::Sum).unary(Unary::Log)
        }))
    }
}
