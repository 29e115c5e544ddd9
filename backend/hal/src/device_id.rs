//! Names of devices: driver, architecture, index.

use std::fmt;

use rocfire_arch::{Arch, DEFAULT_EMULATED, Vendor};

use crate::{Error, Result};

/// What runs a device's kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DriverKind {
    /// AMD GPUs through HIP.
    Hip = 0,
    /// NVIDIA GPUs through CUDA.
    Cuda = 1,
    /// The emulated AMD GPU in this process.
    Emulated = 2,
    /// Nothing: launches are checked and counted, not run.
    Noop = 3,
}

impl DriverKind {
    /// Every kind, in the order in which devices are looked for.
    pub const ALL: [DriverKind; 4] = [DriverKind::Hip, DriverKind::Cuda, DriverKind::Emulated, DriverKind::Noop];

    /// Its name in `ROCFIRE_DEVICE`.
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Hip => "hip",
            DriverKind::Cuda => "cuda",
            DriverKind::Emulated => "emulated",
            DriverKind::Noop => "noop",
        }
    }

    /// The kind of a name, `None` for any other text.
    pub fn from_name(name: &str) -> Option<DriverKind> {
        DriverKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A device by name: driver, architecture and, among the driver's devices, its index.
///
/// The name of a device that is not there can be made; [`crate::Device::get`] is what opens it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId {
    driver: DriverKind,
    arch: Arch,
    ordinal: u16,
}

impl DeviceId {
    /// A device of these three.
    pub const fn new(driver: DriverKind, arch: Arch, ordinal: u16) -> DeviceId {
        DeviceId { driver, arch, ordinal }
    }

    /// The emulated GPU of an architecture: `gfx942`, or a full target name, whose features are dropped. With a number behind
    /// a colon, another of the same: `gfx942:1`.
    ///
    /// # Errors
    /// [`Error::Arch`] for a name that is not in the table, or that is not AMD's.
    pub fn emulated(arch: &str) -> Result<DeviceId> {
        DeviceId::virtual_device(DriverKind::Emulated, arch)
    }

    /// The device that runs nothing, with the facts of an architecture.
    ///
    /// # Errors
    /// As [`DeviceId::emulated`].
    pub fn noop(arch: &str) -> Result<DeviceId> {
        DeviceId::virtual_device(DriverKind::Noop, arch)
    }

    /// AMD GPU number `ordinal`; its architecture is asked of the driver.
    ///
    /// # Errors
    /// [`Error::Load`] where HIP is not installed, [`Error::NoDevice`] where it has no such device, [`Error::Arch`] if
    /// the device's architecture is not in the table.
    pub fn hip(ordinal: u16) -> Result<DeviceId> {
        let arch = crate::device::describe_gpu(DriverKind::Hip, ordinal)?.arch;
        Ok(DeviceId::new(DriverKind::Hip, arch, ordinal))
    }

    /// NVIDIA GPU number `ordinal`; its architecture is asked of the driver.
    ///
    /// # Errors
    /// As [`DeviceId::hip`], of CUDA.
    pub fn cuda(ordinal: u16) -> Result<DeviceId> {
        let arch = crate::device::describe_gpu(DriverKind::Cuda, ordinal)?.arch;
        Ok(DeviceId::new(DriverKind::Cuda, arch, ordinal))
    }

    /// What runs its kernels.
    pub const fn driver(self) -> DriverKind {
        self.driver
    }

    /// Its architecture.
    pub const fn arch(self) -> Arch {
        self.arch
    }

    /// Its index among the driver's devices.
    pub const fn ordinal(self) -> u16 {
        self.ordinal
    }

    fn virtual_device(driver: DriverKind, arch: &str) -> Result<DeviceId> {
        let numbered = arch.rsplit_once(':').and_then(|(arch, number)| Some((arch, number.parse::<u16>().ok()?)));
        let (arch, ordinal) = numbered.unwrap_or((arch, 0));
        let parsed = Arch::parse(arch)?;
        if parsed.info().vendor != Vendor::Amd {
            let known = Arch::all().filter(|arch| arch.info().vendor == Vendor::Amd);
            let known = known.map(Arch::name).collect::<Vec<_>>().join(", ");
            return Err(Error::Arch(rocfire_arch::Error::Unknown { name: arch.to_owned(), known }));
        }
        Ok(DeviceId::new(driver, parsed, ordinal))
    }

    pub(crate) fn default_emulated() -> DeviceId {
        DeviceId::emulated(DEFAULT_EMULATED).expect("the default is a row of the table, which arch's tests check")
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.driver {
            DriverKind::Hip | DriverKind::Cuda => write!(f, "{}:{} ({})", self.driver, self.ordinal, self.arch),
            DriverKind::Emulated | DriverKind::Noop => write_virtual(f, self.driver, self.arch, self.ordinal),
        }
    }
}

/// The name of an emulated device: its number only where there is another of the same.
fn write_virtual(f: &mut fmt::Formatter<'_>, driver: DriverKind, arch: Arch, ordinal: u16) -> fmt::Result {
    match ordinal {
        0 => write!(f, "{driver}:{arch}"),
        _ => write!(f, "{driver}:{arch}:{ordinal}"),
    }
}

/// What `ROCFIRE_DEVICE` can ask for: a driver, and which of its devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeviceChoice {
    /// `hip` or `hip:N`.
    Hip(u16),
    /// `cuda` or `cuda:N`.
    Cuda(u16),
    /// `emulated`, `emulated:gfx942` or `emulated:gfx942:1`.
    Emulated(Arch, u16),
    /// `noop`, `noop:gfx942` or `noop:gfx942:1`.
    Noop(Arch, u16),
}

impl DeviceChoice {
    /// Reads the text of `ROCFIRE_DEVICE`; the error says what was expected.
    pub(crate) fn parse(text: &str) -> Result<DeviceChoice, String> {
        let (driver, which) = text.split_once(':').map_or((text, None), |(driver, which)| (driver, Some(which)));
        let virtual_id = |make: fn(&str) -> Result<DeviceId>| {
            make(which.unwrap_or(DEFAULT_EMULATED)).map_err(|error| format!("an architecture behind {driver}: {error}"))
        };
        let ordinal = || {
            let parsed = which.unwrap_or("0").parse::<u16>();
            parsed.map_err(|_| format!("{driver}:N with the index of a device"))
        };
        match DriverKind::from_name(driver) {
            Some(DriverKind::Hip) => ordinal().map(DeviceChoice::Hip),
            Some(DriverKind::Cuda) => ordinal().map(DeviceChoice::Cuda),
            Some(DriverKind::Emulated) => {
                virtual_id(DeviceId::emulated).map(|id| DeviceChoice::Emulated(id.arch, id.ordinal))
            }
            Some(DriverKind::Noop) => virtual_id(DeviceId::noop).map(|id| DeviceChoice::Noop(id.arch, id.ordinal)),
            None => {
                Err("hip:N, cuda:N, emulated:ARCH[:N] or noop:ARCH[:N] (the part behind the colon can be left out)"
                    .to_owned())
            }
        }
    }

    /// The device it names.
    ///
    /// # Errors
    /// As [`DeviceId::hip`] and [`DeviceId::cuda`].
    pub fn id(self) -> Result<DeviceId> {
        match self {
            DeviceChoice::Hip(ordinal) => DeviceId::hip(ordinal),
            DeviceChoice::Cuda(ordinal) => DeviceId::cuda(ordinal),
            DeviceChoice::Emulated(arch, ordinal) => Ok(DeviceId::new(DriverKind::Emulated, arch, ordinal)),
            DeviceChoice::Noop(arch, ordinal) => Ok(DeviceId::new(DriverKind::Noop, arch, ordinal)),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Hip(ordinal) => write!(f, "hip:{ordinal}"),
            DeviceChoice::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            DeviceChoice::Emulated(arch, ordinal) => write_virtual(f, DriverKind::Emulated, *arch, *ordinal),
            DeviceChoice::Noop(arch, ordinal) => write_virtual(f, DriverKind::Noop, *arch, *ordinal),
        }
    }
}
