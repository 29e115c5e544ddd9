//! The graph behind a product or convolution with its real tensors, when a plan runs.

use rocfire_fusion::{Graph, Scalar, run};
use rocfire_hal::{Layout, Tensor, View, ViewMut};

use super::plan::AxisMap;
use crate::error::Result;

/// A graph that runs behind a product or convolution, as its epilogue or by itself.
pub(super) struct EpilogueCall<'a> {
    pub(super) graph: &'a Graph,
    /// For each axis of the product's result, the axes of the iteration space that it is made of.
    pub(super) dims: &'a AxisMap,
    /// The extents of the iteration space.
    pub(super) extents: &'a [usize],
    /// The graph's inputs without the product's result, as views over the iteration space.
    pub(super) inputs: &'a [View<'a>],
    pub(super) scalars: &'a [Scalar],
}

impl EpilogueCall<'_> {
    /// Whether only the result itself is asked for. Then the kernel that the eager backend runs is enough.
    pub(super) fn is_bare(&self, outputs: &[ViewMut<'_>]) -> bool {
        self.graph.operators() == 0 && outputs.len() == 1 && self.inputs.is_empty()
    }

    /// Launches the graph by itself, on the contiguous result in memory. `outputs` are views over the iteration space.
    pub(super) fn run(&self, result: &Tensor, mut outputs: Vec<ViewMut<'_>>) -> Result<()> {
        let mut inputs = vec![result.view().with_layout(Layout::contiguous(self.extents)?)?];
        inputs.extend_from_slice(self.inputs);
        Ok(run(result.device().stream(), self.graph, self.extents, &inputs, self.scalars, &mut outputs)?)
    }
}
