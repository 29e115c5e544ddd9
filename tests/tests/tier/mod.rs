//! AMD's package, devices that take its kernels, and what tests of them are given.
#![allow(dead_code)] // Not every binary of tests that has this module in it asks for all of it.

pub mod paged;

use std::path::{Path, PathBuf};

use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};
use rocfire_kernels::aiter::AITER;

/// The package, if it is there.
pub fn package(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("ROCFIRE_AITER_DIR").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| {
        let downloads = std::env::var_os("ROCFIRE_FOREIGN").map(PathBuf::from);
        let downloads = downloads.unwrap_or_else(|| Config::from_env().unwrap().cache_dir.join("foreign"));
        downloads.join(AITER.hash)
    });
    if !folder.is_dir() {
        println!("skipped {test}: {} is missing; `cargo verify --foreign` downloads it", folder.display());
        return None;
    }
    Some(folder)
}

/// An emulated card with the package's code objects.
pub fn device(card: &str, folder: &Path, config: Config) -> Device {
    Device::open(DeviceId::emulated(card).unwrap(), config.with_aiter_dir(folder.to_owned())).unwrap()
}

/// Whether a launch of AMD's kernels is among those that `work` does.
pub fn is_theirs(device: &Device, work: impl FnOnce()) -> bool {
    launches(device, "aiter", work)
}

/// Whether a launch of kernels of a name is.
pub fn launches(device: &Device, name: &str, work: impl FnOnce()) -> bool {
    device.start_profile().unwrap();
    work();
    let timeline = device.take_profile().unwrap().unwrap();
    timeline.launches.iter().any(|launch| launch.kernel.contains(name))
}

/// bf16 of these values.
pub fn tensor(device: &Device, shape: &[usize], value: impl Fn(usize) -> f32) -> Tensor {
    let bytes: Vec<u8> =
        (0..shape.iter().product::<usize>()).flat_map(|at| half::bf16::from_f32(value(at)).to_le_bytes()).collect();
    Tensor::from_bytes(device, shape, DType::BF16, &bytes).unwrap()
}

/// What numbers of bf16 are.
pub fn floats(tensor: &Tensor) -> Vec<f32> {
    let bytes = tensor.to_bytes().unwrap();
    bytes.chunks_exact(2).map(|bytes| half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32()).collect()
}
