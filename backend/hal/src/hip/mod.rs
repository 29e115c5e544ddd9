//! HIP: AMD's platform. `sys/` holds the functions that only AMD's libraries have, `rtc.rs` the compiler, `vendor.rs` hipBLASLt
//! and rocBLAS; here is what the driver of `gpu/` must know of HIP, and what HIP says of its devices.
//!
//! Some versions of ROCm end the process themselves when memory is accessed where there is none ("Memory access fault by GPU
//! node"); nothing here can change that.

mod rtc;
mod sys;
mod vendor;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Target, Vendor};

pub(crate) use rtc::{compiler, is_old};

use sys::amdhip64::{self as hip, AmdHip64};

use crate::collective::library::Library as CollectiveLibrary;
use crate::compile::KernelInfo;
use crate::driver::{DeviceInfo, RawLaunch};
use crate::foreign::{Answer, Handle, Library, SUCCESS, Status, text, text_until_zero};
use crate::gpu::sys::runtime::{GraphHandle, GraphInstance, GraphNode, StreamHandle};
use crate::gpu::{Api, Extra, Platform, Shared, Version, error_name, hiding};
use crate::vendor::VendorGemm;
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

/// Variables that hide devices.
const HIDING: [&str; 4] = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// Room for `hipDeviceProp_t` of any version: 792 bytes in HIP 5, 1472 in HIP 6 and 7.
const PROPERTIES_BYTES: usize = 8192;
/// The properties begin with the marketing name, which may look like an architecture.
const PROPERTIES_NAME_BYTES: usize = 256;
/// What every architecture's name begins with.
const TARGET_PREFIX: &[u8] = b"gfx";
/// Threads that a workgroup can have on every AMD GPU.
const MAX_WORKGROUP_THREADS: u32 = 1024;

/// HIP, open.
pub(crate) struct Hip {
    own: AmdHip64,
    version: Version,
}

/// Where a library may be: under every ROCm that is installed, then wherever the loader looks.
fn candidates(names: &[&str]) -> Vec<PathBuf> {
    crate::foreign::candidates(rocm::roots(), &["lib", "lib64", "bin"], names)
}

impl Platform for Hip {
    const DRIVER: DriverKind = DriverKind::Hip;
    const NAME: &'static str = "HIP";
    const VENDOR: Vendor = Vendor::Amd;
    const LIBRARY: &'static str = "libamdhip64";
    const STICKY: &'static [Status] = &hip::STICKY;
    const PINNED_MAPPED: u32 = hip::HOST_MAPPED;
    const LAUNCH_END: *mut c_void = hip::LAUNCH_END;
    /// Not promised for every version.
    const SETS_BEHIND_REPLAYS: bool = false;
    type Token = c_int;
    type Kernel = ();

    fn api() -> Result<&'static Api<Hip>> {
        static API: OnceLock<Result<Api<Hip>>> = OnceLock::new();
        Api::in_cell(&API)
    }

    fn library() -> Result<Library> {
        for (name, value) in RECOMMENDED {
            if std::env::var_os(name).is_none() {
                // SAFETY: this races only with threads that read the environment through C at this moment. It runs once,
                // before HIP and its threads exist, which are who will read these.
                unsafe { std::env::set_var(name, value) };
            }
        }
        Library::open(Hip::LIBRARY, &candidates(&NAMES))
    }

    fn new(library: Arc<Library>) -> Result<Hip> {
        let (own, mut version) = (AmdHip64::new(library), 0);
        // SAFETY: the version goes to a local.
        let (call, status) = unsafe { own.hipRuntimeGetVersion(&mut version)? };
        let number = version as u32;
        let (major, minor) = (number / 10_000_000, number / 100_000 % 100);
        let hip = Hip { own, version: Version { major, minor, patch: Some(number % 100_000) } };
        // Without a device some versions answer with an error and the version all the same.
        if status != SUCCESS && version == 0 {
            let name = error_name(&hip, status);
            return Err(Error::Driver { call, name, code: status });
        }
        Ok(hip)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn texts(&self, status: Status) -> [Option<String>; 2] {
        // SAFETY: any number may be passed.
        let texts = unsafe { [self.own.hipGetErrorName(status), self.own.hipGetErrorString(status)] };
        texts.map(|answer| answer.ok().and_then(|(_, pointer)| text(pointer)))
    }

    fn why_none() -> String {
        crate::doctor::why_no_gpu().into_iter().chain(hiding(&HIDING)).collect::<Vec<_>>().join("; ")
    }

    fn describe(api: &Api<Hip>, ordinal: u16) -> Result<DeviceInfo> {
        let device = c_int::from(ordinal);
        let target = api.platform.target(api, device)?;
        let arch = Arch::parse(&target)?;
        let info = arch.info();
        let attribute = |which| api.attribute(device, which).ok().filter(|&value| value > 0);
        // The attributes' numbers have changed once already; the wave size shows whether they are still these.
        let wave_size = attribute(hip::WARP_SIZE).filter(|size| size.is_power_of_two() && *size >= 32);
        let compute_units = wave_size.and_then(|_| attribute(hip::MULTIPROCESSOR_COUNT));
        Ok(DeviceInfo {
            name: api.name(device)?,
            arch,
            target,
            wave_size: wave_size.unwrap_or(info.wave_size),
            compute_units: compute_units.or(info.card.map(|card| card.compute_units)).unwrap_or(1),
            lds_bytes: info.lds_bytes,
            max_workgroup_threads: MAX_WORKGROUP_THREADS,
            memory_bytes: api.memory_bytes(device)?,
            driver_version: format!("HIP {}", api.platform.version),
        })
    }

    fn token(_api: &Api<Hip>, ordinal: u16) -> Result<c_int> {
        Ok(c_int::from(ordinal))
    }

    fn enter(&self, device: c_int) -> Answer {
        // SAFETY: any number may be passed; one that is no device fails.
        unsafe { self.own.hipSetDevice(device) }
    }

    unsafe fn copy_between(&self, to: (u64, c_int), from: (u64, c_int), bytes: usize, stream: StreamHandle) -> Answer {
        // SAFETY: the caller's duty.
        unsafe { self.own.hipMemcpyPeerAsync(to.0, to.1, from.0, from.1, bytes, stream) }
    }

    fn graphs_refused(&self) -> Option<&'static str> {
        // The patch is a build number, which does not tell 7.2.0 to 7.2.3 from what mended them.
        let wrong = (self.version.major, self.version.minor) == (7, 2);
        wrong.then_some("the graphs of ROCm 7.2.0 to 7.2.3 are known to replay wrongly")
    }

    unsafe fn instantiate(&self, instance: &mut GraphInstance, graph: GraphHandle) -> Answer {
        let (node, log) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the graph is the caller's duty; the node and the log are not asked for.
        unsafe { self.own.hipGraphInstantiate(instance, graph, node, log, 0) }
    }

    unsafe fn set_arguments(
        &self,
        instance: GraphInstance,
        node: GraphNode,
        function: Handle,
        launch: &RawLaunch<'_>,
        extra: &mut Extra,
    ) -> Answer {
        let with = hip::KernelNode {
            block: launch.block,
            extra: extra.as_mut_ptr(),
            function: function.0,
            grid: launch.grid,
            parameters: std::ptr::null_mut(),
            lds_bytes: launch.lds_bytes,
        };
        // SAFETY: the caller's duty; the parameters are a local, and the arguments are copied before this returns.
        unsafe { self.own.hipGraphExecKernelNodeSetParams(instance, node, &with) }
    }

    fn kernel(&self, _info: &KernelInfo) {}

    fn open_gemm(shared: &Arc<Shared<Hip>>, arch: Arch) -> Result<Box<dyn VendorGemm>, String> {
        vendor::open(shared, arch)
    }

    fn collectives() -> &'static Result<CollectiveLibrary, String> {
        static LIBRARY: OnceLock<Result<CollectiveLibrary, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| CollectiveLibrary::open("RCCL", &candidates(&["librccl.so.1", "librccl.so"])))
    }
}

impl Hip {
    /// The full target name, which only the properties hold. Their layout is not the same in HIP 5 and 6, and the name
    /// of the function says which: so room for any is given, and the name is looked for.
    fn target(&self, api: &Api<Hip>, device: c_int) -> Result<String> {
        let mut properties = vec![0_u64; PROPERTIES_BYTES / size_of::<u64>()];
        let address = properties.as_mut_ptr().cast::<c_void>();
        // SAFETY: the properties go to a local larger than those of any version.
        api.check(unsafe {
            match self.own.hipGetDevicePropertiesR0600(address, device) {
                Err(Error::MissingSymbol { .. }) => self.own.hipGetDeviceProperties(address, device),
                answer => answer,
            }
        })?;
        let bytes: Vec<u8> = properties.iter().flat_map(|word| word.to_ne_bytes()).collect();
        find_target(&bytes).ok_or(Error::Driver {
            call: "hipGetDeviceProperties",
            name: "no architecture in the properties".to_owned(),
            code: SUCCESS,
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

#[cfg(test)]
mod tests;
