//! What all handles of one device share: the memory that lives, the launches that wait, and an error that nobody has seen yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rocfire_hal::Device;

use super::DriverError;
use super::memory::Memory;
use super::queue::{Kept, Merger, Node, Queue, Settled};

/// There is one for each device that was opened, however many contexts Candle opens over it. So work is done in one order, and
/// memory of one context is memory of the others.
pub(crate) struct Shared {
    device: Device,
    /// The first error that could not be returned where it happened, and was not returned since.
    error: Mutex<Option<DriverError>>,
    /// Live memory by the address of its first byte.
    places: Mutex<BTreeMap<u64, LiveMemory>>,
    /// The launches that wait; `None` where each launch is made as it is asked for.
    queue: Option<Mutex<Queue>>,
}

/// A range of memory that has an owner.
struct LiveMemory {
    bytes: u64,
    memory: Weak<Memory>,
}

/// Those of all devices that the process has opened.
static ALL: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

impl Shared {
    /// What handles of a device share; made when it is first asked for.
    pub(crate) fn of(device: Device) -> Arc<Shared> {
        let mut all = lock(&ALL);
        all.retain(|shared| shared.strong_count() > 0);
        if let Some(shared) = all.iter().filter_map(Weak::upgrade).find(|shared| shared.device == device) {
            return shared;
        }
        let queue = (device.config().fusion && !device.config().sync).then(Mutex::default);
        let shared = Arc::new(Shared { device, error: Mutex::default(), places: Mutex::default(), queue });
        all.push(Arc::downgrade(&shared));
        shared
    }

    /// The device, without launching what waits.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Whether launches wait, so that several can become one.
    pub(crate) fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// Puts a launch into the queue, which must exist ([`Shared::has_queue`]).
    pub(crate) fn wait(&self, node: Node) {
        self.with_queue(|queue| queue.push(self, node));
    }

    /// Launches all that waits.
    pub(crate) fn launch_waiting(&self) {
        self.with_queue(|queue| queue.run(self, 0));
    }

    /// Launches all that waits, and lends memory and the stream.
    pub(crate) fn settled(&self) -> Settled<'_> {
        Settled::new(self)
    }

    pub(crate) fn set_merger(&self, merger: &'static dyn Merger) {
        self.with_queue(|queue| queue.set_merger(merger));
    }

    pub(super) fn with_queue(&self, act: impl FnOnce(&mut Queue)) {
        if let Some(queue) = &self.queue {
            act(&mut lock(queue));
        }
    }

    /// Returns, once, the error that [`Shared::record_err`] kept.
    pub(crate) fn check_err(&self) -> Result<(), DriverError> {
        lock(&self.error).take().map_or(Ok(()), Err)
    }

    /// Keeps an error that cannot be returned where it happened. The next call that can return an error returns it.
    pub(crate) fn record_err<T>(&self, result: Result<T, DriverError>) {
        if let Err(error) = result {
            lock(&self.error).get_or_insert(error);
        }
    }

    pub(crate) fn register(&self, memory: &Arc<Memory>) {
        let place = LiveMemory { bytes: memory.kept().bytes(), memory: Arc::downgrade(memory) };
        lock(&self.places).insert(memory.kept().address(), place);
    }

    /// Called before the memory goes back, so that nobody else can have the address yet.
    pub(crate) fn unregister(&self, address: u64) {
        lock(&self.places).remove(&address);
    }

    /// Whether memory that begins at an address has an owner. Launches that wait hold memory too, but do not count.
    pub(crate) fn is_owned(&self, address: u64) -> bool {
        lock(&self.places).contains_key(&address)
    }

    /// The live memory that an address leads into or to the end of, and the byte in it; `None` if there is none.
    pub(crate) fn memory_at(&self, address: u64) -> Option<(Kept, u64)> {
        // The lock is released before the handle is dropped: the last handle of some memory takes the lock to unregister it.
        let (memory, offset) = {
            let places = lock(&self.places);
            let (start, place) = places.range(..=address).next_back()?;
            let offset = address - start;
            (if offset <= place.bytes { place.memory.upgrade()? } else { return None }, offset)
        };
        Some((memory.kept().clone(), offset))
    }
}

impl Drop for Shared {
    /// Launches what waits: others may still hold memory that it writes.
    fn drop(&mut self) {
        self.launch_waiting();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
