//! Products of groups of rows by matrices in blocks of GGUF. Nothing here has gradients.

use rocfire_fusion::{Epilogue, Scalar, eager};
use rocfire_hal::{DType, Stream, Tensor};

use super::experts::{Chosen, GroupedEpilogue};
use super::tokens::of_type;
use super::{Operator, Spec};
use crate::Result;
use crate::gemm::GemmGroups;
use crate::quant::{Gguf, GgufMatrices, gguf_matmul_grouped, gguf_matmul_grouped_fused};

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
