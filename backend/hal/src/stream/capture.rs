//! What a stream does while it records, and how recorded work is done again. The graph itself is in `graph.rs`.

use std::sync::Arc;

use super::Stream;
use crate::command::{Recorded, StreamName};
use crate::driver::{DriverGraph, LaunchFailure, Recording};
use crate::graph::Capture;
use crate::log::{Level, report};
use crate::profile::Category;
use crate::{Buffer, Error, Result};

impl Stream {
    pub(crate) fn begin_capture(&self, replay: &Buffer, log: Level) -> Result<()> {
        let mut state = self.lock();
        if state.capture.is_some() {
            return Err(Error::Capture { what: "another graph".to_owned() });
        }
        self.settle(&mut state);
        self.drain(&mut state);
        let native = match self.driver.begin_capture()? {
            Recording::Native => true,
            Recording::None => false,
            Recording::Refused(reason) => {
                report(log, Level::Warn, format!("graphs are replayed launch by launch: {reason}"));
                false
            }
        };
        let replay = Arc::clone(replay.memory());
        state.ahead.forget();
        state.capture = Some(Capture { commands: Vec::new(), native, failed: None, replay, draws: false });
        Ok(())
    }

    /// What was recorded, and the driver's graph where it has one.
    #[allow(clippy::type_complexity)] // The two halves fail apart.
    pub(crate) fn end_capture(&self) -> Result<(Capture, Result<Option<Box<dyn DriverGraph>>>)> {
        let mut state = self.lock();
        state.ahead.forget();
        let capture =
            state.capture.take().ok_or_else(|| Error::Capture { what: "the end of what was not begun".to_owned() })?;
        let native = if capture.native { self.driver.end_capture().map(Some) } else { Ok(None) };
        Ok((capture, native))
    }

    /// Whether a graph is recorded, which does not wait for the device.
    pub fn is_capturing(&self) -> bool {
        self.lock().capture.is_some()
    }

    /// The address of a number that kernels add to the upper half of their random counters: `None` unless a graph is recorded.
    /// The number is 0 in no replay, and another in each.
    pub fn replay_address(&self) -> Option<u64> {
        let mut state = self.lock();
        let capture = state.capture.as_mut()?;
        capture.draws = true;
        Some(capture.replay.address())
    }

    pub(super) fn count_launch(&self, category: Category) {
        self.launches[category as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Refuses what no graph can do, while one is recorded; the graph is not made then.
    pub(crate) fn refuse_in_capture(&self, what: &'static str) -> Result<()> {
        let mut state = self.lock();
        state.capture.as_mut().map_or(Ok(()), |capture| Err(capture.refuse(what)))
    }

    /// Does recorded work.
    ///
    /// # Safety
    /// As [`crate::Graph::replay`].
    pub(crate) unsafe fn run_commands(&self, commands: &[Recorded]) -> Result<()> {
        self.refuse_in_capture("the replay of another graph")?;
        let mut state = self.lock();
        self.drain(&mut state);
        let start = state.begin_timing(&*self.driver, StreamName::Compute);
        state.ahead.forget();
        for recorded in commands {
            let command = recorded.command();
            self.count_launch(command.work.category);
            // SAFETY: the caller's duty; the limits were checked when it was recorded.
            match unsafe { command.run(&*self.driver) } {
                Ok(()) => {}
                Err(LaunchFailure::Rejected(error)) => return Err(error),
                Err(LaunchFailure::Faulted(message)) => {
                    state.fail(message);
                    return Ok(());
                }
            }
        }
        if let Some(recorder) = &mut state.recorder {
            recorder.end_other(&*self.driver, start, "replay of a graph", 0);
        }
        Ok(())
    }

    /// Launches a driver's graph.
    pub(crate) fn run_native(&self, graph: &dyn DriverGraph) -> Result<()> {
        self.refuse_in_capture("the replay of another graph")?;
        let mut state = self.lock();
        self.drain(&mut state);
        let start = state.begin_timing(&*self.driver, StreamName::Compute);
        self.count_launch(Category::Other);
        state.ahead.forget();
        graph.launch()?;
        if let Some(recorder) = &mut state.recorder {
            recorder.end_other(&*self.driver, start, "replay of a graph", 0);
        }
        Ok(())
    }

    /// Copies ranges of device memory to memory of its own, one behind the other.
    ///
    /// # Safety
    /// - The ranges are live, and from `to` on there is room for all, apart from them.
    pub(crate) unsafe fn gather_ranges(&self, ranges: &[(u64, u64)], to: u64) -> Result<()> {
        let mut at = to;
        for &(address, bytes) in ranges {
            // SAFETY: the caller's duty.
            unsafe { self.driver.copy(at, address, bytes)? };
            at += bytes;
        }
        Ok(())
    }

    /// Copies them back.
    ///
    /// # Safety
    /// - As [`Stream::gather_ranges`].
    pub(crate) unsafe fn scatter_ranges(&self, from: u64, ranges: &[(u64, u64)]) -> Result<()> {
        let mut at = from;
        for &(address, bytes) in ranges {
            // SAFETY: the caller's duty.
            unsafe { self.driver.copy(address, at, bytes)? };
            at += bytes;
        }
        Ok(())
    }
}
