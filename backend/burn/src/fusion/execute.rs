//! Running a plan: real tensors for relative ones, layouts over the iteration space, one launch.
//!
//! What fails here, before the launch, becomes the error of every tensor that the plan should have written, as a failure on
//! the device does later: nothing panics.

use std::time::Instant;

use burn_backend::Slice;
use burn_ir::{TensorError, TensorId, TensorStatus};
use rocfire_fusion::{Graph, Scalar, run};
use rocfire_hal::{DType, Device, Error as HalError, Layout, Tensor};
use rocfire_kernels::conv::gives_channels_last;
use rocfire_kernels::random::Seed;

use super::arrange::Turn;
use super::bindings::Bindings;
use super::epilogue::EpilogueCall;
use super::handle;
use super::plan::{AxisMap, Convolve, Input, Kernel, Multiply, Number, Output, Plan, Source};
use super::{convolution, matmul};
use crate::RocmDevice;
use crate::error::{Error, Result, execution};
use crate::ops::elementwise::scalar;
use crate::ops::{memory, random, view};

/// The axis of a convolution's result that has its channels.
const CHANNELS: usize = 1;

/// Runs the plan's kernels; what fails leaves its error in the tensors that it would have written.
pub(super) fn execute(plan: &Plan, device: &RocmDevice, draws: &[Seed], bindings: &mut Bindings) {
    let (bases, device) = match failure(&plan.sources, bindings) {
        Some(error) => return claim_all(plan, &error, bindings),
        None => match fetch(plan, bindings).and_then(|bases| Ok((bases, device.open()?))) {
            Ok(ready) => ready,
            Err(error) => return claim_all(plan, &TensorError::new(execution(error)), bindings),
        },
    };
    for (step, tensor) in plan.steps.iter().zip(&bases.tensors[plan.sources.len()..]).filter(|(step, _)| step.live) {
        let global = &bindings.tensor(step.id);
        bindings.handles.register_handle(global.id, handle::wrap(tensor.clone(), global.dtype));
    }
    for kernel in &plan.kernels {
        if let Err(error) = run_kernel(plan, kernel, &bases, draws, &device, bindings) {
            tracing::debug!(target: "rocfire::fusion", kernel = kernel.kind.name(), %error, "failed before its launch");
            claim(kernel, &TensorError::new(execution(error)), bindings);
        }
    }
}

/// The next draws of a device's sequence; none where it cannot be opened, which is then the error of what draws.
pub(super) fn draw(device: &RocmDevice, count: usize) -> Vec<Seed> {
    let open = if count == 0 { None } else { device.open().ok() };
    open.map_or_else(Vec::new, |device| (0..count).map(|_| random::next(device.id())).collect())
}

/// Makes a failure that of everything that a plan should have made.
fn claim_all(plan: &Plan, error: &TensorError, bindings: &mut Bindings) {
    plan.kernels.iter().for_each(|kernel| claim(kernel, error, bindings));
    for step in plan.steps.iter().filter(|step| step.live) {
        bindings.handles.set_error(bindings.tensor(step.id).id, error.clone());
    }
}

/// Makes a failure that of everything that the kernel should have written.
fn claim(kernel: &Kernel, error: &TensorError, bindings: &mut Bindings) {
    for (id, _) in kernel.outputs.iter().flat_map(|output| &output.tensors) {
        bindings.handles.set_error(bindings.tensor(*id).id, error.clone());
    }
}

fn run_kernel(
    plan: &Plan,
    kernel: &Kernel,
    bases: &Bases,
    draws: &[Seed],
    device: &Device,
    bindings: &mut Bindings,
) -> Result<()> {
    let graph = &kernel.graph;
    let space = Space::new(kernel, bindings);
    let inputs = kernel.inputs.iter().map(|input| space.input(input, &bases.tensors[input.base]));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let outputs = kernel.outputs.iter().zip(graph.outputs());
    let innermost = space.innermost(&bases.tensors, device);
    let outputs = outputs.map(|(output, value)| space.output(output, graph.dtype(*value), innermost, device));
    let mut outputs = outputs.collect::<Result<Vec<_>>>()?;
    reuse(plan, kernel, &bases.owned, &inputs, &mut outputs);
    let scalars = kernel.scalars.iter().map(|number| match number {
        Number::Scalar(number) => scalar(bindings.scalar(*number).into()),
        Number::Extent(tensor, dim) => Scalar::Int(bindings.tensor(*tensor).shape[*dim] as i64),
        Number::Start(range, tensor, dim) => {
            Scalar::Int(start(&bindings.ranges[*range], bindings.tensor(*tensor).shape[*dim]))
        }
        Number::Step(range) => Scalar::Int(bindings.ranges[*range].step() as i64),
        Number::Seed(draw) => Scalar::Uint(draws[*draw].seed),
        Number::Offset(draw) => Scalar::Uint(draws[*draw].offset),
        Number::Replay => Scalar::Uint(device.stream().replay_address().unwrap_or(0)),
    });
    let scalars: Vec<Scalar> = scalars.collect();
    let start = Instant::now();
    match &kernel.product {
        None => launch(graph, &space.shape(), device, &inputs, &scalars, &mut outputs)?,
        Some(product) => {
            let inputs: Vec<_> = inputs.iter().map(Tensor::view).collect();
            let epilogue = EpilogueCall {
                graph,
                dims: &product.dims,
                extents: &space.extents,
                inputs: &inputs,
                scalars: &scalars,
            };
            let [lhs, rhs] = [product.lhs, product.rhs].map(|base| &bases.tensors[base]);
            let outputs = outputs.iter_mut().map(|output| output.tensor.view_mut().with_layout(output.layout));
            let outputs = outputs.collect::<std::result::Result<Vec<_>, HalError>>()?;
            match &product.convolution {
                None => matmul::Call { lhs, rhs, epilogue }.run(outputs)?,
                Some(Convolve { window, bias }) => {
                    let bias = bias.map(|base| &bases.tensors[base]);
                    convolution::Call { x: lhs, weight: rhs, bias, window, epilogue }.run(outputs)?;
                }
            }
        }
    }
    bindings.launching += start.elapsed();
    let is_of_nothing = !kernel.row.is_empty() && space.row_extent() == 0;
    for (output, written) in kernel.outputs.iter().zip(outputs) {
        let refused = output.without_answer.as_ref().filter(|_| is_of_nothing);
        let refused = refused.map(|op| TensorError::new(execution(Error::Nothing { op: op.clone() })));
        for (id, map) in &output.tensors {
            let global = &bindings.tensor(*id);
            if let Some(error) = &refused {
                bindings.handles.set_error(global.id, error.clone());
                continue;
            }
            let layout = space.own_layout(map, &written.strides, &global.shape)?;
            let tensor = written.tensor.with_layout(layout)?;
            bindings.handles.register_handle(global.id, handle::wrap(tensor, global.dtype));
        }
    }
    Ok(())
}

/// Where the first element of a slice lies on an axis.
fn start(range: &Slice, extent: usize) -> i64 {
    let within = range.to_range(extent);
    if range.is_reversed() { within.end as i64 - 1 } else { within.start as i64 }
}

/// The tensors that a plan starts from.
struct Bases {
    /// Sources and then views, in the plan's numbering.
    tensors: Vec<Tensor>,
    /// By source, whether nobody else has a handle to its memory.
    owned: Vec<bool>,
}

/// The failure of a source, if one failed, as that of what is computed from it.
pub(super) fn failure(sources: &[Source], bindings: &Bindings) -> Option<TensorError> {
    let failed = sources.iter().find_map(|source| bindings.handles.error(&bindings.tensor(source.id).id));
    failed.map(TensorError::propagated)
}

/// The real tensor of a source.
pub(super) fn take(source: &Source, bindings: &mut Bindings) -> Result<Tensor> {
    // The status is the plan's: the real tensor's own may be that of a later use.
    let status = if source.consumed { TensorStatus::ReadWrite } else { TensorStatus::ReadOnly };
    let Bindings { tensors, handles, .. } = bindings;
    let global = &tensors[source.id.value() as usize];
    let tensor = handle::unwrap(handles.get_handle(&global.id, &status), global.dtype)?;
    // Burn may have left out a reshape on the way here.
    let is_as_known = tensor.shape() == &global.shape[..];
    if is_as_known { Ok(tensor) } else { view::reshape(&tensor, &global.shape) }
}

fn fetch(plan: &Plan, bindings: &mut Bindings) -> Result<Bases> {
    let mut tensors = Vec::with_capacity(plan.sources.len() + plan.steps.len());
    for source in &plan.sources {
        tensors.push(take(source, bindings)?);
    }
    let owned = tensors.iter().map(Tensor::is_unique).collect();
    let ranges: &[Slice] = &bindings.ranges;
    for step in &plan.steps {
        let target: &[usize] = &bindings.tensor(step.id).shape;
        tensors.push(step.by.apply(&tensors[step.from], target, ranges)?);
    }
    Ok(Bases { tensors, owned })
}

fn launch(
    graph: &Graph,
    shape: &[usize],
    device: &Device,
    inputs: &[Tensor],
    scalars: &[Scalar],
    outputs: &mut [Written],
) -> Result<()> {
    let inputs: Vec<_> = inputs.iter().map(Tensor::view).collect();
    let outputs = outputs.iter_mut().map(|output| output.tensor.view_mut().with_layout(output.layout));
    let mut outputs = outputs.collect::<std::result::Result<Vec<_>, HalError>>()?;
    run(device.stream(), graph, shape, &inputs, scalars, &mut outputs)?;
    Ok(())
}

/// Lets outputs overwrite inputs that nobody else sees and that lie the same way: each element is written where it was
/// read.
fn reuse(plan: &Plan, kernel: &Kernel, owned: &[bool], inputs: &[Tensor], outputs: &mut [Written]) {
    let mut taken = vec![false; inputs.len()];
    for output in outputs {
        let candidate = kernel.inputs.iter().zip(inputs).enumerate().position(|(at, (input, tensor))| {
            // A source's handle was unique when it was fetched; a view of it or a second reading would see the writes.
            let is_owned = owned.get(input.base).is_some_and(|owned| *owned);
            let is_read_once = kernel.inputs.iter().filter(|other| other.base == input.base).count() == 1;
            let is_viewed = plan.steps.iter().any(|step| step.from == input.base);
            let is_operand = kernel.product.as_ref().is_some_and(|product| {
                let bias = product.convolution.as_ref().and_then(|convolution| convolution.bias);
                [product.lhs, product.rhs].contains(&input.base) || bias == Some(input.base)
            });
            !taken[at]
                && !is_operand
                && is_owned
                && is_read_once
                && !is_viewed
                && tensor.buffer().bytes() == output.tensor.buffer().bytes()
                && tensor.dtype() == output.tensor.dtype()
                && *tensor.layout() == output.layout
        });
        if let Some(at) = candidate {
            taken[at] = true;
            if let Ok(tensor) = inputs[at].with_layout(*output.tensor.layout()) {
                output.tensor = tensor;
            }
        }
    }
}

/// A tensor that is being written, and how the kernel and its tensors see it.
struct Written {
    tensor: Tensor,
    /// Over the iteration space.
    layout: Layout,
    /// By primitive axis, 0 for those that it does not have.
    strides: Vec<i64>,
}

/// The extents of a kernel's axes for the tensors at hand.
struct Space<'a> {
    kernel: &'a Kernel,
    extents: Vec<usize>,
}

impl<'a> Space<'a> {
    fn new(kernel: &'a Kernel, bindings: &Bindings) -> Space<'a> {
        let extent = |(tensor, dim): &(TensorId, usize)| bindings.tensor(*tensor).shape[*dim];
        Space { kernel, extents: kernel.axes.iter().map(extent).collect() }
    }

    /// The extents of the graph's iteration space.
    fn shape(&self) -> Vec<usize> {
        let mut shape: Vec<usize> = self.kernel.outer.iter().map(|axis| self.extents[*axis]).collect();
        if !self.kernel.row.is_empty() {
            shape.push(self.row_extent());
        }
        shape
    }

    fn row_extent(&self) -> usize {
        self.kernel.row.iter().map(|axis| self.extents[*axis]).product()
    }

    /// A tensor in memory over the iteration space. Rows whose axes do not lie one behind the other are copied first.
    fn input(&self, input: &Input, base: &Tensor) -> Result<Tensor> {
        if let Some(layout) = self.input_layout(input, base.layout())? {
            return Ok(base.with_layout(layout)?);
        }
        let copied = memory::copy(base)?;
        let layout = self.input_layout(input, copied.layout())?;
        Ok(copied
            .with_layout(layout.expect("axes that follow each other in a tensor follow each other in its copy"))?)
    }

    fn input_layout(&self, input: &Input, own: &Layout) -> Result<Option<Layout>> {
        let strides = self.strides_of(&input.map, own.strides());
        match input.turn {
            Some(turn) => self.turned(turn, &strides, own.offset()),
            None => {
                let layout = self.layout(&strides, own.offset(), input.per_row)?;
                layout.map(|layout| with_free(input, own, layout)).transpose()
            }
        }
    }

    /// A tensor that has the row in two pieces, with an axis in front that the graph looks up along. Where it has both, the place is
    /// `outer · a + inner · b`, which is `index · (a - extent · b) + column · b`: a step of one along the outer side takes
    /// back what the column has gone.
    fn turned(&self, turn: Turn, strides: &[i64], offset: i64) -> Result<Option<Layout>> {
        let (outer, inner) = self.kernel.row.split_at(self.kernel.cut);
        let (Some(a), Some(b)) = (self.one_stride(outer, strides), self.one_stride(inner, strides)) else {
            return Ok(None);
        };
        let extent = |axes: &[usize]| axes.iter().map(|axis| self.extents[*axis]).product::<usize>();
        let back = extent(inner) as i64 * b;
        let (count, step, along) = match turn {
            // Only then is the place at the far ends of both the farthest.
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

    /// The one stride that steps through axes, if there is one.
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

    /// The axes that had better be innermost in what the kernel writes: the channels of a convolution, where the next one reads
    /// them so, and where there is more to the kernel than the convolution, which would else be the eager backend's.
    fn innermost(&self, bases: &[Tensor], device: &Device) -> &'a [usize] {
        let Some(Multiply { lhs, rhs, dims, convolution: Some(Convolve { window, .. }) }) = &self.kernel.product else {
            return &[];
        };
        let extent = |axes: &Vec<usize>| axes.iter().map(|axis| self.extents[*axis]).product();
        let y: Vec<usize> = dims.iter().map(extent).collect();
        let (x, weight) = (&bases[*lhs], &bases[*rhs]);
        let pays = self.kernel.graph.operators() > 0
            && gives_channels_last(device, x.dtype(), x.shape(), weight.shape(), &y, &window.params());
        if pays { &dims[CHANNELS] } else { &[] }
    }

    fn output(&self, output: &Output, dtype: DType, innermost: &[usize], device: &Device) -> Result<Written> {
        let count = output.memory.iter().map(|axis| self.extents[*axis]).product::<usize>();
        let tensor = memory::empty(device, &[count], dtype)?;
        let (outer, inner): (Vec<usize>, Vec<usize>) =
            output.memory.iter().copied().partition(|axis| !innermost.contains(axis));
        let mut strides = self.strides_in([outer, inner].concat());
        // A tensor that has some of the axes merged must still step through them.
        let is_one = |axes: &Vec<usize>| axes.len() < 2 || self.one_stride(axes, &strides).is_some();
        let steps = |(_, map): &(TensorId, AxisMap)| map.iter().all(is_one);
        if !innermost.is_empty() && !output.tensors.iter().all(steps) {
            strides = self.strides_in(output.memory.clone());
        }
        let layout = self.layout(&strides, 0, output.per_row)?;
        let layout = layout.expect("the axes of a row lie side by side in what the kernel writes");
        Ok(Written { tensor, layout, strides })
    }

    /// Strides by primitive axis of a tensor whose axes lie in this order, the slowest first.
    fn strides_in(&self, order: Vec<usize>) -> Vec<i64> {
        let shape: Vec<usize> = order.iter().map(|axis| self.extents[*axis]).collect();
        let mut strides = vec![0; self.extents.len()];
        for (axis, stride) in order.into_iter().zip(contiguous_strides(&shape)) {
            strides[axis] = stride;
        }
        strides
    }

    /// Strides by primitive axis from those by dimension; an axis that the tensor broadcasts over has 0.
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

    /// Strides by primitive axis as a layout over the iteration space, `None` if one stride does not step through a row.
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

    /// The layout of a tensor in memory with these strides by primitive axis.
    fn own_layout(&self, map: &AxisMap, strides: &[i64], shape: &[usize]) -> Result<Layout> {
        // An extent of 1 has no axis; as its stride any will do, and that of a row-major tensor is tidiest.
        let tidy = contiguous_strides(shape);
        let by_dim: Vec<i64> =
            map.iter().zip(tidy).map(|(axes, tidy)| axes.last().map_or(tidy, |axis| strides[*axis])).collect();
        Ok(Layout::strided(shape, &by_dim, 0)?)
    }
}

/// A layout over the iteration space with the axis in front that the graph looks up along, if it does.
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
