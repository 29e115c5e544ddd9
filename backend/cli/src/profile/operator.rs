//! Operators that can be profiled. Their inputs are zero: what they cost does not depend on the numbers.

use rocfire_fusion::{Draft, Graph, Reduce, Unary, eager};
use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::random::{Seed, uniform};
use rocfire_kernels::reduce::arg_max;
use rocfire_kernels::scan::{Cumulative, cumulative};

use super::Outcome;

/// An operator and how to run it.
pub struct Operator {
    /// Its name.
    pub name: &'static str,
    /// Its extents where none are given; how many there are.
    usual: &'static [usize],
    /// Launches it once.
    pub run: fn(&Device, DType, &[usize]) -> Outcome<()>,
}

const OPERATORS: &[Operator] = &[
    Operator { name: "copy", usual: &[1 << 20], run: copy },
    Operator { name: "add", usual: &[1 << 20], run: add },
    Operator { name: "gelu", usual: &[1 << 20], run: gelu },
    Operator { name: "softmax", usual: &[256, 1024], run: softmax },
    Operator { name: "gemm", usual: &[512, 512, 512], run: product },
    Operator { name: "cumulative", usual: &[64, 4096], run: sums },
    Operator { name: "arg_max", usual: &[64, 4096], run: maxima },
    Operator { name: "uniform", usual: &[1 << 20], run: draws },
];

/// The operator of a name.
///
/// # Errors
/// Names those there are.
pub fn find(name: &str) -> Outcome<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.name == name).ok_or_else(|| {
        let names: Vec<&str> = OPERATORS.iter().map(|operator| operator.name).collect();
        format!("{name:?} is no file and no operator that can be profiled: {}", names.join(", ")).into()
    })
}

impl Operator {
    /// Its extents from `4096x512`; the usual ones where there is none.
    ///
    /// # Errors
    /// If they are not as many as it has, or not numbers from 1.
    pub fn extents(&self, size: Option<&str>) -> Outcome<Vec<usize>> {
        let Some(size) = size else { return Ok(self.usual.to_vec()) };
        let extents: Option<Vec<usize>> =
            size.split('x').map(|extent| extent.parse().ok().filter(|&n| n > 0)).collect();
        let extents = extents.filter(|extents| extents.len() == self.usual.len());
        let wrong =
            || format!("{size:?}: {} takes {} numbers from 1, such as {:?}", self.name, self.usual.len(), self.usual);
        Ok(extents.ok_or_else(wrong)?)
    }
}

/// Runs a fused graph.
fn fused(device: &Device, graph: &Graph, dtype: DType, shape: &[usize], inputs: usize) -> Outcome<()> {
    let tensors: Vec<Tensor> = (0..inputs).map(|_| zeros(device, shape, dtype)).collect::<Outcome<_>>()?;
    let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
    let mut out = zeros(device, shape, dtype)?;
    Ok(rocfire_fusion::run(device.stream(), graph, shape, &views, &[], &mut [out.view_mut()])?)
}

/// A tensor of zeros.
fn zeros(device: &Device, shape: &[usize], dtype: DType) -> Outcome<Tensor> {
    let bytes = shape.iter().product::<usize>() * dtype.size_bytes();
    Ok(Tensor::from_bytes(device, shape, dtype, &vec![0; bytes])?)
}

fn copy(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let (x, mut y) = (zeros(device, shape, dtype)?, zeros(device, shape, dtype)?);
    Ok(eager::copy_into(x.view(), y.view_mut())?)
}

fn add(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let graph = Draft::graph("add", |g| g.input(dtype) + g.input(dtype));
    fused(device, &graph, dtype, shape, 2)
}

fn gelu(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let graph = Draft::graph("gelu", |g| {
        let x = g.input(dtype);
        let gate = (x * std::f64::consts::FRAC_1_SQRT_2).unary(Unary::Erf) + 1.0;
        x * 0.5 * gate
    });
    fused(device, &graph, dtype, shape, 1)
}

fn softmax(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let graph = Draft::graph("softmax", |g| {
        let x = g.input(dtype);
        let exp = (x - x.reduce(Reduce::Max)).unary(Unary::Exp);
        exp / exp.reduce(Reduce::Sum)
    });
    fused(device, &graph, dtype, shape, 1)
}

fn product(device: &Device, dtype: DType, extents: &[usize]) -> Outcome<()> {
    let (m, n, k) = (extents[0], extents[1], extents[2]);
    let (a, b) = (zeros(device, &[m, k], dtype)?, zeros(device, &[k, n], dtype)?);
    let mut c = zeros(device, &[m, n], dtype)?;
    Ok(gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default())?)
}

fn sums(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let (x, mut y) = (zeros(device, shape, dtype)?, zeros(device, shape, dtype)?);
    Ok(cumulative(device.stream(), Cumulative::Sum, 1, x.view(), y.view_mut())?)
}

fn maxima(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let x = zeros(device, shape, dtype)?;
    let mut indices = zeros(device, &[shape[0], 1], DType::I32)?;
    Ok(arg_max(device.stream(), 1, x.view(), indices.view_mut(), None)?)
}

fn draws(device: &Device, dtype: DType, shape: &[usize]) -> Outcome<()> {
    let mut out = zeros(device, shape, dtype)?;
    Ok(uniform(device.stream(), Seed { seed: 1, offset: 0 }, 0.0, 1.0, out.view_mut())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_many_as_the_operator_has() {
        let gemm = find("gemm").unwrap();
        assert_eq!(gemm.extents(None).unwrap(), [512, 512, 512]);
        assert_eq!(gemm.extents(Some("1x2x3")).unwrap(), [1, 2, 3]);
        for wrong in ["1x2", "1x2x3x4", "0x1x1", "axbxc", ""] {
            assert!(gemm.extents(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(find("conv").err().unwrap().to_string().contains("softmax, gemm"));
    }
}
