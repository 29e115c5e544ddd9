//! Products of rows and of groups of rows by matrices in blocks of GGUF, and their weights. Nothing here has gradients.

use rocfire_fusion::{Epilogue, Scalar, eager};
use rocfire_hal::{DType, Stream, Tensor};

use super::experts::{Chosen, GroupedEpilogue};
use super::tokens::of_type;
use super::{Operator, Spec};
use crate::Result;
use crate::gemm::GemmGroups;
use crate::quant::{
    Gguf, GgufMatrices, ListedRows, gguf_dequantise, gguf_matmul, gguf_matmul_grouped, gguf_matmul_grouped_fused,
    gguf_matmul_listed,
};

/// The products and what becomes of them.
fn multiply(
    stream: &Stream,
    [a, blocks]: [&Tensor; 2],
    kind: Gguf,
    groups: &GemmGroups<'_>,
    (epilogue, factor): (GroupedEpilogue, Option<&Tensor>),
    c: &mut Tensor,
) -> Result<()> {
    eager::fill(c.view_mut(), Scalar::Int(0))?;
    let w = GgufMatrices { blocks: blocks.view(), kind };
    let (Some(graph), Some(factor)) = (epilogue.graph(a.dtype(), factor.map(Tensor::dtype)), factor) else {
        return gguf_matmul_grouped(stream, a.view(), &w, groups, c.view_mut());
    };
    let (extents, factor) = (c.shape().to_vec(), [factor.view()]);
    let outputs = [c.view_mut()];
    let epilogue = Epilogue::new(&graph, &extents, &factor, &[], &outputs)?;
    gguf_matmul_grouped_fused(stream, a.view(), &w, groups, &epilogue)
}

/// [`gguf_matmul`]: rows by one matrix.
///
/// # Inputs
/// `a` `[.., K]`, f32, f16 or bf16; blocks, u8, `[1, N, bytes of K weights]`. The output is `[.., N]`.
pub fn matmul_gguf(kind: Gguf) -> Operator {
    let output = |inputs: &[Spec]| {
        let rows = &inputs[0].shape[..inputs[0].shape.len().saturating_sub(1)];
        vec![Spec::new([rows, &[inputs[1].extent(1)]].concat(), inputs[0].dtype)]
    };
    Operator::new("matmul_gguf", &["a", "blocks"], output, move |stream, inputs, outputs| {
        let w = GgufMatrices { blocks: inputs[1].view(), kind };
        gguf_matmul(stream, inputs[0].view(), &w, outputs[0].view_mut())
    })
}

/// [`gguf_dequantise`]: weights as floats of `dtype`, f32, f16 or bf16.
///
/// # Inputs
/// Blocks, u8, `[matrices, N, bytes of K weights]`. The output is `[matrices, N, K]`.
pub fn dequantise_gguf(kind: Gguf, dtype: DType) -> Operator {
    let output = move |inputs: &[Spec]| {
        let k = inputs[0].extent(2) / kind.bytes() * kind.weights();
        vec![Spec::new([inputs[0].extent(0), inputs[0].extent(1), k], dtype)]
    };
    Operator::new("dequantise_gguf", &["blocks"], output, move |stream, inputs, outputs| {
        gguf_dequantise(stream, &GgufMatrices { blocks: inputs[0].view(), kind }, outputs[0].view_mut())
    })
}

/// [`grouped_matmul`](super::grouped_matmul) by matrices in blocks of GGUF.
///
/// # Inputs
/// `a` `[rows, K]`, f32, f16 or bf16; blocks, u8, `[experts, N, bytes of K weights]`; offsets `[experts + 1]`; but for
/// [`GroupedEpilogue::None`] the factor `[rows, N]`. The output is `[rows, N]`.
pub fn grouped_matmul_gguf(kind: Gguf, epilogue: GroupedEpilogue) -> Operator {
    let output = |inputs: &[Spec]| vec![Spec::new([inputs[0].extent(0), inputs[1].extent(1)], inputs[0].dtype)];
    let names = epilogue.names(&["a", "blocks", "offsets"]);
    Operator::new("grouped_matmul_gguf", &names, output, move |stream, inputs, outputs| {
        let offsets = of_type(stream, &inputs[2], DType::I32)?;
        let (groups, ending) = (GemmGroups::Offsets(offsets.view()), (epilogue, inputs.get(3)));
        multiply(stream, [&inputs[0], &inputs[1]], kind, &groups, ending, &mut outputs[0])
    })
}

/// [`expert_matmul`](super::expert_matmul) by matrices in blocks of GGUF.
///
/// # Inputs
/// `a` `[rows, K]`, f32, f16 or bf16; blocks, u8, `[experts, N, bytes of K weights]`; then what
/// [`sort_by_expert`](super::sort_by_expert) gives: offsets, the order `[places]`, and the place of each choice; but for
/// [`GroupedEpilogue::None`] the factor `[places, N]`. The output is `[places, N]`, rows that are no choice's zeros.
pub fn expert_matmul_gguf(kind: Gguf, epilogue: GroupedEpilogue) -> Operator {
    let output = |inputs: &[Spec]| vec![Spec::new([inputs[3].extent(0), inputs[1].extent(1)], inputs[0].dtype)];
    let names = epilogue.names(&["a", "blocks", "offsets", "order", "places"]);
    Operator::new("expert_matmul_gguf", &names, output, move |stream, inputs, outputs| {
        let chosen = Chosen::new(stream, &inputs[0], &inputs[2..5])?;
        let (groups, ending) = (chosen.groups(), (epilogue, inputs.get(5)));
        multiply(stream, [&inputs[0], &inputs[1]], kind, &groups, ending, &mut outputs[0])
    })
}

/// [`gguf_matmul_listed`] of every choice of every row: a matrix is read anew for each, which is the faster way for as few rows as
/// decoding has.
///
/// # Inputs
/// `a` `[rows, K]`, f32, f16 or bf16; blocks, u8, `[experts, N, bytes of K weights]`; the matrices `[rows · each]`, those of a row one
/// after the other, -1 for none. With `factors`, f32 `[rows · each]`, each row of the output is multiplied by one. The output is
/// `[rows · each, N]`, rows of no matrix zeros.
pub fn listed_matmul_gguf(kind: Gguf, factors: bool) -> Operator {
    let output = |inputs: &[Spec]| vec![Spec::new([inputs[2].extent(0), inputs[1].extent(1)], inputs[0].dtype)];
    let names = ["a", "blocks", "matrices", "factors"];
    let names = if factors { &names[..] } else { &names[..3] };
    Operator::new("listed_matmul_gguf", names, output, move |stream, inputs, outputs| {
        let (a, entries) = (&inputs[0], inputs[2].layout().len());
        eager::fill(outputs[0].view_mut(), Scalar::Int(0))?;
        if entries == 0 {
            return Ok(());
        }
        let matrices = of_type(stream, &inputs[2], DType::I32)?;
        let factors = inputs.get(3).map(|factors| of_type(stream, factors, DType::F32)).transpose()?;
        let list = ListedRows {
            choices: None,
            matrices: matrices.view(),
            each: entries / a.shape().first().copied().unwrap_or(1).max(1),
            factors: factors.as_ref().map(Tensor::view),
        };
        let w = GgufMatrices { blocks: inputs[1].view(), kind };
        gguf_matmul_listed(stream, a.view(), &w, &list, outputs[0].view_mut())
    })
}
