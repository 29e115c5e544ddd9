//! Runs a plan: finds the real tensors for the relative ones, lays them over the iteration space, and launches each kernel.
//!
//! What fails here, before a launch, becomes the error of every tensor that should have been written, as a failure on the device
//! does later. Nothing panics.

use std::time::Instant;

use burn_backend::Slice;
use burn_ir::{TensorError, TensorStatus};
use rocfire_fusion::{Scalar, run};
use rocfire_hal::{Device, Error as HalError, Layout, Tensor};
use rocfire_kernels::random::Seed;

use super::bindings::Bindings;
use super::epilogue::EpilogueCall;
use super::laid::{Laid, copies};
use super::narrow::widen_operands;
use super::plan::{Convolve, Kernel, Plan, Source};
use super::trace::Number;
use super::{convolution, handle, matmul};
use crate::RocmDevice;
use crate::error::{Error, Result, execution};
use crate::ops::elementwise::scalar;
use crate::ops::{memory, random, view};

/// Runs the plan's kernels. A kernel that fails leaves its error in the tensors that it should have written.
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
        bindings.handles.put(global.id, handle::wrap(tensor.clone(), global.dtype));
    }
    for kernel in &plan.kernels {
        if let Err(error) = run_kernel(plan, kernel, &bases, draws, &device, bindings) {
            tracing::debug!(target: "rocfire::fusion", kernel = kernel.kind.name(), %error, "failed before its launch");
            claim(kernel, &TensorError::new(execution(error)), bindings);
        }
    }
}

/// The next `count` draws of a device's sequence; none if the device cannot be opened, which the kernels report.
pub(super) fn draw(device: &RocmDevice, count: usize) -> Vec<Seed> {
    let open = if count == 0 { None } else { device.open().ok() };
    open.map_or_else(Vec::new, |device| (0..count).map(|_| random::next(device.id())).collect())
}

/// Makes this the error of every tensor that the plan should have made.
fn claim_all(plan: &Plan, error: &TensorError, bindings: &mut Bindings) {
    plan.kernels.iter().for_each(|kernel| claim(kernel, error, bindings));
    for step in plan.steps.iter().filter(|step| step.live) {
        bindings.handles.fail(bindings.tensor(step.id).id, error.clone());
    }
}

/// Makes this the error of every tensor that the kernel should have written.
fn claim(kernel: &Kernel, error: &TensorError, bindings: &mut Bindings) {
    for (id, _) in kernel.outputs.iter().flat_map(|output| &output.tensors) {
        bindings.handles.fail(bindings.tensor(*id).id, error.clone());
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
    let mut kept = kernel.laid.lock();
    let laid = match kept.take().filter(|laid| laid.fits(kernel, bases, bindings)) {
        Some(laid) => kept.insert(laid),
        None => kept.insert(Laid::new(plan, kernel, bases, device, bindings)?),
    };
    let copied = if laid.inputs.iter().any(|input| input.is_copied) { copies(laid, kernel, bases)? } else { vec![] };
    let inputs = kernel.inputs.iter().zip(&laid.inputs).enumerate().map(|(at, (input, laid))| {
        let copied = copied.get(at).and_then(Option::as_ref);
        copied.unwrap_or(&bases.tensors[input.base]).view().with_layout(laid.layout)
    });
    let inputs = inputs.collect::<std::result::Result<Vec<_>, HalError>>()?;
    let outputs = laid.outputs.iter().map(|output| match output.takes {
        Some(input) => {
            let all = Layout::contiguous(&[output.count])?;
            Ok(bases.tensors[kernel.inputs[input].base].with_layout(all)?)
        }
        None => memory::empty(device, &[output.count], output.dtype),
    });
    let mut written = outputs.collect::<Result<Vec<Tensor>>>()?;
    let (graph, numbers) = kernel.graph(laid.is_whole);
    let graph = laid.widening.as_ref().unwrap_or(graph);
    let scalars: Vec<Scalar> = numbers.iter().map(|number| number_of(*number, draws, device, bindings)).collect();
    let start = Instant::now();
    let outputs =
        written.iter_mut().zip(&laid.outputs).map(|(tensor, laid)| tensor.view_mut().with_layout(laid.layout));
    let mut outputs = outputs.collect::<std::result::Result<Vec<_>, HalError>>()?;
    match &kernel.product {
        None => run(device.stream(), graph, &laid.shape, &inputs, &scalars, &mut outputs)?,
        Some(product) => {
            let epilogue =
                EpilogueCall { graph, dims: &product.dims, extents: &laid.extents, inputs: &inputs, scalars: &scalars };
            let [lhs, rhs] = [product.lhs, product.rhs].map(|base| &bases.tensors[base]);
            match &product.convolution {
                None => matmul::Call { lhs, rhs, folded: laid.folded.as_ref(), epilogue }.run(outputs)?,
                Some(Convolve { window, bias }) => {
                    let bias = bias.map(|base| &bases.tensors[base]);
                    convolution::Call { x: lhs, weight: rhs, bias, window, epilogue }.run(outputs)?;
                }
            }
        }
    }
    bindings.launching += start.elapsed();
    for ((output, laid_output), tensor) in kernel.outputs.iter().zip(&laid.outputs).zip(written) {
        let refused = output.without_answer.as_ref().filter(|_| laid.is_of_nothing);
        let refused = refused.map(|op| TensorError::new(execution(Error::Nothing { op: op.clone() })));
        for ((id, _), layout) in output.tensors.iter().zip(&laid_output.tensors) {
            let global = &bindings.tensor(*id);
            match &refused {
                Some(error) => bindings.handles.fail(global.id, error.clone()),
                None => {
                    let made = handle::wrap(tensor.with_layout(*layout)?, global.dtype);
                    bindings.handles.put(global.id, made);
                }
            }
        }
    }
    Ok(())
}

/// The value of one of the graph's scalars in this run.
fn number_of(number: Number, draws: &[Seed], device: &Device, bindings: &Bindings) -> Scalar {
    match number {
        Number::Scalar(number) => scalar(bindings.scalar(number).into()),
        Number::Extent(tensor, dim) => Scalar::Int(bindings.tensor(tensor).shape[usize::from(dim)] as i64),
        Number::Start(range, tensor, dim) => {
            let extent = bindings.tensor(tensor).shape[usize::from(dim)];
            Scalar::Int(start(&bindings.ranges[usize::from(range)], extent))
        }
        Number::Step(range) => Scalar::Int(bindings.ranges[usize::from(range)].step() as i64),
        Number::Seed(draw) => Scalar::Uint(draws[usize::from(draw)].seed),
        Number::Offset(draw) => Scalar::Uint(draws[usize::from(draw)].offset),
        Number::Replay => Scalar::Uint(device.stream().replay_address().unwrap_or(0)),
    }
}

/// Where the first element of a slice lies on an axis.
fn start(range: &Slice, extent: usize) -> i64 {
    let within = range.to_range(extent);
    if range.is_reversed() { within.end as i64 - 1 } else { within.start as i64 }
}

/// The tensors that a plan starts from.
pub(super) struct Bases {
    /// Sources and then views, in the plan's numbering.
    pub(super) tensors: Vec<Tensor>,
    /// For each source, whether nobody else has a handle of its memory.
    owned: Vec<bool>,
}

impl Bases {
    /// Whether a base is a source and nobody else has a handle of its memory.
    pub(super) fn is_owned(&self, base: usize) -> bool {
        self.owned.get(base).is_some_and(|owned| *owned)
    }
}

/// The error of the first source that failed, marked as passed on from there; `None` if none failed.
pub(super) fn failure(sources: &[Source], bindings: &Bindings) -> Option<TensorError> {
    let failed = sources.iter().find_map(|source| bindings.handles.error(bindings.tensor(source.id).id));
    failed.map(TensorError::propagated)
}

/// The real tensor of a source, in the type that it has in memory.
pub(super) fn take(source: &Source, bindings: &mut Bindings) -> Result<Tensor> {
    // The plan knows whether this is the last use; the real tensor's own status may be that of a later one.
    let status = if source.consumed { TensorStatus::ReadWrite } else { TensorStatus::ReadOnly };
    let Bindings { tensors, handles, .. } = bindings;
    let global = &tensors[source.id.value() as usize];
    let tensor = handle::unwrap(handles.take(global.id, &status), global.dtype)?;
    // Burn leaves out some reshapes, so the tensor may have another shape with as many elements.
    let is_as_known = tensor.shape() == &global.shape[..];
    if is_as_known { Ok(tensor) } else { view::reshape(&tensor, &global.shape) }
}

/// Fetches the plan's sources, and makes its views of them.
fn fetch(plan: &Plan, bindings: &mut Bindings) -> Result<Bases> {
    widen_operands(plan, bindings)?;
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
