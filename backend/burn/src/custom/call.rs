//! One call of a custom kernel: its arguments, its outputs' memory, its launch.

use burn_backend::DType;
use rocfire_hal::profile::Work;
use rocfire_hal::{Buffer, Error as HalError, Launch, Tensor};

use super::operators::Operator;
use super::{Call, Parts, TensorSpec, spec_of};
use crate::RocmTensor;
use crate::convert::to_hal;
use crate::error::{Error, Result};
use crate::ops::memory;

/// A number that a custom kernel takes, in the C type of its parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // Each is a number of the type that it names.
#[non_exhaustive]
pub enum CustomScalar {
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

macro_rules! from {
    ($($variant:ident $from:ty),*) => {
        $(impl From<$from> for CustomScalar {
            fn from(value: $from) -> CustomScalar {
                CustomScalar::$variant(value)
            }
        })*
    };
}
from!(I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64);

/// How many threads a custom kernel is launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Workgroups per axis.
    pub grid: [u32; 3],
    /// Threads of a workgroup per axis.
    pub block: [u32; 3],
    /// LDS beyond what the kernel declares, bytes.
    pub lds_bytes: u32,
}

impl LaunchShape {
    /// At least one thread for each of `count` elements, in workgroups of `threads` along the first axis.
    ///
    /// # Panics
    /// If `threads` is 0, or if there are more workgroups than 32 bits can count.
    pub fn over(count: usize, threads: u32) -> LaunchShape {
        let groups = count.div_ceil(threads as usize);
        let groups = u32::try_from(groups).unwrap_or_else(|_| panic!("{count} elements are too many for one launch"));
        LaunchShape { grid: [groups, 1, 1], block: [threads, 1, 1], lds_bytes: 0 }
    }
}

/// The bytes of the arguments, each at a multiple of its size.
#[derive(Default)]
struct Arguments(Vec<u8>);

impl Arguments {
    fn push(&mut self, bytes: &[u8]) {
        self.0.resize(self.0.len().next_multiple_of(bytes.len()), 0);
        self.0.extend_from_slice(bytes);
    }

    fn scalar(&mut self, scalar: CustomScalar) {
        match scalar {
            CustomScalar::I32(value) => self.push(&value.to_le_bytes()),
            CustomScalar::U32(value) => self.push(&value.to_le_bytes()),
            CustomScalar::I64(value) => self.push(&value.to_le_bytes()),
            CustomScalar::U64(value) => self.push(&value.to_le_bytes()),
            CustomScalar::F32(value) => self.push(&value.to_le_bytes()),
            CustomScalar::F64(value) => self.push(&value.to_le_bytes()),
        }
    }
}

/// The outputs that a kernel says it has.
pub(super) fn describe(parts: &Parts, inputs: &[TensorSpec], scalars: &[CustomScalar]) -> Vec<TensorSpec> {
    (parts.outputs)(&Call { inputs, outputs: &[], scalars })
}

/// Launches a kernel on its inputs.
pub(super) fn run(parts: &Parts, inputs: Vec<RocmTensor>, scalars: &[CustomScalar]) -> Result<Vec<RocmTensor>> {
    let Some(first) = inputs.first() else {
        return Err(HalError::shape(parts.name, "inputs", "at least one", 0).into());
    };
    let device = first.as_inner().device().clone();
    let specs: Vec<TensorSpec> = inputs.iter().map(spec_of).collect();
    let described = describe(parts, &specs, scalars);
    let row = |x: RocmTensor| match parts.operator {
        Some(_) => Ok(x.into_inner()),
        None => memory::contiguous(x.as_inner()),
    };
    let rows: Vec<Tensor> = inputs.into_iter().map(row).collect::<Result<_>>()?;
    if let Some(other) = rows.iter().find(|x| *x.device() != device) {
        let (expected, got) = (device.id().to_string(), other.device().id().to_string());
        return Err(HalError::DeviceMismatch { op: parts.name, arg: "input", expected, got }.into());
    }
    let kept = parts.operator.as_ref().map_or(0, Operator::kept);
    let empty = |(n, spec): (usize, &TensorSpec)| match rows.get(n).filter(|_| n < kept) {
        Some(row) if row.is_unique() && row.layout().is_contiguous() => Ok(row.clone()),
        Some(row) => memory::copy(row),
        None => Ok(Tensor::empty(&device, &spec.shape, to_hal(spec.dtype)?)?),
    };
    let mut outputs: Vec<Tensor> = described.iter().enumerate().map(empty).collect::<Result<_>>()?;
    if let Some(operator) = &parts.operator {
        operator.launch(device.stream(), &rows, &mut outputs)?;
        return Ok(outputs.into_iter().map(RocmTensor::new).collect());
    }
    let shape = (parts.shape)(&Call { inputs: &specs, outputs: &described, scalars });
    if !shape.grid.contains(&0) {
        let mut arguments = Arguments::default();
        rows.iter().chain(&outputs).for_each(|x| arguments.push(&x.view().device_address().to_le_bytes()));
        scalars.iter().for_each(|&scalar| arguments.scalar(scalar));
        let function = device.module(&parts.source)?.function(&parts.entry)?;
        let (expected, got) = (function.info().explicit_kernarg_bytes as usize, arguments.0.len());
        if expected != got {
            return Err(Error::CustomArguments {
                op: parts.name,
                inputs: rows.len(),
                outputs: outputs.len(),
                scalars: scalars.len(),
                expected_bytes: expected,
                got_bytes: got,
            });
        }
        let written: Vec<&Buffer> = outputs.iter().map(Tensor::buffer).collect();
        let launch = Launch {
            label: parts.name,
            grid: shape.grid,
            block: shape.block,
            lds_bytes: shape.lds_bytes,
            args: &arguments.0,
            outputs: &written,
            work: Work::default(),
        };
        // SAFETY:
        // - That the kernel stays inside what it is given is the promise of whoever made it, `CustomKernel::new`.
        // - Inputs and outputs are held until the call returns, lie on this device, and `written` is all of the outputs.
        // - The arguments have the size of the kernel's own.
        unsafe { device.stream().launch(&function, &launch)? };
    }
    let named = |(tensor, spec): (Tensor, &TensorSpec)| match spec.dtype {
        DType::Bool(store) => RocmTensor::new(tensor).with_store(store),
        _ => RocmTensor::new(tensor),
    };
    Ok(outputs.into_iter().zip(&described).map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lie_as_c_lays_out_parameters() {
        let mut arguments = Arguments::default();
        arguments.push(&7u64.to_le_bytes());
        for scalar in [1u32.into(), 2i64.into(), 3.0f32.into(), CustomScalar::F64(4.0), 5i32.into()] {
            arguments.scalar(scalar);
        }
        assert_eq!(arguments.0.len(), 8 + 8 + 8 + 8 + 8 + 4);
        assert_eq!(arguments.0[16..24], 2i64.to_le_bytes());
        assert_eq!(arguments.0[24..28], 3.0f32.to_le_bytes());
        assert_eq!(arguments.0[32..40], 4.0f64.to_le_bytes());
    }

    #[test]
    fn there_is_a_thread_for_each_element() {
        for (count, groups) in [(0, 0), (1, 1), (64, 1), (65, 2)] {
            assert_eq!(LaunchShape::over(count, 64).grid, [groups, 1, 1]);
        }
    }
}
