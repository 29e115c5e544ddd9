//! Experts of codes by codes: matrices of fp8, int8 or microscaled formats, activations coded on the way. There are no gradients.

use candle_core::{DType, Result, Tensor};
use rocfire_kernels::operators as kernels;

use crate::operators::GateParams;
use crate::quantised::row_type;
use crate::record::one;
use crate::{ByExpert, Coded, CodedMatrices, Coding, combine, sort_by_expert};

/// [`expert_matmul`](crate::expert_matmul) of rows of codes by matrices of codes that lie along K
/// ([`MatrixCoding::is_transposed`](crate::MatrixCoding::is_transposed)), into f32, f16 or bf16. There is no gradient.
///
/// # Errors
/// As there; another type.
pub fn expert_matmul_scaled(a: &Coded, b: &CodedMatrices, by: &ByExpert, to: DType) -> Result<Tensor> {
    let to = row_type(to, "expert_matmul_scaled")?;
    let operator = kernels::expert_matmul_scaled(a.coding, b.coding, to, b.layout.as_ref());
    one(&operator, &[&a.codes, &a.scales, &b.codes, &b.scales, &by.offsets, &by.order, &by.inverse])
}

/// [`grouped_matmul`](crate::grouped_matmul) of rows of codes by matrices of codes that lie along K
/// ([`MatrixCoding::is_transposed`](crate::MatrixCoding::is_transposed)), into f32, f16 or bf16. There is no gradient.
///
/// # Errors
/// As there; another type.
pub fn grouped_matmul_scaled(a: &Coded, b: &CodedMatrices, offsets: &Tensor, to: DType) -> Result<Tensor> {
    let to = row_type(to, "grouped_matmul_scaled")?;
    let operator = kernels::grouped_matmul_scaled(a.coding, b.coding, to, b.layout.as_ref());
    one(&operator, &[&a.codes, &a.scales, &b.codes, &b.scales, offsets])
}

/// `Σ share · down(gate(gate_up(x)))` over the experts that each row of `x` has chosen, codes by codes: rows are coded once, however many
/// experts they have, and gates are coded as they are made. Six launches for few rows, and zeros for what is no expert's. A choice of
/// no expert counts nothing. Where activations have scales of their own rows, a row's result does not depend on the others.
///
/// # Shapes
/// `x`: `[rows, d_model]`, f32, f16 or bf16; `gate_up`: of `[experts, d_model, 2 d_hidden]`, in halves or as `gate` says, `down`: of
/// `[experts, d_hidden, d_model]`, both by codings that are transposed; `ids`, u32, i32 or i64, and `shares`, f32: `[rows, chosen]`.
///
/// # Errors
/// As [`expert_matmul_scaled`] and [`Coded::of_gate`].
pub fn experts_scaled(
    x: &Tensor,
    [gate_up, down]: [&CodedMatrices; 2],
    ids: &Tensor,
    shares: &Tensor,
    gate: GateParams<'static>,
    activations: Coding,
) -> Result<Tensor> {
    let by = sort_by_expert(ids, gate_up.codes.dim(0)?, None, None)?;
    let rows = expert_matmul_scaled(&Coded::of(x, activations)?, gate_up, &by, x.dtype())?;
    let hidden = Coded::of_gate(&rows, gate, activations)?;
    let y = grouped_matmul_scaled(&hidden, down, &by.offsets, x.dtype())?;
    combine(&y, shares, &by, None)
}
