//! Pinned host memory between a caller's slices and a device, for drivers whose copies run behind the host.
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
use std::sync::{Mutex, PoisonError};

use StreamName::{Compute, Transfer};

use crate::Result;
use crate::driver::DriverEvent;

/// The ring.
pub(crate) const RING_BYTES: usize = 16 << 20;
/// The longest piece, and the bytes behind which there is a mark.
pub(crate) const MARK_BYTES: usize = RING_BYTES / 4;
/// Where pieces begin: a multiple of what a device's copies like best.
const ALIGN: usize = 256;
/// Writes from here on go on a stream of their own: over the bus (some 50 GB/s) they take longer than two waits of a stream for
/// another and one more copy on the device.
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// A stream of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamName {
    /// Kernels, products, copies and fills on the device, reads and small writes.
    Compute,
    /// Large writes, as far as the ring in device memory.
    Transfer,
}

/// What a driver does for its rings. Work on a stream is done in its order.
pub(crate) trait CopyEngine {
    /// Pinned memory.
    fn pin(&self, bytes: usize) -> Result<*mut u8>;

    /// Device memory for the second ring.
    fn reserve(&self, bytes: usize) -> Result<u64>;

    /// Gives it back.
    ///
    /// # Safety
    /// - `address` came from [`CopyEngine::reserve`], and no copy uses it.
    unsafe fn release(&self, address: u64) -> Result<()>;

    /// What comes later on the second stream waits for the work so far on the first.
    fn order(&self, first: StreamName, second: StreamName) -> Result<()>;

    /// Begins a copy on the device, on the stream of the computations.
    ///
    /// # Safety
    /// - `bytes` bytes from `target` and from `source` each lie in one live block or in the ring.
    unsafe fn move_on_device(&self, target: u64, source: u64, bytes: usize) -> Result<()>;

    /// Gives it back.
    ///
    /// # Safety
    /// - `memory` came from [`CopyEngine::pin`], and no copy uses it.
    unsafe fn unpin(&self, memory: *mut u8) -> Result<()>;

    /// Begins a copy to the device.
    ///
    /// # Safety
    /// - `bytes` bytes from `target` lie in one live block, and as many from `source` in pinned memory, unchanged until it is done.
    unsafe fn upload(&self, stream: StreamName, target: u64, source: *const u8, bytes: usize) -> Result<()>;

    /// Begins a copy from the device, on the stream of the computations.
    ///
    /// # Safety
    /// - `bytes` bytes from `source` lie in one live block, and as many from `target` in pinned memory that nobody else uses until
    ///   it is done.
    unsafe fn download(&self, target: *mut u8, source: u64, bytes: usize) -> Result<()>;

    /// A mark after all that is on the stream of the computations, with a mark that is no longer needed.
    fn mark(&self, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>>;
}

/// A driver's ring, made by its first copy.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Option<PinnedRing>>);

/// Whether a copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    Yes,
    /// There is no pinned memory to be had: the driver copies as it can.
    No,
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
    /// Copies to the device; `source` can be reused when this returns.
    ///
    /// # Safety
    /// - `source.len()` bytes from `address` lie in one live block.
    pub unsafe fn write(&self, engine: &impl CopyEngine, address: u64, source: &[u8]) -> Result<Staged> {
        self.with(engine, |ring| {
            let device = ring.device_for(engine, source.len());
            for (n, piece) in source.chunks(MARK_BYTES).enumerate() {
                let (start, target) = (ring.place(engine, piece.len())?, address + (n * MARK_BYTES) as u64);
                // SAFETY:
                // - `place` gives a range of the rings that no piece on its way uses, as long as the piece.
                // - the device's range is the caller's duty; the rings' stay as they are while the piece is listed.
                unsafe {
                    let slot = ring.memory.add(start);
                    piece.as_ptr().copy_to_nonoverlapping(slot, piece.len());
                    match device.map(|device| device + start as u64) {
                        None => engine.upload(Compute, target, slot, piece.len())?,
                        Some(arrival) => {
                            engine.upload(Transfer, arrival, slot, piece.len())?;
                            engine.order(Transfer, Compute)?;
                            engine.move_on_device(target, arrival, piece.len())?;
                        }
                    }
                }
                ring.track(engine, PieceInFlight { start, bytes: piece.len(), target: None, mark: None })?;
            }
            Ok(())
        })
    }

    /// Copies ranges from the device, after all work so far, and waits for them.
    ///
    /// # Safety
    /// - As many bytes as each target has, from its address on, lie in one live block.
    pub unsafe fn read(&self, engine: &impl CopyEngine, parts: &mut [(u64, &mut [u8])]) -> Result<Staged> {
        self.with(engine, |ring| {
            for (address, target) in parts.iter_mut() {
                for (n, piece) in target.chunks_mut(MARK_BYTES).enumerate() {
                    let (start, source) = (ring.place(engine, piece.len())?, *address + (n * MARK_BYTES) as u64);
                    // SAFETY: as in `write`; the piece's target outlives its way there, which ends before this returns or is forgotten.
                    unsafe { engine.download(ring.memory.add(start), source, piece.len())? };
                    let target = Some(piece.as_mut_ptr());
                    ring.track(engine, PieceInFlight { start, bytes: piece.len(), target, mark: None })?;
                }
            }
            while !ring.in_flight.is_empty() {
                ring.retire(engine)?;
            }
            Ok(())
        })
    }

    /// Ends it.
    pub fn close(&self, engine: &impl CopyEngine) {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut ring) = ring {
            // A device that is lost lands nothing and takes nothing back, and nobody is left to tell.
            while !ring.in_flight.is_empty() && ring.retire(engine).is_ok() {}
            // SAFETY: all that used them has landed, or never will.
            unsafe {
                if !ring.memory.is_null() {
                    let _ = engine.unpin(ring.memory);
                }
                if let Some(Some(device)) = ring.device {
                    let _ = engine.release(device);
                }
            }
        }
    }

    fn with(&self, engine: &impl CopyEngine, copy: impl FnOnce(&mut PinnedRing) -> Result<()>) -> Result<Staged> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = guard.get_or_insert_with(|| PinnedRing {
            memory: engine.pin(RING_BYTES).unwrap_or(std::ptr::null_mut()),
            device: None,
            head: 0,
            in_flight: VecDeque::new(),
            unmarked_bytes: 0,
            spare: Vec::new(),
        });
        if ring.memory.is_null() {
            return Ok(Staged::No);
        }
        let outcome = copy(ring);
        if outcome.is_err() {
            // What is still on its way may lead to a slice that is about to go; marks to come are to tell of it all the same.
            ring.in_flight.iter_mut().for_each(|piece| piece.target = None);
            let _ = engine.order(Transfer, Compute);
        }
        outcome.map(|()| Staged::Yes)
    }
}

impl PinnedRing {
    /// The ring in device memory, for a write that is large enough.
    fn device_for(&mut self, engine: &impl CopyEngine, bytes: usize) -> Option<u64> {
        if bytes < LARGE_BYTES {
            return None;
        }
        *self.device.get_or_insert_with(|| engine.reserve(RING_BYTES).ok())
    }

    /// A range for a piece, once nothing uses it.
    fn place(&mut self, engine: &impl CopyEngine, bytes: usize) -> Result<usize> {
        let start = if self.head + bytes <= RING_BYTES { self.head } else { 0 };
        let overlaps = |piece: &PieceInFlight| piece.start < start + bytes && start < piece.start + piece.bytes;
        while self.in_flight.iter().any(overlaps) {
            self.retire(engine)?;
        }
        self.head = (start + bytes).next_multiple_of(ALIGN);
        Ok(start)
    }

    /// Lists a piece that is on its way.
    fn track(&mut self, engine: &impl CopyEngine, piece: PieceInFlight) -> Result<()> {
        self.unmarked_bytes += piece.bytes;
        self.in_flight.push_back(piece);
        if self.unmarked_bytes >= MARK_BYTES { self.mark(engine) } else { Ok(()) }
    }

    /// A mark behind the newest piece.
    fn mark(&mut self, engine: &impl CopyEngine) -> Result<()> {
        let newest = self.in_flight.back_mut().expect("there is a piece to be marked");
        newest.mark = Some(engine.mark(self.spare.pop())?);
        self.unmarked_bytes = 0;
        Ok(())
    }

    /// Waits for the oldest piece and those that the same mark tells of.
    fn retire(&mut self, engine: &impl CopyEngine) -> Result<()> {
        if self.in_flight.iter().all(|piece| piece.mark.is_none()) {
            self.mark(engine)?;
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
