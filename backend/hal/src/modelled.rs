//! Modelled profiles of what runs on an emulated device: counts and bounds, never times.
//!
//! With [`Config::profile`](crate::Config) set (`ROCFIRE_PROFILE=modelled`) the emulated driver counts every launch by
//! instruction, or a sample of its workgroups, and keeps a [`ModelledKernel`] for each kernel, which
//! [`Device::modelled`](crate::Device::modelled) hands out: a whole program can be profiled. [`profile_code_object`] runs
//! one kernel of any code object. What is counted and what it is taken to cost is in the emulator's `MODEL.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use rocfire_arch::Arch;
use rocfire_emulator::{Gpu, Launch};

pub use rocfire_emulator::{Binding, Bound, CardBound, Pipe, Profile, Row, Sample, Tally};

use crate::emulated::{emulator_options, translate};
use crate::{Config, Error, Result, compile};

/// A kernel, over all its launches.
#[derive(Clone)]
pub struct ModelledKernel {
    /// Its name.
    pub name: String,
    /// Launches.
    pub launches: u64,
    /// Clocks that all launches need at least, of what binds each.
    pub clocks: f64,
    /// Of these, clocks of the matrix units.
    pub matrix_clocks: f64,
    /// Clocks that the card would need at its roofline.
    pub roofline_clocks: f64,
    /// The launch that needs most.
    pub largest: Profile,
}

/// What the driver has counted.
#[derive(Default)]
pub(crate) struct Recorder {
    /// By name and address of the code, which differs where modules have kernels of one name.
    kernels: Mutex<BTreeMap<(String, u64), ModelledKernel>>,
}

impl Recorder {
    /// Adds a launch.
    pub(crate) fn add(&self, profile: Profile) {
        let bound = profile.bound();
        let clocks = bound.needed_clocks();
        let matrix_clocks = bound.clocks(Pipe::Matrix);
        let roofline_clocks = bound.card.as_ref().map_or(0.0, |card| card.roofline * clocks);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = kernels.entry((profile.kernel.clone(), profile.code_address)).or_insert_with(|| ModelledKernel {
            name: profile.kernel.clone(),
            launches: 0,
            clocks: 0.0,
            matrix_clocks: 0.0,
            roofline_clocks: 0.0,
            largest: profile.clone(),
        });
        kernel.launches += 1;
        kernel.clocks += clocks;
        kernel.matrix_clocks += matrix_clocks;
        kernel.roofline_clocks += roofline_clocks;
        if clocks > kernel.largest.bound().needed_clocks() {
            kernel.largest = profile;
        }
    }

    /// The kernels, those that need most clocks first.
    pub(crate) fn kernels(&self) -> Vec<ModelledKernel> {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kernels: Vec<ModelledKernel> = kernels.values().cloned().collect();
        kernels.sort_by(|a, b| b.clocks.total_cmp(&a.clocks));
        kernels
    }
}

/// A table of kernels, a line each: its share of all modelled clocks, launches, what binds its largest launch, how busy
/// the matrix units and how far up the card's roofline it can be.
pub fn summary(kernels: &[ModelledKernel]) -> String {
    let all: f64 = kernels.iter().map(|kernel| kernel.clocks).sum();
    let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:>6} {:>9} {:>14} {:>14} {:>10}  modelled: bounds, not times",
        "share", "launches", "bound by", "matrix busy", "roofline"
    );
    for kernel in kernels {
        let bound = kernel.largest.bound();
        let binding = bound.card.as_ref().map_or(bound.longest.name(), |card| card.binding.name());
        let _ = writeln!(
            text,
            "{:>5.1}% {:>9} {binding:>14} {:>13.1}% {:>9.1}%  {}",
            percent(kernel.clocks, all),
            kernel.launches,
            percent(kernel.matrix_clocks, kernel.clocks),
            percent(kernel.roofline_clocks, kernel.clocks),
            kernel.name
        );
    }
    text
}

/// An argument of a kernel that is launched without a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A pointer to a zeroed buffer of so many bytes.
    Buffer(u64),
    /// These bytes, aligned to their number.
    Value(Vec<u8>),
}

/// How to launch a kernel of a code object.
#[derive(Clone, Debug)]
pub struct CodeObjectLaunch<'a> {
    /// The code object's bytes.
    pub code: &'a [u8],
    /// The kernel's name; `None` for the only one there is.
    pub kernel: Option<&'a str>,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// LDS on top of the static one.
    pub lds_bytes: u32,
    /// In the kernel's order.
    pub arguments: &'a [Argument],
}

/// The architecture that a code object is for.
///
/// # Errors
/// [`Error::CodeObject`] if it is none of ours.
pub fn code_object_arch(code: &[u8]) -> Result<Arch> {
    compile::arch_of(code).map_err(|reason| Error::CodeObject { name: "profile".to_owned(), reason })
}

/// Launches a kernel on an emulated device of its own and counts.
///
/// # Errors
/// [`Error::CodeObject`] and [`Error::NoKernel`]; the emulator's, for a launch that it refuses or that faults.
pub fn profile_code_object(config: &Config, launch: &CodeObjectLaunch<'_>, sample: Sample) -> Result<Profile> {
    let arch = code_object_arch(launch.code)?;
    let emulator = |error| translate("profile", error);
    let gpu = Gpu::new(arch, emulator_options(config)).map_err(emulator)?;
    let module = gpu.load(launch.code).map_err(emulator)?;
    let names: Vec<&str> = module.kernel_names().collect();
    let only = match names[..] {
        [only] => Some(only),
        _ => None,
    };
    let name = launch.kernel.or(only).unwrap_or_default();
    let kernel = module.kernel(name).ok_or_else(|| Error::NoKernel {
        module: "the code object".to_owned(),
        kernel: name.to_owned(),
        has: names.join(", "),
    })?;
    let mut kernarg = Vec::new();
    for argument in launch.arguments {
        let bytes = match argument {
            Argument::Buffer(bytes) => gpu.allocate(*bytes).map_err(emulator)?.to_le_bytes().to_vec(),
            Argument::Value(bytes) => bytes.clone(),
        };
        kernarg.resize(kernarg.len().next_multiple_of(bytes.len().max(1)), 0);
        kernarg.extend(bytes);
    }
    let launch =
        Launch { grid: launch.grid, block: launch.block, dynamic_lds_bytes: launch.lds_bytes, kernarg: &kernarg };
    gpu.profile(&kernel, &launch, sample).map_err(emulator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, DeviceId};

    #[test]
    fn foreign_files_are_refused() {
        for code in [&b""[..], b"\x7fELF\x02", &[0; 64]] {
            assert!(matches!(code_object_arch(code), Err(Error::CodeObject { .. })));
        }
    }

    #[test]
    fn devices_without_a_profile_have_none() {
        let device = Device::open(DeviceId::emulated("gfx942").unwrap(), Config::default()).unwrap();
        assert!(device.modelled().is_none());
        let config = Config::default().with_profile(Sample::default());
        let device = Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap();
        assert!(device.modelled().is_some_and(|kernels| kernels.is_empty()));
    }
}
