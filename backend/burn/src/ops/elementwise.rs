//! Elementwise operators: chains of length one, and the few that Burn names as a whole.

use burn_backend::Scalar as BurnScalar;
use rocfire_fusion::{Binary, Compare, Scalar, Unary, eager};
use rocfire_hal::{DType, Tensor};

use super::fused;
use crate::error::Result;

/// Burn's scalar as a launch takes it; it is converted to the tensor's element type there.
pub(crate) fn scalar(value: BurnScalar) -> Scalar {
    match value {
        BurnScalar::Float(value) => Scalar::Float(value),
        BurnScalar::Int(value) => Scalar::Int(value),
        BurnScalar::UInt(value) => Scalar::Uint(value),
        BurnScalar::Bool(value) => Scalar::Bool(value),
    }
}

/// `op(x)`.
pub(crate) fn unary(op: Unary, x: &Tensor) -> Result<Tensor> {
    Ok(eager::unary(op, x)?)
}

/// `op(a, b)`, broadcast.
pub(crate) fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(eager::binary(op, a, b)?)
}

/// `op(x, value)`.
pub(crate) fn binary_scalar(op: Binary, x: &Tensor, value: Scalar) -> Result<Tensor> {
    Ok(eager::binary_scalar(op, x, value)?)
}

/// `op(x)`, in the argument's memory if it is the last handle to it.
pub(crate) fn unary_last(op: Unary, x: Tensor) -> Result<Tensor> {
    Ok(eager::unary_reusing(op, x)?)
}

/// `op(a, b)`, broadcast, in the memory of an argument that is the last handle to it.
pub(crate) fn binary_last(op: Binary, a: Tensor, b: Tensor) -> Result<Tensor> {
    Ok(eager::binary_reusing(op, a, b)?)
}

/// `op(x, value)`, in the argument's memory if it is the last handle to it.
pub(crate) fn binary_scalar_last(op: Binary, x: Tensor, value: Scalar) -> Result<Tensor> {
    Ok(eager::binary_scalar_reusing(op, x, value)?)
}

/// `op(a, b)`, broadcast, a bool.
pub(crate) fn compare(op: Compare, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(eager::compare(op, a, b)?)
}

/// `op(x, value)`, a bool.
pub(crate) fn compare_scalar(op: Compare, x: &Tensor, value: Scalar) -> Result<Tensor> {
    Ok(eager::compare_scalar(op, x, value)?)
}

/// `a` where `condition` holds, else `b`, broadcast, in the memory of one that is the last handle to it.
pub(crate) fn select(condition: &Tensor, a: Tensor, b: Tensor) -> Result<Tensor> {
    Ok(eager::select_reusing(condition, a, b)?)
}

/// `value` where `mask` holds, else `x`, broadcast, in the memory of `x` if it is the last handle to it.
pub(crate) fn mask_fill(x: Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    Ok(eager::select_scalar_reusing(mask, value, x)?)
}

/// `x` held between `low` and `high`; a NaN stays.
pub(crate) fn clamp(x: &Tensor, low: Scalar, high: Scalar) -> Result<Tensor> {
    let dtype = x.dtype();
    let graph = fused::graph("clamp", &[dtype], |g| {
        let x = g.input(dtype);
        let (low, high) = (g.scalar(dtype), g.scalar(dtype));
        let below = g.binary(Binary::Min, x, high);
        let held = g.binary(Binary::Max, below, low);
        g.output(held);
    });
    fused::elementwise(&graph, &[x], &[low, high], dtype)
}

/// -1, 0 or 1. Burn's sign of a NaN is 0, unlike the graph operator's.
pub(crate) fn sign(x: &Tensor) -> Result<Tensor> {
    let dtype = x.dtype();
    let graph = fused::graph("sign", &[dtype], |g| {
        let x = g.input(dtype);
        let zero = g.constant(dtype, 0.0);
        let (above, below) = (g.compare(Compare::Gt, x, zero), g.compare(Compare::Lt, x, zero));
        let (above, below) = (g.cast(above, dtype), g.cast(below, dtype));
        let sign = g.binary(Binary::Sub, above, below);
        g.output(sign);
    });
    fused::elementwise(&graph, &[x], &[], dtype)
}

/// The numbers `start + i · step`, along one axis.
pub(crate) fn arange(
    device: &rocfire_hal::Device,
    start: i64,
    step: i64,
    count: usize,
    dtype: DType,
) -> Result<Tensor> {
    let graph = fused::graph("arange", &[dtype], |g| {
        let (start, step) = (g.scalar(DType::I64), g.scalar(DType::I64));
        let index = g.index(0);
        let offset = g.binary(Binary::Mul, index, step);
        let value = g.binary(Binary::Add, start, offset);
        let value = g.cast(value, dtype);
        g.output(value);
    });
    let mut output = super::memory::empty(device, &[count], dtype)?;
    let scalars = [Scalar::Int(start), Scalar::Int(step)];
    rocfire_fusion::run(device.stream(), &graph, &[count], &[], &scalars, &mut [output.view_mut()])?;
    Ok(output)
}

/// The components of a cross product along an axis of extent 3, which either tensor may broadcast the other axes of.
pub(crate) fn cross(a: &Tensor, b: &Tensor, axis: usize) -> Result<Tensor> {
    let shape = super::view::broadcast("cross", &[a, b])?;
    if shape.get(axis) != Some(&3) {
        return Err(rocfire_hal::Error::shape("cross", "axis", "of extent 3", format!("{axis} of {shape:?}")).into());
    }
    let dtype = a.dtype();
    let (a, b) = (super::view::expand(a, &shape)?, super::view::expand(b, &shape)?);
    let graph = fused::graph("cross", &[dtype], |g| {
        let [a1, b2, a2, b1] = [(); 4].map(|()| g.input(dtype));
        let (left, right) = (g.binary(Binary::Mul, a1, b2), g.binary(Binary::Mul, a2, b1));
        let component = g.binary(Binary::Sub, left, right);
        g.output(component);
    });
    let mut product = super::memory::empty(a.device(), &shape, dtype)?;
    for i in 0..3 {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        let at = |x: &Tensor, i| super::view::narrow(x, axis, i, 1);
        let inputs = [at(&a, j)?, at(&b, k)?, at(&a, k)?, at(&b, j)?];
        let views = inputs.each_ref().map(Tensor::view);
        let part = product.layout().slice(axis, i, i + 1, 1)?;
        let target = product.view_mut().with_layout(part)?;
        rocfire_fusion::run(a.device().stream(), &graph, part.shape(), &views, &[], &mut [target])?;
    }
    Ok(product)
}
