//! How the tensors of a kernel lay when it last ran, and what was worked out from that.
//!
//! The tensors of a model's step lie as those of the step before. So what depends on extents and layouts alone is worked out once
//! and kept with the kernel. A run then only allocates the outputs, collects the scalars, and launches.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_ir::TensorId;
use rocfire_fusion::Graph;
use rocfire_hal::{DType, Device, Layout, Tensor};

use super::bindings::Bindings;
use super::execute::Bases;
use super::matmul::Folded;
use super::narrow::widening;
use super::plan::{Input, Kernel, Multiply, Plan, operands};
use super::space::Space;
use crate::error::Result;
use crate::ops::memory;

/// What was worked out when a kernel last ran, if it has run. A clone of the kernel begins with nothing.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<Laid>>);

impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::default()
    }
}

impl Kept {
    /// Locks it for as long as the kernel runs.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Laid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a kernel runs with tensors that lie in a certain way.
#[derive(Debug)]
pub(super) struct Laid {
    /// The extents of the kernel's primitive axes.
    pub(super) extents: Vec<usize>,
    /// What the kernel's inputs, and then the operands of its product, were.
    given: Vec<Given>,
    /// The extents of the iteration space.
    pub(super) shape: Vec<usize>,
    /// Whether every tensor runs along the row in one stride, so that the kernel uses [`Kernel::whole`].
    pub(super) is_whole: bool,
    /// The graph that widens inputs which lie in a narrower type than the kernel's own graph reads; `None` where none does.
    pub(super) widening: Option<Graph>,
    /// Whether the rows have no elements.
    pub(super) is_of_nothing: bool,
    pub(super) inputs: Vec<LaidInput>,
    pub(super) outputs: Vec<LaidOutput>,
    /// How the tensors of a matrix product lie for its launcher; `None` if there is no product, or if they do not lie so.
    pub(super) folded: Option<Folded>,
}

/// Those properties of a tensor that decide how a kernel takes it.
#[derive(Debug, PartialEq)]
struct Given {
    layout: Layout,
    /// The type of its elements in memory.
    dtype: DType,
    /// The size of its whole memory.
    bytes: u64,
    /// Whether nobody else has a handle of its memory.
    is_owned: bool,
}

/// An input of the graph.
#[derive(Debug)]
pub(super) struct LaidInput {
    /// Whether a contiguous copy of it is made first, and read instead.
    pub(super) is_copied: bool,
    /// Its layout over the iteration space.
    pub(super) layout: Layout,
}

/// An output of the graph.
#[derive(Debug)]
pub(super) struct LaidOutput {
    /// How many elements it has.
    pub(super) count: usize,
    pub(super) dtype: DType,
    /// Its layout over the iteration space.
    pub(super) layout: Layout,
    /// The layouts of the tensors that share it.
    pub(super) tensors: Vec<Layout>,
    /// The number of the input whose memory it overwrites; `None` if it gets memory of its own.
    pub(super) takes: Option<usize>,
}

impl Laid {
    /// Works it out for the tensors of this run.
    pub(super) fn new(
        plan: &Plan,
        kernel: &Kernel,
        bases: &Bases,
        device: &Device,
        bindings: &Bindings,
    ) -> Result<Laid> {
        let space = Space::new(kernel, bindings);
        let whole = match kernel.whole {
            Some(_) => whole_inputs(kernel, bases, &space)?,
            None => None,
        };
        let is_whole = whole.is_some();
        let inputs = match whole {
            Some(inputs) => inputs,
            None => kernel.inputs.iter().map(|input| laid_input(input, bases, &space)).collect::<Result<Vec<_>>>()?,
        };
        let innermost = match &kernel.product {
            Some(product) => space.innermost(product, &bases.tensors, device),
            None => space.channels_of(&inputs),
        };
        let mut outputs = Vec::with_capacity(kernel.outputs.len());
        for (output, value) in kernel.outputs.iter().zip(kernel.graph.outputs()) {
            let placed = space.output(output, &innermost)?;
            let own = |(id, map): &(TensorId, _)| space.own_layout(map, &placed.strides, &bindings.tensor(*id).shape);
            let tensors = output.tensors.iter().map(own).collect::<Result<Vec<_>>>()?;
            let dtype = kernel.graph.dtype(*value);
            outputs.push(LaidOutput { count: placed.count, dtype, layout: placed.layout, tensors, takes: None });
        }
        reuse(plan, kernel, bases, &inputs, &mut outputs);
        let (graph, _) = kernel.graph(is_whole);
        let folded = match &kernel.product {
            Some(Multiply { lhs, rhs, dims, convolution: None }) => {
                let operands = [*lhs, *rhs].map(|base| bases.tensors[base].layout());
                let read: Vec<Layout> = inputs.iter().map(|input| input.layout).collect();
                let written: Vec<Layout> = outputs.iter().map(|output| output.layout).collect();
                Folded::new(dims, &space.extents, operands, &read, &written)
            }
            _ => None,
        };
        Ok(Laid {
            given: given(kernel, bases).collect(),
            shape: space.shape(),
            is_whole,
            widening: widening(graph, kernel, bases),
            is_of_nothing: !kernel.row.is_empty() && space.row_extent() == 0,
            extents: space.extents,
            inputs,
            outputs,
            folded,
        })
    }

    /// Whether the tensors of this run lie as those for which it was worked out.
    pub(super) fn fits(&self, kernel: &Kernel, bases: &Bases, bindings: &Bindings) -> bool {
        let extents = kernel.axes.iter().map(|(tensor, dim)| bindings.tensor(*tensor).shape[*dim]);
        self.extents.iter().copied().eq(extents) && self.given.iter().eq(given(kernel, bases))
    }
}

/// How an input lies, as it is or as a contiguous copy.
fn laid_input(input: &Input, bases: &Bases, space: &Space) -> Result<LaidInput> {
    let own = bases.tensors[input.base].layout();
    if let Some(layout) = space.input(input, own)? {
        return Ok(LaidInput { is_copied: false, layout });
    }
    let layout = space.input(input, &Layout::contiguous(own.shape())?)?;
    let layout = layout.expect("axes that follow each other in a tensor follow each other in its copy");
    Ok(LaidInput { is_copied: true, layout })
}

/// How the inputs lie if each runs along the whole row in one stride; `None` if one does not.
fn whole_inputs(kernel: &Kernel, bases: &Bases, space: &Space) -> Result<Option<Vec<LaidInput>>> {
    let mut inputs = Vec::with_capacity(kernel.inputs.len());
    for input in &kernel.inputs {
        let Some(layout) = space.whole_input(input, bases.tensors[input.base].layout())? else { return Ok(None) };
        inputs.push(LaidInput { is_copied: false, layout });
    }
    Ok(Some(inputs))
}

impl PartialEq<Given> for &Given {
    fn eq(&self, other: &Given) -> bool {
        **self == *other
    }
}

/// For each input of a kernel, and then each operand of its product, what decides how the kernel takes it.
fn given<'a>(kernel: &'a Kernel, bases: &'a Bases) -> impl Iterator<Item = Given> + 'a {
    kernel.inputs.iter().map(|input| input.base).chain(operands(kernel)).map(|base| {
        let tensor = &bases.tensors[base];
        Given {
            layout: *tensor.layout(),
            dtype: tensor.dtype(),
            bytes: tensor.buffer().bytes(),
            is_owned: bases.is_owned(base),
        }
    })
}

/// Lets outputs overwrite inputs that nobody else sees and that lie the same way, so that each element is written where it was
/// read. Outputs per row are left out: that would spare little memory, and a kernel that is cut between its passes writes them early.
fn reuse(plan: &Plan, kernel: &Kernel, bases: &Bases, inputs: &[LaidInput], outputs: &mut [LaidOutput]) {
    let mut taken = vec![false; inputs.len()];
    for (output, _) in outputs.iter_mut().zip(&kernel.outputs).filter(|(_, own)| !own.per_row) {
        let candidate = kernel.inputs.iter().zip(inputs).enumerate().position(|(at, (input, laid))| {
            let tensor = &bases.tensors[input.base];
            // Nobody outside has a handle of it, but a view of it or a second reading of the kernel would see what is written.
            let is_read_once = kernel.inputs.iter().filter(|other| other.base == input.base).count() == 1;
            let is_viewed = plan.steps.iter().any(|step| step.from == input.base);
            !taken[at]
                && !laid.is_copied
                && !operands(kernel).any(|operand| operand == input.base)
                && bases.is_owned(input.base)
                && is_read_once
                && !is_viewed
                && tensor.buffer().bytes() == (output.count * output.dtype.size_bytes()) as u64
                && tensor.dtype() == output.dtype
                && laid.layout == output.layout
        });
        if let Some(at) = candidate {
            taken[at] = true;
            output.takes = Some(at);
        }
    }
}

/// For each input the contiguous copy that is read instead of it, if it needs one.
pub(super) fn copies(laid: &Laid, kernel: &Kernel, bases: &Bases) -> Result<Vec<Option<Tensor>>> {
    let copied = |(input, laid): (&Input, &LaidInput)| {
        laid.is_copied.then(|| memory::copy(&bases.tensors[input.base])).transpose()
    };
    kernel.inputs.iter().zip(&laid.inputs).map(copied).collect()
}
