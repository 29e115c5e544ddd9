//! NVIDIA GPUs: CUDA's driver and NVRTC, opened at run time. HIP's other platform: the same kernel sources as on AMD, for
//! measuring the whole stack on a real GPU where there is no AMD one.
//!
//! `sys/` holds the function tables, `api.rs` what concerns the library and its devices, `rtc.rs` the compiler, `dependent.rs`
//! launches that begin early, `vendor.rs` cuBLASLt; here is the driver. Nothing is linked at build time. A device's primary context is taken and kept: others in the process share it.

mod api;
mod dependent;
mod rtc;
mod sys;
mod vendor;

use std::any::Any;
use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) use rtc::compiler;

use api::{Api, api};
use sys::libcuda::{self as cuda, LibCuda, Status};

use crate::collective::Collectives;
use crate::compile::KernelInfo;
use crate::driver::{
    DeviceInfo, Driver, DriverEvent, DriverGraph, DriverKernel, DriverModule, LaunchFailure, RawLaunch, Recording,
};
use crate::index_fault::{DETAIL_WORDS, HostWords, IndexMemory};
use crate::staging::{Link, Staged, Staging};
use crate::vendor::{Context, VendorGemm};
use crate::{Error, Result};

/// Shared memory that a kernel can have without asking.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// What CUDA says of a device.
pub(crate) fn describe(ordinal: u16) -> Result<DeviceInfo> {
    api()?.describe(ordinal)
}

/// CUDA's version and path, and every device it has, or why it cannot be described.
pub(crate) fn survey() -> Result<(String, String, Vec<Result<DeviceInfo>>)> {
    let api = api()?;
    let devices = (0..api.device_count()?).map(|ordinal| api.describe(ordinal)).collect();
    Ok((api.version().to_string(), api.cuda().library().path().to_owned(), devices))
}

/// A GPU with its stream.
pub(crate) struct Cuda {
    shared: Arc<Shared>,
    info: DeviceInfo,
    vendor: OnceLock<Result<Box<dyn VendorGemm>, String>>,
    /// The same as `shared`, as the vendors' libraries see it.
    context: Arc<dyn Context>,
    staging: Staging,
    /// What [`Driver::index_memory`] gave.
    index: OnceLock<IndexMemory>,
}

/// What modules and events need of it, too.
struct Shared {
    api: &'static Api,
    context: Handle,
    stream: Handle,
}

/// A handle of CUDA's. The driver may be called from any thread.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

// SAFETY: CUDA's handles are tokens; its functions take them from any thread, and are thread-safe themselves.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Cuda {
    pub fn open(ordinal: u16) -> Result<Cuda> {
        let api = api()?;
        let info = api.describe(ordinal)?;
        let device = api.device(ordinal)?;
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the context goes to a local.
        let status = unsafe { api.cuda().cuDevicePrimaryCtxRetain(&mut context, device)? };
        api.check("cuDevicePrimaryCtxRetain", status)?;
        // SAFETY: the context was just taken and is never released.
        api.check("cuCtxSetCurrent", unsafe { api.cuda().cuCtxSetCurrent(context)? })?;
        // SAFETY: the stream goes to a local.
        let status = unsafe { api.cuda().cuStreamCreate(&mut stream, cuda::STREAM_NON_BLOCKING)? };
        api.check("cuStreamCreate", status)?;
        let shared = Arc::new(Shared { api, context: Handle(context), stream: Handle(stream) });
        Ok(Cuda {
            context: Arc::clone(&shared) as _,
            shared,
            info,
            vendor: OnceLock::new(),
            staging: Staging::default(),
            index: OnceLock::new(),
        })
    }

    fn new_event(&self) -> Result<Box<dyn DriverEvent>> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the event goes to a local.
        self.shared.call("cuEventCreate", |cuda| unsafe { cuda.cuEventCreate(&mut event, cuda::EVENT_DEFAULT) })?;
        Ok(Box::new(CudaEvent { shared: Arc::clone(&self.shared), event: Handle(event) }))
    }

    /// Lets what comes later on this stream wait for the work so far of another.
    fn wait_for(&self, other: &Cuda) -> Result<()> {
        let event = other.record_event()?;
        let own: &CudaEvent = event.as_any().downcast_ref().expect("the event was just made");
        let stream = self.shared.stream.0;
        // SAFETY: event and stream are alive; CUDA keeps what it needs of the event.
        self.shared.call("cuStreamWaitEvent", |cuda| unsafe { cuda.cuStreamWaitEvent(stream, own.event.0, 0) })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        let staging = std::mem::take(&mut self.staging);
        staging.close(self);
        if let Some(IndexMemory { claim, host: Some(HostWords(words)), .. }) = self.index.take() {
            // As with the stream: nobody is left to tell. The order is that of the stream, which both calls wait for.
            // SAFETY: the device's owner has dropped it, and with it every kernel that knows the two addresses.
            let _ = unsafe { self.free(claim) };
            // SAFETY: as above.
            let _ = unsafe { self.unpin(words.cast()) };
        }
    }
}

impl Link for Cuda {
    fn pin(&self, bytes: usize) -> Result<*mut u8> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: the address goes to a local.
        self.shared.call("cuMemHostAlloc", |cuda| unsafe { cuda.cuMemHostAlloc(&mut memory, bytes, 0) })?;
        Ok(memory.cast())
    }

    unsafe fn unpin(&self, memory: *mut u8) -> Result<()> {
        // SAFETY: the caller's duty.
        self.shared.call("cuMemFreeHost", |cuda| unsafe { cuda.cuMemFreeHost(memory.cast()) })
    }

    unsafe fn upload(&self, target: u64, source: *const u8, bytes: usize) -> Result<()> {
        let stream = self.shared.stream.0;
        // SAFETY: the caller's duty.
        let copy = |cuda: &LibCuda| unsafe { cuda.cuMemcpyHtoDAsync_v2(target, source.cast(), bytes, stream) };
        self.shared.call("cuMemcpyHtoDAsync", copy)
    }

    unsafe fn download(&self, target: *mut u8, source: u64, bytes: usize) -> Result<()> {
        let stream = self.shared.stream.0;
        // SAFETY: the caller's duty.
        let copy = |cuda: &LibCuda| unsafe { cuda.cuMemcpyDtoHAsync_v2(target.cast(), source, bytes, stream) };
        self.shared.call("cuMemcpyDtoHAsync", copy)
    }

    fn mark(&self, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        match again {
            Some(event) => self.record_again(event),
            None => self.record_event(),
        }
    }
}

impl Shared {
    /// Calls CUDA with this device's context as the thread's.
    fn call(&self, name: &'static str, call: impl FnOnce(&LibCuda) -> Result<Status>) -> Result<()> {
        // SAFETY: the context is never released.
        self.api.check("cuCtxSetCurrent", unsafe { self.api.cuda().cuCtxSetCurrent(self.context.0)? })?;
        self.api.check(name, call(self.api.cuda())?)
    }

    fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        self.call("cuStreamSynchronize", |cuda| unsafe { cuda.cuStreamSynchronize(self.stream.0) })
    }

    /// Host to device, in no stream's order: where nothing else uses the range yet.
    fn write_now(&self, target: u64, value: &[u8]) -> Result<()> {
        // SAFETY: the range is memory of the caller's that was just made or loaded; the source is a slice, read before this returns.
        let copy = |cuda: &LibCuda| unsafe { cuda.cuMemcpyHtoD_v2(target, value.as_ptr().cast(), value.len()) };
        self.call("cuMemcpyHtoD", copy)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A device that is lost cannot take its stream back, and there is nobody left to tell.
        // SAFETY: nothing else has the stream any more.
        let _ = self.call("cuStreamDestroy", |cuda| unsafe { cuda.cuStreamDestroy_v2(self.stream.0) });
    }
}

impl Driver for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the sizes go to locals.
        let asked = self.shared.call("cuMemGetInfo", |cuda| unsafe { cuda.cuMemGetInfo_v2(&mut free, &mut total) });
        asked.ok().map(|()| free as u64)
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the address goes to a local.
        let asked = self.shared.call("cuMemAlloc", |cuda| unsafe { cuda.cuMemAlloc_v2(&mut address, bytes as usize) });
        match asked {
            Ok(()) => Ok(address),
            Err(Error::Driver { code: cuda::OUT_OF_MEMORY, .. }) => Err(Error::OutOfMemory {
                requested_bytes: bytes,
                live_bytes: 0,
                reserved_bytes: 0,
                limit_bytes: self.info.memory_bytes,
            }),
            Err(other) => Err(other),
        }
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        // SAFETY: the address is the caller's duty.
        self.shared.call("cuMemFree", |cuda| unsafe { cuda.cuMemFree_v2(address) })
    }

    unsafe fn write(&self, address: u64, source: &[u8]) -> Result<()> {
        // SAFETY: the caller's duty.
        if unsafe { self.staging.write(self, address, source)? } == Staged::Yes {
            return Ok(());
        }
        // SAFETY: the device's range is the caller's duty, the host's is a slice.
        unsafe { self.upload(address, source.as_ptr(), source.len())? };
        // The slice may be gone as soon as this returns.
        self.shared.wait()
    }

    unsafe fn read(&self, address: u64, target: &mut [u8]) -> Result<()> {
        // SAFETY: the caller's duty.
        unsafe { self.read_many(&mut [(address, target)]) }
    }

    unsafe fn read_many(&self, parts: &mut [(u64, &mut [u8])]) -> Result<()> {
        // SAFETY: the caller's duty.
        if unsafe { self.staging.read(self, parts)? } == Staged::Yes {
            return Ok(());
        }
        for (address, target) in parts {
            // SAFETY: the device's range is the caller's duty, the host's is a slice, which is waited for below.
            unsafe { self.download(target.as_mut_ptr(), *address, target.len())? };
        }
        self.shared.wait()
    }

    fn peer(&self) -> Option<&dyn Any> {
        Some(self)
    }

    unsafe fn copy_from(&self, target: u64, from: &dyn Driver, source: u64, bytes: u64) -> Result<bool> {
        let Some(other) = from.peer().and_then(|peer| peer.downcast_ref::<Cuda>()) else { return Ok(false) };
        self.wait_for(other)?;
        let (to, at, stream) = (self.shared.context.0, other.shared.context.0, self.shared.stream.0);
        // SAFETY: both ranges are the caller's duty.
        self.shared.call("cuMemcpyPeerAsync", |cuda| unsafe {
            cuda.cuMemcpyPeerAsync(target, to, source, at, bytes as usize, stream)
        })?;
        other.wait_for(self)?;
        Ok(true)
    }

    unsafe fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<()> {
        let stream = self.shared.stream.0;
        // SAFETY: both ranges are the caller's duty.
        self.shared.call("cuMemcpyDtoDAsync", |cuda| unsafe {
            cuda.cuMemcpyDtoDAsync_v2(target, source, bytes as usize, stream)
        })
    }

    unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<()> {
        let stream = self.shared.stream.0;
        // SAFETY: the range is the caller's duty.
        self.shared
            .call("cuMemsetD8Async", |cuda| unsafe { cuda.cuMemsetD8Async(address, value, bytes as usize, stream) })
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the module goes to a local; the cubin was parsed as an ELF file, and CUDA copies it.
        let load = |cuda: &LibCuda| unsafe { cuda.cuModuleLoadData(&mut module, code.as_ptr().cast()) };
        self.shared.call("cuModuleLoadData", load)?;
        Ok(Arc::new(CudaModule { shared: Arc::clone(&self.shared), module: Handle(module) }))
    }

    fn index_memory(&self) -> Result<Option<IndexMemory>> {
        let word_bytes = size_of::<u64>();
        let claim = self.allocate(word_bytes as u64)?;
        self.shared.write_now(claim, &[0; size_of::<u64>()])?;
        let bytes = DETAIL_WORDS * word_bytes;
        let (mut memory, mut details) = (std::ptr::null_mut(), 0);
        // SAFETY: the address goes to a local.
        let make = |cuda: &LibCuda| unsafe { cuda.cuMemHostAlloc(&mut memory, bytes, cuda::HOST_MAPPED) };
        self.shared.call("cuMemHostAlloc", make)?;
        let words: *mut u64 = memory.cast();
        // SAFETY: the memory was just made, of that many words, and nobody else knows it.
        unsafe { words.write_bytes(0, DETAIL_WORDS) };
        // SAFETY: the address goes to a local; the memory was just made.
        let seen = |cuda: &LibCuda| unsafe { cuda.cuMemHostGetDevicePointer_v2(&mut details, memory, 0) };
        self.shared.call("cuMemHostGetDevicePointer", seen)?;
        let made = IndexMemory { claim, details, host: Some(HostWords(words)) };
        Ok(Some(*self.index.get_or_init(|| made)))
    }

    fn synchronize(&self) -> Result<()> {
        self.shared.wait()
    }

    fn collectives(&self) -> Collectives<'_> {
        vendor::collectives(&self.context)
    }

    fn vendor_gemm(&self) -> Result<&dyn VendorGemm, &str> {
        let open = || vendor::open(&self.shared).map_err(|error| error.to_string());
        self.vendor.get_or_init(open).as_deref().map_err(String::as_str)
    }

    fn begin_capture(&self) -> Result<Recording> {
        let stream = self.shared.stream.0;
        // SAFETY: the stream is alive.
        let begin = |cuda: &LibCuda| unsafe { cuda.cuStreamBeginCapture_v2(stream, cuda::CAPTURE_RELAXED) };
        self.shared.call("cuStreamBeginCapture_v2", begin)?;
        Ok(Recording::Native)
    }

    fn end_capture(&self) -> Result<Box<dyn DriverGraph>> {
        let (mut graph, mut instance) = (std::ptr::null_mut(), std::ptr::null_mut());
        let stream = self.shared.stream.0;
        // SAFETY: the stream is alive and records; the graph goes to a local.
        self.shared.call("cuStreamEndCapture", |cuda| unsafe { cuda.cuStreamEndCapture(stream, &mut graph) })?;
        // SAFETY: the graph was just made; what can be launched goes to a local and is a copy of it.
        let made = self.shared.call("cuGraphInstantiateWithFlags", |cuda| unsafe {
            cuda.cuGraphInstantiateWithFlags(&mut instance, graph, 0)
        });
        // SAFETY: nothing else has the graph.
        self.shared.call("cuGraphDestroy", |cuda| unsafe { cuda.cuGraphDestroy(graph) })?;
        made?;
        Ok(Box::new(CudaGraph { shared: Arc::clone(&self.shared), instance: Handle(instance) }))
    }

    fn record_event(&self) -> Result<Box<dyn DriverEvent>> {
        self.record_again(self.new_event()?)
    }

    fn record_again(&self, event: Box<dyn DriverEvent>) -> Result<Box<dyn DriverEvent>> {
        let own: &CudaEvent = event.as_any().downcast_ref().expect("events go back to the driver that made them");
        let stream = self.shared.stream.0;
        // SAFETY: event and stream are alive and of one device.
        self.shared.call("cuEventRecord", |api| unsafe { api.cuEventRecord(own.event.0, stream) })?;
        Ok(event)
    }
}

struct CudaGraph {
    shared: Arc<Shared>,
    instance: Handle,
}

impl DriverGraph for CudaGraph {
    fn launch(&self) -> Result<()> {
        let stream = self.shared.stream.0;
        // SAFETY: the graph and the stream are alive; that what it accesses is, too, is the duty of whoever replays.
        self.shared.call("cuGraphLaunch", |cuda| unsafe { cuda.cuGraphLaunch(self.instance.0, stream) })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: nothing else has it.
        let _ = self.shared.call("cuGraphExecDestroy", |cuda| unsafe { cuda.cuGraphExecDestroy(self.instance.0) });
    }
}

struct CudaModule {
    shared: Arc<Shared>,
    module: Handle,
}

impl DriverModule for CudaModule {
    fn kernel(self: Arc<Self>, info: &KernelInfo) -> Result<Box<dyn DriverKernel>> {
        let name = CString::new(info.name.as_str()).map_err(|_| Error::CodeObject {
            name: info.name.clone(),
            reason: "a zero in the name of a kernel".to_owned(),
        })?;
        let mut function = std::ptr::null_mut();
        let get = |cuda: &LibCuda| {
            // SAFETY: the function goes to a local; the module is loaded, the name ends with a zero.
            unsafe { cuda.cuModuleGetFunction(&mut function, self.module.0, name.as_ptr()) }
        };
        self.shared.call("cuModuleGetFunction", get)?;
        let dynamic_bytes = AtomicU32::new(DEFAULT_SHARED_BYTES.saturating_sub(info.lds_bytes));
        let begins_early = info.waits && dependent::allows(self.shared.api.version());
        Ok(Box::new(CudaKernel { function: Handle(function), dynamic_bytes, begins_early, module: self }))
    }

    fn set_variable(&self, name: &'static str, value: &[u8]) -> Result<()> {
        let missing = || crate::index_fault::no_variable(name, value);
        let text = CString::new(name).map_err(|_| missing())?;
        let (mut address, mut bytes) = (0, 0);
        let get = |cuda: &LibCuda| {
            // SAFETY: address and size go to locals; the module is loaded, the name ends with a zero.
            unsafe { cuda.cuModuleGetGlobal_v2(&mut address, &mut bytes, self.module.0, text.as_ptr()) }
        };
        self.shared.call("cuModuleGetGlobal", get)?;
        if bytes != value.len() {
            return Err(missing());
        }
        self.shared.write_now(address, value)
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: kernels of the module keep it, so none is left.
        let _ = self.shared.call("cuModuleUnload", |cuda| unsafe { cuda.cuModuleUnload(self.module.0) });
    }
}

struct CudaKernel {
    function: Handle,
    /// Most dynamic shared memory that the function may be launched with, as it stands.
    dynamic_bytes: AtomicU32,
    /// Whether its launches may begin while the ones ahead of them end.
    begins_early: bool,
    /// Keeps the function's module loaded.
    module: Arc<CudaModule>,
}

impl CudaKernel {
    /// Asks for as much dynamic shared memory as a launch wants, where that is more than is had without asking.
    fn admit(&self, bytes: u32) -> Result<()> {
        if bytes <= self.dynamic_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (attribute, value) = (cuda::MAX_DYNAMIC_SHARED_SIZE_BYTES, c_int::try_from(bytes).unwrap_or(c_int::MAX));
        self.module.shared.call("cuFuncSetAttribute", |cuda| {
            // SAFETY: the function is of a loaded module.
            unsafe { cuda.cuFuncSetAttribute(self.function.0, attribute, value) }
        })?;
        self.dynamic_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Launches what may begin while the launches ahead end. `extra`: the arguments.
    fn launch_early(&self, launch: &RawLaunch<'_>, extra: &mut [*mut c_void]) -> Result<(), LaunchFailure> {
        let shared = &self.module.shared;
        let mut early = cuda::LaunchAttribute {
            id: cuda::PROGRAMMATIC_STREAM_SERIALIZATION,
            padding: [0],
            value: std::array::from_fn(|word| c_int::from(word == 0)),
        };
        let config = cuda::LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.lds_bytes,
            stream: shared.stream.0,
            attributes: &mut early,
            attribute_count: 1,
        };
        let call = |cuda: &LibCuda| {
            // SAFETY: as in `launch`; the configuration and its attribute are locals. The kernel waits before its first access.
            unsafe { cuda.cuLaunchKernelEx(&config, self.function.0, std::ptr::null_mut(), extra.as_mut_ptr()) }
        };
        shared.call("cuLaunchKernelEx", call).map_err(LaunchFailure::Rejected)
    }
}

impl DriverKernel for CudaKernel {
    unsafe fn launch(&self, launch: &RawLaunch<'_>) -> Result<(), LaunchFailure> {
        self.admit(launch.lds_bytes).map_err(LaunchFailure::Rejected)?;
        let shared = &self.module.shared;
        let mut args_bytes = launch.args.len();
        let [buffer, size, end] = cuda::LAUNCH_BUFFER;
        let args_bytes_pointer: *mut usize = &mut args_bytes;
        let mut extra = [buffer, launch.args.as_ptr().cast_mut().cast(), size, args_bytes_pointer.cast(), end];
        if self.begins_early {
            return self.launch_early(launch, &mut extra);
        }
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        let call = |cuda: &LibCuda| {
            // SAFETY:
            // - the function is of a loaded module, the stream is alive.
            // - CUDA copies the arguments, whose length the caller has compared with the cubin's, before it returns.
            // - that the arguments' addresses are good is the caller's duty.
            unsafe {
                cuda.cuLaunchKernel(
                    self.function.0,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    launch.lds_bytes,
                    shared.stream.0,
                    std::ptr::null_mut(),
                    extra.as_mut_ptr(),
                )
            }
        };
        shared.call("cuLaunchKernel", call).map_err(LaunchFailure::Rejected)
    }
}

struct CudaEvent {
    shared: Arc<Shared>,
    event: Handle,
}

impl DriverEvent for CudaEvent {
    fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        self.shared.call("cuEventSynchronize", |cuda| unsafe { cuda.cuEventSynchronize(self.event.0) })
    }

    fn elapsed_ms(&self, earlier: &dyn DriverEvent) -> Result<f64> {
        let earlier: &CudaEvent = earlier.as_any().downcast_ref().expect("both events come from one device's driver");
        let mut milliseconds = 0.0;
        let call = |cuda: &LibCuda| {
            // SAFETY: the time goes to a local; both events are alive.
            unsafe { cuda.cuEventElapsedTime(&mut milliseconds, earlier.event.0, self.event.0) }
        };
        self.shared.call("cuEventElapsedTime", call)?;
        Ok(f64::from(milliseconds))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: nothing else has the event.
        let _ = self.shared.call("cuEventDestroy", |cuda| unsafe { cuda.cuEventDestroy_v2(self.event.0) });
    }
}

#[cfg(test)]
mod tests;
