//! Pinned host memory between a caller's slices and a device, for drivers whose copies run behind the host: how writes become
//! commands.
//!
//! A GPU copies by itself only from and to memory that cannot be paged out. What a caller gives may be; a driver that gets it
//! waits for everything before the copy, and for the copy. Here each copy goes through a ring of pinned memory, in pieces that
//! follow each other: a write returns when its last piece is in the ring, and a read of many ranges waits once for what fits
//! into it. A piece's place is used again when a mark behind it has been reached; there is a mark every [`MARK_BYTES`], so
//! that whoever wraps around waits for the oldest work only.
//!
//! A read and a small write are put on the stream of the computations. A large write goes over the bus on a stream of its
//! own, while computations that were put on theirs before it still run: to a second ring, in device memory, which nobody else
//! uses. From that ring it is copied to the caller's memory on the device, in the order of the computations, which is some
//! fifty times as fast. So nothing needs to be known of who uses the caller's memory.
//!
//! A read gains nothing by that way: whoever reads waits for all that was computed before, and then for the bytes. Nor would it
//! be free: on an H200, kernels of rows that run after a copy on the device take 6 to 14% longer, for as long as the process
//! lives, whoever made the copy (CUDA 13.0's driver, `cargo bench-ops -- "quantise e4m3"` with and without such a copy before).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use StreamName::{Compute, Transfer};

use crate::Result;
use crate::command::{Command, StreamName};
use crate::driver::{Driver, DriverEvent};

/// The ring.
pub(crate) const RING_BYTES: usize = 16 << 20;
/// The longest piece, and the bytes behind which there is a mark.
pub(crate) const MARK_BYTES: usize = RING_BYTES / 4;
/// Where pieces begin: a multiple of what a device's copies like best.
const ALIGN: usize = 256;
/// Writes from here on go on a stream of their own: over the bus (some 50 GB/s) they take longer than two waits of a stream for
/// another and one more copy on the device.
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// The rings of a device, made by its first copy.
pub(crate) struct Staging {
    driver: Arc<dyn Driver>,
    ring: Mutex<Option<PinnedRing>>,
}

struct PinnedRing {
    /// Null where none was to be had.
    memory: *mut u8,
    /// The ring in device memory, made by the first large write; `None` in it where there was no memory to be had. A piece has
    /// the same place in both.
    device: Option<Option<u64>>,
    /// Where the next piece begins.
    head: usize,
    /// Pieces on their way, oldest first.
    in_flight: VecDeque<PieceInFlight>,
    unmarked_bytes: usize,
    spare: Vec<Box<dyn DriverEvent>>,
}

// SAFETY: the memory is the ring's alone, and the ring is behind a mutex.
unsafe impl Send for PinnedRing {}

struct PieceInFlight {
    start: usize,
    bytes: usize,
    /// Where it goes when it has arrived.
    target: Option<*mut u8>,
    /// Reached when it and all before it have arrived.
    mark: Option<Box<dyn DriverEvent>>,
}

impl Staging {
    pub fn new(driver: Arc<dyn Driver>) -> Staging {
        Staging { driver, ring: Mutex::default() }
    }

    /// Copies to the device by commands; `source` can be reused when this returns.
    ///
    /// # Safety
    /// - `source.len()` bytes from `address` lie in one live block.
    /// - `put` puts a command on its stream, or fails.
    pub unsafe fn write(&self, address: u64, source: &[u8], put: impl Fn(&Command<'_>) -> Result<()>) -> Result<()> {
        let is_staged = self.with(|ring, driver| {
            let device = ring.device_for(driver, source.len());
            for (n, piece) in source.chunks(MARK_BYTES).enumerate() {
                let (start, target) = (ring.place(driver, piece.len())?, address + (n * MARK_BYTES) as u64);
                // SAFETY:
                // - `place` gives a range of the ring that no piece on its way uses, as long as the piece.
                // - the range stays as it is while the piece is listed.
                let slot = unsafe {
                    let slot = ring.memory.add(start);
                    piece.as_ptr().copy_to_nonoverlapping(slot, piece.len());
                    std::slice::from_raw_parts(slot, piece.len())
                };
                match device.map(|device| device + start as u64) {
                    None => put(&Command::upload(Compute, target, slot))?,
                    Some(arrival) => {
                        put(&Command::upload(Transfer, arrival, slot))?;
                        put(&Command::wait(Compute, Transfer))?;
                        put(&Command::copy(target, arrival, piece.len() as u64))?;
                    }
                }
                ring.track(driver, PieceInFlight { start, bytes: piece.len(), target: None, mark: None })?;
            }
            Ok(())
        })?;
        if is_staged {
            return Ok(());
        }
        put(&Command::upload(Compute, address, source))?;
        // The slice may be gone as soon as this returns.
        self.driver.synchronize()
    }

    /// Copies ranges from the device, after all work so far, and waits for them.
    ///
    /// # Safety
    /// - As many bytes as each target has, from its address on, lie in one live block.
    pub unsafe fn read(&self, parts: &mut [(u64, &mut [u8])]) -> Result<()> {
        let is_staged = self.with(|ring, driver| {
            for (address, target) in parts.iter_mut() {
                for (n, piece) in target.chunks_mut(MARK_BYTES).enumerate() {
                    let (start, source) = (ring.place(driver, piece.len())?, *address + (n * MARK_BYTES) as u64);
                    // SAFETY: as in `write`; the piece's target outlives its way there, which ends before this returns or is forgotten.
                    unsafe {
                        let slot = std::slice::from_raw_parts_mut(ring.memory.add(start), piece.len());
                        driver.download(slot, source)?;
                    }
                    let target = Some(piece.as_mut_ptr());
                    ring.track(driver, PieceInFlight { start, bytes: piece.len(), target, mark: None })?;
                }
            }
            while !ring.in_flight.is_empty() {
                ring.retire(driver)?;
            }
            Ok(())
        })?;
        if is_staged {
            return Ok(());
        }
        for (address, target) in parts {
            // SAFETY: the device's range is the caller's duty, the host's is a slice, which is waited for below.
            unsafe { self.driver.download(target, *address)? };
        }
        self.driver.synchronize()
    }

    /// Copies by the rings; `false` if there is no pinned memory to be had.
    fn with(&self, copy: impl FnOnce(&mut PinnedRing, &dyn Driver) -> Result<()>) -> Result<bool> {
        let driver = &*self.driver;
        let mut guard = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = guard.get_or_insert_with(|| PinnedRing {
            memory: driver.pin(RING_BYTES).unwrap_or(std::ptr::null_mut()),
            device: None,
            head: 0,
            in_flight: VecDeque::new(),
            unmarked_bytes: 0,
            spare: Vec::new(),
        });
        if ring.memory.is_null() {
            return Ok(false);
        }
        let outcome = copy(ring, driver);
        if outcome.is_err() {
            // What is still on its way may lead to a slice that is about to go; marks to come are to tell of it all the same.
            ring.in_flight.iter_mut().for_each(|piece| piece.target = None);
            let _ = driver.order(Transfer, Compute);
        }
        outcome.map(|()| true)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let ring = self.ring.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut ring) = ring {
            // A device that is lost lands nothing and takes nothing back, and nobody is left to tell.
            while !ring.in_flight.is_empty() && ring.retire(&*self.driver).is_ok() {}
            // SAFETY: all that used them has landed, or never will.
            unsafe {
                if !ring.memory.is_null() {
                    self.driver.unpin(ring.memory, RING_BYTES);
                }
                if let Some(Some(device)) = ring.device {
                    let _ = self.driver.free(device);
                }
            }
        }
    }
}

impl PinnedRing {
    /// The ring in device memory, for a write that is large enough.
    fn device_for(&mut self, driver: &dyn Driver, bytes: usize) -> Option<u64> {
        if bytes < LARGE_BYTES {
            return None;
        }
        *self.device.get_or_insert_with(|| driver.allocate(RING_BYTES as u64).ok())
    }

    /// A range for a piece, once nothing uses it.
    fn place(&mut self, driver: &dyn Driver, bytes: usize) -> Result<usize> {
        let start = if self.head + bytes <= RING_BYTES { self.head } else { 0 };
        let overlaps = |piece: &PieceInFlight| piece.start < start + bytes && start < piece.start + piece.bytes;
        while self.in_flight.iter().any(overlaps) {
            self.retire(driver)?;
        }
        self.head = (start + bytes).next_multiple_of(ALIGN);
        Ok(start)
    }

    /// Lists a piece that is on its way.
    fn track(&mut self, driver: &dyn Driver, piece: PieceInFlight) -> Result<()> {
        self.unmarked_bytes += piece.bytes;
        self.in_flight.push_back(piece);
        if self.unmarked_bytes >= MARK_BYTES { self.mark(driver) } else { Ok(()) }
    }

    /// A mark behind the newest piece.
    fn mark(&mut self, driver: &dyn Driver) -> Result<()> {
        let newest = self.in_flight.back_mut().expect("there is a piece to be marked");
        newest.mark = Some(driver.record_event(Compute, self.spare.pop())?);
        self.unmarked_bytes = 0;
        Ok(())
    }

    /// Waits for the oldest piece and those that the same mark tells of.
    fn retire(&mut self, driver: &dyn Driver) -> Result<()> {
        if self.in_flight.iter().all(|piece| piece.mark.is_none()) {
            self.mark(driver)?;
        }
        let marked = self.in_flight.iter().position(|piece| piece.mark.is_some()).expect("there is a mark now");
        let mark = self.in_flight[marked].mark.as_ref().expect("it was found by its mark");
        mark.synchronize()?;
        for piece in self.in_flight.drain(..=marked) {
            if let Some(target) = piece.target {
                // SAFETY: the piece has arrived in the ring; its target lives as long as it is listed, and is as long.
                unsafe { self.memory.add(piece.start).copy_to_nonoverlapping(target, piece.bytes) };
            }
            self.spare.extend(piece.mark);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
