//! Memory as launches that wait hold it: an address and a length. The memory itself is had in its turn only.

use std::fmt;

use rocfire_hal::{Buffer, DType, Device, Error, Layout, View};

/// A handle of device memory that does not lend it: launches that wait may still have to write it, or to read what is in it.
///
/// Its address is a name for launches that go through the queue. Whoever wants the memory itself shows a [`Turn`]: an operator of
/// a [`super::Merger`] has it by its window, everybody else by [`super::Settled`].
#[derive(Clone)]
pub struct Kept(Buffer);

/// Says that what waits and comes before is launched before whatever is made with the memory.
pub struct Turn(());

impl Turn {
    /// For the queue, which runs launches in their order.
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

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// The memory, in its turn.
    pub fn buffer(&self, _turn: &Turn) -> &Buffer {
        &self.0
    }

    /// Whether elements of a layout lie inside.
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
