//! `libamdhip64`: what HIP's runtime has in its own way. The rest it shares with CUDA's driver: `gpu/sys/runtime.rs`.
//!
//! Source: AMD's HIP runtime API reference, versions 5.2 to 7. Types are as in its C header; handles are opaque.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::foreign::Status;
use crate::gpu::sys::runtime::{DeviceHandle, FunctionHandle, GraphHandle, GraphInstance, GraphNode, StreamHandle};

/// Codes after which a context serves no more: deinitialised, uncorrectable ECC error, illegal address, launch time-out,
/// destroyed context, assertion on the device, launch failure, unknown.
pub const STICKY: [Status; 8] = [4, 214, 700, 702, 709, 710, 719, 999];

/// `hipDeviceAttributeMultiprocessorCount`, HIP 5 and later (numbers differ in HIP 4).
pub const MULTIPROCESSOR_COUNT: c_int = 63;
/// `hipDeviceAttributeWarpSize`.
pub const WARP_SIZE: c_int = 87;

/// `hipHostMallocMapped | hipHostMallocCoherent`: the device writes it, and the host sees that without asking the device.
pub const HOST_MAPPED: c_uint = 0x2 | 0x4000_0000;
/// `HIP_LAUNCH_PARAM_END`.
pub const LAUNCH_END: *mut c_void = std::ptr::without_provenance_mut(3);

/// `hipKernelNodeParams`.
#[repr(C)]
pub struct KernelNode {
    /// Threads of a workgroup.
    pub block: [c_uint; 3],
    /// Arguments as a whole.
    pub extra: *mut *mut c_void,
    /// The kernel.
    pub function: FunctionHandle,
    /// Workgroups.
    pub grid: [c_uint; 3],
    /// Arguments one by one.
    pub parameters: *mut *mut c_void,
    /// Dynamic LDS.
    pub lds_bytes: c_uint,
}
const _: () = assert!(size_of::<KernelNode>() == 64);

crate::foreign::table! {
    /// The functions of `libamdhip64` that are used and that CUDA's driver has not.
    AmdHip64 {
        /// Version of the runtime, `major * 10^7 + minor * 10^5 + patch`.
        fn hipRuntimeGetVersion(version: *mut c_int) -> Status;
        /// A code's name.
        fn hipGetErrorName(status: Status) -> *const c_char;
        /// A code's text.
        fn hipGetErrorString(status: Status) -> *const c_char;
        /// Makes a device the calling thread's.
        fn hipSetDevice(device: DeviceHandle) -> Status;
        /// A device's properties: HIP 5's layout in HIP 5 and 6, gone or HIP 6's layout in HIP 7.
        fn hipGetDeviceProperties(properties: *mut c_void, device: DeviceHandle) -> Status;
        /// A device's properties in HIP 6's layout; from HIP 6 on.
        fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: DeviceHandle) -> Status;
        /// A copy in a stream's order between two devices.
        fn hipMemcpyPeerAsync(
            target: u64, target_device: DeviceHandle, source: u64, source_device: DeviceHandle, bytes: usize, stream: StreamHandle
        ) -> Status;
        /// Makes a graph that can be launched.
        fn hipGraphInstantiate(
            instance: *mut GraphInstance, graph: GraphHandle, failed_node: *mut *mut c_void, log: *mut c_char, log_bytes: usize
        ) -> Status;
        /// Sets what a kernel is launched with in a graph that can be launched.
        fn hipGraphExecKernelNodeSetParams(
            instance: GraphInstance, node: GraphNode, with: *const KernelNode
        ) -> Status;
    }
}
