//! CUDA: NVIDIA's platform, HIP's other one: the same kernel sources as on AMD, for measuring the whole stack on a real GPU where
//! there is no AMD one.
//!
//! `sys/` holds the functions that only NVIDIA's libraries have, `rtc.rs` the compiler, `precompiled.rs` the prelude that it reads
//! once, `dependent.rs` launches that begin early, `vendor.rs` cuBLASLt; here is what the driver of `gpu/` must know of CUDA, and
//! what CUDA says of its devices. A device's primary context is taken and kept: others in the process share it.

mod dependent;
mod precompiled;
mod rtc;
mod sys;
mod vendor;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rocfire_arch::{Arch, Vendor};

pub(crate) use rtc::{OPTIONS as COMPILER_OPTIONS, compiler};

use sys::libcuda::{self as cuda, LibCuda};

use crate::collective::library::Library as CollectiveLibrary;
use crate::compile::KernelInfo;
use crate::driver::{DeviceInfo, RawLaunch};
use crate::foreign::{Answer, Handle, Library, SUCCESS, Status, text};
use crate::gpu::sys::runtime::{DeviceHandle, GraphHandle, GraphInstance, GraphNode, StreamHandle};
use crate::gpu::{Api, Extra, Platform, Shared, Version, error_name, hiding};
use crate::vendor::VendorGemm;
use crate::{DriverKind, Error, Result, rocm};

/// Names by which the loader knows the library. Not `libcuda.so`: that may be the stub for linking.
const NAMES: [&str; 2] = ["libcuda.so.1", "nvcuda.dll"];

/// Shared memory that a kernel can have without asking.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// CUDA, open.
pub(crate) struct Cuda {
    own: LibCuda,
    version: Version,
}

/// What a kernel's launches need besides its function.
pub(crate) struct Kernel {
    /// Most dynamic shared memory that the function may be launched with, as it stands.
    dynamic_bytes: AtomicU32,
    /// Whether its launches may begin while the ones ahead of them end.
    begins_early: bool,
}

/// Where a library of the toolkit may be: under every CUDA that is installed, then wherever the loader looks.
fn candidates(names: &[&str]) -> Vec<PathBuf> {
    let roots = rocm::installed(["CUDA_PATH", "CUDA_HOME"], "/usr/local", "cuda");
    crate::foreign::candidates(roots, &["lib64", "lib", "bin", "targets/x86_64-linux/lib"], names)
}

/// The handle of a device that is there.
fn handle(api: &Api<Cuda>, ordinal: u16) -> Result<DeviceHandle> {
    let mut device = 0;
    // SAFETY: the handle goes to a local.
    api.check(unsafe { api.platform.own.cuDeviceGet(&mut device, c_int::from(ordinal)) })?;
    Ok(device)
}

impl Platform for Cuda {
    const DRIVER: DriverKind = DriverKind::Cuda;
    const NAME: &'static str = "CUDA";
    const VENDOR: Vendor = Vendor::Nvidia;
    const LIBRARY: &'static str = "libcuda";
    const STICKY: &'static [Status] = &cuda::STICKY;
    const PINNED_MAPPED: u32 = cuda::HOST_MAPPED;
    const LAUNCH_END: *mut c_void = cuda::LAUNCH_END;
    /// `cuGraphExecKernelNodeSetParams`: "already enqueued or running launches of hGraphExec are not affected by this call".
    const SETS_BEHIND_REPLAYS: bool = true;
    type Token = Handle;
    type Kernel = Kernel;

    fn api() -> Result<&'static Api<Cuda>> {
        static API: OnceLock<Result<Api<Cuda>>> = OnceLock::new();
        Api::in_cell(&API)
    }

    fn library() -> Result<Library> {
        Library::open(Cuda::LIBRARY, &NAMES.map(PathBuf::from))
    }

    fn new(library: Arc<Library>) -> Result<Cuda> {
        let (own, mut version) = (LibCuda::new(library), 0);
        // SAFETY: the version goes to a local. It is known before the driver starts, and without a device.
        let (call, status) = unsafe { own.cuDriverGetVersion(&mut version)? };
        let number = version as u32;
        let cuda = Cuda { own, version: Version { major: number / 1000, minor: number % 1000 / 10, patch: None } };
        if status != SUCCESS {
            let name = error_name(&cuda, status);
            return Err(Error::Driver { call, name, code: status });
        }
        Ok(cuda)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn texts(&self, status: Status) -> [Option<String>; 2] {
        let (mut name, mut meaning) = (std::ptr::null(), std::ptr::null());
        // SAFETY: any number may be passed; the texts go to locals, which stay null for a number that is none.
        let _ =
            unsafe { (self.own.cuGetErrorName(status, &mut name), self.own.cuGetErrorString(status, &mut meaning)) };
        [name, meaning].map(text)
    }

    fn start(&self) -> Answer {
        // SAFETY: 0 is the one value that there is; a second call does nothing.
        unsafe { self.own.cuInit(0) }
    }

    fn why_none() -> String {
        let hiding = hiding(&["CUDA_VISIBLE_DEVICES"]).next();
        hiding.unwrap_or_else(|| "CUDA_VISIBLE_DEVICES is not set".to_owned())
    }

    fn describe(api: &Api<Cuda>, ordinal: u16) -> Result<DeviceInfo> {
        let device = handle(api, ordinal)?;
        let attribute = |which| api.attribute(device, which);
        let (major, minor) = (attribute(cuda::COMPUTE_CAPABILITY_MAJOR)?, attribute(cuda::COMPUTE_CAPABILITY_MINOR)?);
        let target = format!("sm_{major}{minor}");
        Ok(DeviceInfo {
            name: api.name(device)?,
            arch: Arch::parse(&target)?,
            target,
            wave_size: attribute(cuda::WARP_SIZE)?,
            compute_units: attribute(cuda::MULTIPROCESSOR_COUNT)?,
            lds_bytes: attribute(cuda::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            max_workgroup_threads: attribute(cuda::MAX_THREADS_PER_BLOCK)?,
            memory_bytes: api.memory_bytes(device)?,
            driver_version: format!("CUDA {}", api.platform.version),
        })
    }

    fn token(api: &Api<Cuda>, ordinal: u16) -> Result<Handle> {
        let (device, mut context) = (handle(api, ordinal)?, std::ptr::null_mut());
        // SAFETY: the context goes to a local. It is never released.
        api.check(unsafe { api.platform.own.cuDevicePrimaryCtxRetain(&mut context, device) })?;
        Ok(Handle(context))
    }

    fn enter(&self, context: Handle) -> Answer {
        // SAFETY: the context is never released.
        unsafe { self.own.cuCtxSetCurrent(context.0) }
    }

    unsafe fn copy_between(
        &self,
        to: (u64, Handle),
        from: (u64, Handle),
        bytes: usize,
        stream: StreamHandle,
    ) -> Answer {
        // SAFETY: the caller's duty.
        unsafe { self.own.cuMemcpyPeerAsync(to.0, to.1.0, from.0, from.1.0, bytes, stream) }
    }

    unsafe fn instantiate(&self, instance: &mut GraphInstance, graph: GraphHandle) -> Answer {
        // SAFETY: the graph is the caller's duty.
        unsafe { self.own.cuGraphInstantiateWithFlags(instance, graph, 0) }
    }

    unsafe fn set_arguments(
        &self,
        instance: GraphInstance,
        node: GraphNode,
        function: Handle,
        launch: &RawLaunch<'_>,
        extra: &mut Extra,
    ) -> Answer {
        let with = cuda::KernelNode {
            function: function.0,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.lds_bytes,
            parameters: std::ptr::null_mut(),
            extra: extra.as_mut_ptr(),
            kernel: std::ptr::null_mut(),
            context: std::ptr::null_mut(),
        };
        // SAFETY: the caller's duty; the parameters are a local, and the arguments are copied before this returns.
        unsafe { self.own.cuGraphExecKernelNodeSetParams_v2(instance, node, &with) }
    }

    fn kernel(&self, info: &KernelInfo) -> Kernel {
        Kernel {
            dynamic_bytes: AtomicU32::new(DEFAULT_SHARED_BYTES.saturating_sub(info.lds_bytes)),
            begins_early: info.waits && dependent::allows(self.version),
        }
    }

    unsafe fn launch(
        shared: &Shared<Cuda>,
        stream: Handle,
        function: Handle,
        kernel: &Kernel,
        launch: &RawLaunch<'_>,
        extra: &mut Extra,
    ) -> Result<()> {
        admit(shared, function, kernel, launch.lds_bytes)?;
        if kernel.begins_early && !launch.begins_late {
            // SAFETY: the caller's duty. The kernel waits before its first access, but for what the launch ahead does not write.
            return unsafe { launch_early(shared, stream, function, launch, extra) };
        }
        // SAFETY: the caller's duty.
        unsafe { shared.launch(stream, function, launch, extra) }
    }

    fn open_gemm(shared: &Arc<Shared<Cuda>>, _arch: Arch) -> Result<Box<dyn VendorGemm>, String> {
        vendor::open(Arc::clone(shared) as _).map_err(|error| error.to_string())
    }

    fn collectives() -> &'static Result<CollectiveLibrary, String> {
        static LIBRARY: OnceLock<Result<CollectiveLibrary, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| CollectiveLibrary::open("NCCL", &candidates(&["libnccl.so.2", "libnccl.so"])))
    }
}

/// Asks for as much dynamic shared memory as a launch wants, where that is more than is had without asking.
fn admit(shared: &Shared<Cuda>, function: Handle, kernel: &Kernel, bytes: u32) -> Result<()> {
    if bytes <= kernel.dynamic_bytes.load(Ordering::Relaxed) {
        return Ok(());
    }
    let (attribute, value) = (cuda::MAX_DYNAMIC_SHARED_SIZE_BYTES, c_int::try_from(bytes).unwrap_or(c_int::MAX));
    // SAFETY: the function is of a loaded module.
    shared.own_call(|api| unsafe { api.platform.own.cuFuncSetAttribute(function.0, attribute, value) })?;
    kernel.dynamic_bytes.store(bytes, Ordering::Relaxed);
    Ok(())
}

/// Launches what may begin while the launches ahead end.
///
/// # Safety
/// - As [`Shared::launch`]; the kernel waits before its first access.
unsafe fn launch_early(
    shared: &Shared<Cuda>,
    stream: Handle,
    function: Handle,
    launch: &RawLaunch<'_>,
    extra: &mut Extra,
) -> Result<()> {
    let mut early = cuda::LaunchAttribute {
        id: cuda::PROGRAMMATIC_STREAM_SERIALIZATION,
        padding: [0],
        value: std::array::from_fn(|word| c_int::from(word == 0)),
    };
    let config = cuda::LaunchConfig {
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.lds_bytes,
        stream: stream.0,
        attributes: &mut early,
        attribute_count: 1,
    };
    shared.own_call(|api| {
        let (own, parameters) = (&api.platform.own, std::ptr::null_mut());
        // SAFETY: the caller's duty; the configuration and its attribute are locals.
        unsafe { own.cuLaunchKernelEx(&config, function.0, parameters, extra.as_mut_ptr()) }
    })
}

#[cfg(test)]
mod tests;
