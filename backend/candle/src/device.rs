//! Opening Candle's device, and saying what it is.

use std::fmt;
use std::sync::Arc;

use candle_core::cuda_backend::kernels;
use candle_core::{Device, Result};
use cudarc::driver::CudaContext;
use cudarc::rocfire::KernelLibrary;
use rocfire_hal::{DeviceId, DeviceInfo, DriverKind};

/// Candle's device and what stands behind it; prints as a sentence or two.
#[derive(Clone, Debug)]
pub struct Found {
    /// For Candle.
    pub device: Device,
    /// What rocfire calls it: driver, architecture, index.
    pub id: DeviceId,
    /// What its driver says of it.
    pub info: DeviceInfo,
}

/// Opens Candle's first device: the one that `ROCFIRE_DEVICE` names, else the first AMD GPU, else the first NVIDIA one, else
/// an emulated one.
///
/// # Errors
/// A wrong setting, a GPU that was asked for and is not there, as [`candle_core::Error`].
pub fn device() -> Result<Found> {
    let device = Device::new_cuda(0)?;
    // These compile only where the patches are in force, and of the same source as this crate.
    let context = opened(&device)?;
    let _kernels: &'static dyn KernelLibrary = kernels::AFFINE.ptx();
    let opened = context.device();
    Ok(Found { device, id: opened.id(), info: opened.info().clone() })
}

/// Kernels launched on a device since it was opened: what says how many of Candle's launches became one. Those that wait are
/// launched, and counted, now.
///
/// # Errors
/// A device that is not rocfire's.
pub fn launches(device: &Device) -> Result<u64> {
    Ok(opened(device)?.device().stream().launches())
}

/// Waits until every kernel that was asked for is compiled. Until then kernels for rows of any length may stand in for others, which
/// give the same and take longer: see `ROCFIRE_GENERIC`.
///
/// # Errors
/// A device that is not rocfire's.
pub fn wait_for_compiles(device: &Device) -> Result<()> {
    opened(device)?.device().wait_for_compiles();
    Ok(())
}

/// What is behind a device of Candle's.
fn opened(device: &Device) -> Result<Arc<CudaContext>> {
    Ok(device.as_cuda_device()?.cuda_stream().context().clone())
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceInfo { name, compute_units, memory_bytes, .. } = &self.info;
        let memory_gib = *memory_bytes as f64 / f64::from(1 << 30);
        write!(f, "{} ({}): {compute_units} compute units, {memory_gib:.1} GiB", name, self.id)?;
        match self.id.driver() {
            DriverKind::Hip => Ok(()),
            DriverKind::Cuda => f.write_str(", driven by rocfire's kernels through CUDA, not by Candle's own"),
            DriverKind::Emulated => {
                f.write_str(", run on the CPU: right, and slow. ROCFIRE_DEVICE=hip:0 asks for an AMD GPU")
            }
            DriverKind::Noop => f.write_str(", which runs nothing: results are meaningless"),
        }
    }
}
