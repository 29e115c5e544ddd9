//! What records: events around launches, resolved whenever somebody waits.

use std::path::PathBuf;

use super::trace_file::TraceFile;
use super::{TimedLaunch, Timeline, Work};
use crate::command::{Action, Command, StreamName};
use crate::driver::{Driver, DriverEvent};
use crate::log::{Level, report as log};
use crate::{Error, Function, MAX_RANK, Result};

/// Launches that are in flight before they are resolved: events are a limited good.
const PENDING_MOST: usize = 2048;

/// The event before a launch, and what it was given.
pub(crate) struct StartEvent(Box<dyn DriverEvent>);

/// A launch between its two events.
struct Pending {
    begin: Box<dyn DriverEvent>,
    end: Box<dyn DriverEvent>,
    operator: &'static str,
    stream: StreamName,
    /// What did it where there is no function: a direction of copying, a vendor's library.
    name: &'static str,
    function: Option<Function>,
    work: OwnedWork,
    grid: [u32; 3],
    block: [u32; 3],
}

/// A [`Work`] that owns its shape.
struct OwnedWork {
    category: super::Category,
    shape: [usize; MAX_RANK],
    rank: usize,
    bytes: u64,
    flops: u64,
}

impl OwnedWork {
    fn of(work: &Work<'_>) -> OwnedWork {
        let mut shape = [0; MAX_RANK];
        let rank = work.shape.len().min(MAX_RANK);
        shape[..rank].copy_from_slice(&work.shape[..rank]);
        OwnedWork { category: work.category, shape, rank, bytes: work.bytes, flops: work.flops }
    }
}

/// Where resolved launches go.
enum Sink {
    /// To whoever takes the timeline.
    Memory(Vec<TimedLaunch>),
    /// To a Chrome trace.
    File(TraceFile),
}

/// The profile of a stream. All calls come under the stream's lock.
pub(crate) struct Recorder {
    device: String,
    arch: &'static str,
    /// Times are measured from here, since a device measures short spans well and long ones in single precision.
    base: Box<dyn DriverEvent>,
    base_us: f64,
    pending: Vec<Pending>,
    spare: Vec<Box<dyn DriverEvent>>,
    sink: Sink,
    log: Level,
}

impl Recorder {
    /// A recorder that begins now. With a path, launches go there as a Chrome trace.
    ///
    /// # Errors
    /// The driver's own, and [`crate::Error::Io`] for a file that cannot be made.
    pub fn start(driver: &dyn Driver, path: Option<PathBuf>, level: Level) -> Result<Recorder> {
        let (device, arch) = (driver.info().name.clone(), driver.info().arch.name());
        let sink = match path {
            None => Sink::Memory(Vec::new()),
            Some(path) => match TraceFile::open(path.clone(), &device, arch) {
                Ok(file) => Sink::File(file),
                Err(source) => return Err(Error::io("write", path, source)),
            },
        };
        let base = driver.record_event(StreamName::Compute, None)?;
        let (pending, spare) = (Vec::with_capacity(PENDING_MOST), Vec::new());
        Ok(Recorder { device, arch, base, base_us: 0.0, pending, spare, sink, log: level })
    }

    /// Before a launch or copy. What fails here is not worth failing the launch for.
    pub fn begin(&mut self, driver: &dyn Driver, stream: StreamName) -> Option<StartEvent> {
        if self.pending.len() >= PENDING_MOST {
            self.resolve();
        }
        driver.record_event(stream, self.spare.pop()).ok().map(StartEvent)
    }

    /// After a command.
    pub fn end(&mut self, driver: &dyn Driver, start: Option<StartEvent>, command: &Command<'_>) {
        let (name, function) = match command.action {
            Action::Kernel { function, .. } => (command.label, Some(function.clone())),
            Action::Product { plan, .. } => (plan.library(), None),
            Action::Copy { .. } | Action::Fill { .. } | Action::Upload { .. } | Action::Wait { .. } => {
                (command.label, None)
            }
        };
        let Some(StartEvent(begin)) = start else { return };
        let Ok(end) = driver.record_event(command.stream, self.spare.pop()) else { return };
        let (operator, work, [grid, block]) = (command.label, OwnedWork::of(&command.work), command.geometry());
        self.pending.push(Pending { begin, end, operator, stream: command.stream, name, function, work, grid, block });
    }

    /// After something else, such as a copy from or to the host, of so many bytes.
    pub fn end_other(&mut self, driver: &dyn Driver, start: Option<StartEvent>, operator: &'static str, bytes: u64) {
        self.end(driver, start, &Command { label: operator, ..Command::fill(0, 0, bytes) });
    }

    /// Turns events into times; waits for the last of each stream.
    pub fn resolve(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let last_of = |stream| self.pending.iter().rfind(|pending| pending.stream == stream);
        let last = [StreamName::Compute, StreamName::Transfer].map(last_of);
        if last.into_iter().flatten().any(|last| last.end.synchronize().is_err()) {
            // A lost device has no times to tell.
            self.pending.clear();
            return;
        }
        let mut resolved = Vec::with_capacity(self.pending.len());
        for pending in self.pending.drain(..) {
            let Pending { begin, end, operator, stream, name, function, work, grid, block } = pending;
            if let (Ok(before), Ok(during)) = (begin.elapsed_ms(&*self.base), end.elapsed_ms(&*begin)) {
                resolved.push(TimedLaunch {
                    operator: operator.to_owned(),
                    kernel: function.as_ref().map_or(name, |function| function.name()).to_owned(),
                    stream,
                    category: work.category,
                    shape: work.shape[..work.rank].to_vec(),
                    bytes: work.bytes,
                    flops: work.flops,
                    grid,
                    block,
                    start_us: self.base_us + before * 1e3,
                    duration_us: during * 1e3,
                });
            }
            self.spare.push(begin);
            self.spare.push(end);
        }
        // The last event becomes the base: spans stay short.
        if let Some(base) = self.spare.pop() {
            if let Ok(elapsed) = base.elapsed_ms(&*self.base) {
                self.base_us += elapsed * 1e3;
                let old = std::mem::replace(&mut self.base, base);
                self.spare.push(old);
            } else {
                self.spare.push(base);
            }
        }
        match &mut self.sink {
            Sink::Memory(launches) => launches.extend(resolved),
            Sink::File(file) => {
                if let Err(error) = file.append(&resolved) {
                    log(self.log, Level::Error, format!("cannot write the trace {}: {error}", file.path().display()));
                }
            }
        }
    }

    /// What was recorded; empty where it went to a file.
    pub fn finish(mut self) -> Timeline {
        self.resolve();
        let launches = match self.sink {
            Sink::Memory(launches) => launches,
            Sink::File(_) => Vec::new(),
        };
        Timeline { device: self.device, arch: self.arch.to_owned(), launches }
    }
}
