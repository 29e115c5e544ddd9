//! Experts of a mixture: products of rows by the matrices that they have chosen, and what is left of them for each row.

use candle_core::{Result, Tensor, bail};
use rocfire_kernels::gate::Activation;
use rocfire_kernels::operators::{self as kernels, GroupedEpilogue, MatrixCoding, MatrixLayout};
use rocfire_kernels::quant::{Format, ScaleKind};

use crate::record::{apply, one};
use crate::{ByExpert, grouped_matmul, sort_by_expert};

/// Rows of `a` by the matrices of the experts that they have chosen, in one launch: [`grouped_matmul`] where a row lies in memory
/// once, however many experts it has. Without an epilogue `a` and `b` have gradients.
///
/// # Shapes
/// `a`: `[rows, K]`; `b`: `[experts, K, N]`; `by`: as [`sort_by_expert`] gives it, as many choices for each row; `factor` as the epilogue
/// says. The result is `[places, N]`, rows that are no choice's zeros.
///
/// # Errors
/// As [`grouped_matmul`].
pub fn expert_matmul(
    a: &Tensor,
    b: &Tensor,
    by: &ByExpert,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
) -> Result<Tensor> {
    let inputs: Vec<_> = [a, b, &by.offsets, &by.order, &by.inverse].into_iter().chain(factor).collect();
    one(&kernels::expert_matmul(epilogue), &inputs)
}

/// `Σ share · (row + bias)` over what each token has chosen, `[tokens, N]`, in one launch and with the same bits on every run. Rows and
/// shares have gradients.
///
/// # Shapes
/// `rows`: `[places, N]`, as `by` orders them; `shares`: `[tokens, chosen]`, f32; `bias`: that of each expert, `[experts, N]`.
///
/// # Errors
/// As [`grouped_matmul`].
pub fn combine(rows: &Tensor, shares: &Tensor, by: &ByExpert, bias: Option<&Tensor>) -> Result<Tensor> {
    let inputs: Vec<_> = [rows, shares, &by.inverse, &by.offsets].into_iter().chain(bias).collect();
    one(&kernels::combine(bias.is_some()), &inputs)
}

/// `Σ share · down(activation(gate(x)) · up(x))` over the experts that each row of `x` has chosen: six launches without gradients, the
/// gate part of a product. A choice of no expert counts nothing.
///
/// # Shapes
/// `x`: `[rows, d_model]`; `gate`, `up`: `[experts, d_model, d_hidden]`, `down`: `[experts, d_hidden, d_model]`; `ids`, u32, i32 or
/// i64, and `shares`, f32: `[rows, chosen]`.
///
/// # Errors
/// As [`grouped_matmul`]; a variable among these: [`expert_matmul`] and [`combine`] have gradients.
pub fn experts(
    x: &Tensor,
    [gate, up, down]: [&Tensor; 3],
    ids: &Tensor,
    shares: &Tensor,
    activation: Activation,
) -> Result<Tensor> {
    let by = sort_by_expert(ids, gate.dim(0)?, None, None)?;
    let up = expert_matmul(x, up, &by, GroupedEpilogue::None, None)?;
    let hidden = expert_matmul(x, gate, &by, GroupedEpilogue::Gate(activation), Some(&up))?;
    let y = grouped_matmul(&hidden, down, &by.offsets, GroupedEpilogue::None, None)?;
    combine(&y, shares, &by, None)
}

/// Matrices of experts in codes, with the scales of their blocks. There are no gradients.
#[derive(Clone, Debug)]
pub struct CodedMatrices {
    /// Codes, u8, of [`MatrixCoding::shapes`].
    pub codes: Tensor,
    /// Scales, of the type that the coding says, bits of types of a byte as u8.
    pub scales: Tensor,
    /// What they are.
    pub coding: MatrixCoding,
    /// Where they are laid out, [`CodedMatrices::laid_out`]; else `None`.
    pub layout: Option<MatrixLayout>,
}

impl CodedMatrices {
    /// Codes of `[experts, K, N]`, f32, f16 or bf16.
    ///
    /// # Errors
    /// Another type, shape or device; a block without elements.
    pub fn of(matrices: &Tensor, coding: MatrixCoding) -> Result<CodedMatrices> {
        let outputs = apply(&kernels::code_matrices(coding), &[matrices])?;
        let Ok([codes, scales]) = <[_; 2]>::try_from(outputs) else { unreachable!("two outputs were described") };
        Ok(CodedMatrices::from_codes(codes, scales, coding))
    }

    /// Codes as a checkpoint has them and their scales, both of [`MatrixCoding::shapes`].
    pub fn from_codes(codes: Tensor, scales: Tensor, coding: MatrixCoding) -> CodedMatrices {
        CodedMatrices { codes, scales, coding, layout: None }
    }

    /// The same, laid out once, when they are first multiplied by codes ([`expert_matmul_scaled`](crate::expert_matmul_scaled)), for
    /// products that read them past LDS where that gains something; they then lie in memory twice. Clones share what was laid out.
    pub fn laid_out(mut self) -> CodedMatrices {
        self.layout = Some(MatrixLayout::default());
        self
    }

    /// A checkpoint's codes of OCP's E4M3 as the E4M3 that MI300 multiplies natively, as [`Coded::to_fnuz`](crate::Coded::to_fnuz).
    ///
    /// # Errors
    /// Codes of another format; scales that are not f32.
    pub fn to_fnuz(&self) -> Result<CodedMatrices> {
        if self.coding.format != Format::E4M3 || self.coding.kind != ScaleKind::F32 {
            bail!("to_fnuz: coding must be E4M3 with scales of f32, got {:?}", self.coding);
        }
        let codes = one(&kernels::halve_to_fnuz(), &[&self.codes])?;
        let coding = MatrixCoding { format: Format::E4M3Fnuz, ..self.coding };
        Ok(CodedMatrices::from_codes(codes, (&self.scales * 2.0)?, coding))
    }
}

/// [`expert_matmul`] by matrices of codes. There is no gradient.
///
/// # Errors
/// As there.
pub fn expert_matmul_coded(
    a: &Tensor,
    b: &CodedMatrices,
    by: &ByExpert,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
) -> Result<Tensor> {
    let inputs = [a, &b.codes, &b.scales, &by.offsets, &by.order, &by.inverse];
    let inputs: Vec<_> = inputs.into_iter().chain(factor).collect();
    one(&kernels::expert_matmul_coded(b.coding, epilogue), &inputs)
}

/// [`grouped_matmul`] by matrices of codes. There is no gradient.
///
/// # Errors
/// As there.
pub fn grouped_matmul_coded(
    a: &Tensor,
    b: &CodedMatrices,
    offsets: &Tensor,
    epilogue: GroupedEpilogue,
    factor: Option<&Tensor>,
) -> Result<Tensor> {
    let inputs: Vec<_> = [a, &b.codes, &b.scales, offsets].into_iter().chain(factor).collect();
    one(&kernels::grouped_matmul_coded(b.coding, epilogue), &inputs)
}

/// [`experts`] whose matrices are codes.
///
/// # Errors
/// As there.
pub fn experts_coded(
    x: &Tensor,
    [gate, up, down]: [&CodedMatrices; 3],
    ids: &Tensor,
    shares: &Tensor,
    activation: Activation,
) -> Result<Tensor> {
    let by = sort_by_expert(ids, gate.codes.dim(0)?, None, None)?;
    let up = expert_matmul_coded(x, up, &by, GroupedEpilogue::None, None)?;
    let hidden = expert_matmul_coded(x, gate, &by, GroupedEpilogue::Gate(activation), Some(&up))?;
    let y = grouped_matmul_coded(&hidden, down, &by.offsets, GroupedEpilogue::None, None)?;
    combine(&y, shares, &by, None)
}
