//! The process's one card: the emulator, its memory, events and queues.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use rocfire_emulator::Gpu;
use rocfire_hal::{Config, Level, stand_in};

use crate::abi::{CreateQueue, Errno, QUEUE_TYPE_AQL};
use crate::code::Code;
use crate::events::Events;
use crate::lock;
use crate::memory::{Buffers, DOORBELLS, DOORBELLS_BYTES, FILE_BYTES};
use crate::pages::{File, Mapping};
use crate::queue::Queue;

/// The number by which the driver calls the card.
pub const GPU_ID: u32 = 0x5217;

/// What there is of a card.
pub struct Card {
    /// What runs kernels.
    pub gpu: Gpu,
    /// Bytes of its own memory.
    pub vram_bytes: u64,
    /// The file that the runtime takes for the driver.
    pub file: File,
    /// Memory.
    pub buffers: Buffers,
    /// Events.
    pub events: Events,
    /// Kernels that were seen.
    pub code: Code,
    doorbells: Mapping,
    queues: Mutex<BTreeMap<u32, Queue>>,
    tells_all: bool,
}

static CARD: OnceLock<Option<Card>> = OnceLock::new();

/// The card, made when it is first asked for; `None` if it cannot be, which is told.
pub fn card() -> Option<&'static Card> {
    CARD.get_or_init(|| Card::open().inspect_err(|reason| crate::tell(reason)).ok()).as_ref()
}

/// The card, if somebody has opened it: a request to another driver must not make one.
pub fn card_if_open() -> Option<&'static Card> {
    CARD.get()?.as_ref()
}

/// Whether all is to be told.
pub fn tells_all() -> bool {
    card_if_open().is_some_and(|card| card.tells_all)
}

/// A clock that goes on steadily, ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is ours, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Card {
    fn open() -> Result<Card, String> {
        let config = Config::from_env().map_err(|error| error.to_string())?;
        let (arch, options) = stand_in(&config)?;
        let vram_bytes = options.memory_bytes;
        let gpu = Gpu::new(arch, options).map_err(|error| error.to_string())?;
        let file = File::new(FILE_BYTES).ok_or("there is no room for the card's memory")?;
        let doorbells = file.map(DOORBELLS, DOORBELLS_BYTES).ok_or("there is no room for the card's doorbells")?;
        Ok(Card {
            gpu,
            vram_bytes,
            file,
            buffers: Buffers::new(vram_bytes),
            events: Events::default(),
            code: Code::default(),
            doorbells,
            queues: Mutex::default(),
            tells_all: config.log >= Level::Info,
        })
    }

    /// Makes a queue and starts it: its number and where its doorbell is, in the file.
    ///
    /// # Errors
    /// `EINVAL` for a kind that is not here (SDMA, for which the runtime has kernels too), or memory that is not there;
    /// `ENOSPC` without a doorbell left.
    pub fn create_queue(&'static self, args: &mut CreateQueue) -> Result<(), Errno> {
        if args.queue_type != QUEUE_TYPE_AQL {
            return Err(Errno(libc::EINVAL));
        }
        let mut queues = lock(&self.queues);
        let id = (0..(DOORBELLS_BYTES / 8) as u32).find(|id| !queues.contains_key(id)).ok_or(Errno(libc::ENOSPC))?;
        // SAFETY: the doorbells are mapped as long as the card is, which is for ever, and there are more than `id`; both sides
        // reach them by atomics only.
        let doorbell = unsafe { AtomicU64::from_ptr(self.doorbells.host().as_ptr().cast::<u64>().add(id as usize)) };
        queues.insert(id, Queue::start(self, args, doorbell)?);
        args.queue_id = id;
        args.doorbell_offset = DOORBELLS + 8 * u64::from(id);
        Ok(())
    }

    /// Ends a queue.
    ///
    /// # Errors
    /// `EINVAL` if there is none of this number.
    pub fn destroy_queue(&self, id: u32) -> Result<(), Errno> {
        let queue = lock(&self.queues).remove(&id).ok_or(Errno(libc::EINVAL))?;
        queue.end();
        Ok(())
    }
}
