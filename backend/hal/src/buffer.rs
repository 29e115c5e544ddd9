//! Device memory with an owner.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::Block;
use crate::{Device, Fault, Result};

/// A range of device memory; clones are handles to the same bytes. The last one gives it back to the device's pool.
///
/// No bytes are zeroed; the emulator treats them as unwritten.
#[derive(Clone)]
pub struct Buffer(Arc<Allocation>);

struct Allocation {
    device: Device,
    /// `None` for a buffer of 0 bytes, which has no memory and address 0.
    block: Option<Block>,
    bytes: u64,
    /// Set by a launch that should have written here and failed; cleared by whoever writes all of it anew.
    poison: Mutex<Option<Arc<Fault>>>,
    /// Handles of launches that wait.
    held: AtomicUsize,
}

impl Buffer {
    /// Unwritten memory of a device.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], after unused memory of the pool was returned and one more try; the driver's own.
    pub fn new(device: &Device, bytes: u64) -> Result<Buffer> {
        let block = if bytes == 0 { None } else { Some(device.pool_allocate(bytes)?) };
        Ok(Buffer(Arc::new(Allocation {
            device: device.clone(),
            block,
            bytes,
            poison: Mutex::new(None),
            held: AtomicUsize::new(0),
        })))
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The address of its first byte on the device; 0 for no bytes. It can be used while a handle exists.
    pub fn device_address(&self) -> u64 {
        self.0.block.as_ref().map_or(0, Block::address)
    }

    /// Whether this is the only handle, but for those of launches that wait: whoever writes the memory comes after them.
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0).wrapping_sub(self.0.held.load(Ordering::Acquire)) == 1
    }

    /// Counts a handle as that of a launch that waits.
    pub(crate) fn hold(&self) {
        self.0.held.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back a [`Buffer::hold`], before the handle goes: in between the buffer has one handle too many, never one too few.
    pub(crate) fn release(&self) {
        self.0.held.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether two handles are to the same memory.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The failure of the launch that should have written this, if it failed.
    pub fn poison(&self) -> Option<Arc<Fault>> {
        self.0.poison.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_poison(&self, fault: Option<Arc<Fault>>) {
        *self.0.poison.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.device.pool_free(block);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {:#x} on {})", self.0.bytes, self.device_address(), self.0.device.id())
    }
}
