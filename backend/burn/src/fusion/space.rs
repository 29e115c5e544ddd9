//! A kernel's iteration space in one run: its extents, and where each real tensor lies in it.

use burn_ir::TensorId;
use rocfire_hal::{Device, Layout, Tensor};
use rocfire_kernels::conv::gives_channels_last;

use super::arrange::Turn;
use super::bindings::Bindings;
use super::laid::LaidInput;
use super::plan::{AxisMap, Convolve, Input, Kernel, Multiply, Output};
use crate::error::Result;

/// The axis of a convolution's result, or of images, that has their channels.
const CHANNELS: usize = 1;

/// The number of axes of images: a batch, channels, and two of space.
const IMAGE_RANK: usize = 4;

/// How an output lies in memory.
pub(super) struct Placed {
    /// How many elements it has.
    pub(super) count: usize,
    /// Its layout over the iteration space.
    pub(super) layout: Layout,
    /// Its stride along each primitive axis; 0 along those that it does not have.
    pub(super) strides: Vec<i64>,
}

/// The extents of a kernel's axes in one run.
pub(super) struct Space<'a> {
    kernel: &'a Kernel,
    pub(super) extents: Vec<usize>,
}

impl<'a> Space<'a> {
    pub(super) fn new(kernel: &'a Kernel, bindings: &Bindings) -> Space<'a> {
        let extent = |(tensor, dim): &(TensorId, usize)| bindings.tensor(*tensor).shape[*dim];
        Space { kernel, extents: kernel.axes.iter().map(extent).collect() }
    }

    /// The extents of the graph's iteration space, in which the row is one axis.
    pub(super) fn shape(&self) -> Vec<usize> {
        let mut shape: Vec<usize> = self.kernel.outer.iter().map(|axis| self.extents[*axis]).collect();
        if !self.kernel.row.is_empty() {
            shape.push(self.row_extent());
        }
        shape
    }

    pub(super) fn row_extent(&self) -> usize {
        self.kernel.row.iter().map(|axis| self.extents[*axis]).product()
    }

    /// The layout of a tensor in memory over the iteration space. `None` if the row's axes do not lie one behind the other in it; they do
    /// in a contiguous copy.
    pub(super) fn input(&self, input: &Input, own: &Layout) -> Result<Option<Layout>> {
        match input.turn {
            Some(turn) => self.turned(turn, &self.strides_of(&input.map, own.strides()), own.offset()),
            None => self.whole_input(input, own),
        }
    }

    /// The same for a tensor that steps through the whole row with one stride in this run, even where the row is cut.
    pub(super) fn whole_input(&self, input: &Input, own: &Layout) -> Result<Option<Layout>> {
        let strides = self.strides_of(&input.map, own.strides());
        let layout = self.layout(&strides, own.offset(), input.per_row)?;
        layout.map(|layout| with_free(input, own, layout)).transpose()
    }

    /// The layout of a tensor that has the row in two sides, with an axis in front that the graph looks up along. A tensor with both
    /// sides has element `outer · a + inner · b`, which is `index · (a - extent · b) + column · b`: for each step along the outer side the
    /// column has gone `extent · b` too far, and the index takes that back.
    fn turned(&self, turn: Turn, strides: &[i64], offset: i64) -> Result<Option<Layout>> {
        let (outer, inner) = self.kernel.row.split_at(self.kernel.cut);
        let (Some(a), Some(b)) = (self.one_stride(outer, strides), self.one_stride(inner, strides)) else {
            return Ok(None);
        };
        let extent = |axes: &[usize]| axes.iter().map(|axis| self.extents[*axis]).product::<usize>();
        let back = extent(inner) as i64 * b;
        let (count, step, along) = match turn {
            // Otherwise the element at the ends of both sides would not be the farthest one, which the layout's bounds assume.
            Turn::Both if b < 0 || a < back => return Ok(None),
            Turn::Both => (extent(outer), a - back, b),
            Turn::Outer => (extent(outer), a, 0),
            Turn::Inner => (extent(inner), b, 0),
        };
        let mut shape = vec![count];
        shape.extend(self.shape());
        let mut by_axis = vec![step];
        by_axis.extend(self.kernel.outer.iter().map(|axis| strides[*axis]));
        by_axis.push(along);
        Ok(Some(Layout::strided(&shape, &by_axis, offset)?))
    }

    /// The one stride that steps through all of these axes; `None` if it takes several.
    fn one_stride(&self, axes: &[usize], strides: &[i64]) -> Option<i64> {
        let (last, others) = axes.split_last()?;
        let (mut expected, mut inner) = (strides[*last], self.extents[*last]);
        for axis in others.iter().rev() {
            expected = expected.wrapping_mul(inner as i64);
            if strides[*axis] != expected && self.row_extent() > 0 {
                return None;
            }
            inner = self.extents[*axis];
        }
        Some(strides[*last])
    }

    /// The axes that should be innermost in the outputs of a product's kernel. They are the channels of a convolution if the next one
    /// reads them so. A kernel that is only a convolution has none: the eager backend chooses for that.
    pub(super) fn innermost(&self, product: &Multiply, bases: &[Tensor], device: &Device) -> Vec<usize> {
        let Multiply { lhs, rhs, dims, convolution: Some(Convolve { window, .. }) } = product else {
            return Vec::new();
        };
        let extent = |axes: &Vec<usize>| axes.iter().map(|axis| self.extents[*axis]).product();
        let y: Vec<usize> = dims.iter().map(extent).collect();
        let (x, weight) = (&bases[*lhs], &bases[*rhs]);
        let ends = self.kernel.graph.operators() > 0 || self.kernel.outputs.iter().any(|output| output.is_narrow);
        let pays = ends && gives_channels_last(device, x.dtype(), x.shape(), weight.shape(), &y, &window.params());
        if pays { dims[CHANNELS].clone() } else { Vec::new() }
    }

    /// The same for a kernel without a product: the channels of images, if it reads an image that has them innermost. So what a
    /// convolution leaves with its channels innermost comes to the next convolution in the same way.
    pub(super) fn channels_of(&self, inputs: &[LaidInput]) -> Vec<usize> {
        let mut images = self.kernel.outputs.iter().filter(|output| !output.per_row).flat_map(|output| &output.tensors);
        let channels = |(_, map): &(TensorId, AxisMap)| (map.len() == IMAGE_RANK).then(|| map[CHANNELS].clone());
        let Some(first) = images.next().and_then(channels) else { return Vec::new() };
        let place = self.kernel.outer.iter().position(|axis| [*axis] == first[..]);
        let Some(place) = place.filter(|_| images.all(|image| channels(image).as_ref() == Some(&first))) else {
            return Vec::new();
        };
        let shape = self.shape();
        let has_them_innermost = |laid: &LaidInput| {
            let strides = laid.layout.strides();
            let covers =
                laid.layout.shape() == shape && shape.iter().zip(strides).all(|(&n, &step)| n == 1 || step != 0);
            covers && shape[place] > 1 && strides[place] == 1
        };
        if inputs.iter().any(has_them_innermost) { first } else { Vec::new() }
    }

    /// How an output lies in memory of its own.
    pub(super) fn output(&self, output: &Output, innermost: &[usize]) -> Result<Placed> {
        let count = output.memory.iter().map(|axis| self.extents[*axis]).product::<usize>();
        let (outer, inner): (Vec<usize>, Vec<usize>) =
            output.memory.iter().copied().partition(|axis| !innermost.contains(axis));
        let mut strides = self.strides_in([outer, inner].concat());
        // A tensor that has some of the axes merged must still step through these with one stride.
        let is_one = |axes: &Vec<usize>| axes.len() < 2 || self.one_stride(axes, &strides).is_some();
        let steps = |(_, map): &(TensorId, AxisMap)| map.iter().all(is_one);
        if !innermost.is_empty() && !output.tensors.iter().all(steps) {
            strides = self.strides_in(output.memory.clone());
        }
        let layout = self.layout(&strides, 0, output.per_row)?;
        let layout = layout.expect("the axes of a row lie side by side in what the kernel writes");
        Ok(Placed { count, layout, strides })
    }

    /// The stride along each primitive axis of a contiguous tensor whose axes lie in this order, slowest first.
    fn strides_in(&self, order: Vec<usize>) -> Vec<i64> {
        let shape: Vec<usize> = order.iter().map(|axis| self.extents[*axis]).collect();
        let mut strides = vec![0; self.extents.len()];
        for (axis, stride) in order.into_iter().zip(contiguous_strides(&shape)) {
            strides[axis] = stride;
        }
        strides
    }

    /// The stride along each primitive axis from the strides of a tensor's own axes; 0 along axes that the tensor is broadcast over.
    fn strides_of(&self, map: &AxisMap, by_dim: &[i64]) -> Vec<i64> {
        let mut strides = vec![0; self.extents.len()];
        for (axes, stride) in map.iter().zip(by_dim) {
            let mut stride = *stride;
            for axis in axes.iter().rev() {
                strides[*axis] = stride;
                stride = stride.wrapping_mul(self.extents[*axis] as i64);
            }
        }
        strides
    }

    /// The layout over the iteration space of a tensor with these strides by primitive axis; `None` if it does not step through a row with
    /// one stride.
    fn layout(&self, strides: &[i64], offset: i64, per_row: bool) -> Result<Option<Layout>> {
        let mut shape = self.shape();
        let mut by_axis: Vec<i64> = self.kernel.outer.iter().map(|axis| strides[*axis]).collect();
        if !self.kernel.row.is_empty() {
            let Some(stride) = self.one_stride(&self.kernel.row, strides) else { return Ok(None) };
            by_axis.push(if per_row { 0 } else { stride });
            if per_row {
                *shape.last_mut().expect("a space with a row has a last axis") = 1;
            }
        }
        Ok(Some(Layout::strided(&shape, &by_axis, offset)?))
    }

    /// The layout of a tensor over its own axes, from strides by primitive axis.
    pub(super) fn own_layout(&self, map: &AxisMap, strides: &[i64], shape: &[usize]) -> Result<Layout> {
        // An extent of 1 has no primitive axis. Any stride will do for it; that of a row-major tensor is the tidiest.
        let tidy = contiguous_strides(shape);
        let by_dim: Vec<i64> =
            map.iter().zip(tidy).map(|(axes, tidy)| axes.last().map_or(tidy, |axis| strides[*axis])).collect();
        Ok(Layout::strided(shape, &by_dim, 0)?)
    }
}

/// A layout over the iteration space, and in front of it the axis that the graph looks up along, if there is one.
fn with_free(input: &Input, own: &Layout, over_space: Layout) -> Result<Layout> {
    let Some(dim) = input.free else { return Ok(over_space) };
    let (mut shape, mut strides) = (vec![own.shape()[dim]], vec![own.strides()[dim]]);
    shape.extend_from_slice(over_space.shape());
    strides.extend_from_slice(over_space.strides());
    Ok(Layout::strided(&shape, &strides, over_space.offset())?)
}

fn contiguous_strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at] * shape[at].max(1) as i64;
    }
    strides
}
