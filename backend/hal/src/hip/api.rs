//! HIP opened once per process, its status codes as errors, and what it says of devices.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use rocfire_arch::{Arch, Target};

use super::sys::Library;
use super::sys::amdhip64::{self as sys, AmdHip64, Status};
use crate::driver::DeviceInfo;
use crate::{DriverKind, Error, Result, rocm};

/// Names by which the loader knows the library, newest first; Windows' last.
const NAMES: [&str; 7] = [
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
    "amdhip64_7.dll",
    "amdhip64_6.dll",
    "amdhip64.dll",
];

/// AMD's recommendations for machine learning, from its porting notes: arguments of kernels in device memory, and few
/// hardware queues. HIP reads them once, when it is opened.
const RECOMMENDED: [(&str, &str); 2] = [("HIP_FORCE_DEV_KERNARG", "1"), ("GPU_MAX_HW_QUEUES", "2")];

/// Room for `hipDeviceProp_t` of any version: 792 bytes in HIP 5, 1472 in HIP 6 and 7.
const PROPERTIES_BYTES: usize = 8192;
/// The properties begin with the marketing name, which may look like an architecture.
const PROPERTIES_NAME_BYTES: usize = 256;
/// What every architecture's name begins with.
const TARGET_PREFIX: &[u8] = b"gfx";
/// Threads that a workgroup can have on every AMD GPU.
const MAX_WORKGROUP_THREADS: u32 = 1024;

/// HIP, open.
pub struct Api {
    hip: AmdHip64,
    version: Version,
}

/// A version of HIP, which is that of ROCm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 5, 6, 7.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch; in HIP a build number.
    pub patch: u32,
}

impl Version {
    /// Why graphs of this version are not used, if so.
    pub fn graphs_refused(self) -> Option<&'static str> {
        // The patch is a build number, which does not tell 7.2.0 to 7.2.3 from what mended them.
        let wrong = (self.major, self.minor) == (7, 2);
        wrong.then_some("the graphs of ROCm 7.2.0 to 7.2.3 are known to replay wrongly")
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// HIP, opened when it is first asked for.
///
/// # Errors
/// [`Error::Load`] with what was tried.
pub fn api() -> Result<&'static Api> {
    static API: OnceLock<Result<Api>> = OnceLock::new();
    match API.get_or_init(open) {
        Ok(api) => Ok(api),
        Err(Error::Load { library, tried }) => Err(Error::Load { library, tried: tried.clone() }),
        Err(Error::MissingSymbol { library, symbol }) => Err(Error::MissingSymbol { library: library.clone(), symbol }),
        Err(other) => Err(Error::Load { library: "libamdhip64", tried: other.to_string() }),
    }
}

fn open() -> Result<Api> {
    for (name, value) in RECOMMENDED {
        if std::env::var_os(name).is_none() {
            // SAFETY: this races only with threads that read the environment through C at this moment. It runs once,
            // before HIP and its threads exist, which are who will read these.
            unsafe { std::env::set_var(name, value) };
        }
    }
    Api::new(Library::open("libamdhip64", &candidates(&NAMES))?)
}

/// Where a library may be: under every ROCm that is installed, then wherever the loader looks.
pub(super) fn candidates(names: &[&str]) -> Vec<PathBuf> {
    let folders = ["lib", "lib64", "bin"];
    let installed = rocm::roots().into_iter().flat_map(|root| folders.map(|folder| root.join(folder)));
    let in_folder = |folder: PathBuf| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>();
    installed.flat_map(in_folder).filter(|path| path.is_file()).chain(names.iter().map(PathBuf::from)).collect()
}

impl Api {
    /// HIP in a library.
    pub fn new(library: Library) -> Result<Api> {
        let hip = AmdHip64::new(library);
        let mut version = 0;
        // SAFETY: the version goes to a local.
        let status = unsafe { hip.hipRuntimeGetVersion(&mut version)? };
        // Without a device some versions answer with an error and the version all the same.
        if status != sys::SUCCESS && version == 0 {
            return Err(Error::Driver { call: "hipRuntimeGetVersion", name: error_name(&hip, status), code: status });
        }
        let version = version as u32;
        let version = Version { major: version / 10_000_000, minor: version / 100_000 % 100, patch: version % 100_000 };
        Ok(Api { hip, version })
    }

    /// The functions.
    pub fn hip(&self) -> &AmdHip64 {
        &self.hip
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// A status as an error.
    pub fn check(&self, call: &'static str, status: Status) -> Result<()> {
        if status == sys::SUCCESS {
            return Ok(());
        }
        let name = error_name(&self.hip, status);
        if sys::STICKY.contains(&status) {
            return Err(Error::DeviceLost { call, name, code: status, history: String::new() });
        }
        Err(Error::Driver { call, name, code: status })
    }

    /// Number of devices; none is not an error.
    pub fn device_count(&self) -> Result<u16> {
        let mut count = 0;
        // SAFETY: the count goes to a local.
        let status = unsafe { self.hip.hipGetDeviceCount(&mut count)? };
        if status == sys::NO_DEVICE {
            return Ok(0);
        }
        self.check("hipGetDeviceCount", status)?;
        Ok(u16::try_from(count).unwrap_or(0))
    }

    /// Makes a device the calling thread's.
    pub fn set_device(&self, ordinal: u16) -> Result<()> {
        // SAFETY: any number may be passed; one that is none fails.
        self.check("hipSetDevice", unsafe { self.hip.hipSetDevice(c_int::from(ordinal))? })
    }

    /// What is known of a device.
    pub fn describe(&self, ordinal: u16) -> Result<DeviceInfo> {
        let count = self.device_count()?;
        if ordinal >= count {
            let reason = match count {
                0 => format!("HIP {} sees none ({})", self.version, why_none()),
                _ => format!("HIP {} sees {count}, numbered from 0", self.version),
            };
            let ordinal = (count > 0).then_some(ordinal);
            return Err(Error::NoDevice { driver: DriverKind::Hip, ordinal, reason });
        }
        let target = self.target(ordinal)?;
        let arch = Arch::parse(&target)?;
        let mut memory_bytes = 0;
        // SAFETY: the size goes to a local.
        let status = unsafe { self.hip.hipDeviceTotalMem(&mut memory_bytes, c_int::from(ordinal))? };
        self.check("hipDeviceTotalMem", status)?;
        let info = arch.info();
        // The attributes' numbers have changed once already; the wave size shows whether they are still these.
        let wave_size = self.attribute(ordinal, sys::WARP_SIZE).filter(|size| size.is_power_of_two() && *size >= 32);
        let compute_units = wave_size.and_then(|_| self.attribute(ordinal, sys::MULTIPROCESSOR_COUNT));
        Ok(DeviceInfo {
            name: self.name(ordinal)?,
            arch,
            target,
            wave_size: wave_size.unwrap_or(info.wave_size),
            compute_units: compute_units.or(info.card.map(|card| card.compute_units)).unwrap_or(1),
            lds_bytes: info.lds_bytes,
            max_workgroup_threads: MAX_WORKGROUP_THREADS,
            memory_bytes: memory_bytes as u64,
            driver_version: format!("HIP {}", self.version),
        })
    }

    fn attribute(&self, ordinal: u16, attribute: c_int) -> Option<u32> {
        let mut value = 0;
        // SAFETY: the value goes to a local; an attribute that does not exist fails.
        let status = unsafe { self.hip.hipDeviceGetAttribute(&mut value, attribute, c_int::from(ordinal)) };
        u32::try_from(value).ok().filter(|&value| value > 0 && matches!(status, Ok(sys::SUCCESS)))
    }

    fn name(&self, ordinal: u16) -> Result<String> {
        let mut name = [0_u8; PROPERTIES_NAME_BYTES];
        let bytes = name.len() as c_int - 1;
        // SAFETY: the name goes to a local of more than the length that is passed.
        let status = unsafe { self.hip.hipDeviceGetName(name.as_mut_ptr().cast(), bytes, c_int::from(ordinal))? };
        self.check("hipDeviceGetName", status)?;
        Ok(text_until_zero(&name))
    }

    /// The full target name, which only the properties hold. Their layout is not the same in HIP 5 and 6, and the name
    /// of the function says which: so room for any is given, and the name is looked for.
    fn target(&self, ordinal: u16) -> Result<String> {
        let mut properties = vec![0_u64; PROPERTIES_BYTES / size_of::<u64>()];
        let (address, ordinal) = (properties.as_mut_ptr().cast::<c_void>(), c_int::from(ordinal));
        let newest = "hipGetDevicePropertiesR0600";
        if self.hip.library().has(newest) {
            // SAFETY: the properties go to a local larger than those of any version.
            self.check(newest, unsafe { self.hip.hipGetDevicePropertiesR0600(address, ordinal)? })?;
        } else {
            // SAFETY: the properties go to a local larger than those of any version.
            self.check("hipGetDeviceProperties", unsafe { self.hip.hipGetDeviceProperties(address, ordinal)? })?;
        }
        let bytes: Vec<u8> = properties.iter().flat_map(|word| word.to_ne_bytes()).collect();
        find_target(&bytes).ok_or(Error::Driver {
            call: "hipGetDeviceProperties",
            name: "no architecture in the properties".to_owned(),
            code: sys::SUCCESS,
        })
    }
}

/// The text beginning with `gfx` and a digit behind the marketing name.
fn find_target(properties: &[u8]) -> Option<String> {
    let rest = &properties[PROPERTIES_NAME_BYTES..];
    let begins = |window: &[u8]| window.starts_with(TARGET_PREFIX) && window[TARGET_PREFIX.len()].is_ascii_digit();
    let first = rest.windows(TARGET_PREFIX.len() + 1).position(begins)?;
    let text = text_until_zero(&rest[first..]);
    // What is neither a row of ours nor a removed name is still what the device is.
    Some(Target::parse(&text).map_or(text, |target| target.to_string()))
}

fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// A code's name and what it means: `hipErrorNoDevice, no ROCm-capable device is detected`.
fn error_name(hip: &AmdHip64, status: Status) -> String {
    // SAFETY: any number may be passed.
    let (name, meaning) = unsafe { (hip.hipGetErrorName(status), hip.hipGetErrorString(status)) };
    let texts = [name, meaning].into_iter().flatten().filter_map(text).collect::<Vec<_>>();
    if texts.is_empty() { "unknown error".to_owned() } else { texts.join(", ") }
}

/// A text of the library's.
pub(super) fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: HIP's texts are static and end with a zero; null was excluded.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// What can be seen from outside of why there is no device.
fn why_none() -> String {
    let hidden = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];
    let hidden = hidden.into_iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    crate::doctor::why_no_gpu().into_iter().chain(hidden).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(at: usize, target: &str) -> Vec<u8> {
        let mut bytes = vec![0; PROPERTIES_BYTES];
        bytes[..12].copy_from_slice(b"gfx90c (APU)");
        bytes[at..at + target.len()].copy_from_slice(target.as_bytes());
        bytes
    }

    #[test]
    fn target_is_found_in_properties_of_hip_5_and_6() {
        for at in [396, 1160] {
            let found = find_target(&properties(at, "gfx942:sramecc+:xnack-"));
            assert_eq!(found.as_deref(), Some("gfx942:sramecc+:xnack-"), "at {at}");
        }
    }

    #[test]
    fn marketing_name_is_not_taken_for_the_target() {
        let mut bytes = vec![0; PROPERTIES_BYTES];
        bytes[..12].copy_from_slice(b"gfx90c (APU)");
        assert_eq!(find_target(&bytes), None);
    }
}
