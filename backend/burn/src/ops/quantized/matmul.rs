//! Matrix products with quantised operands: weights are read as packed codes, wherever they are a matrix.

use burn_backend::quantization::QuantPropagation;
use burn_backend::{TensorMetadata, TensorPrimitive, get_or_init_device_settings};
use rocfire_hal::{DType, Tensor};
use rocfire_kernels::quant;

use super::{codes, moves};
use crate::error::Result;
use crate::ops::{float_dtype, matmul, memory, view};
use crate::{Rocm, RocmQTensor, RocmTensor};

/// `lhs · rhs`, at least one of them quantised. Where both are, the left one becomes floats: the right one is the weights.
pub(super) fn q_matmul(lhs: TensorPrimitive<Rocm>, rhs: TensorPrimitive<Rocm>) -> Result<TensorPrimitive<Rocm>> {
    use TensorPrimitive::{Float, QFloat};
    let (scheme, device) = match (&lhs, &rhs) {
        (_, QFloat(q)) | (QFloat(q), _) => (q.scheme, q.device()),
        (Float(_), Float(_)) => {
            let product = matmul::matmul(lhs.tensor().as_inner(), rhs.tensor().as_inner())?;
            return Ok(Float(RocmTensor::new(product)));
        }
    };
    let settings = get_or_init_device_settings::<Rocm>(&device);
    let product = match (lhs, rhs) {
        (Float(x), QFloat(w)) => by_weights(x.as_inner(), w)?,
        (QFloat(w), Float(x)) => weights_by(w, x.as_inner())?,
        (QFloat(x), QFloat(w)) => by_weights(&codes::dequantize(&x, float_dtype(settings.float_dtype))?, w)?,
        (Float(_), Float(_)) => unreachable!("two floats have returned above"),
    };
    Ok(match settings.quantization.propagation {
        QuantPropagation::Propagate => QFloat(codes::quantize_dynamic(&product, &scheme)?),
        QuantPropagation::Inhibit => Float(RocmTensor::new(product)),
    })
}

/// The weights as a matrix, if they are one but for axes of extent 1 in front and the kernel has their types.
fn matrix(x: &Tensor, w: &RocmQTensor) -> Option<[usize; 2]> {
    let (leading, &[k, n]) = w.shape.as_slice().split_last_chunk()?;
    let kernel = matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16);
    let plain = leading.iter().all(|&extent| extent == 1) && x.shape().len() >= 2;
    (kernel && plain && k > 0 && n > 0 && !x.layout().is_empty()).then_some([k, n])
}

/// `[.., M, K] · [K, N]` into `c`.
fn multiply(x: &Tensor, w: &RocmQTensor, c: rocfire_hal::ViewMut<'_>) -> Result<()> {
    let block = w.block();
    let scales = w.scales(&block);
    Ok(quant::q_matmul(
        x.device().stream(),
        x.view(),
        &quant::CodedMatrix { words: w.words.as_inner().view(), layout: &w.code_layout(), scales: Some(&scales) },
        c,
    )?)
}

/// The shape of a product, with as many axes as the operand that has more.
fn product_shape(x: &[usize], w_rank: usize, last: [usize; 2]) -> Vec<usize> {
    let leading = &x[..x.len() - 2];
    let missing = w_rank.saturating_sub(x.len());
    std::iter::repeat_n(1, missing).chain(leading.iter().copied()).chain(last).collect()
}

fn by_weights(x: &Tensor, w: RocmQTensor) -> Result<Tensor> {
    let rank = w.rank();
    let Some([k, n]) = matrix(x, &w) else {
        return matmul::matmul(x, &codes::dequantize(&w, x.dtype())?);
    };
    let w = moves::reshape(w, &[k, n])?;
    let m = x.shape()[x.shape().len() - 2];
    let shape: Vec<usize> = product_shape(x.shape(), 0, [m, n]);
    let mut c = memory::empty(x.device(), &shape, x.dtype())?;
    multiply(x, &w, c.view_mut())?;
    view::reshape(&c, &product_shape(x.shape(), rank, [m, n]))
}

/// By the transposes: `(w x)ᵀ = xᵀ wᵀ`.
fn weights_by(w: RocmQTensor, x: &Tensor) -> Result<Tensor> {
    let rank = w.rank();
    let Some([m, k]) = matrix(x, &w) else {
        return matmul::matmul(&codes::dequantize(&w, x.dtype())?, x);
    };
    let transposed = moves::permute(moves::reshape(w, &[m, k])?, &[1, 0])?;
    let (last, before) = (x.shape().len() - 1, x.shape().len() - 2);
    let n = x.shape()[last];
    let mut c = memory::empty(x.device(), &product_shape(x.shape(), 0, [m, n]), x.dtype())?;
    let layout = c.layout().swap(before, last)?;
    multiply(&view::swap(x, before, last)?, &transposed, c.view_mut().with_layout(layout)?)?;
    view::reshape(&c, &product_shape(x.shape(), rank, [m, n]))
}
