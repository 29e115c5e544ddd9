//! The order of a device's work: launches, copies, waiting, and what is kept of failures.
//!
//! A launch that fails after it was accepted poisons its outputs and everything launched before somebody is told. The
//! first read or wait after it returns the fault; reads of poisoned buffers go on returning it. Launches check what is
//! cheap and fatal: the size of the argument struct, the grid, the block and LDS. An index outside its axis that a kernel
//! found (`index_fault.rs`) comes out at the same places, and poisons nothing.

mod capture;
mod collective;
mod deferred;
mod early;
mod replay;
mod transfer;
mod vendor;

pub use transfer::HostCopy;

use deferred::Deferred;
use early::Ahead;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::buffer::Memory;
use crate::command::{Action, Command, Recorded, StreamName};
use crate::device::DeviceInner;
use crate::driver::{Driver, DriverEvent, LaunchFailure};
use crate::fault::{Fault, LaunchHistory};
use crate::graph::Capture;
use crate::index_fault::IndexRecord;
use crate::log::Level;
use crate::print::{Printing, show};
use crate::profile::{Recorder, StartEvent, Timeline, Work};
use crate::queue::Queue;
use crate::replay::Replaying;
use crate::staging::Staging;
use crate::watch::{KINDS, Sampler};
use crate::{Buffer, Config, Device, Error, Function, Result};

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The operator, for messages and profiles.
    pub label: &'static str,
    /// Workgroups per axis.
    pub grid: [u32; 3],
    /// Threads of a workgroup per axis.
    pub block: [u32; 3],
    /// LDS beyond what the kernel declares, bytes.
    pub lds_bytes: u32,
    /// The kernel's one struct argument.
    pub args: &'a [u8],
    /// What it writes, to be poisoned if it fails.
    pub outputs: &'a [&'a Buffer],
    /// What it is about, for profiles.
    pub work: Work<'a>,
}

/// A device's stream: what is put on it is done in order.
pub struct Stream {
    device: Weak<DeviceInner>,
    driver: Arc<dyn Driver>,
    /// Whether every launch is waited for.
    sync: bool,
    /// Whether launches are not made: somebody wants to know which kernels they need.
    plans: bool,
    /// Whether launches that come again are replayed.
    replays: bool,
    lds_bytes: u32,
    pub(crate) index: IndexRecord,
    pub(crate) printing: Printing,
    /// Of each kind.
    launches: [AtomicU64; KINDS],
    sampler: Sampler,
    profiled: AtomicBool,
    /// Locked before `state`, where both are.
    staging: Staging,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) history: LaunchHistory,
    /// A fault nobody has been told of.
    pending: Option<Arc<Fault>>,
    recorder: Option<Recorder>,
    capture: Option<Capture>,
    /// Launches that wait for others of their kind.
    pub(crate) queue: Queue,
    /// Work that waits for its kernels to be compiled.
    deferred: Deferred,
    /// Launches that may go as a graph.
    pub(crate) replays: Replaying,
    /// What has its place in the stream's order last.
    ahead: Ahead,
    /// What has reached the driver.
    #[cfg(test)]
    pub(crate) log: Vec<Recorded>,
}

impl State {
    /// Keeps the fault of the newest launch, which nobody can be told of at once.
    pub(crate) fn fail(&mut self, message: String) -> Arc<Fault> {
        let fault = Arc::new(self.history.fault(message));
        Arc::clone(self.pending.get_or_insert(fault))
    }

    /// Whether launches are made as they come: they are recorded, or a failure waits to be told.
    pub(crate) fn is_direct(&self) -> bool {
        self.capture.is_some() || self.recorder.is_some() || self.pending.is_some()
    }

    /// The event before something that is timed; `None` where nothing is, or where it is recorded instead of done.
    fn begin_timing(&mut self, driver: &dyn Driver, stream: StreamName) -> Option<StartEvent> {
        if self.capture.is_some() {
            return None;
        }
        self.recorder.as_mut()?.begin(driver, stream)
    }
}

impl Stream {
    pub(crate) fn new(device: Weak<DeviceInner>, driver: Arc<dyn Driver>, config: &Config, plans: bool) -> Stream {
        let lds_bytes = driver.info().lds_bytes;
        let state = Mutex::new(State {
            history: LaunchHistory::new(),
            pending: None,
            recorder: None,
            capture: None,
            queue: Queue::default(),
            deferred: Deferred::default(),
            replays: Replaying::default(),
            ahead: Ahead::default(),
            #[cfg(test)]
            log: Vec::new(),
        });
        let (launches, profiled) = (Default::default(), AtomicBool::new(false));
        let sampler = Sampler::default();
        let index = IndexRecord::new(config.check_index);
        let printing = Printing::default();
        let (sync, staging) = (config.sync, Staging::new(Arc::clone(&driver)));
        let replays = config.replay && !sync && driver.replays();
        Stream {
            device,
            driver,
            sync,
            plans,
            replays,
            lds_bytes,
            index,
            printing,
            launches,
            sampler,
            profiled,
            staging,
            state,
        }
    }

    /// The device.
    pub fn device(&self) -> Device {
        Device::from_inner(
            self.device.upgrade().expect("a stream is borrowed from its device, which is therefore there"),
        )
    }

    /// Launches since the device was opened.
    ///
    /// Those that waited to share one are launched, and counted, now.
    pub fn launches(&self) -> u64 {
        self.settle_all();
        self.launched().iter().sum()
    }

    /// Those that have been made, of each kind.
    fn launched(&self) -> [u64; KINDS] {
        self.launches.each_ref().map(|launches| launches.load(Ordering::Relaxed))
    }

    /// Launches that have been made, and the time in those that were timed because somebody watches: of each kind.
    #[cfg(unix)]
    pub(crate) fn watched(&self) -> ([u64; KINDS], [f64; KINDS]) {
        let launched = self.launched();
        (launched, self.sampler.ask(launched.iter().sum()))
    }

    /// Puts a kernel on the stream. Allocates nothing unless it fails.
    ///
    /// # Errors
    /// [`Error::Arguments`] if `args` is not as long as the kernel's arguments; [`Error::LaunchShape`] for an empty grid
    /// or block, more threads or LDS than there can be; the driver's own where it refuses at once. With `ROCFIRE_SYNC=1`
    /// also [`Error::Fault`], which otherwise comes at the next read or wait.
    ///
    /// # Safety
    /// - `launch.args` is the bytes of the struct that the kernel was compiled with, and every address in it leads to
    ///   memory of this device that has a handle until the call returns, and that covers all that the kernel accesses
    ///   for this grid, block and these arguments.
    /// - `launch.outputs` names every buffer that the kernel writes.
    pub unsafe fn launch(&self, function: &Function, launch: &Launch<'_>) -> Result<()> {
        // SAFETY: the caller's duties, passed on.
        unsafe { self.launch_command(function, launch, &Command::kernel(function, launch)) }
    }

    /// # Safety
    /// - As [`Stream::launch`], of which this is the command.
    unsafe fn launch_command(&self, function: &Function, launch: &Launch<'_>, command: &Command<'_>) -> Result<()> {
        self.check(function, launch)?;
        let mut state = self.lock();
        self.settle(&mut state);
        let written = launch.outputs.iter().map(|buffer| buffer.memory());
        // SAFETY: the caller's duties, passed on.
        unsafe { self.submit(&mut state, command, written) }
    }

    /// Launches what waits for others of its kind, and what has its kernel; waits for nothing.
    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        self.settle(&mut state);
        self.put_arrived(&mut state);
        self.put_held(&mut state);
    }

    pub(crate) fn waits_for_each(&self) -> bool {
        self.sync
    }

    /// A launch that was checked, in order behind all that does not wait, or kept until its kernel has come.
    ///
    /// # Safety
    /// - As [`Stream::launch`] or [`Stream::launch_vendor`]; `written` is all that it writes.
    pub(crate) unsafe fn submit<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>> + Clone,
    ) -> Result<()> {
        if self.plans {
            return Ok(());
        }
        if self.must_wait(state, command) && self.defer(state, command, written.clone())? {
            return Ok(());
        }
        // SAFETY: the caller's duties, passed on.
        unsafe { self.put(state, command, written) }
    }

    /// A launch whose turn it is: held, where others may go with it as a graph.
    ///
    /// # Safety
    /// - As [`Stream::submit`]; its kernel has come.
    unsafe fn put<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>> + Clone,
    ) -> Result<()> {
        let begins_late = state.ahead.put(command, written.clone().map(|memory| (memory.address(), memory.bytes())));
        let command = &Command { begins_late, ..*command };
        if self.hold(state, command, written.clone()) {
            return Ok(());
        }
        self.put_held(state);
        // SAFETY: the caller's duties, passed on.
        unsafe { self.put_alone(state, command, written) }
    }

    /// A launch by itself.
    ///
    /// # Safety
    /// - As [`Stream::put`].
    unsafe fn put_alone<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>> + Clone,
    ) -> Result<()> {
        self.count_launch(command.work.category);
        state.history.record(command);
        if let Some(fault) = &state.pending {
            state.ahead.forget();
            // What this would have read may be what the failed launch should have written.
            poison(written, fault);
            return Ok(());
        }
        // SAFETY: the caller's duties.
        let outcome = match unsafe { self.execute(state, command, written.clone()) } {
            Ok(true) if self.sync => match self.driver.synchronize() {
                Ok(()) => return self.tell(),
                Err(error) => Err(LaunchFailure::Faulted(error.to_string())),
            },
            outcome => outcome,
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(LaunchFailure::Rejected(error)) => {
                state.ahead.forget();
                let fault = Arc::new(state.history.fault(error.to_string()));
                poison(written, &fault);
                Err(error)
            }
            Err(LaunchFailure::Faulted(message)) => {
                let fault = Arc::new(state.history.fault(message));
                poison(written, &fault);
                if self.sync {
                    return Err(Error::Fault(fault));
                }
                state.pending = Some(fault);
                Ok(())
            }
        }
    }

    /// Puts a command on its stream, timed where launches are, and takes it down where a graph is recorded. Whether it was put
    /// there: a driver without graphs does nothing meanwhile.
    ///
    /// # Safety
    /// - As [`Command::run`].
    unsafe fn execute<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>>,
    ) -> Result<bool, LaunchFailure> {
        if !matches!(command.action, Action::Kernel { .. }) {
            state.ahead.forget();
        }
        if let Some(capture) = &mut state.capture {
            if let Some(what) = command.refused_in_graphs() {
                return Err(LaunchFailure::Rejected(capture.refuse(what)));
            }
            capture.commands.push(Recorded::new(command, written.map(|memory| &**memory)));
            if !capture.native {
                return Ok(false);
            }
        }
        #[cfg(test)]
        state.log.push(Recorded::new(command, std::iter::empty()));
        let start = state.begin_timing(&*self.driver, command.stream);
        let alone = start.is_none() && state.capture.is_none() && command.stream == StreamName::Compute;
        let sampled = if alone { self.sampler.begin(&*self.driver) } else { None };
        // SAFETY: the caller's duties.
        unsafe { command.run(&*self.driver)? };
        self.sampler.end(&*self.driver, sampled, command.work.category);
        if let Some(recorder) = &mut state.recorder {
            recorder.end(&*self.driver, start, command);
        }
        Ok(true)
    }

    /// Puts a copy or fill of checked ranges on its stream; whether it was put there, or waits until it can be.
    fn transfer(&self, command: &Command<'_>, target: &Buffer) -> Result<bool> {
        let mut state = self.lock();
        let memory = std::iter::once(target.memory());
        if self.must_wait(&mut state, command) && self.defer(&mut state, command, memory)? {
            return Ok(true);
        }
        // SAFETY: the ranges were checked to lie in their buffers, each of which is one live block.
        unsafe { self.transfer_now(state, command) }
    }

    /// Puts a command of the staging on its stream. It is never kept, since its place in the ring is soon used again. So whatever was
    /// kept meanwhile goes first.
    ///
    /// # Safety
    /// - As [`Command::run`].
    unsafe fn put_staged(&self, command: &Command<'_>) -> Result<()> {
        let mut state = self.lock();
        self.drain(&mut state);
        // SAFETY: the caller's duty.
        unsafe { self.transfer_now(state, command) }.map(drop)
    }

    /// # Safety
    /// - As [`Command::run`], of a command that is no kernel.
    unsafe fn transfer_now(&self, mut state: MutexGuard<'_, State>, command: &Command<'_>) -> Result<bool> {
        self.put_held(&mut state);
        // SAFETY: the caller's duty.
        let outcome = unsafe { self.execute(&mut state, command, std::iter::empty()) };
        drop(state);
        outcome.map_err(|failure| match failure {
            LaunchFailure::Rejected(error) => self.explain(error),
            LaunchFailure::Faulted(_) => unreachable!("copies and fills are refused at once or not at all"),
        })
    }

    /// Copies host memory to `first_byte` of a buffer.
    ///
    /// # Errors
    /// [`Error::Shape`] if it does not fit; the driver's own.
    pub fn copy_to_device(&self, source: &[u8], target: &Buffer, first_byte: u64) -> Result<()> {
        let bytes = source.len() as u64;
        self.require_range("copy_to_device", "target", target, first_byte, bytes)?;
        self.refuse_in_capture("a copy from the host")?;
        self.settle_for(target);
        if bytes == 0 {
            return Ok(());
        }
        if self.defer_write(source, target, first_byte) {
            self.written(target, bytes);
            return Ok(());
        }
        // SAFETY: the ranges are those of `write`'s caller, and places in the rings.
        let put = |command: &Command<'_>| unsafe { self.put_staged(command) };
        // SAFETY: the range was checked to lie in the buffer, which is one live block; `put` puts commands on their streams.
        let outcome = unsafe { self.staging.write(target.device_address() + first_byte, source, put) };
        outcome.map_err(|error| self.explain(error))?;
        self.written(target, bytes);
        Ok(())
    }

    /// Copies from `first_byte` of a buffer to host memory, after all work so far.
    ///
    /// # Errors
    /// [`Error::Shape`] if the buffer ends before; [`Error::Fault`] if a launch that should have written the buffer, or
    /// any launch since somebody was told, failed; [`Error::Index`] if one since then found an index outside its axis, whether
    /// the buffer has to do with it or not; the driver's own.
    pub fn copy_to_host(&self, source: &Buffer, first_byte: u64, target: &mut [u8]) -> Result<()> {
        self.read_quietly(source, first_byte, target)?;
        self.tell()
    }

    /// The same, of whose caller nobody can be told of indices.
    pub(crate) fn read_quietly(&self, source: &Buffer, first_byte: u64, target: &mut [u8]) -> Result<()> {
        let bytes = target.len() as u64;
        self.require_range("copy_to_host", "source", source, first_byte, bytes)?;
        self.refuse_in_capture("a copy to the host")?;
        self.settle_all();
        self.raise(Some(source))?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range was checked to lie in the buffer, which is one live block.
        self.timed("copy to the host", bytes, || unsafe {
            self.staging.read(&mut [(source.device_address() + first_byte, target)])
        })?;
        self.resolve_profile();
        Ok(())
    }

    /// Copies `bytes` between buffers, each from its own first byte.
    ///
    /// # Errors
    /// [`Error::Shape`] if either ends before, or if both are one buffer and the ranges overlap; the driver's own.
    pub fn copy(&self, source: &Buffer, source_byte: u64, target: &Buffer, target_byte: u64, bytes: u64) -> Result<()> {
        self.require_range("copy", "source", source, source_byte, bytes)?;
        self.require_range("copy", "target", target, target_byte, bytes)?;
        if source.same(target) && source_byte.abs_diff(target_byte) < bytes {
            let got = format!("{bytes} bytes from {source_byte} to {target_byte} of one buffer");
            return Err(Error::shape("copy", "target", "apart from the source", got));
        }
        if bytes == 0 {
            return Ok(());
        }
        self.settle_for(source);
        self.settle_for(target);
        let (to, from) = (target.device_address() + target_byte, source.device_address() + source_byte);
        if !self.transfer(&Command::copy(to, from, bytes), target)? {
            return Ok(());
        }
        match source.poison() {
            Some(fault) => target.set_poison(Some(fault)),
            None => self.written(target, bytes),
        }
        Ok(())
    }

    /// Sets `bytes` of a buffer.
    ///
    /// # Errors
    /// [`Error::Shape`] if it ends before; the driver's own.
    pub fn fill(&self, target: &Buffer, first_byte: u64, value: u8, bytes: u64) -> Result<()> {
        self.require_range("fill", "target", target, first_byte, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        self.settle_for(target);
        if !self.transfer(&Command::fill(target.device_address() + first_byte, value, bytes), target)? {
            return Ok(());
        }
        self.written(target, bytes);
        Ok(())
    }

    /// Waits for everything on the stream.
    ///
    /// # Errors
    /// [`Error::Fault`] if a launch failed since somebody was last told, [`Error::Index`] if one found an index outside its axis;
    /// [`Error::DeviceLost`] where the device does not go on after a fault.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_in_capture("waiting for the device")?;
        self.settle_all();
        self.driver.synchronize().map_err(|error| self.explain(error))?;
        self.resolve_profile();
        self.raise(None)?;
        self.tell()
    }

    /// A mark after the work so far, to wait for or to measure from.
    ///
    /// # Errors
    /// The driver's own.
    pub fn record_event(&self) -> Result<Event> {
        self.refuse_in_capture("an event")?;
        self.settle_all();
        Ok(Event(self.driver.record_event(StreamName::Compute, None)?))
    }

    /// Whether launches are timed: only then need launchers say what theirs are about.
    pub fn is_profiled(&self) -> bool {
        self.profiled.load(Ordering::Relaxed)
    }

    /// Begins to time launches; with a path they go there.
    pub(crate) fn start_profile(&self, path: Option<PathBuf>, log: Level) -> Result<()> {
        let mut state = self.lock();
        self.settle(&mut state);
        self.drain(&mut state);
        if state.recorder.is_none() {
            state.recorder = Some(Recorder::start(&*self.driver, path, log)?);
            self.profiled.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends it.
    pub(crate) fn take_profile(&self) -> Option<Timeline> {
        self.profiled.store(false, Ordering::Relaxed);
        let recorder = self.lock().recorder.take();
        recorder.map(Recorder::finish)
    }

    /// A copy from or to the host or another device, timed where launches are.
    pub(crate) fn timed(&self, operator: &'static str, bytes: u64, action: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.is_profiled() {
            return action().map_err(|error| self.explain(error));
        }
        let start = self.lock().begin_timing(&*self.driver, StreamName::Compute);
        action().map_err(|error| self.explain(error))?;
        if let Some(recorder) = &mut self.lock().recorder {
            recorder.end_other(&*self.driver, start, operator, bytes);
        }
        Ok(())
    }

    /// Gives the profile its times, once the device has been waited for anyway.
    fn resolve_profile(&self) {
        if self.is_profiled()
            && let Some(recorder) = &mut self.lock().recorder
        {
            recorder.resolve();
        }
    }

    pub(crate) fn check(&self, function: &Function, launch: &Launch<'_>) -> Result<()> {
        // One that is still being compiled is checked when it has come.
        let Some(info) = function.ready_info() else { return Ok(()) };
        if launch.args.len() != info.explicit_kernarg_bytes as usize {
            return Err(Error::Arguments {
                op: launch.label,
                kernel: info.name.clone(),
                expected_bytes: info.explicit_kernarg_bytes,
                got_bytes: launch.args.len(),
            });
        }
        let shape = |what, expected, got: &dyn fmt::Debug| {
            let (kernel, got) = (info.name.clone(), format!("{got:?}"));
            Err(Error::LaunchShape { op: launch.label, kernel, what, expected, got })
        };
        let Launch { grid, block, .. } = *launch;
        if grid.contains(&0) || block.contains(&0) {
            return shape("grid and block", "without a zero".to_owned(), &(grid, block));
        }
        let threads = block.iter().map(|&extent| u64::from(extent)).product::<u64>();
        if threads > u64::from(info.max_workgroup_threads) {
            return shape("block", format!("at most {} threads", info.max_workgroup_threads), &block);
        }
        // HIP counts the threads of each axis in 32 bits.
        let axis_fits = |axis: usize| u64::from(grid[axis]) * u64::from(block[axis]) <= u64::from(u32::MAX);
        if !(0..3).all(axis_fits) {
            return shape("grid", "fewer than 2^32 threads on each axis".to_owned(), &(grid, block));
        }
        let lds_bytes = u64::from(info.lds_bytes) + u64::from(launch.lds_bytes);
        if lds_bytes > u64::from(self.lds_bytes) {
            return shape("LDS", format!("at most {} bytes", self.lds_bytes), &lds_bytes);
        }
        Ok(())
    }

    /// Tells of a fault: of `source`'s own, else of one that nobody was told of.
    fn raise(&self, source: Option<&Buffer>) -> Result<()> {
        let pending = self.lock().pending.take();
        match source.and_then(Buffer::poison).or(pending) {
            Some(fault) => Err(Error::Fault(fault)),
            None => Ok(()),
        }
    }

    /// Hands on what kernels have left for the host: prints what they printed, and returns an index outside its axis as an error. The
    /// device has been waited for.
    pub(super) fn tell(&self) -> Result<()> {
        show(&self.printing.taken(&*self.driver)?);
        match self.index.take(&*self.driver)? {
            Some(fault) => Err(Error::Index(fault)),
            None => Ok(()),
        }
    }

    /// Adds the last launches to the loss of the device.
    fn explain(&self, error: Error) -> Error {
        match error {
            Error::DeviceLost { call, name, code, history: _ } => {
                Error::DeviceLost { call, name, code, history: self.lock().history.history() }
            }
            other => other,
        }
    }

    /// A buffer of which all was written is no longer what the failed launch left.
    fn written(&self, target: &Buffer, bytes: u64) {
        self.lock().ahead.forget();
        if bytes == target.bytes() {
            target.set_poison(None);
        }
    }

    pub(crate) fn require_range(
        &self,
        op: &'static str,
        arg: &'static str,
        buffer: &Buffer,
        first: u64,
        bytes: u64,
    ) -> Result<()> {
        if !std::ptr::eq(buffer.device().stream(), self) {
            let (expected, got) = (self.device().id().to_string(), buffer.device().id().to_string());
            return Err(Error::DeviceMismatch { op, arg, expected, got });
        }
        match first.checked_add(bytes) {
            Some(end) if end <= buffer.bytes() => Ok(()),
            _ => Err(Error::shape(op, arg, format!("at least {bytes} bytes from {first}"), buffer.bytes())),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} launches on {})", self.launches(), self.driver.info().name)
    }
}

fn poison<'m>(written: impl Iterator<Item = &'m Arc<Memory>>, fault: &Arc<Fault>) {
    written.for_each(|memory| memory.set_poison(Some(Arc::clone(fault))));
}

/// A mark in a stream.
pub struct Event(Box<dyn DriverEvent>);

impl Event {
    /// Waits for the work before it.
    ///
    /// # Errors
    /// The driver's own.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    /// Milliseconds of the device's time from an earlier event of the same stream; waits for both.
    ///
    /// # Errors
    /// The driver's own.
    pub fn elapsed_ms(&self, earlier: &Event) -> Result<f64> {
        earlier.synchronize()?;
        self.synchronize()?;
        self.0.elapsed_ms(&*earlier.0)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Event")
    }
}
