//! Burn's `Backend` for the recorder. For what Burn asks of a device, recorded operations run first; then the eager backend answers.

use std::sync::Arc;

use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsageSet, ExecutionError, MemoryPoolUsage, ProfileDuration, ProfileOptions,
    ProfileToken, SlicedPoolReport, TensorData, profile_with_tokens,
};
use burn_ir::{BackendIr, TensorHandle};
use burn_router::RouterClient;
use rocfire_hal::Graph;

use super::channel::{Client, Lazy};
use crate::backend::Persistent;
use crate::version::{backend_methods, named};
use crate::{BurnDevice, Rocm};

/// The backend that Burn programs use: operators are recorded, and run as few launches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fused;

/// Runs all that was recorded for a device, by every thread.
fn run(device: &BurnDevice) {
    Client::of(&named(device)).state().run_all();
}

impl BackendTypes for Fused {
    type Device = BurnDevice;
    type FloatTensorPrimitive = Lazy;
    type IntTensorPrimitive = Lazy;
    type BoolTensorPrimitive = Lazy;
    type QuantizedTensorPrimitive = Lazy;
    type GraphPrimitive = Arc<Graph>;
}

impl Backend for Fused {
    fn name(device: &BurnDevice) -> String {
        format!("fused {}", Rocm::name(&named(device)))
    }

    fn seed(device: &BurnDevice, seed: u64) {
        Client::of(&named(device)).seed(seed);
    }

    fn sync(device: &BurnDevice) -> Result<(), ExecutionError> {
        Client::of(&named(device)).sync()
    }

    fn flush(device: &BurnDevice) -> Result<(), ExecutionError> {
        run(device);
        Rocm::flush(&named(device))
    }

    fn profile<O: Send + 'static>(
        device: &BurnDevice,
        options: ProfileOptions,
        func: impl FnOnce() -> O + Send,
    ) -> Result<(O, ProfileDuration), ExecutionError> {
        profile_with_tokens::<Fused, O>(device, options, func)
    }

    fn profile_start(device: &BurnDevice) -> Result<Option<ProfileToken>, ExecutionError> {
        Rocm::profile_start(&named(device))
    }

    fn profile_end(
        device: &BurnDevice,
        token: ProfileToken,
        options: ProfileOptions,
    ) -> Result<ProfileDuration, ExecutionError> {
        if options.flushes() {
            run(device);
        }
        Rocm::profile_end(&named(device), token, options)
    }

    fn graph_prepare(device: &BurnDevice) -> Result<(), ExecutionError> {
        run(device);
        Rocm::graph_prepare(&named(device))
    }

    fn graph_start_capture(device: &BurnDevice) -> Result<(), ExecutionError> {
        run(device);
        Rocm::graph_start_capture(&named(device))
    }

    fn graph_stop_capture(device: &BurnDevice) -> Result<Arc<Graph>, ExecutionError> {
        run(device);
        Rocm::graph_stop_capture(&named(device))
    }

    unsafe fn graph_replay(device: &BurnDevice, graph: &Arc<Graph>) -> Result<(), ExecutionError> {
        run(device);
        // SAFETY: the caller's duties are the same there.
        unsafe { Rocm::graph_replay(&named(device), graph) }
    }

    fn memory_cleanup(device: &BurnDevice) {
        Rocm::memory_cleanup(&named(device));
    }

    fn memory_pool_usage(device: &BurnDevice) -> Option<MemoryPoolUsage> {
        run(device);
        Rocm::memory_pool_usage(&named(device))
    }

    backend_methods!(device => named(device));

    fn memory_pool_report(device: &BurnDevice) -> Option<Vec<SlicedPoolReport>> {
        run(device);
        Rocm::memory_pool_report(&named(device))
    }

    fn memory_persistent_allocations<Output: Send, Input: Send, Func: Fn(Input) -> Output + Send>(
        device: &BurnDevice,
        input: Input,
        func: Func,
    ) -> Output {
        run(device);
        let _until_the_end = named(device).open().ok().map(Persistent::begin);
        let output = func(input);
        // Operations that were recorded inside must allocate their tensors inside.
        run(device);
        output
    }

    fn staging<'a, Iter>(data: Iter, device: &BurnDevice)
    where
        Iter: Iterator<Item = &'a mut TensorData>,
    {
        Rocm::staging(data, &named(device));
    }

    fn supports_dtype(device: &BurnDevice, dtype: DType) -> bool {
        Rocm::supports_dtype(&named(device), dtype)
    }

    fn dtype_usage(device: &BurnDevice, dtype: DType) -> DTypeUsageSet {
        Rocm::dtype_usage(&named(device), dtype)
    }

    fn device_count(type_id: u16) -> usize {
        Rocm::device_count(type_id)
    }
}

/// A tensor is its own handle for whatever keeps tensors by name, as a server of tensors does; what uses it there is recorded.
impl BackendIr for Fused {
    type Handle = Lazy;

    fn float_tensor(handle: TensorHandle<Lazy>) -> Lazy {
        handle.handle
    }

    fn int_tensor(handle: TensorHandle<Lazy>) -> Lazy {
        handle.handle
    }

    fn bool_tensor(handle: TensorHandle<Lazy>) -> Lazy {
        handle.handle
    }

    fn quantized_tensor(handle: TensorHandle<Lazy>) -> Lazy {
        handle.handle
    }

    fn float_tensor_handle(tensor: Lazy) -> Lazy {
        tensor
    }

    fn int_tensor_handle(tensor: Lazy) -> Lazy {
        tensor
    }

    fn bool_tensor_handle(tensor: Lazy) -> Lazy {
        tensor
    }

    fn quantized_tensor_handle(tensor: Lazy) -> Lazy {
        tensor
    }
}
