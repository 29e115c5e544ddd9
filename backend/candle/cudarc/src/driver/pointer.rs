//! Addresses of device memory, whatever slice or view has it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::queue::Kept;
use super::{CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError, sys};

/// Device memory as elements of a type.
pub trait DeviceSlice<T> {
    /// The number of its elements.
    fn len(&self) -> usize;

    /// The stream it was made on.
    fn stream(&self) -> &Arc<CudaStream>;

    /// Its size in bytes.
    fn num_bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Device memory whose address can be had, to be read.
pub trait DevicePtr<T>: DeviceSlice<T> {
    /// The address of its first element. It can be used while the memory has an owner.
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>);
}

/// Device memory whose address can be had, to be written.
pub trait DevicePtrMut<T>: DeviceSlice<T> {
    /// The address of its first element. It can be used while the memory has an owner.
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>);
}

/// In cudarc this keeps an address usable until it is dropped. Here work is done in one order, and dropping it does nothing.
#[must_use]
pub struct SyncOnDrop<'a>(PhantomData<&'a CudaStream>);

impl<'a> SyncOnDrop<'a> {
    pub(crate) fn new(_stream: &'a CudaStream) -> SyncOnDrop<'a> {
        SyncOnDrop(PhantomData)
    }
}

impl Drop for SyncOnDrop<'_> {
    // Callers drop it where cudarc's does its work. Without an implementation of `Drop` that would be a warning.
    fn drop(&mut self) {}
}

impl fmt::Debug for SyncOnDrop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncOnDrop")
    }
}

macro_rules! slices {
    ($($slice:ty),*) => {
        $(
            impl<T> DeviceSlice<T> for $slice {
                fn len(&self) -> usize {
                    self.place().len
                }

                fn stream(&self) -> &Arc<CudaStream> {
                    self.place().held.stream()
                }
            }
        )*
    };
}

slices!(CudaSlice<T>, CudaView<'_, T>, CudaViewMut<'_, T>);

macro_rules! readable {
    ($($slice:ty),*) => {
        $(
            impl<T> DevicePtr<T> for $slice {
                fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
                    (self.place().address(), SyncOnDrop::new(stream))
                }
            }
        )*
    };
}

readable!(CudaSlice<T>, CudaView<'_, T>, CudaViewMut<'_, T>);

macro_rules! writable {
    ($($slice:ty),*) => {
        $(
            impl<T> DevicePtrMut<T> for $slice {
                fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
                    (self.place().address(), SyncOnDrop::new(stream))
                }
            }
        )*
    };
}

writable!(CudaSlice<T>, CudaViewMut<'_, T>);

/// The live memory that an address leads into, and the byte in it; `None` if no bytes of it are wanted. The address is of the
/// context of `stream`, and `what` names it in errors.
pub(crate) fn resolve(
    stream: &CudaStream,
    what: &str,
    address: sys::CUdeviceptr,
    bytes: usize,
) -> Result<Option<(Kept, u64)>, DriverError> {
    if bytes == 0 {
        return Ok(None);
    }
    match stream.context().shared().memory_at(address) {
        Some(found) => Ok(Some(found)),
        None => {
            // The address may be missing because the memory could not be had: that error says more.
            stream.context().check_err()?;
            Err(DriverError::new(format!(
                "{what}: {address:#x} is no address of live memory of {:?}",
                stream.context()
            )))
        }
    }
}
