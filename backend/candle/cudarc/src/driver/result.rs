//! The part of cudarc's layer `result`, which lies below the types with owners, that Candle calls.

pub use super::error::DriverError;

/// Questions to a device.
pub mod device {
    use super::super::context::device_id;
    use super::super::sys::{CUdevice, CUdevice_attribute};
    use super::DriverError;

    /// An attribute of a device, in CUDA's terms. Candle passes some of them to launchers of `candle-kernels`, which ignore them.
    ///
    /// # Errors
    /// The device is not there.
    ///
    /// # Safety
    /// Nothing is asked: the `unsafe` is cudarc's signature.
    pub unsafe fn get_attribute(device: CUdevice, attribute: CUdevice_attribute) -> Result<i32, DriverError> {
        use CUdevice_attribute::*;
        let ordinal = usize::try_from(device).map_err(|_| DriverError::new(format!("no device {device}")))?;
        let device = rocfire_hal::Device::get(device_id(ordinal)?)?;
        let info = device.info();
        let value = match attribute {
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => info.max_workgroup_threads,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK | CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => {
                info.lds_bytes
            }
            CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => info.compute_units,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => 8,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => 0,
        };
        i32::try_from(value).map_err(|_| DriverError::new(format!("{attribute:?} is {value}, which i32 cannot hold")))
    }
}
