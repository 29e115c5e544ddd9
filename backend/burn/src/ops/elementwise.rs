//! The few elementwise operators that Burn names as a whole; chains of length one are [`rocfire_fusion::eager`]'s.

use burn_backend::Scalar as BurnScalar;
use rocfire_fusion::{Binary, Compare, Scalar};
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

/// `x` held between `low` and `high`; a NaN stays.
pub(crate) fn clamp(x: &Tensor, low: Scalar, high: Scalar) -> Result<Tensor> {
    let dtype = x.dtype();
    let graph = fused::graph("clamp", &[dtype], |g| {
        let (x, low, high) = (g.input(dtype), g.scalar(dtype), g.scalar(dtype));
        x.binary(Binary::Min, high).binary(Binary::Max, low)
    });
    fused::elementwise(&graph, &[x], &[low, high], dtype)
}

/// -1, 0 or 1. Burn's sign of a NaN is 0, unlike the graph operator's.
pub(crate) fn sign(x: &Tensor) -> Result<Tensor> {
    let dtype = x.dtype();
    let graph = fused::graph("sign", &[dtype], |g| {
        let x = g.input(dtype);
        let [above, below] = [Compare::Gt, Compare::Lt].map(|op| x.is(op, x.number(0.0)).cast(dtype));
        above - below
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
        (start + g.index(0) * step).cast(dtype)
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
        a1 * b2 - a2 * b1
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
