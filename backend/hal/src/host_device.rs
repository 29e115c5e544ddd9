//! What devices without silicon have in common: what they say they are, and events by the host's clock.

use std::any::Any;
use std::time::Instant;

use rocfire_arch::Arch;

use crate::driver::{DeviceInfo, DriverEvent};
use crate::{DriverKind, Result};

/// The number of compute units where the table knows no card.
const COMPUTE_UNITS: u32 = 64;
/// Threads that a workgroup can have on every AMD GPU.
const MAX_WORKGROUP_THREADS: u32 = 1024;

/// A device of an architecture, with its card's numbers.
pub(crate) fn info(driver: DriverKind, arch: Arch, memory_bytes: u64) -> DeviceInfo {
    let row = arch.info();
    DeviceInfo {
        name: format!("{driver} {arch}"),
        arch,
        target: arch.name().to_owned(),
        wave_size: row.wave_size,
        compute_units: row.card.map_or(COMPUTE_UNITS, |card| card.compute_units),
        lds_bytes: row.lds_bytes,
        max_workgroup_threads: MAX_WORKGROUP_THREADS,
        memory_bytes,
        driver_version: format!("rocfire {}", env!("CARGO_PKG_VERSION")),
    }
}

/// An event of a driver whose work is done when the call returns.
pub(crate) struct HostEvent(Instant);

impl HostEvent {
    pub fn now() -> HostEvent {
        HostEvent(Instant::now())
    }
}

impl DriverEvent for HostEvent {
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn elapsed_ms(&self, earlier: &dyn DriverEvent) -> Result<f64> {
        let earlier: &HostEvent = earlier.as_any().downcast_ref().expect("both events come from one device's driver");
        Ok(self.0.duration_since(earlier.0).as_secs_f64() * 1e3)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
