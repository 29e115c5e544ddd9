//! Holds launches that may be put on the device together, and puts them there: as a graph where they have come before
//! (`../replay.rs`), else one by one.
//!
//! A launch that is held comes in its place in the stream's order: whatever else is put there puts what is held first. Its memory may
//! be given back and handed out again meanwhile, as what uses it then comes behind it; only before memory goes back to the driver
//! must all that is held be on the device. What fails when it is put there is a fault of its launch.

use std::sync::Arc;

use super::{State, Stream, poison};
use crate::buffer::Memory;
use crate::command::{Command, StreamName};
use crate::driver::{DriverKernel, RawLaunch};
use crate::graph::{COMPARE_BYTES, merged};
use crate::log::{Level, report};
use crate::replay::{Choice, HELD_LEAST, HELD_MOST, Held, Instance, Replays, Segment};
use crate::{Error, Result};

/// Most bytes that a segment may write to be compared with its launches, and so to be replayed: the device is at least as long at
/// writing more as the host is at launching it.
const WRITTEN_BYTES_MOST: u64 = 512 << 20;

/// Ends what [`Stream::together`] began, whatever happens in between.
struct Together<'a>(&'a Stream);

impl Drop for Together<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.replays.close() {
            self.0.put_held(&mut state);
        }
    }
}

impl Stream {
    /// Does something whose launches come again in the same order, as a plan's do: on a GPU they may be put on the device
    /// together. Their order, and what they give, is as ever; what fails as they are put there comes out at the next read or wait.
    pub fn together<R>(&self, run: impl FnOnce() -> R) -> R {
        if !self.replays {
            return run();
        }
        self.lock().replays.open();
        let _together = Together(self);
        run()
    }

    /// What was replayed since the device was opened.
    pub fn replays(&self) -> Replays {
        self.lock().replays.counts
    }

    /// Holds a launch, where it may be; whether it does.
    pub(super) fn hold<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>>,
    ) -> bool {
        let may =
            self.replays && state.replays.is_open() && !state.is_direct() && command.stream == StreamName::Compute;
        if !may || self.sampler.is_on() || !state.replays.held.push(command, written) {
            return false;
        }
        if state.replays.held.len() == HELD_MOST {
            self.put_held(state);
        }
        true
    }

    /// Puts on the device what is held.
    pub(super) fn put_held(&self, state: &mut State) {
        if state.replays.held.len() == 0 {
            return;
        }
        let mut held = std::mem::take(&mut state.replays.held);
        let is_put = held.len() >= HELD_LEAST && state.pending.is_none() && self.replay(state, &mut held);
        if !is_put {
            self.put_each(state, &mut held);
        }
        held.clear();
        state.replays.held = held;
    }

    /// Puts held launches on the device one by one.
    fn put_each(&self, state: &mut State, held: &mut Held) {
        for at in 0..held.len() {
            let mut memory = std::mem::take(&mut held.room);
            memory.extend(held.written(at).iter().filter_map(|written| written.memory.upgrade()));
            // SAFETY: whoever launched it has answered for it, and for memory that had a handle then. What has none any more is still
            // the device's, and whatever uses it next comes behind this launch.
            let put = unsafe { self.put_alone(state, &held.command(at), memory.iter()) };
            if let Err(error) = put {
                let fault = state.fail(error.to_string());
                poison(memory.iter(), &fault);
            }
            memory.clear();
            held.room = memory;
        }
    }

    /// Puts what is held on the device as a graph, if it is to be one; whether it did.
    fn replay(&self, state: &mut State, held: &mut Held) -> bool {
        if state.replays.is_full() {
            // What is wrong comes out where it is asked for.
            let _ = self.driver.synchronize();
            state.replays.forget();
        }
        let Some(mut segment) = state.replays.take(held) else { return false };
        match self.replay_segment(state, &mut segment, held) {
            Ok(replayed) => {
                state.replays.keep(held, segment);
                replayed
            }
            Err(refused) => {
                state.replays.counts.refused += 1;
                let device = self.device();
                let (count, name) = (held.len(), &device.info().name);
                report(
                    device.config().log,
                    Level::Info,
                    format_args!("{count} launches on {name} are not replayed: {}", refused.why),
                );
                refused.is_put
            }
        }
    }

    /// Whether it was replayed. A segment that is not to be replayed again is an error.
    fn replay_segment(&self, state: &mut State, segment: &mut Segment, held: &mut Held) -> Result<bool, Refused> {
        let at = match segment.choose(held) {
            Choice::Replay(at) => at,
            Choice::Each => return Ok(false),
            Choice::Make => {
                if segment.is_full() {
                    // What is wrong comes out where it is asked for.
                    let _ = self.driver.synchronize();
                    segment.instances.remove(0);
                }
                segment.instances.push(self.instance(held)?);
                state.replays.counts.graphs += 1;
                segment.instances.len() - 1
            }
        };
        let instance = &mut segment.instances[at];
        let updates = instance.set(held)?;
        let is_compared = &mut instance.is_compared[usize::from(updates > 0)];
        if !std::mem::replace(is_compared, true) {
            return self.compare(state, instance, held);
        }
        // SAFETY: whoever launched each of them has answered for it; as in `put_each`.
        unsafe { instance.graph().replay()? };
        for at in 0..held.len() {
            let command = held.command(at);
            self.count_launch(command.work.category);
            state.history.record(&command);
            #[cfg(test)]
            state.log.push(crate::command::Recorded::new(&command, std::iter::empty()));
        }
        let counts = &mut state.replays.counts;
        counts.replays += 1;
        counts.launches += held.len() as u64;
        counts.updates += updates as u64;
        Ok(true)
    }

    fn instance(&self, held: &Held) -> Result<Instance, Refused> {
        let launches: Vec<(&dyn DriverKernel, RawLaunch<'_>)> = (0..held.len())
            .map(|at| {
                let (function, launch) = held.raw(at);
                (function.kernel(), launch)
            })
            .collect();
        // SAFETY: the segment keeps the kernels; the limits were checked when they were launched.
        let graph = unsafe { self.driver.launch_graph(&launches)? };
        Ok(Instance::new(graph, held))
    }

    /// Replays a graph, and then does its launches one by one from the same state, and compares every byte that either writes. What the
    /// launches wrote stays.
    fn compare(&self, state: &mut State, instance: &mut Instance, held: &mut Held) -> Result<bool, Refused> {
        let ranges = merged(held.all_written());
        let bytes: u64 = ranges.iter().map(|(_, bytes)| bytes).sum();
        if bytes == 0 || bytes > WRITTEN_BYTES_MOST {
            return Err(Refused { why: format!("they write {bytes} bytes"), is_put: false });
        }
        // Not from the pool, which may be locked by whoever waits for this.
        let scratch = self.driver.allocate(2 * bytes)?;
        let (before, after) = (scratch, scratch + bytes);
        // SAFETY: the ranges are what the launches write; the scratch memory has room for both, and is freed below.
        let replayed = unsafe {
            self.gather_ranges(&ranges, before)
                .and_then(|()| instance.graph().replay())
                .and_then(|()| self.gather_ranges(&ranges, after))
                .and_then(|()| self.scatter_ranges(before, &ranges))
        };
        let mut is_put = false;
        let same = replayed.and_then(|()| {
            self.put_each(state, held);
            is_put = true;
            // SAFETY: as above.
            unsafe { self.gather_ranges(&ranges, before)? };
            let chunk = COMPARE_BYTES.min(bytes) as usize;
            let [mut list, mut graph] = [vec![0; chunk], vec![0; chunk]];
            for first in (0..bytes).step_by(chunk) {
                let part = chunk.min((bytes - first) as usize);
                // SAFETY: both ranges lie in the scratch memory.
                unsafe {
                    self.driver.read(before + first, &mut list[..part])?;
                    self.driver.read(after + first, &mut graph[..part])?;
                }
                if list[..part] != graph[..part] {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        // SAFETY: nothing else knows the memory; the driver waits for what uses it.
        let freed = unsafe { self.driver.free(scratch) };
        match same.and_then(|same| freed.map(|()| same)) {
            Ok(true) => Ok(true),
            Ok(false) => Err(Refused { why: "a graph did not give what they give one by one".to_owned(), is_put }),
            Err(error) => Err(Refused { why: error.to_string(), is_put }),
        }
    }
}

/// Why a segment is not replayed, and whether its launches are on the device all the same.
struct Refused {
    why: String,
    is_put: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { why: error.to_string(), is_put: false }
    }
}

#[cfg(all(test, feature = "noop"))]
mod tests;
