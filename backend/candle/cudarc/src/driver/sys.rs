//! The types of CUDA's driver interface that Candle names.

#![allow(non_camel_case_types)] // CUDA's names.

/// An address on a device.
pub type CUdeviceptr = u64;

/// A device, by its ordinal.
pub type CUdevice = i32;

/// What a [`CUstream`] seems to point to. Nothing may be read there.
#[derive(Debug)]
pub enum CUstream_st {}

/// A number that names a live [`crate::driver::CudaStream`] to `candle-kernels`. It means nothing to CUDA or HIP.
pub type CUstream = *mut CUstream_st;

/// Whether a stream is recording a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CUstreamCaptureStatus {
    /// It is not.
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    /// It is.
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    /// It was, and the recording cannot be used any more.
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
}

/// The questions that can be asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CUdevice_attribute {
    /// Threads that one workgroup can have.
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    /// LDS that one workgroup can have, bytes.
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    /// Lanes of what Candle's geometries call a warp: always 32, whatever the device's wave has.
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    /// Compute units.
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    /// The generation of NVIDIA GPU whose abilities Candle may expect: always 8, whatever the device.
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    /// The second number of that generation: always 0.
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    /// LDS that one workgroup can have, bytes.
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
}
