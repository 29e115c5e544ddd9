//! Devices as Candle opens them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rocfire_hal::{Device, DeviceId, DriverKind};

use super::queue::Settled;
use super::shared::{Shared, lock};
use super::{CudaStream, DriverError, sys};

/// The most emulated devices that a process can have: as many as a usual machine has GPUs.
const EMULATED_MAX: usize = 8;

/// A handle of a device. Candle opens one for each `Device::new_cuda`; handles of one device share memory, kernels and the order of
/// work.
pub struct CudaContext {
    ordinal: usize,
    shared: Arc<Shared>,
    /// The stream that Candle's devices use.
    stream: Mutex<Weak<CudaStream>>,
    tracking: AtomicBool,
}

impl CudaContext {
    /// Opens the device that `ROCFIRE_DEVICE` names, else the best there is. Ordinal `n` is the n-th device behind that one.
    ///
    /// # Errors
    /// A setting is wrong, the driver is not there, or it has no device of this ordinal.
    pub fn new(ordinal: usize) -> Result<Arc<CudaContext>, DriverError> {
        CudaContext::with_device(ordinal, Device::get(device_id(ordinal)?)?)
    }

    /// A context over a device that somebody opened, perhaps with settings of its own. Contexts over the same opened device share
    /// memory and order; a device that was opened once more has its own.
    ///
    /// # Errors
    /// None today.
    pub fn with_device(ordinal: usize, device: Device) -> Result<Arc<CudaContext>, DriverError> {
        let (shared, stream, tracking) = (Shared::of(device), Mutex::default(), AtomicBool::new(true));
        Ok(Arc::new(CudaContext { ordinal, shared, stream, tracking }))
    }

    /// How many devices can be opened.
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

    /// The ordinal by which it was opened.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The device's name.
    ///
    /// # Errors
    /// None.
    pub fn name(&self) -> Result<String, DriverError> {
        Ok(self.shared.device().info().name.clone())
    }

    /// Its number for [`super::result::device::get_attribute`].
    pub fn cu_device(&self) -> sys::CUdevice {
        i32::try_from(self.ordinal).unwrap_or(i32::MAX)
    }

    /// rocfire's device. What waits is launched first, so that nobody sees that it waited.
    pub fn device(&self) -> &Device {
        self.shared.launch_waiting();
        self.shared.device()
    }

    /// rocfire's device, without launching what waits.
    pub(crate) fn opened(&self) -> &Device {
        self.shared.device()
    }

    /// What all contexts over the device share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Launches what waits, and lends memory and the stream to work that is no launch of Candle's.
    pub fn settled(&self) -> Settled<'_> {
        self.shared.settled()
    }

    /// The stream. All streams of a device are handles of one order of work.
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

    /// Whether events are wanted for memory, as cudarc asks. Here work is done in one order, so nothing depends on it.
    pub fn is_event_tracking(&self) -> bool {
        self.tracking.load(Ordering::Relaxed)
    }

    /// Sets what [`CudaContext::is_event_tracking`] says.
    ///
    /// # Safety
    /// Nothing is asked: the `unsafe` is cudarc's signature.
    pub unsafe fn enable_event_tracking(&self) {
        self.tracking.store(true, Ordering::Relaxed);
    }

    /// Clears what [`CudaContext::is_event_tracking`] says.
    ///
    /// # Safety
    /// Nothing is asked: the `unsafe` is cudarc's signature.
    pub unsafe fn disable_event_tracking(&self) {
        self.tracking.store(false, Ordering::Relaxed);
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// What has failed since an error was last returned.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.shared.launch_waiting();
        self.check_err()?;
        Ok(self.shared.device().sync()?)
    }

    /// Returns, once, the error that [`CudaContext::record_err`] kept.
    ///
    /// # Errors
    /// The kept error.
    pub fn check_err(&self) -> Result<(), DriverError> {
        self.shared.check_err()
    }

    /// Keeps an error that cannot be returned where it happened. The next call that can return an error returns it.
    pub fn record_err<T>(&self, result: Result<T, DriverError>) {
        self.shared.record_err(result);
    }
}

impl PartialEq for CudaContext {
    fn eq(&self, other: &CudaContext) -> bool {
        self.shared.device() == other.shared.device()
    }
}

impl Eq for CudaContext {}

impl fmt::Debug for CudaContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaContext({} is {})", self.ordinal, self.opened().id())
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
