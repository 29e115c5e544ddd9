//! Memory as launches that wait hold it: an address and a length. It is lent only to what runs in the queue's order.

use std::fmt;

use rocfire_hal::{Buffer, DType, Device, Error, Layout, View};

/// A handle of device memory that does not lend it, because launches that wait may still have to write or read it.
///
/// Its address only names it to launches that go through the queue. Whoever wants the memory itself shows a [`Turn`]. An operator of
/// a [`super::Merger`] has one from its window, everybody else from [`super::Settled`].
#[derive(Clone)]
pub struct Kept(Buffer);

/// Proof that its holder runs in the queue's order: launches that come before it have been launched when it uses memory.
pub struct Turn(());

impl Turn {
    /// Made by the queue only, which runs launches in their order.
    pub(super) fn new() -> Turn {
        Turn(())
    }
}

impl Kept {
    /// Unwritten memory of a device.
    pub(crate) fn new(device: &Device, bytes: u64) -> Result<Kept, Error> {
        Buffer::new(device, bytes).map(Kept)
    }

    /// The address of its first byte; 0 for no bytes.
    pub fn address(&self) -> u64 {
        self.0.device_address()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// The memory, for a holder of a [`Turn`].
    pub fn buffer(&self, _turn: &Turn) -> &Buffer {
        &self.0
    }

    /// An error unless all elements of a layout lie inside.
    pub(crate) fn require(&self, layout: Layout, dtype: DType) -> Result<(), Error> {
        View::new(&self.0, layout, dtype).map(|_| ())
    }

    pub(super) fn is_of(&self, device: &Device) -> bool {
        self.0.device() == device
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
