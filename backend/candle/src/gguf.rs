//! Products by matrices in blocks of GGUF, as a quantised checkpoint has them, and experts of them.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor, bail};
use rocfire_kernels::gate::Activation;
use rocfire_kernels::operators::{self as kernels, GroupedEpilogue};
use rocfire_kernels::quant::Gguf;

use crate::quantised::row_type;
use crate::record::one;
use crate::{ByExpert, combine, sort_by_expert};

/// Matrices of experts in blocks of GGUF. There are no gradients.
#[derive(Clone, Debug)]
pub struct GgufMatrices {
    /// Blocks, u8 `[experts, N, bytes of K weights]`.
    pub blocks: Tensor,
    /// What they are.
    pub kind: Gguf,
}

impl GgufMatrices {
    /// The blocks of `[experts, N, K]`, or of one matrix `[N, K]`, as Candle has them, which are copied to a device of rocfire's.
    ///
    /// # Errors
    /// A type that is not quantised, q8_1 and q8_k; another number of axes; what copying says.
    pub fn of(matrices: &QTensor, device: &Device) -> Result<GgufMatrices> {
        let kind = match matrices.dtype() {
            GgmlDType::Q4_0 => Gguf::Q4_0,
            GgmlDType::Q4_1 => Gguf::Q4_1,
            GgmlDType::Q5_0 => Gguf::Q5_0,
            GgmlDType::Q5_1 => Gguf::Q5_1,
            GgmlDType::Q8_0 => Gguf::Q8_0,
            GgmlDType::Q2K => Gguf::Q2K,
            GgmlDType::Q3K => Gguf::Q3K,
            GgmlDType::Q4K => Gguf::Q4K,
            GgmlDType::Q5K => Gguf::Q5K,
            GgmlDType::Q6K => Gguf::Q6K,
            other => bail!("gguf_matrices: matrices must be of a quantised type of weights, got {other:?}"),
        };
        let (experts, n, k) = match *matrices.shape().dims() {
            [n, k] => (1, n, k),
            _ => matrices.shape().dims3()?,
        };
        let shape = (experts, n, k / kind.weights() * kind.bytes());
        let blocks = Tensor::from_vec(matrices.data()?.into_owned(), shape, device)?;
        Ok(GgufMatrices { blocks, kind })
    }

    /// The weights as floats of `dtype`, f32, f16 or bf16, `[experts, N, K]`.
    ///
    /// # Errors
    /// Other types, and lines that are not of whole blocks.
    pub fn dequantise(&self, dtype: DType) -> Result<Tensor> {
        one(&kernels::dequantise_gguf(self.kind, row_type(dtype, "dequantise_gguf")?), &[&self.blocks])
    }
}

/// Rows `a`, `[.., K]`, by the only matrix of `b`: `[.., N]`, of the type of `a`. There is no gradient.
///
/// Activations keep their type, where Candle's `QMatMul` makes int8 of up to eight rows. Few rows read the blocks as they are; of many
/// the weights are written out for the call, in the type of `a`.
///
/// # Errors
/// Shapes that do not fit, types other than f32, f16 and bf16, and tensors off rocfire's devices.
pub fn matmul_gguf(a: &Tensor, b: &GgufMatrices) -> Result<Tensor> {
    one(&kernels::matmul_gguf(b.kind), &[a, &b.blocks])
}

/// [`expert_matmul`](crate::expert_matmul) by matrices in blocks of GGUF. There is no gradient.
///
/// # Errors
/// As there.
pub fn expert_matmul_gguf(
    a: &Tensor,
    b: &GgufMatrices,
    by: &ByExpert,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
) -> Result<Tensor> {
    let inputs = [a, &b.blocks, &by.offsets, &by.order, &by.inverse];
    let inputs: Vec<_> = inputs.into_iter().chain(factor).collect();
    one(&kernels::expert_matmul_gguf(b.kind, epilogue), &inputs)
}

/// [`grouped_matmul`](crate::grouped_matmul) by matrices in blocks of GGUF. There is no gradient.
///
/// # Errors
/// As there.
pub fn grouped_matmul_gguf(
    a: &Tensor,
    b: &GgufMatrices,
    offsets: &Tensor,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
) -> Result<Tensor> {
    let inputs: Vec<_> = [a, &b.blocks, offsets].into_iter().chain(factor).collect();
    one(&kernels::grouped_matmul_gguf(b.kind, epilogue), &inputs)
}

/// [`experts`](crate::experts()) whose matrices are in blocks of GGUF: `gate` and `up` `[experts, d_hidden, d_model]`, `down` `[experts,
/// d_model, d_hidden]`.
///
/// # Errors
/// As there.
pub fn experts_gguf(
    x: &Tensor,
    [gate, up, down]: [&GgufMatrices; 3],
    ids: &Tensor,
    shares: &Tensor,
    activation: Activation,
) -> Result<Tensor> {
    let by = sort_by_expert(ids, gate.blocks.dim(0)?, None, None)?;
    let up = expert_matmul_gguf(x, up, &by, GroupedEpilogue::None, None)?;
    let hidden = expert_matmul_gguf(x, gate, &by, GroupedEpilogue::Gate(activation), Some(&up))?;
    let y = grouped_matmul_gguf(&hidden, down, &by.offsets, GroupedEpilogue::None, None)?;
    combine(&y, shares, &by, None)
}
