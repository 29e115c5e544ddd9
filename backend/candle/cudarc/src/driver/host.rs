//! Types of elements that go to the device, and the host's memory that they are copied from and to.

use super::{CudaStream, SyncOnDrop};

/// A type whose values are the same bytes on the device.
///
/// # Safety
/// - Any bytes that a kernel writes are a value of it, or are never read back as one.
/// - It has no padding.
pub unsafe trait DeviceRepr {
    /// Whether uploads of it stay on the host until a kernel wants them in memory. That is so for `usize` only, which Candle uses
    /// for the extents and strides of a launch and for nothing else.
    const STAYS_ON_HOST: bool = false;
}

/// A type of which zero bytes are a value.
///
/// # Safety
/// - Zero bytes are a value of the type.
pub unsafe trait ValidAsZeroBits {}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(
            // SAFETY: a plain number without padding, whose values are the same bytes on the device; what kernels write as
            // `bool` is 0 or 1.
            unsafe impl DeviceRepr for $number {}
            // SAFETY: zero bytes are zero.
            unsafe impl ValidAsZeroBits for $number {}
        )*
    };
}

numbers! {
    bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 f32 f64 half::f16 half::bf16 float8::F8E4M3 float8::F8E5M2
}

// SAFETY: as the numbers above.
unsafe impl DeviceRepr for usize {
    const STAYS_ON_HOST: bool = true;
}
// SAFETY: zero bytes are zero.
unsafe impl ValidAsZeroBits for usize {}

// SAFETY: elements without padding lie without gaps.
unsafe impl<T: DeviceRepr, const N: usize> DeviceRepr for [T; N] {}
// SAFETY: each element is one of zero bytes.
unsafe impl<T: ValidAsZeroBits, const N: usize> ValidAsZeroBits for [T; N] {}

/// Elements in the host's memory that are copied from or to.
pub trait HostSlice<T> {
    /// The number of its elements.
    fn len(&self) -> usize;

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, to be read.
    ///
    /// # Safety
    /// Nothing is asked: copies are done when they return. The `unsafe` is cudarc's signature.
    unsafe fn stream_synced_slice<'a>(&'a self, stream: &'a CudaStream) -> (&'a [T], SyncOnDrop<'a>);

    /// The elements, to be written.
    ///
    /// # Safety
    /// As [`HostSlice::stream_synced_slice`].
    unsafe fn stream_synced_mut_slice<'a>(&'a mut self, stream: &'a CudaStream) -> (&'a mut [T], SyncOnDrop<'a>);
}

impl<T> HostSlice<T> for [T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    unsafe fn stream_synced_slice<'a>(&'a self, stream: &'a CudaStream) -> (&'a [T], SyncOnDrop<'a>) {
        (self, SyncOnDrop::new(stream))
    }

    unsafe fn stream_synced_mut_slice<'a>(&'a mut self, stream: &'a CudaStream) -> (&'a mut [T], SyncOnDrop<'a>) {
        (self, SyncOnDrop::new(stream))
    }
}

impl<T> HostSlice<T> for Vec<T> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    unsafe fn stream_synced_slice<'a>(&'a self, stream: &'a CudaStream) -> (&'a [T], SyncOnDrop<'a>) {
        (self, SyncOnDrop::new(stream))
    }

    unsafe fn stream_synced_mut_slice<'a>(&'a mut self, stream: &'a CudaStream) -> (&'a mut [T], SyncOnDrop<'a>) {
        (self, SyncOnDrop::new(stream))
    }
}

impl<T, const N: usize> HostSlice<T> for [T; N] {
    fn len(&self) -> usize {
        N
    }

    unsafe fn stream_synced_slice<'a>(&'a self, stream: &'a CudaStream) -> (&'a [T], SyncOnDrop<'a>) {
        (self, SyncOnDrop::new(stream))
    }

    unsafe fn stream_synced_mut_slice<'a>(&'a mut self, stream: &'a CudaStream) -> (&'a mut [T], SyncOnDrop<'a>) {
        (self, SyncOnDrop::new(stream))
    }
}

/// The bytes of elements.
pub(crate) fn bytes_of<T: DeviceRepr>(elements: &[T]) -> &[u8] {
    // SAFETY: the elements are initialised and have no padding (`DeviceRepr`), and the bytes are borrowed as they are.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of elements, to be overwritten by what a kernel wrote.
pub(crate) fn bytes_of_mut<T: DeviceRepr>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as `bytes_of`; whatever a kernel wrote is a value (`DeviceRepr`).
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}
