//! `libcuda`: CUDA's driver.
//!
//! Source: NVIDIA's CUDA driver API reference, versions 11 to 13. Types are as in its C header; handles are opaque. A
//! suffix `_v2` is the name that the header's macro stands for.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};

/// `CUresult`.
pub type Status = c_int;
/// `CUdevice`.
pub type DeviceHandle = c_int;
/// `CUcontext`.
pub type ContextHandle = *mut c_void;
/// `CUstream`.
pub type StreamHandle = *mut c_void;
/// `CUevent`.
pub type EventHandle = *mut c_void;
/// `CUmodule`.
pub type ModuleHandle = *mut c_void;
/// `CUfunction`.
pub type FunctionHandle = *mut c_void;

/// `CUgraph`.
pub type GraphHandle = *mut c_void;
/// `CUgraphExec`.
pub type GraphInstance = *mut c_void;

/// `CUDA_SUCCESS`.
pub const SUCCESS: Status = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Status = 2;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Status = 100;
/// Codes after which a context serves no more: deinitialised, uncorrectable ECC error, illegal address, launch time-out,
/// destroyed context, assertion on the device, hardware stack, illegal instruction, misaligned address, illegal address
/// space, illegal program counter, launch failure, unknown.
pub const STICKY: [Status; 13] = [4, 214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999];

/// `CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK`.
pub const MAX_THREADS_PER_BLOCK: c_int = 1;
/// `CU_DEVICE_ATTRIBUTE_WARP_SIZE`.
pub const WARP_SIZE: c_int = 10;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const MULTIPROCESSOR_COUNT: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const COMPUTE_CAPABILITY_MINOR: c_int = 76;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`: what a function can have once it has asked.
pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

/// `CU_MEMHOSTALLOC_DEVICEMAP`: the device writes it, and the host sees that without asking the device.
pub const HOST_MAPPED: c_uint = 2;
/// `CU_STREAM_NON_BLOCKING`: no order with the null stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`: with times.
pub const EVENT_DEFAULT: c_uint = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: modules may be loaded meanwhile. That nothing else happens is seen to elsewhere.
pub const CAPTURE_RELAXED: c_int = 2;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`, `CU_LAUNCH_PARAM_END`: keys of `extra`.
pub const LAUNCH_BUFFER: [*mut c_void; 3] =
    [std::ptr::without_provenance_mut(1), std::ptr::without_provenance_mut(2), std::ptr::null_mut()];

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
pub const PROGRAMMATIC_STREAM_SERIALIZATION: c_int = 6;

/// `CUlaunchAttribute` with a value that is a number; the union that holds it has 64 bytes.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    /// Which.
    pub id: c_int,
    /// The union lies on the next multiple of 8.
    pub padding: [c_int; 1],
    /// The number, in the first word.
    pub value: [c_int; 16],
}
const _: () = assert!(size_of::<LaunchAttribute>() == 72);

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    /// Workgroups.
    pub grid: [c_uint; 3],
    /// Threads of each.
    pub block: [c_uint; 3],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: StreamHandle,
    /// What else there is to say.
    pub attributes: *mut LaunchAttribute,
    /// How much of it.
    pub attribute_count: c_uint,
}
const _: () = assert!(size_of::<LaunchConfig>() == 56);

super::table! {
    /// The functions of `libcuda` that this driver uses.
    LibCuda {
        /// Starts the driver; `flags` is 0.
        fn cuInit(flags: c_uint) -> Status;
        /// Newest version of CUDA that the driver serves, `major * 1000 + minor * 10`.
        fn cuDriverGetVersion(version: *mut c_int) -> Status;
        /// A code's name.
        fn cuGetErrorName(status: Status, name: *mut *const c_char) -> Status;
        /// A code's text.
        fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status;
        /// Number of devices.
        fn cuDeviceGetCount(count: *mut c_int) -> Status;
        /// The handle of device number `ordinal`.
        fn cuDeviceGet(device: *mut DeviceHandle, ordinal: c_int) -> Status;
        /// A device's name.
        fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: DeviceHandle) -> Status;
        /// A number about a device.
        fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: DeviceHandle) -> Status;
        /// A device's memory.
        fn cuDeviceTotalMem_v2(bytes: *mut usize, device: DeviceHandle) -> Status;
        /// The context that everybody in the process shares.
        fn cuDevicePrimaryCtxRetain(context: *mut ContextHandle, device: DeviceHandle) -> Status;
        /// Makes a context the calling thread's.
        fn cuCtxSetCurrent(context: ContextHandle) -> Status;
        /// Free and all memory of the thread's device.
        fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status;
        /// Device memory of the thread's device.
        fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Status;
        /// Gives device memory back; waits for the device.
        fn cuMemFree_v2(address: u64) -> Status;
        /// Host memory that is not paged out; `flags` is 0.
        fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status;
        /// Where the device finds host memory; `flags` is 0.
        fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, flags: c_uint) -> Status;
        /// Gives it back.
        fn cuMemFreeHost(memory: *mut c_void) -> Status;
        /// A copy in a stream's order between two contexts.
        fn cuMemcpyPeerAsync(
            target: u64, target_context: ContextHandle, source: u64, source_context: ContextHandle, bytes: usize,
            stream: StreamHandle
        ) -> Status;
        /// Lets a stream wait for an event, of whatever device; `flags` is 0.
        fn cuStreamWaitEvent(stream: StreamHandle, event: EventHandle, flags: c_uint) -> Status;
        /// A copy in a stream's order, from host memory.
        fn cuMemcpyHtoDAsync_v2(target: u64, source: *const c_void, bytes: usize, stream: StreamHandle) -> Status;
        /// A copy in a stream's order, to host memory.
        fn cuMemcpyDtoHAsync_v2(target: *mut c_void, source: u64, bytes: usize, stream: StreamHandle) -> Status;
        /// A copy in a stream's order, on the device.
        fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: StreamHandle) -> Status;
        /// A copy from the host in no stream's order; waits for it.
        fn cuMemcpyHtoD_v2(target: u64, source: *const c_void, bytes: usize) -> Status;
        /// Sets bytes in a stream's order.
        fn cuMemsetD8Async(target: u64, value: c_uchar, bytes: usize, stream: StreamHandle) -> Status;
        /// A new stream on the thread's device.
        fn cuStreamCreate(stream: *mut StreamHandle, flags: c_uint) -> Status;
        /// Waits for a stream.
        fn cuStreamSynchronize(stream: StreamHandle) -> Status;
        /// Ends a stream.
        fn cuStreamDestroy_v2(stream: StreamHandle) -> Status;
        /// A new event.
        fn cuEventCreate(event: *mut EventHandle, flags: c_uint) -> Status;
        /// Puts an event on a stream.
        fn cuEventRecord(event: EventHandle, stream: StreamHandle) -> Status;
        /// Waits for an event.
        fn cuEventSynchronize(event: EventHandle) -> Status;
        /// Milliseconds between two events.
        fn cuEventElapsedTime(milliseconds: *mut f32, start: EventHandle, stop: EventHandle) -> Status;
        /// Ends an event.
        fn cuEventDestroy_v2(event: EventHandle) -> Status;
        /// From now on a stream records; `mode` as [`CAPTURE_RELAXED`].
        fn cuStreamBeginCapture_v2(stream: StreamHandle, mode: c_int) -> Status;
        /// Ends a stream's recording.
        fn cuStreamEndCapture(stream: StreamHandle, graph: *mut GraphHandle) -> Status;
        /// Makes a graph that can be launched; from CUDA 11.4 on.
        fn cuGraphInstantiateWithFlags(instance: *mut GraphInstance, graph: GraphHandle, flags: c_ulonglong) -> Status;
        /// Launches a graph.
        fn cuGraphLaunch(instance: GraphInstance, stream: StreamHandle) -> Status;
        /// Ends what can be launched.
        fn cuGraphExecDestroy(instance: GraphInstance) -> Status;
        /// Ends a graph.
        fn cuGraphDestroy(graph: GraphHandle) -> Status;
        /// Loads a cubin from memory onto the thread's device.
        fn cuModuleLoadData(module: *mut ModuleHandle, image: *const c_void) -> Status;
        /// A kernel of a module.
        fn cuModuleGetFunction(function: *mut FunctionHandle, module: ModuleHandle, name: *const c_char) -> Status;
        /// Where a variable of a module is, and its bytes.
        fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: ModuleHandle, name: *const c_char) -> Status;
        /// Unloads a module.
        fn cuModuleUnload(module: ModuleHandle) -> Status;
        /// Sets a number about a kernel.
        fn cuFuncSetAttribute(function: FunctionHandle, attribute: c_int, value: c_int) -> Status;
        /// Launches a kernel.
        fn cuLaunchKernel(
            function: FunctionHandle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
            block_z: c_uint, shared_bytes: c_uint, stream: StreamHandle, parameters: *mut *mut c_void,
            extra: *mut *mut c_void
        ) -> Status;
        /// Launches a kernel with attributes; from CUDA 11.8 on.
        fn cuLaunchKernelEx(
            config: *const LaunchConfig, function: FunctionHandle, parameters: *mut *mut c_void, extra: *mut *mut c_void
        ) -> Status;
    }
}
