//! Matrix products.

use rocfire_hal::Tensor;
use rocfire_kernels::gemm::{GemmParams, gemm, output_shape};

use super::memory;
use crate::error::Result;

/// `[.., M, K] · [.., K, N]`, any strides, batch axes broadcast.
pub(crate) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut c = memory::empty(a.device(), &output_shape(a.shape(), b.shape())?, a.dtype())?;
    gemm(a.device().stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default())?;
    Ok(c)
}
