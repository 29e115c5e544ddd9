//! The device that tests run on.

use rocfire_hal::{DeviceId, Result};

/// What `ROCFIRE_DEVICE` names, else the emulated default: CI and a newcomer's machine are judged alike, whatever card they have.
pub fn device_id() -> Result<DeviceId> {
    let asked = std::env::var_os("ROCFIRE_DEVICE").is_some();
    if asked { DeviceId::from_env() } else { DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED) }
}
