//! Device memory with an owner.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::{Block, SharedPool};
use crate::{Device, Fault, Result};

/// A range of device memory; clones are handles to the same bytes. The last one gives it back to the device's pool.
///
/// No bytes are zeroed; the emulator treats them as unwritten.
#[derive(Clone)]
pub struct Buffer {
    device: Device,
    memory: Arc<Memory>,
}

/// The bytes themselves. They keep the pool, not the device: launches that wait in a device's own stream hold them.
pub(crate) struct Memory {
    pool: SharedPool,
    /// `None` for a buffer of 0 bytes, which has no memory and address 0.
    block: Option<Block>,
    bytes: u64,
    /// Set by a launch that should have written here and failed; cleared by whoever writes all of it anew.
    poison: Mutex<Option<Arc<Fault>>>,
    /// Handles of launches that wait.
    held: AtomicUsize,
}

impl Memory {
    /// Where it begins; 0 for no bytes.
    #[inline]
    pub fn address(&self) -> u64 {
        self.block.as_ref().map_or(0, Block::address)
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The failure of the launch that should have written this, if it failed.
    pub fn poison(&self) -> Option<Arc<Fault>> {
        self.poison.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_poison(&self, fault: Option<Arc<Fault>>) {
        *self.poison.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// A handle counted as that of work that waits, until [`Memory::release`].
    pub fn hold(self: &Arc<Memory>) -> Arc<Memory> {
        self.held.fetch_add(1, Ordering::AcqRel);
        Arc::clone(self)
    }

    /// The bytes that each of those handles answers for, where nobody else has one; 0 else.
    pub fn held_alone(self: &Arc<Memory>) -> u64 {
        let held = self.held.load(Ordering::Acquire);
        if Arc::strong_count(self) == held { self.bytes / held as u64 } else { 0 }
    }

    /// Takes back a [`Memory::hold`], before the handle goes: in between there is one handle too many, never one too few.
    pub fn release(&self) {
        self.held.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Buffer {
    /// Unwritten memory of a device.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], after unused memory of the pool was returned and one more try; the driver's own.
    pub fn new(device: &Device, bytes: u64) -> Result<Buffer> {
        let block = if bytes == 0 { None } else { Some(device.pool_allocate(bytes)?) };
        let (poison, held) = (Mutex::new(None), AtomicUsize::new(0));
        let memory = Arc::new(Memory { pool: device.pool(), block, bytes, poison, held });
        Ok(Buffer { device: device.clone(), memory })
    }

    /// A handle to memory of a device.
    pub(crate) fn of(device: &Device, memory: Arc<Memory>) -> Buffer {
        Buffer { device: device.clone(), memory }
    }

    /// Its size.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.memory.bytes
    }

    /// Where it lives.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The address of its first byte on the device; 0 for no bytes. It can be used while a handle exists.
    #[inline]
    pub fn device_address(&self) -> u64 {
        self.memory.address()
    }

    /// Whether this is the only handle, but for those of launches that wait: whoever writes the memory comes after them.
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.memory).wrapping_sub(self.memory.held.load(Ordering::Acquire)) == 1
    }

    /// The memory, counted as that of a launch that waits, until [`Memory::release`].
    pub(crate) fn hold(&self) -> Arc<Memory> {
        self.memory.hold()
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Whether two handles are to the same memory.
    #[inline]
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
    }

    /// The failure of the launch that should have written this, if it failed.
    pub fn poison(&self) -> Option<Arc<Fault>> {
        self.memory.poison()
    }

    pub(crate) fn set_poison(&self, fault: Option<Arc<Fault>>) {
        self.memory.set_poison(fault);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.lock().unwrap_or_else(PoisonError::into_inner).free(block);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {:#x} on {})", self.bytes(), self.device_address(), self.device.id())
    }
}
