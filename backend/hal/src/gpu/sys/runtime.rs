//! `libamdhip64` and `libcuda`: what HIP's runtime and CUDA's driver share.
//!
//! Source: AMD's HIP runtime API reference, versions 5.2 to 7; NVIDIA's CUDA driver API reference, versions 11 to 13. Types are
//! as in their C headers; handles are opaque, addresses of device memory are numbers. HIP took over CUDA's constants, so those
//! below are the same in both.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

use crate::foreign::Status;

/// `hipDevice_t`, `CUdevice`.
pub type DeviceHandle = c_int;
/// `hipStream_t`, `CUstream`.
pub type StreamHandle = *mut c_void;
/// `hipEvent_t`, `CUevent`.
pub type EventHandle = *mut c_void;
/// `hipModule_t`, `CUmodule`.
pub type ModuleHandle = *mut c_void;
/// `hipFunction_t`, `CUfunction`.
pub type FunctionHandle = *mut c_void;
/// `hipGraph_t`, `CUgraph`.
pub type GraphHandle = *mut c_void;
/// `hipGraphExec_t`, `CUgraphExec`.
pub type GraphInstance = *mut c_void;
/// `hipGraphNode_t`, `CUgraphNode`.
pub type GraphNode = *mut c_void;

/// `hipErrorInvalidValue`, and `hipErrorNotFound`, `CUDA_ERROR_NOT_FOUND`: what the name of a variable that is not there gives.
pub const INVALID_VALUE: Status = 1;
pub const NOT_FOUND: Status = 500;
/// `hipErrorOutOfMemory`, `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Status = 2;
/// `hipErrorNoDevice`, `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Status = 100;

/// `hipStreamNonBlocking`, `CU_STREAM_NON_BLOCKING`: no order with the null stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipEventDefault`, `CU_EVENT_DEFAULT`: with times.
pub const EVENT_DEFAULT: c_uint = 0;
/// `hipStreamCaptureModeRelaxed`, `CU_STREAM_CAPTURE_MODE_RELAXED`: modules may be loaded meanwhile. That nothing else happens
/// is seen to elsewhere.
pub const CAPTURE_RELAXED: c_int = 2;
/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `HIP_LAUNCH_PARAM_BUFFER_SIZE`, and as CUDA calls them: keys of a launch's `extra`. The
/// key that ends it differs.
pub const LAUNCH_BUFFER: [*mut c_void; 2] = [std::ptr::without_provenance_mut(1), std::ptr::without_provenance_mut(2)];

crate::foreign::table! {
    /// The functions of `libamdhip64` or `libcuda` that both have. A suffix `_v2` is the name that CUDA's header stands for.
    Runtime {
        /// Number of devices.
        fn device_count(count: *mut c_int) -> Status = "hipGetDeviceCount", "cuDeviceGetCount";
        /// A device's name.
        fn device_name(name: *mut c_char, bytes: c_int, device: DeviceHandle) -> Status
            = "hipDeviceGetName", "cuDeviceGetName";
        /// A number about a device.
        fn device_attribute(value: *mut c_int, attribute: c_int, device: DeviceHandle) -> Status
            = "hipDeviceGetAttribute", "cuDeviceGetAttribute";
        /// A device's memory.
        fn device_memory(bytes: *mut usize, device: DeviceHandle) -> Status = "hipDeviceTotalMem", "cuDeviceTotalMem_v2";
        /// Free and all memory of the thread's device.
        fn free_memory(free: *mut usize, total: *mut usize) -> Status = "hipMemGetInfo", "cuMemGetInfo_v2";
        /// Device memory of the thread's device.
        fn allocate(address: *mut u64, bytes: usize) -> Status = "hipMalloc", "cuMemAlloc_v2";
        /// Gives device memory back; waits for the device.
        fn free(address: u64) -> Status = "hipFree", "cuMemFree_v2";
        /// Host memory that is not paged out; `flags` 0 is as the device's own.
        fn pin(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status = "hipHostMalloc", "cuMemHostAlloc";
        /// Gives it back.
        fn unpin(memory: *mut c_void) -> Status = "hipHostFree", "cuMemFreeHost";
        /// Where the device finds host memory; `flags` is 0.
        fn pinned_address(address: *mut u64, memory: *mut c_void, flags: c_uint) -> Status
            = "hipHostGetDevicePointer", "cuMemHostGetDevicePointer_v2";
        /// A copy in a stream's order, from host memory.
        fn upload(target: u64, source: *const c_void, bytes: usize, stream: StreamHandle) -> Status
            = "hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2";
        /// A copy in a stream's order, to host memory.
        fn download(target: *mut c_void, source: u64, bytes: usize, stream: StreamHandle) -> Status
            = "hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2";
        /// A copy in a stream's order, on the device.
        fn copy(target: u64, source: u64, bytes: usize, stream: StreamHandle) -> Status
            = "hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2";
        /// A copy from the host in no stream's order; waits for it.
        fn upload_now(target: u64, source: *const c_void, bytes: usize) -> Status = "hipMemcpyHtoD", "cuMemcpyHtoD_v2";
        /// Sets bytes in a stream's order.
        fn fill(target: u64, value: c_uchar, bytes: usize, stream: StreamHandle) -> Status
            = "hipMemsetD8Async", "cuMemsetD8Async";
        /// A new stream on the thread's device.
        fn stream_create(stream: *mut StreamHandle, flags: c_uint) -> Status
            = "hipStreamCreateWithFlags", "cuStreamCreate";
        /// Waits for a stream.
        fn stream_synchronize(stream: StreamHandle) -> Status = "hipStreamSynchronize", "cuStreamSynchronize";
        /// Lets a stream wait for an event, of whatever device; `flags` is 0.
        fn stream_wait(stream: StreamHandle, event: EventHandle, flags: c_uint) -> Status
            = "hipStreamWaitEvent", "cuStreamWaitEvent";
        /// Ends a stream.
        fn stream_destroy(stream: StreamHandle) -> Status = "hipStreamDestroy", "cuStreamDestroy_v2";
        /// A new event.
        fn event_create(event: *mut EventHandle, flags: c_uint) -> Status = "hipEventCreateWithFlags", "cuEventCreate";
        /// Puts an event on a stream.
        fn event_record(event: EventHandle, stream: StreamHandle) -> Status = "hipEventRecord", "cuEventRecord";
        /// Waits for an event.
        fn event_synchronize(event: EventHandle) -> Status = "hipEventSynchronize", "cuEventSynchronize";
        /// Milliseconds between two events.
        fn event_elapsed(milliseconds: *mut f32, start: EventHandle, stop: EventHandle) -> Status
            = "hipEventElapsedTime", "cuEventElapsedTime";
        /// Ends an event.
        fn event_destroy(event: EventHandle) -> Status = "hipEventDestroy", "cuEventDestroy_v2";
        /// From now on a stream records; `mode` as [`CAPTURE_RELAXED`].
        fn capture_begin(stream: StreamHandle, mode: c_int) -> Status
            = "hipStreamBeginCapture", "cuStreamBeginCapture_v2";
        /// Ends a stream's recording.
        fn capture_end(stream: StreamHandle, graph: *mut GraphHandle) -> Status
            = "hipStreamEndCapture", "cuStreamEndCapture";
        /// What a stream records: whether it does, the recording's number, the graph, and the nodes that the next one comes behind.
        fn capture_info(
            stream: StreamHandle, status: *mut c_int, number: *mut u64, graph: *mut GraphHandle,
            before: *mut *const GraphNode, count: *mut usize
        ) -> Status = "hipStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v2";
        /// Launches a graph.
        fn graph_launch(instance: GraphInstance, stream: StreamHandle) -> Status = "hipGraphLaunch", "cuGraphLaunch";
        /// Ends what can be launched.
        fn graph_instance_destroy(instance: GraphInstance) -> Status = "hipGraphExecDestroy", "cuGraphExecDestroy";
        /// Ends a graph.
        fn graph_destroy(graph: GraphHandle) -> Status = "hipGraphDestroy", "cuGraphDestroy";
        /// Loads a code object from memory onto the thread's device.
        fn module_load(module: *mut ModuleHandle, image: *const c_void) -> Status
            = "hipModuleLoadData", "cuModuleLoadData";
        /// A kernel of a module.
        fn module_function(function: *mut FunctionHandle, module: ModuleHandle, name: *const c_char) -> Status
            = "hipModuleGetFunction", "cuModuleGetFunction";
        /// Where a variable of a module is, and its bytes.
        fn module_variable(address: *mut u64, bytes: *mut usize, module: ModuleHandle, name: *const c_char) -> Status
            = "hipModuleGetGlobal", "cuModuleGetGlobal_v2";
        /// Unloads a module.
        fn module_unload(module: ModuleHandle) -> Status = "hipModuleUnload", "cuModuleUnload";
        /// Launches a kernel.
        fn launch(
            function: FunctionHandle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
            block_z: c_uint, lds_bytes: c_uint, stream: StreamHandle, parameters: *mut *mut c_void,
            extra: *mut *mut c_void
        ) -> Status = "hipModuleLaunchKernel", "cuLaunchKernel";
    }
}
