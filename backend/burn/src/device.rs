//! The device as Burn sees it: a name that is copied about, opened when a tensor is made.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use burn_backend::quantization::{QuantScheme, QuantStore};
use burn_backend::{BoolDType, DeviceId as BurnId, DeviceOps, DeviceSettings, FloatDType, IntDType};
use burn_std::QuantConfig;
use rocfire_arch::Arch;
use rocfire_hal::{Config, Device, DeviceId, DriverKind};

use crate::error::{Error, OrPanic, Result};
use crate::version::{BurnDevice, burn_device, named};

/// Burn's device ids of ours have this type, or-ed with the driver. It shares no value with Burn's other runtimes, which
/// keep theirs in the upper three bits as 0 to 4, and 254 and 255 for the router.
const TYPE_ID: u16 = 0xC0;
/// The part of the type that is the driver.
const DRIVER_MASK: u16 = 0x3F;
/// Burn's index is the architecture's row above this many bits of ordinal.
const ORDINAL_BITS: u16 = 8;

/// A GPU, or the emulation of one.
///
/// A name: making one opens nothing, and it stays a name for a device that is not there until a tensor is made on it.
/// `Device::from(RocmDevice::default())` is Burn's device of it, where rocfire stands in Burn's slot.
///
/// ```
/// use rocfire_burn::RocmDevice;
///
/// let device = RocmDevice::emulated("gfx942")?;
/// assert_eq!(device, "emulated:gfx942".parse()?);
/// assert!(RocmDevice::emulated("gfx940").is_err(), "AMD has withdrawn that name");
/// # Ok::<(), rocfire_burn::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct RocmDevice(Name);

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Name {
    /// What `ROCFIRE_DEVICE` says, else the first GPU, else an emulated one.
    #[default]
    Best,
    /// By its number among the devices of the driver that the best device has.
    Nth(u16),
    /// By name.
    Id(DeviceId),
}

impl RocmDevice {
    /// GPU number `ordinal`; on a machine without GPUs, the emulated one of that number.
    pub const fn new(ordinal: usize) -> RocmDevice {
        // An index that no machine has is refused when the device is opened.
        RocmDevice(Name::Nth(if ordinal > u16::MAX as usize { u16::MAX } else { ordinal as u16 }))
    }

    /// The emulated GPU of an architecture: `gfx942`. Needs no hardware.
    ///
    /// # Errors
    /// [`Error::Device`] for a name that is not AMD's or not in the table.
    pub fn emulated(arch: &str) -> Result<RocmDevice, Error> {
        Ok(RocmDevice(Name::Id(DeviceId::emulated(arch)?)))
    }

    /// Burn's name for it, which `Device::from` takes with every version of Burn.
    ///
    /// # Panics
    /// With Burn 0.23, as [`RocmDevice::device_id`] fails, and for an ordinal above 255.
    pub fn burn(self) -> BurnDevice {
        burn_device(self)
    }

    /// The device that Burn's name stands for.
    ///
    /// # Panics
    /// With Burn 0.23, for a device of a runtime other than `rocm`'s.
    pub fn of_burn(device: &BurnDevice) -> RocmDevice {
        named(device)
    }

    /// The device behind an open one.
    pub fn of(device: &Device) -> RocmDevice {
        RocmDevice::with_id(device.id())
    }

    /// By its full name.
    pub(crate) const fn with_id(id: DeviceId) -> RocmDevice {
        RocmDevice(Name::Id(id))
    }

    /// The device's full name.
    ///
    /// # Errors
    /// [`Error::Device`] where `ROCFIRE_DEVICE` asks for what is not there.
    pub fn device_id(self) -> Result<DeviceId, Error> {
        static BEST: OnceLock<DeviceId> = OnceLock::new();
        let best = || match BEST.get() {
            Some(&best) => Ok(best),
            None => Ok(*BEST.get_or_init({
                let found = DeviceId::from_env()?;
                move || found
            })),
        };
        match self.0 {
            Name::Id(id) => Ok(id),
            Name::Best => best(),
            Name::Nth(ordinal) => match best()? {
                id if id.driver() == DriverKind::Hip => Ok(DeviceId::hip(ordinal)?),
                id if id.driver() == DriverKind::Cuda => Ok(DeviceId::cuda(ordinal)?),
                id => Ok(DeviceId::new(id.driver(), id.arch(), ordinal)),
            },
        }
    }

    /// The open device, the same for every caller: its memory, launches and settings can be asked of it.
    ///
    /// # Errors
    /// [`Error::Device`] where it is not there or cannot be opened.
    pub fn open(self) -> Result<Device, Error> {
        Ok(Device::get(self.device_id()?)?)
    }

    /// Whether it is hardware: times taken on anything else say nothing of a GPU.
    ///
    /// # Errors
    /// As [`RocmDevice::device_id`].
    pub fn is_gpu(self) -> Result<bool, Error> {
        Ok(matches!(self.device_id()?.driver(), DriverKind::Hip | DriverKind::Cuda))
    }

    /// How many devices the driver of the best device has.
    pub fn count() -> usize {
        let counted =
            |of: fn(u16) -> rocfire_hal::Result<DeviceId>| (0..u16::MAX).take_while(|&n| of(n).is_ok()).count();
        match RocmDevice::default().device_id().map(DeviceId::driver) {
            Ok(DriverKind::Hip) => counted(DeviceId::hip),
            Ok(DriverKind::Cuda) => counted(DeviceId::cuda),
            Ok(DriverKind::Emulated | DriverKind::Noop) => 1,
            Err(_) => 0,
        }
    }

    /// By its full name, so that two ways to write one device are equal; as written where it has none.
    fn resolved(self) -> Name {
        self.device_id().map_or(self.0, Name::Id)
    }
}

/// What Burn's enumeration of its LibTorch slot writes, kept here because associated items must live beside their type. Use
/// [`RocmDevice::new`].
#[doc(hidden)]
#[allow(non_snake_case, non_upper_case_globals)]
impl RocmDevice {
    pub const Cpu: RocmDevice = RocmDevice(Name::Best);
    pub const Mps: RocmDevice = RocmDevice(Name::Best);
    pub const Vulkan: RocmDevice = RocmDevice(Name::Best);

    pub const fn Cuda(ordinal: usize) -> RocmDevice {
        RocmDevice::new(ordinal)
    }
}

impl FromStr for RocmDevice {
    type Err = Error;

    /// The text of `ROCFIRE_DEVICE`: `hip:0`, `emulated:gfx942`, `noop`.
    fn from_str(text: &str) -> Result<RocmDevice, Error> {
        let (config, _) = Config::from_vars([("ROCFIRE_DEVICE".into(), text.into())])?;
        Ok(RocmDevice(Name::Id(DeviceId::choose(&config)?)))
    }
}

impl fmt::Display for RocmDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resolved() {
            Name::Id(id) => write!(f, "{id}"),
            Name::Nth(ordinal) => write!(f, "device {ordinal}"),
            Name::Best => f.write_str("the best device"),
        }
    }
}

impl fmt::Debug for RocmDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for RocmDevice {
    fn eq(&self, other: &RocmDevice) -> bool {
        self.0 == other.0 || self.resolved() == other.resolved()
    }
}

impl Eq for RocmDevice {}

impl std::hash::Hash for RocmDevice {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.resolved().hash(state);
    }
}

impl burn_backend::Device for RocmDevice {
    fn from_id(id: BurnId) -> RocmDevice {
        let ordinal = id.index_id & ((1 << ORDINAL_BITS) - 1);
        let driver = DriverKind::ALL.into_iter().find(|&kind| kind as u16 == id.type_id & DRIVER_MASK);
        match (driver, Arch::from_row(usize::from(id.index_id >> ORDINAL_BITS))) {
            (Some(driver), Some(arch)) if id.type_id & !DRIVER_MASK == TYPE_ID => {
                RocmDevice(Name::Id(DeviceId::new(driver, arch, ordinal)))
            }
            // Burn makes ids of type 0 to mean a device by its number.
            _ => RocmDevice(Name::Nth(id.index_id)),
        }
    }

    fn to_id(&self) -> BurnId {
        let id = self.device_id().or_panic();
        let row =
            u16::try_from(id.arch().row()).expect("the table of architectures has fewer rows than 8 bits can count");
        BurnId { type_id: TYPE_ID | id.driver() as u16, index_id: row << ORDINAL_BITS | id.ordinal() }
    }
}

impl DeviceOps for RocmDevice {
    fn defaults(&self) -> DeviceSettings {
        let scheme = QuantScheme::default().with_store(QuantStore::Native);
        let quantisation = QuantConfig::new(scheme, Default::default());
        DeviceSettings::new(FloatDType::F32, IntDType::I32, BoolDType::Native, quantisation)
    }
}

#[cfg(test)]
mod tests {
    use burn_backend::Device as _;

    use super::*;

    #[test]
    fn burn_id_round_trips_for_every_driver_and_architecture() {
        for driver in DriverKind::ALL {
            for arch in Arch::all() {
                let device = RocmDevice(Name::Id(DeviceId::new(driver, arch, 3)));
                assert_eq!(RocmDevice::from_id(device.to_id()), device);
            }
        }
    }

    #[test]
    fn burn_id_shares_no_type_with_cubecl_or_the_router() {
        let id = RocmDevice::emulated("gfx942").unwrap().to_id();
        assert_eq!(id.type_id >> 5, 6, "cubecl uses 0 to 4 in these bits");
        assert!(id.type_id < 254, "the router uses 254 and 255");
    }

    #[test]
    fn an_architecture_that_does_not_exist_is_refused_by_name() {
        let error = RocmDevice::emulated("gfx9999").unwrap_err().to_string();
        assert!(error.contains("gfx9999"), "{error}");
        assert!("cpu:0".parse::<RocmDevice>().is_err());
    }

    #[test]
    fn a_device_is_equal_however_it_was_named() {
        let named: RocmDevice = "noop:gfx1100".parse().unwrap();
        assert_eq!(named, RocmDevice::from_id(named.to_id()));
        assert_ne!(named, RocmDevice::emulated("gfx1100").unwrap());
    }
}
