//! CUDA opened once per process, its status codes as errors, and what it says of devices.

use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;
use std::sync::OnceLock;

use rocfire_arch::Arch;

use super::sys::Library;
use super::sys::libcuda::{self as sys, DeviceHandle, LibCuda, Status};
use crate::driver::DeviceInfo;
use crate::{DriverKind, Error, Result};

/// Names by which the loader knows the library. Not `libcuda.so`: that may be the stub for linking.
const NAMES: [&str; 2] = ["libcuda.so.1", "nvcuda.dll"];
const NAME_BYTES: usize = 256;

/// CUDA, open.
pub struct Api {
    cuda: LibCuda,
    version: Version,
}

/// A version of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 11, 12, 13.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// CUDA, opened when it is first asked for.
///
/// # Errors
/// [`Error::Load`] with what was tried.
pub fn api() -> Result<&'static Api> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let open = || {
        let names = NAMES.map(PathBuf::from);
        Library::open("libcuda", &names).and_then(Api::new).map_err(|error| match error {
            Error::Load { tried, .. } => tried,
            other => other.to_string(),
        })
    };
    match API.get_or_init(open) {
        Ok(api) => Ok(api),
        Err(tried) => Err(Error::Load { library: "libcuda", tried: tried.clone() }),
    }
}

/// Where a library of the toolkit may be: under every CUDA that is installed, then wherever the loader looks.
pub(super) fn candidates(names: &[&str]) -> Vec<PathBuf> {
    let folders = ["lib64", "lib", "bin", "targets/x86_64-linux/lib"];
    let installed = roots().into_iter().flat_map(|root| folders.map(|folder| root.join(folder)));
    let in_folder = |folder: PathBuf| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>();
    installed.flat_map(in_folder).filter(|path| path.is_file()).chain(names.iter().map(PathBuf::from)).collect()
}

/// Folders that may hold a CUDA toolkit: `CUDA_PATH`, `CUDA_HOME`, `/usr/local/cuda`, `/usr/local/cuda-*`, newest first.
fn roots() -> Vec<PathBuf> {
    let named = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let versioned = crate::rocm::versioned_folders("/usr/local", "cuda-");
    let mut roots: Vec<PathBuf> = Vec::new();
    for root in named.chain([PathBuf::from("/usr/local/cuda")]).chain(versioned) {
        if root.is_dir() && !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

impl Api {
    /// CUDA in a library.
    fn new(library: Library) -> Result<Api> {
        let cuda = LibCuda::new(library);
        let mut version = 0;
        // SAFETY: the version goes to a local. It is known before the driver starts, and without a device.
        let status = unsafe { cuda.cuDriverGetVersion(&mut version)? };
        if status != sys::SUCCESS {
            return Err(Error::Driver { call: "cuDriverGetVersion", name: error_name(&cuda, status), code: status });
        }
        let version = version as u32;
        Ok(Api { cuda, version: Version { major: version / 1000, minor: version % 1000 / 10 } })
    }

    /// The functions.
    pub fn cuda(&self) -> &LibCuda {
        &self.cuda
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
        let name = error_name(&self.cuda, status);
        if sys::STICKY.contains(&status) {
            return Err(Error::DeviceLost { call, name, code: status, history: String::new() });
        }
        Err(Error::Driver { call, name, code: status })
    }

    /// Number of devices; none is not an error.
    pub fn device_count(&self) -> Result<u16> {
        // SAFETY: 0 is the one value that there is; a second call does nothing.
        let status = unsafe { self.cuda.cuInit(0)? };
        if status == sys::NO_DEVICE {
            return Ok(0);
        }
        self.check("cuInit", status)?;
        let mut count = 0;
        // SAFETY: the count goes to a local.
        self.check("cuDeviceGetCount", unsafe { self.cuda.cuDeviceGetCount(&mut count)? })?;
        Ok(u16::try_from(count).unwrap_or(0))
    }

    /// The handle of a device, which must be there.
    pub fn device(&self, ordinal: u16) -> Result<DeviceHandle> {
        let count = self.device_count()?;
        if ordinal >= count {
            let reason = format!("CUDA {} sees {count}, numbered from 0", self.version);
            let ordinal = (count > 0).then_some(ordinal);
            return Err(Error::NoDevice { driver: DriverKind::Cuda, ordinal, reason });
        }
        let mut device = 0;
        // SAFETY: the handle goes to a local.
        self.check("cuDeviceGet", unsafe { self.cuda.cuDeviceGet(&mut device, c_int::from(ordinal))? })?;
        Ok(device)
    }

    /// What is known of a device.
    pub fn describe(&self, ordinal: u16) -> Result<DeviceInfo> {
        let device = self.device(ordinal)?;
        let capability = [sys::COMPUTE_CAPABILITY_MAJOR, sys::COMPUTE_CAPABILITY_MINOR];
        let [major, minor] = capability.map(|attribute| self.attribute(device, attribute));
        let target = format!("sm_{}{}", major?, minor?);
        let arch = Arch::parse(&target)?;
        let mut memory_bytes = 0;
        // SAFETY: the size goes to a local.
        let status = unsafe { self.cuda.cuDeviceTotalMem_v2(&mut memory_bytes, device)? };
        self.check("cuDeviceTotalMem", status)?;
        Ok(DeviceInfo {
            name: self.name(device)?,
            arch,
            target,
            wave_size: self.attribute(device, sys::WARP_SIZE)?,
            compute_units: self.attribute(device, sys::MULTIPROCESSOR_COUNT)?,
            lds_bytes: self.attribute(device, sys::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            max_workgroup_threads: self.attribute(device, sys::MAX_THREADS_PER_BLOCK)?,
            memory_bytes: memory_bytes as u64,
            driver_version: format!("CUDA {}", self.version),
        })
    }

    fn attribute(&self, device: DeviceHandle, attribute: c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the value goes to a local.
        let status = unsafe { self.cuda.cuDeviceGetAttribute(&mut value, attribute, device)? };
        self.check("cuDeviceGetAttribute", status)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn name(&self, device: DeviceHandle) -> Result<String> {
        let mut name = [0_u8; NAME_BYTES];
        // SAFETY: the name goes to a local of more than the length that is passed.
        let status = unsafe { self.cuda.cuDeviceGetName(name.as_mut_ptr().cast(), NAME_BYTES as c_int - 1, device)? };
        self.check("cuDeviceGetName", status)?;
        let text = CStr::from_bytes_until_nul(&name).expect("the last byte was not given away");
        Ok(text.to_string_lossy().trim().to_owned())
    }
}

/// A code's name and what it means: `CUDA_ERROR_NO_DEVICE, no CUDA-capable device is detected`.
fn error_name(cuda: &LibCuda, status: Status) -> String {
    let (mut name, mut meaning): (*const c_char, *const c_char) = (std::ptr::null(), std::ptr::null());
    // SAFETY: any number may be passed; the texts go to locals, which stay null for a number that is none.
    let _ = unsafe { (cuda.cuGetErrorName(status, &mut name), cuda.cuGetErrorString(status, &mut meaning)) };
    let text = |pointer: *const c_char| {
        // SAFETY: CUDA's texts are static and end with a zero; null was excluded.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
    };
    let texts = [name, meaning].into_iter().filter_map(text).collect::<Vec<_>>();
    if texts.is_empty() { "unknown error".to_owned() } else { texts.join(", ") }
}
