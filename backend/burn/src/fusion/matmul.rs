//! Runs a matrix product with the graph behind it: in one launch, or in two if the tensors do not lie as the launcher takes them.
//!
//! The launcher gets the product's rows and batches axis by axis, as reshapes have split them, so that a tensor may be broadcast over
//! part of the rows; it merges the axes that it can. Columns must be one axis for every tensor. Where they are not, the product is one
//! launch and the graph another; the bits are the same. Two launches are also made where the vendor's library is so much faster than
//! our own kernel that the second launch pays.

use rocfire_fusion::Epilogue;
use rocfire_hal::{Error as HalError, Layout, MAX_RANK, Tensor, ViewMut};
use rocfire_kernels::gemm::{GemmParams, gemm, gemm_apart, gemm_fused};

use super::epilogue::EpilogueCall;
use super::plan::AxisMap;
use crate::error::Result;
use crate::ops::matmul::matmul;

/// A product with real tensors, ready to run.
pub(super) struct Call<'a> {
    pub(super) lhs: &'a Tensor,
    pub(super) rhs: &'a Tensor,
    pub(super) folded: Option<&'a Folded>,
    pub(super) epilogue: EpilogueCall<'a>,
}

impl Call<'_> {
    /// Launches the product and the graph. `outputs` are views over the iteration space.
    pub(super) fn run(&self, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        match self.folded {
            Some(folded) if self.epilogue.is_bare(&outputs) => self.bare(folded, outputs),
            Some(folded) => match gemm_apart(self.lhs.device().stream(), self.lhs.view(), self.rhs.view())? {
                Some(product) => self.epilogue.run(&product, outputs),
                None => self.fused(folded, outputs),
            },
            None => self.epilogue.run(&matmul(self.lhs, self.rhs)?, outputs),
        }
    }

    /// Launches the product with the graph as its epilogue.
    fn fused(&self, folded: &Folded, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let inputs = self.epilogue.inputs.iter().zip(&folded.inputs).map(|(input, layout)| input.with_layout(*layout));
        let inputs = inputs.collect::<std::result::Result<Vec<_>, HalError>>()?;
        let outputs = outputs.into_iter().zip(&folded.outputs).map(|(output, layout)| output.with_layout(*layout));
        let outputs = outputs.collect::<std::result::Result<Vec<_>, HalError>>()?;
        let epilogue = Epilogue::new(self.epilogue.graph, &folded.shape, &inputs, self.epilogue.scalars, &outputs)?;
        let (lhs, rhs) = (self.lhs.view().with_layout(folded.lhs)?, self.rhs.view().with_layout(folded.rhs)?);
        Ok(gemm_fused(self.lhs.device().stream(), lhs, rhs, &epilogue, &GemmParams::default())?)
    }

    /// Launches the product alone, where nothing follows it.
    fn bare(&self, folded: &Folded, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let (lhs, rhs) = (self.lhs.view().with_layout(folded.lhs)?, self.rhs.view().with_layout(folded.rhs)?);
        for (output, layout) in outputs.into_iter().zip(&folded.outputs) {
            gemm(self.lhs.device().stream(), lhs, rhs, output.with_layout(*layout)?, &GemmParams::default())?;
        }
        Ok(())
    }
}

/// How the tensors of a product lie for its launcher. Every axis except the columns is split as in the iteration space.
#[derive(Debug)]
pub(super) struct Folded {
    lhs: Layout,
    rhs: Layout,
    /// The shape of the result.
    shape: Vec<usize>,
    inputs: Vec<Layout>,
    outputs: Vec<Layout>,
}

impl Folded {
    /// For matrices of these layouts, and for inputs and outputs over a space of `extents`. `dims` has for each axis of the result the axes
    /// of the space that it is made of. `None` if these are too many, or if a tensor does not step through an axis by one stride.
    pub(super) fn new(
        dims: &AxisMap,
        extents: &[usize],
        [lhs, rhs]: [&Layout; 2],
        inputs: &[Layout],
        outputs: &[Layout],
    ) -> Option<Folded> {
        let split = Split { dims, extents };
        let parts = split.parts()?;
        let shape: Vec<usize> = parts.iter().map(|axes| axes.iter().map(|axis| extents[*axis]).product()).collect();
        let (lhs, rhs) = (split.operand(lhs, true)?, split.operand(rhs, false)?);
        let over_result = |layout: &Layout| fold(layout, &parts, &shape, extents).ok();
        let inputs = inputs.iter().map(over_result).collect::<Option<Vec<_>>>()?;
        let outputs = outputs.iter().map(over_result).collect::<Option<Vec<_>>>()?;
        Some(Folded { lhs, rhs, shape, inputs, outputs })
    }
}

/// The axes of a product's result in the iteration space.
struct Split<'a> {
    dims: &'a AxisMap,
    extents: &'a [usize],
}

impl Split<'_> {
    /// For each axis of the launcher's result, the axes of the space that it is made of; `None` if the result has too many axes.
    fn parts(&self) -> Option<AxisMap> {
        let (columns, others) = self.dims.split_last()?;
        let (rows, batches) = others.split_last()?;
        // Rows of extent 1 have no axis in the space, but the product needs an axis for them.
        let row_axes: AxisMap =
            if rows.is_empty() { vec![vec![]] } else { rows.iter().map(|axis| vec![*axis]).collect() };
        let mut parts: AxisMap = batches.iter().flatten().map(|axis| vec![*axis]).collect();
        parts.extend(row_axes);
        parts.push(columns.clone());
        (parts.len() <= MAX_RANK).then_some(parts)
    }

    /// The layout of a matrix with its batch axes split, and with rows split if it is the left one.
    fn operand(&self, layout: &Layout, is_left: bool) -> Option<Layout> {
        let (own, strides) = (layout.shape(), layout.strides());
        let rank = own.len();
        let (mut shape, mut split) = (Vec::new(), Vec::new());
        let mut push = |axes: &[usize], extent: usize, stride: i64| {
            // A broadcast axis has stride 0 in every part. A part of a split axis has the axis's stride times the extents of the parts
            // inside it.
            let mut inner: i64 = axes.iter().map(|axis| self.extents[*axis] as i64).product();
            for axis in axes {
                inner /= (self.extents[*axis] as i64).max(1);
                shape.push(if extent == 1 { 1 } else { self.extents[*axis] });
                split.push(if extent == 1 { 0 } else { stride * inner });
            }
        };
        let batches = self.dims.len() - 2;
        for (dim, axes) in self.dims[..batches].iter().enumerate() {
            match (dim + rank).checked_sub(self.dims.len()) {
                Some(at) => push(axes, own[at], strides[at]),
                None => push(axes, 1, 0),
            }
        }
        let rows = &self.dims[batches];
        let (line, depth) = (rank - 2, rank - 1);
        if is_left {
            push(rows, own[line], strides[line]);
        } else {
            // The right matrix is the same for all rows. The last of their axes is the product's own; the others become batches.
            push(&rows[..rows.len().saturating_sub(1)], 1, 0);
        }
        if !is_left || rows.is_empty() {
            shape.push(own[line]);
            split.push(strides[line]);
        }
        shape.push(own[depth]);
        split.push(strides[depth]);
        Layout::strided(&shape, &split, layout.offset()).ok()
    }
}

/// A layout over the iteration space as one over a product of this shape. `parts` has for each axis of the product the axes of the
/// space that it is made of.
///
/// # Errors
/// A shape error if the tensor does not step through such axes with one stride.
pub(super) fn fold(layout: &Layout, parts: &AxisMap, shape: &[usize], extents: &[usize]) -> Result<Layout> {
    let strides = layout.strides();
    debug_assert_eq!(layout.rank(), extents.len(), "tensors were laid over the iteration space");
    let mut folded = Vec::with_capacity(parts.len());
    for (axes, extent) in parts.iter().zip(shape) {
        let mut stride = axes.last().map_or(0, |axis| strides[*axis]);
        let mut expected = stride;
        for axis in axes.iter().rev() {
            if strides[*axis] != expected && *extent > 0 && extents[*axis] > 1 {
                let axes = format!("{extents:?} with strides {strides:?}");
                return Err(HalError::shape("fused", "epilogue", "axes of one stride", axes).into());
            }
            expected = expected.wrapping_mul(extents[*axis] as i64);
        }
        if *extent == 1 {
            stride = 0;
        }
        folded.push(stride);
    }
    Ok(Layout::strided(shape, &folded, layout.offset())?)
}
