//! Products of groups of rows by matrices of codes, and the codes of such matrices. Nothing here has gradients.

use rocfire_fusion::{Epilogue, Scalar, eager};
use rocfire_hal::{DType, Layout, Stream, Tensor, View};

use super::experts::{Chosen, GroupedEpilogue};
use super::tokens::of_type;
use super::{Operator, Spec};
use crate::Result;
use crate::family::shape;
use crate::gemm::GemmGroups;
use crate::quant::{
    self, CodeLayout, CodedMatrix, Coding, Format, PeakRule, Rounding, ScaleKind, Scales, block_peaks, store_scales,
};

/// How the matrices of experts are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixCoding {
    /// What a code means.
    pub format: Format,
    /// K and N that share a scale; more than there are for all.
    pub block: [usize; 2],
    /// The type of the scales.
    pub kind: ScaleKind,
    /// Whether codes and scales are those of the transposed matrices, as checkpoints have them: codes of few bits then lie along K.
    /// Along N they are read fastest for few rows.
    pub is_transposed: bool,
}

impl MatrixCoding {
    /// Codes along N, scales in f32.
    pub const fn new(format: Format, block: [usize; 2]) -> MatrixCoding {
        MatrixCoding { format, block, kind: ScaleKind::F32, is_transposed: false }
    }

    /// The shape of the codes' bytes of `[experts, K, N]`, and that of the scales.
    pub fn shapes(&self, [count, k, n]: [usize; 3]) -> [[usize; 3]; 2] {
        let ([k, n], [of_k, of_n]) = (self.turned([k, n]), self.turned(self.block));
        let bytes = n.div_ceil(8 / self.format.bits());
        [[count, k, bytes], [count, k.div_ceil(of_k.max(1)), n.div_ceil(of_n.max(1))]]
    }

    fn turned<T>(&self, [k, n]: [T; 2]) -> [T; 2] {
        if self.is_transposed { [n, k] } else { [k, n] }
    }

    /// Of matrices as they lie, of so many columns.
    fn layout(&self, columns: usize) -> CodeLayout {
        match self.format.bits() {
            8 => CodeLayout::bytes(self.format),
            _ => CodeLayout::packed(self.format, 2, columns),
        }
    }

    /// N of codes whose bytes are of this shape, of rows of `k`.
    pub(super) fn columns(&self, bytes: &[usize]) -> usize {
        match (self.is_transposed, bytes) {
            (true, &[_, n, _]) => n,
            (false, &[_, _, bytes]) => bytes * (8 / self.format.bits()),
            _ => 0,
        }
    }

    /// `multiply` by the only matrix of `codes` the other way round, `[N, K]`: a row for each output.
    pub(super) fn with_outputs<T>(
        &self,
        codes: &Tensor,
        scales: &Tensor,
        k: usize,
        multiply: impl FnOnce(&CodedMatrix<'_>) -> Result<T>,
    ) -> Result<T> {
        let by_output = |arg: &'static str, of: &Tensor| -> Result<Layout> {
            let &[1, rows, columns] = of.shape() else {
                return Err(shape("coded_matrix", arg, "of one matrix, [1, .., ..]", format!("{:?}", of.shape())));
            };
            let layout = of.layout().reshape(&[rows, columns]).expect("an axis of one matrix is left out");
            Ok(if self.is_transposed { layout } else { layout.swap(0, 1)? })
        };
        let words = codes.view().with_layout(by_output("codes", codes)?)?;
        let scales = scales.view().with_layout(by_output("scales", scales)?)?;
        let n = self.columns(codes.shape());
        let layout = match (self.format.bits(), self.is_transposed) {
            (8, _) => CodeLayout::bytes(self.format),
            (_, true) => CodeLayout::packed(self.format, 1, k),
            (_, false) => CodeLayout::packed(self.format, 0, n),
        };
        let block = [self.block[1].min(n.max(1)), self.block[0].min(k.max(1))];
        let scales = Scales { view: scales, kind: self.kind, block: &block, global: None };
        multiply(&CodedMatrix { words, layout: &layout, scales: Some(&scales) })
    }

    /// `multiply` by the matrices `[experts, K, N]`.
    fn with<T>(
        &self,
        codes: &Tensor,
        scales: &Tensor,
        k: usize,
        multiply: impl FnOnce(&CodedMatrix<'_>) -> Result<T>,
    ) -> Result<T> {
        const OP: &str = "coded_matmul";
        for (arg, of) in [("codes", codes), ("scales", scales)] {
            if of.layout().rank() != 3 {
                return Err(shape(OP, arg, "three axes, experts and a matrix", format!("{:?}", of.shape())));
            }
        }
        let turned = |of: &Layout| if self.is_transposed { of.swap(1, 2) } else { Ok(*of) };
        let (words, scales) =
            (codes.view().with_layout(turned(codes.layout())?)?, scales.view().with_layout(turned(scales.layout())?)?);
        let n = self.columns(codes.shape());
        let layout = match (self.format.bits(), self.is_transposed) {
            (8, _) => CodeLayout::bytes(self.format),
            (_, true) => CodeLayout::packed(self.format, 1, k),
            (_, false) => CodeLayout::packed(self.format, 2, n),
        };
        let block = [1, self.block[0].min(k.max(1)), self.block[1].min(n.max(1))];
        let scales = Scales { view: scales, kind: self.kind, block: &block, global: None };
        multiply(&CodedMatrix { words, layout: &layout, scales: Some(&scales) })
    }
}

/// The codes of matrices and their scales, each of which brings the largest of its block to the largest number of the format.
///
/// # Inputs
/// Matrices `[experts, K, N]`, f32, f16 or bf16. The outputs are codes, u8, and scales, of [`MatrixCoding::shapes`].
pub fn code_matrices(coding: MatrixCoding) -> Operator {
    let outputs = move |inputs: &[Spec]| {
        let [codes, scales] = coding.shapes([0, 1, 2].map(|axis| inputs[0].extent(axis)));
        vec![Spec::new(codes, DType::U8), Spec::new(scales, coding.kind.dtype())]
    };
    Operator::new("code_matrices", &["matrices"], outputs, move |stream, inputs, outputs| {
        const OP: &str = "code_matrices";
        let matrices = &inputs[0];
        if matrices.layout().rank() != 3 || coding.block.contains(&0) {
            let got = format!("{:?} in blocks of {:?}", matrices.shape(), coding.block);
            return Err(shape(OP, "matrices", "[experts, K, N] in blocks of K and N", got));
        }
        let lies = if coding.is_transposed { matrices.layout().swap(1, 2)? } else { *matrices.layout() };
        let x = matrices.view().with_layout(lies)?;
        let [rows, cols] = coding.turned(coding.block);
        let block = [1, rows.min(x.shape()[1]).max(1), cols.min(x.shape()[2]).max(1)];
        let per = 8 / coding.format.bits();
        if !coding.is_transposed && !x.shape()[2].is_multiple_of(per) {
            return Err(shape(OP, "matrices", format!("columns in whole bytes of {per} codes"), x.shape()[2]));
        }
        let [codes, scales] = outputs else { unreachable!("two outputs were described") };
        let mut peaks = Tensor::empty(x.device(), scales.shape(), DType::F32)?;
        let rule = PeakRule::ratio(1.0, coding.format.largest());
        block_peaks(stream, x, &block, rule, peaks.view_mut())?;
        store_scales(stream, peaks.view(), 1.0, None, coding.kind, scales.view_mut())?;
        let layout = coding.layout(x.shape()[2]);
        let scales = Scales { view: scales.view(), kind: coding.kind, block: &block, global: None };
        let coding = Coding { layout: &layout, scales: Some(&scales), rounding: Rounding::Even, symmetric: true };
        quant::quantise(stream, x, &coding, codes.view_mut())
    })
}

/// The products and what becomes of them.
fn multiply(
    stream: &Stream,
    a: View<'_>,
    w: &CodedMatrix<'_>,
    groups: &GemmGroups<'_>,
    (epilogue, factor): (GroupedEpilogue, Option<&Tensor>),
    c: &mut Tensor,
) -> Result<()> {
    eager::fill(c.view_mut(), Scalar::Int(0))?;
    let (Some(graph), Some(factor)) = (epilogue.graph(a.dtype(), factor.map(Tensor::dtype)), factor) else {
        return quant::q_matmul_grouped(stream, a, w, groups, c.view_mut());
    };
    let (extents, factor) = (c.shape().to_vec(), [factor.view()]);
    let outputs = [c.view_mut()];
    let epilogue = Epilogue::new(&graph, &extents, &factor, &[], &outputs)?;
    quant::q_matmul_grouped_fused(stream, a, w, groups, &epilogue)
}

/// [`grouped_matmul`](super::grouped_matmul) by matrices of codes.
///
/// # Inputs
/// `a` `[rows, K]`, f32, f16 or bf16; codes and scales as [`code_matrices`] gives them; offsets `[experts + 1]`; but for
/// [`GroupedEpilogue::None`] the factor `[rows, N]`. The output is `[rows, N]`.
pub fn grouped_matmul_coded(coding: MatrixCoding, epilogue: GroupedEpilogue) -> Operator {
    let output = move |inputs: &[Spec]| {
        vec![Spec::new([inputs[0].extent(0), coding.columns(&inputs[1].shape)], inputs[0].dtype)]
    };
    let names = epilogue.names(&["a", "codes", "scales", "offsets"]);
    Operator::new("grouped_matmul_coded", &names, output, move |stream, inputs, outputs| {
        let offsets = of_type(stream, &inputs[3], DType::I32)?;
        let (groups, ending) = (GemmGroups::Offsets(offsets.view()), (epilogue, inputs.get(4)));
        let k = inputs[0].shape().last().copied().unwrap_or(0);
        coding.with(&inputs[1], &inputs[2], k, |w| {
            multiply(stream, inputs[0].view(), w, &groups, ending, &mut outputs[0])
        })
    })
}

/// [`expert_matmul`](super::expert_matmul) by matrices of codes.
///
/// # Inputs
/// `a` `[rows, K]`, f32, f16 or bf16; codes and scales as [`code_matrices`] gives them; then what
/// [`sort_by_expert`](super::sort_by_expert) gives: offsets, the order `[places]`, and the place of each choice; but for
/// [`GroupedEpilogue::None`] the factor `[places, N]`. The output is `[places, N]`, rows that are no choice's zeros.
pub fn expert_matmul_coded(coding: MatrixCoding, epilogue: GroupedEpilogue) -> Operator {
    let output = move |inputs: &[Spec]| {
        vec![Spec::new([inputs[4].extent(0), coding.columns(&inputs[1].shape)], inputs[0].dtype)]
    };
    let names = epilogue.names(&["a", "codes", "scales", "offsets", "order", "places"]);
    Operator::new("expert_matmul_coded", &names, output, move |stream, inputs, outputs| {
        let chosen = Chosen::new(stream, &inputs[0], &inputs[3..6])?;
        let (groups, ending) = (chosen.groups(), (epilogue, inputs.get(6)));
        let k = inputs[0].shape().last().copied().unwrap_or(0);
        coding.with(&inputs[1], &inputs[2], k, |w| {
            multiply(stream, inputs[0].view(), w, &groups, ending, &mut outputs[0])
        })
    })
}
