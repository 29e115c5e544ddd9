//! What Burn 0.23 asks of cubecl's HIP runtime before it has a tensor, answered by rocfire's devices.
//!
//! Burn's feature `rocm` turns on the package `cubecl-hip`, whose compiler downloads an LLVM while it is built. This crate takes its
//! place: it lists devices, and has no client, since nothing of cubecl is ever launched.

use cubecl_core::client::Client;
use cubecl_core::zspace::{Shape, Strides};
pub use cubecl_runtime::device::AmdDevice;
use cubecl_runtime::device::DeviceId as CubeId;
use cubecl_runtime::runtime::{
    DeviceDescription, DevicePower, DeviceTemperature, DeviceUtilization, UtilizationUnavailable,
};
use rocfire_hal::{DeviceId, DriverKind};

/// The functions that cubecl's `Device` calls of a runtime.
#[derive(Clone, Copy, Debug)]
pub struct HipRuntime;

/// The devices of the best device's driver, by number.
fn devices() -> Vec<CubeId> {
    let of: fn(u16) -> rocfire_hal::Result<DeviceId> = match DeviceId::from_env().map(DeviceId::driver) {
        Ok(DriverKind::Hip) => DeviceId::hip,
        Ok(DriverKind::Cuda) => DeviceId::cuda,
        Ok(DriverKind::Emulated | DriverKind::Noop) => return vec![CubeId { type_id: 0, index_id: 0 }],
        Err(_) => return Vec::new(),
    };
    (0..=u16::from(u8::MAX)).take_while(|&n| of(n).is_ok()).map(|index_id| CubeId { type_id: 0, index_id }).collect()
}

impl HipRuntime {
    /// # Panics
    /// Always: kernels of cubecl do not run here.
    pub fn client(device: &AmdDevice) -> Client {
        panic!("{device:?} is rocfire's and has no client of cubecl: what is asked of one cannot be had")
    }

    /// Whether a tensor can be read as it lies, which every layout can.
    pub fn can_read_tensor(_shape: &Shape, _strides: &Strides) -> bool {
        true
    }

    /// The devices that `Device::rocm` takes by number.
    pub fn enumerate_all_devices() -> Vec<CubeId> {
        devices()
    }

    /// As [`HipRuntime::enumerate_all_devices`]: there is one kind.
    pub fn enumerate_devices_like(_id: CubeId) -> Vec<CubeId> {
        devices()
    }

    /// Whether a device is there; one that is named by driver and architecture is.
    ///
    /// # Errors
    /// How many there are.
    pub fn find_device(id: CubeId) -> Result<(), usize> {
        let found = devices();
        if id.index_id > u16::from(u8::MAX) || found.contains(&id) { Ok(()) } else { Err(found.len()) }
    }

    /// Whether there is any.
    pub fn is_available() -> bool {
        !devices().is_empty()
    }

    /// Not known here.
    pub fn description(_device: &AmdDevice) -> Option<DeviceDescription> {
        None
    }

    /// # Errors
    /// Always: no counter is read.
    pub fn utilization(_device: &AmdDevice) -> Result<DeviceUtilization, UtilizationUnavailable> {
        Err(UtilizationUnavailable::RuntimeReadsNoCounter)
    }

    /// # Errors
    /// Always: no counter is read.
    pub fn temperature(_device: &AmdDevice) -> Result<DeviceTemperature, UtilizationUnavailable> {
        Err(UtilizationUnavailable::RuntimeReadsNoCounter)
    }

    /// # Errors
    /// Always: no counter is read.
    pub fn power(_device: &AmdDevice) -> Result<DevicePower, UtilizationUnavailable> {
        Err(UtilizationUnavailable::RuntimeReadsNoCounter)
    }
}
