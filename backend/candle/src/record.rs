//! Operators of `rocfire-kernels` on Candle's tensors: run at once, and recorded where a variable is among the inputs.
//!
//! Candle's own operators take up to three tensors and give one. What runs here has run before Candle is told: it is
//! told of the inputs that have gradients, of the first output, and how to go back. The other inputs and outputs are
//! constants that the gradient reads.

use std::sync::{Mutex, PoisonError};

use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, DType, Device, Error, Layout, Result, Shape, Storage,
    Tensor, bail,
};
use rocfire_kernels::operators::{Operator, Spec};

use crate::storage;

/// An output that is not yet a tensor.
pub(crate) type Output = (CudaStorage, Shape);

/// What an operator gives, as tensors that know where they come from. A variable where there is no gradient is an
/// error.
pub(crate) fn apply(operator: &Operator, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    for (arg, x) in operator.inputs().iter().zip(inputs).skip(operator.learned()) {
        if x.track_op() {
            bail!("{}: {arg} has no gradient, and comes from a variable: detach it", operator.name());
        }
    }
    let mut outputs = run(operator, inputs)?.into_iter();
    let first = outputs.next().ok_or_else(|| Error::msg("an operator has an output"))?;
    let others: Vec<Tensor> = outputs.map(constant).collect();
    let (learned, constants) = inputs.split_at(operator.learned());
    let back = Back {
        gradient: operator.gradient().cloned(),
        constants: constants.iter().map(|&x| x.clone()).collect(),
        others: others.clone(),
    };
    let first = record(operator.name(), first, learned, back)?;
    Ok(std::iter::once(first).chain(others).collect())
}

/// The first output of [`apply`].
pub(crate) fn one(operator: &Operator, inputs: &[&Tensor]) -> Result<Tensor> {
    Ok(apply(operator, inputs)?.swap_remove(0))
}

/// A tensor that comes from nowhere.
pub(crate) fn constant((storage, shape): Output) -> Tensor {
    Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false)
}

/// Runs an operator. What it keeps of its inputs is changed where it lies, and is not among the outputs.
pub(crate) fn run(operator: &Operator, inputs: &[&Tensor]) -> Result<Vec<Output>> {
    let name = operator.name();
    for (arg, x) in operator.inputs().iter().zip(inputs) {
        if !x.device().is_cuda() {
            bail!("{name}: {arg} must be on a device of rocfire's, got {:?}", x.device().location());
        }
    }
    let Some(Device::Cuda(device)) = inputs.first().map(|x| x.device()) else {
        bail!("{name}: inputs must be at least one, got none");
    };
    // What the inputs are waits to be launched until now.
    let stream = device.cuda_stream();
    let on = stream.settled();
    let mut views = Vec::with_capacity(inputs.len());
    for (arg, x) in operator.inputs().iter().zip(inputs) {
        let (storage, layout) = x.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else { unreachable!("its device was checked") };
        let view = storage::view(name, &on, storage, layout);
        views.push(view.map_err(|error| Error::msg(format!("{name}, {arg}: {error}")))?);
    }
    let specs: Vec<Spec> = views.iter().map(|x| Spec::new(x.shape(), x.dtype())).collect();
    let mut outputs = Vec::new();
    for Spec { shape, dtype } in operator.outputs(&specs).map_err(storage::error)?.into_iter().skip(operator.kept()) {
        let shape = Shape::from(shape);
        outputs.push((storage::unwritten(device, &shape, named(dtype)?)?, shape));
    }
    let written = outputs.iter().map(|(to, shape)| storage::view(name, &on, to, &Layout::contiguous(shape)));
    let kept = views[..operator.kept()].iter().cloned().map(Ok);
    let mut written = kept.chain(written).collect::<Result<Vec<_>>>()?;
    operator.launch(on.stream(), &views, &mut written).map_err(storage::error)?;
    Ok(outputs)
}

/// Candle's name for an element type.
fn named(dtype: rocfire_hal::DType) -> Result<DType> {
    use rocfire_hal::DType as Hal;
    Ok(match dtype {
        Hal::F64 => DType::F64,
        Hal::F32 => DType::F32,
        Hal::F16 => DType::F16,
        Hal::BF16 => DType::BF16,
        Hal::I64 => DType::I64,
        Hal::I32 => DType::I32,
        Hal::I16 => DType::I16,
        Hal::U32 => DType::U32,
        Hal::U8 => DType::U8,
        Hal::I8 | Hal::U16 | Hal::U64 | Hal::Bool => bail!("Candle has no tensors of {dtype}"),
    })
}

/// How to go back from an output to the inputs that have gradients.
pub(crate) struct Back {
    /// What computes their gradients; without it each is the output's own.
    pub gradient: Option<Operator>,
    /// The inputs that have none.
    pub constants: Vec<Tensor>,
    /// The outputs behind the first.
    pub others: Vec<Tensor>,
}

/// An output as a tensor that comes from `learned`, at most three, if a variable is among what those come from.
pub(crate) fn record(name: &'static str, output: Output, learned: &[&Tensor], back: Back) -> Result<Tensor> {
    if !learned.iter().any(|x| x.track_op()) {
        return Ok(constant(output));
    }
    let recorded = Recorded { name, output: Mutex::new(Some(output)), back };
    match *learned {
        [a] => a.apply_op1(recorded),
        [a, b] => a.apply_op2(b, recorded),
        [a, b, c] => a.apply_op3(b, c, recorded),
        _ => bail!("{name}: Candle records up to three inputs, got {}", learned.len()),
    }
}

/// What Candle keeps of it.
struct Recorded {
    name: &'static str,
    /// Until Candle asks for it.
    output: Mutex<Option<Output>>,
    back: Back,
}

impl Recorded {
    fn take(&self) -> Result<Output> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        output.ok_or_else(|| Error::msg(format!("{}: its output was taken", self.name)))
    }

    fn backward<const N: usize>(&self, learned: [&Tensor; N], y: &Tensor, dy: &Tensor) -> Result<[Option<Tensor>; N]> {
        let Back { gradient, constants, others } = &self.back;
        let Some(gradient) = gradient else { return Ok([(); N].map(|()| Some(dy.clone()))) };
        let inputs: Vec<&Tensor> = learned.into_iter().chain(constants).chain([y]).chain(others).chain([dy]).collect();
        let mut gradients = run(gradient, &inputs)?.into_iter().map(constant);
        Ok([(); N].map(|()| gradients.next()))
    }
}

macro_rules! recorded {
    ($trait:ident, $gradients:ty, $($x:ident $layout:ident),*) => {
        impl $trait for Recorded {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(&self, $($x: &CpuStorage, $layout: &Layout),*) -> Result<(CpuStorage, Shape)> {
                let _ = ($($x, $layout),*);
                bail!("{}: it has run on the device", self.name)
            }

            fn cuda_fwd(&self, $($x: &CudaStorage, $layout: &Layout),*) -> Result<Output> {
                let _ = ($($x, $layout),*);
                self.take()
            }

            fn bwd(&self, $($x: &Tensor,)* y: &Tensor, dy: &Tensor) -> Result<$gradients> {
                let [$($x),*] = self.backward([$($x),*], y, dy)?;
                Ok(($($x),*))
            }
        }
    };
}
recorded!(CustomOp1, Option<Tensor>, a a_layout);
recorded!(CustomOp2, (Option<Tensor>, Option<Tensor>), a a_layout, b b_layout);
recorded!(CustomOp3, (Option<Tensor>, Option<Tensor>, Option<Tensor>), a a_layout, b b_layout, c c_layout);
