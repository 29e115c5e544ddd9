//! `libcuda`: what CUDA's driver has in its own way. The rest it shares with HIP's runtime: `gpu/sys/runtime.rs`.
//!
//! Source: NVIDIA's CUDA driver API reference, versions 11 to 13. Types are as in its C header; handles are opaque. A
//! suffix `_v2` is the name that the header's macro stands for.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use crate::foreign::Status;
use crate::gpu::sys::runtime::{DeviceHandle, FunctionHandle, GraphHandle, GraphInstance, GraphNode, StreamHandle};

/// `CUcontext`.
pub type ContextHandle = *mut c_void;

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
/// `CU_LAUNCH_PARAM_END`.
pub const LAUNCH_END: *mut c_void = std::ptr::null_mut();

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

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub struct KernelNode {
    /// The kernel.
    pub function: FunctionHandle,
    /// Workgroups.
    pub grid: [c_uint; 3],
    /// Threads of each.
    pub block: [c_uint; 3],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// Arguments one by one.
    pub parameters: *mut *mut c_void,
    /// Arguments as a whole.
    pub extra: *mut *mut c_void,
    /// The kernel, where `function` is null.
    pub kernel: *mut c_void,
    /// The kernel's context; null for the thread's.
    pub context: ContextHandle,
}
const _: () = assert!(size_of::<KernelNode>() == 72);

crate::foreign::table! {
    /// The functions of `libcuda` that are used and that HIP's runtime has not.
    LibCuda {
        /// Starts the driver; `flags` is 0.
        fn cuInit(flags: c_uint) -> Status;
        /// Newest version of CUDA that the driver serves, `major * 1000 + minor * 10`.
        fn cuDriverGetVersion(version: *mut c_int) -> Status;
        /// A code's name.
        fn cuGetErrorName(status: Status, name: *mut *const c_char) -> Status;
        /// A code's text.
        fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status;
        /// The handle of device number `ordinal`.
        fn cuDeviceGet(device: *mut DeviceHandle, ordinal: c_int) -> Status;
        /// The context that everybody in the process shares.
        fn cuDevicePrimaryCtxRetain(context: *mut ContextHandle, device: DeviceHandle) -> Status;
        /// Makes a context the calling thread's.
        fn cuCtxSetCurrent(context: ContextHandle) -> Status;
        /// A copy in a stream's order between two contexts.
        fn cuMemcpyPeerAsync(
            target: u64, target_context: ContextHandle, source: u64, source_context: ContextHandle, bytes: usize,
            stream: StreamHandle
        ) -> Status;
        /// Makes a graph that can be launched; from CUDA 11.4 on.
        fn cuGraphInstantiateWithFlags(instance: *mut GraphInstance, graph: GraphHandle, flags: c_ulonglong) -> Status;
        /// Sets what a kernel is launched with in a graph that can be launched; from CUDA 12 on.
        fn cuGraphExecKernelNodeSetParams_v2(
            instance: GraphInstance, node: GraphNode, with: *const KernelNode
        ) -> Status;
        /// Sets a number about a kernel.
        fn cuFuncSetAttribute(function: FunctionHandle, attribute: c_int, value: c_int) -> Status;
        /// Launches a kernel with attributes; from CUDA 11.8 on.
        fn cuLaunchKernelEx(
            config: *const LaunchConfig, function: FunctionHandle, parameters: *mut *mut c_void, extra: *mut *mut c_void
        ) -> Status;
    }
}
