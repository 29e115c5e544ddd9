//! Captured work: launches recorded once, and put on the stream again as one.
//!
//! Between [`Device::begin_capture`] and [`Device::end_capture`] nothing runs: launches, copies on the device and fills are
//! recorded, by the driver where it has graphs (HIP's and CUDA's) and as a list everywhere. [`Graph::replay`] does them in
//! order, on the addresses that they were recorded with. So memory that was handed out or given back meanwhile stays with the
//! graph until it is dropped. What cannot be repeated on the device alone is refused and ends the capture with an error:
//! reading or writing from the host, waiting, and memory that the pool would have to ask the driver for.
//!
//! A driver's graph is trusted after its first replay gave the bytes that the list gives, and never used again if not: some
//! versions of ROCm are known to replay wrongly. Kernels that draw random numbers add [`Stream::replay_address`]'s number to
//! their counters, so that every replay draws others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::buffer::Memory;
use crate::command::Recorded;
use crate::driver::DriverGraph;
use crate::log::{Level, report};
use crate::pool::Block;
use crate::{Buffer, Device, Error, Result};

/// Bytes that are compared at a time.
pub(crate) const COMPARE_BYTES: u64 = 16 << 20;
/// A replay's number is added to the upper half of a Philox counter in these bits, above every count of eager draws.
const REPLAY_SHIFT: u32 = 40;

/// What a stream keeps while it records.
pub(crate) struct Capture {
    pub commands: Vec<Recorded>,
    /// Whether the driver records, too.
    pub native: bool,
    /// Why it cannot become a graph.
    pub failed: Option<String>,
    /// The number of the replay, for random draws; not a buffer, which would keep the device that keeps this.
    pub replay: Arc<Memory>,
    /// Whether a kernel asked for it.
    pub draws: bool,
}

impl Capture {
    /// Refuses what no graph can do; the graph is not made then.
    pub fn refuse(&mut self, what: &'static str) -> Error {
        let what = match self.commands.iter().rev().find_map(Recorded::operator) {
            Some(label) => format!("{what}, after operator {label}"),
            None => format!("{what}, before the first operator"),
        };
        self.failed.get_or_insert(what.clone());
        Error::Capture { what }
    }
}

enum Native {
    None,
    /// Not replayed yet.
    Untried(Box<dyn DriverGraph>),
    /// Its first replay gave what the list gives.
    Trusted(Box<dyn DriverGraph>),
}

/// Captured work of a device.
pub struct Graph {
    device: Device,
    commands: Vec<Recorded>,
    native: Mutex<Native>,
    memory: Vec<Block>,
    replay: Buffer,
    draws: bool,
    replays: AtomicU64,
}

impl Device {
    /// Begins to record what is put on the device's stream, after waiting for what is there.
    ///
    /// # Errors
    /// [`Error::Capture`] if it records already; as [`Device::sync`].
    pub fn begin_capture(&self) -> Result<()> {
        if self.is_capturing() {
            return Err(Error::Capture { what: "another graph".to_owned() });
        }
        self.sync()?;
        let replay = Buffer::new(self, 8)?;
        self.stream().copy_to_device(&[0; 8], &replay, 0)?;
        self.stream().begin_capture(&replay, self.config().log)?;
        self.pool_begin_capture();
        Ok(())
    }

    /// Ends the recording. Whatever it returns, the device is as before.
    ///
    /// # Errors
    /// [`Error::Capture`] if nothing was recorded, or something that no graph can do; the driver's own.
    pub fn end_capture(&self) -> Result<Graph> {
        let (capture, native) = self.stream().end_capture()?;
        let memory = self.pool_end_capture();
        let give_back = |memory: Vec<Block>| memory.into_iter().for_each(|block| self.pool_free(block));
        if let Some(what) = capture.failed {
            give_back(memory);
            return Err(Error::Capture { what });
        }
        let native = match native {
            Ok(native) => native.map_or(Native::None, Native::Untried),
            Err(error) => {
                give_back(memory);
                return Err(error);
            }
        };
        let Capture { commands, replay, draws, .. } = capture;
        let replay = Buffer::of(self, replay);
        let (native, replays) = (Mutex::new(native), AtomicU64::new(0));
        Ok(Graph { device: self.clone(), commands, native, memory, replay, draws, replays })
    }

    /// Whether it records.
    pub fn is_capturing(&self) -> bool {
        self.stream().is_capturing()
    }
}

impl Graph {
    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Launches, copies and fills in it.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether the driver replays it as one.
    pub fn is_native(&self) -> bool {
        !matches!(*self.native.lock().unwrap_or_else(PoisonError::into_inner), Native::None)
    }

    /// Does the recorded work once more, in the order of the stream.
    ///
    /// # Errors
    /// [`Error::Capture`] while another graph is recorded; the driver's own. What fails on the device comes out at the next
    /// read or wait, as with a launch.
    ///
    /// # Safety
    /// - Every buffer that the recorded work reads or writes, and that was not given back while it was recorded, is alive
    ///   still; no other thread uses it meanwhile.
    pub unsafe fn replay(&self) -> Result<()> {
        let stream = self.device.stream();
        // What waits came before.
        stream.settle_all();
        if self.draws {
            let number = self.replays.fetch_add(1, Ordering::Relaxed) + 1;
            stream.copy_to_device(&(number << REPLAY_SHIFT).to_le_bytes(), &self.replay, 0)?;
        }
        let mut native = self.native.lock().unwrap_or_else(PoisonError::into_inner);
        match &*native {
            // SAFETY: the caller's duty; memory given back meanwhile belongs to the graph.
            Native::None => unsafe { stream.run_commands(&self.commands) },
            Native::Trusted(graph) => stream.run_native(&**graph),
            Native::Untried(graph) => {
                // SAFETY: as above.
                let same = unsafe { self.compare(&**graph)? };
                *native = match std::mem::replace(&mut *native, Native::None) {
                    Native::Untried(graph) if same => Native::Trusted(graph),
                    _ => {
                        let message = format!(
                            "a graph of {} launches did not give on {} what its launches give one by one; it is \
                             replayed as a list instead",
                            self.commands.len(),
                            self.device.info().name
                        );
                        report(self.device.config().log, Level::Warn, message);
                        Native::None
                    }
                };
                Ok(())
            }
        }
    }

    /// Replays the driver's graph and the list from the same state, and compares every byte that either writes. What the
    /// list wrote stays.
    ///
    /// # Safety
    /// As [`Graph::replay`].
    unsafe fn compare(&self, native: &dyn DriverGraph) -> Result<bool> {
        let stream = self.device.stream();
        let ranges = merged(self.commands.iter().flat_map(|command| command.written.iter().copied()));
        let bytes: u64 = ranges.iter().map(|(_, bytes)| bytes).sum();
        let (before, after) = (Buffer::new(&self.device, bytes)?, Buffer::new(&self.device, bytes)?);
        // SAFETY: the ranges are outputs of the recorded work, alive as the caller promises; both buffers have room for all.
        unsafe { stream.gather_ranges(&ranges, before.device_address())? };
        stream.run_native(native)?;
        // SAFETY: as above.
        unsafe {
            stream.gather_ranges(&ranges, after.device_address())?;
            stream.scatter_ranges(before.device_address(), &ranges)?;
            stream.run_commands(&self.commands)?;
            stream.gather_ranges(&ranges, before.device_address())?;
        }
        let chunk = COMPARE_BYTES.min(bytes) as usize;
        let (mut list, mut graph) = (vec![0; chunk], vec![0; chunk]);
        for first in (0..bytes).step_by(chunk.max(1)) {
            let part = chunk.min((bytes - first) as usize);
            stream.read_quietly(&before, first, &mut list[..part])?;
            stream.read_quietly(&after, first, &mut graph[..part])?;
            if list[..part] != graph[..part] {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Ranges, each an address and bytes, without overlaps.
pub(crate) fn merged(written: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
    for (address, bytes) in written.filter(|(_, bytes)| *bytes > 0) {
        let end = ranges.entry(address).or_insert(address + bytes);
        *end = (*end).max(address + bytes);
    }
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some((first, bytes)) if start < *first + *bytes => *bytes = (*bytes).max(end - *first),
            _ => merged.push((start, end - start)),
        }
    }
    merged
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.memory.drain(..).for_each(|block| self.device.pool_free(block));
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} launches on {})", self.commands.len(), self.device.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_ranges_are_merged() {
        let written = [(100, 50), (300, 10), (120, 100), (100, 20), (305, 0), (310, 5)];
        assert_eq!(merged(written.into_iter()), [(100, 120), (300, 10), (310, 5)]);
    }
}
