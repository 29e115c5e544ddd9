//! Running a product with what is fused behind it: one launch, or two where the tensors do not lie as it takes.
//!
//! The product's rows and batches are handed over axis by axis, as reshapes have split them, so that a tensor may broadcast
//! over part of the rows; the launcher merges what it can. Columns must be one axis for every tensor. Where they are not, the
//! product is computed by itself and the graph behind it: the same bits. So it is where the vendor's library is so much faster
//! than our own kernels that another launch pays.

use rocfire_fusion::Epilogue;
use rocfire_hal::{Layout, MAX_RANK, Tensor, ViewMut};
use rocfire_kernels::gemm::{GemmParams, gemm, gemm_apart, gemm_fused};

use super::epilogue::EpilogueCall;
use super::plan::AxisMap;
use crate::error::Result;
use crate::ops::matmul::matmul;

/// A product at hand.
pub(super) struct Call<'a> {
    pub(super) lhs: &'a Tensor,
    pub(super) rhs: &'a Tensor,
    pub(super) epilogue: EpilogueCall<'a>,
}

impl Call<'_> {
    /// Computes the product and the graph. `outputs` are over the iteration space.
    pub(super) fn run(&self, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        match self.split() {
            Some(split) if self.epilogue.is_bare(&outputs) => self.bare(&split, outputs),
            Some(split) => match gemm_apart(self.lhs.device().stream(), self.lhs.view(), self.rhs.view())? {
                Some(product) => self.epilogue.run(&product, outputs),
                None => self.fused(&split, outputs),
            },
            None => self.epilogue.run(&matmul(self.lhs, self.rhs)?, outputs),
        }
    }

    fn fused(&self, split: &Split, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let inputs = self.epilogue.inputs.iter().map(|input| Ok(input.with_layout(split.fold(self, input.layout())?)?));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let outputs = outputs.into_iter().map(|output| {
            let layout = split.fold(self, output.layout())?;
            Ok(output.with_layout(layout)?)
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let epilogue = Epilogue::new(self.epilogue.graph, &split.shape, &inputs, self.epilogue.scalars, &outputs)?;
        let (lhs, rhs) = (self.lhs.view().with_layout(split.lhs)?, self.rhs.view().with_layout(split.rhs)?);
        Ok(gemm_fused(self.lhs.device().stream(), lhs, rhs, &epilogue, &GemmParams::default())?)
    }

    fn bare(&self, split: &Split, outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let (lhs, rhs) = (self.lhs.view().with_layout(split.lhs)?, self.rhs.view().with_layout(split.rhs)?);
        for output in outputs {
            let layout = split.fold(self, output.layout())?;
            gemm(self.lhs.device().stream(), lhs, rhs, output.with_layout(layout)?, &GemmParams::default())?;
        }
        Ok(())
    }

    /// The operands with every axis but the columns split as the iteration space is; `None` if those are too many axes.
    fn split(&self) -> Option<Split> {
        let (columns, others) = self.epilogue.dims.split_last()?;
        let (rows, batches) = others.split_last()?;
        let mut parts: Vec<Vec<usize>> = batches.to_vec();
        // An extent of 1 has no axis of the space, and stays an axis of the product.
        let row_axes: Vec<Vec<usize>> =
            if rows.is_empty() { vec![vec![]] } else { rows.iter().map(|axis| vec![*axis]).collect() };
        parts = parts.into_iter().flat_map(|dim| dim.into_iter().map(|axis| vec![axis])).collect();
        parts.extend(row_axes);
        parts.push(columns.clone());
        if parts.len() > MAX_RANK {
            return None;
        }
        let extent = |axes: &Vec<usize>| axes.iter().map(|axis| self.epilogue.extents[*axis]).product();
        let shape: Vec<usize> = parts.iter().map(extent).collect();
        let split = Split { lhs: self.operand(self.lhs, true)?, rhs: self.operand(self.rhs, false)?, shape, parts };
        let views = self.epilogue.inputs.iter().map(|input| input.layout());
        views.into_iter().all(|layout| split.fold(self, layout).is_ok()).then_some(split)
    }

    /// The layout of an operand with batches and, of the left one, rows split.
    fn operand(&self, tensor: &Tensor, is_left: bool) -> Option<Layout> {
        let (own, strides) = (tensor.shape(), tensor.layout().strides());
        let rank = own.len();
        let (mut shape, mut split) = (Vec::new(), Vec::new());
        let mut push = |axes: &[usize], extent: usize, stride: i64| {
            // Broadcast, or split into axes of which each is the inner ones' extents apart.
            let mut inner: i64 = axes.iter().map(|axis| self.epilogue.extents[*axis] as i64).product();
            for axis in axes {
                inner /= (self.epilogue.extents[*axis] as i64).max(1);
                shape.push(if extent == 1 { 1 } else { self.epilogue.extents[*axis] });
                split.push(if extent == 1 { 0 } else { stride * inner });
            }
        };
        let batches = self.epilogue.dims.len() - 2;
        for (dim, axes) in self.epilogue.dims[..batches].iter().enumerate() {
            match (dim + rank).checked_sub(self.epilogue.dims.len()) {
                Some(at) => push(axes, own[at], strides[at]),
                None => push(axes, 1, 0),
            }
        }
        let rows = &self.epilogue.dims[batches];
        let (line, depth) = (rank - 2, rank - 1);
        if is_left {
            push(rows, own[line], strides[line]);
        } else {
            // The right operand is the same for all rows; one axis of them is the product's own.
            push(&rows[..rows.len().saturating_sub(1)], 1, 0);
        }
        if !is_left || rows.is_empty() {
            shape.push(own[line]);
            split.push(strides[line]);
        }
        shape.push(own[depth]);
        split.push(strides[depth]);
        Layout::strided(&shape, &split, tensor.layout().offset()).ok()
    }
}

/// The product with its rows and batches split.
struct Split {
    lhs: Layout,
    rhs: Layout,
    shape: Vec<usize>,
    /// The axes of the iteration space that each of its axes is.
    parts: AxisMap,
}

impl Split {
    /// A layout over the iteration space as one over the product.
    fn fold(&self, call: &Call<'_>, layout: &Layout) -> Result<Layout> {
        fold(layout, &self.parts, &self.shape, call.epilogue.extents)
    }
}

/// A layout over the iteration space as one over a product of this shape: `parts` are the axes of the space that each of its
/// axes is.
///
/// # Errors
/// A shape, if the tensor does not step through such axes with one stride.
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
                return Err(rocfire_hal::Error::shape("fused", "epilogue", "axes of one stride", axes).into());
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
