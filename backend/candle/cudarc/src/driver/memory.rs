//! Device memory with owners, and views into it.
//!
//! A [`CudaSlice`] owns a range of the device's pool. A slice of `usize` that was uploaded stays on the host instead: its numbers
//! become part of the arguments of launches, and get device memory only when somebody asks for their address.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::{Arc, OnceLock};

use rocfire_hal::Error;

use super::queue::Kept;
use super::shared::Shared;
use super::{CudaContext, CudaStream, DeviceRepr, DriverError, sys};

/// A range of device memory. [`Shared`] knows it by its address while it lives.
pub(crate) struct Memory {
    shared: Arc<Shared>,
    kept: Kept,
}

impl Memory {
    pub(crate) fn new(shared: &Arc<Shared>, bytes: usize) -> Result<Arc<Memory>, DriverError> {
        let made = || Kept::new(shared.device(), bytes as u64);
        let kept = match made() {
            Err(Error::OutOfMemory { .. }) if shared.has_queue() => {
                // Launches that wait keep memory that was dropped; they give it back when they have been launched.
                shared.launch_waiting();
                made()?
            }
            outcome => outcome?,
        };
        let memory = Arc::new(Memory { shared: Arc::clone(shared), kept });
        if bytes > 0 {
            shared.register(&memory);
        }
        Ok(memory)
    }

    /// The memory as an address and a length. [`super::queue::Settled`] lends it.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.kept.bytes() > 0 {
            self.shared.unregister(self.kept.address());
        }
    }
}

/// Where the elements of a slice are.
#[derive(Clone)]
pub(crate) enum Held {
    Device { stream: Arc<CudaStream>, memory: Arc<Memory> },
    Host(Arc<Uploaded>),
}

/// Numbers that stay on the host, and their device memory once it was asked for.
pub(crate) struct Uploaded {
    stream: Arc<CudaStream>,
    words: Arc<[usize]>,
    memory: OnceLock<Arc<Memory>>,
}

impl Held {
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        match self {
            Held::Device { stream, .. } => stream,
            Held::Host(uploaded) => &uploaded.stream,
        }
    }

    /// The device memory. Numbers that stayed on the host are uploaded now.
    pub(crate) fn memory(&self) -> Result<&Arc<Memory>, DriverError> {
        match self {
            Held::Device { memory, .. } => Ok(memory),
            Held::Host(uploaded) => {
                if let Some(memory) = uploaded.memory.get() {
                    return Ok(memory);
                }
                let memory = uploaded.stream.upload(super::host::bytes_of(&uploaded.words))?;
                Ok(uploaded.memory.get_or_init(|| memory))
            }
        }
    }
}

/// A range of elements of some memory.
#[derive(Clone, Copy)]
pub(crate) struct MemoryPart<'a> {
    pub held: &'a Held,
    pub first_byte: u64,
    pub len: usize,
}

impl<'a> MemoryPart<'a> {
    /// The address of the first element. It is 0 if numbers of the host could not be uploaded; the error is kept for the next call.
    pub(crate) fn address(self) -> sys::CUdeviceptr {
        match self.held.memory() {
            Ok(memory) if memory.kept().bytes() == 0 => 0,
            Ok(memory) => memory.kept().address() + self.first_byte,
            Err(error) => {
                self.held.stream().context().record_err::<()>(Err(error));
                0
            }
        }
    }

    /// The numbers, if they are on the host and the range is all of them.
    pub(crate) fn words(self) -> Option<&'a Arc<[usize]>> {
        match self.held {
            Held::Host(uploaded) if self.first_byte == 0 && self.len == uploaded.words.len() => Some(&uploaded.words),
            _ => None,
        }
    }

    fn cut<T>(self, range: Range<usize>) -> MemoryPart<'a> {
        let first_byte = self.first_byte + (range.start * size_of::<T>()) as u64;
        MemoryPart { held: self.held, first_byte, len: range.len() }
    }
}

/// Elements on a device, with an owner. When it is dropped, others may use the memory, behind the work that was asked for so far.
pub struct CudaSlice<T> {
    held: Held,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl<T> CudaSlice<T> {
    pub(crate) fn on_device(stream: &Arc<CudaStream>, memory: Arc<Memory>, len: usize) -> CudaSlice<T> {
        CudaSlice { held: Held::Device { stream: Arc::clone(stream), memory }, len, elements: PhantomData }
    }

    /// A slice of words that stay on the host; `T` is `usize`.
    pub(crate) fn on_host(stream: &Arc<CudaStream>, words: Arc<[usize]>) -> CudaSlice<T> {
        let len = words.len();
        let uploaded = Uploaded { stream: Arc::clone(stream), words, memory: OnceLock::new() };
        CudaSlice { held: Held::Host(Arc::new(uploaded)), len, elements: PhantomData }
    }

    pub(crate) fn place(&self) -> MemoryPart<'_> {
        MemoryPart { held: &self.held, first_byte: 0, len: self.len }
    }

    /// The number of its elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The stream it was made on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        self.held.stream()
    }

    /// The context of its device.
    pub fn context(&self) -> &Arc<CudaContext> {
        self.stream().context()
    }

    /// The ordinal by which its device was opened.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal()
    }

    /// All of it.
    pub fn as_view(&self) -> CudaView<'_, T> {
        CudaView { place: self.place(), elements: PhantomData }
    }

    /// All of it, to be written.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        CudaViewMut { place: self.place(), elements: PhantomData }
    }

    /// Some of its elements.
    ///
    /// # Panics
    /// Unless the range is inside or empty.
    pub fn slice(&self, bounds: impl RangeBounds<usize>) -> CudaView<'_, T> {
        self.as_view().slice(bounds)
    }

    /// Some of its elements; `None` unless the range is inside.
    pub fn try_slice(&self, bounds: impl RangeBounds<usize>) -> Option<CudaView<'_, T>> {
        self.as_view().try_slice(bounds)
    }

    /// Some of its elements, to be written.
    ///
    /// # Panics
    /// Unless the range is inside or empty.
    pub fn slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> CudaViewMut<'_, T> {
        let range = require(bounds, self.len);
        CudaViewMut { place: self.place().cut::<T>(range), elements: PhantomData }
    }

    /// Some of its elements, to be written; `None` unless the range is inside.
    pub fn try_slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> Option<CudaViewMut<'_, T>> {
        let range = range(bounds, self.len)?;
        Some(CudaViewMut { place: self.place().cut::<T>(range), elements: PhantomData })
    }
}

impl<T: DeviceRepr> CudaSlice<T> {
    /// A copy in memory of its own.
    ///
    /// # Errors
    /// Out of memory; those of the copy.
    pub fn try_clone(&self) -> Result<CudaSlice<T>, DriverError> {
        match &self.held {
            // Nothing can write numbers of the host, so the copy shares them.
            Held::Host(_) => Ok(CudaSlice { held: self.held.clone(), len: self.len, elements: PhantomData }),
            Held::Device { stream, .. } => stream.clone_dtod(self),
        }
    }
}

impl<T: DeviceRepr> Clone for CudaSlice<T> {
    /// As [`CudaSlice::try_clone`]; panics where that returns an error.
    fn clone(&self) -> CudaSlice<T> {
        self.try_clone().unwrap_or_else(|error| panic!("a copy of device memory: {error}"))
    }
}

impl<T> fmt::Debug for CudaSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaSlice<{}>({} on {:?})", std::any::type_name::<T>(), self.len, self.context())
    }
}

/// Some elements of a [`CudaSlice`].
pub struct CudaView<'a, T> {
    place: MemoryPart<'a>,
    elements: PhantomData<&'a T>,
}

impl<'a, T> CudaView<'a, T> {
    pub(crate) fn place(&self) -> MemoryPart<'a> {
        self.place
    }

    /// The number of its elements.
    pub fn len(&self) -> usize {
        self.place.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// Some of its elements.
    ///
    /// # Panics
    /// Unless the range is inside or empty.
    pub fn slice(&self, bounds: impl RangeBounds<usize>) -> CudaView<'a, T> {
        let range = require(bounds, self.place.len);
        CudaView { place: self.place.cut::<T>(range), elements: PhantomData }
    }

    /// Some of its elements; `None` unless the range is inside.
    pub fn try_slice(&self, bounds: impl RangeBounds<usize>) -> Option<CudaView<'a, T>> {
        let range = range(bounds, self.place.len)?;
        Some(CudaView { place: self.place.cut::<T>(range), elements: PhantomData })
    }
}

impl<T> Clone for CudaView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CudaView<'_, T> {}

impl<T> fmt::Debug for CudaView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaView<{}>({})", std::any::type_name::<T>(), self.place.len)
    }
}

/// Some elements of a [`CudaSlice`], to be written.
pub struct CudaViewMut<'a, T> {
    place: MemoryPart<'a>,
    elements: PhantomData<&'a mut T>,
}

impl<T> CudaViewMut<'_, T> {
    pub(crate) fn place(&self) -> MemoryPart<'_> {
        self.place
    }

    /// The number of its elements.
    pub fn len(&self) -> usize {
        self.place.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// All of it, to be read.
    pub fn as_view(&self) -> CudaView<'_, T> {
        CudaView { place: self.place, elements: PhantomData }
    }

    /// Some of its elements.
    ///
    /// # Panics
    /// Unless the range is inside or empty.
    pub fn slice(&self, bounds: impl RangeBounds<usize>) -> CudaView<'_, T> {
        self.as_view().slice(bounds)
    }

    /// Some of its elements, to be written.
    ///
    /// # Panics
    /// Unless the range is inside or empty.
    pub fn slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> CudaViewMut<'_, T> {
        let range = require(bounds, self.place.len);
        CudaViewMut { place: self.place.cut::<T>(range), elements: PhantomData }
    }
}

impl<T> fmt::Debug for CudaViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaViewMut<{}>({})", std::any::type_name::<T>(), self.place.len)
    }
}

/// The range that bounds name; `None` unless it lies inside `len` elements.
fn range(bounds: impl RangeBounds<usize>, len: usize) -> Option<Range<usize>> {
    let start = match bounds.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(&end) => end.checked_add(1)?,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    (start <= end && end <= len).then_some(start..end)
}

/// As [`range`], but an empty range may begin anywhere. Candle slices the memory of a tensor without elements from its view's offset
/// on, and the offset of such a view, `[0, 3, 4]` from the axis's second, lies behind the end of the memory.
fn require(bounds: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let (start, end) = (bounds.start_bound().cloned(), bounds.end_bound().cloned());
    let is_nothing = match (start, end) {
        (Bound::Included(start), Bound::Unbounded) => start > len,
        (Bound::Included(start), Bound::Excluded(end)) => start == end,
        _ => false,
    };
    let nothing = || is_nothing.then_some(len..len);
    range(bounds, len).or_else(nothing).unwrap_or_else(|| panic!("elements {start:?} to {end:?} of {len}"))
}

#[cfg(test)]
mod tests {
    use super::{range, require};

    #[test]
    fn ranges_stay_inside() {
        assert_eq!(range(.., 5), Some(0..5));
        assert_eq!(range(2.., 5), Some(2..5));
        assert_eq!(range(5.., 5), Some(5..5));
        assert_eq!(range(1..=4, 5), Some(1..5));
        assert_eq!(range(6.., 5), None);
        assert_eq!(range(..6, 5), None);
        let (late, early) = (3, 2);
        assert_eq!(range(late..early, 5), None);
        assert_eq!(range(0..=usize::MAX, 5), None);
    }

    #[test]
    fn nothing_may_begin_behind_the_end() {
        assert_eq!(require(2.., 5), 2..5);
        assert_eq!(require(6.., 5), 5..5);
        assert_eq!(require(7..7, 5), 5..5);
        assert_eq!(require(3..3, 5), 3..3);
        assert!(std::panic::catch_unwind(|| require(4..6, 5)).is_err());
    }
}
