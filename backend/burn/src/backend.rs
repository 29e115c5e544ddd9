//! The backend: what Burn asks of it as a whole, and how its fusion and its remote server hold tensors.

use std::sync::Arc;

use burn_backend::quantization::QuantScheme;
use burn_backend::{
    Backend, BackendTypes, DType as BurnDType, DTypeUsage, DTypeUsageSet, ExecutionError, MemoryPoolUsage,
    SlicedPoolReport,
};
use burn_ir::{BackendIr, TensorHandle};
use burn_std::BoolStore;
use rocfire_arch::Matrix;
use rocfire_hal::{Device, Graph, SegmentStats};

use crate::error::{OrPanic, execution};
use crate::fusion::handle::Handle;
use crate::ops;
use crate::version::backend_methods;
use crate::{RocmDevice, RocmQTensor, RocmTensor};

/// Burn's backend for AMD GPUs, eager: every operator is launched when it is called.
///
/// Burn's tensors reach it through [`Fused`](crate::Fused), which records operators first; code that is generic over
/// [`Backend`] can name it directly, and `burn_remote`'s server can serve it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rocm;

impl BackendTypes for Rocm {
    type Device = RocmDevice;
    type FloatTensorPrimitive = RocmTensor;
    type IntTensorPrimitive = RocmTensor;
    type BoolTensorPrimitive = RocmTensor;
    type QuantizedTensorPrimitive = RocmQTensor;
    type GraphPrimitive = Arc<Graph>;
}

impl Backend for Rocm {
    fn name(device: &RocmDevice) -> String {
        format!("rocfire<{device}>")
    }

    fn seed(device: &RocmDevice, seed: u64) {
        ops::seed(device.device_id().or_panic(), seed);
    }

    fn sync(device: &RocmDevice) -> Result<(), ExecutionError> {
        device.open().map_err(execution)?.sync().map_err(execution)
    }

    /// What is held back are small launches that wait for others of their kind.
    fn flush(device: &RocmDevice) -> Result<(), ExecutionError> {
        device.open().map_err(execution)?.flush();
        Ok(())
    }

    fn graph_start_capture(device: &RocmDevice) -> Result<(), ExecutionError> {
        device.open().map_err(execution)?.begin_capture().map_err(execution)
    }

    fn graph_stop_capture(device: &RocmDevice) -> Result<Arc<Graph>, ExecutionError> {
        device.open().map_err(execution)?.end_capture().map(Arc::new).map_err(execution)
    }

    unsafe fn graph_replay(_device: &RocmDevice, graph: &Arc<Graph>) -> Result<(), ExecutionError> {
        // SAFETY: what the graph uses is alive and not in use elsewhere, as Burn's caller promises.
        unsafe { graph.replay() }.map_err(execution)
    }

    fn memory_cleanup(device: &RocmDevice) {
        if let Err(error) = device.open().and_then(|device| Ok(device.trim_memory()?)) {
            tracing::warn!("memory of {device} was not given back: {error}");
        }
    }

    fn memory_pool_usage(device: &RocmDevice) -> Option<MemoryPoolUsage> {
        let stats = device.open().ok()?.memory();
        Some(MemoryPoolUsage {
            number_allocs: stats.live_blocks,
            bytes_in_use: stats.live_bytes,
            bytes_padding: stats.padding_bytes,
            bytes_reserved: stats.reserved_bytes,
        })
    }

    backend_methods!(device => device);

    /// The segments that serve many tensors, those for small ones first. A tensor above 10 MiB has a segment of its own.
    fn memory_pool_report(device: &RocmDevice) -> Option<Vec<SlicedPoolReport>> {
        let report = |segments: SegmentStats| SlicedPoolReport {
            page_size: segments.segment_bytes,
            pages: segments.segments,
            pages_peak: segments.peak_segments,
            largest_alloc: segments.largest_bytes,
        };
        Some(device.open().ok()?.memory_segments().map(report).into())
    }

    /// What `func` makes on this thread gets memory apart from short-lived tensors, so that [`Backend::memory_cleanup`] can give back
    /// the memory of these. Nothing else is different. A device that cannot be opened says so at the first tensor.
    fn memory_persistent_allocations<Output: Send, Input: Send, Func: Fn(Input) -> Output + Send>(
        device: &RocmDevice,
        input: Input,
        func: Func,
    ) -> Output {
        let _until_the_end = device.open().ok().map(Persistent::begin);
        func(input)
    }

    fn dtype_usage(device: &RocmDevice, dtype: BurnDType) -> DTypeUsageSet {
        match dtype {
            BurnDType::F32 | BurnDType::F16 | BurnDType::BF16 => {
                let matrix = device.device_id().is_ok_and(|id| id.arch().info().matrix != Matrix::None);
                let general = DTypeUsage::general();
                if matrix { general | DTypeUsage::Accelerated } else { general }
            }
            BurnDType::F64
            | BurnDType::I64
            | BurnDType::I32
            | BurnDType::I16
            | BurnDType::I8
            | BurnDType::U64
            | BurnDType::U32
            | BurnDType::U16
            | BurnDType::U8
            | BurnDType::Bool(BoolStore::Native | BoolStore::U8 | BoolStore::U32) => DTypeUsage::general(),
            BurnDType::QFloat(scheme) if is_quantisable(&scheme) => DTypeUsage::Storage.into(),
            // Flex32 is taken as f32, so a tensor of it would say another type than it was asked for.
            BurnDType::Flex32 | BurnDType::QFloat(_) => DTypeUsageSet::empty(),
        }
    }

    fn device_count(_type_id: u16) -> usize {
        RocmDevice::count()
    }
}

fn is_quantisable(scheme: &QuantScheme) -> bool {
    ops::refusal(scheme).is_none()
}

/// As long as it lives, what this thread makes on a device is meant to stay.
pub(crate) struct Persistent(Device);

impl Persistent {
    pub(crate) fn begin(device: Device) -> Persistent {
        device.set_persistent(true);
        Persistent(device)
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        self.0.set_persistent(false);
    }
}

/// The plain tensor of a handle, in the shape that Burn believes it has: reshapes may have been left out on the way here.
fn plain(handle: TensorHandle<Handle>) -> RocmTensor {
    let tensor = match handle.handle {
        Handle::Plain(tensor) => tensor,
        Handle::Quantized(tensor) => unreachable!("Burn asked for a plain tensor and named {tensor:?}"),
    };
    if tensor.as_inner().shape() == &handle.shape[..] {
        return tensor;
    }
    RocmTensor::new(ops::reshape(tensor.as_inner(), &handle.shape).or_panic()).with_store(tensor.store())
}

impl BackendIr for Rocm {
    type Handle = Handle;

    fn float_tensor(handle: TensorHandle<Handle>) -> RocmTensor {
        plain(handle)
    }

    fn int_tensor(handle: TensorHandle<Handle>) -> RocmTensor {
        plain(handle)
    }

    fn bool_tensor(handle: TensorHandle<Handle>) -> RocmTensor {
        plain(handle)
    }

    fn quantized_tensor(handle: TensorHandle<Handle>) -> RocmQTensor {
        match handle.handle {
            Handle::Quantized(tensor) => ops::in_shape(*tensor, &handle.shape),
            Handle::Plain(tensor) => unreachable!("Burn asked for a quantised tensor and named {tensor:?}"),
        }
    }

    fn float_tensor_handle(tensor: RocmTensor) -> Handle {
        Handle::Plain(tensor)
    }

    fn int_tensor_handle(tensor: RocmTensor) -> Handle {
        Handle::Plain(tensor)
    }

    fn bool_tensor_handle(tensor: RocmTensor) -> Handle {
        Handle::Plain(tensor)
    }

    fn quantized_tensor_handle(tensor: RocmQTensor) -> Handle {
        Handle::Quantized(Box::new(tensor))
    }
}
