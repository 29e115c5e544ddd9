//! Burn 0.22: what its traits have and those of 0.23 have not, or differently. See [`super`].

use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn_backend::ops::{AttentionModuleOptions, InterpolateOptions};
use burn_backend::{DeviceId, TensorMetadata};
use burn_ir::{BackendIr, TensorIr};
use burn_router::RouterClient;
use rocfire_kernels::quant::Rounding;

use crate::error::{Error, OrPanic, Result};
use crate::fusion::handles::Handles;
use crate::recorder::channel::{Client, Lazy};
use crate::recorder::record::record;
use crate::{Fused, Rocm, RocmDevice, RocmTensor};

/// The device of [`Fused`], which Burn's `Device` is made from.
pub type BurnDevice = RocmDevice;

/// The device that Burn means.
pub(crate) fn named(device: &BurnDevice) -> RocmDevice {
    *device
}

/// What Burn calls a device.
pub(crate) fn burn_device(device: RocmDevice) -> BurnDevice {
    device
}

/// What a number between two codes becomes.
pub(crate) const CODES_ROUND: Rounding = Rounding::Away;

/// How many windows there are along an axis where the first one is larger than the padded input, by so many elements.
pub(crate) fn windows_beyond(_lacking: usize, _stride: usize, ceil: bool) -> Option<usize> {
    Some(usize::from(ceil))
}

/// Whether the corners of the images fall together.
pub(crate) fn aligns_corners(options: &InterpolateOptions, _x: &[usize], _y: &[usize]) -> Result<bool> {
    Ok(options.align_corners)
}

/// Burn's options of attention.
pub(crate) fn attention_options(scale: Option<f64>, softcap: Option<f64>, is_causal: bool) -> AttentionModuleOptions {
    AttentionModuleOptions { scale, softcap, is_causal }
}

/// How many columns beyond its own number a row of causal attention sees: the last row sees the last column.
pub(crate) fn causal_offset(_options: &AttentionModuleOptions, rows: usize, columns: usize) -> i64 {
    columns as i64 - rows as i64
}

/// Collectives of one device. Among several there are none yet, and a sum over them is refused by name.
impl DistributedOps<Rocm> for Rocm {
    fn all_reduce(tensor: RocmTensor, _op: ReduceOperation, devices: Vec<DeviceId>) -> CollectiveTensor<Rocm> {
        if devices.len() > 1 {
            Err(Error::Collective { op: "all_reduce", devices: devices.len() }).or_panic()
        }
        CollectiveTensor::new(tensor)
    }

    /// The collective of one device is over when it is called.
    fn sync_collective(_device: &RocmDevice) {}
}

impl DistributedOps<Fused> for Fused {
    fn all_reduce(tensor: Lazy, op: ReduceOperation, devices: Vec<DeviceId>) -> CollectiveTensor<Fused> {
        let outputs = vec![(tensor.shape(), tensor.dtype())];
        let run = |handles: &mut Handles, irs: &[TensorIr]| {
            let reduced = Rocm::all_reduce(handles.float(&irs[0]), op, devices);
            // SAFETY: the eager backend reduces before it returns.
            Ok(vec![Rocm::float_tensor_handle(unsafe { reduced.assume_resolved() })])
        };
        CollectiveTensor::new(record(vec![tensor], outputs, run).remove(0))
    }

    fn sync_collective(device: &RocmDevice) {
        Client::of(device).flush();
        Rocm::sync_collective(device);
    }
}

/// The pattern of what is of [`Fused`] in an enum of Burn's over backends, for crates that name `burn`, which this one lies below:
/// `in_slot!(DispatchTensorKind, tensor)`.
#[doc(hidden)]
#[macro_export]
macro_rules! in_slot {
    ($kind:ident, $inside:pat) => {
        $kind::LibTorch($inside)
    };
}

macro_rules! backend_methods {
    ($device:ident => $rocm:expr) => {};
}

macro_rules! bool_methods {
    () => {
        fn bool_scatter_or(dim: usize, tensor: RocmTensor, indices: RocmTensor, value: RocmTensor) -> RocmTensor {
            let (store, op) = (tensor.store(), IndexingUpdateOp::Max);
            bools(store, index::scatter(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), op))
        }

        fn bool_select_or(tensor: RocmTensor, dim: usize, indices: RocmTensor, value: RocmTensor) -> RocmTensor {
            let (store, op) = (tensor.store(), IndexingUpdateOp::Max);
            bools(store, index::select_assign(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), op))
        }
    };
}

macro_rules! float_methods {
    () => {};
}

macro_rules! module_methods {
    () => {
        fn avg_pool2d(
            x: RocmTensor,
            kernel: [usize; 2],
            stride: [usize; 2],
            padding: [usize; 2],
            count_include_pad: bool,
            ceil: bool,
        ) -> RocmTensor {
            let windows = Windows { kernel, stride, padding, dilation: [1; 2], ceil };
            out(pool::average(x.as_inner(), &windows, count_include_pad))
        }

        fn avg_pool2d_backward(
            x: RocmTensor,
            grad: RocmTensor,
            kernel: [usize; 2],
            stride: [usize; 2],
            padding: [usize; 2],
            count_include_pad: bool,
            ceil: bool,
        ) -> RocmTensor {
            let windows = Windows { kernel, stride, padding, dilation: [1; 2], ceil };
            out(pool::average_backward(x.as_inner(), grad.as_inner(), &windows, count_include_pad))
        }
    };
}

macro_rules! recorded_bool_methods {
    () => {
        routed! {
            bool_scatter_or(dim: usize, tensor: Lazy, indices: Lazy, value: Lazy) -> Lazy;
            bool_select_or(tensor: Lazy, dim: usize, indices: Lazy, value: Lazy) -> Lazy;
        }
    };
}

macro_rules! recorded_float_methods {
    () => {};
}

macro_rules! recorded_module_methods {
    () => {
        routed! {
            avg_pool1d(
                x: Lazy, kernel_size: usize, stride: usize, padding: usize, count_include_pad: bool, ceil_mode: bool
            ) -> Lazy;
            avg_pool1d_backward(
                x: Lazy, grad: Lazy, kernel_size: usize, stride: usize, padding: usize, count_include_pad: bool,
                ceil_mode: bool
            ) -> Lazy;
            avg_pool2d(
                x: Lazy, kernel_size: [usize; 2], stride: [usize; 2], padding: [usize; 2], count_include_pad: bool,
                ceil_mode: bool
            ) -> Lazy;
            avg_pool2d_backward(
                x: Lazy, grad: Lazy, kernel_size: [usize; 2], stride: [usize; 2], padding: [usize; 2],
                count_include_pad: bool, ceil_mode: bool
            ) -> Lazy;
        }
    };
}

pub(crate) use {
    backend_methods, bool_methods, float_methods, module_methods, recorded_bool_methods, recorded_float_methods,
    recorded_module_methods,
};
