//! Streams: memory, fills and copies, in the one order of a device's work.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use super::host::{bytes_of, bytes_of_mut};
use super::memory::Memory;
use super::pointer::resolve;
use super::queue::Settled;
use super::shared::lock;
use super::{
    CudaContext, CudaFunction, CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, HostSlice, LaunchArgs,
    ValidAsZeroBits, sys,
};

/// A handle of the one stream that a device has.
pub struct CudaStream {
    context: Arc<CudaContext>,
}

/// The live streams, so that a number is never taken for one that is gone.
static STREAMS: Mutex<Vec<Weak<CudaStream>>> = Mutex::new(Vec::new());

impl CudaStream {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Arc<CudaStream> {
        let stream = Arc::new(CudaStream { context: Arc::clone(context) });
        let mut streams = lock(&STREAMS);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        stream
    }

    /// The live stream that [`CudaStream::cu_stream`] gave this number for.
    pub(crate) fn of_number(number: sys::CUstream) -> Option<Arc<CudaStream>> {
        let named = |stream: &&Weak<CudaStream>| stream.as_ptr() == number.cast_const().cast();
        lock(&STREAMS).iter().find(named).and_then(Weak::upgrade)
    }

    /// A number that names the stream to launchers of `candle-kernels` while it lives.
    pub fn cu_stream(&self) -> sys::CUstream {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The context of its device.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Launches what waits, and lends memory and the stream to work that is no launch of Candle's.
    pub fn settled(&self) -> Settled<'_> {
        self.context.settled()
    }

    /// Whether the stream is recording a graph. It never is.
    ///
    /// # Errors
    /// None.
    pub fn capture_status(&self) -> Result<sys::CUstreamCaptureStatus, DriverError> {
        Ok(sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// What has failed since an error was last returned.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.context.synchronize()
    }

    /// Begins a launch; its arguments are pushed next.
    pub fn launch_builder<'a>(&'a self, function: &'a CudaFunction) -> LaunchArgs<'a> {
        LaunchArgs::new(self, function)
    }

    /// Unwritten memory of `len` elements, which may be 0.
    ///
    /// # Errors
    /// Out of memory, with the sizes; the device stays usable.
    ///
    /// # Safety
    /// - It is written before it is read.
    pub unsafe fn alloc<T: DeviceRepr>(self: &Arc<Self>, len: usize) -> Result<CudaSlice<T>, DriverError> {
        self.context.check_err()?;
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            DriverError::new(format!("{len} elements of {} bytes are more than there can be", size_of::<T>()))
        })?;
        Ok(CudaSlice::on_device(self, Memory::new(self.context.shared(), bytes)?, len))
    }

    /// Memory of `len` elements whose bytes are zero.
    ///
    /// # Errors
    /// As [`CudaStream::alloc`].
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(
        self: &Arc<Self>,
        len: usize,
    ) -> Result<CudaSlice<T>, DriverError> {
        // SAFETY: the next line writes all of it.
        let mut slice = unsafe { self.alloc::<T>(len)? };
        self.memset_zeros(&mut slice)?;
        Ok(slice)
    }

    /// Fills memory with zero bytes.
    ///
    /// # Errors
    /// The driver's own.
    pub fn memset_zeros<T: DeviceRepr + ValidAsZeroBits, Dst: DevicePtrMut<T>>(
        self: &Arc<Self>,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        let bytes = target.num_bytes();
        let address = target.device_ptr_mut(self).0;
        if let Some((kept, first)) = resolve(target.stream(), "memset_zeros", address, bytes)? {
            let settled = target.stream().settled();
            settled.stream().fill(settled.buffer(&kept)?, first, 0, bytes as u64)?;
        }
        Ok(())
    }

    /// A copy of the host's elements on the device. Elements of type `usize` stay on the host.
    ///
    /// # Errors
    /// As [`CudaStream::alloc`] and [`CudaStream::memcpy_htod`].
    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        source: &Src,
    ) -> Result<CudaSlice<T>, DriverError> {
        // SAFETY: nothing is asked, as the trait says.
        let (elements, _synced) = unsafe { source.stream_synced_slice(self) };
        if T::STAYS_ON_HOST {
            let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().expect("chunks of a word"));
            let words = bytes_of(elements).chunks_exact(size_of::<usize>()).map(word).collect();
            return Ok(CudaSlice::on_host(self, words));
        }
        self.context.check_err()?;
        Ok(CudaSlice::on_device(self, self.upload(bytes_of(elements))?, elements.len()))
    }

    /// Device memory with these bytes.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<Arc<Memory>, DriverError> {
        let memory = Memory::new(self.context.shared(), bytes.len())?;
        let settled = self.settled();
        settled.stream().copy_to_device(bytes, settled.buffer(memory.kept())?, 0)?;
        Ok(memory)
    }

    /// Copies the host's elements to memory that has room for them. The host's memory can be reused when this returns.
    ///
    /// # Errors
    /// Too little room; the driver's own.
    pub fn memcpy_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized, Dst: DevicePtrMut<T>>(
        self: &Arc<Self>,
        source: &Src,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        // SAFETY: nothing is asked, as the trait says.
        let (elements, _synced) = unsafe { source.stream_synced_slice(self) };
        room("memcpy_htod", elements.len(), target.len())?;
        let address = target.device_ptr_mut(self).0;
        if let Some((kept, first)) = resolve(target.stream(), "memcpy_htod", address, size_of_val(elements))? {
            let settled = target.stream().settled();
            settled.stream().copy_to_device(bytes_of(elements), settled.buffer(&kept)?, first)?;
        }
        Ok(())
    }

    /// The elements on the host, as all work so far leaves them.
    ///
    /// # Errors
    /// What has failed since an error was last returned; the driver's own.
    pub fn clone_dtoh<T: DeviceRepr, Src: DevicePtr<T>>(self: &Arc<Self>, source: &Src) -> Result<Vec<T>, DriverError> {
        let len = source.len();
        let mut elements = Vec::<T>::with_capacity(len);
        // Zero bytes are written first, because bytes must be initialised to be borrowed. They need not be a value of `T`.
        // SAFETY: the capacity is `len` elements; whatever the copy writes there is values of `T` (`DeviceRepr`), and
        // the length is set only behind it.
        unsafe {
            let bytes = len * size_of::<T>();
            elements.as_mut_ptr().write_bytes(0, len);
            let room = std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast::<u8>(), bytes);
            self.read(source.stream(), source.device_ptr(self).0, room)?;
            elements.set_len(len);
        }
        Ok(elements)
    }

    /// Copies elements to the host, as all work so far leaves them.
    ///
    /// # Errors
    /// As [`CudaStream::clone_dtoh`]; too little room.
    pub fn memcpy_dtoh<T: DeviceRepr, Src: DevicePtr<T>, Dst: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        source: &Src,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        room("memcpy_dtoh", source.len(), target.len())?;
        // SAFETY: nothing is asked, as the trait says.
        let (elements, _synced) = unsafe { target.stream_synced_mut_slice(self) };
        let elements = &mut elements[..source.len()];
        self.read(source.stream(), source.device_ptr(self).0, bytes_of_mut(elements))
    }

    fn read(&self, owner: &CudaStream, address: u64, target: &mut [u8]) -> Result<(), DriverError> {
        let settled = owner.settled();
        self.context.check_err()?;
        if let Some((kept, first)) = resolve(owner, "a copy to the host", address, target.len())? {
            settled.stream().copy_to_host(settled.buffer(&kept)?, first, target)?;
        }
        Ok(())
    }

    /// Copies elements from device memory to device memory, by way of the host if it is of two devices.
    ///
    /// # Errors
    /// Too little room; the driver's own.
    pub fn memcpy_dtod<T, Src: DevicePtr<T>, Dst: DevicePtrMut<T>>(
        self: &Arc<Self>,
        source: &Src,
        target: &mut Dst,
    ) -> Result<(), DriverError> {
        room("memcpy_dtod", source.len(), target.len())?;
        let bytes = source.num_bytes();
        let from = resolve(source.stream(), "memcpy_dtod: source", source.device_ptr(self).0, bytes)?;
        let address = target.device_ptr_mut(self).0;
        let to = resolve(target.stream(), "memcpy_dtod: target", address, bytes)?;
        let (Some((from, from_byte)), Some((to, to_byte))) = (from, to) else { return Ok(()) };
        let (source, target) = (source.stream().settled(), target.stream().settled());
        let (from, to) = (source.buffer(&from)?, target.buffer(&to)?);
        if from.device() == to.device() {
            return Ok(target.stream().copy(from, from_byte, to, to_byte, bytes as u64)?);
        }
        let mut staged = vec![0; bytes];
        source.stream().copy_to_host(from, from_byte, &mut staged)?;
        Ok(target.stream().copy_to_device(&staged, to, to_byte)?)
    }

    /// A copy in memory of this stream's device.
    ///
    /// # Errors
    /// As [`CudaStream::alloc`] and [`CudaStream::memcpy_dtod`].
    pub fn clone_dtod<T: DeviceRepr, Src: DevicePtr<T>>(
        self: &Arc<Self>,
        source: &Src,
    ) -> Result<CudaSlice<T>, DriverError> {
        // SAFETY: the next line writes all of it.
        let mut copy = unsafe { self.alloc::<T>(source.len())? };
        self.memcpy_dtod(source, &mut copy)?;
        Ok(copy)
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaStream({:?})", self.context)
    }
}

fn room(call: &str, elements: usize, room: usize) -> Result<(), DriverError> {
    if elements <= room {
        return Ok(());
    }
    Err(DriverError::new(format!("{call}: room for {room} elements, got {elements}")))
}
