//! GPUs: one driver for AMD's and NVIDIA's, whose libraries are opened at run time.
//!
//! HIP took over the interface of CUDA's driver, so the driver is written once, over the functions that both libraries have
//! under names of their own (`sys/runtime.rs`). What differs is a [`Platform`] (`platform.rs`): [`crate::hip`] and
//! [`crate::cuda`] implement it, and have their compilers and libraries for matrix products. `module.rs` has modules, kernels,
//! graphs and events, `launches.rs` graphs of launches. Nothing is linked at build time: where a platform is not installed, opening a device is an error that
//! says what was looked for.
//!
//! A fault on a GPU is sticky: the device is lost to the process.

mod launches;
mod module;
mod platform;
pub(crate) mod sys;

use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

pub(crate) use platform::{Api, Extra, Platform, Version, error_name, hiding};

use crate::collective::Collectives;
use crate::command::StreamName;
use crate::driver::{
    DeviceInfo, Driver, DriverEvent, DriverGraph, DriverKernel, DriverModule, LaunchGraph, RawLaunch, Recording,
};
use crate::foreign::{Answer, Handle};
use crate::index_fault::{DETAIL_WORDS, HostWords, IndexMemory};
use crate::vendor::{Context, VendorGemm};
use crate::{Error, Result};
use launches::GpuLaunches;
use module::{GpuEvent, GpuGraph, GpuModule};
use sys::runtime::{self, Runtime};

/// What a platform says of a device.
pub(crate) fn describe<P: Platform>(ordinal: u16) -> Result<DeviceInfo> {
    P::api()?.describe(ordinal)
}

/// A platform's version and path, and every device it has, or why it cannot be described.
pub(crate) fn survey<P: Platform>() -> Result<(String, String, Vec<Result<DeviceInfo>>)> {
    let api = P::api()?;
    let devices = (0..api.device_count()?).map(|ordinal| api.describe(ordinal)).collect();
    Ok((api.platform.version().to_string(), api.calls.library().path().to_owned(), devices))
}

/// A GPU with its streams.
pub(crate) struct Gpu<P: Platform> {
    shared: Arc<Shared<P>>,
    info: DeviceInfo,
    gemm: OnceLock<Result<Box<dyn VendorGemm>, String>>,
    /// The same as `shared`, as the vendors' libraries see it.
    context: Arc<dyn Context>,
    /// By which one stream waits for the other: put on the first, and waited for by the second, one after the other.
    between: GpuEvent<P>,
    /// What [`Driver::index_memory`] gave.
    index: OnceLock<IndexMemory>,
}

/// What modules and events need of it, too.
pub(crate) struct Shared<P: Platform> {
    pub api: &'static Api<P>,
    token: P::Token,
    /// Of the computations.
    pub stream: Handle,
    /// Of large copies from the host.
    transfer: Handle,
}

impl<P: Platform> Gpu<P> {
    pub fn open(ordinal: u16) -> Result<Gpu<P>> {
        Gpu::with_api(P::api()?, ordinal)
    }

    fn with_api(api: &'static Api<P>, ordinal: u16) -> Result<Gpu<P>> {
        let info = api.describe(ordinal)?;
        let token = P::token(api, ordinal)?;
        api.check(api.platform.enter(token))?;
        let (mut stream, mut transfer) = (std::ptr::null_mut(), std::ptr::null_mut());
        for made in [&mut stream, &mut transfer] {
            // SAFETY: the stream goes to a local.
            api.check(unsafe { api.calls.stream_create(made, runtime::STREAM_NON_BLOCKING) })?;
        }
        let shared = Arc::new(Shared { api, token, stream: Handle(stream), transfer: Handle(transfer) });
        let between = GpuEvent::new(&shared)?;
        Ok(Gpu {
            context: Arc::clone(&shared) as _,
            shared,
            info,
            gemm: OnceLock::new(),
            between,
            index: OnceLock::new(),
        })
    }

    #[cfg(test)]
    pub fn shared(&self) -> &Arc<Shared<P>> {
        &self.shared
    }

    /// Pinned host memory.
    fn pinned(&self, bytes: usize, flags: u32) -> Result<*mut c_void> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: the address goes to a local.
        self.shared.call(|calls| unsafe { calls.pin(&mut memory, bytes, flags) })?;
        Ok(memory)
    }

    /// Lets what comes later on this stream wait for the work so far of another.
    fn wait_for(&self, other: &Gpu<P>) -> Result<()> {
        let event = other.record_event(StreamName::Compute, None)?;
        let event = GpuEvent::<P>::of(&*event).handle();
        // SAFETY: event and stream are alive; the platform keeps what it needs of the event.
        self.shared.call(|calls| unsafe { calls.stream_wait(self.shared.stream.0, event, 0) })
    }
}

impl<P: Platform> Drop for Gpu<P> {
    fn drop(&mut self) {
        if let Some(IndexMemory { claim, host: Some(HostWords(words)), .. }) = self.index.take() {
            // As with the stream: nobody is left to tell. The order is that of the stream, which both calls wait for.
            // SAFETY: the device's owner has dropped it, and with it every kernel that knows the two addresses.
            unsafe {
                let _ = self.free(claim);
                self.unpin(words.cast(), DETAIL_WORDS * size_of::<u64>());
            }
        }
    }
}

impl<P: Platform> Shared<P> {
    /// Calls the platform with this device as the thread's.
    pub fn call(&self, call: impl FnOnce(&Runtime) -> Answer) -> Result<()> {
        self.own_call(|api| call(&api.calls))
    }

    /// The same, of a function that only this platform has.
    pub fn own_call(&self, call: impl FnOnce(&Api<P>) -> Answer) -> Result<()> {
        self.enter()?;
        self.api.check(call(self.api))
    }

    /// Device memory.
    pub fn allocate(&self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the address goes to a local.
        self.call(|calls| unsafe { calls.allocate(&mut address, bytes) })?;
        Ok(address)
    }

    fn named(&self, stream: StreamName) -> Handle {
        match stream {
            StreamName::Compute => self.stream,
            StreamName::Transfer => self.transfer,
        }
    }

    /// Waits for the computations, and so for all that they wait for.
    fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        self.call(|calls| unsafe { calls.stream_synchronize(self.stream.0) })
    }

    /// Host to device, in no stream's order: where nothing else uses the range yet.
    fn write_now(&self, target: u64, value: &[u8]) -> Result<()> {
        // SAFETY: the range is memory of the caller's that was just made or loaded; the source is a slice, read before this returns.
        self.call(|calls| unsafe { calls.upload_now(target, value.as_ptr().cast(), value.len()) })
    }

    /// Puts a kernel on a stream.
    ///
    /// # Safety
    /// - The function is of a loaded module of this device, and the stream is the device's and alive.
    /// - `extra` has arguments of the kernel's length, whose addresses are good.
    pub unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        launch: &RawLaunch<'_>,
        extra: &mut Extra,
    ) -> Result<()> {
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        // SAFETY:
        // - function, stream and arguments are the caller's duty; the platform copies the latter before it returns.
        #[rustfmt::skip]
        let put = |calls: &Runtime| unsafe {
            calls.launch(
                function.0, grid_x, grid_y, grid_z, block_x, block_y, block_z, launch.lds_bytes, stream.0,
                std::ptr::null_mut(), extra.as_mut_ptr(),
            )
        };
        self.call(put)
    }
}

impl<P: Platform> Context for Shared<P> {
    fn enter(&self) -> Result<()> {
        self.api.check(self.api.platform.enter(self.token))
    }

    fn stream(&self) -> *mut c_void {
        self.stream.0
    }
}

impl<P: Platform> Drop for Shared<P> {
    fn drop(&mut self) {
        // A device that is lost cannot take its streams back, and there is nobody left to tell.
        for stream in [self.stream, self.transfer] {
            // SAFETY: nothing else has the stream any more.
            let _ = self.call(|calls| unsafe { calls.stream_destroy(stream.0) });
        }
    }
}

impl<P: Platform> Driver for Gpu<P> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the sizes go to locals.
        let asked = self.shared.call(|calls| unsafe { calls.free_memory(&mut free, &mut total) });
        asked.ok().map(|()| free as u64)
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        self.shared.allocate(bytes as usize).map_err(|error| match error {
            Error::Driver { code: runtime::OUT_OF_MEMORY, .. } => Error::OutOfMemory {
                requested_bytes: bytes,
                live_bytes: 0,
                reserved_bytes: 0,
                limit_bytes: self.info.memory_bytes,
            },
            other => other,
        })
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        // SAFETY: the address is the caller's duty.
        self.shared.call(|calls| unsafe { calls.free(address) })
    }

    fn pin(&self, bytes: usize) -> Option<*mut u8> {
        self.pinned(bytes, 0).ok().map(|memory| memory.cast())
    }

    unsafe fn unpin(&self, memory: *mut u8, _bytes: usize) {
        // Nobody is left to tell.
        // SAFETY: the caller's duty.
        let _ = self.shared.call(|calls| unsafe { calls.unpin(memory.cast()) });
    }

    unsafe fn upload(&self, stream: StreamName, target: u64, source: &[u8]) -> Result<()> {
        let stream = self.shared.named(stream).0;
        // SAFETY: the caller's duty.
        self.shared.call(|calls| unsafe { calls.upload(target, source.as_ptr().cast(), source.len(), stream) })
    }

    unsafe fn download(&self, target: &mut [u8], source: u64) -> Result<()> {
        let (memory, bytes) = (target.as_mut_ptr().cast(), target.len());
        // SAFETY: the caller's duty.
        self.shared.call(|calls| unsafe { calls.download(memory, source, bytes, self.shared.stream.0) })
    }

    fn order(&self, first: StreamName, second: StreamName) -> Result<()> {
        let event = self.between.handle();
        let [first, second] = [first, second].map(|name| self.shared.named(name).0);
        // SAFETY: event and streams are alive; what waits keeps what it needs of the event.
        self.shared.call(|calls| unsafe { calls.event_record(event, first) })?;
        // SAFETY: as above.
        self.shared.call(|calls| unsafe { calls.stream_wait(second, event, 0) })
    }

    fn peer(&self) -> Option<&dyn Any> {
        Some(self)
    }

    unsafe fn copy_from(&self, target: u64, from: &dyn Driver, source: u64, bytes: u64) -> Result<bool> {
        let Some(other) = from.peer().and_then(|peer| peer.downcast_ref::<Gpu<P>>()) else { return Ok(false) };
        self.wait_for(other)?;
        let (to, from, stream) = ((target, self.shared.token), (source, other.shared.token), self.shared.stream.0);
        // SAFETY: both ranges are the caller's duty.
        self.shared.own_call(|api| unsafe { api.platform.copy_between(to, from, bytes as usize, stream) })?;
        other.wait_for(self)?;
        Ok(true)
    }

    unsafe fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<()> {
        // SAFETY: both ranges are the caller's duty.
        self.shared.call(|calls| unsafe { calls.copy(target, source, bytes as usize, self.shared.stream.0) })
    }

    unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<()> {
        // SAFETY: the range is the caller's duty.
        self.shared.call(|calls| unsafe { calls.fill(address, value, bytes as usize, self.shared.stream.0) })
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        Ok(Arc::new(GpuModule::load(&self.shared, code)?))
    }

    fn index_memory(&self) -> Result<Option<IndexMemory>> {
        let word_bytes = size_of::<u64>();
        let claim = self.allocate(word_bytes as u64)?;
        self.shared.write_now(claim, &[0; size_of::<u64>()])?;
        let memory = self.pinned(DETAIL_WORDS * word_bytes, P::PINNED_MAPPED)?;
        let (words, mut details): (*mut u64, _) = (memory.cast(), 0);
        // SAFETY: the memory was just made, of that many words, and nobody else knows it.
        unsafe { words.write_bytes(0, DETAIL_WORDS) };
        // SAFETY: the address goes to a local; the memory was just made.
        self.shared.call(|calls| unsafe { calls.pinned_address(&mut details, memory, 0) })?;
        let made = IndexMemory { claim, details, host: Some(HostWords(words)) };
        Ok(Some(*self.index.get_or_init(|| made)))
    }

    fn synchronize(&self) -> Result<()> {
        self.shared.wait()
    }

    fn collectives(&self) -> Collectives<'_> {
        Collectives::Library { library: P::collectives(), context: &self.context }
    }

    fn vendor_gemm(&self) -> Result<&dyn VendorGemm, &str> {
        let open = || P::open_gemm(&self.shared, self.info.arch);
        self.gemm.get_or_init(open).as_deref().map_err(String::as_str)
    }

    fn begin_capture(&self) -> Result<Recording> {
        if let Some(reason) = self.shared.api.platform.graphs_refused() {
            return Ok(Recording::Refused(reason));
        }
        // SAFETY: the stream is alive.
        self.shared.call(|calls| unsafe { calls.capture_begin(self.shared.stream.0, runtime::CAPTURE_RELAXED) })?;
        Ok(Recording::Native)
    }

    fn end_capture(&self) -> Result<Box<dyn DriverGraph>> {
        Ok(Box::new(GpuGraph::end_capture(&self.shared)?))
    }

    fn replays(&self) -> bool {
        self.shared.api.platform.graphs_refused().is_none()
    }

    unsafe fn launch_graph(&self, launches: &[(&dyn DriverKernel, RawLaunch<'_>)]) -> Result<Box<dyn LaunchGraph>> {
        // SAFETY: the caller's duties.
        Ok(Box::new(unsafe { GpuLaunches::record(&self.shared, launches)? }))
    }

    fn record_event(&self, stream: StreamName, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        let event = match again {
            Some(event) => event,
            None => Box::new(GpuEvent::new(&self.shared)?),
        };
        let (own, stream) = (GpuEvent::<P>::of(&*event).handle(), self.shared.named(stream).0);
        // SAFETY: event and stream are alive and of one device.
        self.shared.call(|calls| unsafe { calls.event_record(own, stream) })?;
        Ok(event)
    }
}

#[cfg(test)]
pub(crate) mod tests;
