//! `libamdhip64`: HIP's runtime.
//!
//! Source: AMD's HIP runtime API reference, versions 5.2 to 7. Types are as in its C header; handles are opaque.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `hipError_t`.
pub type Status = c_int;
/// `hipDevice_t`.
pub type DeviceHandle = c_int;
/// `hipStream_t`.
pub type StreamHandle = *mut c_void;
/// `hipEvent_t`.
pub type EventHandle = *mut c_void;
/// `hipModule_t`.
pub type ModuleHandle = *mut c_void;
/// `hipFunction_t`.
pub type FunctionHandle = *mut c_void;

/// `hipGraph_t`.
pub type GraphHandle = *mut c_void;
/// `hipGraphExec_t`.
pub type GraphInstance = *mut c_void;

/// `hipSuccess`.
pub const SUCCESS: Status = 0;
/// `hipErrorInvalidValue`, and `hipErrorNotFound`: what releases answer to the name of a variable that is not there.
pub const INVALID_VALUE: Status = 1;
pub const NOT_FOUND: Status = 500;
/// `hipErrorOutOfMemory`.
pub const OUT_OF_MEMORY: Status = 2;
/// `hipErrorNoDevice`.
pub const NO_DEVICE: Status = 100;
/// Codes after which a context serves no more: deinitialised, uncorrectable ECC error, illegal address, launch time-out,
/// destroyed context, assertion on the device, launch failure, unknown.
pub const STICKY: [Status; 8] = [4, 214, 700, 702, 709, 710, 719, 999];

/// `hipDeviceAttributeMultiprocessorCount`, HIP 5 and later (numbers differ in HIP 4).
pub const MULTIPROCESSOR_COUNT: c_int = 63;
/// `hipDeviceAttributeWarpSize`.
pub const WARP_SIZE: c_int = 87;

/// `hipStreamNonBlocking`: no order with the null stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipHostMallocMapped | hipHostMallocCoherent`: the device writes it, and the host sees that without asking the device.
pub const HOST_MAPPED: c_uint = 0x2 | 0x4000_0000;
/// `hipEventDefault`: with times.
pub const EVENT_DEFAULT: c_uint = 0;
/// `hipMemcpyHostToDevice`.
pub const HOST_TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
pub const DEVICE_TO_HOST: c_int = 2;
/// `hipMemcpyDeviceToDevice`.
pub const DEVICE_TO_DEVICE: c_int = 3;
/// `hipStreamCaptureModeRelaxed`: modules may be loaded meanwhile. That nothing else happens is seen to elsewhere.
pub const CAPTURE_RELAXED: c_int = 2;
/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `HIP_LAUNCH_PARAM_BUFFER_SIZE`, `HIP_LAUNCH_PARAM_END`: keys of `extra`.
pub const LAUNCH_BUFFER: [*mut c_void; 3] =
    [std::ptr::without_provenance_mut(1), std::ptr::without_provenance_mut(2), std::ptr::without_provenance_mut(3)];

super::table! {
    /// The functions of `libamdhip64` that this driver uses.
    AmdHip64 {
        /// Version of the runtime, `major * 10^7 + minor * 10^5 + patch`.
        fn hipRuntimeGetVersion(version: *mut c_int) -> Status;
        /// A code's name.
        fn hipGetErrorName(status: Status) -> *const c_char;
        /// A code's text.
        fn hipGetErrorString(status: Status) -> *const c_char;
        /// Number of devices.
        fn hipGetDeviceCount(count: *mut c_int) -> Status;
        /// Makes a device the calling thread's.
        fn hipSetDevice(device: DeviceHandle) -> Status;
        /// A device's name.
        fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: DeviceHandle) -> Status;
        /// A number about a device.
        fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: DeviceHandle) -> Status;
        /// A device's memory.
        fn hipDeviceTotalMem(bytes: *mut usize, device: DeviceHandle) -> Status;
        /// A device's properties: HIP 5's layout in HIP 5 and 6, gone or HIP 6's layout in HIP 7.
        fn hipGetDeviceProperties(properties: *mut c_void, device: DeviceHandle) -> Status;
        /// A device's properties in HIP 6's layout; from HIP 6 on.
        fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: DeviceHandle) -> Status;
        /// Free and all memory of the thread's device.
        fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Status;
        /// Device memory of the thread's device.
        fn hipMalloc(address: *mut u64, bytes: usize) -> Status;
        /// Gives device memory back; waits for the device.
        fn hipFree(address: u64) -> Status;
        /// Host memory that is not paged out; `flags` 0 is as the device's own.
        fn hipHostMalloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status;
        /// Where the device finds host memory; `flags` is 0.
        fn hipHostGetDevicePointer(address: *mut u64, memory: *mut c_void, flags: c_uint) -> Status;
        /// Gives it back.
        fn hipHostFree(memory: *mut c_void) -> Status;
        /// A copy in a stream's order between two devices.
        fn hipMemcpyPeerAsync(
            target: u64, target_device: DeviceHandle, source: u64, source_device: DeviceHandle, bytes: usize, stream: StreamHandle
        ) -> Status;
        /// Lets a stream wait for an event, of whatever device; `flags` is 0.
        fn hipStreamWaitEvent(stream: StreamHandle, event: EventHandle, flags: c_uint) -> Status;
        /// A copy in a stream's order. Addresses of either side.
        fn hipMemcpyAsync(target: u64, source: u64, bytes: usize, kind: c_int, stream: StreamHandle) -> Status;
        /// A copy from the host in no stream's order; waits for it.
        fn hipMemcpyHtoD(target: u64, source: *mut c_void, bytes: usize) -> Status;
        /// Sets bytes in a stream's order.
        fn hipMemsetAsync(target: u64, value: c_int, bytes: usize, stream: StreamHandle) -> Status;
        /// A new stream on the thread's device.
        fn hipStreamCreateWithFlags(stream: *mut StreamHandle, flags: c_uint) -> Status;
        /// Waits for a stream.
        fn hipStreamSynchronize(stream: StreamHandle) -> Status;
        /// Ends a stream.
        fn hipStreamDestroy(stream: StreamHandle) -> Status;
        /// A new event.
        fn hipEventCreateWithFlags(event: *mut EventHandle, flags: c_uint) -> Status;
        /// Puts an event on a stream.
        fn hipEventRecord(event: EventHandle, stream: StreamHandle) -> Status;
        /// Waits for an event.
        fn hipEventSynchronize(event: EventHandle) -> Status;
        /// Milliseconds between two events.
        fn hipEventElapsedTime(milliseconds: *mut f32, start: EventHandle, stop: EventHandle) -> Status;
        /// Ends an event.
        fn hipEventDestroy(event: EventHandle) -> Status;
        /// From now on a stream records; `mode` as [`CAPTURE_RELAXED`].
        fn hipStreamBeginCapture(stream: StreamHandle, mode: c_int) -> Status;
        /// Ends a stream's recording.
        fn hipStreamEndCapture(stream: StreamHandle, graph: *mut GraphHandle) -> Status;
        /// Makes a graph that can be launched.
        fn hipGraphInstantiate(
            instance: *mut GraphInstance, graph: GraphHandle, failed_node: *mut *mut c_void, log: *mut c_char, log_bytes: usize
        ) -> Status;
        /// Launches a graph.
        fn hipGraphLaunch(instance: GraphInstance, stream: StreamHandle) -> Status;
        /// Ends what can be launched.
        fn hipGraphExecDestroy(instance: GraphInstance) -> Status;
        /// Ends a graph.
        fn hipGraphDestroy(graph: GraphHandle) -> Status;
        /// Loads a code object from memory onto the thread's device.
        fn hipModuleLoadData(module: *mut ModuleHandle, image: *const c_void) -> Status;
        /// A kernel of a module.
        fn hipModuleGetFunction(function: *mut FunctionHandle, module: ModuleHandle, name: *const c_char) -> Status;
        /// Where a variable of a module is, and its bytes.
        fn hipModuleGetGlobal(address: *mut u64, bytes: *mut usize, module: ModuleHandle, name: *const c_char) -> Status;
        /// Unloads a module.
        fn hipModuleUnload(module: ModuleHandle) -> Status;
        /// Launches a kernel.
        fn hipModuleLaunchKernel(
            function: FunctionHandle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
            block_z: c_uint, lds_bytes: c_uint, stream: StreamHandle, parameters: *mut *mut c_void,
            extra: *mut *mut c_void
        ) -> Status;
    }
}
