//! What follows a product or a convolution, at hand: the graph that ends its kernel, and the tensors of that.

use rocfire_fusion::{Graph, Scalar, run};
use rocfire_hal::{Layout, Tensor, View, ViewMut};

use super::plan::AxisMap;
use crate::error::Result;

/// See the module's description.
pub(super) struct EpilogueCall<'a> {
    pub(super) graph: &'a Graph,
    /// The axes of the iteration space that each axis of the result is.
    pub(super) dims: &'a AxisMap,
    /// Of the iteration space.
    pub(super) extents: &'a [usize],
    /// The graph's inputs but the result, over the iteration space.
    pub(super) inputs: &'a [View<'a>],
    pub(super) scalars: &'a [Scalar],
}

impl EpilogueCall<'_> {
    /// Whether the result itself is asked for, and only that: the very kernel that the eager backend runs gives it.
    pub(super) fn is_bare(&self, outputs: &[ViewMut<'_>]) -> bool {
        self.graph.operators() == 0 && outputs.len() == 1 && self.inputs.is_empty()
    }

    /// Computes the graph from a contiguous result in memory. `outputs` are over the iteration space.
    pub(super) fn run(&self, result: &Tensor, mut outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let mut inputs = vec![result.view().with_layout(Layout::contiguous(self.extents)?)?];
        inputs.extend_from_slice(self.inputs);
        Ok(run(result.device().stream(), self.graph, self.extents, &inputs, self.scalars, &mut outputs)?)
    }
}
