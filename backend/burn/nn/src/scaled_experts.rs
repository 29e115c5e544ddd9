//! Experts of codes by codes: matrices of fp8, int8 or microscaled formats, activations coded on the way. For inference: nothing here has
//! a gradient.

use burn::backend::DispatchTensor;
use burn::module::Module;
use burn::tensor::{DType, Int, Tensor};
use rocfire_burn::custom::operators::{self, Coding, GateParams, MatrixCoding};

use crate::{ByExpert, Coded, CodedMatrices, Experts, one, run};

/// Codes and scales of rows and of matrices, for an operator.
fn inputs(a: Coded, b: &CodedMatrices) -> impl Iterator<Item = DispatchTensor> {
    [a.codes.into_dispatch(), a.scales.into_dispatch()].into_iter().chain(b.inputs())
}

impl ByExpert {
    /// [`ByExpert::matmul`] of rows of codes by matrices of codes that lie along K ([`MatrixCoding::is_transposed`]), into f32, f16 or
    /// bf16; `None` off rocfire's devices. There is no gradient.
    ///
    /// # Panics
    /// As [`grouped_matmul`](crate::grouped_matmul).
    pub fn matmul_scaled(&self, a: Coded, b: &CodedMatrices, to: DType) -> Option<Tensor<2>> {
        let by = [&self.offsets, &self.order, &self.places].map(|of| of.clone().into_dispatch());
        let operator = operators::expert_matmul_scaled(a.coding, b.coding, to, b.layout.as_ref());
        one(run(operator, inputs(a, b).chain(by).collect()))
    }
}

/// [`grouped_matmul`](crate::grouped_matmul) of rows of codes by matrices of codes that lie along K ([`MatrixCoding::is_transposed`]), into
/// f32, f16 or bf16; `None` off rocfire's devices. There is no gradient.
///
/// # Panics
/// As there.
pub fn grouped_matmul_scaled(a: Coded, b: &CodedMatrices, offsets: Tensor<1, Int>, to: DType) -> Option<Tensor<2>> {
    let operator = operators::grouped_matmul_scaled(a.coding, b.coding, to, b.layout.as_ref());
    one(run(operator, inputs(a, b).chain([offsets.into_dispatch()]).collect()))
}

/// [`Experts`] whose matrices are codes and whose activations become codes, before either product.
#[derive(Module, Debug)]
pub struct ScaledExperts {
    /// Of `[experts, d_model, 2 d_hidden]`: gates and what they are multiplied with, in halves or as `gate` says.
    pub gate_up: CodedMatrices,
    /// Of `[experts, d_hidden, d_model]`.
    pub down: CodedMatrices,
    /// How activations are coded, those of either product.
    #[module(skip)]
    pub activations: Coding,
    /// What is between the products.
    #[module(skip)]
    pub gate: GateParams<'static>,
}

impl ScaledExperts {
    /// Codes the matrices of experts, by a coding that is transposed; `None` off rocfire's devices.
    ///
    /// # Panics
    /// As [`CodedMatrices::of`].
    pub fn new(experts: Experts, matrices: MatrixCoding, activations: Coding) -> Option<ScaledExperts> {
        let gate_up = Tensor::cat(vec![experts.gate.val().detach(), experts.up.val().detach()], 2);
        Some(ScaledExperts {
            gate_up: CodedMatrices::of(gate_up, matrices)?,
            down: CodedMatrices::of(experts.down.val(), matrices)?,
            activations,
            gate: GateParams::new(experts.activation),
        })
    }

    /// The same with [`CodedMatrices::laid_out`].
    pub fn laid_out(mut self) -> ScaledExperts {
        self.gate_up = self.gate_up.laid_out();
        self.down = self.down.laid_out();
        self
    }

    /// `Σ share · down(gate(gate_up(x)))` over the experts that a row of `x`, `[rows, d_model]`, has chosen, as [`Experts::forward`]; a
    /// choice of no expert counts nothing. Rows are coded once, however many experts they have, and gates are coded as they are made:
    /// six launches for few rows, and zeros for what is no expert's. Where activations have scales of their own rows, a row's result
    /// does not depend on the others.
    ///
    /// # Panics
    /// If shapes or codings do not fit, with the argument's name, told by whoever reads the result; off rocfire's devices; for tensors
    /// with a gradient.
    pub fn forward(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Tensor<2> {
        self.sorted(x, chosen, shares).expect("codes are on a device of rocfire's, so must the input be")
    }

    fn sorted(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Option<Tensor<2>> {
        let ([experts, ..], dtype) = (self.gate_up.codes.val().dims(), x.dtype());
        let by = ByExpert::new(chosen, experts)?;
        let rows = by.matmul_scaled(Coded::of(x, self.activations)?, &self.gate_up, dtype)?;
        let hidden = Coded::of_gate(rows, self.gate, self.activations)?;
        let y = grouped_matmul_scaled(hidden, &self.down, by.offsets.clone(), dtype)?;
        by.combine(y, shares, None)
    }
}
