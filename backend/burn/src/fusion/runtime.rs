//! What Burn's decorator asks of a backend that fuses.

use burn_backend::DType;
use burn_backend::ops::FloatTensorOps;
use burn_fusion::{FusionBackend, FusionRuntime, OperationFuser};
use burn_ir::BackendIr;

use super::fuser::Fuser;
use super::handle::Handle;
use super::optimization::{FusedKernel, FusedKernelState};
use crate::{Rocm, RocmDevice, RocmTensor};

/// Types and fusers of `Fusion<Rocm>`.
#[derive(Debug)]
pub struct RocmRuntime;

impl FusionRuntime for RocmRuntime {
    type OptimizationState = FusedKernelState;
    type Optimization = FusedKernel;
    type FusionHandle = Handle;
    type FusionDevice = RocmDevice;

    /// None where the configuration turns fusion off: every operation then runs by itself. Also for a device that cannot
    /// be opened, whose error is that of the first operation.
    fn fusers(device: RocmDevice) -> Vec<Box<dyn OperationFuser<FusedKernel>>> {
        match device.open() {
            Ok(open) if open.config().fusion => vec![Box::new(Fuser::new(device))],
            _ => Vec::new(),
        }
    }
}

impl FusionBackend for Rocm {
    type FusionRuntime = RocmRuntime;
    type FullPrecisionBackend = Rocm;

    /// For every thread: data comes to the device from the caller's, operations run on the stream's.
    fn memory_persistent(device: &RocmDevice, enabled: bool) {
        // A device that cannot be opened says so at its first tensor.
        if let Ok(device) = device.open() {
            device.set_all_persistent(enabled);
        }
    }

    fn cast_float(tensor: RocmTensor, dtype: DType) -> Handle {
        Rocm::float_tensor_handle(Rocm::float_cast(tensor, dtype.into()))
    }
}
