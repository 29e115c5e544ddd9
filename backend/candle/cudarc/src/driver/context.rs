//! Devices as Candle opens them, and which memory lies where.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rocfire_hal::{Buffer, Device, DeviceId, DriverKind};

use super::memory::Memory;
use super::queue::{Merger, Node, Queue};
use super::{CudaStream, DriverError, sys};

/// Emulated devices that a process can have: as many as a box of GPUs.
const EMULATED_MAX: usize = 8;

/// A device. Candle opens one per `Device::new_cuda`; those of one ordinal share memory, kernels and the stream.
pub struct CudaContext {
    ordinal: usize,
    device: Device,
    /// The stream that Candle's devices use.
    stream: Mutex<Weak<CudaStream>>,
    tracking: AtomicBool,
    /// What could not be told where it happened.
    error: Mutex<Option<DriverError>>,
    places: Mutex<BTreeMap<u64, Place>>,
    /// Launches that wait; none where each is made as it is asked for.
    queue: Option<Mutex<Queue>>,
}

/// Live memory, by the address of its first byte.
struct Place {
    bytes: u64,
    memory: Weak<Memory>,
}

impl CudaContext {
    /// Opens the device that `ROCFIRE_DEVICE` names, else the best there is; a higher ordinal is as many devices further on.
    ///
    /// # Errors
    /// A wrong setting, a driver that is not there, an ordinal that it does not have.
    pub fn new(ordinal: usize) -> Result<Arc<CudaContext>, DriverError> {
        CudaContext::with_device(ordinal, Device::get(device_id(ordinal)?)?)
    }

    /// A context over a device that somebody opened, with settings of its own.
    ///
    /// # Errors
    /// None today.
    pub fn with_device(ordinal: usize, device: Device) -> Result<Arc<CudaContext>, DriverError> {
        let queue = (device.config().fusion && !device.config().sync).then(Mutex::default);
        Ok(Arc::new(CudaContext {
            ordinal,
            device,
            queue,
            stream: Mutex::default(),
            tracking: AtomicBool::new(true),
            error: Mutex::default(),
            places: Mutex::default(),
        }))
    }

    /// Devices that can be opened.
    ///
    /// # Errors
    /// As [`CudaContext::new`].
    pub fn device_count() -> Result<i32, DriverError> {
        let mut count = 0;
        while device_id(count).is_ok() {
            count += 1;
        }
        if count == 0 {
            device_id(0)?;
        }
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// The number it was opened by.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The device's name.
    ///
    /// # Errors
    /// None.
    pub fn name(&self) -> Result<String, DriverError> {
        Ok(self.device.info().name.clone())
    }

    /// Its number for [`super::result::device::get_attribute`].
    pub fn cu_device(&self) -> sys::CUdevice {
        i32::try_from(self.ordinal).unwrap_or(i32::MAX)
    }

    /// What is below: rocfire's device. What waits is launched first, so that nobody sees that it waited.
    pub fn device(&self) -> &Device {
        self.launch_waiting();
        &self.device
    }

    /// The same without launching what waits.
    pub(crate) fn opened(&self) -> &Device {
        &self.device
    }

    /// Whether launches wait here to be put together with others.
    pub(crate) fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// Lets a launch wait; only where there is a queue.
    pub(crate) fn wait(&self, node: Node) {
        if let Some(queue) = &self.queue {
            lock(queue).push(self, node);
        }
    }

    /// Launches all that waits.
    pub(crate) fn launch_waiting(&self) {
        if let Some(queue) = &self.queue {
            lock(queue).run(self, 0);
        }
    }

    pub(crate) fn set_merger(&self, merger: &'static dyn Merger) {
        if let Some(queue) = &self.queue {
            lock(queue).set_merger(merger);
        }
    }

    /// The stream: all of a context's streams are handles of one order.
    pub fn default_stream(self: &Arc<Self>) -> Arc<CudaStream> {
        let mut stream = lock(&self.stream);
        if let Some(stream) = stream.upgrade() {
            return stream;
        }
        let made = CudaStream::new(self);
        *stream = Arc::downgrade(&made);
        made
    }

    /// As [`CudaContext::default_stream`]: two threads share one order, where CUDA would give them two.
    pub fn per_thread_stream(self: &Arc<Self>) -> Arc<CudaStream> {
        self.default_stream()
    }

    /// Another handle of the one stream.
    ///
    /// # Errors
    /// None.
    pub fn new_stream(self: &Arc<Self>) -> Result<Arc<CudaStream>, DriverError> {
        Ok(CudaStream::new(self))
    }

    /// Whether events are wanted for memory; there is one order, so nothing depends on it.
    pub fn is_event_tracking(&self) -> bool {
        self.tracking.load(Ordering::Relaxed)
    }

    /// Sets what [`CudaContext::is_event_tracking`] says.
    ///
    /// # Safety
    /// None is needed: cudarc's signature.
    pub unsafe fn enable_event_tracking(&self) {
        self.tracking.store(true, Ordering::Relaxed);
    }

    /// Clears what [`CudaContext::is_event_tracking`] says.
    ///
    /// # Safety
    /// None is needed: cudarc's signature.
    pub unsafe fn disable_event_tracking(&self) {
        self.tracking.store(false, Ordering::Relaxed);
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// What failed since somebody was last told.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.launch_waiting();
        self.check_err()?;
        Ok(self.device.sync()?)
    }

    /// Tells, once, what [`CudaContext::record_err`] kept.
    ///
    /// # Errors
    /// That.
    pub fn check_err(&self) -> Result<(), DriverError> {
        lock(&self.error).take().map_or(Ok(()), Err)
    }

    /// Keeps an error that cannot be returned where it happened; the next call that can returns it.
    pub fn record_err<T>(&self, result: Result<T, DriverError>) {
        if let Err(error) = result {
            lock(&self.error).get_or_insert(error);
        }
    }

    pub(crate) fn register(&self, memory: &Arc<Memory>) {
        let place = Place { bytes: memory.buffer().bytes(), memory: Arc::downgrade(memory) };
        lock(&self.places).insert(memory.buffer().device_address(), place);
    }

    /// Called before the memory goes back, so that nobody else can have the address yet.
    pub(crate) fn unregister(&self, address: u64) {
        lock(&self.places).remove(&address);
    }

    /// Whether memory that begins at an address has an owner; not if only launches that wait hold it.
    pub(crate) fn is_owned(&self, address: u64) -> bool {
        lock(&self.places).contains_key(&address)
    }

    /// The live memory that an address leads into, or to the end of, and how far.
    pub(crate) fn memory_at(&self, address: u64) -> Option<(Buffer, u64)> {
        // The lock is gone before the handle: if that is the last one, it takes the lock to unregister itself.
        let (memory, offset) = {
            let places = lock(&self.places);
            let (start, place) = places.range(..=address).next_back()?;
            let offset = address - start;
            (if offset <= place.bytes { place.memory.upgrade()? } else { return None }, offset)
        };
        Some((memory.buffer().clone(), offset))
    }
}

impl Drop for CudaContext {
    /// Others may still hold memory that launches which wait would write.
    fn drop(&mut self) {
        self.launch_waiting();
    }
}

impl PartialEq for CudaContext {
    fn eq(&self, other: &CudaContext) -> bool {
        self.device == other.device
    }
}

impl Eq for CudaContext {}

impl fmt::Debug for CudaContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaContext({} is {})", self.ordinal, self.device.id())
    }
}

/// The device behind an ordinal.
pub(crate) fn device_id(ordinal: usize) -> Result<DeviceId, DriverError> {
    let first = DeviceId::from_env()?;
    if ordinal == 0 {
        return Ok(first);
    }
    let further = || DriverError::new(format!("no device {ordinal}: counted from {first}"));
    let ordinal = u16::try_from(ordinal + usize::from(first.ordinal())).map_err(|_| further())?;
    match first.driver() {
        DriverKind::Hip => Ok(DeviceId::hip(ordinal)?),
        DriverKind::Cuda => Ok(DeviceId::cuda(ordinal)?),
        driver @ (DriverKind::Emulated | DriverKind::Noop) if usize::from(ordinal) < EMULATED_MAX => {
            Ok(DeviceId::new(driver, first.arch(), ordinal))
        }
        DriverKind::Emulated | DriverKind::Noop => Err(further()),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
