//! Pinned host memory between a caller's slices and a device, for drivers whose copies run behind the host.
//!
//! A GPU copies by itself only from and to memory that cannot be paged out. What a caller gives may be; a driver that gets it
//! waits for everything before the copy, and for the copy. Here each copy goes through a ring of pinned memory, in pieces that
//! follow each other in the stream: a write returns when its last piece is in the ring, and a read of many ranges waits once
//! for what fits into it. A piece's place is used again when a mark behind it in the stream has been reached; there is a
//! mark every [`MARK_BYTES`], so that whoever wraps around waits for the oldest work only.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::driver::DriverEvent;

/// The ring.
pub(crate) const RING_BYTES: usize = 16 << 20;
/// The longest piece, and the bytes behind which there is a mark.
pub(crate) const MARK_BYTES: usize = RING_BYTES / 4;
/// Where pieces begin: a cache line.
const ALIGN: usize = 64;

/// What a driver does for its ring. All of it is in the order of one stream.
pub(crate) trait Link {
    /// Pinned memory.
    fn pin(&self, bytes: usize) -> Result<*mut u8>;

    /// Gives it back.
    ///
    /// # Safety
    /// - `memory` came from [`Link::pin`], and no copy uses it.
    unsafe fn unpin(&self, memory: *mut u8) -> Result<()>;

    /// Begins a copy to the device.
    ///
    /// # Safety
    /// - `bytes` bytes from `target` lie in one live block, and as many from `source` in pinned memory, unchanged until it is done.
    unsafe fn upload(&self, target: u64, source: *const u8, bytes: usize) -> Result<()>;

    /// Begins a copy from the device.
    ///
    /// # Safety
    /// - `bytes` bytes from `source` lie in one live block, and as many from `target` in pinned memory that nobody else uses until
    ///   it is done.
    unsafe fn download(&self, target: *mut u8, source: u64, bytes: usize) -> Result<()>;

    /// A mark after all of that, with a mark that is no longer needed.
    fn mark(&self, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>>;
}

/// A driver's ring, made by its first copy.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Option<Ring>>);

/// Whether a copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    Yes,
    /// There is no pinned memory to be had: the driver copies as it can.
    No,
}

struct Ring {
    /// Null where none was to be had.
    memory: *mut u8,
    /// Where the next piece begins.
    head: usize,
    /// Pieces on their way, oldest first.
    flights: VecDeque<Flight>,
    unmarked_bytes: usize,
    spare: Vec<Box<dyn DriverEvent>>,
}

// SAFETY: the memory is the ring's alone, and the ring is behind a mutex.
unsafe impl Send for Ring {}

struct Flight {
    start: usize,
    bytes: usize,
    /// Where it goes when it has arrived.
    target: Option<*mut u8>,
    /// Reached when it and all before it have arrived.
    mark: Option<Box<dyn DriverEvent>>,
}

impl Staging {
    /// Copies to the device; `source` can be reused when this returns.
    ///
    /// # Safety
    /// - `source.len()` bytes from `address` lie in one live block.
    pub unsafe fn write(&self, link: &impl Link, address: u64, source: &[u8]) -> Result<Staged> {
        self.with(link, |ring| {
            for (n, piece) in source.chunks(MARK_BYTES).enumerate() {
                let start = ring.place(link, piece.len())?;
                // SAFETY:
                // - `place` gives a range of the ring that no flight uses, as long as the piece.
                // - the device's range is the caller's duty; the ring's stays as it is while the flight is listed.
                unsafe {
                    let slot = ring.memory.add(start);
                    piece.as_ptr().copy_to_nonoverlapping(slot, piece.len());
                    link.upload(address + (n * MARK_BYTES) as u64, slot, piece.len())?;
                }
                ring.depart(link, Flight { start, bytes: piece.len(), target: None, mark: None })?;
            }
            Ok(())
        })
    }

    /// Copies ranges from the device, after all work so far, and waits for them.
    ///
    /// # Safety
    /// - As many bytes as each target has, from its address on, lie in one live block.
    pub unsafe fn read(&self, link: &impl Link, parts: &mut [(u64, &mut [u8])]) -> Result<Staged> {
        self.with(link, |ring| {
            for (address, target) in parts.iter_mut() {
                for (n, piece) in target.chunks_mut(MARK_BYTES).enumerate() {
                    let start = ring.place(link, piece.len())?;
                    // SAFETY: as in `write`; the piece outlives the flight, which lands before this returns or is forgotten.
                    unsafe { link.download(ring.memory.add(start), *address + (n * MARK_BYTES) as u64, piece.len())? };
                    let target = Some(piece.as_mut_ptr());
                    ring.depart(link, Flight { start, bytes: piece.len(), target, mark: None })?;
                }
            }
            while !ring.flights.is_empty() {
                ring.land(link)?;
            }
            Ok(())
        })
    }

    /// Ends it.
    pub fn close(&self, link: &impl Link) {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut ring) = ring {
            // A device that is lost lands nothing and takes nothing back, and nobody is left to tell.
            while !ring.flights.is_empty() && ring.land(link).is_ok() {}
            if !ring.memory.is_null() {
                // SAFETY: all that used it has landed, or never will.
                let _ = unsafe { link.unpin(ring.memory) };
            }
        }
    }

    fn with(&self, link: &impl Link, copy: impl FnOnce(&mut Ring) -> Result<()>) -> Result<Staged> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = guard.get_or_insert_with(|| Ring {
            memory: link.pin(RING_BYTES).unwrap_or(std::ptr::null_mut()),
            head: 0,
            flights: VecDeque::new(),
            unmarked_bytes: 0,
            spare: Vec::new(),
        });
        if ring.memory.is_null() {
            return Ok(Staged::No);
        }
        let outcome = copy(ring);
        if outcome.is_err() {
            // What is still on its way may lead to a slice that is about to go.
            ring.flights.iter_mut().for_each(|flight| flight.target = None);
        }
        outcome.map(|()| Staged::Yes)
    }
}

impl Ring {
    /// A range for a piece, once nothing uses it.
    fn place(&mut self, link: &impl Link, bytes: usize) -> Result<usize> {
        let start = if self.head + bytes <= RING_BYTES { self.head } else { 0 };
        let overlaps = |flight: &Flight| flight.start < start + bytes && start < flight.start + flight.bytes;
        while self.flights.iter().any(overlaps) {
            self.land(link)?;
        }
        self.head = (start + bytes).next_multiple_of(ALIGN);
        Ok(start)
    }

    /// Lists a piece that is on its way.
    fn depart(&mut self, link: &impl Link, flight: Flight) -> Result<()> {
        self.unmarked_bytes += flight.bytes;
        self.flights.push_back(flight);
        if self.unmarked_bytes >= MARK_BYTES { self.mark(link) } else { Ok(()) }
    }

    fn mark(&mut self, link: &impl Link) -> Result<()> {
        let mark = link.mark(self.spare.pop())?;
        if let Some(newest) = self.flights.back_mut() {
            newest.mark = Some(mark);
        }
        self.unmarked_bytes = 0;
        Ok(())
    }

    /// Waits for the oldest piece and those that the same mark tells of.
    fn land(&mut self, link: &impl Link) -> Result<()> {
        if self.flights.iter().all(|flight| flight.mark.is_none()) {
            self.mark(link)?;
        }
        let marked = self.flights.iter().position(|flight| flight.mark.is_some()).expect("there is a mark now");
        let mark = self.flights[marked].mark.as_ref().expect("it was found by its mark");
        mark.synchronize()?;
        for flight in self.flights.drain(..=marked) {
            if let Some(target) = flight.target {
                // SAFETY: the piece has arrived in the ring; its target lives as long as the flight has one, and is as long.
                unsafe { self.memory.add(flight.start).copy_to_nonoverlapping(target, flight.bytes) };
            }
            self.spare.extend(flight.mark);
        }
        Ok(())
    }
}
