//! How work that is no launch of Candle's gets memory and the stream.

use std::fmt;

use rocfire_hal::{Buffer, DType, Layout, Stream, Tensor};

use super::{Kept, Turn};
use crate::driver::memory::MemoryPart;
use crate::driver::shared::Shared;
use crate::driver::{CudaSlice, DriverError};

/// A device on which nothing waits. Making this launches what waited, and while it lives every launch is made as it is asked for. So
/// work on its stream comes behind all that was asked for before, and before all that is asked for afterwards.
///
/// Slices and addresses lend their memory only through it.
pub struct Settled<'a> {
    shared: &'a Shared,
    turn: Turn,
}

impl<'a> Settled<'a> {
    /// Launches what waits.
    pub(crate) fn new(shared: &'a Shared) -> Settled<'a> {
        shared.with_queue(|queue| queue.open(shared));
        Settled { shared, turn: Turn::new() }
    }

    /// The stream to put work on.
    pub fn stream(&self) -> &'a Stream {
        self.shared.device().stream()
    }

    /// The proof, for [`Kept::buffer`], that nothing waits.
    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The memory of a slice, and the byte of it that the slice begins at.
    ///
    /// # Errors
    /// The slice is of another device; out of memory, as numbers that stayed on the host get their memory here.
    pub fn memory<'s, T>(&'s self, slice: &'s CudaSlice<T>) -> Result<(&'s Buffer, u64), DriverError> {
        self.place(slice.place())
    }

    pub(crate) fn place<'s>(&'s self, place: MemoryPart<'s>) -> Result<(&'s Buffer, u64), DriverError> {
        Ok((self.buffer(place.held.memory()?.kept())?, place.first_byte))
    }

    /// The buffer of some memory.
    ///
    /// # Errors
    /// It is of another device.
    pub fn buffer<'s>(&'s self, kept: &'s Kept) -> Result<&'s Buffer, DriverError> {
        if kept.is_of(self.shared.device()) {
            return Ok(kept.buffer(&self.turn));
        }
        Err(DriverError::new(format!("the memory must be of {}, got {kept:?}", self.shared.device().id())))
    }

    /// The live memory from an address on, as a contiguous tensor; `name` is what messages call it.
    ///
    /// # Errors
    /// There is no live memory there, or less than the shape needs; the address is between two elements.
    pub fn tensor(&self, name: &str, address: u64, shape: &[usize], dtype: DType) -> Result<Tensor, DriverError> {
        let wrong = || DriverError::new(format!("{name}: {address:#x} is no address of live memory"));
        let (kept, first_byte) = self.shared.memory_at(address).ok_or_else(wrong)?;
        tensor(self.buffer(&kept)?, first_byte, shape, dtype)
    }
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.shared.with_queue(|queue| queue.close());
    }
}

impl fmt::Debug for Settled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settled({})", self.shared.device().id())
    }
}

/// The memory of a buffer from byte `first_byte` on, as a contiguous tensor.
pub(crate) fn tensor(buffer: &Buffer, first_byte: u64, shape: &[usize], dtype: DType) -> Result<Tensor, DriverError> {
    let size = dtype.size_bytes() as u64;
    if !first_byte.is_multiple_of(size) {
        return Err(DriverError::new(format!("byte {first_byte} is between two elements of {dtype}")));
    }
    let strides = Layout::contiguous(shape)?;
    let layout = Layout::strided(shape, strides.strides(), (first_byte / size) as i64)?;
    Ok(Tensor::from_buffer(buffer.clone(), layout, dtype)?)
}
