//! Layers and experts whose matrices are in blocks of GGUF. For inference: nothing here has a gradient.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{DType, Int, Tensor};
use rocfire_burn::custom::operators::{self, Activation, Gguf, GroupedEpilogue};

use crate::{ByExpert, one, run};

/// Matrices of experts in blocks of GGUF.
///
/// Its record has the blocks: it loads into matrices that were made for the same type.
#[derive(Module, Debug)]
pub struct GgufMatrices {
    /// Blocks, u8 `[experts, N, bytes of K weights]`.
    pub blocks: Param<Tensor<3, Int>>,
    /// What they are.
    #[module(skip)]
    pub kind: Gguf,
}

impl GgufMatrices {
    /// Blocks as a checkpoint has them, u8 `[experts, N, bytes of K weights]`.
    pub fn new(blocks: Tensor<3, Int>, kind: Gguf) -> GgufMatrices {
        GgufMatrices { blocks: Param::initialized(ParamId::new(), blocks), kind }
    }

    /// The weights as floats of `dtype`, f32, f16 or bf16, `[experts, N, K]`; `None` off rocfire's devices.
    ///
    /// # Panics
    /// For other types, and lines that are not of whole blocks.
    pub fn dequantise(&self, dtype: DType) -> Option<Tensor<3>> {
        one(run(operators::dequantise_gguf(self.kind, dtype), vec![self.blocks.val().into_dispatch()]))
    }
}

/// Rows `a`, `[.., K]`, by the only matrix of `b`: `[.., N]`, of the type of `a`; `None` off rocfire's devices. There is no gradient.
///
/// Few rows read the blocks as they are; of many the weights are written out for the call, in the type of `a`.
///
/// # Panics
/// If shapes do not fit; for types other than f32, f16 and bf16; for tensors with a gradient.
pub fn matmul_gguf<const D: usize>(a: Tensor<D>, b: &GgufMatrices) -> Option<Tensor<D>> {
    one(run(operators::matmul_gguf(b.kind), vec![a.into_dispatch(), b.blocks.val().into_dispatch()]))
}

/// `y = x · Wᵀ + bias` whose weight is in blocks of GGUF.
#[derive(Module, Debug)]
pub struct GgufLinear {
    /// Of `[1, d_output, d_input]`.
    pub weight: GgufMatrices,
    /// `[d_output]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl GgufLinear {
    /// `[.., d_input]` to `[.., d_output]`, of the type of `x`.
    ///
    /// # Panics
    /// As [`matmul_gguf`]; off rocfire's devices.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let y = matmul_gguf(x, &self.weight)
            .expect("blocks are read on rocfire's devices only, so must the input be there");
        match &self.bias {
            Some(bias) => {
                let dtype = y.dtype();
                y + bias.val().cast(dtype).unsqueeze()
            }
            None => y,
        }
    }
}

impl ByExpert {
    /// [`ByExpert::matmul`] by matrices in blocks of GGUF; `None` off rocfire's devices. There is no gradient.
    ///
    /// # Panics
    /// As [`grouped_matmul`](crate::grouped_matmul).
    pub fn matmul_gguf(
        &self,
        a: Tensor<2>,
        b: &GgufMatrices,
        epilogue: GroupedEpilogue,
        factor: Option<Tensor<2>>,
    ) -> Option<Tensor<2>> {
        let by = [&self.offsets, &self.order, &self.places].map(|of| of.clone().into_dispatch());
        let inputs = [a.into_dispatch(), b.blocks.val().into_dispatch()].into_iter().chain(by);
        let inputs = inputs.chain(factor.map(Tensor::into_dispatch)).collect();
        one(run(operators::expert_matmul_gguf(b.kind, epilogue), inputs))
    }
}

/// [`grouped_matmul`](crate::grouped_matmul) by matrices in blocks of GGUF; `None` off rocfire's devices. There is no gradient.
///
/// # Panics
/// As there.
pub fn grouped_matmul_gguf(
    a: Tensor<2>,
    b: &GgufMatrices,
    offsets: Tensor<1, Int>,
    epilogue: GroupedEpilogue,
    factor: Option<Tensor<2>>,
) -> Option<Tensor<2>> {
    let inputs = [a.into_dispatch(), b.blocks.val().into_dispatch(), offsets.into_dispatch()].into_iter();
    let inputs = inputs.chain(factor.map(Tensor::into_dispatch)).collect();
    one(run(operators::grouped_matmul_gguf(b.kind, epilogue), inputs))
}

/// Each row of `a`, `[rows, K]`, by the matrices that it has chosen, `[rows, each]`, -1 for none: `[rows · each, N]`, each row times its
/// of `factors`, `[rows, each]`; `None` off rocfire's devices. There is no gradient.
///
/// A matrix is read anew for each choice: the faster way for as few rows as decoding has, and no sort stands before it. A choice's
/// bits are those of [`ByExpert::matmul_gguf`] of few rows; the next read of the device is an error if a matrix is not there.
///
/// # Panics
/// If shapes do not fit; for types other than f32, f16 and bf16; for tensors with a gradient.
pub fn listed_matmul_gguf(
    a: Tensor<2>,
    b: &GgufMatrices,
    matrices: Tensor<2, Int>,
    factors: Option<Tensor<2>>,
) -> Option<Tensor<2>> {
    let [rows, each] = matrices.dims();
    let factors = factors.map(|factors| factors.reshape([rows * each]).into_dispatch());
    let operator = operators::listed_matmul_gguf(b.kind, factors.is_some());
    let matrices = matrices.reshape([rows * each]).into_dispatch();
    let inputs = [a.into_dispatch(), b.blocks.val().into_dispatch(), matrices].into_iter().chain(factors).collect();
    one(run(operator, inputs))
}

/// [`Experts`](crate::Experts) whose matrices are in blocks of GGUF, each line along what it is multiplied by.
#[derive(Module, Debug)]
pub struct GgufExperts {
    /// Of `[experts, d_hidden, d_model]`.
    pub gate: GgufMatrices,
    /// Of `[experts, d_hidden, d_model]`.
    pub up: GgufMatrices,
    /// Of `[experts, d_model, d_hidden]`.
    pub down: GgufMatrices,
    /// What the gates go through.
    #[module(skip)]
    pub activation: Activation,
}

impl GgufExperts {
    /// `Σ share · down(activation(gate(x)) · up(x))` over the experts that a row of `x`, `[rows, d_model]`, has chosen, as
    /// [`Experts::forward`](crate::Experts::forward): six launches.
    ///
    /// # Panics
    /// If shapes do not fit; off rocfire's devices; for tensors with a gradient.
    pub fn forward(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Tensor<2> {
        self.sorted(x, chosen, shares).expect("blocks are read on rocfire's devices only, so must the input be there")
    }

    fn sorted(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Option<Tensor<2>> {
        let [experts, ..] = self.gate.blocks.val().dims();
        let by = ByExpert::new(chosen, experts)?;
        let up = by.matmul_gguf(x.clone(), &self.up, GroupedEpilogue::None, None)?;
        let hidden = by.matmul_gguf(x, &self.gate, GroupedEpilogue::Gate(self.activation), Some(up))?;
        let y = grouped_matmul_gguf(hidden, &self.down, by.offsets.clone(), GroupedEpilogue::None, None)?;
        by.combine(y, shares, None)
    }
}
