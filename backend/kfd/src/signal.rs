//! `amd_signal_t`: the 64 bytes by which the card tells the host, and queues each other, that something is done.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::memory::Buffers;

/// Bytes of a signal.
const BYTES: u64 = 64;
/// Offsets of its fields.
const VALUE: u64 = 8;
/// See there.
const MAILBOX: u64 = 16;
/// See there.
const EVENT: u64 = 24;
/// See there.
const START: u64 = 32;
/// See there.
const END: u64 = 40;

/// A signal in memory that is mapped to the card. It is looked up once and used at once.
pub struct Signal<'a> {
    buffers: &'a Buffers,
    address: u64,
}

impl<'a> Signal<'a> {
    /// The one at an address; `None` if there is no such memory.
    pub fn at(buffers: &'a Buffers, address: u64) -> Option<Signal<'a>> {
        (address.is_multiple_of(8) && buffers.host(address, BYTES).is_some()).then_some(Signal { buffers, address })
    }

    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let host = self.buffers.host(self.address + offset, 8)?;
        // SAFETY: the pointer is to eight bytes, aligned as the signal is, that both sides reach by atomics only. The program
        // keeps a signal until what tells it is done, as with a card.
        Some(unsafe { AtomicU64::from_ptr(host.as_ptr().cast()) })
    }

    fn value_word(&self) -> Option<&AtomicI64> {
        let host = self.buffers.host(self.address + VALUE, 8)?;
        // SAFETY: as `word`.
        Some(unsafe { AtomicI64::from_ptr(host.as_ptr().cast()) })
    }

    /// Its value; `None` if it is gone.
    pub fn value(&self) -> Option<i64> {
        Some(self.value_word()?.load(Ordering::Acquire))
    }

    /// Says when what it stands for began and ended, takes one from its value, and gives the event to be set, if there is one.
    pub fn complete(&self, start_ns: u64, end_ns: u64) -> Option<u32> {
        self.word(START)?.store(start_ns, Ordering::Relaxed);
        self.word(END)?.store(end_ns, Ordering::Relaxed);
        // What follows the value may be gone when it has changed.
        let event = self.event();
        self.value_word()?.fetch_sub(1, Ordering::AcqRel);
        event
    }

    /// Sets its value, and gives the event to be set.
    pub fn store(&self, value: i64) -> Option<u32> {
        let event = self.event();
        self.value_word()?.store(value, Ordering::Release);
        event
    }

    /// The event behind it, which is written to its mailbox too.
    fn event(&self) -> Option<u32> {
        let mailbox = self.word(MAILBOX)?.load(Ordering::Acquire);
        if mailbox == 0 {
            return None;
        }
        let event = self.word(EVENT)?.load(Ordering::Acquire) as u32;
        let host = self.buffers.host(mailbox, 8).filter(|host| host.addr().get().is_multiple_of(8))?;
        // SAFETY: the pointer is to eight bytes; a mailbox is a slot of a page of them.
        unsafe { AtomicU64::from_ptr(host.as_ptr().cast()) }.store(event.into(), Ordering::Release);
        Some(event)
    }
}
