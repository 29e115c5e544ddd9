//! Products of groups of rows of codes by matrices of codes, in rows or laid out. Nothing here has gradients.

use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Stream, Tensor};

use super::coded_experts::MatrixCoding;
use super::experts::Chosen;
use super::laid_out::MatrixLayout;
use super::tokens::of_type;
use super::{Coding, Operator, Spec, rows};
use crate::Result;
use crate::family::shape;
use crate::gemm::GemmGroups;
use crate::quant::{CodedStack, PreshuffledMatrices, q_matmul_preshuffled_grouped, q_matmul_scaled_grouped};

/// The products: codes and scales of rows, then codes and scales of matrices.
fn multiply(
    stream: &Stream,
    [a, a_scales, b, b_scales]: [&Tensor; 4],
    (of_a, of_b, layout): (Coding, MatrixCoding, Option<&MatrixLayout>),
    groups: &GemmGroups<'_>,
    c: &mut Tensor,
) -> Result<()> {
    const OP: &str = "matmul_scaled";
    if !of_b.is_transposed {
        return Err(shape(OP, "b.coding", "of transposed matrices, whose codes lie along K", format!("{of_b:?}")));
    }
    let &[_, n, bytes] = b.shape() else {
        return Err(shape(OP, "b.codes", "three axes, experts and a matrix", format!("{:?}", b.shape())));
    };
    let k = bytes * 8 / of_b.format.bits();
    let block = [of_b.block[1].min(n.max(1)), of_b.block[0].min(k.max(1))];
    let (format, kind, scales) = (of_b.format, of_b.kind, b_scales.view());
    let a = rows(of_a, a, a_scales);
    eager::fill(c.view_mut(), Scalar::Int(0))?;
    let Some(layout) = layout else {
        let b = CodedStack { format, codes: b.view(), scales, kind, block };
        return q_matmul_scaled_grouped(stream, &a, &b, groups, c.view_mut());
    };
    layout.with((stream, format), b, |weight| {
        let b = PreshuffledMatrices { weight, scales, kind, block };
        q_matmul_preshuffled_grouped(stream, &a, &b, groups, c.view_mut())
    })
}

/// [`grouped_matmul`](super::grouped_matmul) of rows of codes by matrices of codes, into f32, f16 or bf16.
///
/// # Inputs
/// Codes and scales of `a` as [`coded`](super::coded) gives them, `[rows, K]`; codes and scales of `b` as
/// [`code_matrices`](super::code_matrices) gives them for a coding that is transposed, `[experts, N, K]`; offsets `[experts + 1]`. The
/// output is `[rows, N]`. With a layout, the matrices are multiplied by as they lie there.
pub fn grouped_matmul_scaled(a: Coding, b: MatrixCoding, to: DType, layout: Option<&MatrixLayout>) -> Operator {
    let layout = layout.cloned();
    let output = move |inputs: &[Spec]| vec![Spec::new([inputs[0].extent(0), b.columns(&inputs[2].shape)], to)];
    let names = ["a.codes", "a.scales", "b.codes", "b.scales", "offsets"];
    Operator::new("grouped_matmul_scaled", &names, output, move |stream, inputs, outputs| {
        let offsets = of_type(stream, &inputs[4], DType::I32)?;
        let groups = GemmGroups::Offsets(offsets.view());
        multiply(stream, [0, 1, 2, 3].map(|at| &inputs[at]), (a, b, layout.as_ref()), &groups, &mut outputs[0])
    })
}

/// [`expert_matmul`](super::expert_matmul) of rows of codes by matrices of codes, into f32, f16 or bf16.
///
/// # Inputs
/// Codes and scales of both as [`grouped_matmul_scaled`] takes them; then what [`sort_by_expert`](super::sort_by_expert) gives: offsets,
/// the order `[places]`, and the place of each choice. The output is `[places, N]`, rows that are no choice's zeros. With a layout, the
/// matrices are multiplied by as they lie there.
pub fn expert_matmul_scaled(a: Coding, b: MatrixCoding, to: DType, layout: Option<&MatrixLayout>) -> Operator {
    let layout = layout.cloned();
    let output = move |inputs: &[Spec]| vec![Spec::new([inputs[5].extent(0), b.columns(&inputs[2].shape)], to)];
    let names = ["a.codes", "a.scales", "b.codes", "b.scales", "offsets", "order", "places"];
    Operator::new("expert_matmul_scaled", &names, output, move |stream, inputs, outputs| {
        let chosen = Chosen::new(stream, &inputs[0], &inputs[4..7])?;
        let inputs = [0, 1, 2, 3].map(|at| &inputs[at]);
        multiply(stream, inputs, (a, b, layout.as_ref()), &chosen.groups(), &mut outputs[0])
    })
}
