//! Experts whose matrices are codes: fp8, int8, few bits and microscaled formats. For inference: nothing here has a gradient.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Int, Tensor};
use rocfire_burn::custom::operators::{
    self, Activation, Format, GroupedEpilogue, MatrixCoding, MatrixLayout, ScaleKind,
};

use crate::tokens::whole;
use crate::{ByExpert, Experts, one, run};

/// Matrices of experts in codes, with the scales of their blocks.
///
/// Its record has codes and scales: it loads into matrices that were made for the same coding.
#[derive(Module, Debug)]
pub struct CodedMatrices {
    /// Codes, u8, of [`MatrixCoding::shapes`].
    pub codes: Param<Tensor<3, Int>>,
    /// Their scales, of a float type.
    pub scales: Option<Param<Tensor<3>>>,
    /// Their scales, the bits of a type of a byte.
    pub bytes: Option<Param<Tensor<3, Int>>>,
    /// What they are.
    #[module(skip)]
    pub coding: MatrixCoding,
    /// Where they are laid out, [`CodedMatrices::laid_out`].
    #[module(skip)]
    pub layout: Option<MatrixLayout>,
}

impl CodedMatrices {
    /// Codes of `[experts, K, N]`, f32, f16 or bf16; `None` off rocfire's devices.
    ///
    /// # Panics
    /// Where the result is read, for another type, or a block without elements.
    pub fn of(matrices: Tensor<3>, coding: MatrixCoding) -> Option<CodedMatrices> {
        let inputs = vec![matrices.detach().inner().into_dispatch()];
        let mut outputs = run(operators::code_matrices(coding), inputs)?.into_iter();
        let (codes, scales) = (whole(&mut outputs)?, outputs.next()?);
        Some(match coding.kind {
            ScaleKind::E8M0 | ScaleKind::E4M3 => {
                CodedMatrices::from_codes(codes, None, Some(Tensor::from_dispatch(scales)), coding)
            }
            _ => CodedMatrices::from_codes(codes, Some(Tensor::from_dispatch(scales)), None, coding),
        })
    }

    /// Codes as a checkpoint has them, with scales of one of the two kinds, of [`MatrixCoding::shapes`].
    pub fn from_codes(
        codes: Tensor<3, Int>,
        scales: Option<Tensor<3>>,
        bytes: Option<Tensor<3, Int>>,
        coding: MatrixCoding,
    ) -> CodedMatrices {
        let scales = scales.map(Param::from_tensor);
        let bytes = bytes.map(|bytes| Param::initialized(ParamId::new(), bytes));
        CodedMatrices { codes: Param::initialized(ParamId::new(), codes), scales, bytes, coding, layout: None }
    }

    /// The same, laid out once, when they are first multiplied by codes ([`ByExpert::matmul_scaled`]), for products that read them past
    /// LDS where that gains something; they then lie in memory twice. Clones share what was laid out. The record is as it was.
    pub fn laid_out(mut self) -> CodedMatrices {
        self.layout = Some(MatrixLayout::default());
        self
    }

    /// A checkpoint's codes of OCP's E4M3 as the E4M3 that MI300 multiplies natively, as [`Coded::to_fnuz`](crate::Coded::to_fnuz).
    /// `None` off rocfire's devices.
    ///
    /// # Panics
    /// For codes of another format, and scales that are not f32.
    pub fn to_fnuz(&self) -> Option<CodedMatrices> {
        let (Format::E4M3, ScaleKind::F32, Some(scales)) = (self.coding.format, self.coding.kind, &self.scales) else {
            panic!("to_fnuz: coding must be E4M3 with scales of f32, got {:?}", self.coding)
        };
        let codes = run(operators::halve_to_fnuz(), vec![self.codes.val().into_dispatch()])?.into_iter().next()?;
        let coding = MatrixCoding { format: Format::E4M3Fnuz, ..self.coding };
        let scales = scales.val().detach().mul_scalar(2.0);
        Some(CodedMatrices::from_codes(Tensor::from_dispatch(codes), Some(scales), None, coding))
    }

    /// Codes and scales, for an operator.
    pub(crate) fn inputs(&self) -> [burn::backend::DispatchTensor; 2] {
        let scales = self.scales.as_ref().map(|scales| scales.val().detach().into_dispatch());
        let scales = scales.or_else(|| self.bytes.as_ref().map(|bytes| bytes.val().into_dispatch()));
        [self.codes.val().into_dispatch(), scales.expect("codes have scales of one kind")]
    }
}

impl ByExpert {
    /// [`ByExpert::matmul`] by matrices of codes. There is no gradient.
    ///
    /// # Panics
    /// As [`grouped_matmul`](crate::grouped_matmul).
    pub fn matmul_coded(
        &self,
        a: Tensor<2>,
        b: &CodedMatrices,
        epilogue: GroupedEpilogue,
        factor: Option<Tensor<2>>,
    ) -> Option<Tensor<2>> {
        let by = [&self.offsets, &self.order, &self.places].map(|of| of.clone().into_dispatch());
        let inputs = std::iter::once(a.into_dispatch()).chain(b.inputs()).chain(by);
        let inputs = inputs.chain(factor.map(Tensor::into_dispatch)).collect();
        one(run(operators::expert_matmul_coded(b.coding, epilogue), inputs))
    }
}

/// [`grouped_matmul`](crate::grouped_matmul) by matrices of codes; `None` off rocfire's devices. There is no gradient.
///
/// # Panics
/// As there.
pub fn grouped_matmul_coded(
    a: Tensor<2>,
    b: &CodedMatrices,
    offsets: Tensor<1, Int>,
    epilogue: GroupedEpilogue,
    factor: Option<Tensor<2>>,
) -> Option<Tensor<2>> {
    let [codes, scales] = b.inputs();
    let inputs = [a.into_dispatch(), codes, scales, offsets.into_dispatch()].into_iter();
    let inputs = inputs.chain(factor.map(Tensor::into_dispatch)).collect();
    one(run(operators::grouped_matmul_coded(b.coding, epilogue), inputs))
}

/// [`Experts`] whose matrices are codes.
#[derive(Module, Debug)]
pub struct QuantExperts {
    /// `[experts, d_model, d_hidden]`.
    pub gate: CodedMatrices,
    /// `[experts, d_model, d_hidden]`.
    pub up: CodedMatrices,
    /// `[experts, d_hidden, d_model]`.
    pub down: CodedMatrices,
    /// What the gates go through.
    #[module(skip)]
    pub activation: Activation,
}

impl QuantExperts {
    /// Codes the matrices of experts; `None` off rocfire's devices.
    ///
    /// # Panics
    /// As [`CodedMatrices::of`].
    pub fn new(experts: Experts, coding: MatrixCoding) -> Option<QuantExperts> {
        let [gate, up, down] =
            [experts.gate, experts.up, experts.down].map(|matrices| CodedMatrices::of(matrices.val(), coding));
        Some(QuantExperts { gate: gate?, up: up?, down: down?, activation: experts.activation })
    }

    /// `Σ share · down(activation(gate(x)) · up(x))` over the experts that a row of `x`, `[rows, d_model]`, has chosen, as
    /// [`Experts::forward`]: six launches.
    ///
    /// # Panics
    /// If shapes do not fit; off rocfire's devices; for tensors with a gradient.
    pub fn forward(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Tensor<2> {
        self.sorted(x, chosen, shares).expect("codes are on a device of rocfire's, so must the input be")
    }

    fn sorted(&self, x: Tensor<2>, chosen: Tensor<2, Int>, shares: Tensor<2>) -> Option<Tensor<2>> {
        let [experts, ..] = self.gate.codes.val().dims();
        let by = ByExpert::new(chosen, experts)?;
        let up = by.matmul_coded(x.clone(), &self.up, GroupedEpilogue::None, None)?;
        let hidden = by.matmul_coded(x, &self.gate, GroupedEpilogue::Gate(self.activation), Some(up))?;
        let y = grouped_matmul_coded(hidden, &self.down, by.offsets.clone(), GroupedEpilogue::None, None)?;
        by.combine(y, shares, None)
    }
}
