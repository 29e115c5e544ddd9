//! AMD GPUs: HIP and hiprtc, opened at run time.
//!
//! `sys/` holds the function tables, `api.rs` what concerns the library and its devices, `rtc.rs` the compiler, `vendor.rs`
//! hipBLASLt and rocBLAS; here is the driver. Nothing is linked at build time: where ROCm is not installed, opening a device is an error that says what
//! was looked for.
//!
//! A fault on an AMD GPU is sticky: the device is lost to the process. Some versions of ROCm end the process themselves
//! when memory is accessed where there is none ("Memory access fault by GPU node"); nothing here can change that.

mod api;
mod rtc;
mod sys;
mod vendor;

use std::any::Any;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, OnceLock};

pub(crate) use rtc::compiler;

use api::{Api, api};
use sys::amdhip64::{self as hip, AmdHip64, Status};

use crate::collective::Collectives;
use crate::compile::KernelInfo;
use crate::driver::{
    DeviceInfo, Driver, DriverEvent, DriverGraph, DriverKernel, DriverModule, LaunchFailure, RawLaunch, Recording,
};
use crate::index_fault::{DETAIL_WORDS, HostWords, IndexMemory};
use crate::staging::{Link, Staged, Staging};
use crate::vendor::{Context, VendorGemm};
use crate::{Error, Result};

/// What HIP says of a device.
pub(crate) fn describe(ordinal: u16) -> Result<DeviceInfo> {
    api()?.describe(ordinal)
}

/// HIP's version and path, and every device it has, or why it cannot be described.
pub(crate) fn survey() -> Result<(String, String, Vec<Result<DeviceInfo>>)> {
    let api = api()?;
    let devices = (0..api.device_count()?).map(|ordinal| api.describe(ordinal)).collect();
    Ok((api.version().to_string(), api.hip().library().path().to_owned(), devices))
}

/// A GPU with its stream.
pub(crate) struct Hip {
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
    ordinal: u16,
    stream: Handle,
}

/// A handle of HIP's. HIP may be called from any thread.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

// SAFETY: HIP's handles are tokens; its functions take them from any thread, and are thread-safe themselves.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Hip {
    pub fn open(ordinal: u16) -> Result<Hip> {
        Hip::with_api(api()?, ordinal)
    }

    fn with_api(api: &'static Api, ordinal: u16) -> Result<Hip> {
        let info = api.describe(ordinal)?;
        api.set_device(ordinal)?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: the stream goes to a local.
        let status = unsafe { api.hip().hipStreamCreateWithFlags(&mut stream, hip::STREAM_NON_BLOCKING)? };
        api.check("hipStreamCreateWithFlags", status)?;
        let shared = Arc::new(Shared { api, ordinal, stream: Handle(stream) });
        Ok(Hip {
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
        let create = |hip: &AmdHip64| {
            // SAFETY: the event goes to a local.
            unsafe { hip.hipEventCreateWithFlags(&mut event, hip::EVENT_DEFAULT) }
        };
        self.shared.call("hipEventCreateWithFlags", create)?;
        Ok(Box::new(HipEvent { shared: Arc::clone(&self.shared), event: Handle(event) }))
    }

    /// Lets what comes later on this stream wait for the work so far of another.
    fn wait_for(&self, other: &Hip) -> Result<()> {
        let event = other.record_event()?;
        let own: &HipEvent = event.as_any().downcast_ref().expect("the event was just made");
        let stream = self.shared.stream.0;
        // SAFETY: event and stream are alive; HIP keeps what it needs of the event.
        self.shared.call("hipStreamWaitEvent", |hip| unsafe { hip.hipStreamWaitEvent(stream, own.event.0, 0) })
    }
}

impl Drop for Hip {
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

impl Link for Hip {
    fn pin(&self, bytes: usize) -> Result<*mut u8> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: the address goes to a local.
        self.shared.call("hipHostMalloc", |hip| unsafe { hip.hipHostMalloc(&mut memory, bytes, 0) })?;
        Ok(memory.cast())
    }

    unsafe fn unpin(&self, memory: *mut u8) -> Result<()> {
        // SAFETY: the caller's duty.
        self.shared.call("hipHostFree", |hip| unsafe { hip.hipHostFree(memory.cast()) })
    }

    unsafe fn upload(&self, target: u64, source: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty.
        unsafe { self.shared.copy(target, source.expose_provenance() as u64, bytes as u64, hip::HOST_TO_DEVICE) }
    }

    unsafe fn download(&self, target: *mut u8, source: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty.
        unsafe { self.shared.copy(target.expose_provenance() as u64, source, bytes as u64, hip::DEVICE_TO_HOST) }
    }

    fn mark(&self, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        match again {
            Some(event) => self.record_again(event),
            None => self.record_event(),
        }
    }
}

impl Shared {
    /// Calls HIP with this device as the thread's.
    fn call(&self, name: &'static str, call: impl FnOnce(&AmdHip64) -> Result<Status>) -> Result<()> {
        self.api.set_device(self.ordinal)?;
        self.api.check(name, call(self.api.hip())?)
    }

    fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        self.call("hipStreamSynchronize", |hip| unsafe { hip.hipStreamSynchronize(self.stream.0) })
    }

    /// Host to device, in no stream's order: where nothing else uses the range yet.
    fn write_now(&self, target: u64, value: &[u8]) -> Result<()> {
        // SAFETY: the range is memory of the caller's that was just made or loaded; the source is a slice, read before this returns.
        let copy = |hip: &AmdHip64| unsafe { hip.hipMemcpyHtoD(target, value.as_ptr().cast_mut().cast(), value.len()) };
        self.call("hipMemcpyHtoD", copy)
    }

    /// # Safety
    /// - `bytes` bytes from `target` and from `source` can be accessed, on the sides that `kind` says.
    unsafe fn copy(&self, target: u64, source: u64, bytes: u64, kind: c_int) -> Result<()> {
        // SAFETY: the ranges are the caller's duty; the stream lives as long as `self`.
        let copy = |hip: &AmdHip64| unsafe { hip.hipMemcpyAsync(target, source, bytes as usize, kind, self.stream.0) };
        self.call("hipMemcpyAsync", copy)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A device that is lost cannot take its stream back, and there is nobody left to tell.
        // SAFETY: nothing else has the stream any more.
        let _ = self.call("hipStreamDestroy", |hip| unsafe { hip.hipStreamDestroy(self.stream.0) });
    }
}

impl Driver for Hip {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the sizes go to locals.
        let asked = self.shared.call("hipMemGetInfo", |hip| unsafe { hip.hipMemGetInfo(&mut free, &mut total) });
        asked.ok().map(|()| free as u64)
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the address goes to a local.
        let asked = self.shared.call("hipMalloc", |hip| unsafe { hip.hipMalloc(&mut address, bytes as usize) });
        match asked {
            Ok(()) => Ok(address),
            Err(Error::Driver { code: hip::OUT_OF_MEMORY, .. }) => Err(Error::OutOfMemory {
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
        self.shared.call("hipFree", |hip| unsafe { hip.hipFree(address) })
    }

    unsafe fn write(&self, address: u64, source: &[u8]) -> Result<()> {
        // SAFETY: the caller's duty.
        if unsafe { self.staging.write(self, address, source)? } == Staged::Yes {
            return Ok(());
        }
        let host = source.as_ptr().expose_provenance() as u64;
        // SAFETY: the device's range is the caller's duty, the host's is a slice.
        unsafe { self.shared.copy(address, host, source.len() as u64, hip::HOST_TO_DEVICE)? };
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
            let host = target.as_mut_ptr().expose_provenance() as u64;
            // SAFETY: the device's range is the caller's duty, the host's is a slice, which is waited for below.
            unsafe { self.shared.copy(host, *address, target.len() as u64, hip::DEVICE_TO_HOST)? };
        }
        self.shared.wait()
    }

    fn peer(&self) -> Option<&dyn Any> {
        Some(self)
    }

    unsafe fn copy_from(&self, target: u64, from: &dyn Driver, source: u64, bytes: u64) -> Result<bool> {
        let Some(other) = from.peer().and_then(|peer| peer.downcast_ref::<Hip>()) else { return Ok(false) };
        self.wait_for(other)?;
        let (to, at) = (c_int::from(self.shared.ordinal), c_int::from(other.shared.ordinal));
        let stream = self.shared.stream.0;
        // SAFETY: both ranges are the caller's duty.
        self.shared.call("hipMemcpyPeerAsync", |hip| unsafe {
            hip.hipMemcpyPeerAsync(target, to, source, at, bytes as usize, stream)
        })?;
        other.wait_for(self)?;
        Ok(true)
    }

    unsafe fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<()> {
        // SAFETY: both ranges are the caller's duty.
        unsafe { self.shared.copy(target, source, bytes, hip::DEVICE_TO_DEVICE) }
    }

    unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<()> {
        let (value, bytes, stream) = (c_int::from(value), bytes as usize, self.shared.stream.0);
        // SAFETY: the range is the caller's duty.
        self.shared.call("hipMemsetAsync", |hip| unsafe { hip.hipMemsetAsync(address, value, bytes, stream) })
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the module goes to a local; the code object was parsed as an ELF file, and HIP copies it.
        let load = |hip: &AmdHip64| unsafe { hip.hipModuleLoadData(&mut module, code.as_ptr().cast()) };
        self.shared.call("hipModuleLoadData", load)?;
        Ok(Arc::new(HipModule { shared: Arc::clone(&self.shared), module: Handle(module) }))
    }

    fn index_memory(&self) -> Result<Option<IndexMemory>> {
        let word_bytes = size_of::<u64>();
        let claim = self.allocate(word_bytes as u64)?;
        self.shared.write_now(claim, &[0; size_of::<u64>()])?;
        let bytes = DETAIL_WORDS * word_bytes;
        let (mut memory, mut details) = (std::ptr::null_mut(), 0);
        // SAFETY: the address goes to a local.
        self.shared.call("hipHostMalloc", |hip| unsafe { hip.hipHostMalloc(&mut memory, bytes, hip::HOST_MAPPED) })?;
        let words: *mut u64 = memory.cast();
        // SAFETY: the memory was just made, of that many words, and nobody else knows it.
        unsafe { words.write_bytes(0, DETAIL_WORDS) };
        // SAFETY: the address goes to a local; the memory was just made.
        let seen = |hip: &AmdHip64| unsafe { hip.hipHostGetDevicePointer(&mut details, memory, 0) };
        self.shared.call("hipHostGetDevicePointer", seen)?;
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
        let open = || vendor::open(&self.shared, self.info.arch);
        self.vendor.get_or_init(open).as_deref().map_err(String::as_str)
    }

    fn begin_capture(&self) -> Result<Recording> {
        if let Some(reason) = self.shared.api.version().graphs_refused() {
            return Ok(Recording::Refused(reason));
        }
        let stream = self.shared.stream.0;
        // SAFETY: the stream is alive.
        let begin = |hip: &AmdHip64| unsafe { hip.hipStreamBeginCapture(stream, hip::CAPTURE_RELAXED) };
        self.shared.call("hipStreamBeginCapture", begin)?;
        Ok(Recording::Native)
    }

    fn end_capture(&self) -> Result<Box<dyn DriverGraph>> {
        let (mut graph, mut instance) = (std::ptr::null_mut(), std::ptr::null_mut());
        let stream = self.shared.stream.0;
        // SAFETY: the stream is alive and records; the graph goes to a local.
        self.shared.call("hipStreamEndCapture", |hip| unsafe { hip.hipStreamEndCapture(stream, &mut graph) })?;
        // SAFETY: the graph was just made; what can be launched goes to a local and is a copy of it.
        let made = self.shared.call("hipGraphInstantiate", |hip| unsafe {
            hip.hipGraphInstantiate(&mut instance, graph, std::ptr::null_mut(), std::ptr::null_mut(), 0)
        });
        // SAFETY: nothing else has the graph.
        self.shared.call("hipGraphDestroy", |hip| unsafe { hip.hipGraphDestroy(graph) })?;
        made?;
        Ok(Box::new(HipGraph { shared: Arc::clone(&self.shared), instance: Handle(instance) }))
    }

    fn record_event(&self) -> Result<Box<dyn DriverEvent>> {
        self.record_again(self.new_event()?)
    }

    fn record_again(&self, event: Box<dyn DriverEvent>) -> Result<Box<dyn DriverEvent>> {
        let own: &HipEvent = event.as_any().downcast_ref().expect("events go back to the driver that made them");
        let stream = self.shared.stream.0;
        // SAFETY: event and stream are alive and of one device.
        self.shared.call("hipEventRecord", |api| unsafe { api.hipEventRecord(own.event.0, stream) })?;
        Ok(event)
    }
}

struct HipGraph {
    shared: Arc<Shared>,
    instance: Handle,
}

impl DriverGraph for HipGraph {
    fn launch(&self) -> Result<()> {
        let stream = self.shared.stream.0;
        // SAFETY: the graph and the stream are alive; that what it accesses is, too, is the duty of whoever replays.
        self.shared.call("hipGraphLaunch", |hip| unsafe { hip.hipGraphLaunch(self.instance.0, stream) })
    }
}

impl Drop for HipGraph {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: nothing else has it.
        let _ = self.shared.call("hipGraphExecDestroy", |hip| unsafe { hip.hipGraphExecDestroy(self.instance.0) });
    }
}

struct HipModule {
    shared: Arc<Shared>,
    module: Handle,
}

impl DriverModule for HipModule {
    fn kernel(self: Arc<Self>, info: &KernelInfo) -> Result<Box<dyn DriverKernel>> {
        let name = CString::new(info.name.as_str()).map_err(|_| Error::CodeObject {
            name: info.name.clone(),
            reason: "a zero in the name of a kernel".to_owned(),
        })?;
        let mut function = std::ptr::null_mut();
        let get = |hip: &AmdHip64| {
            // SAFETY: the function goes to a local; the module is loaded, the name ends with a zero.
            unsafe { hip.hipModuleGetFunction(&mut function, self.module.0, name.as_ptr()) }
        };
        self.shared.call("hipModuleGetFunction", get)?;
        Ok(Box::new(HipKernel { function: Handle(function), module: self }))
    }

    fn set_variable(&self, name: &'static str, value: &[u8]) -> Result<()> {
        match self.variable(name)? {
            Some((address, bytes)) if bytes == value.len() as u64 => self.shared.write_now(address, value),
            _ => Err(crate::index_fault::no_variable(name, value)),
        }
    }

    fn variable(&self, name: &'static str) -> Result<Option<(u64, u64)>> {
        let Ok(text) = CString::new(name) else { return Ok(None) };
        let (mut address, mut bytes, mut missing) = (0, 0, false);
        let get = |hip: &AmdHip64| {
            // SAFETY: address and size go to locals; the module is loaded, the name ends with a zero.
            let status = unsafe { hip.hipModuleGetGlobal(&mut address, &mut bytes, self.module.0, text.as_ptr()) };
            missing = matches!(status, Ok(hip::NOT_FOUND | hip::INVALID_VALUE));
            if missing { Ok(hip::SUCCESS) } else { status }
        };
        self.shared.call("hipModuleGetGlobal", get)?;
        Ok((!missing).then_some((address, bytes as u64)))
    }
}

impl Drop for HipModule {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: kernels of the module keep it, so none is left.
        let _ = self.shared.call("hipModuleUnload", |hip| unsafe { hip.hipModuleUnload(self.module.0) });
    }
}

struct HipKernel {
    function: Handle,
    /// Keeps the function's module loaded.
    module: Arc<HipModule>,
}

impl DriverKernel for HipKernel {
    unsafe fn launch(&self, launch: &RawLaunch<'_>) -> Result<(), LaunchFailure> {
        let shared = &self.module.shared;
        let mut args_bytes = launch.args.len();
        let [buffer, size, end] = hip::LAUNCH_BUFFER;
        let args_bytes_pointer: *mut usize = &mut args_bytes;
        let mut extra = [buffer, launch.args.as_ptr().cast_mut().cast(), size, args_bytes_pointer.cast(), end];
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        let call = |hip: &AmdHip64| {
            // SAFETY:
            // - the function is of a loaded module, the stream is alive.
            // - HIP copies the arguments, whose length the caller has compared with the code object's, before it returns.
            // - that the arguments' addresses are good is the caller's duty.
            unsafe {
                hip.hipModuleLaunchKernel(
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
        shared.call("hipModuleLaunchKernel", call).map_err(LaunchFailure::Rejected)
    }
}

struct HipEvent {
    shared: Arc<Shared>,
    event: Handle,
}

impl DriverEvent for HipEvent {
    fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        self.shared.call("hipEventSynchronize", |hip| unsafe { hip.hipEventSynchronize(self.event.0) })
    }

    fn elapsed_ms(&self, earlier: &dyn DriverEvent) -> Result<f64> {
        let earlier: &HipEvent = earlier.as_any().downcast_ref().expect("both events come from one device's driver");
        let mut milliseconds = 0.0;
        let call = |hip: &AmdHip64| {
            // SAFETY: the time goes to a local; both events are alive.
            unsafe { hip.hipEventElapsedTime(&mut milliseconds, earlier.event.0, self.event.0) }
        };
        self.shared.call("hipEventElapsedTime", call)?;
        Ok(f64::from(milliseconds))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for HipEvent {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: nothing else has the event.
        let _ = self.shared.call("hipEventDestroy", |hip| unsafe { hip.hipEventDestroy(self.event.0) });
    }
}

#[cfg(test)]
mod tests;
