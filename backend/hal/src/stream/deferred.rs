//! Work that waits for its kernels to be compiled.
//!
//! A launch whose kernel is still being compiled is kept, and so is all that comes behind it, in its order; the host goes on and
//! asks for the kernels of later launches, which are compiled meanwhile. Whatever reads, waits, is timed or recorded goes
//! behind all of it, so nobody sees that something waited. Memory that is given back meanwhile is kept from others until all that
//! waits is on the device: the driver is told of it when it is true. Once that is much, the kernels are waited for. A kernel that does not compile is a fault of its launch.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Launch, State, Stream, poison};
use crate::buffer::Memory;
use crate::command::{Action, Command, Recorded, StreamName};
use crate::driver::LaunchFailure;
use crate::profile::Work;
use crate::{Buffer, Error, Function, Result};

/// Host memory up to this size is copied to wait with the rest; for more than that, what waits is waited for.
const WRITE_BYTES_MOST: usize = 4 << 20;

/// How many commands come between two looks at the memory that only they still have.
const LOOKED_AT_EVERY: usize = 8;

/// All that waits on a stream.
#[derive(Default)]
pub(crate) struct Deferred(VecDeque<Waiting>);

struct Waiting {
    recorded: Recorded,
    /// What it writes.
    written: Vec<Held>,
}

/// Memory that waits, which nobody else counts: see [`Buffer::is_unique`].
struct Held(Arc<Memory>);

impl Held {
    fn new(memory: &Arc<Memory>) -> Held {
        Held(memory.hold())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Deferred {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that nobody has any more but what waits.
    fn left(&self) -> u64 {
        self.0.iter().flat_map(|waiting| &waiting.written).map(|held| held.0.held_alone()).sum()
    }
}

impl Command<'_> {
    /// The kernel, if it is one's launch.
    fn function(&self) -> Option<&Function> {
        match self.action {
            Action::Kernel { function, .. } => Some(function),
            Action::Product { .. }
            | Action::Copy { .. }
            | Action::Fill { .. }
            | Action::Upload { .. }
            | Action::Wait { .. } => None,
        }
    }

    /// Whether its kernel is still being compiled.
    fn is_coming(&self) -> bool {
        self.function().is_some_and(|function| !function.is_ready())
    }

    /// Waits for its kernel.
    fn arrive(&self) -> Result<()> {
        self.function().map_or(Ok(()), Function::arrive)
    }
}

impl Stream {
    /// Whether a command has to wait: behind others, or for its kernel.
    pub(super) fn must_wait(&self, state: &mut State, command: &Command<'_>) -> bool {
        if state.deferred.is_empty() && !command.is_coming() {
            return false;
        }
        self.put_arrived(state);
        !state.deferred.is_empty() || command.is_coming()
    }

    /// Keeps a command whose kernel is not there yet, and says whether it did: where commands may not be kept, it waits for the kernel.
    ///
    /// # Errors
    /// What making the kernel said; limits that the launch does not keep to.
    pub(super) fn defer<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>> + Clone,
    ) -> Result<bool> {
        // What comes behind a fault is not launched.
        if state.pending.is_some() {
            return Ok(false);
        }
        if let Some(function) = command.function() {
            function.hurry();
        }
        if state.is_direct() || self.waits_for_each() {
            self.drain(state);
            command.arrive()?;
            self.check_command(command)?;
            return Ok(false);
        }
        let recorded = Recorded::new(command, written.clone().map(|memory| &**memory));
        self.keep(state, recorded, written);
        Ok(true)
    }

    /// Keeps bytes for a buffer behind the commands that wait, and says whether it did: if there are such, and the bytes are few.
    pub(super) fn defer_write(&self, source: &[u8], target: &Buffer, first_byte: u64) -> bool {
        let mut state = self.lock();
        self.put_arrived(&mut state);
        if state.deferred.is_empty() {
            return false;
        }
        if source.len() > WRITE_BYTES_MOST || state.is_direct() {
            self.drain(&mut state);
            return false;
        }
        let upload = Command::upload(StreamName::Compute, target.device_address() + first_byte, source);
        self.keep(&mut state, Recorded::new(&upload, std::iter::empty()), std::iter::once(target.memory()));
        true
    }

    fn keep<'m>(&self, state: &mut State, recorded: Recorded, written: impl Iterator<Item = &'m Arc<Memory>>) {
        if state.deferred.is_empty() {
            self.device().pool_hold();
        }
        state.deferred.0.push_back(Waiting { recorded, written: written.map(Held::new).collect() });
        let is_due = state.deferred.0.len().is_multiple_of(LOOKED_AT_EVERY);
        if is_due && self.device().pool_holds_much(state.deferred.left()) {
            self.drain(state);
        }
    }

    /// Puts all that waits on the device, when the kernels have come, and launches that are held.
    pub(crate) fn drain(&self, state: &mut State) {
        if !state.deferred.is_empty() {
            while let Some(waiting) = state.deferred.0.pop_front() {
                self.put_waiting(state, waiting);
            }
            self.device().pool_release();
        }
        self.put_held(state);
    }

    /// The same where the lock is not held.
    pub(crate) fn drain_all(&self) {
        self.drain(&mut self.lock());
    }

    /// Puts on the device what waits for nothing any more.
    pub(crate) fn put_arrived(&self, state: &mut State) {
        if state.deferred.is_empty() {
            return;
        }
        while state.deferred.0.front().is_some_and(Waiting::has_come) {
            let waiting = state.deferred.0.pop_front().expect("the front was looked at");
            self.put_waiting(state, waiting);
        }
        if state.deferred.is_empty() {
            self.device().pool_release();
        }
    }

    fn put_waiting(&self, state: &mut State, waiting: Waiting) {
        let written = waiting.written.iter().map(|held| &held.0);
        // Behind a fault nothing is launched, and so no kernel need be there.
        if let Some(fault) = state.pending.clone() {
            poison(written, &fault);
            return;
        }
        if let Err(error) = self.put_recorded(state, &waiting.recorded.command(), written.clone()) {
            let fault = state.fail(error.to_string());
            poison(written, &fault);
        }
    }

    fn put_recorded<'m>(
        &self,
        state: &mut State,
        command: &Command<'_>,
        written: impl Iterator<Item = &'m Arc<Memory>> + Clone,
    ) -> Result<()> {
        if let Err(error) = command.arrive().and_then(|()| self.check_command(command)) {
            // So that the fault names it.
            state.history.record(command);
            return Err(error);
        }
        match command.action {
            // SAFETY: whoever asked for the command has answered for it. What it accesses is kept: what it writes is held, and no
            // memory that was live then has been handed out again since.
            Action::Kernel { .. } | Action::Product { .. } => unsafe { self.put(state, command, written) },
            Action::Copy { .. } | Action::Fill { .. } | Action::Upload { .. } | Action::Wait { .. } => {
                self.put_held(state);
                // SAFETY: as above; the ranges were checked to lie in their buffers. An upload's bytes go with the command: they are
                // waited for below.
                let outcome = unsafe { self.execute(state, command, written) };
                outcome.map(drop).map_err(|failure| match failure {
                    LaunchFailure::Rejected(error) => error,
                    LaunchFailure::Faulted(_) => unreachable!("copies and fills are refused at once or not at all"),
                })?;
                if matches!(command.action, Action::Upload { .. }) { self.driver.synchronize() } else { Ok(()) }
            }
        }
    }

    /// The limits of a kernel that has come.
    fn check_command(&self, command: &Command<'_>) -> Result<(), Error> {
        let Action::Kernel { function, grid, block, lds_bytes, args } = command.action else { return Ok(()) };
        let (label, outputs, work) = (command.label, &[][..], Work::default());
        self.check(function, &Launch { label, grid, block, lds_bytes, args, outputs, work })
    }
}

impl Waiting {
    fn has_come(&self) -> bool {
        self.recorded.command().function().is_none_or(Function::has_come)
    }
}
